//! The formats of imports and exports: Maildir++, mbox, and trees of .eml files; and what an import
//! stores.
//!
//! - A message that this program exported and imports again has the same bytes, date and keywords.
//!   The line ends of messages of other programs are restored (`normalize_line_ends`).
//! - An imported message gets no trace fields, passes no spam filter and causes no vacation reply.
//! - Nothing here opens a file: callers pass bytes, or readers and writers of `std::io`.
#![warn(clippy::indexing_slicing)]

mod append;
pub mod date;
pub mod flags;
pub mod folder;
pub mod ledger;
pub mod mbox;
pub mod name;
mod script;
pub mod utf7;

#[cfg(test)]
pub use append::{AppendOutcome, AppendedEmail};
pub use append::{AppendRequest, append};
pub use folder::MailboxPath;
pub use script::{ScriptAppendRequest, append_script};

use std::borrow::Cow;

/// Restores the CRLF line ends (RFC 5322 §2.3) of a message from a file of another program. A
/// message without any CRLF gets CRLF for each LF. A message with a CRLF anywhere is not changed:
/// its LFs without a CR belong to the message.
#[must_use]
pub fn normalize_line_ends(bytes: &[u8]) -> Cow<'_, [u8]> {
    let crlf = memchr::memmem::find(bytes, b"\r\n").is_some();
    if crlf { Cow::Borrowed(bytes) } else { lf_to_crlf(bytes) }
}

/// Replaces every LF with CRLF. An LF that follows a CR is replaced, too: in an mbox file, where
/// this program writes each CRLF as LF, the CR belongs to the message.
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
