//! Records which commands of a script ran, which took which action, and what did not go as the
//! script says. `run` turns actions and warnings into steps of the decision (`FilterStep`), and
//! finds by the commands which rules fired.

use std::collections::BTreeSet;

use restante_sieve::ir::{Command, CommandKind};
use restante_sieve::{Action, Place, RedirectTarget, Target, Trace, Warning, WarningKind};

use crate::model::limits;

/// Collects what one script did.
#[derive(Debug, Default)]
pub(super) struct StepTrace {
    /// The texts of the first actions, and of the first `MAX_WARNING_STEPS` different warnings,
    /// each with the place of its command, and cut to `limits::MAX_FILTER_STEP_BYTES`: at most
    /// `limits::MAX_FILTER_STEPS`.
    pub(super) steps: Vec<(Place, String)>,
    /// The number of different warnings, at most `MAX_WARNING_STEPS`.
    warnings: usize,
    /// The first redirect that was left out because the message is in a loop, and the text of its
    /// warning.
    pub(super) redirect_loop: Option<(Place, String)>,
    /// The first `MAX_COMMANDS` different commands other than `if` that ran. Each is the name of
    /// the included script that has it (`None` for the script itself), and the byte of the source
    /// at which it begins.
    pub(super) commands: BTreeSet<(Option<String>, u32)>,
}

/// The most warnings of one script that become steps, so that they leave room for the actions.
const MAX_WARNING_STEPS: usize = 16;

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
        if let Some(text) = describe(action) {
            self.add(place, cut(text));
        }
    }

    fn warning(&mut self, warning: &Warning) {
        let Warning { place, kind } = warning;
        if matches!(kind, WarningKind::RedirectLoop) && self.redirect_loop.is_none() {
            self.redirect_loop = Some((place.clone(), kind.to_string()));
        }
        let text = cut(format!("warning: {kind}"));
        let is_known = self.steps.iter().any(|(known, step)| known == place && *step == text);
        if self.warnings < MAX_WARNING_STEPS && !is_known {
            self.warnings += 1;
            self.add(place, text);
        }
    }
}

impl StepTrace {
    fn add(&mut self, place: &Place, text: String) {
        if self.steps.len() < limits::MAX_FILTER_STEPS {
            self.steps.push((place.clone(), text));
        }
    }
}

/// Cuts the text of a step to `limits::MAX_FILTER_STEP_BYTES`.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(limits::MAX_FILTER_STEP_BYTES));
    text
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
