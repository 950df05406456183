//! What scripts decided about a message, with the types of the store and the outbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{Address, DsnNotify, DsnReturn, FilterStep, MailboxUid, Role, UtcMillis};
use crate::vacation;

/// The decisions of all scripts about one message for one account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterResult {
    /// In the order in which scripts took them. No two store the same version in one mailbox.
    pub actions: Vec<FilterAction>,
    /// The implicit keep, if no script cancelled it.
    pub keep: Option<Keep>,
    /// Which command took each action.
    pub steps: Vec<FilterStep>,
    /// If a run failed: the script, the line (from 1, or 0) and the reason.
    pub error: Option<(String, u32, String)>,
}

/// The bytes of a message whose header a script edited (RFC 5293).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedMessage(pub Arc<[u8]>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keep {
    pub keywords: BTreeSet<String>,
    /// `None`: the message as received.
    pub message: Option<EditedMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterAction {
    Store {
        to: StoreTarget,
        keywords: BTreeSet<String>,
        /// `None`: the message as received.
        message: Option<EditedMessage>,
    },
    Redirect {
        to: Address,
        notify: Option<DsnNotify>,
        ret: Option<DsnReturn>,
        /// `None`: the message as received.
        message: Option<EditedMessage>,
    },
    Reject {
        /// Whether the refusal should be answered in the protocol whatever its text (`ereject`,
        /// RFC 5429 §2.1).
        in_protocol: bool,
        reason: String,
    },
    Vacation(Box<vacation::Script>),
    Notify(Notification),
    /// Remembers the message for the `duplicate` test (RFC 7352).
    MarkDuplicate {
        hash: [u8; 32],
        until: UtcMillis,
    },
}

/// Where a message is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreTarget {
    Inbox,
    Mailbox(MailboxUid),
    /// A mailbox to create, with the missing ones above it, unless it exists by then.
    Create {
        path: String,
        role: Option<Role>,
    },
}

/// A notification by mail (RFC 5436).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// At least one.
    pub to: Vec<Address>,
    /// The text of `:from`.
    pub from: Option<String>,
    pub subject: Option<String>,
    pub text: Option<String>,
    pub importance: Importance,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    High,
    Normal,
    Low,
}
