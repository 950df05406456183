//! Who waits for changes of which account. A change only wakes them; what it was they read
//! themselves.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::AccountId;
use crate::store::Store;

/// All who wait. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Hub(Arc<Mutex<HashMap<AccountId, Vec<Arc<Notify>>>>>);

/// One who waits, until it is dropped.
#[derive(Debug)]
pub(super) struct HubWaiter {
    hub: Hub,
    accounts: Vec<AccountId>,
    woken: Arc<Notify>,
}

impl Hub {
    /// Wakes who waits with every durable change of a store.
    pub(super) fn of(store: &Store) -> Self {
        let hub = Self::default();
        let waking = hub.clone();
        store.on_change(move |change| {
            for waiting in waking.0.lock().get(&change.account).into_iter().flatten() {
                waiting.notify_one();
            }
        });
        hub
    }

    /// Waits for changes of these accounts.
    pub(super) fn watch(&self, accounts: Vec<AccountId>) -> HubWaiter {
        let woken = Arc::new(Notify::new());
        let mut all = self.0.lock();
        for account in &accounts {
            all.entry(*account).or_default().push(Arc::clone(&woken));
        }
        drop(all);
        HubWaiter { hub: self.clone(), accounts, woken }
    }
}

impl HubWaiter {
    /// Until something changed, since the last time or since the beginning.
    pub(super) async fn wait_for_change(&self) {
        self.woken.notified().await;
    }
}

impl Drop for HubWaiter {
    fn drop(&mut self) {
        let mut all = self.hub.0.lock();
        for account in &self.accounts {
            if let Some(waiting) = all.get_mut(account) {
                waiting.retain(|other| !Arc::ptr_eq(other, &self.woken));
                if waiting.is_empty() {
                    all.remove(account);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::account::{NewAccount, Settings};
    use crate::model::Address;
    use crate::model::clock::SystemClock;
    use crate::store::Options;
    use crate::store::engine::memory::MemoryEngine;

    #[test]
    fn a_change_wakes_who_waits_for_that_account() {
        let store = Store::open_engine(
            Arc::new(MemoryEngine::new()),
            &Options::small(),
            Arc::new(SystemClock),
        )
        .unwrap();
        let hub = Hub::of(&store);
        let directory = crate::account::Directory::new(store.clone(), Settings::default());
        let add =
            |name: &str| directory.add(&NewAccount::at(Address::parse(name).unwrap())).unwrap();
        let (ann, bob) = (add("ann@example.org"), add("bob@example.org"));
        let (one, other, both) =
            (hub.watch(vec![ann]), hub.watch(vec![bob]), hub.watch(vec![ann, bob]));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let wakes = |watch: &HubWaiter| {
            runtime.block_on(async {
                timeout(Duration::from_millis(200), watch.wait_for_change()).await.is_ok()
            })
        };
        directory.update(ann, |row| row.active = false).unwrap();
        assert!(wakes(&one) && wakes(&both) && !wakes(&other));
        // What came before somebody waited again is not lost.
        directory.update(ann, |row| row.active = true).unwrap();
        assert!(wakes(&one));
        drop((one, both));
        assert_eq!(hub.0.lock().len(), 1);
        drop(other);
        assert!(hub.0.lock().is_empty());
    }
}
