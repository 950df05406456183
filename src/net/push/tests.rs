use super::*;
use crate::account::{NewAccount, Settings};
use crate::model::Address;
use crate::model::clock::SystemClock;
use crate::store::Options;
use crate::store::engine::memory::MemoryEngine;

struct Fixture {
    store: Store,
    directory: Directory,
    ann: AccountId,
}

fn fixture() -> Fixture {
    let store =
        Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), Arc::new(SystemClock))
            .unwrap();
    let directory = Directory::new(store.clone(), Settings::default());
    let ann = directory.add(&NewAccount::at(Address::parse("ann@example.org").unwrap())).unwrap();
    Fixture { store, directory, ann }
}

impl Fixture {
    fn changed_accounts(&self) -> Arc<ChangedAccounts> {
        let changed = Arc::new(ChangedAccounts::default());
        let listener = Arc::clone(&changed);
        self.store.on_change(move |change| listener.add(change));
        changed
    }

    fn subscribe(&self) {
        let (_, ticket) = self
            .store
            .commit(self.ann, |txn| txn.create_object(&PushSubscription::default()))
            .unwrap();
        ticket.wait_blocking().unwrap();
    }

    /// Changes the account, and returns the accounts whose changes are processed.
    fn change(&self, changed: &ChangedAccounts, active: bool) -> Vec<AccountId> {
        self.directory.update(self.ann, |row| row.active = active).unwrap();
        std::mem::take(&mut *changed.accounts.lock()).into_keys().collect()
    }
}

#[test]
fn change_is_processed_only_after_somebody_has_subscribed() {
    let fixture = fixture();
    let changed = fixture.changed_accounts();
    assert_eq!(fixture.change(&changed, false), [fixture.ann], "not known yet");
    changed.find_subscribers(&fixture.store).unwrap();
    assert_eq!(fixture.change(&changed, true), []);
    fixture.subscribe();
    assert_eq!(fixture.change(&changed, false), [fixture.ann]);
}

#[test]
fn subscription_from_before_the_start_is_found() {
    let fixture = fixture();
    fixture.subscribe();
    let changed = fixture.changed_accounts();
    changed.find_subscribers(&fixture.store).unwrap();
    assert_eq!(fixture.change(&changed, false), [fixture.ann]);
}

#[test]
fn subscription_that_is_made_while_they_are_read_is_not_missed() {
    let fixture = fixture();
    let changed = fixture.changed_accounts();
    fixture.subscribe();
    changed.had_no_subscriber.store(true, Ordering::SeqCst);
    assert_eq!(fixture.change(&changed, false), [fixture.ann]);
}
