//! Decides whether an email matches a filter, and reads what that needs.

pub(super) mod candidate;
pub(super) mod evaluate;
pub(super) mod threads;
