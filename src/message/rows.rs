//! Makes the database rows of a message, the same however it came into the store.
//!
//! If a parser panics, `rows_of_any` catches that. The other functions let it go on to the caller.

use super::content::content;
use super::panic::catch_parser_panic;
use super::parse::Message;
use super::refs::{self, thread_keys};
use super::tokens::tokens;
use crate::model::{BlobHash, MessageRows, Secrets};

/// Parses a message and makes its rows.
#[must_use]
pub fn rows(raw: &[u8], secrets: &Secrets) -> MessageRows {
    rows_of(&Message::parse(raw), secrets)
}

/// Returns the rows of a message, or `rows_without_content` if a parser panics.
#[must_use]
pub fn rows_of_any(raw: &[u8], secrets: &Secrets) -> MessageRows {
    catch_parser_panic("a message", || rows(raw, secrets))
        .unwrap_or_else(|| rows_without_content(raw))
}

/// Returns rows that hold only the hash and the size of a message.
#[must_use]
pub fn rows_without_content(raw: &[u8]) -> MessageRows {
    let blob = BlobHash(*blake3::hash(raw).as_bytes());
    MessageRows { blob, size: raw.len() as u64, ..MessageRows::default() }
}

/// Makes the rows of a parsed message.
#[must_use]
pub fn rows_of(message: &Message<'_>, secrets: &Secrets) -> MessageRows {
    rows_of_hashed(message, BlobHash(*blake3::hash(message.raw()).as_bytes()), secrets)
}

/// Returns the rows of a message, as `rows_of` does. `blob` is the BLAKE3 hash of its bytes, which
/// the caller knows already.
#[must_use]
pub fn rows_of_hashed(message: &Message<'_>, blob: BlobHash, secrets: &Secrets) -> MessageRows {
    let content = content(message);
    let thread_keys = thread_keys(
        &refs::ids(message.header()),
        content.subject.as_deref().unwrap_or_default(),
        secrets,
    );
    let tokens = tokens(message, &content, secrets);
    MessageRows { blob, size: message.raw().len() as u64, content, tokens, thread_keys }
}
