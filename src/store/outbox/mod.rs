//! Queued actions, and the submissions that some of them carry.

pub(in crate::store) mod check;
pub(in crate::store) mod read;
pub(in crate::store) mod submissions;
pub(in crate::store) mod write;
