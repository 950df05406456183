//! Answers queries from maintained listings, and queries of all mail.

pub(super) mod answer;
mod changes;
pub(super) mod parts;
mod range;
