//! What a person may do with an action that is in the queue.

use super::kind::rules;
use crate::model::{Action, ActionState, RecipientState, UtcMillis};

const UNDER_WAY: &str = "it is under way just now, and may already have been sent";

/// It is tried now, before the rest: also one that was held, or had failed and was kept. Whoever it
/// failed for is tried again, with a time of its own.
///
/// # Errors
/// Why that cannot be.
pub fn retry_action(action: &Action, now: UtcMillis) -> Result<Action, &'static str> {
    match action.state {
        ActionState::Attempting => return Err(UNDER_WAY),
        ActionState::Blocked => return Err("it waits for another one: try that"),
        ActionState::Sent => return Err("it was sent"),
        ActionState::Waiting | ActionState::Held | ActionState::Failed => {}
    }
    let mut again = Action {
        state: ActionState::Waiting,
        urgent: true,
        due: now,
        ..renew_lifetime(action, now)
    };
    if action.state == ActionState::Failed {
        again.attempts = 0;
        for target in again
            .recipients
            .iter_mut()
            .filter(|target| matches!(target.state, RecipientState::Failed { .. }))
        {
            target.state = RecipientState::Waiting;
        }
    }
    Ok(again)
}

/// It is not tried until it is released.
///
/// # Errors
/// Why that cannot be.
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

/// It waits for its time again.
///
/// # Errors
/// Why that cannot be.
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

/// With a new lifetime, where its own is over; a reply is stale then, and stays so.
fn renew_lifetime(action: &Action, now: UtcMillis) -> Action {
    let rules = rules(action.kind);
    let expires = if rules.at_most_once || now < action.expires {
        action.expires
    } else {
        now.after(rules.lifetime)
    };
    Action { expires, ..action.clone() }
}
