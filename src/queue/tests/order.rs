//! Tests of the order to one address, of what a person asks for, of a wall clock that is set, of
//! copies of replies, and of submissions in a held queue.
//!
//! `scripted_relay` answers each local part in its own way: it refuses RCPT to `later` for now and
//! to `never` for good, and the message to `refused`.

use super::*;
use crate::model::ActionKind;
use crate::outbox::{AttemptOutcome, HELD, RefusalScope, next_step};
use crate::queue::attempt::{AttemptContext, lanes};

const NINE: UtcMillis = UtcMillis(1_795_251_600_000);
const HOUR: Duration = Duration::from_secs(3600);

fn read_action(store: &Store, id: ActionId) -> Option<Action> {
    store.snapshot().action(ANN, id).unwrap()
}

/// Queues a redirect of a message with this subject to these addresses.
fn redirect(store: &Store, subject: &str, to: &[&str]) -> ActionId {
    let (email, blob) = file(
        store,
        format!("Subject: {subject}\r\nMessage-ID: <{subject}@x>\r\n\r\nx\r\n").as_bytes(),
    );
    let redirect = RedirectAction {
        sender: None,
        recipients: to.iter().map(|to| Address::parse(to).unwrap()).collect(),
        email: Some(email),
        message_id: format!("{subject}@x"),
        prefix: Vec::new(),
        blob,
    };
    queue(store, &redirect.into_action(store.clock().now()))
}

fn received_subjects(relay: &ScriptedRelay, to: &str) -> Vec<String> {
    let path = format!("<{to}>");
    let received = relay.received.lock();
    let received = received
        .iter()
        .filter(|mail| mail.is_accepted && mail.rcpt.iter().any(|line| line.contains(&path)));
    received
        .map(|mail| mail.message.lines().next().unwrap().trim_start_matches("Subject: ").to_owned())
        .collect()
}

/// Makes a clock, a store that has it, and a relay that does not run yet.
fn bed() -> (Arc<FixedClock>, Store, ScriptedRelay) {
    let clock = Arc::new(FixedClock::at(NINE));
    (clock.clone(), store_over(Arc::new(MemoryEngine::new()), clock), ScriptedRelay::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_mail_to_an_address_waits_for_earlier_mail_after_a_temporary_refusal() {
    for restarts in [false, true] {
        let (clock, store, relay) = bed();
        let (port, _server) = relay.start().await;
        relay.behaviour.lock().refuses = Some(("grey.example", "451 4.7.1 come again\r\n"));
        let first = redirect(&store, "first", &["bob@grey.example"]);
        let mut worker = RunningWorker::start(&store, settings(port));
        until("the first is refused", || read_action(&store, first).unwrap().attempts == 1).await;
        relay.behaviour.lock().refuses = None;
        if restarts {
            worker.stop().await;
            worker = RunningWorker::start(&store, settings(port));
        }
        let second = redirect(&store, "second", &["bob@grey.example"]);
        let third = redirect(&store, "third", &["eve@example.net", "bob@grey.example"]);
        let other = redirect(&store, "other", &["carl@grey.example"]);
        until("the others have their mail", || {
            read_action(&store, other).is_none()
                && received_subjects(&relay, "eve@example.net") == ["third"]
        })
        .await;
        until("the two are postponed", || {
            [second, third]
                .iter()
                .all(|id| read_action(&store, *id).is_some_and(|action| action.due > clock.now()))
        })
        .await;
        assert_eq!(received_subjects(&relay, "bob@grey.example"), Vec::<String>::new());
        assert_eq!(read_action(&store, second).unwrap().attempts, 0, "it was not tried");
        for _ in 0..20 {
            clock.advance(Duration::from_secs(30));
            worker.waker.wake();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        until("all are sent", || queued_actions(&store).is_empty()).await;
        worker.stop().await;
        assert_eq!(
            received_subjects(&relay, "bob@grey.example"),
            ["first", "second", "third"],
            "restarts: {restarts}"
        );
        assert_store_is_clean(&store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept_neither_for_ever_nor_if_a_person_asks_for_an_action() {
    let (clock, store, relay) = bed();
    let (port, _server) = relay.start().await;
    let first = redirect(&store, "first", &["later@example.net"]);
    let worker = RunningWorker::start(&store, settings(port));
    until("the first is refused", || read_action(&store, first).unwrap().attempts == 1).await;
    let second = redirect(&store, "second", &["later@example.net"]);
    let third = redirect(&store, "third", &["later@example.net"]);
    until("it is postponed", || read_action(&store, second).unwrap().due > clock.now()).await;
    until("it is postponed", || read_action(&store, third).unwrap().due > clock.now()).await;
    let read = read_action(&store, third).unwrap();
    commit(&store, |txn| {
        txn.update_action(&read, &by_hand::retry_action(&read, txn.now()).unwrap())
    });
    until("it is tried", || read_action(&store, third).unwrap().attempts == 1).await;
    assert_eq!(read_action(&store, second).unwrap().attempts, 0);
    // The time for which order is kept (`limits::MAX_ORDER_WAIT`, an hour) passes. Other recipients
    // at the domain accept mail meanwhile, so the domain does not rest.
    for n in 0..45 {
        redirect(&store, &format!("ok{n}"), &[&format!("ok{n}@example.net")]);
        clock.advance(Duration::from_secs(120));
        worker.waker.wake();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    until("it goes by itself", || read_action(&store, second).unwrap().attempts > 0).await;
    assert!(read_action(&store, first).is_some(), "the first waits still");
    worker.stop().await;
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_that_is_not_recorded_changes_no_order_unless_the_action_is_gone() {
    let (clock, store, _relay) = bed();
    let context = AttemptContext {
        store: store.clone(),
        directory: directory(&store),
        settings: Arc::new(settings(1)),
        pool: Arc::default(),
        order: Arc::default(),
    };
    let first = redirect(&store, "first", &["bob@example.net"]);
    let second = redirect(&store, "second", &["bob@example.net"]);
    let tried = read_action(&store, first).unwrap();
    let lane = lanes(ANN, &tried)[0];
    let waits_for_first = || context.order.lock().before((ANN, second), lane).is_some();
    let refused =
        AttemptOutcome::Temporary { text: "451 later".into(), scope: RefusalScope::Recipient };
    let next =
        |outcome| next_step(&tried, vec![outcome], clock.now(), &RetrySchedule::default(), 0);
    let (again, done) = (next(refused), next(AttemptOutcome::Sent("250".into())));
    // A person holds the action while the relay is asked.
    commit(&store, |txn| {
        txn.update_action(&tried, &by_hand::hold_action(&tried, txn.now()).unwrap())
    });
    context.record_next_step(ANN, (&tried, &tried), again, b"").await;
    assert!(!waits_for_first(), "a held action holds nothing back");
    context.order.lock().postpone((ANN, first), vec![lane], clock.now().after(HOUR));
    context.record_next_step(ANN, (&tried, &tried), done.clone(), b"").await;
    assert!(waits_for_first());
    commit(&store, |txn| txn.remove_action(first).map(drop));
    context.record_next_step(ANN, (&tried, &tried), done, b"").await;
    assert!(!waits_for_first(), "the action is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_that_is_set_back_makes_no_wait_longer() {
    let (clock, store, relay) = bed();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let person = queue(&store, &submission(&store, &["person"]));
    let worker = RunningWorker::start(
        &store,
        Settings { relay_pause: Duration::from_secs(15), ..settings(port) },
    );
    until("the relay is down", || read_action(&store, person).unwrap().last_error.is_some()).await;
    assert!(read_action(&store, person).unwrap().urgent, "a person waits for it still");
    clock.set(clock.now().before(2 * HOUR));
    let _server = relay.serve(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    // The due time is two hours ahead now. The schedule sets at most an hour and a quarter, which
    // is the longest wait with the most jitter.
    until("it is brought back", || {
        worker.waker.wake();
        read_action(&store, person).unwrap().due <= clock.now().after(HOUR + HOUR / 4)
    })
    .await;
    assert_eq!(relay.to("person"), 0);
    for _ in 0..8 {
        clock.advance(Duration::from_secs(600));
        worker.waker.wake();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until("it is sent", || read_action(&store, person).unwrap().state == ActionState::Sent).await;
    worker.stop().await;
    assert_eq!(relay.to("person"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_is_probed_at_once_if_a_person_asks_for_an_action() {
    let (clock, store, relay) = bed();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let id = queue_reply(&store, "bob", ActionState::Waiting);
    let queue = QueueWorker::new(
        store.clone(),
        directory(&store),
        LiveValue::new(Settings { relay_pause: HOUR, ..settings(port) }),
    );
    let (trouble, (stop, stopped)) = (queue.trouble(), oneshot::channel::<()>());
    let task = tokio::spawn(queue.run(async { drop(stopped.await) }));
    until("the relay is down", || trouble.get().is_some()).await;
    let _server = relay.serve(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    // A wall clock that is set back must not delay the probe: the rest is measured by monotonic
    // time, and the request makes the action due by the new time.
    clock.set(clock.now().before(2 * HOUR));
    let read = read_action(&store, id).unwrap();
    commit(&store, |txn| {
        txn.update_action(&read, &by_hand::retry_action(&read, txn.now()).unwrap())
    });
    until("it is sent", || queued_actions(&store).is_empty()).await;
    drop(stop);
    task.await.unwrap();
    assert_eq!(relay.to("bob"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_that_was_years_ahead_for_a_moment_makes_nothing_fail_untried() {
    let (clock, store, relay) = bed();
    let (port, _server) = relay.start().await;
    redirect(&store, "first", &["bob@example.net"]);
    redirect(&store, "late", &["later@example.net"]);
    clock.set(clock.now().after(HOUR * 24 * 3650));
    let worker = RunningWorker::start(&store, settings(port));
    until("the one is sent and the other given up", || queued_actions(&store).is_empty()).await;
    worker.stop().await;
    assert_eq!(
        (received_subjects(&relay, "bob@example.net"), relay.count_commands("RCPT TO:<later@")),
        (vec!["first".into()], 1)
    );
    // An action that was postponed by the wrong clock is tried soon after the clock is right again.
    let mut odd = redirect(&store, "odd", &["eve@example.net"]);
    let read = read_action(&store, odd).unwrap();
    commit(&store, |txn| {
        txn.update_action(&read, &Action { due: read.due.after(HOUR), attempts: 3, ..read.clone() })
    });
    clock.set(NINE);
    let worker = RunningWorker::start(&store, settings(port));
    until("it is brought back", || {
        read_action(&store, odd).unwrap().due <= NINE.after(HOUR + HOUR / 4)
    })
    .await;
    clock.advance(2 * HOUR);
    worker.waker.wake();
    until("it is sent", || queued_actions(&store).is_empty()).await;
    worker.stop().await;
    // An action that would expire in years has its usual lifetime after the next attempt.
    clock.set(NINE.after(HOUR * 24 * 3650));
    odd = redirect(&store, "odd", &["later@example.net"]);
    clock.set(NINE);
    let worker = RunningWorker::start(&store, settings(port));
    until("it is brought back", || {
        read_action(&store, odd).unwrap().due <= NINE.after(HOUR + HOUR / 4)
    })
    .await;
    clock.advance(2 * HOUR);
    worker.waker.wake();
    until("it is tried", || read_action(&store, odd).unwrap().attempts == 1).await;
    assert!(read_action(&store, odd).unwrap().expires <= clock.now().after(HOUR * 24 * 5));
    worker.stop().await;
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_of_a_reply_that_failed_is_removed() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let mut copies = Vec::new();
    for to in ["never", "refused", "bob"] {
        let NewAction { action, .. } = reply(to, store.clock().now());
        let message =
            format!("Subject: away\r\nMessage-ID: <{to}@example.org>\r\n\r\naway\r\n").into_bytes();
        copies.push((to, file(&store, &message).0));
        commit(&store, |txn| txn.queue_action(action.clone(), &message));
    }
    let worker = RunningWorker::start(&store, settings(port));
    until("all are done", || queued_actions(&store).is_empty()).await;
    worker.stop().await;
    for (to, copy) in copies {
        assert_eq!(store.snapshot().email(ANN, copy).unwrap().is_some(), to == "bob", "{to}");
    }
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submission_in_a_held_queue_says_so() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let id = submissions::submit(&store, &["bob"], &[]);
    // The mark of another epoch, as after a backup was restored.
    let committed = store.commit(AccountId::SITE, |txn| {
        txn.mark_queue(&QueueMark { epoch: 1, held: None });
        Ok(())
    });
    committed.unwrap().1.wait().await.unwrap();
    let smtp_reply = || {
        let submission =
            store.snapshot().object::<crate::model::EmailSubmission>(ANN, id).unwrap().unwrap();
        submission.rcpt_to[0].status.smtp_reply.clone()
    };
    assert_eq!(smtp_reply(), "250 2.0.0 queued");
    let worker = RunningWorker::start(&store, settings(port));
    until("it says so", || smtp_reply() == HELD).await;
    assert_eq!(relay.received.lock().len(), 0);
    assert!(
        queued_actions(&store)
            .iter()
            .all(|action| action.kind == ActionKind::Submission && action.attempts == 0)
    );
    worker.stop().await;
    assert_store_is_clean(&store);
}
