//! What scripts decided about a message, in types of this crate. `run` makes it of the plans of the
//! engine, and `deliver::scripts` makes of it what the commit of the delivery writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{
    Address, BlobHash, DsnNotify, DsnReturn, FilterStep, MailboxUid, ObjectId, Role, UtcMillis,
};
use crate::vacation;

/// The decisions of all scripts about one message for one account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterResult {
    /// In the order in which scripts took them. No two store the same version in the same target.
    /// A store in the Inbox is not here: it is `keep`.
    pub actions: Vec<FilterAction>,
    /// The implicit or explicit keep: the message is stored where it would go without scripts.
    /// `None` if a script cancelled it. If a script failed, what was kept before that script.
    pub keep: Option<Keep>,
    /// Which command took each action, and line 0 for the implicit keep of the last script; at
    /// most `limits::MAX_FILTER_STEPS`. `MarkDuplicate` has no step.
    pub steps: Vec<FilterStep>,
    /// The rules of the account's scripts that fired. Rules of a run that failed are left out.
    pub fired: Vec<FiredRules>,
    /// If a script failed: its name, the line from 1, and the reason. The line is 0 if the script
    /// could not be loaded. The name is empty if the active script could not be found.
    pub error: Option<(String, u32, String)>,
}

/// The rules of one script of an account that fired for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiredRules {
    pub script: ObjectId,
    /// The hash of the source that was run.
    pub source: BlobHash,
    /// Where the rules begin in the source, ascending (`ScriptRule::start`).
    pub rules: Vec<u32>,
}

/// The bytes of a message whose header a script edited (RFC 5293).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedMessage(pub Arc<[u8]>);

/// How a kept message is stored.
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
    /// If it is gone by then, the message is stored in the Inbox.
    Mailbox(MailboxUid),
    /// A mailbox to create, with the missing ones above it, unless it exists by then. If it cannot
    /// be created, the message is stored in the Inbox.
    Create {
        path: String,
        role: Option<Role>,
    },
}

/// A notification by mail (RFC 5436).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// At least one, and no address twice.
    pub to: Vec<Address>,
    /// The text of `:from`.
    pub from: Option<String>,
    pub subject: Option<String>,
    pub text: Option<String>,
    pub importance: Importance,
    /// Where a copy is filed (RFC 8580).
    pub fcc: Option<vacation::Fcc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    High,
    Normal,
    Low,
}
