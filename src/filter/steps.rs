//! Records which commands of a script ran, and which took which action. `run` turns the actions
//! into steps of the decision (`FilterStep`), and finds by the commands which rules fired.

use std::collections::BTreeSet;

use restante_sieve::ir::{Command, CommandKind};
use restante_sieve::{Action, Place, RedirectTarget, Target, Trace};

use crate::model::limits;

/// Collects what one script did.
#[derive(Debug, Default)]
pub(super) struct StepTrace {
    /// The texts of the first `limits::MAX_FILTER_STEPS` actions, each with the place of its
    /// command, and cut to `limits::MAX_FILTER_STEP_BYTES`.
    pub(super) actions: Vec<(Place, String)>,
    /// The first `MAX_COMMANDS` different commands other than `if` that ran. Each is the name of
    /// the included script that has it (`None` for the script itself), and the byte of the source
    /// at which it begins.
    pub(super) commands: BTreeSet<(Option<String>, u32)>,
}

/// The most different commands of a run that are collected. Rules of later commands are not
/// counted.
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
