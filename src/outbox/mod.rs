//! The rules of sending: what an action is, when it is due, and what follows an attempt. No I/O.
//!
//! - An action is stored before it is carried out, in the commit that causes it.
//! - A reply is sent at most once: the attempt is recorded durably before the message goes out, and
//!   a recorded attempt without a result counts as sent.
//! - An action of another kind is sent again after such an attempt, under the same Message-ID. Its
//!   attempts are recorded, too, so that a message is neither held nor taken back while it is being
//!   sent.
//! - After a temporary failure the action waits, longer each time up to a limit, and so do its
//!   dependants (`Action::after`).
//! - If every recipient failed for good, the action and its dependants are removed. The sender gets
//!   a report of the recipients that failed, if the kind makes reports and the sender wants them.
//! - A submission is not removed, but kept for its owner when it is over. If any recipient failed,
//!   its dependants are removed.
//! - A reply that fails for good loses its told row, unless the address is bad, or needs SMTPUTF8
//!   and the relay lacks it. If the row stayed, one failure would leave a sender without a reply
//!   for the whole vacation.
//! - A failure that does not concern the message (connection, TLS, authentication) is temporary,
//!   whatever the first digit of the reply code.
//! - A destination (the domain of a recipient, or the relay) that refuses mail temporarily, or
//!   cannot be reached, rests.

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

pub use destination::{Destinations, SendPermission, Trouble};
#[cfg(test)]
pub use kind::SubmissionAction;
pub use kind::{NewAction, NoticeAction, ReceiptAction, RedirectAction, ReplyAction, rules};
pub use refusal::{RelayAnswer, SmtpStage, classify};
pub use report::{Reporter, address_with_type};
#[cfg(test)]
pub use schedule::UnsentAction;
pub use schedule::{
    ActionStep, AttemptOutcome, NO_SMTPUTF8, NOT_SENT, NextStep, RefusalScope, RetrySchedule,
    clamp_times, expire, is_delayed, next_step, order_deadline, recover,
};

/// The `last_error` of a submission while the queue is held, shown as its `smtpReply`. Rows store
/// this text and are recognised by it, so it must not change. It leaves out the reason, which
/// concerns only the administrator.
pub const HELD: &str = "451 4.3.2 nothing is sent at this site until its administrator has looked \
                        at the queue: it waits";

#[cfg(test)]
mod tests;
