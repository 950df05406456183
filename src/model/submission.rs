//! What the owner sends, as he sees it: the envelope, whether it can still be undone, and what became of it for each
//! recipient (RFC 8621 §7). The sending itself is an action of the outbox, which writes here what it meets.

use std::collections::BTreeMap;

use super::address::Address;
use super::clock::UtcMillis;
use super::id::{ActionId, EmailId, ObjectId, ThreadId};

/// A submission.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmailSubmission {
    /// As whom it was sent.
    pub identity: ObjectId,
    /// What was sent; it may be gone by now.
    pub email: EmailId,
    /// Its thread.
    pub thread: ThreadId,
    /// MAIL FROM.
    pub mail_from: EnvelopeAddress,
    /// RCPT TO, in order, with what became of each.
    pub rcpt_to: Vec<SubmissionRecipient>,
    /// When it is or was let go.
    pub send_at: UtcMillis,
    /// Whether it can be undone.
    pub undo: UndoStatus,
    /// Since when that is settled.
    pub ended: Option<UtcMillis>,
    /// The action that carries it, or did.
    pub action: Option<ActionId>,
    /// Delivery status notifications that came for it.
    pub dsn: Vec<EmailId>,
    /// Message disposition notifications that came for it.
    pub mdn: Vec<EmailId>,
}

/// A path of the envelope, with its ESMTP parameters (RFC 8621 §7, Address).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvelopeAddress {
    /// As it was given; of the sender it may be empty, for `<>`.
    pub email: String,
    /// Parameters with their values, these without xtext encoding; `None` where it was not said at all.
    pub parameters: Option<BTreeMap<String, Option<String>>>,
}

/// A recipient.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubmissionRecipient {
    /// The forward path.
    pub path: EnvelopeAddress,
    /// What became of it.
    pub status: DeliveryStatus,
}

/// What became of it for one recipient (RFC 8621 §7, `DeliveryStatus`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryStatus {
    /// What the next hop said, or what stands for it, as one line.
    pub smtp_reply: String,
    /// Whether it got there.
    pub delivered: Delivered,
    /// Whether it was shown there; else unknown.
    pub displayed: bool,
}

/// Whether it can be undone (RFC 8621 §7, `undoStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UndoStatus {
    /// It waits for its time.
    #[default]
    Pending,
    /// It was relayed, to some at least, or has failed, and cannot be taken back.
    Final,
    /// It was taken back.
    Canceled,
}

/// Whether it got there (RFC 8621 §7 delivered).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivered {
    /// It is on its way with us.
    #[default]
    Queued,
    /// It is known to have been delivered.
    Yes,
    /// It will not get there.
    No,
    /// It was handed on, and nothing more is known.
    Unknown,
}

/// What a report that came back says of a submission (RFC 8621 §7). Strangers write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Which kind of report it is.
    pub kind: ReturnedKind,
    /// The Message-ID of what was sent, without angle brackets.
    pub message_id: Option<String>,
    /// Its ENVID (RFC 3464 §2.2.1).
    pub envid: Option<String>,
    /// The recipients that it speaks of.
    pub recipients: Vec<ReturnedRecipient>,
}

/// The kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnedKind {
    /// A delivery status notification (RFC 3464).
    Delivery,
    /// A message disposition notification (RFC 8098).
    Disposition,
}

/// What a report says of one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedRecipient {
    /// What he is called: first and last.
    pub addresses: Vec<Address>,
    /// That it got there, or will not, and the reply that says so.
    pub delivered: Option<(Delivered, String)>,
    /// Whether it was displayed there.
    pub displayed: bool,
}

impl UndoStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Final, Self::Canceled];

    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Final => "final",
            Self::Canceled => "canceled",
        }
    }
}

impl Delivered {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Yes, Self::No, Self::Unknown];

    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}
