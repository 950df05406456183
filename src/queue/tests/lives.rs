//! Tests of what becomes of actions: outcomes, dependants, urgent and held actions, a relay or a
//! store that fails, and a queue that is held.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_go_out_once_and_each_failure_is_handled_by_its_kind() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    // A reply whose attempt an earlier run recorded counts as sent.
    queue_reply(&store, "interrupted", ActionState::Attempting);
    // `scripted_relay` says how the relay answers to each of these.
    let names = [
        "bob", "bad", "never", "later", "lost", "torn", "refused", "defer", "garbage", "half",
        "tarpit", "utf8",
    ];
    for to in names {
        queue_reply(&store, to, ActionState::Waiting);
    }
    let worker = RunningWorker::start(&store, settings(port));
    until("all attempts", || queued_actions(&store).iter().all(|action| action.attempts == 1))
        .await;
    let mut waiting: Vec<String> = queued_actions(&store)
        .iter()
        .map(|action| action.recipients[0].address.local().into())
        .collect();
    waiting.sort();
    // The reply is tried again after a 4xx, and after nonsense or a broken dialogue before the
    // final dot. If the dialogue breaks after the dot, the reply counts as sent.
    assert_eq!(waiting, ["defer", "garbage", "half", "later", "tarpit"]);
    assert!(
        queued_actions(&store)
            .iter()
            .all(|action| action.state == ActionState::Waiting && action.last_error.is_some())
    );
    // A refusal of the reply removes the told row, unless the address itself is bad or needs
    // SMTPUTF8.
    for (name, told) in [
        ("bob", true),
        ("bad", true),
        ("never", false),
        ("lost", true),
        ("torn", true),
        ("utf8", true),
    ] {
        assert_eq!(is_told(&store, name), told, "{name}");
    }
    assert!(
        is_told(&store, "interrupted") && is_told(&store, "later") && !is_told(&store, "refused")
    );
    worker.stop().await;
    let counts: Vec<usize> =
        ["bob", "lost", "torn", "interrupted"].map(|name| relay.to(name)).to_vec();
    assert_eq!(counts, [1, 1, 1, 0]);
    let bob =
        relay.received.lock().iter().find(|mail| mail.rcpt[0].contains("<bob@")).cloned().unwrap();
    assert_eq!(bob.rcpt, ["RCPT TO:<bob@example.net> NOTIFY=NEVER"]);
    assert_eq!(
        (bob.mail.as_str(), bob.message.as_str()),
        ("MAIL FROM:<> SIZE=20", "Subject: x\r\n\r\n.dot\r\n")
    );
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_that_is_down_costs_no_attempts() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for to in ["a", "bb", "ccc"] {
        queue_reply(&store, to, ActionState::Waiting);
    }
    let worker = RunningWorker::start(&store, settings(port));
    tokio::time::sleep(Duration::from_millis(150)).await;
    worker.stop().await;
    let worker = RunningWorker::start(&store, settings(port));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(queued_actions(&store).iter().all(|action| action.attempts == 0));
    let _server = relay.serve(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    until("all sent", || queued_actions(&store).is_empty()).await;
    assert_eq!(relay.received.lock().len(), 3);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_that_concern_all_messages_cost_no_attempts() {
    for behaviour in [
        RelayBehaviour { greeting: "554 5.7.1 go away\r\n", ..RelayBehaviour::default() },
        RelayBehaviour { greeting: "nonsense\r\n", ..RelayBehaviour::default() },
        RelayBehaviour { greeting: "220-half a", ..RelayBehaviour::default() },
        RelayBehaviour { sender: "530 5.7.0 authenticate first\r\n", ..RelayBehaviour::default() },
        RelayBehaviour { sender: "421 4.3.2 closing\r\n", ..RelayBehaviour::default() },
        RelayBehaviour { sender: "452 4.3.1 no room\r\n", ..RelayBehaviour::default() },
        // Refuses EHLO.
        RelayBehaviour { lmtp: true, ..RelayBehaviour::default() },
    ] {
        let (store, relay) = (store(), ScriptedRelay::of(behaviour.clone()));
        let (port, _server) = relay.start().await;
        for to in ["a", "bb", "ccc"] {
            queue_reply(&store, to, ActionState::Waiting);
        }
        let mut settings = settings(port);
        // How long the worker waits for the rest of half a greeting.
        settings.relay.timeout = Duration::from_millis(200);
        let worker = RunningWorker::start(&store, settings);
        tokio::time::sleep(Duration::from_millis(200)).await;
        // Up to three at first, and then one after each pause. These begin with 20 ms and double.
        let tried = relay.connections.load(Ordering::SeqCst);
        assert!((1..=12).contains(&tried), "{tried} connections: {behaviour:?}");
        assert!(
            queued_actions(&store).len() == 3
                && queued_actions(&store).iter().all(|action| action.attempts == 0),
            "{behaviour:?}"
        );
        *relay.behaviour.lock() = RelayBehaviour::default();
        until("all sent", || queued_actions(&store).is_empty()).await;
        assert_eq!(relay.received.lock().len(), 3, "{behaviour:?}");
        worker.stop().await;
        assert_store_is_clean(&store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_that_refuses_records_stops_sending_and_nothing_goes_out_twice() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let store = store_over(engine.clone(), Arc::new(SystemClock));
    let relay = ScriptedRelay::default();
    let (port, _server) = relay.start().await;
    // This start writes the queue's mark, so that the next one need not write it.
    let worker = RunningWorker::start(&store, settings(port));
    until("the mark", || store.snapshot().queue_mark().unwrap().is_some()).await;
    worker.stop().await;
    for to in ["bob", "eve"] {
        queue_reply(&store, to, ActionState::Waiting);
    }
    // The first write, the record of an attempt, succeeds, and all later ones are refused.
    engine.fail_after(1, Error::Full);
    let worker = RunningWorker::start(&store, settings(port));
    until("one sent", || !relay.received.lock().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // After a refused write everything rests for 20 ms (`relay_pause`) or longer, so only a few
    // writes are tried in these 300 ms.
    let writes = engine.refused();
    assert!((1..60).contains(&writes), "{writes} writes in vain");
    assert_eq!(relay.received.lock().len(), 1);
    engine.heal();
    until("all recorded", || queued_actions(&store).is_empty()).await;
    assert_eq!(relay.received.lock().len(), 2);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependant_waits_and_is_dropped_if_the_first_action_fails() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let chain = |first: &str, second: &str| {
        let one = queue(&store, &submission(&store, &[first]));
        let next = submission(&store, &[second]);
        let two = queue(
            &store,
            &NewAction { action: Action { after: Some(one), ..next.action }, ..next },
        );
        (one, two)
    };
    let good = chain("bob", "eve");
    let bad = chain("bad", "nobody");
    let slow = chain("later", "patient");
    for (_, second) in [good, bad, slow] {
        assert_eq!(
            store.snapshot().action(ANN, second).unwrap().unwrap().state,
            ActionState::Blocked
        );
    }
    assert_store_is_clean(&store);
    let worker = RunningWorker::start(&store, settings(port));
    let state = |id: ActionId| store.snapshot().action(ANN, id).unwrap().map(|action| action.state);
    // `bad` is refused for good, and `later` for now.
    until("both sent", || state(good.1) == Some(ActionState::Sent)).await;
    until("the bad one failed", || state(bad.0) == Some(ActionState::Failed)).await;
    until("the slow one was tried", || {
        store.snapshot().action(ANN, slow.0).unwrap().unwrap().attempts > 0
    })
    .await;
    assert_eq!((state(bad.1), state(slow.1)), (None, Some(ActionState::Blocked)));
    assert_eq!(
        (relay.to("bob"), relay.to("eve"), relay.to("nobody"), relay.to("patient")),
        (1, 1, 0, 0)
    );
    // An action cannot be queued after one that failed for good.
    let late = submission(&store, &["late"]);
    let late = Action { after: Some(bad.0), ..late.action };
    assert!(store.commit(ANN, |txn| txn.queue_action(late.clone(), b"")).is_err());
    let failed = store.snapshot().action(ANN, bad.0).unwrap().unwrap();
    assert!(matches!(
        &failed.recipients[0].state,
        RecipientState::Failed { status: [5, 1, 1], .. }
    ));
    let before = relay.count_commands("RCPT TO:<bad@");
    commit(&store, |txn| {
        txn.update_action(&failed, &by_hand::retry_action(&failed, txn.now()).unwrap())
    });
    until("tried again", || relay.count_commands("RCPT TO:<bad@") > before).await;
    until("failed again", || state(bad.0) == Some(ActionState::Failed)).await;
    worker.stop().await;
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanent_failure_is_reported_to_the_sender() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let (email, blob) = file(&store, b"Subject: for others\r\nMessage-ID: <m@x>\r\n\r\nbody\r\n");
    let redirect = |sender: Option<&str>, to: &[&str]| RedirectAction {
        sender: sender.map(|name| Address::from_parts(name, "example.com")),
        recipients: to.iter().map(|name| at_example_net(name)).collect(),
        email: Some(email),
        message_id: "m@x".into(),
        prefix: b"Resent-From: ann@example.org\r\n".to_vec(),
        blob,
    };
    let now = store.clock().now();
    queue(&store, &redirect(Some("carl"), &["bob", "bad"]).into_action(now));
    queue(&store, &redirect(None, &["never"]).into_action(now));
    // The same redirect with the recipients in another order is queued once.
    let same = redirect(Some("carl"), &["bad", "bob"]).into_action(now);
    assert_eq!(queue(&store, &same), queued_actions(&store)[0].id);
    assert_eq!(queued_actions(&store).len(), 2);
    let never = DsnNotify { never: true, ..DsnNotify::default() };
    let without_reports = Target { notify: Some(never), ..Target::plain(at_example_net("bad")) };
    let queued = submission(&store, &["x"]);
    let recipients = vec![without_reports];
    queue(&store, &NewAction { action: Action { recipients, ..queued.action }, ..queued });
    assert_store_is_clean(&store);
    let worker = RunningWorker::start(&store, settings(port));
    until("the report", || {
        relay.received.lock().iter().any(|mail| mail.message.contains("delivery-status"))
    })
    .await;
    until("all done", || {
        queued_actions(&store).iter().all(|action| action.state == ActionState::Failed)
    })
    .await;
    worker.stop().await;
    let received = relay.received.lock().clone();
    assert_eq!(received.len(), 2, "{received:?}");
    let (first, report) = (&received[0], &received[1]);
    assert!(
        first.mail.starts_with("MAIL FROM:<carl@example.com>")
            && first.rcpt == ["RCPT TO:<bob@example.net>"]
    );
    assert!(
        first.message.starts_with("Resent-From: ann@example.org\r\nSubject: for others\r\n"),
        "{}",
        first.message
    );
    assert!(
        report.mail.starts_with("MAIL FROM:<>")
            && report.rcpt[0].starts_with("RCPT TO:<carl@example.com>")
    );
    for line in ["Final-Recipient: rfc822; bad@example.net", "Status: 5.1.1", "Subject: for others"]
    {
        assert!(report.message.lines().any(|found| found == line), "{line}\n{}", report.message);
    }
    assert_eq!(queued_actions(&store).len(), 1, "the submission is kept for its owner");
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_of_a_restored_backup_or_without_mark_is_held_until_it_is_accepted() {
    use crate::store::engine::{Batch, Put, Table};
    // A mark of another epoch, as after a backup was restored; and no mark.
    for mark in [Some(QueueMark { epoch: 1, held: None }), None] {
        let engine = Arc::new(MemoryEngine::new());
        let (store, relay) =
            (store_over(engine.clone(), Arc::new(SystemClock)), ScriptedRelay::default());
        let (port, _server) = relay.start().await;
        queue_reply(&store, "bob", ActionState::Waiting);
        match &mark {
            Some(mark) => {
                let done = store.commit(AccountId::SITE, |txn| {
                    txn.mark_queue(mark);
                    Ok(())
                });
                done.unwrap().1.wait().await.unwrap();
            }
            None => {
                let puts = vec![Put { table: Table::Site, key: b"queue".to_vec(), value: None }];
                engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            }
        }
        let worker = RunningWorker::start(&store, settings(port));
        let held = || store.snapshot().queue_mark().unwrap().and_then(|mark| mark.held);
        until("it is held", || held().is_some()).await;
        let why = held().unwrap();
        assert!(why.contains(if mark.is_some() { "backup" } else { "mark is lost" }), "{why}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        worker.stop().await;
        // The queue is still held after another start.
        let worker = RunningWorker::start(&store, settings(port));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((relay.received.lock().len(), queued_actions(&store).len()), (0, 1));
        let epoch = store.epoch();
        let done = store.commit(AccountId::SITE, |txn| {
            txn.mark_queue(&QueueMark { epoch, held: None });
            Ok(())
        });
        done.unwrap().1.wait().await.unwrap();
        until("it goes on", || queued_actions(&store).is_empty()).await;
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_with_a_missing_row_is_held() {
    use crate::store::engine::{Batch, Put, Table};
    for table in [Table::Outbox, Table::OutboxDue] {
        let engine = Arc::new(MemoryEngine::new());
        let store = store_over(engine.clone(), Arc::new(SystemClock));
        let relay = ScriptedRelay::default();
        let (port, _server) = relay.start().await;
        // Writes the queue's mark.
        RunningWorker::start(&store, settings(port)).stop().await;
        queue_reply(&store, "bob", ActionState::Waiting);
        queue_reply(&store, "eve", ActionState::Waiting);
        let (key, _) = engine.rows(table).pop().unwrap();
        engine.write(&[Arc::new(Batch::of(vec![Put { table, key, value: None }]))]).unwrap();
        let worker = RunningWorker::start(&store, settings(port));
        until("it is held", || {
            store.snapshot().queue_mark().unwrap().is_some_and(|mark| mark.held.is_some())
        })
        .await;
        let why = store.snapshot().queue_mark().unwrap().and_then(|mark| mark.held).unwrap();
        assert!(
            why.contains(if table == Table::Outbox { "should have 2" } else { "are woken" }),
            "{why}"
        );
        assert_eq!(relay.received.lock().len(), 0);
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urgent_action_goes_first_and_held_action_does_not_go() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    for n in 0..20 {
        queue_reply(&store, &format!("u{n}"), ActionState::Waiting);
    }
    queue_reply(&store, "held", ActionState::Held);
    queue(&store, &submission(&store, &["person"]));
    let delayed = submission(&store, &["undone"]);
    let due = store.clock().now().after(Duration::from_secs(3600));
    let delayed = queue(&store, &NewAction { action: Action { due, ..delayed.action }, ..delayed });
    let worker = RunningWorker::start(&store, Settings { concurrency: 1, ..settings(port) });
    until("the rest is sent", || relay.received.lock().len() == 21).await;
    assert!(relay.received.lock()[0].rcpt[0].contains("<person@"));
    // An action that is not due yet can be removed.
    let removed = commit(&store, |txn| txn.remove_action(delayed));
    assert_eq!((removed.len(), relay.to("undone"), relay.to("held")), (1, 0, 0));
    worker.stop().await;
    assert_store_is_clean(&store);
}
