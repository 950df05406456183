//! What was decided for a delivered message, and why: "why was no reply sent?"

use super::address::Address;
use super::clock::UtcMillis;
use super::id::{ActionId, EmailId};

/// A row of the decision log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub at: UtcMillis,
    /// For which email.
    pub email: EmailId,
    /// Its envelope sender.
    pub sender: Option<Address>,
    /// The recipient as addressed.
    pub recipient: Address,
    /// What was decided.
    pub verdict: Verdict,
}

/// The outcome for the vacation reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A reply was queued.
    Answered(ActionId),
    /// No reply: the code of the reason, and what gave rise to it.
    Silent {
        /// Code of `vacation::reason`, such as `auto-submitted`.
        reason: String,
        /// The evidence, such as the field that said so.
        detail: String,
    },
}
