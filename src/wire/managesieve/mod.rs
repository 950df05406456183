//! ManageSieve (RFC 5804): a client manages the Sieve scripts of an account.
//!
//! - A command has one response, in the order of the commands.
//! - No byte of a literal is read as a command, even if the command is refused.
//! - Scripts are passed on byte for byte, in both directions.
//! - Logins need an encrypted connection, or one that does not leave the machine.

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
