//! Plans in which mailboxes a message is stored, and which version of it each of them gets.
//!
//! A mailbox gets the message once (RFC 5228 §2.10.3). If it is stored there several times, the
//! version of the last time stays. The Sieve engine does the same within one script.

use std::collections::BTreeSet;

use super::job::PlannedEmail;
use super::scripts::Planner;
use crate::filter::{EditedMessage, StoreTarget};
use crate::model::Role;

impl Planner<'_> {
    /// Adds a mailbox and keywords to the email with this version of the message. Whatever was
    /// edited, it is the same message, which a mailbox gets once (RFC 5293 §7): the mailbox is
    /// taken from an email with another version.
    pub(super) fn store(
        &mut self,
        to: StoreTarget,
        keywords: BTreeSet<String>,
        message: Option<EditedMessage>,
    ) {
        let to = self.resolved(to);
        let is_same = |email: &PlannedEmail| {
            email.edited.as_ref().map(|edited| &edited.message) == message.as_ref()
        };
        for email in self.emails.iter_mut().filter(|email| !is_same(email)) {
            email.targets.remove(&to);
        }
        self.emails.retain(|email| !email.targets.is_empty());
        if let Some(email) = self.emails.iter_mut().find(|email| is_same(email)) {
            email.targets.insert(to);
            email.keywords.extend(keywords);
            return;
        }
        let edited = message.map(|message| self.version(message));
        self.emails.push(PlannedEmail { targets: [to].into(), keywords, edited });
    }

    /// Returns the one target that stands for a mailbox, so that targets can be compared: `Inbox`
    /// for the Inbox, `Mailbox` for any other that exists, and for one to be created `Create` with
    /// the first of the paths that differ only in case.
    fn resolved(&self, to: StoreTarget) -> StoreTarget {
        let (account, snapshot) = (self.owner.target.account, self.owner.snapshot);
        let found = match &to {
            StoreTarget::Inbox => return to,
            StoreTarget::Mailbox(uid) => {
                snapshot.mailbox(account, *uid).ok().flatten().map(|mailbox| (*uid, mailbox))
            }
            StoreTarget::Create { path, .. } => snapshot.find_mailbox(account, path).ok().flatten(),
        };
        match (found, &to) {
            (Some((_, mailbox)), _) if mailbox.role == Some(Role::Inbox) => StoreTarget::Inbox,
            (Some((uid, _)), _) => StoreTarget::Mailbox(uid),
            (None, StoreTarget::Create { path: new, .. }) => {
                let is_known = |known: &&StoreTarget| match known {
                    StoreTarget::Create { path, .. } => path.to_lowercase() == new.to_lowercase(),
                    _ => false,
                };
                let mut known = self.emails.iter().flat_map(|email| &email.targets);
                known.find(is_known).cloned().unwrap_or(to)
            }
            (None, _) => to,
        }
    }
}
