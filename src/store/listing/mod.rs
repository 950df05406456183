//! Writes, fills, reads and checks the listings of mailboxes with their ranks and their history.

pub(in crate::store) mod check;
pub(in crate::store) mod difference;
pub(in crate::store) mod maintain;
pub(in crate::store) mod rank;
pub(in crate::store) mod read;
pub(in crate::store) mod requests;
pub(in crate::store) mod write;
