//! The log of deliveries: what scripts did with a message, and why it was answered or not.

use super::address::Address;
use super::clock::UtcMillis;
use super::id::{ActionId, EmailId};
use super::script::FilterStep;

/// What was decided about one message for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub at: UtcMillis,
    /// `None` if the message was not stored.
    pub email: Option<EmailId>,
    /// `None` is the null path `<>`.
    pub sender: Option<Address>,
    pub recipient: Address,
    pub verdict: Verdict,
    /// What scripts did, in their order. Empty without a script.
    pub steps: Vec<FilterStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A reply was queued. If it is not sent in the end, the verdict becomes `Silent`.
    Answered(ActionId),
    Silent {
        /// The code of a `vacation::NoReplyReason`, such as `auto-submitted`. If the reply was
        /// queued but not sent: `outbox::NOT_SENT` or `outbox::NO_SMTPUTF8`.
        reason: String,
        /// The evidence for the reason, such as a header field; empty if there is none.
        detail: String,
    },
}
