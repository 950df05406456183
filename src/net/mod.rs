//! L5: sockets, tasks, time-outs.
//!
//! A driver reads and writes, keeps time, counts what it holds, and does what a protocol's steps
//! say. It knows no grammar and decides nothing about mail. Every wait here is bounded.

pub mod ceiling;
pub mod collect;
pub mod http;
pub mod listen;
pub mod lmtp;
pub mod push;
mod receive;
pub mod reports;
pub mod stop;
