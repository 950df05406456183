//! Sieve scripts of accounts: their rows, the active script, failed runs, how often each rule
//! fired, and what the `duplicate` test remembers.

pub(super) mod check;
pub(super) mod duplicates;
pub(super) mod hits;
pub(super) mod read;
pub(super) mod write;
