//! ManageSieve (RFC 5804): a client manages the Sieve scripts of an account.
//!
//! `net::managesieve` drives a `Session`: it gives the session bytes, and carries out its steps.
//!
//! - Each command gets one response, in the order of the commands. After BYE, or OK to LOGOUT or
//!   STARTTLS, no more commands are read. Over TLS the driver goes on with
//!   `Session::after_starttls`.
//! - No byte of a literal is read as a command, even if the command is refused.
//! - Scripts are passed on byte for byte, in both directions.
//! - Clients may log in only where the driver says so (`Settings::login`): over TLS, or over a
//!   connection that does not leave the machine.

mod command;
mod reader;
mod response;
mod session;
mod step;

pub use response::Code;
pub use session::{IMPLEMENTATION, Session};
pub use step::{Answer, Rejection, Request, Settings, Step};

#[cfg(test)]
mod tests;
