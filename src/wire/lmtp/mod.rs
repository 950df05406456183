//! LMTP (RFC 2033): SMTP for the delivery to mailboxes, without a queue on the server.
//!
//! - The message gets one reply *for each accepted recipient*, in the order of their RCPT commands
//!   (§4.2), so that one full mailbox does not delay the others.
//! - BDAT LAST without an accepted recipient has no reply (§4.3), unless outside a transaction.

mod extensions;
mod message;
mod session;
mod step;

pub use session::Session;
pub use step::{Settings, Step};

#[cfg(test)]
mod tests;
