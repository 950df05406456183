//! How many replies an hour: for an account, to a domain, for the site. Counted in memory, in two half-hour buckets a key.

use std::collections::HashMap;

use crate::model::{AccountId, UtcMillis};

const HALF_HOUR: i64 = 30 * 60 * 1000;
/// Keys remembered; beyond it the oldest half hour is forgotten at once.
const KEYS: usize = 100_000;

/// The counters.
#[derive(Debug, Default)]
pub struct Rate {
    slot: i64,
    now: HashMap<Key, u32>,
    before: HashMap<Key, u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Account(AccountId),
    Domain(String),
    Site,
}

/// The most of each in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of one account.
    pub account: u32,
    /// To one domain.
    pub domain: u32,
    /// Of all accounts.
    pub site: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { account: 100, domain: 500, site: 5_000 }
    }
}

impl Rate {
    /// Counts a reply if it is within the limits; else says which is reached.
    pub fn take(&mut self, now: UtcMillis, account: AccountId, domain: &str, limits: &Limits) -> Result<(), String> {
        let slot = now.0.div_euclid(HALF_HOUR);
        if slot != self.slot || self.now.len() > KEYS {
            let old = std::mem::take(&mut self.now);
            self.before = if slot == self.slot + 1 { old } else { HashMap::new() };
            self.slot = slot;
        }
        let keys = [
            (Key::Account(account), limits.account, "the account"),
            (Key::Domain(domain.to_lowercase()), limits.domain, "the sender's domain"),
            (Key::Site, limits.site, "the site"),
        ];
        for (key, most, whose) in &keys {
            let count = |of: &HashMap<Key, u32>| of.get(key).copied().unwrap_or(0);
            if count(&self.now) + count(&self.before) >= *most {
                return Err(format!("{most} replies an hour for {whose}"));
            }
        }
        for (key, ..) in keys {
            *self.now.entry(key).or_default() += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_holds_so_many() {
        let mut rate = Rate::default();
        let limits = Limits { account: 2, domain: 3, site: 4 };
        let mut take = |minute: i64, account, domain: &str| {
            rate.take(UtcMillis(minute * 60_000), AccountId(account), domain, &limits).is_ok()
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
}
