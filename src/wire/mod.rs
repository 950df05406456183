//! The grammars of the protocols.
//!
//! - A protocol reads no socket and no clock. It is given bytes and returns what to do next.
//! - The result does not depend on how the bytes are split.
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod http;
pub mod jmap;
pub mod lmtp;
pub mod managesieve;
pub mod query;
pub mod sasl;
pub mod smtp;
