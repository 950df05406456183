//! Queries that listings answer: windows and changes at the cost of their own length.

pub(super) mod answer;
pub(super) mod merge;
pub(super) mod parts;
pub(super) mod range;
pub(super) mod supply;
