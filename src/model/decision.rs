//! The log of vacation decisions: why a delivered message was answered or not.

use super::address::Address;
use super::clock::UtcMillis;
use super::id::{ActionId, EmailId};

/// A row of the decision log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub at: UtcMillis,
    /// The delivered email.
    pub email: EmailId,
    /// The envelope sender of the message; `None` is the null path `<>`.
    pub sender: Option<Address>,
    /// The recipient address of the delivery.
    pub recipient: Address,
    pub verdict: Verdict,
}

/// Whether the message was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A reply was queued. If it is not sent in the end, the verdict becomes `Silent`.
    Answered(ActionId),
    /// No reply was sent.
    Silent {
        /// The code of a `vacation::NoReplyReason`, such as `auto-submitted`. If the reply was
        /// queued but not sent: `outbox::NOT_SENT` or `outbox::NO_SMTPUTF8`.
        reason: String,
        /// The evidence for the reason, such as a header field; may be empty.
        detail: String,
    },
}
