//! Bounds the concurrent operations of each caller: requests and uploads (RFC 8620 §2:
//! maxConcurrentRequests, maxConcurrentUpload), downloads, streams, connections, and commands of
//! ManageSieve. A caller is an account, a user or an address, as the key says.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Clones share the counts.
#[derive(Debug, Clone)]
pub(super) struct ConcurrencyLimit {
    /// The most operations of one key at a time.
    max: usize,
    /// A key without operations has no entry.
    counts: Arc<Mutex<HashMap<String, usize>>>,
}

/// Counts as one operation until dropped.
#[derive(Debug)]
pub(super) struct ConcurrencyPermit {
    limit: ConcurrencyLimit,
    key: String,
}

impl ConcurrencyLimit {
    pub(super) fn new(max: usize) -> Self {
        Self { max, counts: Arc::default() }
    }

    /// Begins an operation of the caller `key`. Returns `None` at the limit.
    pub(super) fn enter(&self, key: String) -> Option<ConcurrencyPermit> {
        self.enter_within(key, self.max)
    }

    /// Does the same as `enter`, with `max` in place of the limit that `new` was given.
    pub(super) fn enter_within(&self, key: String, max: usize) -> Option<ConcurrencyPermit> {
        let mut counts = self.counts.lock();
        let count = counts.get(&key).copied().unwrap_or_default();
        if count >= max {
            return None;
        }
        counts.insert(key.clone(), count + 1);
        drop(counts);
        Some(ConcurrencyPermit { limit: self.clone(), key })
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let mut counts = self.limit.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_limit_of_its_own() {
        let limit = ConcurrencyLimit::new(2);
        let permits = [limit.enter("ann".into()), limit.enter("ann".into())];
        assert!(permits.iter().all(Option::is_some) && limit.enter("ann".into()).is_none());
        assert!(limit.enter("bob".into()).is_some());
        drop(permits);
        assert!(limit.counts.lock().is_empty() && limit.enter("ann".into()).is_some());
    }
}
