//! LMTP (RFC 2033): SMTP for the last hop, where there is no queue behind the door.
//!
//! The client says LHLO; MAIL, RCPT and DATA (or BDAT) are SMTP's. What differs: after the final
//! dot comes one reply *for each accepted recipient*, in the order of their RCPT commands (§4.2),
//! so that one full mailbox does not hold up the others. DATA without an accepted recipient is
//! refused; BDAT LAST without one is swallowed without a reply (§4.3), and refused outside a
//! transaction.

mod extensions;
mod message;
mod session;
mod step;

pub use session::Session;
pub use step::{Settings, Step};

#[cfg(test)]
mod tests;
