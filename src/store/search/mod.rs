//! The search index: makes, writes, merges, reads and checks folds.

pub(in crate::store) mod check;
pub(in crate::store) mod folding;
pub(in crate::store) mod merging;
pub(in crate::store) mod naming;
pub(in crate::store) mod postings;
pub(in crate::store) mod tokens;
pub(in crate::store) mod write;
