//! Counts what the scripts that run for one recipient use of their limits. They share some of the
//! limits, those of `RunUsage`; each has the other ones for itself.

use std::collections::BTreeSet;

use restante_sieve::{Action, Outcome, Plan, RunLimits, Version};

/// What the scripts that ran so far have used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunUsage {
    /// Units of work, as in `RunLimits::fuel`.
    fuel: u64,
    actions: u16,
    redirects: u16,
    notifies: u16,
    /// Redirects, notifications and vacation responses.
    sent: u16,
    versions: u16,
}

impl RunUsage {
    /// Counts what a run used and planned.
    pub(super) fn add(&mut self, outcome: &Outcome) {
        let count = |is_kind: fn(&Action) -> bool| {
            let number = outcome.plan.actions.iter().filter(|action| is_kind(action)).count();
            u16::try_from(number).unwrap_or(u16::MAX)
        };
        let redirects = count(|action| matches!(action, Action::Redirect(_)));
        let notifies = count(|action| matches!(action, Action::Notify(_)));
        let answers = count(|action| matches!(action, Action::Vacation(_)));
        let versions = u16::try_from(counted_versions(&outcome.plan)).unwrap_or(u16::MAX);
        self.fuel = self.fuel.saturating_add(outcome.fuel_used);
        self.actions = self.actions.saturating_add(count(|_| true));
        self.redirects = self.redirects.saturating_add(redirects);
        self.notifies = self.notifies.saturating_add(notifies);
        let sent = redirects.saturating_add(notifies).saturating_add(answers);
        self.sent = self.sent.saturating_add(sent);
        self.versions = self.versions.saturating_add(versions);
    }

    /// Returns what is left of `limits` for the script that runs next.
    pub(super) fn left(&self, limits: RunLimits) -> RunLimits {
        RunLimits {
            fuel: limits.fuel.saturating_sub(self.fuel),
            actions: limits.actions.saturating_sub(self.actions),
            redirects: limits.redirects.saturating_sub(self.redirects),
            notifies: limits.notifies.saturating_sub(self.notifies),
            sent_messages: limits.sent_messages.saturating_sub(self.sent),
            versions: limits.versions.saturating_sub(self.versions),
            ..limits
        }
    }
}

/// Returns how many edited versions of the message a plan stores, keeps or sends on. One that only
/// `vacation` or `notify` uses is not counted: only its header is made.
fn counted_versions(plan: &Plan) -> usize {
    let of_actions = plan.actions.iter().filter_map(|action| match action {
        Action::Store { message, .. } => Some(*message),
        Action::Redirect(redirect) => Some(redirect.message),
        _ => None,
    });
    let all = of_actions.chain(plan.implicit_keep.as_ref().map(|keep| keep.message));
    let edited = all.filter_map(|version| match version {
        Version::Edited(index) => Some(index),
        Version::Original => None,
    });
    edited.collect::<BTreeSet<u16>>().len()
}
