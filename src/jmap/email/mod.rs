//! Email, as JMAP has it (RFC 8621 §4).

mod blobs;
mod body;
mod copy;
mod create;
mod filing;
pub mod filter;
mod get;
mod import;
mod keep;
mod parse;
mod property;
pub mod query;
mod set;
mod snippet;
pub mod sort;

pub(super) use copy::EmailCopy;
pub(super) use create::message_id;
pub(super) use get::{EmailGet, head, newest_emails};
pub(super) use import::EmailImport;
pub(super) use parse::EmailParse;
pub(super) use query::{EmailQuery, EmailQueryChanges};
pub(super) use set::EmailSet;
pub(super) use snippet::SnippetGet;

#[cfg(test)]
pub(in crate::jmap) mod read_tests;
#[cfg(test)]
mod set_tests;
#[cfg(test)]
mod tests;
