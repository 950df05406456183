//! How many replies an hour: for an account, to a domain, for the site. Counted in memory, in two
//! half-hour buckets a key.
//!
//! A reply is counted before it is committed, so that no two replies take the last place. What is
//! not sent after all is given back: a delivery that is refused later must not use up the replies
//! to those who write next.

use std::collections::HashMap;

use crate::model::address::fold_domain;
use crate::model::{AccountId, MonotonicMillis};

const HALF_HOUR: u64 = 30 * 60 * 1000;
/// Keys remembered; beyond it the oldest half hour is forgotten at once.
const MAX_TRACKED_KEYS: usize = 100_000;

#[derive(Debug, Default)]
pub struct RateLimiter {
    slot: u64,
    now: HashMap<RateKey, u32>,
    before: HashMap<RateKey, u32>,
}

/// A reply that was counted. It is given back (`refund`) where no reply is sent after all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateCharge {
    slot: u64,
    keys: [RateKey; 3],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RateKey {
    Account(AccountId),
    Domain(String),
    Site,
}

/// The most of each in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// Of one account.
    pub account: u32,
    /// To one domain.
    pub domain: u32,
    /// Of all accounts.
    pub site: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { account: 100, domain: 500, site: 5_000 }
    }
}

impl RateLimiter {
    /// Counts a reply.
    ///
    /// # Errors
    /// Which of the limits is reached; then nothing is counted.
    pub fn charge(
        &mut self,
        now: MonotonicMillis,
        account: AccountId,
        domain: &str,
        limits: &RateLimits,
    ) -> Result<RateCharge, String> {
        let slot = now.0 / HALF_HOUR;
        if slot != self.slot || self.now.len() > MAX_TRACKED_KEYS {
            let old = std::mem::take(&mut self.now);
            self.before = if slot == self.slot + 1 { old } else { HashMap::new() };
            self.slot = slot;
        }
        let keys = [RateKey::Account(account), RateKey::Domain(fold_domain(domain)), RateKey::Site];
        let most = [
            (limits.account, "the account"),
            (limits.domain, "the sender's domain"),
            (limits.site, "the site"),
        ];
        for (key, (most, whose)) in keys.iter().zip(most) {
            let count = |of: &HashMap<RateKey, u32>| of.get(key).copied().unwrap_or(0);
            if count(&self.now) + count(&self.before) >= most {
                return Err(format!("{most} replies an hour for {whose}"));
            }
        }
        for key in &keys {
            *self.now.entry(key.clone()).or_default() += 1;
        }
        Ok(RateCharge { slot, keys })
    }

    /// Counts a reply no more that is not sent after all.
    pub fn refund(&mut self, counted: &RateCharge) {
        let bucket = match self.slot.saturating_sub(counted.slot) {
            0 => &mut self.now,
            1 => &mut self.before,
            _ => return,
        };
        for key in &counted.keys {
            if let Some(count) = bucket.get_mut(key) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_holds_so_many() {
        let mut rate = RateLimiter::default();
        let limits = RateLimits { account: 2, domain: 3, site: 4 };
        let mut take = |minute: u64, account, domain: &str| {
            rate.charge(MonotonicMillis(minute * 60_000), AccountId(account), domain, &limits)
                .is_ok()
        };
        assert!(take(0, 1, "a.example") && take(1, 1, "a.example"));
        assert!(!take(2, 1, "b.example"));
        assert!(take(3, 2, "A.example"));
        assert!(!take(4, 3, "a.example"));
        assert!(take(5, 3, "b.example"));
        assert!(!take(6, 4, "c.example"));
        assert!(!take(40, 1, "c.example"));
        assert!(take(95, 1, "c.example"));
    }

    #[test]
    fn a_reply_that_is_given_back_is_not_counted() {
        let mut rate = RateLimiter::default();
        let limits = RateLimits { account: 1, domain: 9, site: 9 };
        let at = |minute: u64| MonotonicMillis(minute * 60_000);
        let mut counted = Vec::new();
        for minute in [0, 1, 2] {
            counted = vec![rate.charge(at(minute), AccountId(1), "a.example", &limits).unwrap()];
            rate.refund(&counted[0]);
        }
        // Once more than it was taken: nothing is below none.
        rate.refund(&counted[0]);
        let last = rate.charge(at(29), AccountId(1), "a.example", &limits).unwrap();
        assert!(rate.charge(at(31), AccountId(1), "a.example", &limits).is_err());
        rate.refund(&last);
        let late = rate.charge(at(32), AccountId(1), "a.example", &limits).unwrap();
        // Long after, it is forgotten anyway.
        assert!(rate.charge(at(200), AccountId(1), "a.example", &limits).is_ok());
        rate.refund(&late);
        assert!(rate.charge(at(201), AccountId(1), "a.example", &limits).is_err());
    }
}
