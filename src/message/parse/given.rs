//! What of a message the library is given, and where the parts that it finds lie in the message.
//!
//! It is given the message as it is, but for three cases: what stands before the header is left
//! out; a header that is too large, or that the library would end elsewhere than
//! `header::body_offset` does, is replaced by its MIME fields; and what follows very many lines
//! that look like header fields is left out, since each part of it may be a header.

use std::sync::LazyLock;

use mail_parser::{HeaderForm, HeaderName, MessageParser, MessagePart};

use crate::message::header::Header;
use crate::model::limits;

/// Bytes of a message in which `limits::MAX_PART_FIELDS` lines cannot stand.
const UNCOUNTED_BODY_BYTES: usize = 3 * limits::MAX_PART_FIELDS;

/// The fields whose structure the library would parse; it may need thirty times their bytes.
const UNPARSED_FIELDS: [HeaderName<'static>; 33] = [
    HeaderName::Subject,
    HeaderName::Comments,
    HeaderName::ContentDescription,
    HeaderName::ContentLocation,
    HeaderName::From,
    HeaderName::To,
    HeaderName::Cc,
    HeaderName::Bcc,
    HeaderName::ReplyTo,
    HeaderName::Sender,
    HeaderName::ResentTo,
    HeaderName::ResentFrom,
    HeaderName::ResentBcc,
    HeaderName::ResentCc,
    HeaderName::ResentSender,
    HeaderName::ListArchive,
    HeaderName::ListHelp,
    HeaderName::ListId,
    HeaderName::ListOwner,
    HeaderName::ListPost,
    HeaderName::ListSubscribe,
    HeaderName::ListUnsubscribe,
    HeaderName::Date,
    HeaderName::ResentDate,
    HeaderName::MessageId,
    HeaderName::References,
    HeaderName::InReplyTo,
    HeaderName::ReturnPath,
    HeaderName::ContentId,
    HeaderName::ResentMessageId,
    HeaderName::Keywords,
    HeaderName::ContentLanguage,
    HeaderName::Received,
];

/// A message as the library read it.
#[derive(Debug)]
pub(super) struct LibraryMessage<'a> {
    parsed: Option<mail_parser::Message<'a>>,
    /// Where the header begins in the message.
    header: usize,
    /// Where the body begins in what the library was given, and in the message.
    bodies: (usize, usize),
    /// Where what the library was given ends, and where the message does.
    ends: (usize, usize),
    /// Whether the library was given another header than the message's.
    is_replaced: bool,
}

impl<'a> LibraryMessage<'a> {
    pub(super) fn parse(header: &Header<'a>) -> Self {
        let raw = header.raw();
        let (start, body) = (header.start(), header.body_offset());
        let end = end_of_fields(raw, body);
        let whole = raw.get(start..end).unwrap_or_default();
        let given = |parsed, given_body: usize, given_end, is_replaced| Self {
            parsed,
            header: start,
            bodies: (given_body, body),
            ends: (given_end, raw.len()),
            is_replaced,
        };
        if body.saturating_sub(start) <= limits::MAX_PARSED_HEADER_BYTES {
            let parsed = PARSER.parse(whole);
            let found = parsed.as_ref().and_then(|message| message.root().parts().next());
            let found = found.map(|part| at(part.offset_body()).saturating_add(start));
            if found.is_none_or(|found| found == body) {
                return given(parsed, body.saturating_sub(start), whole.len(), false);
            }
        }
        let mut replaced = b"MIME-Version: 1.0\r\n".to_vec();
        for field in header.fields() {
            let is_mime =
                field.name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"Content-"));
            if is_mime && field.value.len() <= limits::MAX_FIELD_BYTES {
                replaced.extend([field.name, b":", field.value].concat());
                if !field.value.ends_with(b"\n") {
                    replaced.extend_from_slice(b"\r\n");
                }
            }
        }
        replaced.extend_from_slice(b"\r\n");
        let replaced_body = replaced.len();
        replaced.extend_from_slice(raw.get(body..end.max(body)).unwrap_or_default());
        let replaced_end = replaced.len();
        given(PARSER.parse_owned(replaced), replaced_body, replaced_end, true)
    }

    pub(super) fn parsed(&self) -> Option<&mail_parser::Message<'a>> {
        self.parsed.as_ref()
    }

    /// Whether the header of a part is the top-level header of the message.
    pub(super) fn has_top_header(&self, part: &MessagePart<'_>) -> bool {
        part.id() == 0 && !self.is_replaced
    }

    /// Where header and body of a part begin in the message, and where the body ends.
    pub(super) fn place(&self, part: &MessagePart<'_>) -> (usize, usize, usize) {
        let shifted = |offset: u32| {
            let offset = at(offset);
            if offset >= self.ends.0 {
                return self.ends.1;
            }
            offset
                .checked_sub(self.bodies.0)
                .map_or(self.header, |inner| self.bodies.1.saturating_add(inner))
        };
        let is_whole = part.id() == 0;
        let header = if is_whole { self.header } else { shifted(part.offset_header()) };
        let body = if is_whole { self.bodies.1 } else { shifted(part.offset_body()).max(header) };
        (header, body, shifted(part.offset_end()).max(body))
    }
}

fn at(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Up to where in the body the library may read: each line that looks like a header field may cost
/// it ten times its bytes.
fn end_of_fields(raw: &[u8], body: usize) -> usize {
    let content = raw.get(body..).unwrap_or_default();
    if content.len() <= UNCOUNTED_BODY_BYTES {
        return raw.len();
    }
    let mut left = limits::MAX_PART_FIELDS;
    for line in memchr::memchr_iter(b'\n', content) {
        let next = content.get(line.saturating_add(1)..).unwrap_or_default();
        let name = next.iter().position(|byte| !matches!(byte, 33..=57 | 59..=126));
        if name.is_some_and(|end| next.get(end) == Some(&b':')) {
            left = left.saturating_sub(1);
            if left == 0 {
                return body.saturating_add(line).saturating_add(1);
            }
        }
    }
    raw.len()
}

static PARSER: LazyLock<MessageParser> = LazyLock::new(|| {
    let parser =
        MessageParser::new().max_depth(limits::MAX_MIME_DEPTH).unknown_headers(HeaderForm::Ignore);
    UNPARSED_FIELDS.into_iter().fold(parser, |parser, name| parser.header(name, HeaderForm::Ignore))
});
