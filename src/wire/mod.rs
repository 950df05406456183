//! L1: protocols without sockets: bytes in, steps out.
//!
//! A protocol here reads no socket and no clock. It is fed octets in whatever pieces they come, and
//! says what is to be done next; the same octets in other pieces give the same steps. A new
//! protocol follows `lmtp`: a grammar of pure functions, a session that consumes octets, a `Step`
//! that the driver in `net` obeys.
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod http;
pub mod jmap;
pub mod lmtp;
pub mod query;
pub mod smtp;
