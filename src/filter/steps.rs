//! Records which commands of a script ran, and which took which action.

use std::collections::BTreeSet;

use restante_sieve::ir::{Command, CommandKind};
use restante_sieve::{Action, Place, RedirectTarget, Target, Trace};

use crate::model::limits;

/// Collects the first `limits::MAX_FILTER_STEPS` actions of a run, with their places. Texts that
/// are too long are cut.
#[derive(Debug, Default)]
pub(super) struct StepTrace {
    /// The actions, with the places of their commands.
    pub(super) actions: Vec<(Place, String)>,
    /// The commands other than `if` that ran: the included script, or `None`, and where the command
    /// begins. Further ones are left out.
    pub(super) commands: BTreeSet<(Option<String>, u32)>,
}

/// The most different commands of a run that are collected.
const MAX_COMMANDS: usize = 4096;

impl Trace for StepTrace {
    fn command(&mut self, place: &Place, command: &Command) {
        if !matches!(command.kind, CommandKind::If(_)) && self.commands.len() < MAX_COMMANDS {
            self.commands.insert((place.script.clone(), command.span.start));
        }
    }

    fn action(&mut self, place: &Place, action: &Action) {
        if self.actions.len() < limits::MAX_FILTER_STEPS
            && let Some(mut text) = describe(action)
        {
            text.truncate(text.floor_char_boundary(limits::MAX_FILTER_STEP_BYTES));
            self.actions.push((place.clone(), text));
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
