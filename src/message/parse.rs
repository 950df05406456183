//! Parses messages with the mail-parser library.
//!
//! The library finds the parts of a message, and reads the fields that decide what a part is. Other
//! header fields are read here, and transfer encodings, charsets and names are decoded here.

mod address;
mod charset;
mod encoded;
mod library;
mod params;
mod structure;
mod titles;
mod value;

use std::borrow::Cow;
use std::cell::OnceCell;

use mail_parser::{MessagePart, MessageRef};

use super::decode;
use super::header::{Field, Header, fields};
use super::line::{composed, one_line, words};
use super::words::cut;
use crate::model::{PartOffsets, limits};
use library::LibraryMessage;

pub use address::Group;
pub(super) use charset::CharsetCodec;
#[cfg(any(test, feature = "internals"))]
pub use structure::BodyValue;
pub use structure::{Part, Structure};
pub(super) use value::readable;
pub use value::{addresses, all_addresses, comparable_text, date, groups, media, text};

/// Decodes the content of a text part by the charset that its Content-Type names. Without a known
/// one, the text is UTF-8, or else windows-1252.
#[must_use]
pub fn charset_text<'t>(label: Option<&str>, bytes: &'t [u8]) -> Cow<'t, str> {
    match label.and_then(CharsetCodec::of_label) {
        Some(codec) => codec.decode(bytes).0,
        None => charset::guessed(bytes).0,
    }
}

/// Whether `charset_text` knows a charset by this name.
#[must_use]
pub fn is_known_charset(label: &str) -> bool {
    CharsetCodec::of_label(label).is_some()
}

/// Converts HTML to the text that its reader sees.
#[must_use]
pub fn html_text(html: &str) -> String {
    mail_parser::html_to_text(html)
}

/// Bytes of text from which a preview is made.
const PREVIEW_BYTES: usize = 4096;
/// Bytes of text for a second try, if the first gave less than a full preview: a style sheet may
/// come before the first word of HTML.
const PREVIEW_BYTES_HTML: usize = 128 * 1024;

/// How many decoded texts are kept, of at most `decode::DECODE_CHUNK` encoded bytes each.
const MAX_KEPT_TEXTS: usize = 16;

/// A parsed message. Any bytes can be parsed: at worst the message has no field, and all of it is
/// the body.
#[derive(Debug)]
pub struct Message<'a> {
    header: Header<'a>,
    library: LibraryMessage<'a>,
    /// The decoded texts of the first parts, if they are small. The preview, the search words and
    /// the titles are made of them.
    texts: OnceCell<Vec<OnceCell<Cow<'a, str>>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub name: Option<String>,
    /// In lower case.
    pub media_type: String,
    /// After decoding, in bytes.
    pub size: usize,
}

impl<'a> Message<'a> {
    #[must_use]
    pub fn parse(raw: &'a [u8]) -> Self {
        Self::with_header(Header::split(raw))
    }

    #[must_use]
    pub fn with_header(header: Header<'a>) -> Self {
        let library = LibraryMessage::parse(&header);
        Self { header, library, texts: OnceCell::new() }
    }

    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.header.raw()
    }

    #[must_use]
    pub fn header(&self) -> &Header<'a> {
        &self.header
    }

    /// Returns the text to read, part by part. HTML is converted to text. At most about `max` bytes
    /// in all: each text is made of no more bytes than were left.
    #[must_use]
    pub fn texts(&self, max: usize) -> Vec<Cow<'_, str>> {
        let (mut out, mut left) = (Vec::new(), max);
        if self.is_body_only() {
            let bytes = self.raw().get(..max).map_or(self.raw(), whole_characters);
            return vec![charset::guessed(bytes).0];
        }
        for part in self.listed(|root| Box::new(root.text_body()), |structure| structure.text) {
            if left == 0 {
                break;
            }
            if let Some(text) = self.text_prefix(&part, left) {
                let text = if part.is_content_type("text", "html") {
                    Cow::Owned(mail_parser::html_to_text(&text))
                } else {
                    text
                };
                left = left.saturating_sub(text.len());
                out.push(text);
            }
        }
        out
    }

    /// Returns the texts of HTML attributes (`alt`, `title`), part by part, at most `max` bytes in
    /// all.
    #[must_use]
    pub fn titles(&self, max: usize) -> Vec<String> {
        let (mut out, mut left) = (Vec::new(), max);
        for part in self.listed(|root| Box::new(root.text_body()), |structure| structure.text) {
            if part.is_content_type("text", "html")
                && let Some(html) = self.text_prefix(&part, max)
            {
                let texts = titles::titles(&html, left);
                left = left.saturating_sub(texts.iter().map(String::len).sum());
                out.extend(texts);
            }
        }
        out
    }

    /// Whether the message has neither a header nor the empty line that ends one. Then all of it is
    /// text.
    fn is_body_only(&self) -> bool {
        self.library.parsed().is_none_or(|message| message.root().parts().next().is_none())
    }

    /// Returns the parts of one of the lists of RFC 8621 §4.1.4. It is the list of the library. But
    /// if a media type in the message has no subtype, or a multipart is invalid, it is the list of
    /// `structure`: such a part usually is text, and the library does not take it for text.
    fn listed<'m>(
        &'m self,
        library_list: impl Fn(MessageRef<'m>) -> Box<dyn Iterator<Item = MessagePart<'m>> + 'm>,
        own_list: impl Fn(Structure<'m>) -> Vec<u32>,
    ) -> Vec<MessagePart<'m>> {
        let Some(message) = self.library.parsed() else { return Vec::new() };
        let root = message.root();
        let is_invalid = |part: &MessagePart<'_>| {
            let kind = part.content_type();
            !part.is_multipart()
                && kind.is_some_and(|kind| kind.subtype().is_none() || kind.ctype() == "multipart")
        };
        if !root.parts().take(limits::MAX_MIME_PARTS).any(|part| is_invalid(&part)) {
            return library_list(root).take(limits::MAX_MIME_PARTS).collect();
        }
        let parts: Vec<MessagePart<'m>> = root.parts().take(limits::MAX_MIME_PARTS).collect();
        let numbers = own_list(self.structure()).into_iter();
        numbers.filter_map(|number| parts.get(usize::try_from(number).ok()?).copied()).collect()
    }

    /// Returns the beginning of the text, at most `limits::MAX_PREVIEW_CHARS`, with each run of
    /// white space and controls as one blank (RFC 8621 §4.1.4).
    #[must_use]
    pub fn preview(&self) -> String {
        let preview = self.preview_within(PREVIEW_BYTES);
        if preview.chars().count() < limits::MAX_PREVIEW_CHARS && self.raw().len() > PREVIEW_BYTES {
            return self.preview_within(PREVIEW_BYTES_HTML);
        }
        preview
    }

    fn preview_within(&self, max: usize) -> String {
        let mut out = String::new();
        for text in self.texts(max) {
            join(&mut out, &text, limits::MAX_PREVIEW_CHARS);
        }
        out
    }

    /// Whether there is an attachment other than inline parts (RFC 8621 §4.1.4).
    #[must_use]
    pub fn has_attachment(&self) -> bool {
        let parts =
            self.listed(|root| Box::new(root.attachments()), |structure| structure.attachments);
        parts.iter().any(|part| {
            !part.content_disposition().is_some_and(|disposition| disposition.is_inline())
        })
    }

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

    /// Returns the offsets of the parts, the whole message first; at most `limits::MAX_MIME_PARTS`.
    /// A message within the message is one part.
    #[must_use]
    pub fn parts(&self) -> Vec<PartOffsets> {
        let Some(message) = self.library.parsed().filter(|_| !self.is_body_only()) else {
            return vec![PartOffsets {
                end: u32::try_from(self.raw().len()).unwrap_or(u32::MAX),
                ..PartOffsets::default()
            }];
        };
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let parts = message.root().parts().take(limits::MAX_MIME_PARTS);
        parts
            .map(|part| {
                let (header, body, end) = self.library.offsets(&part);
                let encoding = self.transfer_encoding(&part);
                PartOffsets {
                    header: offset(header),
                    body: offset(body),
                    end: offset(end),
                    encoding,
                }
            })
            .collect()
    }

    fn content(&self, part: &MessagePart<'_>) -> &'a [u8] {
        let (_, body, end) = self.library.offsets(part);
        self.raw().get(body..end).unwrap_or_default()
    }

    fn transfer_encoding(&self, part: &MessagePart<'_>) -> u8 {
        match part.encoding() {
            mail_parser::Encoding::QuotedPrintable => decode::QUOTED_PRINTABLE,
            mail_parser::Encoding::Base64 => decode::BASE64,
            mail_parser::Encoding::None if part.has_known_transfer_encoding() => decode::IDENTITY,
            mail_parser::Encoding::None => {
                let name = self
                    .field(part, "Content-Transfer-Encoding")
                    .map(|field| field.without_comments());
                // The library knows the others.
                let named = decode::encoding_named(&name.unwrap_or_default());
                named.filter(|encoding| *encoding == decode::UUENCODE).unwrap_or(decode::IDENTITY)
            }
        }
    }

    /// Returns the last field of this name in the header of a part. For the whole message, only
    /// MIME fields may be asked for: the library may have been given no others (`library`).
    fn field<'m>(&self, part: &MessagePart<'m>, name: &str) -> Option<Field<'m>>
    where
        'a: 'm,
    {
        if self.library.has_top_header(part) {
            return self.header.fields().rfind(|field| field.is(name));
        }
        fields(part.raw_headers()).filter(|field| field.is(name)).last()
    }

    /// Returns the file name of a part: from Content-Disposition (RFC 2231), or else from
    /// Content-Type (RFC 2047).
    fn name<'m>(&self, part: &MessagePart<'m>) -> Option<Cow<'m, str>>
    where
        'a: 'm,
    {
        let file_name = |name: &str, parameter: &str, parsed: Option<&'m str>| {
            let field = self.field(part, name)?;
            // The library reads a plain value correctly.
            let is_plain = field.value.is_ascii()
                && !field.value.contains(&b'*')
                && !field.value.windows(2).any(|two| two == b"=?");
            if is_plain {
                return parsed.map(Cow::Borrowed);
            }
            params::parameter(&field.readable(), parameter).map(Cow::Owned)
        };
        let disposition =
            part.content_disposition().and_then(|disposition| disposition.attribute("filename"));
        file_name("Content-Disposition", "filename", disposition).or_else(|| {
            file_name(
                "Content-Type",
                "name",
                part.content_type().and_then(|kind| kind.attribute("name")),
            )
        })
    }

    /// Returns the beginning of the text of a part, at most `max` bytes; `None` if it is no text.
    fn text_prefix(&self, part: &MessagePart<'_>, max: usize) -> Option<Cow<'_, str>> {
        if !part.is_text() && !structure::media_type(part).starts_with("text/") {
            return None;
        }
        if let Some(text) = self.whole_text(part) {
            return Some(Cow::Borrowed(cut(text, max)));
        }
        // In UTF-16 an ASCII character has two bytes. Some more bytes are decoded, because a few
        // may be cut off at the end.
        let wanted = max.saturating_mul(2).saturating_add(64);
        let (bytes, is_whole) =
            decode::decode_prefix(self.transfer_encoding(part), self.content(part), wanted);
        let mut text = coding(part)
            .0
            .decode(if is_whole { &bytes } else { whole_characters(&bytes) })
            .0
            .into_owned();
        if !is_whole {
            // The last character may be cut.
            text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        }
        text.truncate(text.floor_char_boundary(max));
        Some(Cow::Owned(text))
    }

    /// Returns the text of a part, which is kept. `None` if the part is too large for that, or not
    /// among the first `MAX_KEPT_TEXTS`.
    fn whole_text(&self, part: &MessagePart<'_>) -> Option<&str> {
        let content = self.content(part);
        if content.len() > decode::DECODE_CHUNK {
            return None;
        }
        let texts = self.texts.get_or_init(|| {
            let parts = self.library.parsed().map(|message| message.root().parts());
            parts.into_iter().flatten().take(MAX_KEPT_TEXTS).map(|_| OnceCell::new()).collect()
        });
        let text = texts.get(usize::try_from(part.id()).ok()?)?;
        Some(text.get_or_init(|| {
            let coding = coding(part).0;
            match decode::decode(self.transfer_encoding(part), content).0 {
                Cow::Borrowed(bytes) => coding.decode(bytes).0,
                Cow::Owned(bytes) => Cow::Owned(coding.decode(&bytes).0.into_owned()),
            }
        }))
    }
}

/// Returns the charset of a part, and whether it is known. If the part names none, the default
/// counts as known.
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

/// Returns the charset that a Content-Type value names, if it is known.
pub(super) fn charset_of(value: &[u8]) -> Option<CharsetCodec> {
    CharsetCodec::of_label(&params::parameter(&readable(value, None), "charset")?)
}

/// Returns the bytes without an incomplete UTF-8 character at their end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    }
}

/// Appends the words of a text, with a blank between two words, until `out` has `chars` characters.
fn join(out: &mut String, text: &str, chars: usize) {
    let mut left = chars.saturating_sub(out.chars().count());
    for word in words(text) {
        if !out.is_empty() && left > 0 {
            out.push(' ');
            left = left.saturating_sub(1);
        }
        let count = word.chars().count();
        if count >= left {
            let end = word.char_indices().nth(left).map_or(word.len(), |(end, _)| end);
            out.push_str(word.get(..end).unwrap_or_default());
            return;
        }
        out.push_str(word);
        left = left.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Regression test: a character cut in two made the whole text windows-1252.
    #[test]
    fn a_text_without_a_header_is_cut_between_characters() {
        let raw = "\u{e9}".repeat(PREVIEW_BYTES);
        let message = Message::parse(raw.as_bytes());
        assert!(message.is_body_only());
        assert_eq!(message.texts(5), ["\u{e9}\u{e9}"]);
        assert_eq!(message.texts(usize::MAX), [raw.as_str()]);
        assert!(message.preview().chars().all(|c| c == '\u{e9}'));
    }

    #[test]
    fn any_bytes_parse_as_a_message() {
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

    proptest! {
        #[test]
        fn joined_words_are_those_of_the_text(
            texts in proptest::collection::vec(
                concat!(
                    "([a-z]{0,9}|é{1,3}|[ \t\r\n\x0b\x7f]|\u{85}|\u{3000}|\\PC",
                    "|[\x00-\x7f]){0,20}",
                ),
                0..3,
            ),
            chars in 0usize..60,
        ) {
            let (mut out, mut wanted) = (String::new(), String::new());
            for text in &texts {
                join(&mut out, text, chars);
                let separator = |c: char| c.is_whitespace() || c.is_control();
                for word in text.split(separator).filter(|word| !word.is_empty()) {
                    let space = if wanted.is_empty() { "" } else { " " };
                    let left = chars.saturating_sub(wanted.chars().count());
                    wanted.extend(space.chars().chain(word.chars()).take(left));
                }
            }
            prop_assert_eq!(out, wanted);
        }

        /// A text that was decoded before is cut to the same bytes.
        #[test]
        fn texts_do_not_depend_on_what_was_asked_before(
            body in "([A-Za-z ]{0,9}|=C3=BC|é|<p>|=\r\n|\r\n){0,30}",
            kind in prop_oneof!["text/plain", "text/html"],
            encoding in prop_oneof!["8bit", "quoted-printable", "base64"],
            max in 0usize..200,
        ) {
            let raw = format!(
                "Content-Type: {kind}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\
                 \r\n{body}"
            );
            let (asked, fresh) = (Message::parse(raw.as_bytes()), Message::parse(raw.as_bytes()));
            let (_preview, _all) = (asked.preview(), asked.texts(usize::MAX));
            prop_assert_eq!(asked.texts(max), fresh.texts(max));
            prop_assert_eq!(asked.preview(), fresh.preview());
        }
    }
}
