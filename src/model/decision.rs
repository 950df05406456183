//! The log of vacation decisions: why a delivered message was answered or not.

use super::address::Address;
use super::clock::UtcMillis;
use super::id::{ActionId, EmailId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub at: UtcMillis,
    pub email: EmailId,
    /// `None` is the null path `<>`.
    pub sender: Option<Address>,
    pub recipient: Address,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A reply was queued. If it is not sent in the end, the verdict becomes `Silent`.
    Answered(ActionId),
    Silent {
        /// The code of a `vacation::NoReplyReason`, such as `auto-submitted`. If the reply was
        /// queued but not sent: `outbox::NOT_SENT` or `outbox::NO_SMTPUTF8`.
        reason: String,
        /// The evidence for the reason, such as a header field.
        detail: String,
    },
}
