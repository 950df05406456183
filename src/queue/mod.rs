//! Sends the due actions of all accounts to the relay, and records the results.
//!
//! `start` checks that the queue is complete; `round` chooses the next actions; `order` keeps mail
//! to one address in order; `attempt` carries out one action and `record` records the result;
//! `entitled` checks that the account may still send it; `send` makes the final bytes and speaks
//! SMTP and LMTP; `pool` keeps idle connections; `worker` runs all of it in one task.
//!
//! The rules are in `outbox`: when an action is due, what an answer means, what follows it.

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
