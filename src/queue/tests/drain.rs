//! Many actions: their order, what is held of them, destinations that refuse, and a relay that is
//! down for an hour.

use super::*;

/// Queues `count` replies to `u0`, `u1`, … in few commits.
fn queue_many(store: &Store, count: usize, name: impl Fn(usize) -> Address) {
    let now = store.clock().now();
    for first in (0..count).step_by(500) {
        commit(store, |txn| {
            for n in first..count.min(first + 500) {
                let NewAction { action, octets } = reply(&format!("u{n}"), now);
                let recipients = vec![Target::without_reports(name(n))];
                txn.queue_action(Action { recipients, told: None, ..action }, &octets)?;
            }
            Ok(())
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_drain_while_few_are_held() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    const COUNT: usize = 1500;
    queue_many(&store, COUNT, |n| at_home(&format!("u{n}")));
    let working = Working::start(&store, Settings { concurrency: 8, ..settings(port) });
    for _ in 0..10 {
        let before = rogue.seen.lock().len();
        tokio::time::sleep(Duration::from_secs(2)).await;
        if before >= COUNT {
            break;
        }
    }
    until("all sent", || rogue.seen.lock().len() >= COUNT && left(&store).is_empty()).await;
    let held = working.held.load(Ordering::SeqCst);
    assert!(held <= 600, "{held} were held at once");
    working.stop().await;
    let mut to: Vec<String> = rogue.seen.lock().iter().map(|seen| seen.rcpt[0].clone()).collect();
    to.sort();
    to.dedup();
    assert_eq!((to.len(), rogue.seen.lock().len()), (COUNT, COUNT), "each once");
    assert!(rogue.connections.load(Ordering::SeqCst) < COUNT / 20);
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_one_recipient_they_go_in_order_and_to_others_beside_them() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let now = store.clock().now();
    let order = |seen: &scripted_relay::RelayedMail| -> Option<usize> {
        seen.rcpt[0]
            .contains("<bob@")
            .then(|| seen.message.lines().next()?.strip_prefix("Subject: ")?.parse().ok())?
    };
    commit(&store, |txn| {
        for n in 0..60 {
            let NewAction { action, .. } = reply(if n % 2 == 0 { "bob" } else { "eve" }, now);
            txn.queue_action(action, format!("Subject: {n}\r\n\r\n").as_bytes())?;
        }
        Ok(())
    });
    let working = Working::start(&store, settings(port));
    until("all sent", || left(&store).is_empty()).await;
    working.stop().await;
    let order: Vec<usize> = rogue.seen.lock().iter().filter_map(order).collect();
    assert_eq!(order, (0..60).step_by(2).collect::<Vec<_>>());
    // The two were served side by side, and not one behind the other.
    let last = rogue.seen.lock().iter().position(|seen| seen.rcpt[0].contains("<eve@")).unwrap();
    assert!(last < 20, "the other one began at {last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_domain_that_refuses_is_probed_and_the_others_go_on() {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let store = store_over(Arc::new(MemoryEngine::new()), clock.clone());
    let refuses = Some(("down.example", "451 4.4.1 no way there\r\n"));
    let rogue =
        ScriptedRelay::of(ScriptedRelaySettings { refuses, ..ScriptedRelaySettings::default() });
    let (port, _server) = rogue.start().await;
    queue_many(&store, 400, |n| {
        Address::from_parts(
            format!("u{n}"),
            if n % 4 == 0 { "well.example" } else { "down.example" },
        )
    });
    let working = Working::start(&store, settings(port));
    until("those that can be sent", || rogue.seen.lock().len() == 100).await;
    until("the others are put off", || {
        left(&store).len() == 300
            && left(&store).iter().all(|action| action.due > store.clock().now())
    })
    .await;
    let tried = || rogue.heard.lock().iter().filter(|line| line.contains("@down.example")).count();
    assert!(tried() <= 4, "{} were tried at once", tried());
    let attempts: u32 = left(&store).iter().map(|action| action.attempts).sum();
    assert!(attempts <= 4, "{attempts} attempts were spent");
    // A probe when it has rested, and no more.
    let before = tried();
    clock.advance(Duration::from_secs(200));
    working.bell.ring();
    until("it is probed", || tried() > before).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(tried(), before + 1);
    // And when it is well again all go, in a while.
    rogue.manners.lock().refuses = None;
    for _ in 0..20 {
        clock.advance(Duration::from_secs(600));
        working.bell.ring();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if left(&store).is_empty() {
            break;
        }
    }
    until("all sent", || left(&store).is_empty()).await;
    assert_eq!(rogue.seen.lock().len(), 400);
    working.stop().await;
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_down_for_an_hour_loses_and_repeats_nothing() {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let store = store_over(Arc::new(MemoryEngine::new()), clock.clone());
    let rogue = ScriptedRelay::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    queue_many(&store, 150, |n| at_home(&format!("u{n}")));
    for n in 0..50 {
        queue(&store, &submission(&store, &[&format!("s{n}")]));
    }
    let relay_pause = Duration::from_secs(15);
    let working = Working::start(&store, Settings { relay_pause, ..settings(port) });
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        clock.advance(Duration::from_secs(60));
        working.bell.ring();
    }
    assert_eq!(left(&store).len(), 200);
    assert!(
        left(&store)
            .iter()
            .all(|action| action.attempts == 0 && action.state == ActionState::Waiting)
    );
    let _server = rogue.serve(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    for _ in 0..40 {
        clock.advance(Duration::from_secs(60));
        working.bell.ring();
        tokio::time::sleep(Duration::from_millis(50)).await;
        if rogue.seen.lock().len() >= 200 {
            break;
        }
    }
    until("all sent", || left(&store).iter().all(|action| action.state == ActionState::Sent)).await;
    let mut to: Vec<String> = rogue.seen.lock().iter().map(|seen| seen.rcpt[0].clone()).collect();
    to.sort();
    to.dedup();
    assert_eq!((to.len(), rogue.seen.lock().len(), left(&store).len()), (200, 200, 50));
    // What was sent is known for its time, and then forgotten.
    clock.advance(RetrySchedule::default().kept + Duration::from_secs(60));
    working.bell.ring();
    until("forgotten", || left(&store).is_empty()).await;
    working.stop().await;
    clean(&store);
}

/// What the process holds in memory, in KiB.
#[cfg(feature = "rocksdb")]
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1))
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// The figures of docs/performance.md: `RESTANTE_ACTIONS` queued replies on RocksDB, drained to a
/// relay on loopback.
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
    let rogue = ScriptedRelay::default();
    *rogue.keeps.lock() = false;
    let (port, _server) = rogue.start().await;
    queue_many(&store, count, |n| at_home(&format!("u{n}")));
    let (before, watch) = (resident(), Stopwatch::start());
    let working = Working::start(&store, Settings { concurrency: 8, ..settings(port) });
    let (mut most, mut taken) = (before, 0);
    while taken < count {
        tokio::time::sleep(Duration::from_secs(1)).await;
        most = most.max(resident());
        taken = rogue.taken.load(Ordering::SeqCst);
        println!(
            "{taken} after {:.0} s, {} MB resident",
            watch.elapsed().as_secs_f64(),
            resident() / 1024
        );
    }
    until("all recorded", || left(&store).is_empty()).await;
    let rate = count as f64 / watch.elapsed().as_secs_f64();
    let held = working.held.load(Ordering::SeqCst);
    println!(
        "{count} actions: {rate:.0}/s, {held} held at most, {} MB before, {} MB at most",
        before / 1024,
        most / 1024
    );
    working.stop().await;
    clean(&store);
}
