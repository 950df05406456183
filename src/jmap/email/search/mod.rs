//! Email/query, Email/queryChanges and SearchSnippet/get (RFC 8621 §4.4, §4.5, §5).

pub mod filter;
pub mod query;
mod snippet;
pub mod sort;

pub(in crate::jmap) use query::{EmailQuery, EmailQueryChanges};
pub(in crate::jmap) use snippet::SnippetGet;

#[cfg(test)]
mod tests;
