//! Creates, changes, destroys, purges, restores, reads and checks emails and threads. Also reads,
//! counts and purges mailboxes.

pub(in crate::store) mod check;
pub(in crate::store) mod counts;
pub(in crate::store) mod destroyed;
pub(in crate::store) mod lost;
pub(in crate::store) mod many;
pub(in crate::store) mod purge;
pub(in crate::store) mod read;
pub(in crate::store) mod restore;
pub(in crate::store) mod thread_refs_check;
pub(in crate::store) mod threads;
pub(in crate::store) mod threads_check;
pub(in crate::store) mod write;
