//! The top-level header as octets: field by field, tolerant of what mail is really like.
//!
//! A field is a name of printable octets, a colon, and everything up to a line end that no blank or tab follows (RFC 5322
//! §2.2). Lines end in CRLF or LF. A line that is no field is skipped, also an mbox `From ` line; an empty line ends the
//! header. All questions about header fields go through here, so that a name is treated alike whether a library knows it or
//! not.

use std::borrow::Cow;

use super::parse;
use crate::model::limits;

/// Fields looked at; a message with more is read no further.
const FIELDS: usize = 10_000;

/// One header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name as written.
    pub name: &'a [u8],
    /// What follows the colon, to the end of the last folded line, line end included.
    pub value: &'a [u8],
}

/// The fields of the top-level header, in order.
pub fn fields(raw: &[u8]) -> impl Iterator<Item = Field<'_>> {
    Fields { rest: raw, strict: false }.take(FIELDS)
}

/// The fields above the first line that is none, an mbox `From ` line at the beginning apart: no more than the header that
/// the mail server saw which handed the message over. Such a line ends the header for it; for `fields` it does not.
pub fn leading_fields(raw: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let rest = if raw.starts_with(b"From ") { split_line(raw).1 } else { raw };
    Fields { rest, strict: true }.take(FIELDS)
}

/// Where the body begins: after the empty line, or at the end.
#[must_use]
pub fn body_offset(raw: &[u8]) -> usize {
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
    let start = beginning.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(beginning.len());
    let header = beginning.get(start..).unwrap_or_default();
    beginning.len() >= limits::HEADER_BYTES
        || [&b"\n\r\n"[..], b"\n\n"].iter().any(|end| memchr::memmem::find(header, end).is_some())
}

/// The octets without all fields of the top-level header that have one of these names; as they are where there is none.
#[must_use]
pub fn without<'a>(raw: &'a [u8], names: &[&str]) -> Cow<'a, [u8]> {
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
    rest: &'a [u8],
    /// Whether a line that is no field ends the header.
    strict: bool,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        loop {
            let start = self.rest;
            let (line, mut after) = split_line(start);
            if line.is_empty() || is_empty(line) {
                return None;
            }
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
            let found = if self.strict { strict_field(whole) } else { field(whole) };
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
    named.then(|| Field { name, value: value.get(1..).unwrap_or_default() })
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
    matches!(line, b"\n" | b"\r\n")
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

impl Field<'_> {
    /// Whether it has that name, in any case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Its value as text: unfolded, trimmed, with U+FFFD for what is not UTF-8.
    #[must_use]
    pub fn unfolded(&self) -> String {
        let text = String::from_utf8_lossy(self.value);
        let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        text.trim().to_owned()
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
        parse::one_line(&parse::text(self.value))
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
        assert!(names("\r\nSubject: body\r\n").is_empty());
        assert_eq!(names("Subject: no end").len(), 1);
        assert_eq!(body_offset(b"Subject: x"), 10);
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
        let many = [b"X: y\r\n".repeat(FIELDS + 1), b"Bcc: z@x\n\nz@x".to_vec()].concat();
        assert!(without(&many, &["Bcc"]).ends_with(b"X: y\r\n\nz@x"));
    }

    #[test]
    fn comments_and_encoded_words() {
        let field = |value: &'static str| Field { name: b"X", value: value.as_bytes() };
        assert_eq!(field(" no (a (b\\)) c)\r\n").without_comments(), "no");
        assert_eq!(field("\"a (b)\" (c) d").without_comments(), "\"a (b)\"  d");
        assert_eq!(field(" =?utf-8?q?J=C3=BCrgen?=\r\n =?utf-8?q?_x?=\r\n").decoded(), "Jürgen x");
        assert_eq!(field(" =?utf-8?q?a=0D=0ABcc:_x?=\r\n").decoded(), "aBcc: x");
    }
}
