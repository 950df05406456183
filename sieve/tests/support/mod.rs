//! A message and a host for the tests of scripts.
//!
//! - [`TestMessage`] is a [`MessageView`](restante_sieve::MessageView) over bytes.
//! - [`TestWorld`] answers what a test tells it to.
//! - [`TestInput`] holds a message with its envelope and the owner of the script.

#![allow(dead_code, unused_imports, reason = "every test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod message;
mod world;

pub use message::TestMessage;
pub use world::{TestInput, TestWorld};
