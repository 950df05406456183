//! Remembers for some minutes which passwords were right, so that not every request costs a
//! password hash.
//!
//! - An entry is a hash of the PHC string and the password, keyed with a secret of this process.
//! - The caller must ask only for PHC strings that the account has now. So a password that was
//!   changed or removed is refused at once.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::MonotonicMillis;
use crate::store::Error;

/// How long a password is remembered after it was hashed. A use does not prolong it.
const CACHE_LIFETIME: Duration = Duration::from_secs(300);
/// The most passwords that are remembered. With more, none is added until some have expired.
const MAX_CACHED: usize = 10_000;

#[derive(Debug)]
pub(super) struct LoginCache {
    key: [u8; 32],
    /// When each digest expires.
    expiries: Mutex<HashMap<[u8; 32], MonotonicMillis>>,
}

impl LoginCache {
    pub(super) fn new() -> Result<Self, Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|error| Error::Io(format!("no randomness for logins: {error}")))?;
        Ok(Self { key, expiries: Mutex::default() })
    }

    /// Returns the digest by which a password is remembered. The length separates the two texts.
    fn digest(&self, phc: &str, password: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&(phc.len() as u64).to_be_bytes());
        hasher.update(phc.as_bytes());
        hasher.update(password.as_bytes());
        *hasher.finalize().as_bytes()
    }

    pub(super) fn contains(&self, phc: &str, password: &str, now: MonotonicMillis) -> bool {
        let digest = self.digest(phc, password);
        self.expiries.lock().get(&digest).is_some_and(|expiry| now < *expiry)
    }

    /// Adds a password, unless the cache is full.
    pub(super) fn put(&self, phc: &str, password: &str, now: MonotonicMillis) {
        let digest = self.digest(phc, password);
        let mut entries = self.expiries.lock();
        if entries.len() >= MAX_CACHED {
            entries.retain(|_, expiry| now < *expiry);
        }
        if entries.len() < MAX_CACHED {
            entries.insert(digest, now.after(CACHE_LIFETIME));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_remembered_for_a_time_and_for_its_own_hash() {
        let (memory, now) = (LoginCache::new().unwrap(), MonotonicMillis(1_000_000));
        assert!(!memory.contains("phc", "secret", now));
        memory.put("phc", "secret", now);
        assert!(memory.contains("phc", "secret", now));
        assert!(!memory.contains("phc", "secret!", now) && !memory.contains("phcs", "ecret", now));
        assert!(!memory.contains("phc", "secret", now.after(CACHE_LIFETIME)));
    }

    #[test]
    fn number_of_remembered_passwords_is_bounded() {
        let (memory, now) = (LoginCache::new().unwrap(), MonotonicMillis(1_000_000));
        (0..MAX_CACHED).for_each(|n| memory.put("phc", &n.to_string(), now));
        memory.put("phc", "one more", now);
        assert!(!memory.contains("phc", "one more", now) && memory.contains("phc", "0", now));
        let later = now.after(CACHE_LIFETIME);
        memory.put("phc", "one more", later);
        assert!(memory.contains("phc", "one more", later) && memory.expiries.lock().len() == 1);
    }
}
