//! L4: mail that is brought in and taken out as files: Maildir++, mbox, trees of .eml.
//!
//! - `append` files a message that was not delivered: no trace fields, no filter, no reply. Import
//!   is made of it, and JMAP's Email/import and upload can be.
//! - `utf7`, `folder` and `name` are the names of folders and files, both ways. What comes out is
//!   one component of a path and never leads out of its folder; what goes in is any octets.
//! - `flags` and `ledger` are the marks of an email in the words of each format.
//! - `mbox` reads and writes mailbox files; `date` says when a message was received where only the
//!   message tells.
//!
//! What must hold: a message that was written by us and is read again is the same, octet for octet,
//! with its date and its keywords. Everything here works on octets and on `std::io` readers: the
//! files themselves are the caller's, in `cli`.
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

/// A message of a file of others as mail: lines that all end with LF alone end with CRLF (RFC 5322
/// §2.3), which is what was signed and sent before a Unix program filed it. Where any line ends
/// with CRLF, all octets stay as they are.
#[must_use]
pub fn as_mail(octets: &[u8]) -> Cow<'_, [u8]> {
    let crlf = memchr::memmem::find(octets, b"\r\n").is_some();
    if crlf { Cow::Borrowed(octets) } else { lf_to_crlf(octets) }
}

/// Every LF as CRLF, whatever stands before it.
fn lf_to_crlf(octets: &[u8]) -> Cow<'_, [u8]> {
    let lines = memchr::memchr_iter(b'\n', octets).count();
    if lines == 0 {
        return Cow::Borrowed(octets);
    }
    let mut out = Vec::with_capacity(octets.len().saturating_add(lines));
    for line in octets.split_inclusive(|octet| *octet == b'\n') {
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
