//! Email, as JMAP has it (RFC 8621 §4).

pub(in crate::jmap) mod read;
pub mod search;
mod write;

pub(super) use read::{EmailGet, EmailParse, head, newest_emails};
pub(super) use search::{EmailQuery, EmailQueryChanges, SnippetGet};
pub(super) use write::{EmailCopy, EmailImport, EmailSet, message_id};
