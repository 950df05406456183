//! Limits the replies per hour: by one account, to one domain, and by the whole site.
//!
//! - The counts are in memory. Each key has one count for the current half hour and one for the
//!   previous, so a reply counts for 30 to 60 minutes.
//! - A reply is counted before it is committed, so that two deliveries cannot both send the last
//!   reply that a limit allows. The caller refunds it if it is not sent.
//! - `deliver` limits notifications (with reports that a script refused a message) and redirects in
//!   the same way, with limiters of their own.

use std::collections::HashMap;

use crate::model::address::fold_domain;
use crate::model::{AccountId, MonotonicMillis};

const HALF_HOUR: u64 = 30 * 60 * 1000;
/// When more keys than this have a count in the current half hour, the next charge in this half
/// hour forgets all counts.
const MAX_TRACKED_KEYS: usize = 100_000;

#[derive(Debug, Default)]
pub struct RateLimiter {
    /// The half hour of the last charge, counted from the beginning of monotonic time.
    slot: u64,
    /// How often all counts were forgotten, also because a whole half hour had no charge.
    forgotten: u64,
    current: HashMap<RateKey, u32>,
    previous: HashMap<RateKey, u32>,
}

/// A reply that was counted, for `RateLimiter::refund`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateCharge {
    /// The half hour in which it was counted.
    slot: u64,
    /// `RateLimiter::forgotten` when it was counted.
    forgotten: u64,
    keys: [RateKey; 3],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RateKey {
    Account(AccountId),
    Domain(String),
    Site,
}

/// How many replies may be sent in an hour; with 0, none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    pub account: u32,
    pub domain: u32,
    pub site: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { account: 100, domain: 500, site: 5_000 }
    }
}

impl RateLimiter {
    /// Counts a reply of an account to a domain, if the limits of both and of the site allow it.
    ///
    /// # Errors
    /// A text that names the limit that is reached. Nothing is counted then.
    pub fn charge(
        &mut self,
        now: MonotonicMillis,
        account: AccountId,
        domain: &str,
        limits: &RateLimits,
    ) -> Result<RateCharge, String> {
        let slot = now.0 / HALF_HOUR;
        if slot != self.slot || self.current.len() > MAX_TRACKED_KEYS {
            let last = std::mem::take(&mut self.current);
            if slot == self.slot + 1 {
                self.previous = last;
            } else {
                self.previous = HashMap::new();
                self.forgotten += 1;
            }
            self.slot = slot;
        }
        let keys = [RateKey::Account(account), RateKey::Domain(fold_domain(domain)), RateKey::Site];
        let key_limits = [
            (limits.account, "the account"),
            (limits.domain, "one domain"),
            (limits.site, "the site"),
        ];
        for (key, (limit, limited)) in keys.iter().zip(key_limits) {
            let count = |counts: &HashMap<RateKey, u32>| counts.get(key).copied().unwrap_or(0);
            if count(&self.current) + count(&self.previous) >= limit {
                return Err(format!("{limit} messages an hour for {limited}"));
            }
        }
        for key in &keys {
            *self.current.entry(key.clone()).or_default() += 1;
        }
        Ok(RateCharge { slot, forgotten: self.forgotten, keys })
    }

    /// Takes back the count of a reply that is not sent after all. The caller does this once for a
    /// charge at most. Has no effect when the half hour after that of the charge is over, or if the
    /// charge was forgotten.
    pub fn refund(&mut self, charge: &RateCharge) {
        if charge.forgotten != self.forgotten {
            return;
        }
        let counts = match self.slot.saturating_sub(charge.slot) {
            0 => &mut self.current,
            1 => &mut self.previous,
            _ => return,
        };
        for key in &charge.keys {
            if let Some(count) = counts.get_mut(key) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_beyond_a_limit_are_refused_until_earlier_ones_no_longer_count() {
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
        // At minute 40 the replies of the half hour before still count, and at minute 95 no more.
        assert!(!take(40, 1, "c.example"));
        assert!(take(95, 1, "c.example"));
    }

    #[test]
    fn a_refunded_reply_is_not_counted() {
        let mut rate = RateLimiter::default();
        let limits = RateLimits { account: 1, domain: 9, site: 9 };
        let at = |minute: u64| MonotonicMillis(minute * 60_000);
        let first = rate.charge(at(0), AccountId(1), "a.example", &limits).unwrap();
        rate.refund(&first);
        let second = rate.charge(at(1), AccountId(1), "a.example", &limits).unwrap();
        rate.refund(&second);
        // A refund too many does not make a count negative.
        rate.refund(&second);
        let last = rate.charge(at(29), AccountId(1), "a.example", &limits).unwrap();
        assert!(rate.charge(at(31), AccountId(1), "a.example", &limits).is_err());
        rate.refund(&last);
        let late = rate.charge(at(32), AccountId(1), "a.example", &limits).unwrap();
        assert!(rate.charge(at(200), AccountId(1), "a.example", &limits).is_ok());
        // The charge of minute 32 is forgotten, so its refund does not take back the new one.
        rate.refund(&late);
        assert!(rate.charge(at(201), AccountId(1), "a.example", &limits).is_err());
    }

    #[test]
    fn refund_of_a_forgotten_charge_takes_no_later_one_back() {
        let mut rate = RateLimiter::default();
        let limits = RateLimits { account: 1, domain: u32::MAX, site: u32::MAX };
        let now = MonotonicMillis(0);
        let first = rate.charge(now, AccountId(1), "a.example", &limits).unwrap();
        for number in 0..u32::try_from(MAX_TRACKED_KEYS).unwrap() {
            let account = AccountId(number.saturating_add(2));
            rate.charge(now, account, "a.example", &limits).unwrap();
        }
        // Everything was forgotten, so the account may send another one, and only that.
        let second = rate.charge(now, AccountId(1), "a.example", &limits).unwrap();
        rate.refund(&first);
        assert!(rate.charge(now, AccountId(1), "a.example", &limits).is_err());
        rate.refund(&second);
        assert!(rate.charge(now, AccountId(1), "a.example", &limits).is_ok());
    }
}
