//! L4: carries out due actions: hands them to the relay, and records what came of it.
//!
//! `start` proves that the queue is whole; `round` decides what goes next, and holds no more than a
//! window of what is due; `order` says what must wait for earlier mail; `attempt` carries out one
//! action and keeps the store true to what was done; `entitled` asks whether the account may still
//! send it; `send` makes the bytes that go out and speaks SMTP and LMTP; `pool` keeps connections.

mod attempt;
mod entitled;
mod order;
mod pool;
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
