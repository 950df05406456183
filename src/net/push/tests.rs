use super::*;
use crate::account::{NewAccount, Settings};
use crate::model::clock::SystemClock;
use crate::model::{Address, Mailbox};
use crate::store::engine::memory::MemoryEngine;
use crate::store::{Options, Txn};

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
        self.commit(self.ann, |txn| txn.create_object(&PushSubscription::default()).map(drop));
    }

    fn commit(&self, account: AccountId, change: impl FnMut(&mut Txn<'_>) -> Result<(), Error>) {
        let ((), ticket) = self.store.commit(account, change).unwrap();
        ticket.wait_blocking().unwrap();
    }

    /// Changes the last mailbox of the account.
    fn change_mailbox(&self, account: AccountId, change: impl Fn(&mut Mailbox)) {
        let (uid, _) = self.store.snapshot().mailboxes(account).unwrap().pop().unwrap();
        self.commit(account, |txn| txn.update_mailbox(uid, &change).map(drop));
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
fn subscription_made_while_subscriptions_are_read_is_not_missed() {
    let fixture = fixture();
    let changed = fixture.changed_accounts();
    fixture.subscribe();
    changed.had_no_subscriber.store(true, Ordering::SeqCst);
    assert_eq!(fixture.change(&changed, false), [fixture.ann]);
}

#[test]
fn first_push_reports_the_changes_of_all_accounts_that_the_user_sees() {
    let fixture = fixture();
    let bob = NewAccount::at(Address::parse("bob@example.org").unwrap());
    let (ann, bob) = (fixture.ann, fixture.directory.add(&bob).unwrap());
    // 1 is the bit of `Right::ReadItems`.
    fixture.change_mailbox(bob, |row| row.shares = [(ann, 1)].into());
    let changed = fixture.changed_accounts();
    fixture.change_mailbox(ann, |row| row.sort_order += 1);
    let taken = std::mem::take(&mut *changed.accounts.lock());
    fixture.change_mailbox(bob, |row| row.sort_order += 1);
    let later = changed.accounts.lock().clone();
    let both = taken.iter().chain(&later).map(|(account, first)| (*account, *first)).collect();
    // Bob's change is processed after Ann's, or together with it.
    for (taken, later) in [(taken, later), (both, HashMap::new())] {
        let mut state = state_before(&fixture.store, ann, &taken, &Mutex::new(later)).unwrap();
        let push = state.catch_up(&fixture.store, None).unwrap().unwrap();
        let accounts: BTreeSet<_> = push["changed"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(accounts, [ann.to_string(), bob.to_string()].into(), "{push}");
    }
}
