//! Records which command of a script took which action.

use restante_sieve::{Action, Place, RedirectTarget, Target, Trace};

use crate::model::limits;

/// Collects the first `limits::MAX_FILTER_STEPS` actions of a run, with their places. Texts that
/// are too long are cut.
#[derive(Debug, Default)]
pub(super) struct StepTrace(pub(super) Vec<(Place, String)>);

impl Trace for StepTrace {
    fn action(&mut self, place: &Place, action: &Action) {
        if self.0.len() < limits::MAX_FILTER_STEPS
            && let Some(mut text) = describe(action)
        {
            text.truncate(text.floor_char_boundary(limits::MAX_FILTER_STEP_BYTES));
            self.0.push((place.clone(), text));
        }
    }
}

/// Returns a text for people about an action and its target; `None` for `MarkDuplicate`, which
/// does nothing that a person sees.
pub(super) fn describe(action: &Action) -> Option<String> {
    Some(match action {
        Action::Store { to: Target::Inbox, .. } => "keep".to_owned(),
        Action::Store {
            to: Target::Mailbox { name, .. } | Target::Create { name, .. }, ..
        } => {
            format!("fileinto {name}")
        }
        Action::Redirect(redirect) => match &redirect.to {
            RedirectTarget::Address(address) => format!("redirect {address}"),
            RedirectTarget::List(list) => format!("redirect {list}"),
        },
        Action::Reject { .. } => "reject".to_owned(),
        Action::Discard => "discard".to_owned(),
        Action::Vacation(_) => "vacation".to_owned(),
        Action::Notify(notify) => format!("notify {}", notify.method),
        Action::MarkDuplicate { .. } => return None,
    })
}
