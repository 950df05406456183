//! The committer: which other commits fail when a write fails, a batch is stale or the committer
//! panics, and how queued commits and actions are counted.

use std::sync::mpsc;

use super::super::engine::fault::FaultyEngine;
use super::super::row::Row as _;
use super::*;
use crate::model::clock::Stopwatch;

#[test]
fn a_full_disk_fails_one_commit_and_a_failed_sync_all_later_ones() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let store = store_over(engine.clone());
    engine.fail_after(0, Error::Full);
    assert_eq!(deliver_to(&store, ACCOUNT, 1, &[1], 1), Err(Error::Full));
    engine.heal();
    deliver_to(&store, ACCOUNT, 2, &[1], 2).unwrap();
    assert_eq!(store.snapshot().emails(ACCOUNT, None, 9).unwrap().len(), 1);
    assert_clean(&store);
    engine.fail_after(0, Error::Io("sync failed".into()));
    assert!(matches!(deliver_to(&store, ACCOUNT, 3, &[1], 3), Err(Error::Io(_))));
    engine.heal();
    // The state of the disk is not known, so nothing more is written.
    assert!(matches!(deliver_to(&store, ACCOUNT, 4, &[1], 4), Err(Error::Poisoned(_))));
    assert!(store.health().is_err());
    assert_clean(&store);
}

#[test]
fn an_unreachable_engine_fails_writes_and_does_not_poison_the_store() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let store = store_over(engine.clone());
    let away = Error::Away("no route".into());
    assert!(away.is_temporary() && Error::Overtaken(ACCOUNT).is_temporary());
    engine.fail_after(0, away.clone());
    assert_eq!(deliver_to(&store, ACCOUNT, 1, &[1], 1), Err(away));
    engine.heal();
    assert!(store.health().is_ok());
    deliver_to(&store, ACCOUNT, 2, &[1], 2).unwrap();
    assert_clean(&store);
}

#[test]
fn concurrent_commits_to_few_accounts_lose_nothing() {
    let engine = Arc::new(MemoryEngine::new());
    let store = store_over(engine);
    make_account(&store, AccountId(2));
    std::thread::scope(|scope| {
        for worker in 0..8u32 {
            let store = store.clone();
            scope.spawn(move || {
                for n in 0..25u32 {
                    let account = AccountId(1 + (worker + n) % 2);
                    deliver_to(&store, account, worker * 1000 + n, &[(n % 3) as u8], i64::from(n))
                        .unwrap();
                }
            });
        }
    });
    let count = |account| store.snapshot().emails(account, None, 1000).unwrap().len();
    assert_eq!(count(ACCOUNT) + count(AccountId(2)), 200);
    assert_clean(&store);
}

/// Stops the committer in the middle of a group until the returned sender is used, so that the
/// commits that are queued meanwhile become one group.
fn hold_committer(store: &Store) -> mpsc::Sender<()> {
    make_account(store, AccountId(9));
    let (go, wait) = mpsc::channel::<()>();
    let (reached, here) = mpsc::channel::<()>();
    let wait = parking_lot::Mutex::new(Some(wait));
    store.on_change(move |_| {
        if let Some(wait) = wait.lock().take() {
            reached.send(()).unwrap();
            wait.recv().unwrap();
        }
    });
    drop(rename(store, AccountId(9), "held"));
    here.recv().unwrap();
    go
}

#[test]
fn an_overtaken_commit_does_not_fail_the_others_of_its_group() {
    let engine = Arc::new(MemoryEngine::new());
    let store = store_over(engine.clone());
    make_account(&store, AccountId(2));
    let go = hold_committer(&store);
    let (first, second, third) = (
        rename(&store, ACCOUNT, "a"),
        rename(&store, AccountId(2), "b"),
        rename(&store, ACCOUNT, "c"),
    );
    // Changes a count in the account's state, as another writer would do in a store over several
    // machines. Every commit asserts that this row is unchanged, so the queued ones are overtaken.
    let key = AccountKey { account: ACCOUNT }.encode();
    let state = store.snapshot().account_state(ACCOUNT).unwrap();
    let value = Some(AccountStateRow { told: 77, ..state }.encode());
    let put = Put { table: Table::AccountState, key, value };
    engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    go.send(()).unwrap();
    assert_eq!(first.wait_blocking(), Err(Error::Overtaken(ACCOUNT)));
    second.wait_blocking().unwrap();
    assert!(third.wait_blocking().is_err(), "built on the first, which failed");
    assert_eq!(
        store.snapshot().account(AccountId(2)).unwrap().unwrap().display_name.as_deref(),
        Some("b")
    );
    // Commits of the account go on from the stored state.
    rename(&store, ACCOUNT, "d").wait_blocking().unwrap();
    assert_eq!(
        store.snapshot().account(ACCOUNT).unwrap().unwrap().display_name.as_deref(),
        Some("d")
    );
    assert!(store.health().is_ok());
}

#[test]
fn a_panic_of_the_committer_fails_waiting_and_later_commits() {
    let store = store_over(Arc::new(MemoryEngine::new()));
    store.on_change(|_| panic!("a listener that panics"));
    let begun = rename(&store, ACCOUNT, "a");
    assert!(begun.wait_blocking().is_err());
    let watch = Stopwatch::start();
    while store.health().is_ok() {
        assert!(
            watch.elapsed() < Duration::from_secs(20),
            "a store without a committer calls itself well"
        );
        std::thread::yield_now();
    }
    let refused = store.commit(ACCOUNT, |txn| txn.snapshot().account(ACCOUNT).map(drop));
    assert!(matches!(refused, Err(Error::Poisoned(_))), "{refused:?}");
}

#[test]
fn queued_commits_are_counted() {
    let store = store_over(Arc::new(MemoryEngine::new()));
    let idle = || {
        let watch = Stopwatch::start();
        while store.in_flight() > 0 && watch.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        store.in_flight() == 0
    };
    assert!(idle());
    let go = hold_committer(&store);
    let (one, other) = (rename(&store, ACCOUNT, "a"), rename(&store, ACCOUNT, "b"));
    assert_eq!(store.in_flight(), 3, "the one that is held, and two behind it");
    go.send(()).unwrap();
    one.wait_blocking().unwrap();
    other.wait_blocking().unwrap();
    assert!(idle());
}

#[test]
fn a_full_outbox_refuses_actions_as_temporary() {
    let engine = Arc::new(MemoryEngine::new());
    let store = store_over(engine.clone());
    let queue = |kind| {
        let queued =
            store.commit(ACCOUNT, |txn| txn.queue_action(Action { kind, ..action() }, b""));
        queued.map(|(_, ticket)| ticket.wait_blocking().unwrap())
    };
    queue(ActionKind::Reply).unwrap();
    queue(ActionKind::Redirect).unwrap();
    let counts = store.snapshot().queue_counts().unwrap();
    let one = |kind| ((kind, ActionState::Waiting), 1);
    assert_eq!(counts, [one(ActionKind::Reply), one(ActionKind::Redirect)].into());
    // Sets the count of actions to the limit.
    let state = store.snapshot().account_state(ACCOUNT).unwrap();
    let value = Some(
        AccountStateRow { queued: crate::model::limits::MAX_QUEUED_ACTIONS, ..state }.encode(),
    );
    let put =
        Put { table: Table::AccountState, key: AccountKey { account: ACCOUNT }.encode(), value };
    engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    let refused = queue(ActionKind::Reply).unwrap_err();
    assert!(refused == Error::QueueFull(ACCOUNT) && refused.is_temporary());
    // A report may exceed the limit.
    queue(ActionKind::Report).unwrap();
}
