//! Reads the top-level header of a message field by field, as tolerantly as real mail needs.
//!
//! - Lines end in CRLF or LF. An empty line ends the header.
//! - A line that is no field is skipped, also an mbox `From ` line.
//! - A byte order mark, blank lines and `From ` lines before the header are skipped, if a header
//!   with one of the common fields follows (`start`).
//! - `Header` finds all fields once. The functions of this file walk over the header each time.
//! - Fields are looked for in the first `limits::MAX_HEADER_BYTES`, and among the first
//!   `limits::MAX_HEADER_FIELDS` lines, a folded field counted as one. Only the search for the
//!   body, and `without_fields`, have no such bounds.

mod field;
mod index;
#[cfg(test)]
pub(crate) mod walks;

use std::borrow::Cow;

use super::parse::{self, CharsetCodec};
use crate::model::limits;

pub use field::Field;
pub use index::{Header, IncomingMessage};

/// `start` and `is_message` take bytes for a header only if one of these fields is in them.
const COMMON_FIELDS: [&str; 10] = [
    "From",
    "Date",
    "Subject",
    "To",
    "Message-ID",
    "Received",
    "Sender",
    "Return-Path",
    "MIME-Version",
    "Content-Type",
];
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The fields of the top-level header, in order.
pub fn fields(raw: &[u8]) -> impl Iterator<Item = Field<'_>> {
    Fields::of(trimmed(raw))
}

/// The fields of a part, in order. Unlike `fields`, this skips nothing before the header, since the
/// empty line that ends it may be the first line of all (RFC 2046 §5.1).
pub fn part_fields(raw: &[u8]) -> impl Iterator<Item = Field<'_>> {
    Fields::of(raw)
}

/// The fields above the first line that mail servers do not take for a field (`is_strict`; an mbox
/// `From ` line at the beginning does not count). A mail server may end the header at such a line.
/// So the server saw all these fields.
pub fn leading_fields(raw: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let rest = if raw.starts_with(b"From ") { split_line(raw).1 } else { raw };
    Fields { strict: true, ..Fields::of(rest) }
}

/// Whether the bytes are a message with a header: after what `start` skips, the first line has a
/// colon and no NUL, and the header has one of the common fields.
#[must_use]
pub fn is_message(raw: &[u8]) -> bool {
    let (first, _) = split_line(trimmed(raw));
    first.contains(&b':') && !first.contains(&0) && has_common_field(trimmed(raw))
}

/// Returns where the header begins: after the `preamble`, if a header with one of the common fields
/// follows it; otherwise 0.
#[must_use]
pub fn start(raw: &[u8]) -> usize {
    let start = preamble(raw);
    let rest = raw.get(start..).unwrap_or_default();
    if start > 0 && begins_with_field(rest) && has_common_field(rest) { start } else { 0 }
}

/// Returns the length of a byte order mark, blank lines and `From ` lines of mailbox files (quoted
/// or not) at the beginning; 0 if they are longer than `limits::MAX_PREAMBLE_BYTES`.
fn preamble(raw: &[u8]) -> usize {
    // What is skipped begins with no letter or digit other than the F of `From `.
    if raw.first().is_some_and(|first| first.is_ascii_alphanumeric() && *first != b'F') {
        return 0;
    }
    let mut rest = raw.strip_prefix(BYTE_ORDER_MARK).unwrap_or(raw);
    loop {
        let (line, after) = split_line(rest);
        let skipped = raw.len().saturating_sub(rest.len());
        if skipped > limits::MAX_PREAMBLE_BYTES {
            return 0;
        }
        if line.is_empty() || !(is_blank(line) || is_mailbox_line(line)) {
            return skipped;
        }
        rest = after;
    }
}

/// Returns the message from the beginning of its header on (`start`).
#[must_use]
pub fn trimmed(raw: &[u8]) -> &[u8] {
    raw.get(start(raw)..).unwrap_or(raw)
}

fn has_common_field(raw: &[u8]) -> bool {
    Fields::of(raw).any(|field| COMMON_FIELDS.iter().any(|name| field.is(name)))
}

fn is_mailbox_line(line: &[u8]) -> bool {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    line.get(quotes..).is_some_and(|line| line.starts_with(b"From "))
}

/// Returns where the body of a message begins, whose header `start` finds.
#[must_use]
pub fn body_offset(raw: &[u8]) -> usize {
    let start = start(raw);
    start.saturating_add(part_body_offset(raw.get(start..).unwrap_or_default()))
}

/// Returns where the body of a part begins: after the first empty line, which may be the first line
/// of all, or at the end. Unlike `body_offset`, this skips nothing before the header.
#[must_use]
pub fn part_body_offset(raw: &[u8]) -> usize {
    #[cfg(test)]
    walks::note(raw);
    let mut rest = raw;
    while !rest.is_empty() {
        let (line, after) = split_line(rest);
        rest = after;
        if ends_header(line) {
            break;
        }
    }
    raw.len().saturating_sub(rest.len())
}

/// Whether the beginning of a message is known to hold the whole header, or has
/// `limits::MAX_HEADER_BYTES`.
#[must_use]
pub fn has_whole_header(beginning: &[u8]) -> bool {
    // Whether the header begins after a preamble, more bytes may tell (`start`).
    let header = beginning.get(preamble(beginning)..).unwrap_or_default();
    beginning.len() >= limits::MAX_HEADER_BYTES
        || [&b"\n\r\n"[..], b"\n\n"].iter().any(|end| memchr::memmem::find(header, end).is_some())
}

/// Returns the message without the fields of these names, and without what stands before the
/// header: a receiver would take a blank line there for the end of the header.
#[must_use]
pub fn without_fields<'a>(raw: &'a [u8], names: &[&str]) -> Cow<'a, [u8]> {
    let raw = trimmed(raw);
    let mut out = Vec::new();
    let mut has_dropped = false;
    // The colon of a field may stand in a folded line.
    let mut lines = FoldedLines { rest: raw, left: usize::MAX };
    for line in lines.by_ref() {
        if field(line).is_some_and(|field| names.iter().any(|name| field.is(name))) {
            has_dropped = true;
        } else {
            out.extend_from_slice(line);
        }
    }
    if !has_dropped {
        return Cow::Borrowed(raw);
    }
    out.extend_from_slice(lines.rest);
    Cow::Owned(out)
}

/// The lines of a header, within the bounds unless these are lifted, each joined with the folded
/// lines that continue it. A line of blanks does not continue a field if neither a folded line nor
/// a field follows it. Lines that are no field are included.
struct FoldedLines<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> FoldedLines<'a> {
    fn of(raw: &'a [u8]) -> Self {
        #[cfg(test)]
        walks::note(raw);
        Self {
            rest: raw.get(..limits::MAX_HEADER_BYTES).unwrap_or(raw),
            left: limits::MAX_HEADER_FIELDS,
        }
    }

    /// Returns where the body of `raw` begins. All lines must have been read by `next` before.
    fn body_offset(&self, raw: &[u8]) -> usize {
        let read = raw.len().min(limits::MAX_HEADER_BYTES);
        let (line, _) = split_line(self.rest);
        if ends_header(line) {
            let before = read.saturating_sub(self.rest.len());
            before.saturating_add(line.len())
        } else if self.rest.is_empty() && read == raw.len() {
            read
        } else {
            part_body_offset(raw)
        }
    }
}

impl<'a> Iterator for FoldedLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest;
        let (line, mut after) = split_line(start);
        if line.is_empty() || ends_header(line) || self.left == 0 {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        while after.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            let (line, next) = split_line(after);
            if is_blank(line)
                && !next.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'))
                && !begins_with_field(next)
            {
                break;
            }
            after = next;
        }
        self.rest = after;
        start.get(..start.len().saturating_sub(after.len()))
    }
}

struct Fields<'a> {
    whole: &'a [u8],
    lines: FoldedLines<'a>,
    /// The charset of the body: `Some(None)` if the header names none that is known. Set when the
    /// first value that is not UTF-8 is found.
    declared: Option<Option<CharsetCodec>>,
    /// Whether the first line that mail servers do not take for a field ends the iteration
    /// (`leading_fields`).
    strict: bool,
}

impl<'a> Fields<'a> {
    fn of(raw: &'a [u8]) -> Self {
        let lines = FoldedLines::of(raw);
        Self { whole: lines.rest, lines, declared: None, strict: false }
    }

    fn declared(&mut self) -> Option<CharsetCodec> {
        *self.declared.get_or_insert_with(|| {
            // `declared` is set, so that this does not call itself again.
            let fields = Fields { declared: Some(None), ..Fields::of(self.whole) };
            let kind = fields.filter(|field| field.is("Content-Type")).last()?;
            parse::charset_of(kind.value)
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        loop {
            let line = self.lines.next()?;
            let mut found = field(line).filter(|found| !self.strict || is_strict(line, found));
            if let Some(field) =
                found.as_mut().filter(|field| std::str::from_utf8(field.value).is_err())
            {
                field.declared = self.declared();
            }
            if found.is_some() || self.strict {
                return found;
            }
        }
    }
}

/// Reads a line, with the folded lines that continue it, as a field. `None` if no name of printable
/// ASCII comes before a colon; white space between the two is skipped.
fn field(whole: &[u8]) -> Option<Field<'_>> {
    let colon = memchr::memchr(b':', whole)?;
    let (name, value) = whole.split_at_checked(colon)?;
    let name = name.trim_ascii_end();
    let is_name = !name.is_empty() && name.iter().all(|byte| matches!(byte, 33..=126));
    is_name.then(|| Field::new(name, value.get(1..).unwrap_or_default()))
}

/// Whether mail servers take a line for a field too: only blanks and tabs stand between the name
/// and the colon.
fn is_strict(line: &[u8], field: &Field<'_>) -> bool {
    let colon = line.len().saturating_sub(field.value.len().saturating_add(1));
    line.get(field.name.len()..colon)
        .is_some_and(|between| between.iter().all(|byte| matches!(byte, b' ' | b'\t')))
}

fn split_line(rest: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at.saturating_add(1));
    rest.split_at_checked(end).unwrap_or((rest, &[]))
}

/// Whether a line ends a header: it has nothing but its line end, perhaps with several CRs.
fn ends_header(line: &[u8]) -> bool {
    line.strip_suffix(b"\n").is_some_and(|line| line.iter().all(|byte| *byte == b'\r'))
}

/// Whether a line has nothing but white space.
fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

fn begins_with_field(rest: &[u8]) -> bool {
    field(split_line(rest).0).is_some()
}

/// Returns a text in the form in which values are compared: case-folded, NFKC, with single spaces.
#[must_use]
pub fn folded(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization;
    let folded = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        caseless::default_case_fold_str(&text.nfkc().collect::<String>()).nfkc().collect()
    };
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[must_use]
pub fn first<'a>(raw: &'a [u8], name: &str) -> Option<Field<'a>> {
    fields(raw).find(|field| field.is(name))
}

#[cfg(test)]
mod tests;
