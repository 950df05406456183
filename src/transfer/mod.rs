//! Reads and writes mail in the formats of files: Maildir++, mbox, trees of .eml files.
//!
//! - `append` files a message that was not delivered: without trace fields, filter and reply.
//! - `utf7`, `folder` and `name` convert names of mailboxes and emails to names of folders and
//!   files, and back. Names that are written are single components of a path; names that are read
//!   may have any bytes.
//! - `flags` and `ledger` convert keywords to the flags of each format.
//! - `mbox` reads and writes mbox files. `date` reads the date of receipt from a message.
//! - A message that was exported and is imported again has the same bytes, date and keywords.
//! - This room opens no files: it works on bytes and on readers and writers of `std::io`.
#![warn(clippy::indexing_slicing)]

mod append;
pub mod date;
pub mod flags;
pub mod folder;
pub mod ledger;
pub mod mbox;
pub mod name;
pub mod utf7;

#[cfg(test)]
pub use append::{AppendOutcome, AppendedEmail};
pub use append::{AppendRequest, append};
pub use folder::MailboxPath;

use std::borrow::Cow;

/// Converts a message that another program wrote into a file: LF becomes CRLF (RFC 5322 §2.3), as
/// the message was when it was sent and signed. A message with a CRLF anywhere is not changed.
#[must_use]
pub fn normalize_line_ends(bytes: &[u8]) -> Cow<'_, [u8]> {
    let crlf = memchr::memmem::find(bytes, b"\r\n").is_some();
    if crlf { Cow::Borrowed(bytes) } else { lf_to_crlf(bytes) }
}

/// Replaces every LF with CRLF, even after a CR.
fn lf_to_crlf(bytes: &[u8]) -> Cow<'_, [u8]> {
    let lines = memchr::memchr_iter(b'\n', bytes).count();
    if lines == 0 {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len().saturating_add(lines));
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.split_last() {
            Some((b'\n', before)) => {
                out.extend_from_slice(before);
                out.extend_from_slice(b"\r\n");
            }
            _ => out.extend_from_slice(line),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
