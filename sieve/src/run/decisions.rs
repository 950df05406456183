//! The plan as it grows, and the conflicts of actions (RFC 5228 §2.10).
//!
//! - A mailbox gets the message once. If a script stores several times into one, the flags (RFC
//!   5232 §3) and the version of the last time count; the action keeps the place of the first time.
//! - A second `vacation` (RFC 5230 §4.7) fails the run when it is executed, and so does a second
//!   refusal. A refusal and a response, or a refusal and a delivery (RFC 5429 §2.4), fail the run
//!   when the later of the two is executed.
//! - The implicit keep is decided after the last command, with the flags and the version that the
//!   message has then.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::fuel::FLAG_COST;
use super::{Result, Run};
use crate::flag::FlagSet;
use crate::ir::{RejectKind, StringExpr};
use crate::message::PartId;
use crate::outcome::{Place, RuntimeErrorKind, WarningKind};
use crate::plan::{Action, DupKey, ImplicitKeep, MessageEdits, Plan, Target, Version};

/// What making the edits of a version costs for each line of the header, in bytes.
const LINE_COST: usize = 4;

/// What a run has decided so far.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// The actions so far, without records of the `duplicate` test.
    pub actions: Vec<Action>,
    /// The edited versions that actions used so far. Some may be used no more.
    versions: Vec<MessageEdits>,
    /// The indices of those that count towards the limit: all but those that only `vacation` or
    /// `notify` used.
    counted: BTreeSet<usize>,
    /// Records of the `duplicate` test: the key, and the time until which it is kept. They become
    /// actions when the plan is completed.
    marks: Vec<(DupKey, Timestamp)>,
    /// Whether an action has cancelled the implicit keep.
    is_keep_cancelled: bool,
    /// Whether the message is kept if no action stores it, even if the implicit keep is cancelled.
    must_be_stored: bool,
    /// The first action of each kind that was executed: its kind, name and place.
    taken: Vec<(Kind, &'static str, Place)>,
}

/// The kinds of actions between which there are conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `keep`, `fileinto` or `redirect`.
    Delivery,
    /// The command `vacation`.
    Response,
    /// `reject` or `ereject`.
    Refusal,
}

impl Kind {
    const fn conflicts_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Delivery, Self::Delivery | Self::Response)
            | (Self::Response, Self::Delivery) => false,
            (Self::Refusal, _) | (_, Self::Refusal) | (Self::Response, Self::Response) => true,
        }
    }
}

impl Decisions {
    pub(super) const fn cancel_keep(&mut self) {
        self.is_keep_cancelled = true;
    }

    /// Keeps the message at the end if no action stores it, even if the implicit keep is cancelled.
    pub(super) const fn require_store(&mut self) {
        self.must_be_stored = true;
    }

    /// Records the message for the `duplicate` test. If a key is recorded several times, the last
    /// `until` counts (RFC 7352 §3.3).
    fn mark(&mut self, key: DupKey, until: Timestamp) {
        self.marks.retain(|(known, _)| *known != key);
        self.marks.push((key, until));
    }

    fn stores(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Store { .. }))
    }
}

impl Run<'_> {
    /// Notes that an action of a kind is executed. `name` is that of its command.
    ///
    /// # Errors
    /// [`RuntimeErrorKind::IncompatibleActions`] if an action that conflicts with it was executed
    /// before.
    pub(super) fn take(&mut self, kind: Kind, name: &'static str) -> Result<()> {
        let conflict =
            self.decisions.taken.iter().find(|(other, _, _)| kind.conflicts_with(*other));
        if let Some((_, first, place)) = conflict {
            return Err(RuntimeErrorKind::IncompatibleActions {
                first,
                first_place: place.clone(),
                second: name,
            });
        }
        if !self.decisions.taken.iter().any(|(other, _, _)| *other == kind) {
            let place = self.place();
            self.decisions.taken.push((kind, name, place));
        }
        Ok(())
    }

    /// Adds an action to the plan. Fails if the plan has too many.
    pub(super) fn push_action(&mut self, action: Action) -> Result<()> {
        self.trace_action(&action);
        self.decisions.actions.push(action);
        self.count_actions()
    }

    /// Adds a record of the `duplicate` test to the plan. Fails if the plan has too many actions.
    pub(super) fn mark_duplicate(&mut self, key: DupKey, until: Timestamp) -> Result<()> {
        self.decisions.mark(key, until);
        self.count_actions()
    }

    fn count_actions(&self) -> Result<()> {
        let count = self.decisions.actions.len().saturating_add(self.decisions.marks.len());
        self.within("actions", count, u64::from(self.limits.actions))
    }

    /// Fails if the plan sends more messages than the limits allow.
    pub(super) fn count_sent(&self) -> Result<()> {
        let count_of = |is_one: fn(&Action) -> bool| {
            self.decisions.actions.iter().filter(|action| is_one(action)).count()
        };
        let redirects = count_of(|action| matches!(action, Action::Redirect(_)));
        let notifies = count_of(|action| matches!(action, Action::Notify(_)));
        let responses = count_of(|action| matches!(action, Action::Vacation(_)));
        self.within("redirects", redirects, u64::from(self.limits.redirects))?;
        self.within("notifications", notifies, u64::from(self.limits.notifies))?;
        let sent = redirects + notifies + responses;
        self.within("sent messages", sent, u64::from(self.limits.sent_messages))
    }

    /// Adds a store to the plan, or changes the one into the same mailbox if there is one. `name`
    /// is that of the command.
    pub(super) fn store(
        &mut self,
        name: &'static str,
        target: Target,
        new_flags: FlagSet,
    ) -> Result<()> {
        self.take(Kind::Delivery, name)?;
        self.fuel.bytes(new_flags.len().saturating_mul(FLAG_COST))?;
        let version = self.version(true)?;
        let existing = self.decisions.actions.iter_mut().find_map(|action| match action {
            Action::Store { to, flags, message } if is_same(to, &target) => Some((flags, message)),
            _ => None,
        });
        if let Some((flags, message)) = existing {
            *flags = new_flags.clone();
            *message = version;
            self.trace_action(&Action::Store { to: target, flags: new_flags, message: version });
            return Ok(());
        }
        self.push_action(Action::Store { to: target, flags: new_flags, message: version })
    }

    pub(super) fn reject(&mut self, kind: RejectKind, reason: String) -> Result<()> {
        let name = match kind {
            RejectKind::Reject => "reject",
            RejectKind::EReject => "ereject",
        };
        self.take(Kind::Refusal, name)?;
        self.decisions.cancel_keep();
        self.push_action(Action::Reject { kind, reason })
    }

    pub(super) fn discard(&mut self) -> Result<()> {
        self.decisions.cancel_keep();
        match self.decisions.actions.contains(&Action::Discard) {
            true => Ok(()),
            false => self.push_action(Action::Discard),
        }
    }

    /// Returns the version of the message as it is now, and adds it to the versions if it is new.
    /// Unless `with_enclosures`, it is the message inside the enclosures.
    pub(super) fn version(&mut self, with_enclosures: bool) -> Result<Version> {
        let version = self.uncounted_version(with_enclosures)?;
        if let Version::Edited(index) = version {
            self.decisions.counted.insert(usize::from(index));
            let (count, limit) = (self.decisions.counted.len(), u64::from(self.limits.versions));
            self.within("versions of the message", count, limit)?;
        }
        Ok(version)
    }

    /// As [`Self::version`], for an action that neither stores the version nor sends it on: it does
    /// not count towards [`RunLimits::versions`](crate::RunLimits::versions).
    pub(super) fn uncounted_version(&mut self, with_enclosures: bool) -> Result<Version> {
        if !self.message.is_edited() {
            return Ok(Version::Original);
        }
        let fields = self.message.view().fields(PartId::ROOT).len();
        let lines = self.message.lines().len().saturating_add(fields);
        let added = self.added_header.saturating_add(self.replaced_body);
        self.fuel.bytes(lines.saturating_mul(LINE_COST).saturating_add(added))?;
        let Some(edits) = self.message.edits(with_enclosures) else {
            return Ok(Version::Original);
        };
        let known = self.decisions.versions.iter().position(|known| *known == edits);
        let index = match known {
            Some(index) => index,
            None => {
                self.decisions.versions.push(edits);
                self.decisions.versions.len() - 1
            }
        };
        Ok(Version::Edited(u16::try_from(index).unwrap_or(u16::MAX)))
    }

    /// Reads the flags of an argument. A word that is no flag is left out, with a warning.
    pub(super) fn flag_set(
        &mut self,
        frame: &super::Frame<'_>,
        texts: &[StringExpr],
    ) -> Result<FlagSet> {
        let mut flags = FlagSet::new();
        for text in self.expand_all(frame, texts)? {
            self.add_flags(&mut flags, &text)?;
        }
        Ok(flags)
    }

    /// Adds the words of a text to a set of flags. A word that is no flag is left out, with a
    /// warning.
    pub(super) fn add_flags(&mut self, flags: &mut FlagSet, text: &str) -> Result<()> {
        for word in text.split_ascii_whitespace() {
            self.fuel.bytes(flags.len().saturating_mul(FLAG_COST))?;
            if !flags.insert(word) {
                self.warn(WarningKind::FlagIgnored(word.to_owned()));
            }
        }
        Ok(())
    }

    /// Completes the plan after the last command. If the message is kept implicitly and an action
    /// stores it in the Inbox already, this action gets the flags and the version of the implicit
    /// keep. The records of the `duplicate` test become the last actions.
    pub(super) fn finish(&mut self) -> Result<Plan> {
        let is_kept = !self.decisions.is_keep_cancelled
            || (self.decisions.must_be_stored && !self.decisions.stores());
        let mut implicit_keep = None;
        if is_kept {
            let version = self.version(true)?;
            let inbox = self.decisions.actions.iter_mut().find_map(|action| match action {
                Action::Store { to: Target::Inbox, flags, message } => Some((flags, message)),
                _ => None,
            });
            match inbox {
                Some((flags, message)) => {
                    flags.clone_from(&self.flags);
                    *message = version;
                }
                None => {
                    let flags = self.flags.clone();
                    implicit_keep = Some(ImplicitKeep { flags, message: version });
                }
            }
        }
        let Decisions { mut actions, versions, marks, .. } = std::mem::take(&mut self.decisions);
        let marks = marks.into_iter().map(|(key, until)| Action::MarkDuplicate { key, until });
        actions.extend(marks);
        let mut plan = Plan { actions, implicit_keep, versions };
        remove_unused_versions(&mut plan);
        Ok(plan)
    }
}

/// Returns whether two targets are one mailbox: they have the same id, or the same name to create.
fn is_same(a: &Target, b: &Target) -> bool {
    match (a, b) {
        (Target::Inbox, Target::Inbox) => true,
        (Target::Mailbox { id: a, .. }, Target::Mailbox { id: b, .. })
        | (Target::Create { name: a, .. }, Target::Create { name: b, .. }) => a == b,
        _ => false,
    }
}

/// Removes the versions that neither an action nor the implicit keep uses, and numbers the others
/// in the order of their first use.
fn remove_unused_versions(plan: &mut Plan) {
    let mut used = Vec::new();
    let mut renumber = |version: &mut Version| {
        if let Version::Edited(old) = version {
            let known = used.iter().position(|one| one == old);
            let new = known.unwrap_or_else(|| {
                used.push(*old);
                used.len() - 1
            });
            *old = u16::try_from(new).unwrap_or(u16::MAX);
        }
    };
    for action in &mut plan.actions {
        match action {
            Action::Store { message, .. } => renumber(message),
            Action::Redirect(redirect) => renumber(&mut redirect.message),
            Action::Vacation(vacation) => renumber(&mut vacation.message),
            Action::Notify(notify) => renumber(&mut notify.version),
            _ => {}
        }
    }
    if let Some(keep) = &mut plan.implicit_keep {
        renumber(&mut keep.message);
    }
    let take = |old: &u16| plan.versions.get(usize::from(*old)).cloned().unwrap_or_default();
    plan.versions = used.iter().map(take).collect();
}
