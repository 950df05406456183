//! Answers queries from listings. Windows and changes cost their own length.

pub(super) mod answer;
mod changes;
pub(super) mod parts;
mod range;
