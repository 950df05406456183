//! Queries that listings answer: windows and changes at the cost of their own length.

pub(super) mod answer;
pub(super) mod merge;
pub(super) mod parts;
pub(super) mod range;
pub(super) mod supply;

/// A listing of fewer emails than this is not worth maintaining: they are read as fast as its rows are written.
pub(super) const MIN_MAINTAINED_EMAILS: u64 = 256;
