//! What is planned for one account before its commit.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::plan::PlannedReply;
use super::rates::RateCharges;
use super::version::EditedVersion;
use crate::filter::{FiredRules, StoreTarget};
use crate::model::{ActionKind, Address, BlobHash, FilterStep, ObjectId, UtcMillis};
use crate::outbox::NewAction;
use crate::store::EncodedMessage;
use crate::vacation::{self, RateCharge, ReplyDecision};

pub(super) struct AccountJob {
    /// In the order of the envelope, each address once.
    pub(super) recipients: Vec<RecipientJob>,
    pub(super) answer: PlannedAnswer,
    /// `None` if no recipient asked for one, or none can be sent.
    pub(super) notification: Option<SuccessNotification>,
    /// The submission on which the message reports; `None` if the message is no report, or reports
    /// on no submission of the account.
    pub(super) submission: Option<ObjectId>,
}

pub(super) struct RecipientJob {
    pub(super) address: Address,
    /// The trace fields of the delivery to this recipient.
    pub(super) prefix: Vec<u8>,
    /// `None` if the transaction was served for this recipient before, and the plan looked for
    /// that.
    pub(super) work: Option<RecipientWork>,
}

/// What is to be done for a recipient.
pub(super) struct RecipientWork {
    /// Whether scripts decided this. If not, an email that was filed for another recipient of the
    /// account is enough.
    pub(super) is_scripted: bool,
    /// The emails to create. Several, if scripts store several versions of the message; none, if
    /// they store it nowhere.
    pub(super) emails: Vec<PlannedEmail>,
    pub(super) writes: ScriptWrites,
}

/// The one answer that the sender may get from an account, or why there is none.
pub(super) struct PlannedAnswer {
    /// The index in `AccountJob::recipients` of the recipient whose copy of the message is or would
    /// be answered. If neither a script nor the response is to answer, that of the first recipient
    /// for whom something is planned.
    pub(super) recipient: usize,
    /// Whether a script answers. If not, the response of the account does, or nobody.
    pub(super) is_scripted: bool,
    pub(super) decision: ReplyDecision<Box<PlannedReply>>,
}

/// A notification that tells the sender of the delivery (RFC 3461 §4.1).
pub(super) struct SuccessNotification {
    pub(super) action: NewAction,
    pub(super) charge: RateCharge,
    /// The indices in `AccountJob::recipients` of the recipients that it names.
    pub(super) recipients: Vec<usize>,
}

/// An email to create, in one or several mailboxes.
#[derive(Clone)]
pub(super) struct PlannedEmail {
    pub(super) targets: BTreeSet<StoreTarget>,
    pub(super) keywords: BTreeSet<String>,
    /// `None`: the message as received.
    pub(super) edited: Option<Rc<EditedVersion>>,
}

/// An action of a script, with the copy that is filed if the action is queued.
pub(super) struct PlannedAction {
    pub(super) new: NewAction,
    /// The copy of a notification that the owner keeps (RFC 8580). `None` if the script wants none;
    /// for all but one of the recipients of the notification; and for redirects and reports.
    pub(super) copy: Option<PlannedCopy>,
}

/// A message that is sent, and of which a copy is filed.
pub(super) struct PlannedCopy {
    pub(super) message: Vec<u8>,
    pub(super) rows: EncodedMessage,
    pub(super) fcc: vacation::Fcc,
}

/// What the commit writes for the scripts of a recipient, besides emails and the reply.
#[derive(Default)]
pub(super) struct ScriptWrites {
    /// Redirects, notifications, and reports of a refusal.
    pub(super) actions: Vec<PlannedAction>,
    /// The edited versions that redirects send. Their bytes must be stored.
    pub(super) versions: Vec<Rc<EditedVersion>>,
    /// What was charged for `actions`.
    pub(super) charges: RateCharges,
    /// The text with which the recipient is refused in the protocol; `None` if it is not.
    pub(super) refusal: Option<String>,
    /// The hashes of keys that the `duplicate` test remembers, and until when.
    pub(super) duplicates: Vec<([u8; 32], UtcMillis)>,
    /// The steps of the decision, with one for a failed run, and for each redirect or notification
    /// that is not sent.
    pub(super) steps: Vec<FilterStep>,
    /// The rules that are counted.
    pub(super) fired: Vec<FiredRules>,
    /// If a run failed, or a redirect was left out because of a loop: the script, the line and the
    /// reason, as in `FilterResult::error`.
    pub(super) errors: Vec<(String, u32, String)>,
}

impl PlannedEmail {
    /// The message as received, in one mailbox.
    pub(super) fn plain(target: StoreTarget) -> Self {
        Self { targets: [target].into(), keywords: BTreeSet::new(), edited: None }
    }

    /// Returns the hash of the edited version; `None` is the message as received.
    pub(super) fn version(&self) -> Option<BlobHash> {
        self.edited.as_ref().map(|edited| edited.rows.blob)
    }
}

impl ScriptWrites {
    pub(super) fn add_action(&mut self, new: NewAction, copy: Option<PlannedCopy>) {
        self.actions.push(PlannedAction { new, copy });
    }

    pub(super) fn has_redirect(&self) -> bool {
        self.actions.iter().any(|planned| planned.new.action.kind == ActionKind::Redirect)
    }
}
