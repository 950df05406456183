//! A message and a host for examples, tests of scripts, fuzzing and benches.
//!
//! - [`PlainMessage`] finds fields and parts of a message. It decodes neither transfer encodings
//!   nor encoded words nor charsets: a host that filters mail implements
//!   [`MessageView`] over its own parser.
//! - [`PlainWorld`] has a clock in UTC, knows mailboxes by name, and can notify by `mailto:` URIs.
//!   It has no other feature of a host.

use std::borrow::Cow;
use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::address::split_unquoted;
use crate::host::{HostError, MailboxRef, MailboxSelector, World};
use crate::message::{Field, MessageView, ParameterisedValue, Part, PartId};

/// Levels of parts below the message itself that are found. It bounds the recursion.
const MAX_DEPTH: usize = 20;

/// The parts and fields of a message, without any decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainMessage {
    raw: Vec<u8>,
    parts: Vec<Part>,
    /// The fields of each part, at the index of the part.
    fields: Vec<Vec<Field>>,
}

impl PlainMessage {
    /// Finds the parts of a message. Lines may end in LF or CR LF, and stay as they are.
    #[must_use]
    pub fn new(raw: impl Into<Vec<u8>>) -> Self {
        let mut message = Self { raw: raw.into(), parts: Vec::new(), fields: Vec::new() };
        message.add_part(None, 0..message.raw.len(), ("text", "plain"), 0);
        message
    }

    /// Returns the value of the first field of a name, as written.
    #[must_use]
    pub fn first_value(&self, part: PartId, name: &str) -> Option<&[u8]> {
        self.value_of(self.fields(part), name)
    }

    fn value_of(&self, fields: &[Field], name: &str) -> Option<&[u8]> {
        let is_named =
            |field: &&Field| self.bytes(field.name.clone()).eq_ignore_ascii_case(name.as_bytes());
        fields.iter().find(is_named).map(|field| self.bytes(field.value.clone()))
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.raw.get(range).unwrap_or_default()
    }

    fn body(&self, part: PartId) -> &[u8] {
        self.parts.get(part.0 as usize).map_or(&[], |part| self.bytes(part.body.clone()))
    }

    /// Adds the part in a range, and the parts in it. `default` is its type if its header names
    /// none, `depth` its level below the message.
    fn add_part(
        &mut self,
        parent: Option<PartId>,
        range: Range<usize>,
        default: (&str, &str),
        depth: usize,
    ) {
        let Ok(number) = u32::try_from(self.parts.len()) else { return };
        let (fields, body) = self.header(range.clone());
        let end = fields.last().map_or(range.start, |field| field.whole.end);
        let media = self.value_of(&fields, "Content-Type").and_then(parameters);
        let kind = media.as_ref().and_then(|media| media.value.split_once('/'));
        let (main_type, subtype) = kind.unwrap_or(default);
        let part = Part {
            parent,
            main_type: main_type.to_ascii_lowercase(),
            subtype: subtype.to_ascii_lowercase(),
            header: range.start..end,
            body: body..range.end.max(body),
        };
        let id = PartId(number);
        let (is_message, is_multipart) = (part.is_message(), part.is_multipart());
        let inner = part.body.clone();
        let child_default = match part.subtype.as_str() {
            "digest" => ("message", "rfc822"),
            _ => ("text", "plain"),
        };
        self.parts.push(part);
        self.fields.push(fields);
        if depth >= MAX_DEPTH {
            return;
        }
        if is_message {
            self.add_part(Some(id), inner, ("text", "plain"), depth + 1);
        } else if is_multipart {
            let parameters = media.map(|media| media.parameters).unwrap_or_default();
            let boundary = parameters.into_iter().find(|(name, _)| name == "boundary");
            let boundary = boundary.map(|(_, value)| value).unwrap_or_default();
            for child in self.children(inner, &boundary) {
                self.add_part(Some(id), child, child_default, depth + 1);
            }
        }
    }

    /// Finds the fields of a header, and returns them with the offset at which the body begins:
    /// after the empty line, or at the first line that is no field.
    fn header(&self, range: Range<usize>) -> (Vec<Field>, usize) {
        let mut fields: Vec<Field> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = self.line_end(at, range.end);
            let text = trim_line_end(self.bytes(at..end));
            if text.is_empty() {
                return (fields, end);
            }
            match (text.first(), fields.last_mut(), memchr::memchr(b':', text)) {
                (Some(b' ' | b'\t'), Some(last), _) => {
                    last.value.end = at + text.len();
                    last.whole.end = end;
                }
                (_, _, Some(colon)) => {
                    let name = text.get(..colon).unwrap_or_default().trim_ascii_end();
                    fields.push(Field {
                        name: at..at + name.len(),
                        value: at + colon + 1..at + text.len(),
                        whole: at..end,
                    });
                }
                _ => return (fields, at),
            }
            at = end;
        }
        (fields, range.end)
    }

    /// Finds the parts between the delimiter lines of a multipart (RFC 2046 §5.1.1). The line end
    /// before a delimiter belongs to the delimiter. Without a last delimiter, the last part ends
    /// with the body.
    fn children(&self, body: Range<usize>, boundary: &str) -> Vec<Range<usize>> {
        let mut children = Vec::new();
        let mut start: Option<usize> = None;
        let mut at = body.start;
        while at < body.end && !boundary.is_empty() {
            let end = self.line_end(at, body.end);
            let line = self.bytes(at..end).trim_ascii_end();
            let rest =
                line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary.as_bytes()));
            if let Some(rest) = rest.filter(|rest| rest.is_empty() || *rest == b"--") {
                if let Some(start) = start {
                    children.push(start..start + trim_line_end(self.bytes(start..at)).len());
                }
                start = Some(end);
                if rest == b"--" {
                    return children;
                }
            }
            at = end;
        }
        children.extend(start.map(|start| start..body.end));
        children
    }

    /// Returns the offset after the line end that follows `at`, or `limit` if there is none before.
    fn line_end(&self, at: usize, limit: usize) -> usize {
        memchr::memchr(b'\n', self.bytes(at..limit)).map_or(limit, |end| at + end + 1)
    }
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl MessageView for PlainMessage {
    fn raw(&self) -> &[u8] {
        &self.raw
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn fields(&self, part: PartId) -> &[Field] {
        self.fields.get(part.0 as usize).map(Vec::as_slice).unwrap_or_default()
    }

    fn content(&self, part: PartId) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.body(part))
    }

    fn text(&self, part: PartId) -> Option<Cow<'_, str>> {
        let is_text = self.parts.get(part.0 as usize)?.main_type == "text";
        is_text.then(|| String::from_utf8_lossy(self.body(part)))
    }

    fn plain_text(&self, part: PartId) -> Option<Cow<'_, str>> {
        self.text(part)
    }

    fn decode_text<'a>(&self, value: &'a [u8]) -> Cow<'a, str> {
        let text = String::from_utf8_lossy(value.trim_ascii());
        match text.contains(['\r', '\n']) {
            true => Cow::Owned(text.replace(['\r', '\n'], "")),
            false => text,
        }
    }

    fn parse_parameters(&self, value: &[u8]) -> Option<ParameterisedValue> {
        parameters(value)
    }
}

/// Reads a word and its parameters. Comments and continuations (RFC 2231) are not recognised.
fn parameters(value: &[u8]) -> Option<ParameterisedValue> {
    let text = String::from_utf8_lossy(value);
    let mut items = split_unquoted(&text, ';');
    let word = items.next().map(str::trim).filter(|word| !word.is_empty())?;
    let parameters = items.filter_map(|item| {
        let (name, value) = item.split_once('=')?;
        let value = value.trim();
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        Some((name.trim().to_ascii_lowercase(), quoted.unwrap_or(value).replace('\\', "")))
    });
    Some(ParameterisedValue { value: word.to_owned(), parameters: parameters.collect() })
}

/// A host with a clock and mailboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainWorld {
    pub now: Timestamp,
    /// The full names of the mailboxes besides the Inbox. The name of a mailbox is also its id.
    pub mailboxes: Vec<String>,
}

impl World for PlainWorld {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn zone(&self) -> TimeZone {
        TimeZone::UTC
    }

    fn mailbox(&self, selector: MailboxSelector<'_>) -> Result<Option<MailboxRef>, HostError> {
        let (MailboxSelector::Name(name) | MailboxSelector::Id(name)) = selector else {
            return Ok(None);
        };
        let is_inbox = name.eq_ignore_ascii_case("INBOX");
        let known = self.mailboxes.iter().any(|known| known == name);
        Ok((is_inbox || known).then(|| MailboxRef {
            id: name.to_owned(),
            name: name.to_owned(),
            is_inbox,
            accepts_mail: true,
            special_uses: Vec::new(),
        }))
    }

    fn can_notify(&self, uri: &str) -> bool {
        uri.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("mailto"))
    }

    fn has_notify_scheme(&self, scheme: &str) -> bool {
        scheme == "mailto"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NESTED: &str = "Subject: a\r\n b\r\n\
        Content-Type: multipart/mixed; boundary=\"x;y\"\r\n\r\n\
        before\r\n--x;y\r\n\r\nText\r\n--x;y\r\nContent-Type: message/rfc822\r\n\r\n\
        Subject: inner\n\nHi\r\n--x;y\r\nContent-Type: multipart/digest\r\n\r\n\r\n\
        --x;y--\r\nafter";

    #[test]
    fn parts_and_fields_are_found() {
        let message = PlainMessage::new(NESTED);
        let kinds: Vec<_> = message
            .parts()
            .iter()
            .map(|part| (part.main_type.as_str(), part.parent.map(|parent| parent.0)))
            .collect();
        let expected = [
            ("multipart", None),
            ("text", Some(0)),
            ("message", Some(0)),
            ("text", Some(2)),
            ("multipart", Some(0)),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(message.text(PartId(1)).as_deref(), Some("Text"));
        assert_eq!(message.text(PartId(2)), None);
        assert_eq!(message.plain_text(PartId(3)).as_deref(), Some("Hi"));
        assert_eq!(message.content(PartId(3)).as_ref(), b"Hi");
        let subject = message.first_value(PartId::ROOT, "subject").unwrap();
        assert_eq!(message.decode_text(subject), "a b");
        assert_eq!(message.first_value(PartId(9), "Subject"), None);
        assert_eq!(message.text(PartId(9)), None);
    }

    #[test]
    fn any_bytes_are_a_message() {
        for raw in [&b""[..], b"\n", b"no field", b" fold\n", b"a:b", b"\xff:\xff\n\n\xff"] {
            let message = PlainMessage::new(raw);
            assert_eq!(message.raw(), raw);
            assert_eq!(message.parts().len(), 1);
        }
        let deep = "Content-Type: message/rfc822\n\n".repeat(50);
        assert_eq!(PlainMessage::new(deep).parts().len(), MAX_DEPTH + 1);
        let open = "Content-Type: multipart/digest; boundary=a\n\n--a\n\nx: y\n";
        let message = PlainMessage::new(open);
        assert_eq!(message.parts()[1].subtype, "rfc822");
        assert_eq!(message.first_value(PartId(2), "x"), Some(&b" y"[..]));
    }

    #[test]
    fn a_word_has_parameters() {
        let message = PlainMessage::new("");
        let parsed = message.parse_parameters(b" Text/Plain ; A=\"b;\\\"c\"; d; e = f").unwrap();
        assert_eq!(parsed.value, "Text/Plain");
        let expected = [("a", "b;\"c"), ("e", "f")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parsed.parameters, expected);
        assert_eq!(message.parse_parameters(b" ;a=b"), None);
    }

    #[test]
    fn the_world_knows_its_mailboxes() {
        let world = PlainWorld { now: Timestamp::UNIX_EPOCH, mailboxes: vec!["Work".to_owned()] };
        let found = |selector| world.mailbox(selector).unwrap().map(|mailbox| mailbox.name);
        assert_eq!(found(MailboxSelector::Name("Work")).as_deref(), Some("Work"));
        assert_eq!(found(MailboxSelector::Id("inbox")).as_deref(), Some("inbox"));
        assert_eq!(found(MailboxSelector::Name("work")), None);
        assert_eq!(found(MailboxSelector::SpecialUse("\\Junk")), None);
        assert!(world.can_notify("mailto:a@b") && !world.can_notify("tel:1"));
    }
}
