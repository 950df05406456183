//! Attempt and outcome to what is next.

use std::time::Duration;

use crate::model::{Action, ActionKind, ActionState, UtcMillis};

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The next hop has it.
    Sent,
    /// The message went out and no answer came: it may have been sent.
    Unknown(String),
    /// Not now: the next hop says so, or cannot be reached. Refusals that concern us and not the message (connecting,
    /// greeting, EHLO, TLS) are of this kind whatever their digit.
    Temporary(String),
    /// Never: the recipient's address, or the sender's, is not ASCII, and the next hop lacks SMTPUTF8 (RFC 6531 §3.5).
    NoSmtpUtf8,
    /// Never.
    Permanent {
        /// What the next hop said.
        text: String,
        /// Whether it is the recipient's address that is bad (RFC 3463 §3.2, 5.1.x).
        bad_address: bool,
    },
}

/// What is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It is done: remove it. The text is for the log where it is not plainly sent.
    Done(Option<String>),
    /// Try again: the action as it is kept.
    Again(Box<Action>),
    /// Give up: remove it; and forget that its recipient was told, if so said.
    GiveUp {
        /// The code of the reason, as the owner's log has it.
        reason: &'static str,
        /// Why.
        why: String,
        /// Whether the told row goes, too.
        forget_told: bool,
    },
}

/// Reason: an address is not ASCII, and the relay lacks SMTPUTF8.
pub const NO_SMTPUTF8: &str = "no-smtputf8";
/// Reason: the relay refused it for good, or it could not be sent in time.
pub const NOT_SENT: &str = "not-sent";

const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);

/// What follows an attempt at `now`. `jitter` is 0 to 255, and spreads the next try over a quarter of the delay.
#[must_use]
pub fn follow(action: &Action, outcome: Outcome, now: UtcMillis, jitter: u8) -> Next {
    match (outcome, action.kind) {
        (Outcome::Sent, _) => Next::Done(None),
        (Outcome::Unknown(text), ActionKind::Reply) => Next::Done(Some(format!("may have been sent: {text}"))),
        (Outcome::Unknown(text), ActionKind::Notification) | (Outcome::Temporary(text), _) => {
            let due = now.after(delay(action.attempts, jitter));
            if due >= action.expires {
                return too_late(&text);
            }
            Next::Again(Box::new(Action {
                state: ActionState::Waiting,
                due,
                attempts: action.attempts.saturating_add(1),
                last_error: Some(text),
                ..action.clone()
            }))
        }
        // No other message to that address would fare better: who was told stays told.
        (Outcome::NoSmtpUtf8, _) => {
            let why = "the address is not ASCII, and the relay lacks SMTPUTF8".into();
            Next::GiveUp { reason: NO_SMTPUTF8, why, forget_told: false }
        }
        (Outcome::Permanent { text, bad_address }, _) => {
            Next::GiveUp { reason: NOT_SENT, why: text, forget_told: !bad_address }
        }
    }
}

/// What becomes of an action whose time is over; `last` is what the last attempt met.
#[must_use]
pub fn too_late(last: &str) -> Next {
    Next::GiveUp { reason: NOT_SENT, why: format!("not sent in time: {last}"), forget_told: true }
}

/// What becomes of an action that was found half attempted at the start of the service.
#[must_use]
pub fn recover(action: &Action, now: UtcMillis) -> Option<Next> {
    if action.state != ActionState::Attempting {
        return None;
    }
    Some(follow(action, Outcome::Unknown("the service ended while it was being sent".into()), now, 0))
}

fn delay(attempts: u32, jitter: u8) -> Duration {
    let whole = FIRST.saturating_mul(1u32.checked_shl(attempts.min(10)).unwrap_or(1024)).min(LONGEST);
    whole + whole / 4 * u32::from(jitter) / 255
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ActionId, Address};

    fn action(kind: ActionKind, attempts: u32) -> Action {
        Action {
            id: ActionId(1),
            kind,
            state: ActionState::Attempting,
            created: UtcMillis(0),
            due: UtcMillis(0),
            expires: UtcMillis(86_400_000),
            attempts,
            last_error: None,
            sender: None,
            recipient: Address::from_parts("bob", "example.net"),
            notify_never: true,
            email: None,
            told: None,
            message_id: "1@x".into(),
            message: Vec::new(),
        }
    }

    #[test]
    fn delays_grow_to_an_hour_and_end() {
        let mut waits = Vec::new();
        for attempts in 0..8 {
            let next = follow(&action(ActionKind::Reply, attempts), Outcome::Temporary("x".into()), UtcMillis(0), 0);
            let Next::Again(next) = next else { panic!("{next:?}") };
            assert_eq!((next.state, next.attempts), (ActionState::Waiting, attempts + 1));
            waits.push(next.due.0 / 60_000);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        let late = follow(&action(ActionKind::Reply, 3), Outcome::Temporary("x".into()), UtcMillis(86_399_000), 0);
        assert!(matches!(late, Next::GiveUp { forget_told: true, .. }));
        assert!(delay(0, 255) > delay(0, 0));
    }

    #[test]
    fn a_reply_goes_once_at_most_and_a_notification_once_at_least() {
        let unknown = |kind| recover(&action(kind, 0), UtcMillis(0)).unwrap();
        assert!(matches!(unknown(ActionKind::Reply), Next::Done(Some(_))));
        assert!(matches!(unknown(ActionKind::Notification), Next::Again(_)));
        let waiting = Action { state: ActionState::Waiting, ..action(ActionKind::Reply, 0) };
        assert_eq!(recover(&waiting, UtcMillis(0)), None);
    }

    #[test]
    fn a_bad_address_stays_told() {
        for bad_address in [true, false] {
            let outcome = Outcome::Permanent { text: "no".into(), bad_address };
            let next = follow(&action(ActionKind::Reply, 0), outcome, UtcMillis(0), 0);
            assert_eq!(next, Next::GiveUp { reason: NOT_SENT, why: "no".into(), forget_told: !bad_address });
        }
        let next = follow(&action(ActionKind::Reply, 0), Outcome::NoSmtpUtf8, UtcMillis(0), 0);
        assert!(matches!(next, Next::GiveUp { reason: "no-smtputf8", forget_told: false, .. }));
    }
    #[test]
    fn an_hour_of_refusals_costs_few_attempts_and_no_reply() {
        let mut reply = Action { expires: UtcMillis(24 * 3_600_000), ..action(ActionKind::Reply, 0) };
        let mut attempts = 0;
        while reply.due < UtcMillis(3_600_000) {
            attempts += 1;
            let before = reply.due;
            match follow(&reply, Outcome::Temporary("451".into()), reply.due, 128) {
                Next::Again(next) => reply = *next,
                other => panic!("{other:?}"),
            }
            assert!(reply.due.since(before) >= FIRST && reply.due.since(before) <= LONGEST + LONGEST / 4);
        }
        assert!((4..=8).contains(&attempts), "{attempts} attempts in an hour");
        assert_eq!(reply.state, ActionState::Waiting);
    }
}
