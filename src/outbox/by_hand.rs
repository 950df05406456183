//! The changes that a person may make to a queued action: try it now, hold it, release it. Each
//! function returns the changed action; nothing is stored here.

use super::kind::rules;
use crate::model::{Action, ActionState, RecipientState, UtcMillis};

const UNDER_WAY: &str = "it is under way just now, and may already have been sent";

/// Makes an action due now and urgent; a held one is released. If the action is over and failed,
/// its failed recipients are tried again, and its attempts count from 0. If the lifetime is over, a
/// new one begins, except for a reply.
///
/// # Errors
/// Why the action cannot be tried now, for people.
pub fn retry_action(action: &Action, now: UtcMillis) -> Result<Action, &'static str> {
    match action.state {
        ActionState::Attempting => return Err(UNDER_WAY),
        ActionState::Blocked => return Err("it waits for another one: try that"),
        ActionState::Sent => return Err("it was sent"),
        ActionState::Waiting | ActionState::Held | ActionState::Failed => {}
    }
    let mut retried = Action {
        state: ActionState::Waiting,
        urgent: true,
        due: now,
        ..renew_lifetime(action, now)
    };
    if action.state == ActionState::Failed {
        retried.attempts = 0;
        for target in retried
            .recipients
            .iter_mut()
            .filter(|target| matches!(target.state, RecipientState::Failed { .. }))
        {
            target.state = RecipientState::Waiting;
        }
    }
    Ok(retried)
}

/// Holds an action: it is not tried until it is released, or retried by hand. A held one stays as
/// it is. The time is unused; it gives the three functions one signature.
///
/// # Errors
/// Why the action cannot be held, for people.
pub fn hold_action(action: &Action, _now: UtcMillis) -> Result<Action, &'static str> {
    match action.state {
        ActionState::Waiting | ActionState::Held => {
            Ok(Action { state: ActionState::Held, ..action.clone() })
        }
        ActionState::Attempting => Err(UNDER_WAY),
        ActionState::Blocked => Err("it waits for another one: hold that"),
        ActionState::Failed | ActionState::Sent => Err("it is over"),
    }
}

/// Releases a held action: it waits for its due time again. If the lifetime is over, a new one
/// begins, except for a reply.
///
/// # Errors
/// Why the action cannot be released, for people.
pub fn release_action(action: &Action, now: UtcMillis) -> Result<Action, &'static str> {
    match action.state {
        ActionState::Held => {}
        ActionState::Attempting => return Err(UNDER_WAY),
        _ => return Err("it is not held"),
    }
    Ok(Action {
        state: ActionState::Waiting,
        due: action.due.max(now),
        ..renew_lifetime(action, now)
    })
}

/// Begins a new lifetime if that of the action is over. A reply stays expired: it would come too
/// late.
fn renew_lifetime(action: &Action, now: UtcMillis) -> Action {
    let rules = rules(action.kind);
    let expires = if rules.at_most_once || now < action.expires {
        action.expires
    } else {
        now.after(rules.lifetime)
    };
    Action { expires, ..action.clone() }
}
