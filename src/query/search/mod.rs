//! Text conditions: the terms, what the search index says of them, and snippets.

pub(super) mod hits;
pub(super) mod snippet;
pub(super) mod term;
