//! Text conditions: search terms, their hits in the search index, and snippets.

pub(super) mod hits;
pub(super) mod snippet;
pub(super) mod term;
