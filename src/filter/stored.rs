//! What a script means for a message that is stored already. `jmap::admin` carries it out.
//!
//! - `keep`, and `fileinto` with the Inbox, leave the message in the mailbox where it is.
//! - Nothing is sent, and the message is not edited.
//! - A message that would have been redirected or refused, and stored nowhere, stays. One that
//!   would have been discarded is to go to Trash.

use std::collections::BTreeSet;

use super::action::{FilterAction, FilterResult, StoreTarget};

/// What a script would do with a stored message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredPlan {
    /// Where the message is to go. Never `StoreTarget::Inbox`.
    pub targets: BTreeSet<StoreTarget>,
    /// Whether the message stays in the mailbox where it is, whatever `targets` are.
    pub stays: bool,
    /// To add to those that the message has.
    pub keywords: BTreeSet<String>,
    /// What the script did that is not done for stored mail: an entry for each action, and at the
    /// end one `Edit` if it stored or kept an edited version.
    pub left_out: Vec<LeftOut>,
}

/// An action of a script that is not done for stored mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    Redirect,
    Reject,
    Vacation,
    Notify,
    /// A change of the header. The message goes where the edited one would have gone.
    Edit,
}

impl LeftOut {
    /// Returns the name of the command; of `Edit`, that of the extension.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redirect => "redirect",
            Self::Reject => "reject",
            Self::Vacation => "vacation",
            Self::Notify => "notify",
            Self::Edit => "editheader",
        }
    }
}

impl StoredPlan {
    /// Returns what the result of a run means for a stored message. A run that failed leaves the
    /// message where it is, without new keywords.
    #[must_use]
    pub fn new(result: &FilterResult) -> Self {
        let mut plan = Self::default();
        if result.error.is_some() {
            return Self { stays: true, ..plan };
        }
        let mut is_edited = false;
        for action in &result.actions {
            match action {
                FilterAction::Store { to, keywords, message } => {
                    plan.keywords.extend(keywords.iter().cloned());
                    is_edited |= message.is_some();
                    match to {
                        StoreTarget::Inbox => plan.stays = true,
                        target => drop(plan.targets.insert(target.clone())),
                    }
                }
                FilterAction::Redirect { .. } => plan.left_out.push(LeftOut::Redirect),
                FilterAction::Reject { .. } => plan.left_out.push(LeftOut::Reject),
                FilterAction::Vacation { .. } => plan.left_out.push(LeftOut::Vacation),
                FilterAction::Notify(_) => plan.left_out.push(LeftOut::Notify),
                FilterAction::MarkDuplicate { .. } => {}
            }
        }
        if let Some(keep) = &result.keep {
            plan.keywords.extend(keep.keywords.iter().cloned());
            is_edited |= keep.message.is_some();
            plan.stays = true;
        }
        let is_sent_away = |left: &LeftOut| matches!(left, LeftOut::Redirect | LeftOut::Reject);
        plan.stays |= plan.targets.is_empty() && plan.left_out.iter().any(is_sent_away);
        if is_edited {
            plan.left_out.push(LeftOut::Edit);
        }
        plan
    }

    /// Whether the script would have discarded the message, which is to go to Trash then.
    #[must_use]
    pub fn is_discarded(&self) -> bool {
        !self.stays && self.targets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::action::{EditedMessage, Keep};
    use crate::model::{Address, MailboxUid};

    fn redirect() -> FilterAction {
        let to = Address::from_parts("eve", "example.com");
        FilterAction::Redirect { to, notify: None, ret: None, message: None }
    }

    fn store(uid: u32) -> FilterAction {
        FilterAction::Store {
            to: StoreTarget::Mailbox(MailboxUid(uid)),
            keywords: ["$seen".to_owned()].into(),
            message: Some(EditedMessage(b"x".as_slice().into())),
        }
    }

    fn plan(actions: Vec<FilterAction>, keep: Option<Keep>) -> StoredPlan {
        StoredPlan::new(&FilterResult { actions, keep, ..FilterResult::default() })
    }

    #[test]
    fn only_what_the_script_discards_goes_to_trash() {
        assert!(plan(vec![], None).is_discarded());
        assert!(!plan(vec![], Some(Keep::default())).is_discarded());
        let sent = plan(vec![redirect()], None);
        assert_eq!((sent.stays, sent.left_out), (true, vec![LeftOut::Redirect]));
        let reject = FilterAction::Reject { in_protocol: false, reason: "no".into() };
        assert!(plan(vec![reject], None).stays);
        let failed = FilterResult {
            error: Some(("main".into(), 1, "too much work".into())),
            ..FilterResult::default()
        };
        assert!(StoredPlan::new(&failed).stays);
    }

    #[test]
    fn message_that_is_filed_and_sent_on_is_moved() {
        let moved = plan(vec![redirect(), store(7)], None);
        assert!(!moved.stays && !moved.is_discarded());
        assert_eq!(moved.targets, [StoreTarget::Mailbox(MailboxUid(7))].into());
        assert_eq!(moved.keywords, ["$seen".to_owned()].into());
        assert_eq!(moved.left_out, [LeftOut::Redirect, LeftOut::Edit]);
        assert!(plan(vec![store(7)], Some(Keep::default())).stays);
    }
}
