//! A submission shows the outcome of its action, and is canceled only while nothing was sent.

use super::fixture::{DAY, Fixture, fixture};
use super::*;
use crate::model::{
    ActionId, DeliveryState, EmailSubmission, EnvelopeAddress, ObjectId, RecipientState,
    ReturnedKind, ReturnedRecipient, ReturnedReport, SubmissionRecipient, UndoStatus, limits,
};

const RAW: &[u8] = b"Subject: x\r\n\r\n";

/// Returns a submission of `RAW`, and the action that carries it.
fn new_submission(to: &[&str]) -> (EmailSubmission, Action) {
    let rcpt_to = to.iter().map(|email| SubmissionRecipient {
        path: EnvelopeAddress { email: (*email).into(), parameters: None },
        ..SubmissionRecipient::default()
    });
    let submission = EmailSubmission {
        rcpt_to: rcpt_to.collect(),
        message_id: "1@example.org".into(),
        ..EmailSubmission::default()
    };
    let recipients = to.iter().map(|email| Target::plain(Address::parse(email).unwrap())).collect();
    let blob = Some(BlobHash(*blake3::hash(RAW).as_bytes()));
    (submission, Action { kind: ActionKind::Submission, recipients, blob, ..action() })
}

fn submit(fixture: &Fixture, to: &[&str]) -> (ObjectId, ActionId) {
    let (submission, action) = new_submission(to);
    let hash = action.blob.unwrap();
    fixture.done(|txn| txn.submit(&submission, action.clone(), b"", Some((&hash, RAW)))).unwrap()
}

fn read(fixture: &Fixture, id: ObjectId) -> EmailSubmission {
    fixture.store.snapshot().object(ACCOUNT, id).unwrap().unwrap()
}

fn recipient_states(fixture: &Fixture, id: ObjectId) -> Vec<(DeliveryState, String)> {
    read(fixture, id)
        .rcpt_to
        .into_iter()
        .map(|to| (to.status.delivered, to.status.smtp_reply))
        .collect()
}

fn change(fixture: &Fixture, id: ActionId, change: impl Fn(&mut Action)) {
    fixture
        .done(|txn| {
            let read = txn.action(id)?;
            let mut action = read.clone();
            change(&mut action);
            txn.update_action(&read, &action)
        })
        .unwrap();
}

#[test]
fn a_submission_shows_the_outcome_of_its_action() {
    let fixture = fixture();
    let (id, action) = submit(&fixture, &["bob@example.net", "eve@example.net"]);
    assert_eq!(
        (read(&fixture, id).undo, read(&fixture, id).action),
        (UndoStatus::Pending, Some(action))
    );
    let queued = || (DeliveryState::Queued, "250 2.0.0 queued".to_owned());
    assert_eq!(recipient_states(&fixture, id), [queued(), queued()]);
    // After a temporary failure the submission can still be canceled.
    change(&fixture, action, |action| {
        (action.attempts, action.last_error) = (1, Some("no route".into()));
    });
    assert_eq!(
        (recipient_states(&fixture, id)[0].clone(), read(&fixture, id).undo),
        ((DeliveryState::Queued, "451 4.4.0 no route".into()), UndoStatus::Pending)
    );
    // One recipient has the message: the submission is final, but has not ended. The action may
    // have the recipients in another order.
    change(&fixture, action, |action| {
        action.recipients.reverse();
        action.recipients[0].state = RecipientState::Sent("250 2.6.0 taken".into());
    });
    assert_eq!(
        recipient_states(&fixture, id)[1],
        (DeliveryState::Unknown, "250 2.6.0 taken".into())
    );
    assert_eq!((read(&fixture, id).undo, read(&fixture, id).ended), (UndoStatus::Final, None));
    fixture.clock.advance(DAY);
    change(&fixture, action, |action| {
        action.state = ActionState::Failed;
        action.recipients[1].state =
            RecipientState::Failed { status: [5, 1, 1], text: "gone".into() };
    });
    assert_eq!(recipient_states(&fixture, id)[0], (DeliveryState::No, "550 5.1.1 gone".into()));
    assert_eq!(read(&fixture, id).ended, Some(fixture.clock.now()));
    // An administrator retries the action: the recipient waits again, and the submission stays
    // final.
    change(&fixture, action, |action| {
        action.state = ActionState::Waiting;
        action.last_error = None;
        action.recipients[1].state = RecipientState::Waiting;
    });
    assert_eq!(
        (
            recipient_states(&fixture, id)[0].clone(),
            read(&fixture, id).undo,
            read(&fixture, id).ended
        ),
        (queued(), UndoStatus::Final, None)
    );
    assert_eq!(fixture.done(|txn| txn.cancel_submission(id)), Ok(false));
    // An administrator removes the action from the queue: the recipient is given up.
    fixture.done(|txn| txn.remove_action(action)).unwrap();
    assert_eq!(
        recipient_states(&fixture, id)[0],
        (DeliveryState::No, "554 5.3.0 removed from the queue".into())
    );
    assert!(read(&fixture, id).ended.is_some());
    assert_clean(&fixture.store);
}

#[test]
fn a_submission_is_canceled_with_its_action_or_not_at_all() {
    let fixture = fixture();
    let (id, action) = submit(&fixture, &["bob@example.net"]);
    assert_eq!(fixture.done(|txn| txn.cancel_submission(id)), Ok(true));
    let canceled = read(&fixture, id);
    assert_eq!((canceled.undo, canceled.ended), (UndoStatus::Canceled, Some(fixture.clock.now())));
    assert_eq!(
        (
            recipient_states(&fixture, id)[0].0,
            fixture.store.snapshot().action(ACCOUNT, action).unwrap()
        ),
        (DeliveryState::No, None)
    );
    assert_eq!(fixture.done(|txn| txn.cancel_submission(id)), Ok(true), "once more is the same");
    for (state, may) in [
        (ActionState::Held, true),
        (ActionState::Attempting, false),
        (ActionState::Sent, false),
        (ActionState::Failed, false),
    ] {
        let (id, action) = submit(&fixture, &["bob@example.net"]);
        change(&fixture, action, |action| action.state = state);
        let was = read(&fixture, id).undo;
        assert_eq!(fixture.done(|txn| txn.cancel_submission(id)), Ok(may), "{state:?}");
        assert_eq!(fixture.store.snapshot().action(ACCOUNT, action).unwrap().is_none(), may);
        assert_eq!(read(&fixture, id).undo, if may { UndoStatus::Canceled } else { was });
    }
    // The message of a destroyed submission is still sent.
    let (id, action) = submit(&fixture, &["bob@example.net"]);
    fixture.done(|txn| txn.destroy_object::<EmailSubmission>(id)).unwrap();
    change(&fixture, action, |action| action.state = ActionState::Sent);
    assert_eq!(fixture.done(|txn| txn.cancel_submission(id)), Err(Error::NotFound("object")));
    fixture.done(|txn| txn.remove_action(action)).unwrap();
    assert_clean(&fixture.store);
}

#[test]
fn a_submission_and_its_action_are_written_by_one_commit() {
    let fixture = fixture();
    let (id, action) = submit(&fixture, &["bob@example.net"]);
    fixture.engine.fail_after(0, Error::Full);
    let both = fixture.done(|txn| {
        let read = txn.action(action)?;
        let recipients = vec![Target {
            state: RecipientState::Sent("250 ok".into()),
            ..read.recipients[0].clone()
        }];
        txn.update_action(&read, &Action { state: ActionState::Sent, recipients, ..read.clone() })
    });
    assert_eq!(both, Err(Error::Full));
    fixture.engine.heal();
    assert_eq!(read(&fixture, id).undo, UndoStatus::Pending);
    assert_eq!(
        fixture.store.snapshot().action(ACCOUNT, action).unwrap().unwrap().state,
        ActionState::Waiting
    );
    assert_clean(&fixture.store);
}

/// No kind of action that is kept has a `duplicate_key` now.
#[test]
fn failed_action_with_a_key_leaves_the_row_of_an_equal_one() {
    let fixture = fixture();
    let equal = Action { duplicate_key: Some([7; 16]), ..action() };
    let queue = || fixture.done(|txn| txn.queue_action(equal.clone(), b"x")).unwrap();
    let set = |id: ActionId, state: ActionState| {
        fixture.done(|txn| {
            let read = txn.action(id)?;
            txn.update_action(&read, &Action { state, ..read.clone() })
        })
    };
    let failed = queue();
    assert_eq!(queue(), failed, "only one is queued while it is open");
    set(failed, ActionState::Failed).unwrap();
    let newer = queue();
    assert_ne!(newer, failed);
    assert!(matches!(set(failed, ActionState::Waiting), Err(Error::Conflict(_))));
    assert_clean(&fixture.store);
    fixture.done(|txn| txn.remove_action(failed).map(drop)).unwrap();
    assert_clean(&fixture.store);
    assert_eq!(queue(), newer, "the newer one is still open");
    set(newer, ActionState::Failed).unwrap();
    set(newer, ActionState::Waiting).unwrap();
    assert_clean(&fixture.store);
    assert_eq!(queue(), newer, "it is open again");
}

#[test]
fn the_outcome_of_a_submission_is_recorded_however_long_the_replies_are() {
    let fixture = fixture();
    let to: Vec<String> =
        (0..limits::MAX_RECIPIENTS).map(|n| format!("{n:034}@example.net")).collect();
    let (id, action) = submit(&fixture, &to.iter().map(String::as_str).collect::<Vec<_>>());
    let assert_all = |state: DeliveryState, bytes: usize| {
        let states = recipient_states(&fixture, id);
        assert_eq!(states.len(), to.len());
        for (found, reply) in states {
            assert_eq!((found, reply.len()), (state, bytes), "{reply}");
        }
    };
    change(&fixture, action, |action| {
        action.last_error = Some(format!("451 4.7.1 {}", "x".repeat(200)));
    });
    assert_all(DeliveryState::Queued, 210);
    change(&fixture, action, |action| {
        action.state = ActionState::Sent;
        for target in &mut action.recipients {
            target.state = RecipientState::Sent(format!("250 2.6.0  {}", "ж".repeat(300)));
        }
    });
    // RFC 5321 §4.5.3.1.5. A reply is not cut within a character.
    assert_all(DeliveryState::Unknown, 509);
    let recipient = |to: &String| ReturnedRecipient {
        addresses: vec![Address::parse(to).unwrap()],
        delivered: Some((DeliveryState::No, format!("550 5.1.1 {}", "x".repeat(900)))),
        displayed: false,
    };
    let report = ReturnedReport {
        kind: ReturnedKind::Delivery,
        message_id: Some("1@example.org".into()),
        envid: None,
        recipients: to.iter().map(recipient).collect(),
    };
    assert_eq!(fixture.done(|txn| txn.report_submission(id, &report, None)), Ok(true));
    assert_all(DeliveryState::No, 510);
    assert_clean(&fixture.store);
}

#[test]
fn a_submission_that_is_refused_leaves_no_message() {
    let fixture = fixture();
    let (mut submission, action) = new_submission(&["bob@example.net"]);
    submission.message_id = "x".repeat(limits::MAX_OBJECT_BYTES);
    let hash = action.blob.unwrap();
    // The refusal of one object does not end the commit of a /set.
    let refused = fixture
        .done(|txn| Ok(txn.submit(&submission, action.clone(), b"", Some((&hash, RAW)))))
        .unwrap();
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    assert_clean(&fixture.store);
}
