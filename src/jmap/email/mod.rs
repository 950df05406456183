//! The methods of Email and `SearchSnippet` (RFC 8621 §4, §5).

pub(in crate::jmap) mod read;
pub mod search;
mod write;

pub(super) use read::{EmailGet, EmailParse, message_head, newest_emails};
pub(super) use search::{EmailQuery, EmailQueryChanges, SnippetGet};
pub(super) use write::{EmailCopy, EmailImport, EmailSet, new_message_id};
