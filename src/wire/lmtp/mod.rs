//! LMTP (RFC 2033): SMTP for the delivery to mailboxes, without a queue on the server.
//!
//! - The message gets one reply *for each accepted recipient*, in the order of their RCPT commands
//!   (§4.2), so that one full mailbox does not delay the others.
//! - In a transaction without an accepted recipient, BDAT LAST has therefore no reply at all
//!   (§4.3). Outside a transaction it is refused.
//! - The driver, which gives a `Session` bytes and carries out its steps, is `net::lmtp`.

mod extensions;
mod message;
mod session;
mod step;

pub use session::Session;
pub use step::{Settings, Step};

#[cfg(test)]
mod tests;
