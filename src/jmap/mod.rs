//! L4: JMAP methods over the store (RFC 8620, RFC 8621), and the vendor methods that the command line uses.
//!
//! `dispatch` takes a request through its calls; `context` is who asks, and of what. The mail methods of RFC 8621 join with
//! their issue; here are `Core/echo`, `VacationResponse`, `admin`, and of `email` how questions are asked.

pub mod admin;
mod context;
mod dispatch;
pub mod email;
mod jobs;
mod vacation;

pub use context::{Caller, Context, Taken};
pub use dispatch::{CAPABILITIES, run};
pub use jobs::{Jobs, Pace};

#[cfg(test)]
mod tests;
