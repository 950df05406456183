//! What scripts decided about a message, in types of this crate.
//!
//! `run` makes a `FilterResult` of the plans of the engine. `deliver::scripts` turns it into what
//! the commit of the delivery writes, and `StoredPlan` into what becomes of stored mail.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{
    Address, BlobHash, DsnNotify, DsnReturn, FilterStep, MailboxUid, ObjectId, Role, UtcMillis,
};
use crate::vacation;

/// The decisions of all scripts about one message for one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterResult {
    /// In the order in which scripts took them. No two store in the same target. A store in the
    /// Inbox is not here: it is `keep`.
    pub actions: Vec<FilterAction>,
    /// The implicit or explicit keep: the message is stored where it would go without scripts.
    /// `None` if a script cancelled it. If a script failed, what was kept before that script.
    pub keep: Option<Keep>,
    /// The actions and warnings of each script that did not fail, with the lines of their commands;
    /// and the implicit keep of the last script, with line 0. At most `limits::MAX_FILTER_STEPS`.
    /// An action that repeats one has a step, too, though `actions` lacks it. `MarkDuplicate` has
    /// none.
    pub steps: Vec<FilterStep>,
    /// The rules of the account's scripts that fired, at most `limits::MAX_FIRED_RULES`. Rules of a
    /// script that failed are left out.
    pub fired: Vec<FiredRules>,
    /// If a script failed: its name, the line from 1, and the reason. The line is 0 if the failure
    /// has no place in a script, as when the script could not be loaded. The name is empty if the
    /// active script could not be found, or the run panicked.
    pub error: Option<(String, u32, String)>,
    /// The redirects that were left out because the message is in a loop, one for each script, in
    /// the form of `error`.
    pub redirect_loops: Vec<(String, u32, String)>,
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
        /// The reports that the script asks for (RFC 6009); `None` if it says nothing of them.
        notify: Option<DsnNotify>,
        /// How much of the message a report returns; `None` if the script says nothing of that.
        ret: Option<DsnReturn>,
        /// `None`: the message as received.
        message: Option<EditedMessage>,
    },
    Reject {
        /// `ereject` (RFC 5429 §2.1): the refusal should be a reply of the protocol, even if that
        /// cannot carry the reason exactly. False for `reject`.
        in_protocol: bool,
        reason: String,
    },
    Vacation {
        script: Box<vacation::Script>,
        /// The message that is answered (RFC 5293 §7), of which the body may be missing. `None`:
        /// the message as received.
        message: Option<EditedMessage>,
    },
    Notify(Notification),
    /// Remembers the message for the `duplicate` test (RFC 7352), by the hash of the test's key.
    MarkDuplicate {
        hash: [u8; 32],
        until: UtcMillis,
    },
}

/// Where a message is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreTarget {
    /// Not in `FilterResult::actions`: `deliver` has it for a kept message.
    Inbox,
    /// If it is gone when the message is stored, the Inbox takes its place.
    Mailbox(MailboxUid),
    /// A mailbox to create, with the missing ones above it. If it exists when the message is
    /// stored, it is used. If it cannot be created, the Inbox takes its place.
    Create {
        /// The names of the mailbox and of those above it, with `/` between them.
        path: String,
        /// The role that the mailbox gets if it is created; `None` for none.
        role: Option<Role>,
    },
}

/// A notification by mail (RFC 5436).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// At least one, and no address twice. Each gets a message of its own.
    pub to: Vec<Address>,
    /// The text of `:from`; `None` if the script has none.
    pub from: Option<String>,
    /// `None`: the Subject of the message.
    pub subject: Option<String>,
    /// `None`: From and Subject of the message.
    pub text: Option<String>,
    pub importance: Importance,
    /// The message that the notification is about (RFC 5293 §7); its body may be missing. `None`:
    /// the message as received.
    pub message: Option<EditedMessage>,
    /// Where a copy is filed (RFC 8580); `None` for no copy.
    pub fcc: Option<vacation::Fcc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    High,
    Normal,
    Low,
}
