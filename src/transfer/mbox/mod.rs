//! Mailbox files, in the form called mboxrd: messages behind lines that begin with `From `, and in
//! a message every line of `>`s and `From ` with one `>` more, which is taken away again. So every
//! message comes back.
//!
//! ```text
//! From ann@example.org Sat Nov 21 09:00:00 2026      envelope sender, date in UTC (asctime)
//! Status: RO                                         ours: the marks, as mutt and Dovecot read them
//! X-Status: F
//! X-Keywords: work
//! X-Restante: 1 e… 1234 crlf open                    ours: version, email id, octets, what else is needed
//! Subject: the message begins here
//! ...
//!                                                    an empty line
//! ```
//!
//! Line ends: a message whose every LF follows a CR is written with LF alone, as Unix programs
//! expect, and `crlf` says so; any other is written as it is. `open` says that it did not end with
//! a line end. Files of others have no X-Restante: marks are then read wherever they stand in the
//! header and stay there, since the octets are not ours to change; and what has LF alone everywhere
//! becomes CRLF.

mod read;
mod write;

#[cfg(any(test, feature = "internals"))]
pub use read::MboxMessage;
pub use read::{MboxEntry, MboxReader};
pub use write::write;

/// The name of the field that ends what we put on top.
const MARK_FIELD: &str = "X-Restante";

/// Whether a line, without its `>`s, would begin a message.
fn is_from(line: &[u8]) -> bool {
    let quotes = line.iter().take_while(|octet| **octet == b'>').count();
    line.get(quotes..).is_some_and(|rest| rest.starts_with(b"From "))
}

#[cfg(test)]
mod tests;
