//! L2: the vacation responder: who is answered, how, and how often. Pure: facts in, a decision out.
//!
//! RFC 3834 §2 in short: answer a person's mail that was addressed to this person, once in a while; never a list, a robot, a
//! bounce or a forgery; to the envelope sender, from the null sender; and say what is answered. `reason` has every rule by
//! which no answer is given, `decide` their order, `reply` what an answer looks like, `sender` who counts as the same sender.

mod decide;
mod rate;
mod reason;
mod reply;
mod sender;

pub use decide::{Input, Outcome, Settings, decide};
pub use rate::{Limits, Rate};
pub use reason::Reason;
pub use reply::{Reply, is_own_id, reply};
pub use sender::{sender_key, told_key};

/// The handle of the account's own response; those of Sieve are their own.
pub const ACCOUNT_HANDLE: &str = "account";

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod tests;
