//! Sends the due actions of all accounts to the relay, and records the results.
//!
//! The rules are in `outbox`: when an action is due, what an answer means, what follows it.
//! `worker` has one task, in which `round` chooses the actions that are attempted next. Each
//! attempt (`attempt`) is a task of its own.

mod attempt;
mod entitled;
mod order;
mod pool;
mod record;
mod relay;
mod round;
mod send;
mod settings;
mod start;
mod worker;

pub use relay::{Protocol, Relay, RelayAddress, RelayCredentials, Tls};
pub use settings::Settings;
pub use worker::{QueueWaker, QueueWorker};

#[cfg(test)]
mod tests;
