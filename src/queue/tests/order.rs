//! What goes after what: order to one address, priority, and a clock that is set.

use super::*;
use crate::model::ActionKind;
use crate::outbox::HELD;

const NINE: UtcMillis = UtcMillis(1_795_251_600_000);
const HOUR: Duration = Duration::from_secs(3600);

fn of(store: &Store, id: ActionId) -> Option<Action> {
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
    queue(store, &redirect.queue(store.clock().now()))
}

/// The subjects that an address got, in order.
fn got(rogue: &ScriptedRelay, to: &str) -> Vec<String> {
    let mark = format!("<{to}>");
    let seen = rogue.seen.lock();
    let to_it =
        seen.iter().filter(|seen| seen.taken && seen.rcpt.iter().any(|line| line.contains(&mark)));
    to_it
        .map(|seen| seen.message.lines().next().unwrap().trim_start_matches("Subject: ").to_owned())
        .collect()
}

fn bed() -> (Arc<FixedClock>, Store, ScriptedRelay) {
    let clock = Arc::new(FixedClock::at(NINE));
    (clock.clone(), store_over(Arc::new(MemoryEngine::new()), clock), ScriptedRelay::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_mail_to_an_address_waits_for_earlier_mail_that_was_refused_for_now() {
    for restarts in [false, true] {
        let (clock, store, rogue) = bed();
        let (port, _server) = rogue.start().await;
        rogue.manners.lock().refuses = Some(("grey.example", "451 4.7.1 come again\r\n"));
        let first = redirect(&store, "first", &["bob@grey.example"]);
        let mut working = Working::start(&store, settings(port));
        until("the first is refused", || of(&store, first).unwrap().attempts == 1).await;
        rogue.manners.lock().refuses = None;
        if restarts {
            working.stop().await;
            working = Working::start(&store, settings(port));
        }
        // To the same address: alone, and beside somebody else, who does not wait.
        let second = redirect(&store, "second", &["bob@grey.example"]);
        let third = redirect(&store, "third", &["eve@example.net", "bob@grey.example"]);
        let other = redirect(&store, "other", &["carl@grey.example"]);
        until("the others have theirs", || {
            of(&store, other).is_none() && got(&rogue, "eve@example.net") == ["third"]
        })
        .await;
        until("the two are put off", || {
            [second, third]
                .iter()
                .all(|id| of(&store, *id).is_some_and(|action| action.due > clock.now()))
        })
        .await;
        assert_eq!(got(&rogue, "bob@grey.example"), Vec::<String>::new());
        assert_eq!(of(&store, second).unwrap().attempts, 0, "it was not tried");
        for _ in 0..20 {
            clock.advance(Duration::from_secs(30));
            working.bell.ring();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        until("all are sent", || left(&store).is_empty()).await;
        working.stop().await;
        assert_eq!(
            got(&rogue, "bob@grey.example"),
            ["first", "second", "third"],
            "restarts: {restarts}"
        );
        clean(&store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept_for_an_hour_and_gives_way_to_a_hand() {
    let (clock, store, rogue) = bed();
    let (port, _server) = rogue.start().await;
    let first = redirect(&store, "first", &["later@example.net"]);
    let working = Working::start(&store, settings(port));
    until("the first is refused", || of(&store, first).unwrap().attempts == 1).await;
    let second = redirect(&store, "second", &["later@example.net"]);
    let third = redirect(&store, "third", &["later@example.net"]);
    until("it is put off", || of(&store, second).unwrap().due > clock.now()).await;
    // Asked for by hand, it does not wait.
    let read = of(&store, third).unwrap();
    until("it is put off", || of(&store, third).unwrap().due > clock.now()).await;
    let read = of(&store, third).unwrap_or(read);
    commit(&store, |txn| {
        txn.update_action(&read, &by_hand::retry_action(&read, txn.now()).unwrap())
    });
    until("it is tried", || of(&store, third).unwrap().attempts == 1).await;
    assert_eq!(of(&store, second).unwrap().attempts, 0);
    // Others at that domain take their mail: it does not rest as a whole.
    for n in 0..45 {
        redirect(&store, &format!("ok{n}"), &[&format!("ok{n}@example.net")]);
        clock.advance(Duration::from_secs(120));
        working.bell.ring();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    until("it goes by itself", || of(&store, second).unwrap().attempts > 0).await;
    assert!(of(&store, first).is_some(), "the first waits still");
    working.stop().await;
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_makes_no_rest_longer() {
    let (clock, store, rogue) = bed();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let person = queue(&store, &submission(&store, &["person"]));
    let working =
        Working::start(&store, Settings { relay_pause: Duration::from_secs(15), ..settings(port) });
    until("the relay is down", || of(&store, person).unwrap().last_error.is_some()).await;
    assert!(of(&store, person).unwrap().urgent, "a person waits for it still");
    clock.set(clock.now().before(2 * HOUR));
    let _server = rogue.serve(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    // It was due at a time that lies two hours ahead now: that is more than the schedule ever
    // writes.
    until("it is brought back", || {
        working.bell.ring();
        of(&store, person).unwrap().due <= clock.now().after(HOUR + HOUR / 4)
    })
    .await;
    assert_eq!(rogue.to("person"), 0);
    for _ in 0..8 {
        clock.advance(Duration::from_secs(600));
        working.bell.ring();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until("it is sent", || of(&store, person).unwrap().state == ActionState::Sent).await;
    working.stop().await;
    assert_eq!(rogue.to("person"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_rests_is_asked_at_once_where_a_person_wants_it() {
    let (clock, store, rogue) = bed();
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
    let _server = rogue.serve(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    // However the clock is set, and in whichever direction.
    clock.set(clock.now().before(2 * HOUR));
    let read = of(&store, id).unwrap();
    commit(&store, |txn| {
        txn.update_action(&read, &by_hand::retry_action(&read, txn.now()).unwrap())
    });
    until("it is sent", || left(&store).is_empty()).await;
    drop(stop);
    task.await.unwrap();
    assert_eq!(rogue.to("bob"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_was_years_ahead_for_a_moment_gives_up_nothing_untried() {
    let (clock, store, rogue) = bed();
    let (port, _server) = rogue.start().await;
    redirect(&store, "first", &["bob@example.net"]);
    let late = redirect(&store, "late", &["later@example.net"]);
    clock.set(clock.now().after(HOUR * 24 * 3650));
    let working = Working::start(&store, settings(port));
    until("the one is sent and the other given up", || left(&store).is_empty()).await;
    working.stop().await;
    assert_eq!(
        (got(&rogue, "bob@example.net"), rogue.heard("RCPT TO:<later@")),
        (vec!["first".into()], 1),
        "{late}"
    );
    // What was put off by that clock is tried soon after it is right again.
    let mut odd = redirect(&store, "odd", &["eve@example.net"]);
    let read = of(&store, odd).unwrap();
    commit(&store, |txn| {
        txn.update_action(&read, &Action { due: read.due.after(HOUR), attempts: 3, ..read.clone() })
    });
    clock.set(NINE);
    let working = Working::start(&store, settings(port));
    until("it is brought back", || of(&store, odd).unwrap().due <= NINE.after(HOUR + HOUR / 4))
        .await;
    clock.advance(2 * HOUR);
    working.bell.ring();
    until("it is sent", || left(&store).is_empty()).await;
    working.stop().await;
    // And one that was to expire years from now has its usual time again once it was tried.
    clock.set(NINE.after(HOUR * 24 * 3650));
    odd = redirect(&store, "odd", &["later@example.net"]);
    clock.set(NINE);
    let working = Working::start(&store, settings(port));
    until("it is brought back", || of(&store, odd).unwrap().due <= NINE.after(HOUR + HOUR / 4))
        .await;
    clock.advance(2 * HOUR);
    working.bell.ring();
    until("it is tried", || of(&store, odd).unwrap().attempts == 1).await;
    assert!(of(&store, odd).unwrap().expires <= clock.now().after(HOUR * 24 * 5));
    working.stop().await;
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_copy_of_a_reply_that_nobody_got_goes_with_it() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let mut copies = Vec::new();
    for to in ["never", "refused", "bob"] {
        let NewAction { action, .. } = reply(to, store.clock().now());
        let message =
            format!("Subject: away\r\nMessage-ID: <{to}@example.org>\r\n\r\naway\r\n").into_bytes();
        copies.push((to, file(&store, &message).0));
        commit(&store, |txn| txn.queue_action(action.clone(), &message));
    }
    let working = Working::start(&store, settings(port));
    until("all are done", || left(&store).is_empty()).await;
    working.stop().await;
    for (to, copy) in copies {
        assert_eq!(store.snapshot().email(ANN, copy).unwrap().is_some(), to == "bob", "{to}");
    }
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_in_a_queue_that_is_held_says_so() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let id = lives::submit(&store, &["bob"], &[]);
    let done = store.commit(AccountId::SITE, |txn| {
        txn.mark_queue(&QueueMark { epoch: 1, held: None });
        Ok(())
    });
    done.unwrap().1.wait().await.unwrap();
    let said = || {
        let one =
            store.snapshot().object::<crate::model::EmailSubmission>(ANN, id).unwrap().unwrap();
        one.rcpt_to[0].status.smtp_reply.clone()
    };
    assert_eq!(said(), "250 2.0.0 queued");
    let working = Working::start(&store, settings(port));
    until("it says so", || said() == HELD).await;
    assert_eq!(rogue.seen.lock().len(), 0);
    assert!(
        left(&store)
            .iter()
            .all(|action| action.kind == ActionKind::Submission && action.attempts == 0)
    );
    working.stop().await;
    clean(&store);
}
