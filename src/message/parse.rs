//! The one place that knows mail-parser: what the rest of the room wants of it, in our own words.

mod structure;
mod titles;
mod value;

use mail_parser::{MessageParser, MessagePart, MessageRef};
use unicode_normalization::UnicodeNormalization;

use crate::model::{PartOffsets, limits};

pub use structure::{BodyValue, Part, Structure};
pub use value::{Group, addresses, date, groups, media, text};

/// Octets of text in which a preview is sought first: more than it holds, for white space goes.
const PREVIEW_OCTETS: usize = 4096;
/// And then, where mark-up left too little.
const PREVIEW_OCTETS_HTML: usize = 128 * 1024;

/// A parsed message. Whatever the octets are, it is one: at worst without a field and with an empty body.
#[derive(Debug)]
pub struct Message<'a> {
    raw: &'a [u8],
    parsed: Option<mail_parser::Message<'a>>,
}

/// A part that is not the text to read (RFC 8621 §4.1.4 `attachments`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its file name.
    pub name: Option<String>,
    /// Its media type, lower case.
    pub media_type: String,
    /// Octets after decoding.
    pub size: usize,
}

impl<'a> Message<'a> {
    /// Parses a message.
    #[must_use]
    pub fn parse(raw: &'a [u8]) -> Self {
        let parser = MessageParser::new().max_depth(limits::MIME_DEPTH);
        Self { raw, parsed: parser.parse(raw) }
    }

    /// The octets.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The text to read, part by part, HTML as its text; `most` octets in all.
    #[must_use]
    pub fn texts(&self, most: usize) -> Vec<String> {
        let (mut out, mut left) = (Vec::new(), most);
        if self.is_bare() {
            let octets = self.raw.get(..most).unwrap_or(self.raw);
            return vec![String::from_utf8_lossy(octets).into_owned()];
        }
        for part in self.listed(|root| Box::new(root.text_body()), |structure| structure.text) {
            if left == 0 {
                break;
            }
            let text = part.text_prefix_bytes(left).or_else(|| structure::odd_text(&part, left));
            if let Some(text) = text {
                let text = if part.is_content_type("text", "html") {
                    mail_parser::html_to_text(&text)
                } else {
                    text.into_owned()
                };
                left = left.saturating_sub(text.len());
                out.push(text);
            }
        }
        out
    }

    /// What the HTML of it says beside its text, part by part; `most` octets in all.
    #[must_use]
    pub fn titles(&self, most: usize) -> Vec<String> {
        let (mut out, mut left) = (Vec::new(), most);
        for part in self.listed(|root| Box::new(root.text_body()), |structure| structure.text) {
            if part.is_content_type("text", "html")
                && let Some(html) = part.text_prefix_bytes(most)
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
        self.parsed.as_ref().is_none_or(|message| message.root().parts().next().is_none())
    }

    /// The parts of one of the lists of RFC 8621 §4.1.4. The library keeps them, and only of media types that are none does
    /// it make something else than they are (RFC 2045 §5.2).
    fn listed<'m>(
        &'m self,
        kept: impl Fn(MessageRef<'m>) -> Box<dyn Iterator<Item = MessagePart<'m>> + 'm>,
        made: impl Fn(Structure<'m>) -> Vec<u32>,
    ) -> Vec<MessagePart<'m>> {
        let Some(message) = &self.parsed else { return Vec::new() };
        let root = message.root();
        let odd = |part: &MessagePart<'_>| {
            let kind = part.content_type();
            !part.is_multipart() && kind.is_some_and(|kind| kind.subtype().is_none() || kind.ctype() == "multipart")
        };
        if !root.parts().take(limits::PARTS).any(|part| odd(&part)) {
            return kept(root).take(limits::PARTS).collect();
        }
        let parts: Vec<MessagePart<'m>> = root.parts().take(limits::PARTS).collect();
        let numbers = made(self.structure()).into_iter();
        numbers.filter_map(|number| parts.get(usize::try_from(number).ok()?).copied()).collect()
    }

    /// The beginning of the text, white space collapsed (RFC 8621 §4.1.4 preview).
    #[must_use]
    pub fn preview(&self) -> String {
        let preview = self.preview_within(PREVIEW_OCTETS);
        // A style sheet may come before the first word.
        if preview.chars().count() < limits::PREVIEW_CHARS && self.raw.len() > PREVIEW_OCTETS {
            return self.preview_within(PREVIEW_OCTETS_HTML);
        }
        preview
    }

    fn preview_within(&self, most: usize) -> String {
        let mut out = String::new();
        for text in self.texts(most) {
            join(&mut out, &text, limits::PREVIEW_CHARS);
        }
        out
    }

    /// RFC 8621 §4.1.4 hasAttachment: something is offered beside the text, and not only what the HTML shows in itself.
    #[must_use]
    pub fn has_attachment(&self) -> bool {
        let parts = self.listed(|root| Box::new(root.attachments()), |structure| structure.attachments);
        parts.iter().any(|part| !part.content_disposition().is_some_and(|disposition| disposition.is_inline()))
    }

    /// RFC 8621 §4.1.4 attachments.
    #[must_use]
    pub fn attachments(&self) -> Vec<Attachment> {
        let parts = self.listed(|root| Box::new(root.attachments()), |structure| structure.attachments);
        parts
            .iter()
            .map(|part| Attachment {
                name: part.attachment_name().map(one_line),
                media_type: structure::media_type(part),
                size: part.decoded_len(),
            })
            .collect()
    }

    /// Where the parts lie, the whole message first.
    #[must_use]
    pub fn parts(&self) -> Vec<PartOffsets> {
        let Some(message) = self.parsed.as_ref().filter(|_| !self.is_bare()) else {
            return vec![PartOffsets {
                end: u32::try_from(self.raw.len()).unwrap_or(u32::MAX),
                ..PartOffsets::default()
            }];
        };
        let parts = message.root().parts().take(limits::PARTS);
        parts
            .map(|part| {
                let header = part.offset_header();
                let body = part.offset_body().max(header);
                let encoding = match part.encoding() {
                    mail_parser::Encoding::None => 0,
                    mail_parser::Encoding::QuotedPrintable => 1,
                    mail_parser::Encoding::Base64 => 2,
                };
                PartOffsets { header, body, end: part.offset_end().max(body), encoding }
            })
            .collect()
    }
}

/// One line, NFC: controls and runs of white space become one space.
pub(super) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    if text.is_ascii() {
        join(&mut out, text, usize::MAX);
    } else {
        join(&mut out, &text.nfc().collect::<String>(), usize::MAX);
    }
    out
}

/// Adds words with one space between them, until there are so many characters.
fn join(out: &mut String, text: &str, chars: usize) {
    let mut left = chars.saturating_sub(out.chars().count());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
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

    #[test]
    fn anything_is_a_message() {
        for raw in [&b""[..], b"\r\n", b"no header", b"Content-Type: multipart/mixed\r\n\r\nx", &[0xff; 99]] {
            let message = Message::parse(raw);
            let _preview = message.preview();
            let _parts = (message.parts(), message.attachments(), message.texts(100));
        }
        let html = Message::parse(b"Content-Type: text/html\r\n\r\n<p>Hello <b>there</b></p><script>no()</script>\r\n");
        assert_eq!(html.preview(), "Hello there");
        let style = ".a{color:red}\r\n".repeat(600);
        let raw = format!("Content-Type: text/html\r\n\r\n<style>{style}</style><p>Hello there</p>\r\n");
        assert_eq!(Message::parse(raw.as_bytes()).preview(), "Hello there");
    }
}
