//! The top-level header as octets: field by field, tolerant of what mail is really like.
//!
//! A field is a name of printable octets, a colon, and everything up to a line end that no blank or
//! tab follows (RFC 5322 §2.2). Lines end in CRLF or LF. A line that is no field is skipped, also
//! an mbox `From ` line; an empty line ends the header. What stands before the header is passed
//! over (`start`). Fields are looked for in the first `limits::HEADER_BYTES`. All questions about
//! header fields go through here, so that a name is treated alike whether a library knows it or
//! not.

use std::borrow::Cow;

use super::parse::{self, CharsetCodec};
use crate::model::limits;

/// Fields of which a message has one at least.
const USUAL: [&str; 10] = [
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

/// One header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name as written.
    pub name: &'a [u8],
    /// What follows the colon, to the end of the last folded line, line end included.
    pub value: &'a [u8],
    /// The charset that the header names for the body; known of values that are not UTF-8.
    declared: Option<CharsetCodec>,
}

/// The fields of the top-level header, in order.
pub fn fields(raw: &[u8]) -> impl Iterator<Item = Field<'_>> {
    Fields::of(trimmed(raw))
}

/// The fields above the first line that is none, an mbox `From ` line at the beginning apart: no
/// more than the header that the mail server saw which handed the message over. Such a line ends the
/// header for it; for `fields` it does not.
pub fn leading_fields(raw: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let rest = if raw.starts_with(b"From ") { split_line(raw).1 } else { raw };
    Fields { strict: true, ..Fields::of(rest) }
}

/// Whether it looks like a message: it begins with a header that has one of the usual fields.
#[must_use]
pub fn is_message(raw: &[u8]) -> bool {
    let (first, _) = split_line(trimmed(raw));
    first.contains(&b':') && !first.contains(&0) && has_usual(trimmed(raw))
}

/// Where the header begins: behind a byte order mark, blank lines and `From ` lines of mailbox
/// files (quoted or not), if a header with one of the usual fields follows them. Else 0: the
/// message then begins with its body, or with a line that is skipped.
#[must_use]
pub fn start(raw: &[u8]) -> usize {
    if raw.first().is_some_and(|first| first.is_ascii_alphanumeric() && *first != b'F') {
        return 0;
    }
    let mut rest = raw.strip_prefix(BYTE_ORDER_MARK).unwrap_or(raw);
    loop {
        let (line, after) = split_line(rest);
        let skipped = raw.len().saturating_sub(rest.len());
        if line.is_empty() || skipped > limits::PREAMBLE_OCTETS {
            return 0;
        }
        if is_blank(line) || is_mailbox_line(line) {
            rest = after;
        } else {
            return if skipped > 0 && field(line).is_some() && has_usual(rest) { skipped } else { 0 };
        }
    }
}

/// The message from where its header begins.
#[must_use]
pub fn trimmed(raw: &[u8]) -> &[u8] {
    raw.get(start(raw)..).unwrap_or(raw)
}

fn has_usual(raw: &[u8]) -> bool {
    Fields::of(raw).any(|field| USUAL.iter().any(|name| field.is(name)))
}

fn is_mailbox_line(line: &[u8]) -> bool {
    let quotes = line.iter().take_while(|octet| **octet == b'>').count();
    line.get(quotes..).is_some_and(|line| line.starts_with(b"From "))
}

/// Where the body begins: after the empty line, or at the end.
#[must_use]
pub fn body_offset(raw: &[u8]) -> usize {
    let start = start(raw);
    start.saturating_add(part_body_offset(raw.get(start..).unwrap_or_default()))
}

/// Where the body of a part begins, whose header may be empty: an empty line before all else ends
/// it.
#[must_use]
pub fn part_body_offset(raw: &[u8]) -> usize {
    let mut rest = raw;
    while !rest.is_empty() {
        let (line, after) = split_line(rest);
        rest = after;
        if is_empty(line) {
            break;
        }
    }
    raw.len().saturating_sub(rest.len())
}

/// Whether the beginning of a message holds its whole header, or `limits::HEADER_BYTES`: more of it
/// need not be read for header fields.
#[must_use]
pub fn ends(beginning: &[u8]) -> bool {
    let blank = beginning.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(beginning.len());
    let header = beginning.get(start(beginning).max(blank)..).unwrap_or_default();
    beginning.len() >= limits::HEADER_BYTES
        || [&b"\n\r\n"[..], b"\n\n"].iter().any(|end| memchr::memmem::find(header, end).is_some())
}

/// The octets without all fields of the top-level header that have one of these names, and without
/// what stands before the header: with a blank line first, every field would be text to whoever
/// receives it.
#[must_use]
pub fn without<'a>(raw: &'a [u8], names: &[&str]) -> Cow<'a, [u8]> {
    let raw = trimmed(raw);
    let mut kept = Vec::new();
    let (mut rest, mut dropping, mut dropped) = (raw, false, false);
    while !rest.is_empty() {
        let (line, after) = split_line(rest);
        if is_empty(line) {
            break;
        }
        // A line that begins with a blank belongs to what is before it.
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            dropping = field(line).is_some_and(|field| names.iter().any(|name| field.is(name)));
        }
        dropped |= dropping;
        if !dropping {
            kept.extend_from_slice(line);
        }
        rest = after;
    }
    if !dropped {
        return Cow::Borrowed(raw);
    }
    kept.extend_from_slice(rest);
    Cow::Owned(kept)
}

struct Fields<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
    /// Fields and lines that are none that may still be looked at.
    left: usize,
    /// The charset of the body, once a value that is not UTF-8 was met.
    declared: Option<Option<CharsetCodec>>,
    /// Whether a line that is no field ends the header.
    strict: bool,
}

impl<'a> Fields<'a> {
    fn of(raw: &'a [u8]) -> Self {
        let whole = raw.get(..limits::HEADER_BYTES).unwrap_or(raw);
        Self { whole, rest: whole, left: limits::FIELDS, declared: None, strict: false }
    }

    fn declared(&mut self) -> Option<CharsetCodec> {
        *self.declared.get_or_insert_with(|| {
            // With an answer already, so that this is asked once.
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
            let start = self.rest;
            let (line, mut after) = split_line(start);
            if line.is_empty() || is_empty(line) || self.left == 0 {
                return None;
            }
            self.left = self.left.saturating_sub(1);
            // Folded lines belong to the field, or to the junk, before them.
            while after.first().is_some_and(|octet| matches!(octet, b' ' | b'\t')) {
                let (more, next) = split_line(after);
                if is_blank(more)
                    && !next.first().is_some_and(|octet| matches!(octet, b' ' | b'\t'))
                    && !has_colon(next)
                {
                    break;
                }
                after = next;
            }
            self.rest = after;
            let whole = start.get(..start.len().saturating_sub(after.len())).unwrap_or_default();
            let mut found = if self.strict { strict_field(whole) } else { field(whole) };
            if let Some(field) = found.as_mut().filter(|field| std::str::from_utf8(field.value).is_err()) {
                field.declared = self.declared();
            }
            if found.is_some() || self.strict {
                return found;
            }
        }
    }
}

fn field(whole: &[u8]) -> Option<Field<'_>> {
    let colon = memchr::memchr(b':', whole)?;
    let (name, value) = whole.split_at_checked(colon)?;
    let name = name.trim_ascii_end();
    let named = !name.is_empty() && name.iter().all(|octet| matches!(octet, 33..=126));
    named.then(|| Field::new(name, value.get(1..).unwrap_or_default()))
}

/// A field as mail servers know it: between its name and the colon stand blanks and tabs, and no line end.
fn strict_field(whole: &[u8]) -> Option<Field<'_>> {
    let found = field(whole)?;
    let colon = memchr::memchr(b':', whole)?;
    let between = whole.get(found.name.len()..colon)?;
    between.iter().all(|byte| matches!(byte, b' ' | b'\t')).then_some(found)
}

fn split_line(rest: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at.saturating_add(1));
    rest.split_at_checked(end).unwrap_or((rest, &[]))
}

fn is_empty(line: &[u8]) -> bool {
    line.strip_suffix(b"\n").is_some_and(|line| line.iter().all(|octet| *octet == b'\r'))
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

fn has_colon(rest: &[u8]) -> bool {
    field(split_line(rest).0).is_some()
}

/// A text without case, in one form, with single spaces: in this form values are compared.
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

impl<'a> Field<'a> {
    /// A field that is not part of a header.
    #[must_use]
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, declared: None }
    }

    /// Its value as characters, unfolded, as far as it is parsed (`limits::FIELD_OCTETS`). Bytes
    /// that are no UTF-8 are in the charset that the header names for the body, or in windows-1252.
    #[must_use]
    pub fn readable(&self) -> Cow<'a, str> {
        parse::readable(self.value, self.declared)
    }

    /// Whether it has that name, in any case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Its value as characters, unfolded and trimmed.
    #[must_use]
    pub fn unfolded(&self) -> String {
        self.readable().trim().to_owned()
    }

    /// Its value without comments (RFC 5322 §3.2.2), which may nest and hold quoted pairs; a quoted string keeps its
    /// brackets.
    #[must_use]
    pub fn without_comments(&self) -> String {
        let text = self.unfolded();
        let mut out = String::with_capacity(text.len());
        let (mut depth, mut quoted) = (0usize, false);
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => {
                    let pair = chars.next();
                    if depth == 0 {
                        out.push(c);
                        out.extend(pair);
                    }
                }
                '"' if depth == 0 => {
                    quoted = !quoted;
                    out.push(c);
                }
                '(' if !quoted => depth = depth.saturating_add(1),
                ')' if !quoted && depth > 0 => depth = depth.saturating_sub(1),
                _ if depth == 0 => out.push(c),
                _ => {}
            }
        }
        out.trim().to_owned()
    }

    /// Its value as people read it: encoded words decoded (RFC 2047), one line, NFC.
    #[must_use]
    pub fn decoded(&self) -> String {
        parse::one_line(&parse::text(self.readable().as_bytes()))
    }
}

/// The first field of a name.
#[must_use]
pub fn first<'a>(raw: &'a [u8], name: &str) -> Option<Field<'a>> {
    fields(raw).find(|field| field.is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(raw: &str) -> Vec<(String, String)> {
        fields(raw.as_bytes())
            .map(|field| (String::from_utf8_lossy(field.name).into_owned(), field.unfolded()))
            .collect()
    }

    #[test]
    fn reads_what_mail_is_like() {
        let raw = "From x@y Sat Jan  1\r\nSubject: a\r\n b\r\njunk line\r\nX-A :c\nTo:\td\r\n\r\nBody: no\r\n";
        let wanted = [("Subject", "a b"), ("X-A", "c"), ("To", "d")];
        let wanted: Vec<_> = wanted.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        // An mbox line has a colon only in its time.
        assert_eq!(names(raw), wanted);
        assert_eq!(raw.get(body_offset(raw.as_bytes())..), Some("Body: no\r\n"));
        assert!(names("\r\nNote: body\r\n").is_empty());
        assert_eq!(names("Subject: no end").len(), 1);
        assert_eq!(body_offset(b"Subject: x"), 10);
    }

    #[test]
    fn a_header_begins_behind_what_stands_before_it() {
        let header = "Subject: a\r\nBcc: b@x\r\n";
        for before in [
            "",
            "\u{feff}",
            "\r\n",
            "\n\n",
            "  \t \r\n",
            "From a@x Sat Jan  1 10:00:00 2026\r\n",
            ">From a@x Sat Jan  1\n",
            "\u{feff}\r\n>>From a\r\n \r\n",
        ] {
            let raw = format!("{before}{header}\r\nBody: no\r\n");
            assert_eq!(names(&raw).len(), 2, "{before:?}");
            assert_eq!(raw.get(body_offset(raw.as_bytes())..), Some("Body: no\r\n"), "{before:?}");
            assert!(is_message(raw.as_bytes()), "{before:?}");
            assert_eq!(without(raw.as_bytes(), &["Bcc"]).as_ref(), b"Subject: a\r\n\r\nBody: no\r\n", "{before:?}");
        }
        // A body that begins so is one.
        for body in ["\r\nHello there\r\n", "\r\nNote: x\r\n", "\u{feff}text", "", "\n\n"] {
            assert_eq!((start(body.as_bytes()), is_message(body.as_bytes())), (0, false), "{body:?}");
        }
        let far = format!("{}{header}", "\n".repeat(limits::PREAMBLE_OCTETS + 1));
        assert_eq!(start(far.as_bytes()), 0);
    }

    #[test]
    fn raw_bytes_of_a_value_are_in_the_charset_of_the_body() {
        let of = |kind: &str, value: &[u8]| {
            let raw = [b"Subject: ", value, b"\r\nContent-Type: ", kind.as_bytes(), b"\r\n\r\n"].concat();
            first(&raw, "Subject").unwrap().decoded()
        };
        assert_eq!(of("text/plain; charset=koi8-r", b"\xf0\xd2\xc9\xd7\xc5\xd4"), "Привет");
        assert_eq!(of("text/plain; charset=\"koi8-r\"", "Grüße".as_bytes()), "Grüße");
        assert_eq!(of("text/plain; charset=utf-8", b"caf\xe9"), "café");
        assert_eq!(of("multipart/mixed; boundary=b", b"caf\xe9 \x80"), "café €");
    }

    /// Fields are looked for in a bounded part of the header, and a bounded number of lines is
    /// looked at.
    #[test]
    fn the_work_for_a_header_is_bounded() {
        let long = format!("To: {}\r\nSubject: x\r\n\r\nbody", "g:;".repeat(limits::HEADER_BYTES));
        assert_eq!(names(&long).len(), 1);
        assert!(fields(long.as_bytes()).all(|field| field.value.len() < limits::HEADER_BYTES));
        assert_eq!(long.get(body_offset(long.as_bytes())..), Some("body"));
        for line in ["a:\n", "junk\n"] {
            let many = format!("{}Subject: x\n\nbody", line.repeat(limits::FIELDS));
            assert!(first(many.as_bytes(), "Subject").is_none());
            assert_eq!(many.get(body_offset(many.as_bytes())..), Some("body"));
        }
    }

    /// RFC 8621 §7.5, RFC 5322 §3.6.3: what is sent has no Bcc.
    #[test]
    fn fields_are_taken_out_with_their_folded_lines_and_nothing_else_is() {
        let raw = b"Bcc: a@x\r\nTo: b@x\r\nBCC :\r\n c@x,\r\n\td@x\r\nX-Bcc: 1\r\nbcc\r\nSubject: s\r\n t\r\n\r\nBcc: body\r\n";
        let wanted = b"To: b@x\r\nX-Bcc: 1\r\nbcc\r\nSubject: s\r\n t\r\n\r\nBcc: body\r\n";
        assert_eq!(without(raw, &["bcc", "Resent-Bcc"]).as_ref(), wanted);
        assert!(matches!(without(wanted, &["Bcc"]), Cow::Borrowed(same) if same == wanted));
        assert_eq!(without(b"Bcc: only", &["Bcc"]).as_ref(), b"");
        // However many fields there are: the last one, too.
        let many = [b"X: y\r\n".repeat(limits::FIELDS + 1), b"Bcc: z@x\n\nz@x".to_vec()].concat();
        assert!(without(&many, &["Bcc"]).ends_with(b"X: y\r\n\nz@x"));
    }

    #[test]
    fn comments_and_encoded_words() {
        let field = |value: &'static str| Field::new(b"X", value.as_bytes());
        assert_eq!(field(" no (a (b\\)) c)\r\n").without_comments(), "no");
        assert_eq!(field("\"a (b)\" (c) d").without_comments(), "\"a (b)\"  d");
        assert_eq!(field(" =?utf-8?q?J=C3=BCrgen?=\r\n =?utf-8?q?_x?=\r\n").decoded(), "Jürgen x");
        assert_eq!(field(" =?utf-8?q?a=0D=0ABcc:_x?=\r\n").decoded(), "aBcc: x");
    }
}
