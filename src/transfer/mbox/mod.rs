//! Reads and writes mbox files in the format mboxrd.
//!
//! A message follows a line that begins with `From `: the first line of the file that is not empty,
//! or one that has a date and follows an empty line. A line of the message that begins with any
//! number of `>` and `From ` gets one more `>`, which is removed when the file is read.
//!
//! ```text
//! From ann@example.org Sat Nov 21 09:00:00 2026    envelope sender, date in UTC (asctime)
//! Status: RO                                       added: flags for mutt and Dovecot
//! X-Status: F
//! X-Keywords: work
//! X-Restante: 1 e… 1234 crlf open                  added: version, email id, size, details
//! Subject: the message begins here
//! ...
//!                                                  an empty line
//! ```
//!
//! - If a message has LFs, and each follows a CR, the message is written with LF, as Unix programs
//!   expect, and X-Restante has `crlf`. Any other message keeps its line endings.
//! - X-Restante has `open` if the message does not end with a line ending.
//! - Files of other programs have no X-Restante. Flags are then read from the whole header and are
//!   not removed from it. A message without any CRLF gets CRLF for LF (`normalize_line_ends`).

mod read;
mod write;

#[cfg(any(test, feature = "internals"))]
pub use read::MboxMessage;
pub use read::{MboxEntry, MboxReader, is_beginning};
pub use write::write;

const MARK_FIELD: &str = "X-Restante";

/// Whether a line begins with any number of `>` and `From `.
fn is_from(line: &[u8]) -> bool {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    line.get(quotes..).is_some_and(|rest| rest.starts_with(b"From "))
}

#[cfg(test)]
mod tests;
