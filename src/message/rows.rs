//! Makes the database rows of a message. Every way into the store (delivery, import, drafts,
//! rebuild) goes through this file.

use super::content::content;
use super::panic::catch_parser_panic;
use super::parse::Message;
use super::refs::{ids, thread_keys};
use super::tokens::tokens;
use crate::model::{BlobHash, MessageRows, Secrets};

/// Parses a message once and makes its rows.
#[must_use]
pub fn rows(raw: &[u8], secrets: &Secrets) -> MessageRows {
    rows_of(&Message::parse(raw), secrets)
}

/// Returns the rows of a message, or `bare_rows` if a parser panics. For callers that must store
/// every message, and must get the same rows when they read it again.
#[must_use]
pub fn rows_or_bare(raw: &[u8], secrets: &Secrets) -> MessageRows {
    catch_parser_panic("a message", || rows(raw, secrets)).unwrap_or_else(|| bare_rows(raw))
}

/// Returns rows that hold only the hash and the size of a message.
#[must_use]
pub fn bare_rows(raw: &[u8]) -> MessageRows {
    let blob = BlobHash(*blake3::hash(raw).as_bytes());
    MessageRows { blob, size: raw.len() as u64, ..MessageRows::default() }
}

/// Makes the rows of a message that is parsed already.
#[must_use]
pub fn rows_of(message: &Message<'_>, secrets: &Secrets) -> MessageRows {
    let raw = message.raw();
    let content = content(message);
    let thread_keys = thread_keys(
        &ids(message.header()),
        content.subject.as_deref().unwrap_or_default(),
        secrets,
    );
    let tokens = tokens(message, &content, secrets);
    MessageRows {
        blob: BlobHash(*blake3::hash(raw).as_bytes()),
        size: raw.len() as u64,
        content,
        tokens,
        thread_keys,
    }
}
