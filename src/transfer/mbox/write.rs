//! One message more at the end of a mailbox file.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{MARK_FIELD, is_from};
use crate::message::header;
use crate::model::EmailId;
use crate::transfer::flags::status;

/// Octets of an envelope sender that are written.
const MAX_SENDER_BYTES: usize = 320;

/// Writes an email with its keywords; its date is that of its id.
///
/// # Errors
/// Those of writing.
pub fn write(
    out: &mut impl Write,
    id: EmailId,
    keywords: &BTreeSet<String>,
    octets: &[u8],
) -> io::Result<()> {
    let is_crlf = octets.contains(&b'\n') && !bare_lf(octets);
    let text = if is_crlf { without_cr(octets) } else { Cow::Borrowed(octets) };
    let is_open = text.last() != Some(&b'\n');
    let crlf = if is_crlf { " crlf" } else { "" };
    let open = if is_open { " open" } else { "" };
    write!(
        out,
        "From {} {}\n{}{MARK_FIELD}: 1 {id} {}{crlf}{open}\n",
        sender(octets),
        id.received_at().asctime(),
        status(keywords),
        octets.len()
    )?;
    for line in text.split_inclusive(|octet| *octet == b'\n') {
        if is_from(line) {
            out.write_all(b">")?;
        }
        out.write_all(line)?;
    }
    out.write_all(if is_open { b"\n\n" } else { b"\n" })
}

/// Whether an LF stands without a CR before it.
fn bare_lf(octets: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', octets)
        .any(|at| at.checked_sub(1).and_then(|at| octets.get(at)) != Some(&b'\r'))
}

/// Every CRLF as LF.
fn without_cr(octets: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::with_capacity(octets.len());
    for line in octets.split_inclusive(|octet| *octet == b'\n') {
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

/// The envelope sender of the Return-Path, in one word.
fn sender(octets: &[u8]) -> String {
    let path =
        header::first(octets, "Return-Path").map(|field| field.unfolded()).unwrap_or_default();
    let word: String =
        path.chars().filter(|c| c.is_ascii_graphic() && !matches!(c, '<' | '>')).collect();
    if (1..=MAX_SENDER_BYTES).contains(&word.len()) { word } else { "MAILER-DAEMON".into() }
}
