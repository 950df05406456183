//! How many of a kind are under way, by whose they are (RFC 8620 §2: maxConcurrentRequests,
//! maxConcurrentUpload).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// A bound on what each key may have under way at once.
#[derive(Debug, Clone)]
pub(super) struct ConcurrencyLimit {
    most: usize,
    under_way: Arc<Mutex<HashMap<String, usize>>>,
}

/// One that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct ConcurrencyPermit {
    of: ConcurrencyLimit,
    key: String,
}

impl ConcurrencyLimit {
    pub(super) fn new(most: usize) -> Self {
        Self { most, under_way: Arc::default() }
    }

    /// One more of this key; `None` where there are as many as may be.
    pub(super) fn enter(&self, key: String) -> Option<ConcurrencyPermit> {
        self.enter_within(key, self.most)
    }

    /// One more of this key, of which there may be `most`.
    pub(super) fn enter_within(&self, key: String, most: usize) -> Option<ConcurrencyPermit> {
        let mut under_way = self.under_way.lock();
        let count = under_way.get(&key).copied().unwrap_or_default();
        if count >= most {
            return None;
        }
        under_way.insert(key.clone(), count + 1);
        drop(under_way);
        Some(ConcurrencyPermit { of: self.clone(), key })
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let mut under_way = self.of.under_way.lock();
        if let Some(count) = under_way.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                under_way.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_as_many_as_may_be() {
        let tally = ConcurrencyLimit::new(2);
        let held = [tally.enter("ann".into()), tally.enter("ann".into())];
        assert!(held.iter().all(Option::is_some) && tally.enter("ann".into()).is_none());
        assert!(tally.enter("bob".into()).is_some());
        drop(held);
        assert!(tally.under_way.lock().is_empty() && tally.enter("ann".into()).is_some());
    }
}
