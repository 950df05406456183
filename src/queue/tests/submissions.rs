//! Tests of submissions, and of changes that a person makes during an attempt.
//!
//! `scripted_relay` answers each local part in its own way: it refuses `bad` and `lazyno`, takes
//! 400 ms for RCPT to `lazy` and `lazyno`, and as long for a message to `slow`.

use super::*;
use crate::model::{
    DeliveryState, EmailSubmission, EnvelopeAddress, ObjectId, SubmissionRecipient, UndoStatus,
};
use crate::outbox::submission::parse_envelope;

/// Submits a message by ann to local parts at example.net. `parameters` are those of MAIL.
pub(super) fn submit(store: &Store, to: &[&str], parameters: &[(&str, &str)]) -> ObjectId {
    let raw = format!(
        "Subject: to {to:?}\r\nBcc: secret@example.net\r\nMessage-ID: <s@x>\r\n\r\nhello\r\n"
    );
    let (email, _) = file(store, raw.as_bytes());
    let path = |local: &str| EnvelopeAddress {
        email: at_example_net(local).to_string(),
        parameters: None,
    };
    let parameters =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
    let from =
        EnvelopeAddress { email: "ann@example.org".into(), parameters: Some(parameters.collect()) };
    let rcpt_to: Vec<EnvelopeAddress> = to.iter().map(|local| path(local)).collect();
    let now = store.clock().now();
    // More recipients and longer delays than any of these tests has.
    let (max_recipients, max_delay) = (9, Duration::from_secs(9999));
    let order = parse_envelope(&from, &rcpt_to, now, max_recipients, max_delay).unwrap();
    let send_at = order.send_at;
    let message = crate::message::header::without_fields(raw.as_bytes(), &["Bcc"]);
    let hash = BlobHash(*blake3::hash(&message).as_bytes());
    let NewAction { action, bytes } = order.into_action(email, hash, "s@x".into(), now);
    let rcpt_to = rcpt_to
        .into_iter()
        .map(|path| SubmissionRecipient { path, ..SubmissionRecipient::default() });
    let (email, mail_from, rcpt_to) = (email, from, rcpt_to.collect());
    let submission =
        EmailSubmission { email, mail_from, rcpt_to, send_at, ..EmailSubmission::default() };
    commit(store, |txn| txn.submit(&submission, action.clone(), &bytes, Some((&hash, &message)))).0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submission_shows_its_results_and_is_sent_without_bcc() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let id = submit(&store, &["bob", "bad"], &[("ENVID", "q1"), ("RET", "HDRS")]);
    let read = || store.snapshot().object::<EmailSubmission>(ANN, id).unwrap().unwrap();
    assert_eq!(read().undo, UndoStatus::Pending);
    let worker = RunningWorker::start(&store, settings(port));
    until("it is settled", || read().ended.is_some()).await;
    worker.stop().await;
    let status: Vec<_> =
        read().rcpt_to.into_iter().map(|to| (to.status.delivered, to.status.smtp_reply)).collect();
    let wanted = [
        (DeliveryState::Unknown, "250 2.0.0 taken"),
        (DeliveryState::No, "550 5.1.1 no such user"),
    ];
    assert_eq!(status, wanted.map(|(delivered, reply)| (delivered, reply.to_owned())));
    assert_eq!(read().undo, UndoStatus::Final);
    let mail = relay.received.lock()[0].clone();
    assert!(mail.mail.contains("RET=HDRS") && mail.mail.contains("ENVID=q1"), "{}", mail.mail);
    assert!(
        mail.message.ends_with("hello\r\n") && !mail.message.contains("secret"),
        "{}",
        mail.message
    );
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submission_can_be_cancelled_until_its_message_goes_out() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let held = submit(&store, &["held"], &[("HOLDFOR", "3600")]);
    let (lazy, slow) = (submit(&store, &["lazy"], &[]), submit(&store, &["slow"], &[]));
    let worker = RunningWorker::start(&store, settings(port));
    let read = |id: ObjectId| store.snapshot().object::<EmailSubmission>(ANN, id).unwrap().unwrap();
    let action = |id: ObjectId| store.snapshot().action(ANN, read(id).action.unwrap()).unwrap();
    let cancel = |id: ObjectId| commit(&store, |txn| txn.cancel_submission(id));
    // While the relay has not answered RCPT, the message has not gone out, so it can be cancelled.
    until("it is asked for", || relay.count_commands("RCPT TO:<lazy@") > 0).await;
    assert!(cancel(lazy));
    until("it goes out", || {
        action(slow).is_some_and(|action| action.state == ActionState::Attempting)
    })
    .await;
    assert!(!cancel(slow));
    until("it is sent", || read(slow).undo == UndoStatus::Final).await;
    assert!(!cancel(slow));
    assert_eq!((read(held).undo, relay.count_commands("RCPT TO:<held@")), (UndoStatus::Pending, 0));
    assert!(cancel(held));
    // Longer than the relay takes to answer.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let next = submit(&store, &["bob"], &[]);
    until("the next is sent", || read(next).undo == UndoStatus::Final).await;
    worker.stop().await;
    assert_eq!(
        (relay.to("lazy"), relay.to("held"), relay.to("slow"), relay.to("bob")),
        (0, 0, 1, 1)
    );
    assert!([lazy, held].iter().all(|id| read(*id).undo == UndoStatus::Canceled));
    assert_store_is_clean(&store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn action_can_be_held_during_an_attempt_until_its_message_goes_out() {
    let (store, relay) = (store(), ScriptedRelay::default());
    let (port, _server) = relay.start().await;
    let (email, blob) = file(&store, b"Subject: for others\r\nMessage-ID: <m@x>\r\n\r\nbody\r\n");
    let redirect = |to: &str| RedirectAction {
        sender: None,
        recipients: vec![at_example_net(to)],
        email: Some(email),
        message_id: "m@x".into(),
        prefix: Vec::new(),
        blob,
    };
    let now = store.clock().now();
    let reply = queue_reply(&store, "lazy", ActionState::Waiting);
    let taken = queue(&store, &redirect("lazy").into_action(now));
    let refused = queue(&store, &redirect("lazyno").into_action(now));
    let gone = queue(&store, &redirect("slow").into_action(now));
    let worker = RunningWorker::start(&store, settings(port));
    let hold = |id: ActionId| {
        let held = store.commit(ANN, |txn| {
            let action = txn.action(id)?;
            let held = by_hand::hold_action(&action, txn.now())
                .map_err(|why| Error::Conflict(why.into()))?;
            txn.update_action(&action, &held)
        });
        held.map(|((), ticket)| {
            std::thread::scope(|scope| {
                scope.spawn(|| ticket.wait_blocking().unwrap()).join().unwrap();
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
        relay.count_commands("RCPT TO:<lazy@") > 0 && relay.count_commands("RCPT TO:<lazyno@") > 0
    })
    .await;
    for id in [reply, taken, refused] {
        hold(id).unwrap();
    }
    until("the one that went out is done", || action(gone).is_none()).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    // An attempt counts only from when it is recorded, right before the message would go out.
    for id in [reply, taken, refused] {
        let held = action(id).unwrap();
        assert_eq!((held.state, held.attempts), (ActionState::Held, 0), "{held:?}");
    }
    assert_eq!((relay.to("lazy"), relay.to("slow")), (0, 1));
    commit(&store, |txn| {
        let held = txn.action(taken)?;
        txn.update_action(&held, &by_hand::release_action(&held, txn.now()).unwrap())
    });
    until("it is sent", || action(taken).is_none()).await;
    worker.stop().await;
    assert_eq!(relay.to("lazy"), 1);
    assert_store_is_clean(&store);
}

#[tokio::test]
async fn action_that_changed_since_it_was_read_is_neither_overwritten_nor_put_off() {
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
    // A worker that read the action before a person made it urgent does not put it off.
    let later = read.due.after(Duration::from_secs(600));
    commit(&store, |txn| txn.defer_actions(&[(id, WakeCondition::Due(read.due))], later));
    assert_eq!(store.snapshot().action(ANN, id).unwrap(), Some(urgent.clone()));
    commit(&store, |txn| txn.defer_actions(&[(id, WakeCondition::Urgent(read.due))], later));
    assert_eq!(store.snapshot().action(ANN, id).unwrap(), Some(Action { due: later, ..urgent }));
    assert_store_is_clean(&store);
}
