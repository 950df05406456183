//! Passwords that were right within the last minutes, so that hashing is not paid on each request
//! of a client.
//!
//! What is held is a hash, keyed with a secret of this process, of the PHC string and the password:
//! a reader of the memory later finds no password in it, and a password that was changed or taken
//! away, whose PHC string is gone from the account, is not remembered any more.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::MonotonicMillis;
use crate::store::Error;

/// How long a password is remembered after it was last hashed.
const CACHE_LIFETIME: Duration = Duration::from_secs(300);
/// Most that are remembered.
const MAX_CACHED: usize = 10_000;

#[derive(Debug)]
pub(super) struct LoginCache {
    key: [u8; 32],
    until: Mutex<HashMap<[u8; 32], MonotonicMillis>>,
}

impl LoginCache {
    pub(super) fn new() -> Result<Self, Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|error| Error::Io(format!("no randomness for logins: {error}")))?;
        Ok(Self { key, until: Mutex::default() })
    }

    fn digest(&self, phc: &str, password: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&(phc.len() as u64).to_be_bytes());
        hasher.update(phc.as_bytes());
        hasher.update(password.as_bytes());
        *hasher.finalize().as_bytes()
    }

    pub(super) fn knows(&self, phc: &str, password: &str, now: MonotonicMillis) -> bool {
        let digest = self.digest(phc, password);
        self.until.lock().get(&digest).is_some_and(|until| now < *until)
    }

    pub(super) fn put(&self, phc: &str, password: &str, now: MonotonicMillis) {
        let digest = self.digest(phc, password);
        let mut all = self.until.lock();
        if all.len() >= MAX_CACHED {
            all.retain(|_, until| now < *until);
        }
        if all.len() < MAX_CACHED {
            all.insert(digest, now.after(CACHE_LIFETIME));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_remembered_for_a_time_and_for_its_own_hash() {
        let (memory, now) = (LoginCache::new().unwrap(), MonotonicMillis(1_000_000));
        assert!(!memory.knows("phc", "secret", now));
        memory.put("phc", "secret", now);
        assert!(memory.knows("phc", "secret", now));
        assert!(!memory.knows("phc", "secret!", now) && !memory.knows("phcs", "ecret", now));
        assert!(!memory.knows("phc", "secret", now.after(CACHE_LIFETIME)));
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let (memory, now) = (LoginCache::new().unwrap(), MonotonicMillis(1_000_000));
        (0..MAX_CACHED).for_each(|n| memory.put("phc", &n.to_string(), now));
        memory.put("phc", "one more", now);
        assert!(!memory.knows("phc", "one more", now) && memory.knows("phc", "0", now));
        let later = now.after(CACHE_LIFETIME);
        memory.put("phc", "one more", later);
        assert!(memory.knows("phc", "one more", later) && memory.until.lock().len() == 1);
    }
}
