//! Limits how many push subscriptions a user creates in an hour (RFC 8620 §8.6).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::{AccountId, MonotonicMillis};
use crate::wire::jmap::SetError;

pub(super) const MAX_CREATED_PER_HOUR: usize = 60;
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// For each user, when the subscriptions of the last hour were created, oldest first. Clones share
/// the times.
#[derive(Debug, Clone, Default)]
pub struct SubscriptionTimes(Arc<Mutex<BTreeMap<AccountId, VecDeque<MonotonicMillis>>>>);

impl SubscriptionTimes {
    /// Counts a subscription that a user creates, even if it is not stored afterwards.
    ///
    /// # Errors
    /// `RateLimit` if the user has created as many as allowed. The refused one is not counted.
    pub(super) fn record(&self, account: AccountId, now: MonotonicMillis) -> Result<(), SetError> {
        let mut all = self.0.lock();
        let is_recent = |at: &MonotonicMillis| now.since(*at) < HOUR;
        all.retain(|_, times| times.back().is_some_and(is_recent));
        let times = all.entry(account).or_default();
        while times.front().is_some_and(|at| !is_recent(at)) {
            times.pop_front();
        }
        if times.len() >= MAX_CREATED_PER_HOUR {
            return Err(SetError::RateLimit(format!(
                "at most {MAX_CREATED_PER_HOUR} subscriptions may be created in an hour"
            )));
        }
        times.push_back(now);
        Ok(())
    }
}
