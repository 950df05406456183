//! Splits the header of a message once into its fields. The index borrows nothing, so that it can
//! be stored with its message ([`IncomingMessage`]).

use std::borrow::Cow;

use super::{Field, FoldedLines, start};
use crate::message::panic::catch_parser_panic;
use crate::message::parse::{self, CharsetCodec};

#[derive(Debug, Clone)]
pub struct Header<'a> {
    raw: &'a [u8],
    start: usize,
    index: Cow<'a, HeaderIndex>,
}

/// The fields of a header, as offsets from its beginning.
#[derive(Debug, Clone, Default)]
struct HeaderIndex {
    fields: Vec<FieldRange>,
    /// How many fields stand above the first line that a mail server does not take for a field
    /// (`is_strict`).
    leading: usize,
    /// Where the body begins.
    body: usize,
    /// The charset that the header names for the body; set only if some value is not UTF-8.
    declared: Option<CharsetCodec>,
}

/// Where the name and the value of a field begin and end, from the beginning of the header.
#[derive(Debug, Clone, Copy)]
struct FieldRange {
    name: u32,
    name_end: u32,
    value: u32,
    value_end: u32,
    is_utf8: bool,
}

impl<'a> Header<'a> {
    #[must_use]
    pub fn split(raw: &'a [u8]) -> Self {
        let start = start(raw);
        Self {
            raw,
            start,
            index: Cow::Owned(HeaderIndex::of(raw.get(start..).unwrap_or_default())),
        }
    }

    /// Returns the header of a message as it is if splitting it panicked (`IncomingMessage::new`).
    #[cfg(test)]
    pub(crate) fn unsplit(raw: &'a [u8]) -> Self {
        Self { raw, start: 0, index: Cow::Owned(HeaderIndex::default()) }
    }

    /// Returns the whole message, with what stands before the header.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    pub(in crate::message) fn start(&self) -> usize {
        self.start
    }

    /// Returns where the body begins in `raw`.
    #[must_use]
    pub fn body_offset(&self) -> usize {
        self.start.saturating_add(self.index.body)
    }

    /// Returns the message from the beginning of its header on.
    #[must_use]
    pub fn trimmed(&self) -> &'a [u8] {
        self.raw.get(self.start..).unwrap_or_default()
    }

    pub fn fields(&self) -> impl DoubleEndedIterator<Item = Field<'a>> + '_ {
        let header = self.trimmed();
        self.index.fields.iter().map(move |range| range.field(header, self.index.declared))
    }

    #[must_use]
    pub fn first(&self, name: &str) -> Option<Field<'a>> {
        self.fields().find(|field| field.is(name))
    }

    /// The fields that `header::leading_fields` finds.
    pub fn leading_fields(&self) -> impl Iterator<Item = Field<'a>> + '_ {
        // Other mail servers do not skip what `start` skips, so they saw other leading fields.
        let is_as_received = self.start == 0 && !self.raw.starts_with(b"From ");
        let indexed = if is_as_received { self.index.leading } else { 0 };
        let read_again = (!is_as_received).then(|| super::leading_fields(self.raw));
        self.fields().take(indexed).chain(read_again.into_iter().flatten())
    }
}

impl HeaderIndex {
    fn of(raw: &[u8]) -> Self {
        let mut lines = FoldedLines::of(raw);
        let whole = lines.rest;
        let (mut index, mut only_fields) = (Self::default(), true);
        let mut all_utf8 = true;
        while let Some(line) = lines.next() {
            let begin = whole.len().saturating_sub(lines.rest.len()).saturating_sub(line.len());
            let Some(field) = super::field(line) else {
                only_fields = false;
                continue;
            };
            only_fields = only_fields && super::is_strict(line, &field);
            index.leading = index.leading.saturating_add(usize::from(only_fields));
            let range = FieldRange::of(begin, line, &field);
            all_utf8 &= range.is_utf8;
            index.fields.push(range);
        }
        if !all_utf8 {
            let kinds = index.fields.iter().rev();
            let kind =
                kinds.map(|range| range.field(whole, None)).find(|field| field.is("Content-Type"));
            index.declared = kind.and_then(|kind| parse::charset_of(kind.value));
        }
        index.body = lines.body_offset(raw);
        index
    }
}

impl FieldRange {
    /// The offsets are at most `limits::MAX_HEADER_BYTES`, so they fit into `u32`.
    fn of(begin: usize, line: &[u8], field: &Field<'_>) -> Self {
        let at = |offset: usize| u32::try_from(begin.saturating_add(offset)).unwrap_or(u32::MAX);
        Self {
            name: at(0),
            name_end: at(field.name.len()),
            value: at(line.len().saturating_sub(field.value.len())),
            value_end: at(line.len()),
            is_utf8: std::str::from_utf8(field.value).is_ok(),
        }
    }

    fn field<'a>(&self, header: &'a [u8], declared: Option<CharsetCodec>) -> Field<'a> {
        let bytes = |start: u32, end: u32| {
            let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
            header.get(at(start)..at(end)).unwrap_or_default()
        };
        Field {
            name: bytes(self.name, self.name_end),
            value: bytes(self.value, self.value_end),
            declared: declared.filter(|_| !self.is_utf8),
        }
    }
}

/// A message as received, with its header split.
#[derive(Debug)]
pub struct IncomingMessage {
    bytes: Vec<u8>,
    start: usize,
    index: HeaderIndex,
}

impl IncomingMessage {
    /// Splits the header of a received message. If that panics, the message has no fields, and all
    /// of it is the body.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let split = catch_parser_panic("a header", || {
            let Header { start, index, .. } = Header::split(&bytes);
            (start, index.into_owned())
        });
        let (start, index) = split.unwrap_or_default();
        Self { bytes, start, index }
    }

    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    #[must_use]
    pub fn header(&self) -> Header<'_> {
        Header { raw: &self.bytes, start: self.start, index: Cow::Borrowed(&self.index) }
    }

    /// Returns the header with `raw` beginning at it: what stands before it is left out.
    #[must_use]
    pub fn trimmed_header(&self) -> Header<'_> {
        Header { raw: self.header().trimmed(), start: 0, index: Cow::Borrowed(&self.index) }
    }
}
