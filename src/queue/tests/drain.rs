//! Tests with many actions: how many are in memory, their order, destinations that refuse, and
//! a relay that is down for an hour.

use super::*;
use crate::trace::metrics;

/// Queues `count` replies to the addresses `name(0)`, `name(1)`, … in few commits.
fn queue_many(store: &Store, count: usize, name: impl Fn(usize) -> Address) {
    let now = store.clock().now();
    for first in (0..count).step_by(500) {
        commit(store, |txn| {
            for n in first..count.min(first + 500) {
                let NewAction { action, bytes } = reply(&format!("u{n}"), now);
                let recipients = vec![Target::without_reports(name(n))];
                txn.queue_action(Action { recipients, told: None, ..action }, &bytes)?;
            }
            Ok(())
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_queue_drains_while_few_actions_are_in_memory() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    const COUNT: usize = 1500;
    queue_many(&store, COUNT, |n| at_example_net(&format!("u{n}")));
    let worker = RunningWorker::start(&store, Settings { concurrency: 8, ..settings(port) });
    // Slow machines get up to 20 seconds more than `until` gives.
    for _ in 0..10 {
        let before = relay.received.lock().len();
        tokio::time::sleep(Duration::from_secs(2)).await;
        if before >= COUNT {
            break;
        }
    }
    until("all sent", || relay.received.lock().len() >= COUNT && queued_actions(&store).is_empty())
        .await;
    let max_in_window = worker.max_in_window.load(Ordering::SeqCst);
    // Twice `WAKEUPS_PER_READ` (256) may be ready, and some are under way.
    assert!(max_in_window <= 600, "{max_in_window} were in the window at once");
    worker.stop().await;
    let mut to: Vec<String> =
        relay.received.lock().iter().map(|mail| mail.rcpt[0].clone()).collect();
    to.sort();
    to.dedup();
    assert_eq!((to.len(), relay.received.lock().len()), (COUNT, COUNT), "each once");
    // A connection carries up to a hundred messages.
    assert!(relay.connections.load(Ordering::SeqCst) < COUNT / 20);
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_to_one_recipient_goes_in_order_and_to_others_at_the_same_time() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let now = store.clock().now();
    let number_to_bob = |mail: &scripted_relay::RelayedMail| -> Option<usize> {
        mail.rcpt[0]
            .contains("<bob@")
            .then(|| mail.message.lines().next()?.strip_prefix("Subject: ")?.parse().ok())?
    };
    commit(&store, |txn| {
        for n in 0..60 {
            let NewAction { action, .. } = reply(if n % 2 == 0 { "bob" } else { "eve" }, now);
            txn.queue_action(action, format!("Subject: {n}\r\n\r\n").as_bytes())?;
        }
        Ok(())
    });
    let worker = RunningWorker::start(&store, settings(port));
    until("all sent", || queued_actions(&store).is_empty()).await;
    worker.stop().await;
    let order: Vec<usize> = relay.received.lock().iter().filter_map(number_to_bob).collect();
    assert_eq!(order, (0..60).step_by(2).collect::<Vec<_>>());
    let first_to_eve =
        relay.received.lock().iter().position(|mail| mail.rcpt[0].contains("<eve@")).unwrap();
    assert!(first_to_eve < 20, "the other lane began at {first_to_eve}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn domain_that_refuses_is_probed_and_the_others_go_on() {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let store = store_over(Arc::new(MemoryEngine::new()), clock.clone());
    let refuses = Some(("down.example", "451 4.4.1 no way there\r\n"));
    let relay = ScriptedRelay::of(RelayBehaviour { refuses, ..RelayBehaviour::default() });
    let (port, _server) = relay.start().await;
    queue_many(&store, 400, |n| {
        Address::from_parts(
            format!("u{n}"),
            if n % 4 == 0 { "well.example" } else { "down.example" },
        )
    });
    let worker = RunningWorker::start(&store, settings(port));
    // A quarter of the 400 is to the domain that accepts mail.
    until("what can be sent is sent", || relay.received.lock().len() == 100).await;
    until("the others are postponed", || {
        queued_actions(&store).len() == 300
            && queued_actions(&store).iter().all(|action| action.due > store.clock().now())
    })
    .await;
    let tried =
        || relay.commands.lock().iter().filter(|line| line.contains("@down.example")).count();
    // No more than are under way at once (`Settings::concurrency`).
    assert!(tried() <= 4, "{} were tried at once", tried());
    let attempts: u32 = queued_actions(&store).iter().map(|action| action.attempts).sum();
    assert!(attempts <= 4, "{attempts} attempts were spent");
    let before = tried();
    clock.advance(Duration::from_secs(200));
    worker.waker.wake();
    until("it is probed", || tried() > before).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(tried(), before + 1);
    relay.behaviour.lock().refuses = None;
    for _ in 0..20 {
        clock.advance(Duration::from_secs(600));
        worker.waker.wake();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if queued_actions(&store).is_empty() {
            break;
        }
    }
    until("all sent", || queued_actions(&store).is_empty()).await;
    assert_eq!(relay.received.lock().len(), 400);
    worker.stop().await;
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_that_is_down_for_an_hour_loses_and_repeats_nothing() {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let store = store_over(Arc::new(MemoryEngine::new()), clock.clone());
    let relay = ScriptedRelay::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    queue_many(&store, 150, |n| at_example_net(&format!("u{n}")));
    for n in 0..50 {
        queue(&store, &submission(&store, &[&format!("s{n}")]));
    }
    let relay_pause = Duration::from_secs(15);
    let worker = RunningWorker::start(&store, Settings { relay_pause, ..settings(port) });
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        clock.advance(Duration::from_secs(60));
        worker.waker.wake();
    }
    assert_eq!(queued_actions(&store).len(), 200);
    assert!(
        queued_actions(&store)
            .iter()
            .all(|action| action.attempts == 0 && action.state == ActionState::Waiting)
    );
    let _server = relay.serve(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    for _ in 0..40 {
        clock.advance(Duration::from_secs(60));
        worker.waker.wake();
        tokio::time::sleep(Duration::from_millis(50)).await;
        if relay.received.lock().len() >= 200 {
            break;
        }
    }
    until("all sent", || {
        queued_actions(&store).iter().all(|action| action.state == ActionState::Sent)
    })
    .await;
    let mut to: Vec<String> =
        relay.received.lock().iter().map(|mail| mail.rcpt[0].clone()).collect();
    to.sort();
    to.dedup();
    assert_eq!(
        (to.len(), relay.received.lock().len(), queued_actions(&store).len()),
        (200, 200, 50)
    );
    // The 50 sent submissions are kept for a time, and then removed, which is no attempt.
    // The counters are of the process. nextest runs each test in a process of its own.
    let attempts = || {
        let text = metrics::openmetrics_text();
        let counted =
            text.lines().filter(|line| line.starts_with("restante_outbox_attempts_total"));
        counted.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = attempts();
    clock.advance(RetrySchedule::default().keep_sent + Duration::from_secs(60));
    worker.waker.wake();
    until("forgotten", || queued_actions(&store).is_empty()).await;
    assert!(before.iter().any(|line| line.contains("submission") && line.contains("sent")));
    assert_eq!(attempts(), before);
    worker.stop().await;
    assert_store_is_clean(&store);
}

#[cfg(feature = "rocksdb")]
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1))
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Measures the figures of docs/performance.md: `RESTANTE_ACTIONS` queued replies on RocksDB, sent
/// to a relay on loopback.
#[cfg(feature = "rocksdb")]
#[ignore = "takes minutes: run by hand for the figures"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_drain_in_flat_memory() {
    use crate::model::clock::Stopwatch;
    use crate::store::engine::rocks::RocksEngine;
    let count: usize = std::env::var("RESTANTE_ACTIONS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(100_000);
    let dir = tempfile::tempdir().unwrap();
    let engine =
        Arc::new(RocksEngine::open(&dir.path().join("store"), &Options::default()).unwrap());
    let store = store_over(engine, Arc::new(SystemClock));
    let relay = ScriptedRelay::default();
    *relay.is_recording.lock() = false;
    let (port, _server) = relay.start().await;
    queue_many(&store, count, |n| at_example_net(&format!("u{n}")));
    let (before, watch) = (resident_kib(), Stopwatch::start());
    let worker = RunningWorker::start(&store, Settings { concurrency: 8, ..settings(port) });
    let (mut peak, mut accepted) = (before, 0);
    while accepted < count {
        tokio::time::sleep(Duration::from_secs(1)).await;
        peak = peak.max(resident_kib());
        accepted = relay.accepted.load(Ordering::SeqCst);
        println!(
            "{accepted} after {:.0} s, {} MB resident",
            watch.elapsed().as_secs_f64(),
            resident_kib() / 1024
        );
    }
    until("all recorded", || queued_actions(&store).is_empty()).await;
    let rate = count as f64 / watch.elapsed().as_secs_f64();
    let max_in_window = worker.max_in_window.load(Ordering::SeqCst);
    println!(
        "{count} actions: {rate:.0}/s, {max_in_window} in the window at most, {} MB before, \
         {} MB at most",
        before / 1024,
        peak / 1024
    );
    worker.stop().await;
    assert_store_is_clean(&store);
}
