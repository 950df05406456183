//! What is planned for one account before its commit.

use std::collections::BTreeSet;

use super::plan::PlannedReply;
use crate::filter::{EditedMessage, FiredRules, StoreTarget};
use crate::model::{Address, FilterStep, ObjectId, UtcMillis};
use crate::outbox::NewAction;
use crate::store::EncodedMessage;
use crate::vacation::{self, RateCharge, ReplyDecision};

pub(super) struct AccountJob {
    /// The recipients of this account, in order. Everything else follows from the first.
    pub(super) recipients: Vec<Address>,
    pub(super) prefix: Vec<u8>,
    /// The emails to create. Several, if scripts store several versions of the message; none, if
    /// they store it nowhere.
    pub(super) emails: Vec<PlannedEmail>,
    pub(super) scripts: ScriptWrites,
    pub(super) plan: ReplyDecision<Box<PlannedReply>>,
    /// The notification that tells the sender of the delivery, and its charge.
    pub(super) notification: Option<(NewAction, RateCharge)>,
    /// If the message is a report: the submission that it is about.
    pub(super) submission: Option<ObjectId>,
}

/// An email to create, in one or several mailboxes.
pub(super) struct PlannedEmail {
    pub(super) targets: BTreeSet<StoreTarget>,
    pub(super) keywords: BTreeSet<String>,
    /// `None`: the message as received.
    pub(super) edited: Option<EditedEmail>,
}

/// A version of the message that a script made, with its rows.
pub(super) struct EditedEmail {
    pub(super) message: EditedMessage,
    pub(super) rows: EncodedMessage,
}

/// A message that is sent, and of which a copy is filed.
pub(super) struct PlannedCopy {
    pub(super) message: Vec<u8>,
    pub(super) rows: EncodedMessage,
    pub(super) fcc: vacation::Fcc,
}

/// What scripts have written besides emails and the reply.
#[derive(Default)]
pub(super) struct ScriptWrites {
    /// Redirects, notifications, and reports of a refusal.
    pub(super) actions: Vec<NewAction>,
    /// Copies of notifications, for the owner (RFC 8580).
    pub(super) copies: Vec<PlannedCopy>,
    /// What was charged for `actions`.
    pub(super) charges: Vec<RateCharge>,
    /// The text with which the recipient is refused.
    pub(super) refusal: Option<String>,
    /// What the `duplicate` test remembers, and until when.
    pub(super) duplicates: Vec<([u8; 32], UtcMillis)>,
    pub(super) steps: Vec<FilterStep>,
    /// The rules that are counted.
    pub(super) fired: Vec<FiredRules>,
    /// If a run failed: the script, the line and the reason.
    pub(super) error: Option<(String, u32, String)>,
}

impl PlannedEmail {
    /// The message as received, in one mailbox.
    pub(super) fn plain(target: StoreTarget) -> Self {
        Self { targets: [target].into(), keywords: BTreeSet::new(), edited: None }
    }
}
