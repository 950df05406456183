//! Answers queries from listings. Windows and changes cost their own length, where
//! ranks count positions (`parts`).

pub(super) mod answer;
mod changes;
pub(super) mod parts;
mod range;
