//! The rules as tables, and over random histories.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::{
    Action, ActionKind, ActionState, Address, BlobHash, EmailId, MonotonicMillis, RecipientState,
    Target, ToldKey, UtcMillis, limits,
};

fn to(name: &str) -> Address {
    Address::from_parts(name, "example.net")
}

fn action(kind: ActionKind, recipients: &[&str]) -> Action {
    let recipients: Vec<Address> = recipients.iter().map(|name| to(name)).collect();
    let sender = Some(Address::from_parts("ann", "example.org"));
    let (message_id, blob) = ("1@x".to_owned(), BlobHash([7; 32]));
    let queued = match kind {
        ActionKind::Reply => ReplyAction {
            recipient: recipients[0].clone(),
            email: EmailId(1),
            told: Some(ToldKey([1; 32])),
            until: None,
            message_id,
            message: b"x".to_vec(),
        }
        .queue(UtcMillis(0)),
        ActionKind::Redirect => {
            RedirectAction { sender, recipients, email: None, message_id, prefix: Vec::new(), blob }
                .queue(UtcMillis(0))
        }
        ActionKind::Submission => SubmissionAction {
            sender,
            recipients: recipients.into_iter().map(Target::plain).collect(),
            ret: None,
            envid: None,
            email: EmailId(1),
            not_before: None,
            after: None,
            message_id,
            prefix: Vec::new(),
            blob,
        }
        .queue(UtcMillis(0)),
        kind => NoticeAction {
            kind,
            recipient: recipients[0].clone(),
            email: None,
            message_id,
            message: Vec::new(),
            about: None,
        }
        .queue(UtcMillis(0)),
    };
    queued.action
}

fn later(text: &str) -> AttemptOutcome {
    AttemptOutcome::Temporary { text: text.into(), scope: RefusalScope::Message }
}

fn never(status: [u8; 3]) -> AttemptOutcome {
    AttemptOutcome::Permanent { status, text: "550 no".into() }
}

fn sent() -> AttemptOutcome {
    AttemptOutcome::Sent("250".into())
}

fn after(action: &Action, outcomes: Vec<AttemptOutcome>) -> NextStep {
    next_step(action, outcomes, UtcMillis(0), &RetrySchedule::default(), 0)
}

fn again(next: &NextStep) -> &Action {
    match &next.step {
        ActionStep::Again(action) => action,
        other => panic!("{other:?}"),
    }
}

/// RFC 5321 §4.2, RFC 3463: what the digits mean, at which stage.
#[test]
fn answers_are_told_apart() {
    use SmtpStage::{Data, End, Recipient, Sender};
    let relay = "relay";
    let table: &[(SmtpStage, u16, [u8; 3], &str)] = &[
        (End, 250, [2, 0, 0], "sent"),
        (Recipient(0), 251, [0; 3], "sent"),
        // What concerns us is temporary whatever its digit.
        (Sender, 421, [4, 3, 2], relay),
        (End, 421, [0; 3], relay),
        (Sender, 530, [5, 7, 0], relay),
        (Sender, 535, [5, 7, 8], relay),
        (Recipient(0), 538, [0; 3], relay),
        (Sender, 554, [5, 7, 0], relay),
        (Sender, 454, [4, 7, 0], relay),
        (Sender, 452, [4, 3, 1], relay),
        (Sender, 451, [4, 7, 1], "message"),
        // The recipient.
        (Recipient(0), 450, [4, 2, 1], "recipient"),
        (Recipient(0), 451, [4, 7, 1], "recipient"),
        (Recipient(0), 450, [0; 3], "recipient"),
        (Recipient(0), 550, [5, 1, 1], "never"),
        (Recipient(0), 554, [0; 3], "never"),
        (Recipient(0), 553, [5, 6, 7], "utf8"),
        // The recipient's domain.
        (Recipient(0), 450, [4, 1, 2], "destination"),
        (Recipient(0), 451, [4, 4, 1], "destination"),
        (Recipient(0), 451, [4, 3, 0], "destination"),
        // Too many of them: RFC 5321 §4.5.3.1.10.
        (Recipient(3), 452, [4, 5, 3], "many"),
        (Recipient(3), 552, [5, 5, 3], "many"),
        (Recipient(3), 452, [0; 3], "many"),
        (Recipient(3), 552, [0; 3], "many"),
        (Recipient(0), 452, [4, 5, 3], "recipient"),
        (Recipient(3), 452, [4, 2, 2], "recipient"),
        (Recipient(3), 552, [5, 2, 2], "never"),
        // The message.
        (End, 451, [4, 3, 0], "message"),
        (Data, 451, [0; 3], "message"),
        (End, 554, [5, 6, 0], "never"),
        (End, 554, [5, 6, 3], "eight"),
        (End, 550, [5, 6, 1], "eight"),
        (Sender, 554, [5, 6, 3], "eight"),
        (End, 552, [5, 3, 4], "never"),
        (End, 550, [5, 6, 7], "utf8"),
        // No answer at all.
        (End, 354, [0; 3], "message"),
        (Sender, 0, [0; 3], "message"),
        (Sender, 999, [9, 9, 9], "message"),
    ];
    for (stage, code, status, meant) in table {
        let answer = RelayAnswer { code: *code, status: *status, text: "said\r\nso".into() };
        let outcome = classify(*stage, &answer);
        let found = match &outcome {
            AttemptOutcome::Sent(_) => "sent",
            AttemptOutcome::Unknown(_) => "unknown",
            AttemptOutcome::Temporary { scope: RefusalScope::Relay, .. } => "relay",
            AttemptOutcome::Temporary { scope: RefusalScope::Destination, .. } => "destination",
            AttemptOutcome::Temporary { scope: RefusalScope::Recipient, .. } => "recipient",
            AttemptOutcome::Temporary { scope: RefusalScope::Message, .. } => "message",
            AttemptOutcome::Permanent { .. } => "never",
            AttemptOutcome::NoSmtpUtf8 => "utf8",
            AttemptOutcome::EightBit(_) => "eight",
            AttemptOutcome::TooMany => "many",
        };
        assert_eq!(found, *meant, "{stage:?} {code} {status:?}: {outcome:?}");
        if let AttemptOutcome::Permanent { text, .. } | AttemptOutcome::Temporary { text, .. } =
            outcome
        {
            assert!(!text.contains(['\r', '\n']), "{text:?}");
        }
    }
}

proptest! {
    /// Whatever a relay says is judged, and what is kept of it is short and one line.
    #[test]
    fn any_answer_means_something(code in any::<u16>(), status in any::<[u8; 3]>(), text in ".{0,400}", taken in 0usize..3) {
        let answer = RelayAnswer { code, status, text };
        for stage in [SmtpStage::Sender, SmtpStage::Recipient(taken), SmtpStage::Data, SmtpStage::End] {
            if let AttemptOutcome::Sent(text) | AttemptOutcome::Permanent { text, .. } | AttemptOutcome::Temporary { text, .. } = classify(stage, &answer) {
                prop_assert!(!text.chars().any(char::is_control) && text.chars().count() < 300);
            }
        }
    }
}

#[test]
fn delays_grow_to_an_hour_and_end() {
    let mut waits = Vec::new();
    for attempts in 0..8 {
        let reply = Action { attempts, ..action(ActionKind::Reply, &["bob"]) };
        let next = after(&reply, vec![later("x")]);
        let kept = again(&next);
        assert_eq!((kept.state, kept.attempts), (ActionState::Waiting, attempts + 1));
        waits.push(kept.due.0 / 60_000);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    let reply = action(ActionKind::Reply, &["bob"]);
    let at_the_end =
        next_step(&reply, vec![later("x")], UtcMillis(86_399_000), &RetrySchedule::default(), 0);
    assert_eq!(at_the_end.step, ActionStep::Dropped);
    let lost = at_the_end.lost.unwrap();
    assert!(
        lost.forget_told && lost.reason == NOT_SENT && lost.why.contains("not sent in time"),
        "{lost:?}"
    );
    assert!(RetrySchedule::default().delay(0, 255) > RetrySchedule::default().delay(0, 0));
    assert_eq!(RetrySchedule::default().delay(u32::MAX, 0), Duration::from_secs(3600));
}

#[test]
fn a_reply_goes_once_at_most_and_all_else_once_at_least() {
    for kind in ActionKind::ALL {
        let begun = Action { state: ActionState::Attempting, ..action(kind, &["bob"]) };
        let next = recover(&begun, UtcMillis(0), &RetrySchedule::default()).unwrap();
        match kind {
            ActionKind::Reply => {
                assert_eq!(next.step, ActionStep::Done);
                assert!(next.note.unwrap().contains("may have been sent") && next.lost.is_none());
            }
            _ => assert_eq!(again(&next).state, ActionState::Waiting),
        }
        assert_eq!(recover(&action(kind, &["bob"]), UtcMillis(0), &RetrySchedule::default()), None);
    }
}

#[test]
fn a_bad_address_stays_told() {
    let reply = action(ActionKind::Reply, &["bob"]);
    for (status, forget_told) in [([5, 1, 1], false), ([5, 7, 1], true), ([5, 0, 0], true)] {
        let next = after(&reply, vec![never(status)]);
        assert_eq!((next.step, next.failed.len()), (ActionStep::Dropped, 1));
        assert_eq!(
            next.lost,
            Some(LostAction { reason: NOT_SENT, why: "550 no".into(), forget_told })
        );
    }
    let lost = after(&reply, vec![AttemptOutcome::NoSmtpUtf8]).lost.unwrap();
    assert_eq!((lost.reason, lost.forget_told), (NO_SMTPUTF8, false));
}

#[test]
fn an_hour_of_refusals_costs_few_attempts_and_no_reply() {
    let mut reply = action(ActionKind::Reply, &["bob"]);
    let mut attempts = 0;
    while reply.due < UtcMillis(3_600_000) {
        attempts += 1;
        let before = reply.due;
        let next = next_step(&reply, vec![later("451")], reply.due, &RetrySchedule::default(), 128);
        reply = again(&next).clone();
        let waited = reply.due.since(before);
        assert!(waited >= Duration::from_secs(60) && waited <= Duration::from_secs(4500));
    }
    assert!((4..=8).contains(&attempts), "{attempts} attempts in an hour");
    assert_eq!(reply.state, ActionState::Waiting);
}

#[test]
fn each_recipient_has_an_outcome_of_his_own() {
    let redirect = action(ActionKind::Redirect, &["a", "b", "c", "d"]);
    let next = after(&redirect, vec![sent(), never([5, 1, 1]), later("busy")]);
    let kept = again(&next);
    // Who was not asked goes first the next time; who is refused does not keep the others from
    // being asked.
    let names: Vec<(&str, bool)> =
        kept.recipients.iter().map(|one| (one.address.local(), one.waits())).collect();
    assert_eq!(names, [("d", true), ("a", false), ("b", false), ("c", true)]);
    assert_eq!((next.failed.len(), next.lost.is_none(), kept.attempts), (1, true, 1));
    assert!(kept.due > UtcMillis(0));
    // Where nobody refused, the rest goes at once.
    let next = after(&redirect, vec![sent(), sent()]);
    assert_eq!((again(&next).due, again(&next).attempts), (UtcMillis(0), 0));
    let next = after(&redirect, vec![sent(), sent(), sent(), never([5, 1, 1])]);
    assert_eq!((next.step, next.failed.len(), next.lost), (ActionStep::Done, 1, None));
}

#[test]
fn what_can_be_mended_is_mended_once() {
    let redirect = action(ActionKind::Redirect, &["bob"]);
    let next = after(&redirect, vec![AttemptOutcome::EightBit("554 5.6.3".into())]);
    let kept = again(&next);
    assert_eq!((kept.seven_bit, kept.due, kept.attempts), (true, UtcMillis(0), 0));
    let next = after(kept, vec![AttemptOutcome::EightBit("554 5.6.3".into())]);
    assert_eq!((next.step, next.failed.len()), (ActionStep::Dropped, 1));
}

#[test]
fn a_submission_is_kept_whatever_becomes_of_it() {
    let submission = action(ActionKind::Submission, &["a", "b"]);
    assert!(submission.urgent);
    // Refused for now, it goes before the rest still.
    assert!(again(&after(&submission, vec![later("x"), later("x")])).urgent);
    let ActionStep::Kept(kept) = after(&submission, vec![sent(), sent()]).step else { panic!() };
    assert_eq!(
        (kept.state, kept.due),
        (ActionState::Sent, UtcMillis(0).after(RetrySchedule::default().kept))
    );
    let next = after(&submission, vec![sent(), never([5, 1, 1])]);
    let ActionStep::Kept(kept) = next.step else { panic!() };
    assert_eq!((kept.state, next.lost), (ActionState::Failed, None));
    assert!(matches!(&kept.recipients[1].state, RecipientState::Failed { status: [5, 1, 1], .. }));
    let late = too_late(&submission, UtcMillis(0), &RetrySchedule::default());
    assert!(matches!(late.step, ActionStep::Kept(kept) if kept.state == ActionState::Failed));
    // Whoever asks for it is tried again, and only who was not reached.
    let again = by_hand::retry_action(&kept, UtcMillis(i64::MAX / 2)).unwrap();
    assert!(again.expires > again.due && again.urgent && again.attempts == 0);
    assert_eq!(again.recipients.iter().map(Target::waits).collect::<Vec<_>>(), [false, true]);
    let held = by_hand::hold_action(&again, UtcMillis(0)).unwrap();
    assert_eq!(by_hand::release_action(&held, UtcMillis(5)).unwrap().state, ActionState::Waiting);
    assert!(
        by_hand::release_action(&again, UtcMillis(0)).is_err()
            && by_hand::hold_action(&kept, UtcMillis(0)).is_err()
    );
}

#[test]
fn a_destination_that_refuses_is_asked_by_one_at_a_time() {
    let (mut all, pace) = (Destinations::default(), RetrySchedule::default());
    let (down, well) = ([1; 8], [2; 8]);
    let at = |minutes: u64| MonotonicMillis(minutes * 60_000);
    all.record_refusal(down, at(0), &pace, 0);
    // Others that were under way when it began count as one.
    all.record_refusal(down, at(0), &pace, 0);
    assert_eq!(
        (all.may(down, at(0)), all.may(well, at(0))),
        (SendPermission::Not(at(1)), SendPermission::Go)
    );
    assert_eq!(all.may(down, at(1)), SendPermission::Go);
    all.begin_probe(down);
    assert_eq!(all.may(down, at(1)), SendPermission::Asking);
    all.record_refusal(down, at(1), &pace, 0);
    assert_eq!(all.may(down, at(1)), SendPermission::Not(at(3)));
    all.record_success(down);
    assert_eq!((all.may(down, at(1)), all.is_empty()), (SendPermission::Go, true));
    // One recipient is no domain; five in a row are.
    for n in 0..5 {
        assert_eq!(all.may(well, at(2)), SendPermission::Go, "{n}");
        all.record_recipient_refusal(well, at(2), &pace, 0);
    }
    assert_eq!(all.may(well, at(2)), SendPermission::Not(at(3)));
    for n in 0..10_000u64 {
        all.record_refusal(n.to_be_bytes(), at(4), &pace, 0);
    }
    assert!(all.len() <= 4096);
}

fn outcome() -> impl Strategy<Value = AttemptOutcome> {
    prop_oneof![
        3 => Just(sent()),
        2 => Just(AttemptOutcome::Unknown("lost".into())),
        3 => Just(later("451")),
        1 => Just(never([5, 1, 1])),
        1 => Just(AttemptOutcome::EightBit("554 5.6.3".into())),
        2 => Just(AttemptOutcome::TooMany),
    ]
}

proptest! {
    /// Over any history of answers: nobody gets a reply twice, nobody who has the message gets it
    /// again, each recipient ends as sent or failed within the lifetime, and is told of once.
    #[test]
    fn any_history_comes_to_an_end_and_repeats_nothing(
        kind in 0usize..6,
        people in 1usize..5,
        rounds in proptest::collection::vec((proptest::collection::vec(outcome(), 0..5), any::<u8>()), 1..40),
    ) {
        let kind = ActionKind::ALL[kind];
        let names: Vec<String> = (0..people).map(|n| format!("u{n}")).collect();
        let mut now = action(kind, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let (created, people) = (now.created, now.recipients.len());
        let mut sent_to: BTreeMap<String, u32> = BTreeMap::new();
        let mut failed: BTreeMap<String, u32> = BTreeMap::new();
        let mut at = UtcMillis(0);
        let mut over = false;
        for (outcomes, jitter) in rounds.iter().cycle().take(2000) {
            let next = if at >= now.expires {
                too_late(&now, at, &RetrySchedule::default())
            } else {
                let asked: Vec<String> = now
                    .recipients
                    .iter()
                    .filter(|one| one.waits())
                    .zip(outcomes)
                    .filter(|(_, outcome)| matches!(outcome, AttemptOutcome::Sent(_) | AttemptOutcome::Unknown(_)))
                    .map(|(one, _)| one.address.local().to_owned())
                    .collect();
                for name in asked {
                    let unsure = outcomes.iter().any(|outcome| matches!(outcome, AttemptOutcome::Unknown(_)));
                    *sent_to.entry(name).or_default() += u32::from(!unsure || rules(kind).at_most_once);
                }
                next_step(&now, outcomes.clone(), at, &RetrySchedule::default(), *jitter)
            };
            for target in &next.failed {
                *failed.entry(target.address.local().to_owned()).or_default() += 1;
            }
            match next.step {
                ActionStep::Again(again) => {
                    prop_assert!(again.due >= at && again.due < again.expires);
                    prop_assert!(again.recipients.iter().any(Target::waits));
                    prop_assert_eq!(again.recipients.len(), people);
                    // Time goes on, also where the rest goes at once.
                    at = again.due.after(Duration::from_millis(1));
                    now = *again;
                }
                ActionStep::Kept(kept) => {
                    prop_assert!(kind == ActionKind::Submission && kept.recipients.iter().all(|one| !one.waits()));
                    over = true;
                    break;
                }
                ActionStep::Done | ActionStep::Dropped => {
                    prop_assert!(kind != ActionKind::Submission);
                    over = true;
                    break;
                }
            }
        }
        prop_assert!(over || at < created.after(limits::QUEUE_LIFETIME), "{:?}", now);
        prop_assert!(sent_to.values().all(|times| *times <= 1), "{:?}", sent_to);
        prop_assert!(failed.values().all(|times| *times == 1), "{:?}", failed);
    }
}
