//! A commit that comes alone is written by its caller.

use std::thread::ThreadId;

use parking_lot::Mutex;

use super::super::engine::fault::FaultyEngine;
use super::*;

/// Opens a store whose callers write their commits, and notes the thread of each write.
fn store_with_writers(engine: Arc<dyn Engine>) -> (Store, Arc<Mutex<Vec<ThreadId>>>) {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let options = Options { writes_alone: true, ..Options::small() };
    let store = Store::open_engine(engine, &options, clock).unwrap();
    make_account(&store, ACCOUNT);
    let writers: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    let noted = Arc::clone(&writers);
    store.on_change(move |_| noted.lock().push(std::thread::current().id()));
    (store, writers)
}

fn display_name(store: &Store) -> Option<String> {
    store.snapshot().account(ACCOUNT).unwrap().unwrap().display_name
}

#[test]
fn lone_commit_is_written_before_commit_returns() {
    let (store, writers) = store_with_writers(Arc::new(MemoryEngine::new()));
    let ticket = rename(&store, ACCOUNT, "a");
    assert_eq!(display_name(&store).as_deref(), Some("a"));
    assert_eq!(*writers.lock(), [std::thread::current().id()]);
    assert_eq!(store.in_flight(), 0);
    ticket.wait_blocking().unwrap();
    assert_clean(&store);
}

#[test]
fn commits_that_come_meanwhile_are_written_by_the_committer_in_order() {
    let (store, writers) = store_with_writers(Arc::new(MemoryEngine::new()));
    // The first write queues two further commits before it ends.
    let (queue, queued) = (Mutex::new(Some(store.clone())), Arc::new(Mutex::new(Vec::new())));
    let tickets = Arc::clone(&queued);
    store.on_change(move |_| {
        if let Some(store) = queue.lock().take() {
            tickets.lock().extend(["b", "c"].map(|name| rename(&store, ACCOUNT, name)));
        }
    });
    rename(&store, ACCOUNT, "a").wait_blocking().unwrap();
    for ticket in std::mem::take(&mut *queued.lock()) {
        ticket.wait_blocking().unwrap();
    }
    assert_eq!(display_name(&store).as_deref(), Some("c"));
    let writers = writers.lock().clone();
    let own = std::thread::current().id();
    assert!(
        writers.len() == 3
            && writers[0] == own
            && writers[1..].iter().all(|writer| *writer != own && *writer == writers[1]),
        "{writers:?}"
    );
    assert_clean(&store);
}

#[test]
fn many_callers_lose_nothing() {
    let (store, _) = store_with_writers(Arc::new(MemoryEngine::new()));
    let before = store.snapshot().account_state(ACCOUNT).unwrap().emails;
    std::thread::scope(|scope| {
        for worker in 0..8u32 {
            let store = store.clone();
            scope.spawn(move || {
                for n in 0..25u32 {
                    deliver_to(&store, ACCOUNT, worker * 1000 + n, &[(n % 3) as u8], i64::from(n))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(store.snapshot().account_state(ACCOUNT).unwrap().emails, before + 200);
    assert_clean(&store);
}

#[test]
fn failed_lone_write_fails_its_commit_and_a_panic_poisons_the_store() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let (store, _) = store_with_writers(engine.clone());
    engine.fail_after(0, Error::Full);
    assert_eq!(rename(&store, ACCOUNT, "a").wait_blocking(), Err(Error::Full));
    engine.heal();
    rename(&store, ACCOUNT, "b").wait_blocking().unwrap();
    store.on_change(|_| panic!("a listener that panics"));
    assert!(rename(&store, ACCOUNT, "c").wait_blocking().is_err());
    assert!(store.health().is_err());
    let refused = store.commit(ACCOUNT, |_| Ok(()));
    assert!(matches!(refused, Err(Error::Poisoned(_))), "{refused:?}");
}

#[test]
fn lone_commit_of_an_asynchronous_task_leaves_other_tasks_running() {
    let (store, writers) = store_with_writers(Arc::new(MemoryEngine::new()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    // The write waits for another task, which must run although the only worker writes.
    let (send, receive) = std::sync::mpsc::channel();
    let receive = Mutex::new(Some(receive));
    store.on_change(move |_| {
        if let Some(receive) = receive.lock().take() {
            receive.recv().unwrap();
        }
    });
    runtime.block_on(async {
        let writing = tokio::spawn({
            let store = store.clone();
            async move { rename(&store, ACCOUNT, "a").wait().await }
        });
        let other = tokio::spawn(async move { send.send(()).unwrap() });
        writing.await.unwrap().unwrap();
        other.await.unwrap();
    });
    assert_eq!((display_name(&store).as_deref(), writers.lock().len()), (Some("a"), 1));
}

#[test]
fn lone_commit_that_gets_no_thread_poisons_the_store_and_later_commits_do_not_wait() {
    let (store, _) = store_with_writers(Arc::new(MemoryEngine::new()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    // Within a `LocalSet`, `block_in_place` panics before it calls the write, as it does when the
    // system refuses a thread.
    let tasks = tokio::task::LocalSet::new();
    let first = tasks.block_on(&runtime, async { rename(&store, ACCOUNT, "a").wait().await });
    assert!(first.is_err());
    assert!(store.health().is_err());
    let refused = store.commit(ACCOUNT, |_| Ok(()));
    assert!(matches!(refused, Err(Error::Poisoned(_))), "{refused:?}");
}
