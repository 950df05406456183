//! The one place that knows mail-parser: what the rest of the room wants of it, in our own words.

use mail_parser::{HeaderForm, MessageParser};
use unicode_normalization::UnicodeNormalization;

use crate::model::{Address, EmailAddress, PartOffsets, SentAt, UtcMillis, limits};

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
        let Some(message) = &self.parsed else { return out };
        for part in message.root().text_body().take(limits::PARTS) {
            if left == 0 {
                break;
            }
            if let Some(text) = part.text_prefix_bytes(left) {
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

    /// RFC 8621 §4.1.4 hasAttachment.
    #[must_use]
    pub fn has_attachment(&self) -> bool {
        self.parsed.as_ref().is_some_and(|message| message.root().has_attachments())
    }

    /// RFC 8621 §4.1.4 attachments.
    #[must_use]
    pub fn attachments(&self) -> Vec<Attachment> {
        let Some(message) = &self.parsed else { return Vec::new() };
        let parts = message.root().attachments().take(limits::PARTS);
        parts
            .map(|part| {
                let media_type = part.content_type().map_or_else(
                    || "text/plain".to_owned(),
                    |kind| format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or("*")).to_lowercase(),
                );
                Attachment { name: part.attachment_name().map(one_line), media_type, size: part.decoded_len() }
            })
            .collect()
    }

    /// Where the parts lie, the whole message first.
    #[must_use]
    pub fn parts(&self) -> Vec<PartOffsets> {
        let Some(message) = &self.parsed else { return Vec::new() };
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

/// The addresses of a field's value, groups flattened.
#[must_use]
pub fn addresses(value: &[u8]) -> Vec<EmailAddress> {
    let parsed = HeaderForm::Addresses.parse(value);
    let Some(list) = parsed.value().as_address() else { return Vec::new() };
    let mailboxes = list.mailboxes().take(limits::ADDRESSES);
    mailboxes
        .filter_map(|mailbox| {
            let name = mailbox.name().map(one_line).filter(|name| !name.is_empty());
            let email = mailbox.address().map(one_line).unwrap_or_default();
            // A quoted local part (RFC 5322 §3.4.1) comes as a name before a bare domain.
            let (name, email) = match (name, email.strip_prefix('@')) {
                (Some(local), Some(domain)) => (None, Address::from_parts(local, domain).to_string()),
                (name, _) => (name, email),
            };
            (!email.is_empty() || name.is_some()).then_some(EmailAddress { name, email })
        })
        .collect()
}

/// A field's value as people read it: encoded words decoded, one line, NFC.
#[must_use]
pub fn text(value: &[u8]) -> String {
    let parsed = HeaderForm::Text.parse(value);
    parsed.value().as_text().map(one_line).unwrap_or_default()
}

/// The Date field's value; nothing where it is no date of the calendar. Forms that the library refuses (asctime, no
/// seconds with a named zone, hyphens) are read by `date`.
#[must_use]
pub fn date(value: &[u8]) -> Option<SentAt> {
    let parsed = HeaderForm::Date.parse(value);
    let Some(date) = parsed.value().as_datetime() else { return super::date::obsolete(value) };
    if !date.is_valid() || date.day > super::date::days(date.year.into(), date.month) {
        return None;
    }
    let minutes = i16::from(date.tz_hour).checked_mul(60)?.checked_add(i16::from(date.tz_minute))?;
    let offset_minutes = if date.tz_before_gmt { minutes.checked_neg()? } else { minutes };
    Some(SentAt { at: UtcMillis(date.to_timestamp().checked_mul(1000)?), offset_minutes })
}

/// One line, NFC: controls and runs of white space become one space.
fn one_line(text: &str) -> String {
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
    fn dates_that_are_none_are_none() {
        let at = |text: &str| date(text.as_bytes()).map(|sent| (sent.at.rfc3339(), sent.offset_minutes));
        assert_eq!(at(" Sat, 21 Nov 2026 10:00:00 +0100\r\n"), Some(("2026-11-21T09:00:00Z".into(), 60)));
        assert_eq!(at(" 21 Nov 26 10:00 -0330\r\n").map(|(_, zone)| zone), Some(-210));
        assert_eq!(at(" Tue, 31 Feb 2026 10:00:00 +0000\r\n"), None);
        assert_eq!(at(" Sun, 29 Feb 2026 10:00:00 +0000\r\n"), None);
        assert_eq!(at(" tomorrow\r\n"), None);
        assert_eq!(at(" Sat Nov 21 10:00:00 2026\r\n"), Some(("2026-11-21T10:00:00Z".into(), 0)));
        assert_eq!(at(" 20 Nov 26 10:00 EST\r\n"), Some(("2026-11-20T15:00:00Z".into(), -300)));
    }

    #[test]
    fn groups_are_flattened() {
        let people = addresses(b" Team: \"B, C\" <b@x.example>, d@x.example;, =?utf-8?q?J=C3=BC?= <j@x.example>\r\n");
        let emails: Vec<&str> = people.iter().map(|person| person.email.as_str()).collect();
        assert_eq!(emails, ["b@x.example", "d@x.example", "j@x.example"]);
        assert_eq!(people[0].name.as_deref(), Some("B, C"));
        assert_eq!(people[2].name.as_deref(), Some("Jü"));
        let quoted = addresses(b" \"a b\"@x.example, \"c\"@x.example, B <\"d\"@x.example>");
        let emails: Vec<&str> = quoted.iter().map(|person| person.email.as_str()).collect();
        assert_eq!(emails, ["\"a b\"@x.example", "c@x.example", "\"d\"@x.example"]);
    }

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
