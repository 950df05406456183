//! The header of a message, split once into its fields.
//!
//! Whatever is read of a header while a message is delivered is read through a [`Header`]: the
//! bytes are walked over once. The index has no bytes of its own and no lifetime, so that it can
//! stand beside the message that it is of ([`IncomingMessage`]).

use std::borrow::Cow;

use super::{Field, FoldedLines, start};
use crate::message::panic::catch_parser_panic;
use crate::message::parse::{self, CharsetCodec};

/// The fields of the top-level header of a message, in order, and where its body begins.
#[derive(Debug, Clone)]
pub struct Header<'a> {
    raw: &'a [u8],
    /// Where the header begins in `raw`.
    start: usize,
    index: Cow<'a, HeaderIndex>,
}

/// Where the fields of a header are, counted from where it begins.
#[derive(Debug, Clone, Default)]
struct HeaderIndex {
    fields: Vec<FieldRange>,
    /// How many fields stand above the first line that a mail server takes for none.
    leading: usize,
    body: usize,
    /// The charset that the header names for the body; known where a value is not UTF-8.
    declared: Option<CharsetCodec>,
}

/// Where a field is: its name as far as `name_end`, its value from `value` on.
#[derive(Debug, Clone, Copy)]
struct FieldRange {
    name: u32,
    name_end: u32,
    value: u32,
    value_end: u32,
    is_utf8: bool,
}

impl<'a> Header<'a> {
    /// Splits the header of a message.
    #[must_use]
    pub fn split(raw: &'a [u8]) -> Self {
        let start = start(raw);
        Self {
            raw,
            start,
            index: Cow::Owned(HeaderIndex::of(raw.get(start..).unwrap_or_default())),
        }
    }

    /// The message, from its first byte on.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Where the header begins in the message, as `header::start` says.
    pub(in crate::message) fn start(&self) -> usize {
        self.start
    }

    /// Where the body begins: after the empty line, or at the end.
    #[must_use]
    pub fn body_offset(&self) -> usize {
        self.start.saturating_add(self.index.body)
    }

    /// The message from where its header begins.
    #[must_use]
    pub fn trimmed(&self) -> &'a [u8] {
        self.raw.get(self.start..).unwrap_or_default()
    }

    /// The fields, in order.
    pub fn fields(&self) -> impl DoubleEndedIterator<Item = Field<'a>> + '_ {
        let header = self.trimmed();
        self.index.fields.iter().map(move |range| range.field(header, self.index.declared))
    }

    /// The first field of a name.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<Field<'a>> {
        self.fields().find(|field| field.is(name))
    }

    /// The fields above the first line that is none, an mbox `From ` line at the beginning apart:
    /// no more than the header that the mail server saw which handed the message over. Such a line
    /// ends the header for it; for `fields` it does not.
    pub fn leading_fields(&self) -> impl Iterator<Item = Field<'a>> + '_ {
        // Where the server saw the header begin elsewhere, it is read anew.
        let is_as_received = self.start == 0 && !self.raw.starts_with(b"From ");
        let known = if is_as_received { self.index.leading } else { 0 };
        let read_anew = (!is_as_received).then(|| super::leading_fields(self.raw));
        self.fields().take(known).chain(read_anew.into_iter().flatten())
    }
}

impl HeaderIndex {
    /// Splits what begins with a header.
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
    /// The place of a field in a line that begins at `begin`. Offsets are below
    /// `limits::MAX_HEADER_BYTES`.
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
        let bytes = |from: u32, to: u32| {
            let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
            header.get(at(from)..at(to)).unwrap_or_default()
        };
        Field {
            name: bytes(self.name, self.name_end),
            value: bytes(self.value, self.value_end),
            declared: declared.filter(|_| !self.is_utf8),
        }
    }
}

/// A message as it came in, with its header split.
#[derive(Debug)]
pub struct IncomingMessage {
    bytes: Vec<u8>,
    start: usize,
    index: HeaderIndex,
}

impl IncomingMessage {
    /// Takes a message in, and splits its header; where that panics it has no field.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let split = catch_parser_panic("a header", || {
            let Header { start, index, .. } = Header::split(&bytes);
            (start, index.into_owned())
        });
        let (start, index) = split.unwrap_or_default();
        Self { bytes, start, index }
    }

    /// How many bytes came in.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The header of the message as it came in.
    #[must_use]
    pub fn header(&self) -> Header<'_> {
        Header { raw: &self.bytes, start: self.start, index: Cow::Borrowed(&self.index) }
    }

    /// The header of the message without what stands before the header.
    #[must_use]
    pub fn trimmed_header(&self) -> Header<'_> {
        Header { raw: self.header().trimmed(), start: 0, index: Cow::Borrowed(&self.index) }
    }
}
