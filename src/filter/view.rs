//! A message as the engine sees it, over its bytes. Fields, addresses, encodings and charsets are
//! read by `message`; the parts are found here, because the engine needs the place of each part,
//! and the parts of enclosed messages too.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use restante_sieve::{
    AddressEntry, AddressSpec, Field, MessageView, NamedAddress, ParameterisedValue, Part, PartId,
};

use crate::message::{decode, header, parse};
use crate::model::{EmailAddress, limits};

/// Levels of parts below the message itself that are found. Deeper ones are content of the part
/// around them.
const MAX_DEPTH: usize = 16;

/// A message with its parts and fields found. The vectors have one entry for each part.
pub(crate) struct View<'a> {
    raw: &'a [u8],
    /// The message itself first (`PartId::ROOT`), and each part before its children: at most
    /// `limits::MAX_MIME_PARTS`. Further ones are not found.
    parts: Vec<Part>,
    /// The fields of each part.
    fields: Vec<Vec<Field>>,
    /// The decoded content of each part, once the engine asked for it.
    contents: Vec<OnceCell<Cow<'a, [u8]>>>,
}

impl<'a> View<'a> {
    /// Finds the parts of a message whose header begins with its first byte.
    pub(crate) fn new(raw: &'a [u8]) -> Self {
        let mut view = Self { raw, parts: Vec::new(), fields: Vec::new(), contents: Vec::new() };
        view.add_part(None, 0..raw.len(), false, 0);
        view
    }

    /// Adds the part in `range`, and those inside it. `in_digest`: without a Content-Type, the part
    /// is a message (RFC 2046 §5.1.5).
    fn add_part(
        &mut self,
        parent: Option<PartId>,
        range: Range<usize>,
        in_digest: bool,
        depth: usize,
    ) {
        let Ok(number) = u32::try_from(self.parts.len()) else { return };
        if self.parts.len() >= limits::MAX_MIME_PARTS {
            return;
        }
        let bytes = self.raw.get(range.clone()).unwrap_or_default();
        let fields = fields(self.raw, bytes);
        let body = range.start.saturating_add(header::part_body_offset(bytes)).min(range.end);
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
        let (own, inner) = (Some(PartId(number)), depth.saturating_add(1));
        if is_message {
            self.add_part(own, body, false, inner);
        } else if is_multipart {
            let boundary = parameters
                .unwrap_or_default()
                .into_iter()
                .find(|(name, _)| name == "boundary")
                .map(|(_, value)| value);
            for child in children(self.raw, body, boundary.unwrap_or_default().as_bytes()) {
                self.add_part(own, child, is_digest, inner);
            }
        }
    }

    fn part(&self, part: PartId) -> Option<(usize, &Part)> {
        let index = usize::try_from(part.0).ok()?;
        Some((index, self.parts.get(index)?))
    }
}

/// Returns the fields of a part, with their places in the message. `part` is a slice of `raw`.
fn fields(raw: &[u8], part: &[u8]) -> Vec<Field> {
    // Both are slices of the message, so the distance of their addresses is the offset.
    let offset = |bytes: &[u8]| (bytes.as_ptr() as usize).saturating_sub(raw.as_ptr() as usize);
    header::fields(part)
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

fn value_of<'a>(raw: &'a [u8], fields: &[Field], name: &str) -> Option<&'a [u8]> {
    let is_named = |field: &&Field| {
        let found = raw.get(field.name.clone()).unwrap_or_default();
        found.eq_ignore_ascii_case(name.as_bytes())
    };
    fields.iter().find(is_named).and_then(|field| raw.get(field.value.clone()))
}

/// Finds the parts between the delimiter lines of a multipart (RFC 2046 §5.1.1). The line end
/// before a delimiter belongs to the delimiter. Without a last delimiter, the last part ends where
/// the body ends. Without a boundary there are no parts.
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
    if let Some(start) = start.filter(|start| *start < body.end) {
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
            let encoding = value_of(self.raw, self.fields(part), "Content-Transfer-Encoding");
            let encoding = encoding.unwrap_or_default().trim_ascii().to_ascii_lowercase();
            let encoding = match encoding.as_slice() {
                b"quoted-printable" => decode::QUOTED_PRINTABLE,
                b"base64" => decode::BASE64,
                b"x-uuencode" | b"x-uue" | b"uuencode" => decode::UUENCODE,
                _ => decode::IDENTITY,
            };
            decode::decode(encoding, body).0
        });
        Cow::Borrowed(decoded)
    }

    fn text(&self, part: PartId) -> Option<Cow<'_, str>> {
        let (index, found) = self.part(part)?;
        if found.main_type != "text" {
            return None;
        }
        let media = value_of(self.raw, self.fields(part), "Content-Type").and_then(parse::media);
        let parameters = media.map(|(_, parameters)| parameters).unwrap_or_default();
        let charset = parameters.into_iter().find(|(name, _)| name == "charset");
        let charset = charset.map(|(_, value)| value);
        // The content is decoded first, so that the text can borrow from it.
        drop(self.content(part));
        let content = self.contents.get(index)?.get()?;
        Some(parse::charset_text(charset.as_deref(), content))
    }

    fn plain_text(&self, part: PartId) -> Option<Cow<'_, str>> {
        let text = self.text(part)?;
        let is_html = self.part(part).is_some_and(|(_, found)| found.subtype == "html");
        Some(if is_html { Cow::Owned(parse::html_text(&text)) } else { text })
    }

    fn decode_text<'a>(&self, value: &'a [u8]) -> Cow<'a, str> {
        Cow::Owned(parse::text(value))
    }

    fn parse_addresses(&self, value: &[u8]) -> Vec<AddressEntry> {
        let mut entries = Vec::new();
        for group in parse::groups(value) {
            let members = group.addresses.into_iter().filter_map(named);
            match group.name {
                None => entries.extend(members.map(AddressEntry::Mailbox)),
                Some(name) => {
                    entries.push(AddressEntry::Group { name, members: members.collect() });
                }
            }
        }
        entries
    }

    fn parse_parameters(&self, value: &[u8]) -> Option<ParameterisedValue> {
        let (value, parameters) = parse::media(value)?;
        Some(ParameterisedValue { value, parameters })
    }
}

/// Returns an address for the engine; `None` if its local part or its domain is empty. One that is
/// not valid is divided at its last `@`.
fn named(address: EmailAddress) -> Option<NamedAddress> {
    let spec = AddressSpec::parse(&address.email).or_else(|| {
        let (local, domain) = address.email.rsplit_once('@')?;
        (!local.is_empty() && !domain.is_empty()).then(|| AddressSpec::new(local, domain))
    })?;
    Some(NamedAddress { name: address.name, address: spec })
}
