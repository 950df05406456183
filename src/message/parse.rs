//! The one place that knows mail-parser: what the rest of the room wants of it, in our own words.
//!
//! The library finds the parts of a message and reads what decides what a part is. Header fields,
//! transfer encodings, charsets and names are read here. It is given no more of a header than is
//! read (`given`), and is told to parse no field beyond those of MIME.

mod address;
mod charset;
mod encoded;
mod given;
mod params;
mod structure;
mod titles;
mod value;

use std::borrow::Cow;

use mail_parser::{MessagePart, MessageRef};

use super::decode;
use super::header::{Field, Header, fields};
use super::line::{composed, one_line, words};
use crate::model::{PartOffsets, limits};
use given::LibraryMessage;

pub use address::Group;
pub(super) use charset::CharsetCodec;
#[cfg(any(test, feature = "internals"))]
pub use structure::BodyValue;
pub use structure::{Part, Structure};
pub(super) use value::readable;
pub use value::{addresses, date, groups, media, text};

/// Bytes of text in which a preview is sought first: more than it holds, for white space goes.
const PREVIEW_BYTES: usize = 4096;
/// And then, where mark-up left too little.
const PREVIEW_BYTES_HTML: usize = 128 * 1024;

/// A parsed message. Whatever the bytes are, it is one: at worst without a field and with an empty
/// body.
#[derive(Debug)]
pub struct Message<'a> {
    header: Header<'a>,
    given: LibraryMessage<'a>,
}

/// A part that is not the text to read (RFC 8621 §4.1.4 `attachments`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its file name.
    pub name: Option<String>,
    /// Its media type, lower case.
    pub media_type: String,
    /// Bytes after decoding.
    pub size: usize,
}

impl<'a> Message<'a> {
    /// Parses a message.
    #[must_use]
    pub fn parse(raw: &'a [u8]) -> Self {
        Self::with_header(Header::split(raw))
    }

    /// Parses the message whose header was split already.
    #[must_use]
    pub fn with_header(header: Header<'a>) -> Self {
        let given = LibraryMessage::parse(&header);
        Self { header, given }
    }

    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.header.raw()
    }

    /// Its top-level header.
    #[must_use]
    pub fn header(&self) -> &Header<'a> {
        &self.header
    }

    /// The text to read, part by part, HTML as its text; `most` bytes in all.
    #[must_use]
    pub fn texts(&self, most: usize) -> Vec<String> {
        let (mut out, mut left) = (Vec::new(), most);
        if self.is_bare() {
            let bytes = self.raw().get(..most).map_or(self.raw(), whole_characters);
            return vec![charset::guessed(bytes).0.into_owned()];
        }
        for part in self.listed(|root| Box::new(root.text_body()), |structure| structure.text) {
            if left == 0 {
                break;
            }
            if let Some(text) = self.text_prefix(&part, left) {
                let text = if part.is_content_type("text", "html") {
                    mail_parser::html_to_text(&text)
                } else {
                    text
                };
                left = left.saturating_sub(text.len());
                out.push(text);
            }
        }
        out
    }

    /// What the HTML of it says beside its text, part by part; `most` bytes in all.
    #[must_use]
    pub fn titles(&self, most: usize) -> Vec<String> {
        let (mut out, mut left) = (Vec::new(), most);
        for part in self.listed(|root| Box::new(root.text_body()), |structure| structure.text) {
            if part.is_content_type("text", "html")
                && let Some(html) = self.text_prefix(&part, most)
            {
                let said = titles::titles(&html, left);
                left = left.saturating_sub(said.iter().map(String::len).sum());
                out.extend(said);
            }
        }
        out
    }

    /// Whether nothing of it is a header, nor its end: then all of it is text.
    fn is_bare(&self) -> bool {
        self.given.parsed().is_none_or(|message| message.root().parts().next().is_none())
    }

    /// The parts of one of the lists of RFC 8621 §4.1.4. The library keeps them, and only of media
    /// types that are none does it make something else than they are (RFC 2045 §5.2).
    fn listed<'m>(
        &'m self,
        kept: impl Fn(MessageRef<'m>) -> Box<dyn Iterator<Item = MessagePart<'m>> + 'm>,
        made: impl Fn(Structure<'m>) -> Vec<u32>,
    ) -> Vec<MessagePart<'m>> {
        let Some(message) = self.given.parsed() else { return Vec::new() };
        let root = message.root();
        let odd = |part: &MessagePart<'_>| {
            let kind = part.content_type();
            !part.is_multipart()
                && kind.is_some_and(|kind| kind.subtype().is_none() || kind.ctype() == "multipart")
        };
        if !root.parts().take(limits::MAX_MIME_PARTS).any(|part| odd(&part)) {
            return kept(root).take(limits::MAX_MIME_PARTS).collect();
        }
        let parts: Vec<MessagePart<'m>> = root.parts().take(limits::MAX_MIME_PARTS).collect();
        let numbers = made(self.structure()).into_iter();
        numbers.filter_map(|number| parts.get(usize::try_from(number).ok()?).copied()).collect()
    }

    /// The beginning of the text, white space collapsed (RFC 8621 §4.1.4 preview).
    #[must_use]
    pub fn preview(&self) -> String {
        let preview = self.preview_within(PREVIEW_BYTES);
        // A style sheet may come before the first word.
        if preview.chars().count() < limits::MAX_PREVIEW_CHARS && self.raw().len() > PREVIEW_BYTES {
            return self.preview_within(PREVIEW_BYTES_HTML);
        }
        preview
    }

    fn preview_within(&self, most: usize) -> String {
        let mut out = String::new();
        for text in self.texts(most) {
            join(&mut out, &text, limits::MAX_PREVIEW_CHARS);
        }
        out
    }

    /// RFC 8621 §4.1.4 hasAttachment: something is offered beside the text, and not only what the
    /// HTML shows in itself.
    #[must_use]
    pub fn has_attachment(&self) -> bool {
        let parts =
            self.listed(|root| Box::new(root.attachments()), |structure| structure.attachments);
        parts.iter().any(|part| {
            !part.content_disposition().is_some_and(|disposition| disposition.is_inline())
        })
    }

    /// RFC 8621 §4.1.4 attachments.
    #[must_use]
    pub fn attachments(&self) -> Vec<Attachment> {
        let parts =
            self.listed(|root| Box::new(root.attachments()), |structure| structure.attachments);
        parts
            .iter()
            .map(|part| Attachment {
                name: self.name(part).map(|name| one_line(&composed(&name))),
                media_type: structure::media_type(part),
                size: decode::decoded_len(self.transfer_encoding(part), self.content(part)),
            })
            .collect()
    }

    /// Where the parts lie, the whole message first.
    #[must_use]
    pub fn parts(&self) -> Vec<PartOffsets> {
        let Some(message) = self.given.parsed().filter(|_| !self.is_bare()) else {
            return vec![PartOffsets {
                end: u32::try_from(self.raw().len()).unwrap_or(u32::MAX),
                ..PartOffsets::default()
            }];
        };
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let parts = message.root().parts().take(limits::MAX_MIME_PARTS);
        parts
            .map(|part| {
                let (header, body, end) = self.given.place(&part);
                let encoding = self.transfer_encoding(&part);
                PartOffsets {
                    header: number(header),
                    body: number(body),
                    end: number(end),
                    encoding,
                }
            })
            .collect()
    }

    /// The content of a part as it is written.
    fn content(&self, part: &MessagePart<'_>) -> &'a [u8] {
        let (_, body, end) = self.given.place(part);
        self.raw().get(body..end).unwrap_or_default()
    }

    /// How the content of a part is encoded, as `PartOffsets` has it.
    fn transfer_encoding(&self, part: &MessagePart<'_>) -> u8 {
        match part.encoding() {
            mail_parser::Encoding::QuotedPrintable => decode::QUOTED_PRINTABLE,
            mail_parser::Encoding::Base64 => decode::BASE64,
            mail_parser::Encoding::None if part.has_known_transfer_encoding() => 0,
            mail_parser::Encoding::None => {
                let said = self
                    .field(part, "Content-Transfer-Encoding")
                    .map(|field| field.without_comments());
                let said = said.unwrap_or_default().to_ascii_lowercase();
                if ["x-uuencode", "uuencode", "x-uue", "uue"].contains(&said.as_str()) {
                    decode::UUENCODE
                } else {
                    0
                }
            }
        }
    }

    /// The last field of a name in the header of a part, MIME fields alone of the whole message.
    fn field<'m>(&self, part: &MessagePart<'m>, name: &str) -> Option<Field<'m>>
    where
        'a: 'm,
    {
        if self.given.has_top_header(part) {
            return self.header.fields().rfind(|field| field.is(name));
        }
        fields(part.raw_headers()).filter(|field| field.is(name)).last()
    }

    /// The file name of a part: of Content-Disposition (RFC 2231), else of Content-Type (RFC 2047).
    fn name<'m>(&self, part: &MessagePart<'m>) -> Option<Cow<'m, str>>
    where
        'a: 'm,
    {
        let of = |name: &str, parameter: &str, read: Option<&'m str>| {
            let field = self.field(part, name)?;
            // What the library reads as it is meant.
            let is_plain = field.value.is_ascii()
                && !field.value.contains(&b'*')
                && !field.value.windows(2).any(|two| two == b"=?");
            if is_plain {
                return read.map(Cow::Borrowed);
            }
            params::parameter(&field.readable(), parameter).map(Cow::Owned)
        };
        let disposition =
            part.content_disposition().and_then(|disposition| disposition.attribute("filename"));
        of("Content-Disposition", "filename", disposition).or_else(|| {
            of("Content-Type", "name", part.content_type().and_then(|kind| kind.attribute("name")))
        })
    }

    /// The beginning of the text of a part that is text, `most` bytes of it.
    fn text_prefix(&self, part: &MessagePart<'_>, most: usize) -> Option<String> {
        if !part.is_text() && !structure::media_type(part).starts_with("text/") {
            return None;
        }
        // In UTF-16 each character of ASCII has two bytes.
        let wanted = most.saturating_mul(2).saturating_add(64);
        let (bytes, is_whole) =
            decode::decode_prefix(self.transfer_encoding(part), self.content(part), wanted);
        let mut text = coding(part)
            .0
            .decode(if is_whole { &bytes } else { whole_characters(&bytes) })
            .0
            .into_owned();
        if !is_whole {
            // A character that was cut.
            text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        }
        text.truncate(text.floor_char_boundary(most));
        Some(text)
    }
}

/// The charset of a text, and whether it is known.
fn coding(part: &MessagePart<'_>) -> (CharsetCodec, bool) {
    match part
        .content_type()
        .and_then(|kind| kind.attribute("charset"))
        .filter(|label| !label.trim().is_empty())
    {
        None => (CharsetCodec::Ascii, true),
        Some(label) => CharsetCodec::of_label(label)
            .map_or((CharsetCodec::Ascii, false), |coding| (coding, true)),
    }
}

/// The charset that the value of a Content-Type field names.
pub(super) fn charset_of(value: &[u8]) -> Option<CharsetCodec> {
    CharsetCodec::of_label(&params::parameter(&readable(value, None), "charset")?)
}

/// Bytes without the beginning of a character of UTF-8 at their end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    }
}

/// Adds words with one space between them, until the text has the wanted number of characters.
fn join(out: &mut String, text: &str, chars: usize) {
    let mut left = chars.saturating_sub(out.chars().count());
    for word in words(text) {
        let space = if out.is_empty() { "" } else { " " };
        for c in space.chars().chain(word.chars()) {
            if left == 0 {
                return;
            }
            out.push(c);
            left = left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cut in a character made windows-1252 of the whole text.
    #[test]
    fn a_text_without_a_header_is_cut_between_characters() {
        let raw = "\u{e9}".repeat(PREVIEW_BYTES);
        let message = Message::parse(raw.as_bytes());
        assert!(message.is_bare());
        assert_eq!(message.texts(5), ["\u{e9}\u{e9}"]);
        assert_eq!(message.texts(usize::MAX), [raw.as_str()]);
        assert!(message.preview().chars().all(|c| c == '\u{e9}'));
    }

    #[test]
    fn anything_is_a_message() {
        for raw in [
            &b""[..],
            b"\r\n",
            b"no header",
            b"Content-Type: multipart/mixed\r\n\r\nx",
            &[0xff; 99],
        ] {
            let message = Message::parse(raw);
            let _preview = message.preview();
            let _parts = (message.parts(), message.attachments(), message.texts(100));
        }
        let html = Message::parse(
            b"Content-Type: text/html\r\n\r\n<p>Hello <b>there</b></p><script>no()</script>\r\n",
        );
        assert_eq!(html.preview(), "Hello there");
        let style = ".a{color:red}\r\n".repeat(600);
        let raw =
            format!("Content-Type: text/html\r\n\r\n<style>{style}</style><p>Hello there</p>\r\n");
        assert_eq!(Message::parse(raw.as_bytes()).preview(), "Hello there");
    }
}
