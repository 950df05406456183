//! Wakes connections when an account that they follow changes. A wake-up has no content: each
//! connection reads the changes itself.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::AccountId;
use crate::store::Store;

/// Clones share the waiters.
#[derive(Debug, Clone, Default)]
pub(super) struct Hub(Arc<Mutex<HashMap<AccountId, Vec<Arc<Notify>>>>>);

/// One connection that waits for changes, until it is dropped.
#[derive(Debug)]
pub(super) struct HubWaiter {
    hub: Hub,
    accounts: Vec<AccountId>,
    notify: Arc<Notify>,
}

impl Hub {
    /// Creates a hub that every durable change of a store wakes.
    pub(super) fn new(store: &Store) -> Self {
        let hub = Self::default();
        let listener = hub.clone();
        store.on_change(move |change| {
            for waiter in listener.0.lock().get(&change.account).into_iter().flatten() {
                waiter.notify_one();
            }
        });
        hub
    }

    /// Returns a waiter that every change of these accounts wakes from now on.
    pub(super) fn watch(&self, accounts: Vec<AccountId>) -> HubWaiter {
        let notify = Arc::new(Notify::new());
        let mut waiters = self.0.lock();
        for account in &accounts {
            waiters.entry(*account).or_default().push(Arc::clone(&notify));
        }
        drop(waiters);
        HubWaiter { hub: self.clone(), accounts, notify }
    }
}

impl HubWaiter {
    /// Waits until one of the accounts has changed since the last wait. The first wait counts from
    /// `watch`.
    pub(super) async fn wait_for_change(&self) {
        self.notify.notified().await;
    }
}

impl Drop for HubWaiter {
    fn drop(&mut self) {
        let mut waiters = self.hub.0.lock();
        for account in &self.accounts {
            if let Some(of_account) = waiters.get_mut(account) {
                of_account.retain(|other| !Arc::ptr_eq(other, &self.notify));
                if of_account.is_empty() {
                    waiters.remove(account);
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
    fn change_wakes_the_waiters_of_its_account() {
        let store = Store::open_engine(
            Arc::new(MemoryEngine::new()),
            &Options::small(),
            Arc::new(SystemClock),
        )
        .unwrap();
        let hub = Hub::new(&store);
        let directory = crate::account::Directory::new(store.clone(), Settings::default());
        let add =
            |name: &str| directory.add(&NewAccount::at(Address::parse(name).unwrap())).unwrap();
        let (ann, bob) = (add("ann@example.org"), add("bob@example.org"));
        let (one, other, both) =
            (hub.watch(vec![ann]), hub.watch(vec![bob]), hub.watch(vec![ann, bob]));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let wakes = |waiter: &HubWaiter| {
            runtime.block_on(async {
                timeout(Duration::from_millis(200), waiter.wait_for_change()).await.is_ok()
            })
        };
        directory.update(ann, |row| row.active = false).unwrap();
        assert!(wakes(&one) && wakes(&both) && !wakes(&other));
        directory.update(ann, |row| row.active = true).unwrap();
        assert!(wakes(&one));
        drop((one, both));
        assert_eq!(hub.0.lock().len(), 1);
        drop(other);
        assert!(hub.0.lock().is_empty());
    }
}
