//! L2: the vacation responder: who is answered, how, and how often. Pure: facts in, a decision out.
//!
//! RFC 3834 §2 in short: answer a person's mail that was addressed to this person, once in a while;
//! never a list, a robot, a bounce or a forgery; to the envelope sender, from the null sender; and
//! say what is answered. `notice` is what is told, by the account's response or by a script;
//! `reason` has every rule by which no answer is given, `decide` their order; `window` says when
//! the owner is away, `audience` who is told what, `reply` what an answer looks like, `sender` who
//! counts as the same sender.

mod audience;
mod consider;
mod decide;
mod notice;
mod own_id;
mod rate;
mod reason;
mod reply;
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
pub use reason::Reason;
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
