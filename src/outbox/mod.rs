//! L2: the life of an action, pure: what follows an attempt. What carries it out is `queue`.
//!
//! - Stored before it is acted on, in the commit of what gave rise to it.
//! - A reply is sent at most once: the attempt is recorded durably before the message goes out, and one so recorded that was
//!   never finished counts as sent. A notification is sent at least once.
//! - A temporary failure leaves the action with growing delays; a permanent one removes it, and with it the told row, unless
//!   it is the sender's own address that is bad: so one failure does not silence a person for the whole vacation.

pub mod dsn;
mod schedule;

pub use schedule::{NO_SMTPUTF8, NOT_SENT, Next, Outcome, follow, recover, too_late};
