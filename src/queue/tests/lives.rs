//! What becomes of actions: each outcome, what depends on what, and a queue that is not what it
//! should be.

use super::*;
use crate::model::{
    DeliveryState, EmailSubmission, EnvelopeAddress, ObjectId, SubmissionRecipient, UndoStatus,
};
use crate::outbox::submission::order;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_go_out_once_and_failures_are_told_apart() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    // An attempt that an earlier run recorded counts as sent: it is not sent again.
    queue_reply(&store, "interrupted", ActionState::Attempting);
    let names = [
        "bob", "bad", "never", "later", "lost", "torn", "refused", "defer", "garbage", "half",
        "tarpit", "utf8",
    ];
    for to in names {
        queue_reply(&store, to, ActionState::Waiting);
    }
    let working = Working::start(&store, settings(port));
    until("all attempts", || left(&store).iter().all(|action| action.attempts == 1)).await;
    let mut waiting: Vec<String> =
        left(&store).iter().map(|action| action.recipients[0].address.local().into()).collect();
    waiting.sort();
    // 4xx, nonsense and a broken conversation before the dot are tried again; after the dot it
    // counts as sent.
    assert_eq!(waiting, ["defer", "garbage", "half", "later", "tarpit"]);
    assert!(
        left(&store)
            .iter()
            .all(|action| action.state == ActionState::Waiting && action.last_error.is_some())
    );
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
    working.stop().await;
    let counts: Vec<usize> =
        ["bob", "lost", "torn", "interrupted"].map(|name| rogue.to(name)).to_vec();
    assert_eq!(counts, [1, 1, 1, 0]);
    let bob =
        rogue.seen.lock().iter().find(|seen| seen.rcpt[0].contains("<bob@")).cloned().unwrap();
    assert_eq!(bob.rcpt, ["RCPT TO:<bob@example.net> NOTIFY=NEVER"]);
    assert_eq!(
        (bob.mail.as_str(), bob.message.as_str()),
        ("MAIL FROM:<> SIZE=20", "Subject: x\r\n\r\n.dot\r\n")
    );
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_down_is_waited_for_and_costs_no_attempts() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for to in ["a", "bb", "ccc"] {
        queue_reply(&store, to, ActionState::Waiting);
    }
    let working = Working::start(&store, settings(port));
    tokio::time::sleep(Duration::from_millis(150)).await;
    working.stop().await;
    // Also over a restart meanwhile.
    let working = Working::start(&store, settings(port));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(left(&store).iter().all(|action| action.attempts == 0));
    let _server = rogue.serve(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    until("all sent", || left(&store).is_empty()).await;
    assert_eq!(rogue.seen.lock().len(), 3);
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_that_concern_us_hold_all_and_cost_no_attempts() {
    for manners in [
        ScriptedRelaySettings {
            greeting: "554 5.7.1 go away\r\n",
            ..ScriptedRelaySettings::default()
        },
        ScriptedRelaySettings { greeting: "nonsense\r\n", ..ScriptedRelaySettings::default() },
        ScriptedRelaySettings { greeting: "220-half a", ..ScriptedRelaySettings::default() },
        ScriptedRelaySettings {
            sender: "530 5.7.0 authenticate first\r\n",
            ..ScriptedRelaySettings::default()
        },
        ScriptedRelaySettings {
            sender: "421 4.3.2 closing\r\n",
            ..ScriptedRelaySettings::default()
        },
        ScriptedRelaySettings {
            sender: "452 4.3.1 no room\r\n",
            ..ScriptedRelaySettings::default()
        },
        ScriptedRelaySettings { lmtp: true, ..ScriptedRelaySettings::default() },
    ] {
        let (store, rogue) = (store(), ScriptedRelay::of(manners.clone()));
        let (port, _server) = rogue.start().await;
        for to in ["a", "bb", "ccc"] {
            queue_reply(&store, to, ActionState::Waiting);
        }
        let mut settings = settings(port);
        settings.relay.patience = Duration::from_millis(200);
        let working = Working::start(&store, settings);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let tried = rogue.connections.load(Ordering::SeqCst);
        assert!((1..=12).contains(&tried), "{tried} connections: {manners:?}");
        assert!(
            left(&store).len() == 3 && left(&store).iter().all(|action| action.attempts == 0),
            "{manners:?}"
        );
        *rogue.manners.lock() = ScriptedRelaySettings::default();
        until("all sent", || left(&store).is_empty()).await;
        assert_eq!(rogue.seen.lock().len(), 3, "{manners:?}");
        working.stop().await;
        clean(&store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_takes_no_record_is_waited_for_and_nothing_goes_out_twice() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let store = store_over(engine.clone(), Arc::new(SystemClock));
    let rogue = ScriptedRelay::default();
    let (port, _server) = rogue.start().await;
    // The queue's own mark is there before anything fails.
    let working = Working::start(&store, settings(port));
    until("the mark", || store.snapshot().queue_mark().unwrap().is_some()).await;
    working.stop().await;
    for to in ["bob", "eve"] {
        queue_reply(&store, to, ActionState::Waiting);
    }
    // The first record is made; that it went out, and everything after, is not.
    engine.fail_after(1, Error::Full);
    let working = Working::start(&store, settings(port));
    until("one sent", || !rogue.seen.lock().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Some twenty pauses of 20 ms: neither a busy loop, nor an attempt after each.
    let writes = engine.refused();
    assert!((1..60).contains(&writes), "{writes} writes in vain");
    assert_eq!(rogue.seen.lock().len(), 1);
    engine.heal();
    until("all recorded", || left(&store).is_empty()).await;
    assert_eq!(rogue.seen.lock().len(), 2);
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_depends_waits_and_goes_with_what_it_depends_on() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
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
    clean(&store);
    let working = Working::start(&store, settings(port));
    let state = |id: ActionId| store.snapshot().action(ANN, id).unwrap().map(|action| action.state);
    until("both sent", || state(good.1) == Some(ActionState::Sent)).await;
    until("the bad one failed", || state(bad.0) == Some(ActionState::Failed)).await;
    until("the slow one was tried", || {
        store.snapshot().action(ANN, slow.0).unwrap().unwrap().attempts > 0
    })
    .await;
    assert_eq!((state(bad.1), state(slow.1)), (None, Some(ActionState::Blocked)));
    assert_eq!(
        (rogue.to("bob"), rogue.to("eve"), rogue.to("nobody"), rogue.to("patient")),
        (1, 1, 0, 0)
    );
    // What it hangs on has failed for good: it is not queued.
    let late = submission(&store, &["late"]);
    let late = Action { after: Some(bad.0), ..late.action };
    assert!(store.commit(ANN, |txn| txn.queue_action(late.clone(), b"")).is_err());
    // By hand the failed one is tried again, and the person hears of it once more.
    let failed = store.snapshot().action(ANN, bad.0).unwrap().unwrap();
    assert!(matches!(
        &failed.recipients[0].state,
        RecipientState::Failed { status: [5, 1, 1], .. }
    ));
    let before = rogue.heard("RCPT TO:<bad@");
    commit(&store, |txn| {
        txn.update_action(&failed, &by_hand::retry_action(&failed, txn.now()).unwrap())
    });
    until("tried again", || rogue.heard("RCPT TO:<bad@") > before).await;
    until("failed again", || state(bad.0) == Some(ActionState::Failed)).await;
    working.stop().await;
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_for_good_is_told_to_a_real_sender() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let (email, blob) = file(&store, b"Subject: for others\r\nMessage-ID: <m@x>\r\n\r\nbody\r\n");
    let redirect = |sender: Option<&str>, to: &[&str]| RedirectAction {
        sender: sender.map(|name| Address::from_parts(name, "example.com")),
        recipients: to.iter().map(|name| at_home(name)).collect(),
        email: Some(email),
        message_id: "m@x".into(),
        prefix: b"Resent-From: ann@example.org\r\n".to_vec(),
        blob,
    };
    let now = store.clock().now();
    queue(&store, &redirect(Some("carl"), &["bob", "bad"]).queue(now));
    queue(&store, &redirect(None, &["never"]).queue(now));
    // The same once more, in another order: it is one deed.
    let again = redirect(Some("carl"), &["bad", "bob"]).queue(now);
    assert_eq!(queue(&store, &again), left(&store)[0].id);
    assert_eq!(left(&store).len(), 2);
    let never = DsnNotify { never: true, ..DsnNotify::default() };
    let quiet = Target { notify: Some(never), ..Target::plain(at_home("bad")) };
    let silent = submission(&store, &["x"]);
    queue(
        &store,
        &NewAction { action: Action { recipients: vec![quiet], ..silent.action }, ..silent },
    );
    clean(&store);
    let working = Working::start(&store, settings(port));
    until("the report", || {
        rogue.seen.lock().iter().any(|seen| seen.message.contains("delivery-status"))
    })
    .await;
    until("all done", || left(&store).iter().all(|action| action.state == ActionState::Failed))
        .await;
    working.stop().await;
    let seen = rogue.seen.lock().clone();
    assert_eq!(seen.len(), 2, "{seen:?}");
    let (first, report) = (&seen[0], &seen[1]);
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
        assert!(report.message.lines().any(|known| known == line), "{line}\n{}", report.message);
    }
    assert_eq!(left(&store).len(), 1, "the submission is kept for its owner");
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_not_what_it_should_be_is_held_until_it_is_accepted() {
    use crate::store::engine::{Batch, Put, Table};
    // The marks of: another line of history (a backup restored), and none.
    for mark in [Some(QueueMark { epoch: 1, held: None }), None] {
        let engine = Arc::new(MemoryEngine::new());
        let (store, rogue) =
            (store_over(engine.clone(), Arc::new(SystemClock)), ScriptedRelay::default());
        let (port, _server) = rogue.start().await;
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
        let working = Working::start(&store, settings(port));
        let held = || store.snapshot().queue_mark().unwrap().and_then(|mark| mark.held);
        until("it is held", || held().is_some()).await;
        let why = held().unwrap();
        assert!(why.contains(if mark.is_some() { "backup" } else { "mark is lost" }), "{why}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        working.stop().await;
        // Also after another start.
        let working = Working::start(&store, settings(port));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((rogue.seen.lock().len(), left(&store).len()), (0, 1));
        let epoch = store.epoch();
        let done = store.commit(AccountId::SITE, |txn| {
            txn.mark_queue(&QueueMark { epoch, held: None });
            Ok(())
        });
        done.unwrap().1.wait().await.unwrap();
        until("it goes on", || left(&store).is_empty()).await;
        working.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_from_the_queue_is_noticed() {
    use crate::store::engine::{Batch, Put, Table};
    for table in [Table::Outbox, Table::OutboxDue] {
        let engine = Arc::new(MemoryEngine::new());
        let store = store_over(engine.clone(), Arc::new(SystemClock));
        let rogue = ScriptedRelay::default();
        let (port, _server) = rogue.start().await;
        Working::start(&store, settings(port)).stop().await;
        queue_reply(&store, "bob", ActionState::Waiting);
        queue_reply(&store, "eve", ActionState::Waiting);
        let (key, _) = engine.rows(table).pop().unwrap();
        engine.write(&[Arc::new(Batch::of(vec![Put { table, key, value: None }]))]).unwrap();
        let working = Working::start(&store, settings(port));
        until("it is held", || {
            store.snapshot().queue_mark().unwrap().is_some_and(|mark| mark.held.is_some())
        })
        .await;
        let why = store.snapshot().queue_mark().unwrap().and_then(|mark| mark.held).unwrap();
        assert!(
            why.contains(if table == Table::Outbox { "should have 2" } else { "are woken" }),
            "{why}"
        );
        assert_eq!(rogue.seen.lock().len(), 0);
        working.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_waits_for_goes_first_and_what_is_held_not_at_all() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    for n in 0..20 {
        queue_reply(&store, &format!("u{n}"), ActionState::Waiting);
    }
    queue_reply(&store, "held", ActionState::Held);
    queue(&store, &submission(&store, &["person"]));
    let undone = submission(&store, &["undone"]);
    let due = store.clock().now().after(Duration::from_secs(3600));
    let undone = queue(&store, &NewAction { action: Action { due, ..undone.action }, ..undone });
    let working = Working::start(&store, Settings { concurrency: 1, ..settings(port) });
    until("the rest is sent", || rogue.seen.lock().len() == 21).await;
    assert!(rogue.seen.lock()[0].rcpt[0].contains("<person@"));
    // What was not to go yet is taken back, as a person does after a change of mind.
    let gone = commit(&store, |txn| txn.remove_action(undone));
    assert_eq!((gone.len(), rogue.to("undone"), rogue.to("held")), (1, 0, 0));
    working.stop().await;
    clean(&store);
}

/// Submits a message to these, as a client does.
pub(super) fn submit(store: &Store, to: &[&str], parameters: &[(&str, &str)]) -> ObjectId {
    let raw = format!(
        "Subject: to {to:?}\r\nBcc: secret@example.net\r\nMessage-ID: <s@x>\r\n\r\nhello\r\n"
    );
    let (email, _) = file(store, raw.as_bytes());
    let path =
        |local: &str| EnvelopeAddress { email: at_home(local).to_string(), parameters: None };
    let parameters =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
    let from =
        EnvelopeAddress { email: "ann@example.org".into(), parameters: Some(parameters.collect()) };
    let rcpt_to: Vec<EnvelopeAddress> = to.iter().map(|local| path(local)).collect();
    let now = store.clock().now();
    let order = order(&from, &rcpt_to, now, 9, Duration::from_secs(9999)).unwrap();
    let send_at = order.send_at;
    let message = crate::message::header::without_fields(raw.as_bytes(), &["Bcc"]);
    let hash = BlobHash(*blake3::hash(&message).as_bytes());
    let NewAction { action, octets } = order.queue(email, hash, "s@x".into(), now);
    let rcpt_to = rcpt_to
        .into_iter()
        .map(|path| SubmissionRecipient { path, ..SubmissionRecipient::default() });
    let (email, mail_from, rcpt_to) = (email, from, rcpt_to.collect());
    let submission =
        EmailSubmission { email, mail_from, rcpt_to, send_at, ..EmailSubmission::default() };
    commit(store, |txn| txn.submit(&submission, action.clone(), &octets, Some((&hash, &message)))).0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_says_what_became_of_it_and_goes_without_bcc() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let id = submit(&store, &["bob", "bad"], &[("ENVID", "q1"), ("RET", "HDRS")]);
    let read = || store.snapshot().object::<EmailSubmission>(ANN, id).unwrap().unwrap();
    assert_eq!(read().undo, UndoStatus::Pending);
    let working = Working::start(&store, settings(port));
    until("it is settled", || read().ended.is_some()).await;
    working.stop().await;
    let said: Vec<_> =
        read().rcpt_to.into_iter().map(|to| (to.status.delivered, to.status.smtp_reply)).collect();
    let wanted = [
        (DeliveryState::Unknown, "250 2.0.0 taken"),
        (DeliveryState::No, "550 5.1.1 no such user"),
    ];
    assert_eq!(said, wanted.map(|(delivered, reply)| (delivered, reply.to_owned())));
    assert_eq!(read().undo, UndoStatus::Final);
    let seen = rogue.seen.lock()[0].clone();
    assert!(seen.mail.contains("RET=HDRS") && seen.mail.contains("ENVID=q1"), "{}", seen.mail);
    assert!(
        seen.message.ends_with("hello\r\n") && !seen.message.contains("secret"),
        "{}",
        seen.message
    );
    clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_is_taken_back_until_its_message_goes_out() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let held = submit(&store, &["held"], &[("HOLDFOR", "3600")]);
    let (lazy, slow) = (submit(&store, &["lazy"], &[]), submit(&store, &["slow"], &[]));
    let working = Working::start(&store, settings(port));
    let of = |id: ObjectId| store.snapshot().object::<EmailSubmission>(ANN, id).unwrap().unwrap();
    let action = |id: ObjectId| store.snapshot().action(ANN, of(id).action.unwrap()).unwrap();
    let cancel = |id: ObjectId| commit(&store, |txn| txn.cancel_submission(id));
    // Its recipient is being asked for: the message has not begun to go out, and does not any more.
    until("it is asked for", || rogue.heard("RCPT TO:<lazy@") > 0).await;
    assert!(cancel(lazy));
    // This one goes out just now.
    until("it goes out", || {
        action(slow).is_some_and(|action| action.state == ActionState::Attempting)
    })
    .await;
    assert!(!cancel(slow));
    until("it is sent", || of(slow).undo == UndoStatus::Final).await;
    assert!(!cancel(slow));
    assert_eq!((of(held).undo, rogue.heard("RCPT TO:<held@")), (UndoStatus::Pending, 0));
    assert!(cancel(held));
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The others are sent on: who took something back stopped nobody.
    let next = submit(&store, &["bob"], &[]);
    until("the next is sent", || of(next).undo == UndoStatus::Final).await;
    working.stop().await;
    assert_eq!(
        (rogue.to("lazy"), rogue.to("held"), rogue.to("slow"), rogue.to("bob")),
        (0, 0, 1, 1)
    );
    assert!([lazy, held].iter().all(|id| of(*id).undo == UndoStatus::Canceled));
    clean(&store);
}

/// What `queue hold` does while an attempt is under way holds: up to the message itself nothing
/// goes out any more, and from then on the command is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_while_the_relay_is_asked_is_kept_and_one_that_comes_too_late_says_so() {
    let (store, rogue) = (store(), ScriptedRelay::default());
    let (port, _server) = rogue.start().await;
    let (email, blob) = file(&store, b"Subject: for others\r\nMessage-ID: <m@x>\r\n\r\nbody\r\n");
    let redirect = |to: &str| RedirectAction {
        sender: None,
        recipients: vec![at_home(to)],
        email: Some(email),
        message_id: "m@x".into(),
        prefix: Vec::new(),
        blob,
    };
    let now = store.clock().now();
    let reply = queue_reply(&store, "lazy", ActionState::Waiting);
    let taken = queue(&store, &redirect("lazy").queue(now));
    let refused = queue(&store, &redirect("lazyno").queue(now));
    let gone = queue(&store, &redirect("slow").queue(now));
    let working = Working::start(&store, settings(port));
    let hold = |id: ActionId| {
        let held = store.commit(ANN, |txn| {
            let action = txn.action(id)?;
            let held = by_hand::hold_action(&action, txn.now())
                .map_err(|why| Error::Conflict(why.into()))?;
            txn.update_action(&action, &held)
        });
        held.map(|((), ticket)| {
            std::thread::scope(|scope| {
                scope.spawn(|| ticket.wait_blocking().unwrap()).join().unwrap()
            });
        })
    };
    let action = |id: ActionId| store.snapshot().action(ANN, id).unwrap();
    until("it goes out", || {
        action(gone).is_some_and(|action| action.state == ActionState::Attempting)
    })
    .await;
    assert_eq!(
        hold(gone),
        Err(Error::Conflict("it is under way just now, and may already have been sent".into()))
    );
    until("they are asked for", || {
        rogue.heard("RCPT TO:<lazy@") > 0 && rogue.heard("RCPT TO:<lazyno@") > 0
    })
    .await;
    for id in [reply, taken, refused] {
        hold(id).unwrap();
    }
    until("the one that went out is done", || action(gone).is_none()).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    for id in [reply, taken, refused] {
        let held = action(id).unwrap();
        assert_eq!((held.state, held.attempts), (ActionState::Held, 0), "{held:?}");
    }
    assert_eq!((rogue.to("lazy"), rogue.to("slow")), (0, 1));
    // Released, it goes.
    commit(&store, |txn| {
        let held = txn.action(taken)?;
        txn.update_action(&held, &by_hand::release_action(&held, txn.now()).unwrap())
    });
    until("it is sent", || action(taken).is_none()).await;
    working.stop().await;
    assert_eq!(rogue.to("lazy"), 1);
    clean(&store);
}

/// A commit about an action holds for the state that it was read in, and for no other.
#[tokio::test]
async fn what_was_changed_since_it_was_read_is_neither_overwritten_nor_put_off() {
    use crate::store::WakeCondition;
    let store = store();
    let id = queue_reply(&store, "bob", ActionState::Waiting);
    let read = store.snapshot().action(ANN, id).unwrap().unwrap();
    let urgent = Action { urgent: true, ..read.clone() };
    commit(&store, |txn| txn.update_action(&read, &urgent));
    let stale = store.commit(ANN, |txn| {
        txn.update_action(&read, &Action { state: ActionState::Held, ..read.clone() })
    });
    assert!(matches!(stale, Err(Error::Conflict(_))), "{stale:?}");
    // A worker that saw it as it was before the person asked for it does not put it off.
    let later = read.due.after(Duration::from_secs(600));
    commit(&store, |txn| txn.defer_actions(&[(id, WakeCondition::Due(read.due))], later));
    assert_eq!(store.snapshot().action(ANN, id).unwrap(), Some(urgent.clone()));
    commit(&store, |txn| txn.defer_actions(&[(id, WakeCondition::Urgent(read.due))], later));
    assert_eq!(store.snapshot().action(ANN, id).unwrap(), Some(Action { due: later, ..urgent }));
    clean(&store);
}
