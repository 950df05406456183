//! The listings of mailboxes: their rows, ranks and history, and what is read and checked of them.

pub(in crate::store) mod check;
pub(in crate::store) mod difference;
pub(in crate::store) mod maintain;
pub(in crate::store) mod rank;
pub(in crate::store) mod read;
pub(in crate::store) mod requests;
pub(in crate::store) mod write;
