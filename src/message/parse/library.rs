//! Chooses what of a message the library mail-parser parses, and maps the offsets of its parts back
//! to the message.
//!
//! The library is given the message as it is, except:
//! - The bytes before the header are left out.
//! - A header that is larger than `limits::MAX_PARSED_HEADER_BYTES`, or that the library would end
//!   elsewhere than `Header` does, is replaced by MIME-Version and those of its `Content-` fields
//!   that have at most `limits::MAX_FIELD_BYTES`.
//! - The lines of the body that look like header fields are counted, except the first line. The
//!   body is cut before the line at which the count reaches `limits::MAX_PART_FIELDS`.

use std::sync::LazyLock;

use mail_parser::{HeaderForm, HeaderName, MessageParser, MessagePart};

use crate::message::header::Header;
use crate::model::limits;

/// A shorter body cannot have `limits::MAX_PART_FIELDS` lines with a field: each has a name, a
/// colon and a line end.
const UNCOUNTED_BODY_BYTES: usize = 3 * limits::MAX_PART_FIELDS;

/// The library ignores these fields, since parsing them may need memory of thirty times their size.
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

#[derive(Debug)]
pub(super) struct LibraryMessage<'a> {
    parsed: Option<mail_parser::Message<'a>>,
    /// Where the header begins in the message.
    header: usize,
    /// Where the body begins: in the bytes given to the library, and in the message.
    bodies: (usize, usize),
    /// Where the body ends: in the bytes given to the library, and in the message.
    ends: (usize, usize),
    /// Whether the library was given another header.
    is_replaced: bool,
}

impl<'a> LibraryMessage<'a> {
    pub(super) fn parse(header: &Header<'a>) -> Self {
        let raw = header.raw();
        let (start, body) = (header.start(), header.body_offset());
        let end = end_of_fields(raw, body);
        let whole = raw.get(start..end).unwrap_or_default();
        let new = |parsed, given_body: usize, given_end, is_replaced| Self {
            parsed,
            header: start,
            bodies: (given_body, body),
            ends: (given_end, raw.len()),
            is_replaced,
        };
        if body.saturating_sub(start) <= limits::MAX_PARSED_HEADER_BYTES {
            let parsed = PARSER.parse(whole);
            let parsed_body = parsed.as_ref().and_then(|message| message.root().parts().next());
            let parsed_body = parsed_body.map(|part| at(part.offset_body()).saturating_add(start));
            if parsed_body.is_none_or(|offset| offset == body) {
                return new(parsed, body.saturating_sub(start), whole.len(), false);
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
        new(PARSER.parse_owned(replaced), replaced_body, replaced_end, true)
    }

    /// Returns what the library parsed; `None` if it took the bytes for no message.
    pub(super) fn parsed(&self) -> Option<&mail_parser::Message<'a>> {
        self.parsed.as_ref()
    }

    /// Whether the part is the whole message, and the library was given its header.
    pub(super) fn has_top_header(&self, part: &MessagePart<'_>) -> bool {
        part.id() == 0 && !self.is_replaced
    }

    /// Returns where the header and the body of a part begin in the message, and where the body
    /// ends.
    pub(super) fn offsets(&self, part: &MessagePart<'_>) -> (usize, usize, usize) {
        let to_message = |offset: u32| {
            let offset = at(offset);
            if offset >= self.ends.0 {
                return self.ends.1;
            }
            // What lies before the body is in the header, which may have been replaced.
            offset
                .checked_sub(self.bodies.0)
                .map_or(self.header, |inner| self.bodies.1.saturating_add(inner))
        };
        let is_whole = part.id() == 0;
        let header = if is_whole { self.header } else { to_message(part.offset_header()) };
        let body =
            if is_whole { self.bodies.1 } else { to_message(part.offset_body()).max(header) };
        (header, body, to_message(part.offset_end()).max(body))
    }
}

fn at(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Returns up to where the library may read. Each line that looks like a header field may cost it
/// memory of ten times its bytes.
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
