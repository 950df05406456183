//! L2: the life of an action, pure: what it is, when it goes, what follows an attempt. What carries it out is `queue`.
//!
//! - Stored before it is acted on, in the commit of what gave rise to it.
//! - A reply is sent at most once: the attempt is recorded durably before the message goes out, and one so recorded that was
//!   never finished counts as sent. All else is sent at least once, under one Message-ID, and not again unless an answer of
//!   the next hop was lost. Of a submission the attempt is recorded, too, so that it is not taken back while it goes out.
//! - A temporary failure leaves the action with growing delays, and what depends on it waits; a permanent one removes it and
//!   what depends on it, and tells a real sender where the kind says so; one that can be mended is mended and goes on.
//! - A reply that fails for good loses its told row, unless it is the sender's own address that is bad: so one failure does
//!   not silence a person for the whole vacation. A submission is kept for its owner.
//! - What concerns us and not the message (connecting, TLS, authentication) is temporary whatever its digit.
//! - A destination that refuses is probed, not hammered.

pub mod by_hand;
mod coalesce;
mod destination;
pub mod dsn;
mod kind;
pub mod mdn;
mod refusal;
mod report;
mod schedule;
pub mod submission;

pub use coalesce::same;
pub use destination::{Destinations, Digest, May, Trouble};
pub use kind::{Notice, Queued, Receipt, Redirect, Reply, Rules, Submission, rules};
pub use refusal::{Answer, Stage, judge};
pub use report::{Reporter, typed};
pub use schedule::{
    Lost, NO_SMTPUTF8, NOT_SENT, Next, Outcome, Pace, Scope, Step, follow, is_unasked, recover, too_late,
};

#[cfg(test)]
mod tests;
