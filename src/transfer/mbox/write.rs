//! Writes one message in the format of mbox files.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{MARK_FIELD, is_from};
use crate::message::header;
use crate::model::EmailId;
use crate::transfer::flags::mbox_fields;

/// The longest sender that is written in a `From ` line.
const MAX_SENDER_BYTES: usize = 320;

/// Writes an email with its keywords and the date of its id, and an empty line after it. After an
/// error `MboxReader` recognises that the message is not whole.
///
/// # Errors
/// Those of the writer.
pub fn write(
    out: &mut impl Write,
    id: EmailId,
    keywords: &BTreeSet<String>,
    message: &[u8],
) -> io::Result<()> {
    let is_crlf = message.contains(&b'\n') && !has_bare_lf(message);
    let text = if is_crlf { crlf_to_lf(message) } else { Cow::Borrowed(message) };
    let is_open = text.last() != Some(&b'\n');
    let crlf = if is_crlf { " crlf" } else { "" };
    let open = if is_open { " open" } else { "" };
    write!(
        out,
        "From {} {}\n{}{MARK_FIELD}: 1 {id} {}{crlf}{open}\n",
        sender(message),
        id.received_at().asctime(),
        mbox_fields(keywords),
        message.len()
    )?;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if is_from(line) {
            out.write_all(b">")?;
        }
        out.write_all(line)?;
    }
    out.write_all(if is_open { b"\n\n" } else { b"\n" })
}

/// Whether there is an LF without a CR before it.
fn has_bare_lf(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', bytes)
        .any(|at| at.checked_sub(1).and_then(|at| bytes.get(at)) != Some(&b'\r'))
}

/// Replaces every CRLF with LF.
fn crlf_to_lf(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
    Cow::Owned(out)
}

/// Returns the printable ASCII of Return-Path without blanks, `<` and `>`: the envelope sender. If
/// nothing is left, or more than `MAX_SENDER_BYTES`, returns `MAILER-DAEMON`.
fn sender(bytes: &[u8]) -> String {
    let path =
        header::first(bytes, "Return-Path").map(|field| field.unfolded()).unwrap_or_default();
    let word: String =
        path.chars().filter(|c| c.is_ascii_graphic() && !matches!(c, '<' | '>')).collect();
    if (1..=MAX_SENDER_BYTES).contains(&word.len()) { word } else { "MAILER-DAEMON".into() }
}
