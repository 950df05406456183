//! Tests of the rules of sending, by examples and over random histories.

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
            email: Some(EmailId(1)),
            told: Some(ToldKey([1; 32])),
            until: None,
            message_id,
            message: b"x".to_vec(),
        }
        .into_action(UtcMillis(0)),
        ActionKind::Redirect => {
            RedirectAction { sender, recipients, email: None, message_id, prefix: Vec::new(), blob }
                .into_action(UtcMillis(0))
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
        .into_action(UtcMillis(0)),
        kind => NoticeAction {
            kind,
            recipient: recipients[0].clone(),
            email: None,
            message_id,
            message: Vec::new(),
            about: None,
        }
        .into_action(UtcMillis(0)),
    };
    queued.action
}

fn temporary(text: &str) -> AttemptOutcome {
    AttemptOutcome::Temporary { text: text.into(), scope: RefusalScope::Message }
}

fn permanent(status: [u8; 3]) -> AttemptOutcome {
    AttemptOutcome::Permanent { status, text: "550 no".into() }
}

fn sent() -> AttemptOutcome {
    AttemptOutcome::Sent("250".into())
}

fn step_after(action: &Action, outcomes: Vec<AttemptOutcome>) -> NextStep {
    next_step(action, outcomes, UtcMillis(0), &RetrySchedule::default(), 0)
}

fn waiting_action(next: &NextStep) -> &Action {
    match &next.step {
        ActionStep::Again(action) => action,
        other => panic!("{other:?}"),
    }
}

/// RFC 5321 §4.2, RFC 3463.
#[test]
fn answers_are_classified_by_code_status_and_stage() {
    use SmtpStage::{Data, End, Recipient, Sender};
    let relay = "relay";
    let table: &[(SmtpStage, u16, [u8; 3], &str)] = &[
        (End, 250, [2, 0, 0], "sent"),
        (Recipient(0), 251, [0; 3], "sent"),
        (Sender, 421, [4, 3, 2], relay),
        (End, 421, [0; 3], relay),
        (Sender, 530, [5, 7, 0], relay),
        (Sender, 535, [5, 7, 8], relay),
        (Recipient(0), 538, [0; 3], relay),
        (Sender, 554, [5, 7, 0], relay),
        (Recipient(0), 530, [5, 7, 0], relay),
        (Recipient(0), 550, [5, 7, 0], "permanent"),
        (End, 554, [5, 7, 0], "permanent"),
        (Sender, 454, [4, 7, 0], relay),
        (Sender, 452, [4, 3, 1], relay),
        (Sender, 451, [4, 7, 1], "message"),
        (Recipient(0), 450, [4, 2, 1], "recipient"),
        (Recipient(0), 451, [4, 7, 1], "recipient"),
        (Recipient(0), 450, [0; 3], "recipient"),
        (Recipient(0), 550, [5, 1, 1], "permanent"),
        (Recipient(0), 554, [0; 3], "permanent"),
        (Recipient(0), 553, [5, 6, 7], "utf8"),
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
        (Recipient(3), 552, [5, 2, 2], "permanent"),
        (End, 451, [4, 3, 0], "message"),
        (Data, 451, [0; 3], "message"),
        (End, 554, [5, 6, 0], "permanent"),
        (End, 554, [5, 6, 3], "eight"),
        (End, 550, [5, 6, 1], "eight"),
        (Sender, 554, [5, 6, 3], "eight"),
        (Recipient(0), 554, [5, 6, 3], "eight"),
        (Recipient(3), 550, [5, 6, 1], "eight"),
        (Recipient(0), 550, [5, 6, 0], "permanent"),
        (End, 552, [5, 3, 4], "permanent"),
        (End, 550, [5, 6, 7], "utf8"),
        (End, 354, [0; 3], "message"),
        (Sender, 0, [0; 3], "message"),
        (Sender, 999, [9, 9, 9], "message"),
    ];
    for (stage, code, status, expected) in table {
        let answer = RelayAnswer { code: *code, status: *status, text: "said\r\nso".into() };
        let outcome = classify(*stage, &answer);
        let name = match &outcome {
            AttemptOutcome::Sent(_) => "sent",
            AttemptOutcome::Unknown(_) => "unknown",
            AttemptOutcome::Temporary { scope: RefusalScope::Relay, .. } => "relay",
            AttemptOutcome::Temporary { scope: RefusalScope::Destination, .. } => "destination",
            AttemptOutcome::Temporary { scope: RefusalScope::Recipient, .. } => "recipient",
            AttemptOutcome::Temporary { scope: RefusalScope::Message, .. } => "message",
            AttemptOutcome::Permanent { .. } => "permanent",
            AttemptOutcome::NoSmtpUtf8 => "utf8",
            AttemptOutcome::EightBit(_) => "eight",
            AttemptOutcome::TooMany => "many",
        };
        assert_eq!(name, *expected, "{stage:?} {code} {status:?}: {outcome:?}");
        if let AttemptOutcome::Permanent { text, .. } | AttemptOutcome::Temporary { text, .. } =
            outcome
        {
            assert!(!text.contains(['\r', '\n']), "{text:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_answer_is_classified_with_a_short_text_of_one_line(
        code in any::<u16>(),
        status in any::<[u8; 3]>(),
        text in ".{0,400}",
        accepted in 0usize..3,
    ) {
        let answer = RelayAnswer { code, status, text };
        let recipient = SmtpStage::Recipient(accepted);
        for stage in [SmtpStage::Sender, recipient, SmtpStage::Data, SmtpStage::End] {
            if let AttemptOutcome::Sent(text)
            | AttemptOutcome::EightBit(text)
            | AttemptOutcome::Permanent { text, .. }
            | AttemptOutcome::Temporary { text, .. } = classify(stage, &answer)
            {
                prop_assert!(!text.chars().any(char::is_control) && text.chars().count() < 300);
            }
        }
    }
}

#[test]
fn delays_double_up_to_an_hour_until_the_reply_is_given_up() {
    let mut waits = Vec::new();
    for attempts in 0..8 {
        let reply = Action { attempts, ..action(ActionKind::Reply, &["bob"]) };
        let next = step_after(&reply, vec![temporary("x")]);
        let waiting = waiting_action(&next);
        assert_eq!((waiting.state, waiting.attempts), (ActionState::Waiting, attempts + 1));
        waits.push(waiting.due.0 / 60_000);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    let reply = action(ActionKind::Reply, &["bob"]);
    // A second before the lifetime of a day is over: the next attempt would come too late.
    let at_the_end = next_step(
        &reply,
        vec![temporary("x")],
        UtcMillis(86_399_000),
        &RetrySchedule::default(),
        0,
    );
    assert_eq!(at_the_end.step, ActionStep::Dropped);
    let unsent = at_the_end.unsent.unwrap();
    assert!(
        unsent.forget_told
            && unsent.reason == NOT_SENT
            && unsent.detail.contains("not sent in time"),
        "{unsent:?}"
    );
    assert!(RetrySchedule::default().delay(0, 255) > RetrySchedule::default().delay(0, 0));
    assert_eq!(RetrySchedule::default().delay(u32::MAX, 0), Duration::from_secs(3600));
}

#[test]
fn interrupted_attempt_counts_as_sent_only_for_a_reply() {
    for kind in ActionKind::ALL {
        let interrupted = Action { state: ActionState::Attempting, ..action(kind, &["bob"]) };
        let next = recover(&interrupted, UtcMillis(0), &RetrySchedule::default()).unwrap();
        match kind {
            ActionKind::Reply => {
                assert_eq!(next.step, ActionStep::Done);
                assert!(next.note.unwrap().contains("may have been sent") && next.unsent.is_none());
            }
            _ => assert_eq!(waiting_action(&next).state, ActionState::Waiting),
        }
        assert_eq!(recover(&action(kind, &["bob"]), UtcMillis(0), &RetrySchedule::default()), None);
    }
}

#[test]
fn told_row_stays_only_if_the_address_is_bad_or_needs_smtputf8() {
    let reply = action(ActionKind::Reply, &["bob"]);
    for (status, forget_told) in [([5, 1, 1], false), ([5, 7, 1], true), ([5, 0, 0], true)] {
        let next = step_after(&reply, vec![permanent(status)]);
        assert_eq!((next.step, next.failed.len()), (ActionStep::Dropped, 1));
        assert_eq!(
            next.unsent,
            Some(UnsentAction { reason: NOT_SENT, detail: "550 no".into(), forget_told })
        );
    }
    let unsent = step_after(&reply, vec![AttemptOutcome::NoSmtpUtf8]).unsent.unwrap();
    assert_eq!((unsent.reason, unsent.forget_told), (NO_SMTPUTF8, false));
}

#[test]
fn reply_survives_an_hour_of_refusals_with_few_attempts() {
    let mut reply = action(ActionKind::Reply, &["bob"]);
    let mut attempts = 0;
    while reply.due < UtcMillis(3_600_000) {
        attempts += 1;
        let before = reply.due;
        let next =
            next_step(&reply, vec![temporary("451")], reply.due, &RetrySchedule::default(), 128);
        reply = waiting_action(&next).clone();
        let waited = reply.due.since(before);
        // From the first wait to the longest, which jitter makes longer by up to a quarter.
        assert!(waited >= Duration::from_secs(60) && waited <= Duration::from_secs(4500));
    }
    assert!((4..=8).contains(&attempts), "{attempts} attempts in an hour");
    assert_eq!(reply.state, ActionState::Waiting);
}

#[test]
fn each_recipient_has_its_own_outcome() {
    let redirect = action(ActionKind::Redirect, &["a", "b", "c", "d"]);
    let next = step_after(&redirect, vec![sent(), permanent([5, 1, 1]), temporary("busy")]);
    let waiting = waiting_action(&next);
    // A recipient that was not tried goes first the next time, so that those that are refused do
    // not keep it from being tried.
    let recipients: Vec<(&str, bool)> = waiting
        .recipients
        .iter()
        .map(|target| (target.address.local(), target.is_outstanding()))
        .collect();
    assert_eq!(recipients, [("d", true), ("a", false), ("b", false), ("c", true)]);
    assert_eq!((next.failed.len(), next.unsent.is_none(), waiting.attempts), (1, true, 1));
    assert!(waiting.due > UtcMillis(0));
    let next = step_after(&redirect, vec![sent(), sent()]);
    assert_eq!((waiting_action(&next).due, waiting_action(&next).attempts), (UtcMillis(0), 0));
    let next = step_after(&redirect, vec![sent(), sent(), sent(), permanent([5, 1, 1])]);
    assert_eq!((next.step, next.failed.len(), next.unsent), (ActionStep::Done, 1, None));
}

#[test]
fn refused_8_bit_message_is_converted_once() {
    let redirect = action(ActionKind::Redirect, &["bob"]);
    let next = step_after(&redirect, vec![AttemptOutcome::EightBit("554 5.6.3".into())]);
    let waiting = waiting_action(&next);
    assert_eq!((waiting.seven_bit, waiting.due, waiting.attempts), (true, UtcMillis(0), 0));
    let next = step_after(waiting, vec![AttemptOutcome::EightBit("554 5.6.3".into())]);
    assert_eq!((next.step, next.failed.len()), (ActionStep::Dropped, 1));
}

/// The note of an action that is over says that it may have been sent (`NextStep::note`).
#[test]
fn action_given_up_after_a_refusal_of_8_bit_bytes_was_certainly_not_sent() {
    for (kind, others) in [
        (ActionKind::Redirect, vec![]),
        (ActionKind::Submission, vec![]),
        (ActionKind::Redirect, vec![temporary("451 busy")]),
    ] {
        let names = ["bob", "eve"];
        let late = action(kind, names.get(..=others.len()).unwrap());
        let mut outcomes = vec![AttemptOutcome::EightBit("554 5.6.3 eight bits".into())];
        outcomes.extend(others);
        let reason = if outcomes.len() == 1 { "eight bits" } else { "busy" };
        let next = next_step(&late, outcomes, late.expires, &RetrySchedule::default(), 0);
        assert!(!matches!(next.step, ActionStep::Again(_)), "{next:?}");
        assert_eq!(next.note, None, "{kind:?}");
        let detail = next.unsent.unwrap().detail;
        assert!(detail.contains(reason), "{detail}");
    }
}

#[test]
fn submission_is_kept_when_sent_and_when_failed() {
    let submission = action(ActionKind::Submission, &["a", "b"]);
    assert!(submission.urgent);
    assert!(waiting_action(&step_after(&submission, vec![temporary("x"), temporary("x")])).urgent);
    let ActionStep::Kept(kept) = step_after(&submission, vec![sent(), sent()]).step else {
        panic!()
    };
    assert_eq!(
        (kept.state, kept.due),
        (ActionState::Sent, UtcMillis(0).after(RetrySchedule::default().keep_sent))
    );
    let next = step_after(&submission, vec![sent(), permanent([5, 1, 1])]);
    let ActionStep::Kept(kept) = next.step else { panic!() };
    assert_eq!((kept.state, next.unsent), (ActionState::Failed, None));
    assert!(matches!(&kept.recipients[1].state, RecipientState::Failed { status: [5, 1, 1], .. }));
    let late = expire(&submission, UtcMillis(0), &RetrySchedule::default());
    assert!(matches!(late.step, ActionStep::Kept(kept) if kept.state == ActionState::Failed));
    // On demand, long after its lifetime, it is tried again, only for the recipient that was not
    // reached.
    let retried = by_hand::retry_action(&kept, UtcMillis(i64::MAX / 2)).unwrap();
    assert!(retried.expires > retried.due && retried.urgent && retried.attempts == 0);
    assert_eq!(
        retried.recipients.iter().map(Target::is_outstanding).collect::<Vec<_>>(),
        [false, true]
    );
    let held = by_hand::hold_action(&retried, UtcMillis(0)).unwrap();
    assert_eq!(by_hand::release_action(&held, UtcMillis(5)).unwrap().state, ActionState::Waiting);
    assert!(
        by_hand::release_action(&retried, UtcMillis(0)).is_err()
            && by_hand::hold_action(&kept, UtcMillis(0)).is_err()
    );
}

#[test]
fn destination_that_refuses_gets_one_probe_at_a_time() {
    let (mut destinations, pace) = (Destinations::default(), RetrySchedule::default());
    let (down, healthy) = ([1; 8], [2; 8]);
    let at = |minutes: u64| MonotonicMillis(minutes * 60_000);
    destinations.record_refusal(down, at(0), &pace, 0);
    // Another refusal during the rest, by an action that was under way, does not count.
    destinations.record_refusal(down, at(0), &pace, 0);
    assert_eq!(
        (destinations.permission(down, at(0)), destinations.permission(healthy, at(0))),
        (SendPermission::NotBefore(at(1)), SendPermission::Go)
    );
    assert_eq!(destinations.permission(down, at(1)), SendPermission::Go);
    destinations.begin_probe(down);
    assert_eq!(destinations.permission(down, at(1)), SendPermission::Probing);
    destinations.record_refusal(down, at(1), &pace, 0);
    assert_eq!(destinations.permission(down, at(1)), SendPermission::NotBefore(at(3)));
    destinations.record_success(down);
    assert_eq!(
        (destinations.permission(down, at(1)), destinations.is_empty()),
        (SendPermission::Go, true)
    );
    // One refused recipient does not stop the domain; five in a row do.
    for n in 0..5 {
        assert_eq!(destinations.permission(healthy, at(2)), SendPermission::Go, "{n}");
        destinations.record_recipient_refusal(healthy, at(2), &pace, 0);
    }
    assert_eq!(destinations.permission(healthy, at(2)), SendPermission::NotBefore(at(3)));
    for n in 0..10_000u64 {
        destinations.record_refusal(n.to_be_bytes(), at(4), &pace, 0);
    }
    // `MAX_DESTINATIONS`.
    assert!(destinations.len() <= 4096);
}

fn outcome() -> impl Strategy<Value = AttemptOutcome> {
    prop_oneof![
        3 => Just(sent()),
        2 => Just(AttemptOutcome::Unknown("lost".into())),
        3 => Just(temporary("451")),
        1 => Just(permanent([5, 1, 1])),
        1 => Just(AttemptOutcome::EightBit("554 5.6.3".into())),
        2 => Just(AttemptOutcome::TooMany),
    ]
}

proptest! {
    /// Over any history of answers: no recipient gets a message again that it has, or a reply that
    /// it may have; each ends as sent or failed within the lifetime; a failure is reported once.
    #[test]
    fn any_history_ends_within_the_lifetime_and_repeats_nothing(
        kind in 0usize..6,
        people in 1usize..5,
        rounds in proptest::collection::vec(
            (proptest::collection::vec(outcome(), 0..5), any::<u8>()),
            1..40,
        ),
    ) {
        let kind = ActionKind::ALL[kind];
        let names: Vec<String> = (0..people).map(|n| format!("u{n}")).collect();
        let mut current = action(kind, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let (created, people) = (current.created, current.recipients.len());
        let mut sent_to: BTreeMap<String, u32> = BTreeMap::new();
        let mut failed: BTreeMap<String, u32> = BTreeMap::new();
        let mut at = UtcMillis(0);
        let mut is_over = false;
        for (outcomes, jitter) in rounds.iter().cycle().take(2000) {
            let next = if at >= current.expires {
                expire(&current, at, &RetrySchedule::default())
            } else {
                // After an unknown outcome a message is sent again, unless it is a reply.
                let counts_as_sent = |outcome: &AttemptOutcome| match outcome {
                    AttemptOutcome::Sent(_) => true,
                    AttemptOutcome::Unknown(_) => rules(kind).at_most_once,
                    _ => false,
                };
                let reached: Vec<String> = current
                    .recipients
                    .iter()
                    .filter(|target| target.is_outstanding())
                    .zip(outcomes)
                    .filter(|(_, outcome)| counts_as_sent(outcome))
                    .map(|(target, _)| target.address.local().to_owned())
                    .collect();
                for name in reached {
                    *sent_to.entry(name).or_default() += 1;
                }
                next_step(&current, outcomes.clone(), at, &RetrySchedule::default(), *jitter)
            };
            for target in &next.failed {
                *failed.entry(target.address.local().to_owned()).or_default() += 1;
            }
            match next.step {
                ActionStep::Again(next_action) => {
                    prop_assert!(next_action.due >= at);
                    prop_assert!(next_action.due < next_action.expires);
                    prop_assert!(next_action.recipients.iter().any(Target::is_outstanding));
                    prop_assert_eq!(next_action.recipients.len(), people);
                    at = next_action.due.after(Duration::from_millis(1));
                    current = *next_action;
                }
                ActionStep::Kept(kept) => {
                    prop_assert!(kind == ActionKind::Submission);
                    prop_assert!(kept.recipients.iter().all(|target| !target.is_outstanding()));
                    is_over = true;
                    break;
                }
                ActionStep::Done | ActionStep::Dropped => {
                    prop_assert!(kind != ActionKind::Submission);
                    is_over = true;
                    break;
                }
            }
        }
        prop_assert!(is_over && at <= created.after(limits::QUEUE_LIFETIME), "{:?}", current);
        prop_assert!(sent_to.values().all(|times| *times <= 1), "{:?}", sent_to);
        prop_assert!(failed.values().all(|times| *times == 1), "{:?}", failed);
    }
}
