//! Queries that listings answer: windows and changes at the cost of their own length.

pub(super) mod answer;
pub(super) mod parts;
mod range;
