//! Answers queries from listings.

pub(super) mod answer;
mod changes;
pub(super) mod parts;
mod range;
