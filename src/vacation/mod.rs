//! Decides which messages the vacation responder answers, and composes the replies.
//!
//! - Pure: the caller supplies the facts and stores the result. Nothing is read or written here.
//! - RFC 3834 §2: a message is answered only if a person sent it to an address of the owner. Lists,
//!   robots, bounces and forgeries are never answered.
//! - The reply goes to the envelope sender, with a null envelope sender, and names the message that
//!   it answers. A sender is answered once per vacation.
//!
//! `consider` is the entry point. `notice` holds what senders are told; `window` says when the
//! owner is away; `reply_text` chooses the text for a sender; `sender` recognises a sender under
//! changing tags; `told` makes the key by which a sender is remembered; `reason` lists the rules by
//! which no reply is sent, and `decide` puts them in order; `reply` composes the message, with a
//! Message-ID of `own_id`; `rate` limits the replies per hour; `report` summarises an absence for
//! the owner.

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
pub use notice::{Fcc, Notice};
#[cfg(test)]
pub use notice::{Period, ScriptArguments};
pub use own_id::is_own_id;
pub use rate::{RateCharge, RateLimiter, RateLimits};
pub use reason::NoReplyReason;
pub use reply::VacationReply;
pub use report::{AbsenceReport, Arrival, Correspondent, Topic};
pub use sender::plain_in_domain;
pub use told::{Handle, told_key};
#[cfg(any(test, feature = "internals"))]
pub use {decide::decide, notice::Script, reply::reply};

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod reply_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
