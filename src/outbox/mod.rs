//! L2: the life of an action, pure: what it is, when it goes, what follows an attempt. What carries
//! it out is `queue`.
//!
//! - Stored before it is acted on, in the commit of what gave rise to it.
//! - A reply is sent at most once: the attempt is recorded durably before the message goes out, and
//!   one so recorded that was never finished counts as sent. All else is sent at least once, under
//!   one Message-ID, and not again unless an answer of the next hop was lost. Every attempt is
//!   recorded before its message goes out, so that nothing is held or taken back that may have been
//!   sent.
//! - A temporary failure leaves the action with growing delays, and what depends on it waits; a
//!   permanent one removes it and what depends on it, and tells a real sender where the kind says
//!   so; one that can be mended is mended and goes on.
//! - A reply that fails for good loses its told row, unless it is the sender's own address that is
//!   bad: so one failure does not silence a person for the whole vacation. A submission is kept for
//!   its owner.
//! - Mail of one account to one address goes in the order in which it was queued, for an hour at
//!   most.
//! - A time in a row that lies further ahead than the schedule writes any is brought back: the
//!   clock was set back.
//! - What concerns us and not the message (connecting, TLS, authentication) is temporary whatever
//!   its digit.
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

#[cfg(test)]
pub use coalesce::coalescing_key;
pub use destination::{Destinations, DomainDigest, SendPermission, Trouble};
pub use kind::{NewAction, ReceiptAction, ReplyAction, rules};
#[cfg(test)]
pub use kind::{NoticeAction, RedirectAction, SubmissionAction};
pub use refusal::{RelayAnswer, SmtpStage, classify};
pub use report::{Reporter, typed};
#[cfg(test)]
pub use schedule::LostAction;
pub use schedule::{
    ActionStep, AttemptOutcome, NO_SMTPUTF8, NOT_SENT, NextStep, RefusalScope, RetrySchedule,
    clamp_times, in_order_until, is_delayed, next_step, recover, too_late,
};

/// What a submission says of a recipient while the whole queue is held. It names no reason: those
/// are the site's.
pub const HELD: &str = "451 4.3.2 nothing is sent at this site until its administrator has looked at the queue: it waits";

#[cfg(test)]
mod tests;
