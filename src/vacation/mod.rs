//! Decides which messages the vacation responder answers, and composes the replies (RFC 3834, RFC
//! 5230).
//!
//! - Does no I/O: the caller supplies the facts and stores the result.
//! - The reply goes to the envelope sender.
//!
//! `consider` decides about a message. `RateLimiter` limits the replies, and `AbsenceReport` lists
//! what came during an absence.

mod consider;
mod decide;
mod notice;
mod own_id;
mod rate;
mod reason;
mod reply;
mod reply_text;
mod report;
mod sender;
mod told;
mod window;

pub use consider::{DueReply, consider};
pub use decide::{AccountLookup, Input, ReplyDecision, Settings, Silence};
pub use notice::{Fcc, Notice, Period, Script, ScriptArguments};
pub use own_id::is_own_id;
pub use rate::{RateCharge, RateLimiter, RateLimits};
pub use reason::NoReplyReason;
pub use report::{AbsenceReport, Arrival, Correspondent, Topic};
pub use sender::plain_in_domain;
pub use told::{Handle, told_key};
#[cfg(any(test, feature = "internals"))]
pub use {decide::decide, reply::reply};

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod reply_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
