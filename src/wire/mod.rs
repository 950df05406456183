//! The grammars of the protocols.
//!
//! - A protocol reads no socket and no clock.
//! - The sessions of LMTP and ManageSieve are given bytes as they come, and return what to do next.
//!   The result does not depend on how the bytes are split.
//! - The other protocols are given whole texts, and return what these mean.
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod http;
pub mod jmap;
pub mod lmtp;
pub mod managesieve;
pub mod query;
pub mod sasl;
pub mod smtp;
