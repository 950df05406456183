//! An action: one durable outbound deed. Plain data; what may follow what is `outbox`'s business.
//!
//! An action is its head: all that is needed to list it and to decide when it goes. The octets of
//! what is sent lie beside it: some of its own, then those of a message that the store holds, where
//! it names one. So a redirect copies nothing, and nobody who looks at the queue reads mail.

use super::address::Address;
use super::clock::{MonotonicMillis, UtcMillis};
use super::envelope::{DsnNotify, DsnReturn, OriginalRecipient};
use super::id::{ActionId, BlobHash, EmailId, ObjectId, ToldKey};

/// A queued deed, without its octets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its id within the account.
    pub id: ActionId,
    /// What it is, and so by which rules it is tried again.
    pub kind: ActionKind,
    /// Where it stands.
    pub state: ActionState,
    /// Whether a person waits for it: it goes before the rest.
    pub urgent: bool,
    /// When it was queued.
    pub created: UtcMillis,
    /// Not before; of one that is sent and kept, until when.
    pub due: UtcMillis,
    /// Dropped after.
    pub expires: UtcMillis,
    /// Attempts that came to nothing, or to not all.
    pub attempts: u32,
    /// What the last attempt met.
    pub last_error: Option<String>,
    /// Envelope sender of what is sent; `None` is `<>`.
    pub sender: Option<Address>,
    /// RET= (RFC 3461 §4.3).
    pub ret: Option<DsnReturn>,
    /// ENVID= (RFC 3461 §4.4).
    pub envid: Option<String>,
    /// To whom; at least one.
    pub recipients: Vec<Target>,
    /// The email that gave rise to it.
    pub email: Option<EmailId>,
    /// The told row that goes with it.
    pub told: Option<ToldKey>,
    /// The action that must be done before it.
    pub after: Option<ActionId>,
    /// What is equal in this is the same deed: of two that wait one goes.
    pub same: Option<[u8; 16]>,
    /// Whether it goes as seven-bit text, for the next hop refused it as it was.
    pub seven_bit: bool,
    /// The Message-ID of what is sent, without angle brackets.
    pub message_id: String,
    /// How many octets of its own it has; those of `blob` come behind them.
    pub octets: u64,
    /// The message in the store that is sent.
    pub blob: Option<BlobHash>,
    /// The submission that it carries, which says what becomes of it.
    pub submission: Option<ObjectId>,
}

/// The relay is out of order, and nothing is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayTrouble {
    /// What was met.
    pub error: String,
    /// When it is asked again.
    pub until: MonotonicMillis,
}

/// One recipient, and what became of the message for that recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The forward path.
    pub address: Address,
    /// NOTIFY= (RFC 3461 §4.1); `None` says nothing.
    pub notify: Option<DsnNotify>,
    /// ORCPT= (RFC 3461 §4.2).
    pub original: Option<OriginalRecipient>,
    /// What became of it.
    pub fate: RecipientState,
}

/// What became of a message for one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RecipientState {
    #[default]
    Waiting,
    /// The next hop has it; what it said.
    Sent(String),
    /// It will not get there.
    Failed {
        /// The enhanced status (RFC 3463).
        status: [u8; 3],
        /// What the next hop said, or why we gave up.
        text: String,
    },
}

/// What an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActionKind {
    /// A vacation reply.
    Reply,
    /// Mail that a script sends on.
    Redirect,
    /// A notification that a script sends (RFC 5436).
    Notify,
    /// A refusal that a person reads (RFC 5429 §2.1, RFC 8098).
    Reject,
    /// A report: of a delivery, of a refusal, of a failure (RFC 3464), or that the owner saw a
    /// message (RFC 9007).
    Report,
    /// What the owner sends (RFC 8621 §7).
    Submission,
}

/// Where an action stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActionState {
    /// Waits for its time.
    Waiting,
    /// An attempt has begun, and was recorded so before the final dot went out.
    Attempting,
    /// Held until someone says otherwise.
    Held,
    /// Waits for the action that it depends on.
    Blocked,
    /// Failed for good, and kept for its owner.
    Failed,
    /// Sent, and kept for its owner for a time.
    Sent,
}

impl Target {
    /// A recipient with nothing said but the address.
    #[must_use]
    pub fn plain(address: Address) -> Self {
        Self { address, notify: None, original: None, fate: RecipientState::Waiting }
    }

    /// One for whom nobody wants a report (NOTIFY=NEVER).
    #[must_use]
    pub fn without_reports(address: Address) -> Self {
        Self {
            notify: Some(DsnNotify { never: true, ..DsnNotify::default() }),
            ..Self::plain(address)
        }
    }

    /// Whether the message is still to go to this recipient.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.fate == RecipientState::Waiting
    }
}

impl ActionKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Reply, Self::Redirect, Self::Notify, Self::Reject, Self::Report, Self::Submission];

    /// Its name for people.
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
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Attempting, Self::Held, Self::Blocked, Self::Failed, Self::Sent];

    /// Its name for people.
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

    /// Whether it is still to be done.
    #[must_use]
    pub fn is_open(self) -> bool {
        !matches!(self, Self::Failed | Self::Sent)
    }
}

impl Action {
    /// The first recipient that still waits, else the first.
    #[must_use]
    pub fn next_recipient(&self) -> Option<&Target> {
        self.recipients.iter().find(|target| target.waits()).or_else(|| self.recipients.first())
    }

    /// Its recipients, as a line for people and the log: the first three, and how many more.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut names: Vec<String> =
            self.recipients.iter().take(3).map(|target| target.address.to_string()).collect();
        if self.recipients.len() > 3 {
            names.push(format!("{} more", self.recipients.len() - 3));
        }
        names.join(", ")
    }
}
