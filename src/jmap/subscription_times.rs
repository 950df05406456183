//! When push subscriptions were made, so that few are made in an hour: nobody can have others
//! flooded (RFC 8620 §8.6).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::{AccountId, MonotonicMillis};
use crate::wire::jmap::SetError;

/// How many a user makes in an hour.
pub(super) const MAX_CREATED_PER_HOUR: usize = 60;
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// When each user's subscriptions of the last hour were made, those that are gone too. Cheap to
/// clone.
#[derive(Debug, Clone, Default)]
pub struct SubscriptionTimes(Arc<Mutex<BTreeMap<AccountId, VecDeque<MonotonicMillis>>>>);

impl SubscriptionTimes {
    /// Takes note of one more.
    ///
    /// # Errors
    /// `rateLimit` where there are as many as may be.
    pub(super) fn take(&self, account: AccountId, now: MonotonicMillis) -> Result<(), SetError> {
        let mut all = self.0.lock();
        let of_late = |at: &MonotonicMillis| now.since(*at) < HOUR;
        all.retain(|_, made| made.back().is_some_and(of_late));
        let made = all.entry(account).or_default();
        while made.front().is_some_and(|at| !of_late(at)) {
            made.pop_front();
        }
        if made.len() >= MAX_CREATED_PER_HOUR {
            return Err(SetError::RateLimit(format!(
                "{MAX_CREATED_PER_HOUR} subscriptions may be made in an hour"
            )));
        }
        made.push_back(now);
        Ok(())
    }
}
