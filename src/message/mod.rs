//! Reads and writes RFC 5322 messages, without I/O.
//!
//! - Every message is read. What cannot be understood is left out of what is derived from the
//!   message.
//! - Lists that are read from a message are bounded (`model::limits`).
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod aggregate;
pub mod auto;
mod away_subject;
pub mod build;
pub mod compose;
pub mod content;
mod date;
pub mod decode;
mod encode;
mod entity;
pub mod forms;
pub mod header;
pub mod language;
pub mod line;
mod occurrences;
mod panic;
pub mod parse;
pub mod refs;
pub mod report;
mod rows;
pub mod seven_bit;
pub mod subject;
pub mod tokens;
pub mod trace;
pub mod words;

pub use panic::catch_parser_panic;
#[cfg(any(test, feature = "internals"))]
pub use parse::BodyValue;
pub use parse::{Message, Part, Structure};
#[cfg(any(test, feature = "internals"))]
pub use rows::rows;
pub use rows::{rows_of, rows_of_any, rows_of_hashed, rows_without_content};

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
pub(crate) mod strict_addresses;
