//! The parts of the protocol that SMTP and LMTP share (RFC 5321 §4).

pub mod command;
pub mod dot;
pub mod path;
pub mod reply;

pub use dot::DotUnstuffer;
pub use reply::Reply;
