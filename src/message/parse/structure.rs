//! The MIME structure of a message as JMAP shows it (RFC 8621 §4.1.4): a tree of parts, and which
//! of them are the text, the HTML and the attachments.
//!
//! A part has a number: its place among all parts of the message, multiparts counted, the whole
//! message being 0, as in `EmailContent::parts`. Parts beyond `limits::MAX_MIME_PARTS` are not
//! shown. A message within the message is a part like any other: it is not looked into here. What
//! calls itself a multipart and is none is text (RFC 2045 §5.2), and where it lies too deep to be
//! opened `application/octet-stream` (RFC 2046 §4): so it has content, and no children.

use std::borrow::Cow;

use mail_parser::{MessagePart, PartFlags};

use super::{Message, charset, coding};
use crate::message::decode;
use crate::message::header::Field;
use crate::model::limits;

/// A part (RFC 8621 §4.1.4 `EmailBodyPart`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part<'a> {
    pub number: u32,
    /// Whether it holds parts, and has no content of its own.
    pub is_multipart: bool,
    /// Its header, the empty line included.
    pub header: &'a [u8],
    /// Bytes of the content after transfer decoding; 0 of a multipart.
    pub size: usize,
    /// Its file name: of Content-Disposition (RFC 2231), else of Content-Type (RFC 2047).
    pub name: Option<String>,
    /// Its media type, lower case; where it says none that can be read, `text/plain`, or
    /// `message/rfc822` in a digest (RFC 2046 §5.1.5).
    pub media_type: String,
    /// Its charset; `us-ascii` where a text says none.
    pub charset: Option<String>,
    /// Its disposition, lower case.
    pub disposition: Option<String>,
    /// Its Content-ID without angle brackets.
    pub cid: Option<String>,
    pub language: Option<Vec<String>>,
    /// Its Content-Location.
    pub location: Option<String>,
    /// The parts of a multipart.
    pub children: Vec<Part<'a>>,
}

impl<'a> Part<'a> {
    /// Whether it is `text/*`, and so has a body value.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.media_type.starts_with("text/")
    }

    /// It and all within, in order.
    #[must_use]
    pub fn flat(&self) -> Vec<&Part<'a>> {
        let mut all = vec![self];
        for child in &self.children {
            all.extend(child.flat());
        }
        all
    }

    fn is_media(&self) -> bool {
        ["image/", "audio/", "video/"].iter().any(|kind| self.media_type.starts_with(kind))
    }
}

/// The parts of a message, and what they are for. The lists hold parts by their number, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure<'a> {
    pub root: Part<'a>,
    /// What to show to who wants text.
    pub text: Vec<u32>,
    /// What to show to who wants HTML.
    pub html: Vec<u32>,
    /// What is offered beside.
    pub attachments: Vec<u32>,
}

/// The text of a part (RFC 8621 §4.1.4 `EmailBodyValue`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BodyValue {
    /// The text, its lines ending in LF.
    pub value: String,
    /// Whether transfer encoding or charset was broken, or not known.
    pub is_encoding_problem: bool,
    /// Whether it was cut.
    pub is_truncated: bool,
}

impl Message<'_> {
    #[must_use]
    pub fn structure(&self) -> Structure<'_> {
        let mut root = Part {
            media_type: "text/plain".into(),
            charset: Some("us-ascii".into()),
            ..Part::default()
        };
        root.size = self.raw().len();
        if let Some(message) = self.given.parsed().filter(|_| !self.is_bare()) {
            let numbers = Numbers(
                message.root().parts().take(limits::MAX_MIME_PARTS).map(|part| part.id()).collect(),
            );
            root = self.part(&message.root().root_part(), 0, &numbers);
        }
        let mut lists = Lists::default();
        lists.add(
            std::slice::from_ref(&root),
            "mixed",
            false,
            OpenLists { text: true, html: true },
        );
        Structure { text: lists.text, html: lists.html, attachments: lists.attachments, root }
    }

    /// The text of a part, at most `most` bytes of it (0: all). Cut between characters, and not
    /// within a tag of HTML. `None` of what is not `text/*`.
    #[must_use]
    pub fn body_value(&self, number: u32, most: usize) -> Option<BodyValue> {
        let bare = self.is_bare() && number == 0;
        let (media_type, (text, is_encoding_problem)) = if bare {
            (String::new(), charset::guessed(self.raw()))
        } else {
            let part = self.leaf(number)?;
            let media_type = Some(media_type(&part)).filter(|kind| kind.starts_with("text/"))?;
            (media_type, self.text(&part))
        };
        let value = lf_lines(&text);
        let end = if most == 0 { value.len() } else { value.floor_char_boundary(most) };
        let is_truncated = end < value.len();
        let mut kept = value.get(..end).unwrap_or_default();
        if is_truncated && media_type == "text/html" {
            kept = whole_tags(kept);
        }
        Some(BodyValue { value: kept.to_owned(), is_encoding_problem, is_truncated })
    }

    /// The bytes of a part after transfer decoding. `None` of a multipart, and of what is not
    /// there.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn decoded(&self, number: u32) -> Option<Cow<'_, [u8]>> {
        if self.is_bare() && number == 0 {
            return Some(Cow::Borrowed(self.raw()));
        }
        self.leaf(number)
            .map(|part| decode::decode(self.transfer_encoding(&part), self.content(&part)).0)
    }

    /// The whole text of a part, and whether its transfer encoding or charset is broken or not
    /// known.
    fn text(&self, part: &MessagePart<'_>) -> (Cow<'_, str>, bool) {
        let encoding = self.transfer_encoding(part);
        let (coding, is_known) = coding(part);
        let (bytes, is_broken) = decode::decode(encoding, self.content(part));
        let problem =
            is_broken || !is_known || encoding == 0 && !part.has_known_transfer_encoding();
        match bytes {
            Cow::Borrowed(bytes) => {
                let (text, is_broken) = coding.decode(bytes);
                (text, problem || is_broken)
            }
            Cow::Owned(bytes) => {
                let (text, is_broken) = coding.decode(&bytes);
                (Cow::Owned(text.into_owned()), problem || is_broken)
            }
        }
    }

    fn leaf(&self, number: u32) -> Option<MessagePart<'_>> {
        let number =
            usize::try_from(number).ok().filter(|number| *number < limits::MAX_MIME_PARTS)?;
        self.given.parsed()?.root().parts().nth(number).filter(|part| !part.is_multipart())
    }
}

/// Lines that end in LF: what stands of CR before it goes.
fn lf_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some(line) => {
                out.push_str(line.trim_end_matches('\r'));
                out.push('\n');
            }
            None => out.push_str(line),
        }
    }
    out
}

/// What stands before a tag that is not closed, if the text ends in one. A `<` that begins no tag
/// is text.
fn whole_tags(html: &str) -> &str {
    let Some((before, tag)) = html.rsplit_once('<') else { return html };
    let begins =
        tag.chars().next().is_none_or(|c| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
    if begins && !tag.contains('>') { before } else { html }
}

/// The library's ids of a message's own parts, ascending: their place is their number here.
struct Numbers(Vec<u32>);

impl Numbers {
    fn of(&self, part: &MessagePart<'_>) -> Option<u32> {
        u32::try_from(self.0.binary_search(&part.id()).ok()?).ok()
    }
}

impl Message<'_> {
    /// A part with those within it: as deep as the parser went, which has a bound.
    fn part(&self, part: &MessagePart<'_>, number: u32, numbers: &Numbers) -> Part<'_> {
        let media_type = media_type(part);
        let said = part.content_type().and_then(|kind| kind.attribute("charset")).map(tidy);
        let said = said.filter(|charset| !charset.is_empty());
        let implicit = media_type.starts_with("text/").then(|| "us-ascii".to_owned());
        let is_multipart = part.is_multipart();
        let children = part
            .children()
            .filter_map(|child| Some(self.part(&child, numbers.of(&child)?, numbers)));
        let (header, body, _) = self.given.place(part);
        let size = || decode::decoded_len(self.transfer_encoding(part), self.content(part));
        Part {
            number,
            is_multipart,
            header: self.raw().get(header..body).unwrap_or_default(),
            size: if is_multipart { 0 } else { size() },
            name: self.name(part).map(|name| tidy(&name)).filter(|name| !name.is_empty()),
            charset: said.or(implicit),
            media_type,
            disposition: part
                .content_disposition()
                .map(|kind| tidy(kind.ctype()).to_lowercase())
                .filter(|it| !it.is_empty()),
            cid: self.field(part, "Content-ID").and_then(|field| content_id(&field)),
            language: self.field(part, "Content-Language").and_then(|field| languages(&field)),
            location: self.field(part, "Content-Location").and_then(|field| location(&field)),
            children: if is_multipart { children.collect() } else { Vec::new() },
        }
    }
}

/// The media type, as `Part::media_type` says it.
pub(super) fn media_type(part: &MessagePart<'_>) -> String {
    let said =
        part.content_type().and_then(|kind| Some(format!("{}/{}", kind.ctype(), kind.subtype()?)));
    let said = said.map(|said| tidy(&said).to_lowercase());
    let in_digest =
        || part.parent().is_some_and(|parent| parent.is_content_type("multipart", "digest"));
    match said {
        Some(said) if said.starts_with("multipart/") && !part.is_multipart() => {
            let limit = part.flags().contains(PartFlags::LIMIT_REACHED);
            if limit { "application/octet-stream" } else { "text/plain" }.to_owned()
        }
        Some(said) => said,
        None if part.is_multipart() => "multipart/mixed".to_owned(),
        None if part.content_type().is_none() && in_digest() => "message/rfc822".to_owned(),
        None => "text/plain".to_owned(),
    }
}

/// Without controls, which no value of a header field may smuggle out.
fn tidy(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}

fn content_id(field: &Field<'_>) -> Option<String> {
    let id = field.without_comments();
    let id = id.split_once('<').map_or(id.as_str(), |(_, id)| id);
    let id = id.split_once('>').map_or(id, |(id, _)| id);
    Some(tidy(id)).filter(|id| !id.is_empty())
}

fn languages(field: &Field<'_>) -> Option<Vec<String>> {
    let tags = field.without_comments();
    let tags =
        tags.split(',').map(tidy).filter(|tag| !tag.is_empty()).take(limits::MAX_FIELD_ADDRESSES);
    Some(tags.collect::<Vec<_>>()).filter(|tags| !tags.is_empty())
}

/// A long URI is folded, which adds blanks that are none of its own.
fn location(field: &Field<'_>) -> Option<String> {
    let uri: String =
        field.unfolded().chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    Some(uri).filter(|uri| !uri.is_empty())
}

/// Which of the two lists still take parts (in RFC 8621 §4.1.4 a list that takes none is null).
#[derive(Clone, Copy)]
struct OpenLists {
    text: bool,
    html: bool,
}

/// The three lists, by the procedure of RFC 8621 §4.1.4.
#[derive(Default)]
struct Lists {
    text: Vec<u32>,
    html: Vec<u32>,
    attachments: Vec<u32>,
}

impl Lists {
    fn add(
        &mut self,
        parts: &[Part<'_>],
        multipart: &str,
        in_alternative: bool,
        mut shown: OpenLists,
    ) {
        let before = (self.text.len(), self.html.len());
        for (at, part) in parts.iter().enumerate() {
            if part.is_multipart {
                let kind = part.media_type.split_once('/').map_or("", |(_, kind)| kind);
                self.add(&part.children, kind, in_alternative || kind == "alternative", shown);
            } else if !is_inline(part, at == 0, multipart) {
                self.attachments.push(part.number);
            } else if multipart == "alternative" {
                match part.media_type.as_str() {
                    "text/plain" if shown.text => self.text.push(part.number),
                    "text/html" if shown.html => self.html.push(part.number),
                    "text/plain" | "text/html" => {}
                    _ => self.attachments.push(part.number),
                }
            } else {
                if in_alternative {
                    shown.html &= part.media_type != "text/plain";
                    shown.text &= part.media_type != "text/html";
                }
                if shown.text {
                    self.text.push(part.number);
                }
                if shown.html {
                    self.html.push(part.number);
                }
                if part.is_media() && !(shown.text && shown.html) {
                    self.attachments.push(part.number);
                }
            }
        }
        if multipart == "alternative" && shown.text && shown.html {
            let (text, html) = (self.text.len(), self.html.len());
            if text == before.0 && html != before.1 {
                self.text.extend_from_slice(self.html.get(before.1..).unwrap_or_default());
            } else if html == before.1 && text != before.0 {
                self.html.extend_from_slice(self.text.get(before.0..).unwrap_or_default());
            }
        }
    }
}

/// Whether it is a body rather than an attachment: a kind that can be shown, and of a related
/// multipart the first alone, and of texts with a name the first alone.
fn is_inline(part: &Part<'_>, first: bool, multipart: &str) -> bool {
    part.disposition.as_deref() != Some("attachment")
        && (matches!(part.media_type.as_str(), "text/plain" | "text/html") || part.is_media())
        && (first || multipart != "related" && (part.is_media() || part.name.is_none()))
}

#[cfg(test)]
mod tests;
