//! Whether an email matches a filter, and what is fetched to decide it.

pub(super) mod candidate;
pub(super) mod evaluate;
pub(super) mod threads;
