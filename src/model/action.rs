//! Actions: what the outbox has to send. The rules for them are in `outbox`.
//!
//! An `Action` is without the bytes that are sent: the action's own bytes (`outbox_messages`),
//! followed by the message that `blob` names, if there is one.

use super::address::Address;
use super::clock::{MonotonicMillis, UtcMillis};
use super::envelope::{DsnNotify, DsnReturn, OriginalRecipient};
use super::id::{ActionId, BlobHash, EmailId, ObjectId, ToldKey};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    pub id: ActionId,
    pub kind: ActionKind,
    pub state: ActionState,
    /// Whether a person waits for it. Urgent actions are sent before the others.
    pub urgent: bool,
    pub created: UtcMillis,
    /// The action is not sent before this time. Once it is sent, it is kept until this time, for
    /// the owner to see.
    pub due: UtcMillis,
    /// Given up after this time. An action that may be sent twice (not `at_most_once` in
    /// `outbox::rules`) is tried once more, because the clock may have been wrong.
    pub expires: UtcMillis,
    /// Counts the attempts that left a recipient outstanding, and had an error or made no progress
    /// (`outbox::next_step`). A retry by hand of a failed action resets the number.
    pub attempts: u32,
    /// The error that was recorded last; `None` before the first.
    pub last_error: Option<String>,
    /// `None` is the null path `<>`.
    pub sender: Option<Address>,
    /// RET= (RFC 3461 §4.3).
    pub ret: Option<DsnReturn>,
    /// ENVID= (RFC 3461 §4.4).
    pub envid: Option<String>,
    /// At least one.
    pub recipients: Vec<Target>,
    /// The email because of which the action was queued, if there is one.
    pub email: Option<EmailId>,
    /// The told row that was written together with this reply; `None` if there is none.
    pub told: Option<ToldKey>,
    /// The action that must be done before this one, if there is one.
    pub after: Option<ActionId>,
    /// Of open actions with the same key, only one is queued. Actions without a key are all queued.
    pub duplicate_key: Option<[u8; 16]>,
    /// Whether the message is sent as seven-bit text, because the next hop refused the original.
    pub seven_bit: bool,
    /// Without angle brackets.
    pub message_id: String,
    /// How many bytes of its own the action sends.
    pub own_bytes: u64,
    /// The message that is sent after the own bytes; `None` if these are all.
    pub blob: Option<BlobHash>,
    /// The submission to which the outcome is written; `None` for other kinds of actions.
    pub submission: Option<ObjectId>,
}

/// The relay does not work, so nothing is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayTrouble {
    pub error: String,
    /// When the relay is tried again.
    pub until: MonotonicMillis,
}

/// One recipient of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub address: Address,
    /// RFC 3461 §4.1; with `None` the parameter NOTIFY is not sent.
    pub notify: Option<DsnNotify>,
    /// ORCPT= (RFC 3461 §4.2).
    pub original: Option<OriginalRecipient>,
    pub state: RecipientState,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RecipientState {
    /// Outstanding: neither sent nor failed.
    #[default]
    Waiting,
    /// The next hop accepted the message, with this reply.
    Sent(String),
    Failed {
        /// An enhanced status (RFC 3463).
        status: [u8; 3],
        /// The reply of the next hop, or the reason why sending was given up.
        text: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActionKind {
    Reply,
    /// Mail that a Sieve script redirects.
    Redirect,
    /// A notification from a Sieve script (RFC 5436).
    Notify,
    /// A refusal by a Sieve script, for a person to read (RFC 5429 §2.2, RFC 8098).
    Reject,
    /// A report of a delivery, a refusal or a failure (RFC 3464), or that the owner saw a message
    /// (RFC 9007).
    Report,
    /// RFC 8621 §7.
    Submission,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActionState {
    /// Waits for the time `Action::due`, or for its turn after it.
    Waiting,
    /// An attempt has begun. This state is recorded before the final dot of the message is sent.
    Attempting,
    /// Held until the owner or the administrator releases it.
    Held,
    /// Waits for the action `Action::after`.
    Blocked,
    /// Failed for good; kept for the owner to see, until somebody retries or removes it.
    Failed,
    /// Sent; kept for some time for the owner to see.
    Sent,
}

impl Target {
    /// Returns an outstanding recipient without parameters.
    #[must_use]
    pub fn plain(address: Address) -> Self {
        Self { address, notify: None, original: None, state: RecipientState::Waiting }
    }

    /// Returns an outstanding recipient of whom no reports are wanted (NOTIFY=NEVER).
    #[must_use]
    pub fn without_reports(address: Address) -> Self {
        Self {
            notify: Some(DsnNotify { never: true, ..DsnNotify::default() }),
            ..Self::plain(address)
        }
    }

    /// Whether the message is still to be sent to this recipient.
    #[must_use]
    pub fn is_outstanding(&self) -> bool {
        self.state == RecipientState::Waiting
    }
}

impl ActionKind {
    pub const ALL: [Self; 6] =
        [Self::Reply, Self::Redirect, Self::Notify, Self::Reject, Self::Report, Self::Submission];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Redirect => "redirect",
            Self::Notify => "notify",
            Self::Reject => "reject",
            Self::Report => "report",
            Self::Submission => "submission",
        }
    }
}

impl ActionState {
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Attempting, Self::Held, Self::Blocked, Self::Failed, Self::Sent];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Attempting => "attempting",
            Self::Held => "held",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Sent => "sent",
        }
    }

    #[must_use]
    pub fn is_open(self) -> bool {
        !matches!(self, Self::Failed | Self::Sent)
    }
}

impl Action {
    /// Returns the first outstanding recipient, or else the first one.
    #[must_use]
    pub fn next_recipient(&self) -> Option<&Target> {
        self.recipients
            .iter()
            .find(|target| target.is_outstanding())
            .or_else(|| self.recipients.first())
    }

    /// Returns the first three recipients and the number of the others, for people.
    #[must_use]
    pub fn recipient_summary(&self) -> String {
        let mut names: Vec<String> =
            self.recipients.iter().take(3).map(|target| target.address.to_string()).collect();
        if self.recipients.len() > 3 {
            names.push(format!("{} more", self.recipients.len() - 3));
        }
        names.join(", ")
    }
}
