//! A message as the engine sees it, over its bytes. Fields, encodings and charsets are read by
//! `message`. The parts are found here, because the engine needs the place of each part, and the
//! parts of enclosed messages too.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use restante_sieve::{Field, MessageView, ParameterisedValue, Part, PartId};

use crate::message::header::Header;
use crate::message::{decode, header, parse};
use crate::model::limits;

/// Levels of parts below the message itself that are found. Deeper ones are content of the part
/// around them.
const MAX_DEPTH: usize = 16;

/// A message whose parts and fields were found. The vectors have one entry for each part, and a
/// `PartId` is an index into them.
pub(crate) struct View<'a> {
    raw: &'a [u8],
    /// The message itself first (`PartId::ROOT`), and each part before its children: at most
    /// `limits::MAX_MIME_PARTS`. Further ones are not found.
    parts: Vec<Part>,
    /// The fields of each part.
    fields: Vec<Vec<Field>>,
    /// The decoded content of each part; empty until the engine asks for it.
    contents: Vec<OnceCell<Cow<'a, [u8]>>>,
}

impl<'a> View<'a> {
    /// Finds the parts of a message.
    pub(crate) fn new(raw: &'a [u8]) -> Self {
        Self::of(&Header::split(raw))
    }

    /// Finds the parts of a message whose header is split already.
    pub(super) fn of(header: &Header<'a>) -> Self {
        let raw = header.raw();
        let mut view = Self { raw, parts: Vec::new(), fields: Vec::new(), contents: Vec::new() };
        let fields = places(raw, header.fields());
        view.add_part(None, 0..raw.len(), (fields, header.body_offset()), false, 0);
        view
    }

    /// Adds the part in `range` of the message, and those inside it.
    fn add_inner(&mut self, parent: PartId, range: Range<usize>, in_digest: bool, depth: usize) {
        let bytes = self.raw.get(range.clone()).unwrap_or_default();
        let fields = places(self.raw, header::part_fields(bytes));
        let body = range.start.saturating_add(header::part_body_offset(bytes));
        self.add_part(Some(parent), range, (fields, body), in_digest, depth);
    }

    /// Adds a part whose header is split, and those inside it. `header` has its fields, and the
    /// offset in the message at which its body begins. `in_digest`: without a Content-Type, the
    /// part is a message (RFC 2046 §5.1.5). `depth` is the number of parts around it.
    fn add_part(
        &mut self,
        parent: Option<PartId>,
        range: Range<usize>,
        header: (Vec<Field>, usize),
        in_digest: bool,
        depth: usize,
    ) {
        let Ok(number) = u32::try_from(self.parts.len()) else { return };
        if self.parts.len() >= limits::MAX_MIME_PARTS {
            return;
        }
        let (fields, body) = header;
        let body = body.min(range.end);
        let header_end = fields.last().map_or(range.start, |field| field.whole.end);
        let (media_type, parameters) =
            value_of(self.raw, &fields, "Content-Type").and_then(parse::media).unzip();
        let default = if in_digest { "message/rfc822" } else { "text/plain" };
        let media_type = media_type.unwrap_or_else(|| default.to_owned());
        let (main_type, subtype) = media_type.split_once('/').unwrap_or(("text", "plain"));
        let part = Part {
            parent,
            main_type: main_type.to_owned(),
            subtype: subtype.to_owned(),
            header: range.start..header_end,
            body: body..range.end,
        };
        let (is_message, is_multipart) = (part.is_message(), part.is_multipart());
        let (body, is_digest) = (part.body.clone(), part.subtype == "digest");
        self.parts.push(part);
        self.fields.push(fields);
        self.contents.push(OnceCell::new());
        if depth >= MAX_DEPTH {
            return;
        }
        let (own, inner) = (PartId(number), depth.saturating_add(1));
        if is_message {
            self.add_inner(own, body, false, inner);
        } else if is_multipart {
            let boundary = parameters
                .unwrap_or_default()
                .into_iter()
                .find(|(name, _)| name == "boundary")
                .map(|(_, value)| value);
            for child in children(self.raw, body, boundary.unwrap_or_default().as_bytes()) {
                self.add_inner(own, child, is_digest, inner);
            }
        }
    }

    fn part(&self, part: PartId) -> Option<(usize, &Part)> {
        let index = usize::try_from(part.0).ok()?;
        Some((index, self.parts.get(index)?))
    }

    /// Returns the transfer encoding of a part for `decode`: `IDENTITY` if it names none, `None` if
    /// it names one that is not known.
    fn encoding(&self, part: PartId) -> Option<u8> {
        let name = "Content-Transfer-Encoding";
        let value = value_of(self.raw, self.fields(part), name).unwrap_or_default();
        decode::encoding_named(&header::Field::new(name.as_bytes(), value).without_comments())
    }

    /// Returns the charset that the Content-Type of a part names; `None` if it names none.
    fn charset(&self, part: PartId) -> Option<String> {
        let media = value_of(self.raw, self.fields(part), "Content-Type").and_then(parse::media);
        let (_, parameters) = media?;
        parameters.into_iter().find(|(name, _)| name == "charset").map(|(_, value)| value)
    }
}

/// Returns fields with their places in `raw`, of which the names and values must be slices.
fn places<'a>(raw: &'a [u8], fields: impl Iterator<Item = header::Field<'a>>) -> Vec<Field> {
    // `bytes` is a slice of `raw`, so the distance of their addresses is its offset.
    let offset = |bytes: &[u8]| (bytes.as_ptr() as usize).saturating_sub(raw.as_ptr() as usize);
    fields
        .map(|field| {
            let (name, value) = (offset(field.name), offset(field.value));
            let end = value.saturating_add(field.value.len());
            let text = field.value.strip_suffix(b"\n").unwrap_or(field.value);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let name_text = field.name.trim_ascii_end();
            Field {
                name: name..name.saturating_add(name_text.len()),
                value: value..value.saturating_add(text.len()),
                whole: name..end,
            }
        })
        .collect()
}

/// Returns the value of a field of this name: of several the last, as `message::parse` does, so
/// that a filter sees the parts that a client is shown.
fn value_of<'a>(raw: &'a [u8], fields: &[Field], name: &str) -> Option<&'a [u8]> {
    let is_named = |field: &&Field| {
        let found = raw.get(field.name.clone()).unwrap_or_default();
        found.eq_ignore_ascii_case(name.as_bytes())
    };
    fields.iter().rfind(is_named).and_then(|field| raw.get(field.value.clone()))
}

/// Finds the parts between the delimiter lines of a multipart (RFC 2046 §5.1.1): the first
/// `limits::MAX_MIME_PARTS`. The line end before a delimiter belongs to the delimiter. If the last
/// delimiter, which ends with `--`, is missing, the last part ends where the body ends. Without a
/// boundary there are no parts.
fn children(raw: &[u8], body: Range<usize>, boundary: &[u8]) -> Vec<Range<usize>> {
    let (mut children, mut start) = (Vec::new(), None);
    let bytes = raw.get(..body.end).unwrap_or_default();
    let mut at = body.start;
    while at < body.end && !boundary.is_empty() && children.len() < limits::MAX_MIME_PARTS {
        let rest = bytes.get(at..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end.saturating_add(1));
        let line = rest.get(..length).unwrap_or_default().trim_ascii_end();
        let rest = line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary));
        if let Some(rest) = rest.filter(|rest| rest.is_empty() || *rest == b"--") {
            if let Some(start) = start {
                children.push(start..before_line_end(bytes, start, at));
            }
            start = Some(at.saturating_add(length));
            if rest == b"--" {
                return children;
            }
        }
        at = at.saturating_add(length);
    }
    let has_room = children.len() < limits::MAX_MIME_PARTS;
    if let Some(start) = start.filter(|start| has_room && *start < body.end) {
        children.push(start..body.end);
    }
    children
}

/// Returns where the bytes from `start` to `at` end without their last line end.
fn before_line_end(bytes: &[u8], start: usize, at: usize) -> usize {
    let inside = bytes.get(start..at).unwrap_or_default();
    let inside = inside.strip_suffix(b"\n").unwrap_or(inside);
    let inside = inside.strip_suffix(b"\r").unwrap_or(inside);
    start.saturating_add(inside.len())
}

impl MessageView for View<'_> {
    fn raw(&self) -> &[u8] {
        self.raw
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn fields(&self, part: PartId) -> &[Field] {
        let index = usize::try_from(part.0).unwrap_or(usize::MAX);
        self.fields.get(index).map(Vec::as_slice).unwrap_or_default()
    }

    fn content(&self, part: PartId) -> Cow<'_, [u8]> {
        let Some((index, found)) = self.part(part) else { return Cow::Borrowed(&[]) };
        let body = self.raw.get(found.body.clone()).unwrap_or_default();
        let Some(content) = self.contents.get(index) else { return Cow::Borrowed(body) };
        let decoded = content.get_or_init(|| {
            decode::decode(self.encoding(part).unwrap_or(decode::IDENTITY), body).0
        });
        Cow::Borrowed(decoded)
    }

    fn text(&self, part: PartId) -> Option<Cow<'_, str>> {
        let (index, found) = self.part(part)?;
        if found.main_type != "text" {
            return None;
        }
        let charset = self.charset(part);
        // The content is decoded first, so that the text can borrow from it.
        drop(self.content(part));
        let content = self.contents.get(index)?.get()?;
        Some(parse::charset_text(charset.as_deref(), content))
    }

    fn plain_text(&self, part: PartId) -> Option<Cow<'_, str>> {
        self.encoding(part)?;
        if !self.charset(part).is_none_or(|label| parse::is_known_charset(&label)) {
            return None;
        }
        let text = self.text(part)?;
        let is_html = self.part(part).is_some_and(|(_, found)| found.subtype == "html");
        Some(if is_html { Cow::Owned(parse::html_text(&text)) } else { text })
    }

    fn decode_text<'a>(&self, value: &'a [u8]) -> Cow<'a, str> {
        parse::comparable_text(value)
    }

    fn parse_parameters(&self, value: &[u8]) -> Option<ParameterisedValue> {
        let (value, parameters) = parse::media(value)?;
        Some(ParameterisedValue { value, parameters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The type of each part, its number of fields, and its body.
    fn parts(raw: &str) -> Vec<(String, usize, String)> {
        let view = View::new(raw.as_bytes());
        let parts = view.parts().iter().zip(&view.fields);
        parts
            .map(|(part, fields)| {
                let body = raw.get(part.body.clone()).unwrap_or_default();
                (format!("{}/{}", part.main_type, part.subtype), fields.len(), body.to_owned())
            })
            .collect()
    }

    #[test]
    fn blank_lines_end_the_header_of_a_part_but_not_that_of_the_message() {
        let text = "From: a@b.example\r\nContent-Type: image/png\r\n\r\nText.";
        let message = |kind: &str| {
            format!(
                "Content-Type: multipart/{kind}; boundary=b\r\n\r\n--b\r\n\r\n{text}\r\n--b--\r\n"
            )
        };
        let part =
            |kind: &str, fields: usize, body: &str| (kind.to_owned(), fields, body.to_owned());
        assert_eq!(parts(&message("mixed"))[1..], [part("text/plain", 0, text)]);
        let digest = [part("message/rfc822", 0, text), part("image/png", 2, "Text.")];
        assert_eq!(parts(&message("digest"))[1..], digest);
        // Blank lines before the header of the message are skipped.
        let message = format!("\r\n\r\n{text}");
        assert_eq!(parts(&message), [part("image/png", 2, "Text.")]);
    }

    #[test]
    fn last_content_type_counts() {
        let raw = "Content-Type: text/plain\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
                   --b\r\nContent-Type: text/html\r\n\r\n<b>a</b>\r\n--b--\r\n";
        let types: Vec<_> = parts(raw).into_iter().map(|(kind, ..)| kind).collect();
        assert_eq!(types, ["multipart/mixed", "text/html"]);
    }

    #[test]
    fn values_are_read_without_blanks_around_them() {
        let view = View::new(b"Subject: x\r\n\r\n");
        assert_eq!(view.decode_text(b"  Hello \t "), "Hello");
        assert_eq!(
            view.decode_text(b" \"=?utf-8?q?Zo=C3=AB?=\" <zoe@example.org>"),
            "\"Zo\u{eb}\" <zoe@example.org>"
        );
    }

    /// The text and the plain text of a message with these fields.
    fn texts(fields: &str, body: &[u8]) -> (Option<String>, Option<String>) {
        let raw = [fields.as_bytes(), b"\r\n\r\n", body].concat();
        let view = View::new(&raw);
        let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
        (owned(view.text(PartId(0))), owned(view.plain_text(PartId(0))))
    }

    #[test]
    fn text_without_a_known_charset_or_encoding_is_no_plain_text() {
        for (fields, body, plain) in [
            ("Subject: x", &b"gr\xc3\xbc\xc3\x9fe"[..], Some("gr\u{fc}\u{df}e")),
            ("Content-Type: text/plain; charset=iso-8859-1", b"gr\xfcn", Some("gr\u{fc}n")),
            ("Content-Type: text/html\r\nContent-Transfer-Encoding: 8BIT", b"<b>a</b>", Some("a")),
            ("Content-Type: text/plain; charset=klingon", b"a", None),
            ("Content-Transfer-Encoding: x-secret", b"a", None),
            // RFC 2045 §1: a field of MIME may have comments.
            ("Content-Transfer-Encoding: (a cat) Base64", b"Q2F0", Some("Cat")),
            ("Content-Transfer-Encoding: uue", b"begin 644 c\n#0V%T\n`\nend\n", Some("Cat")),
        ] {
            let (text, found) = texts(fields, body);
            assert_eq!(found.as_deref().map(str::trim), plain, "{fields}");
            assert!(text.is_some(), "{fields}");
        }
        assert_eq!(texts("Content-Type: image/png", b"a"), (None, None));
    }
}
