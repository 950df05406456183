//! L4: carries out due actions: hands replies and notifications to the relay, and records what came of it.
//!
//! `send` speaks SMTP; `worker` decides what to send when, and keeps the store true to what was done.

mod send;
mod signed;
mod worker;

pub use send::{Relay, Tls};
pub use worker::{Bell, Queue, Settings};

#[cfg(test)]
mod tests;
