//! Builds the MIME structure of a message for JMAP (RFC 8621 §4.1.4): a tree of parts, and which of
//! them are the text, the HTML and the attachments.
//!
//! - The number of a part is its index among all parts of the message, multiparts included.
//! - Parts beyond `limits::MAX_MIME_PARTS` are not shown. An embedded message is not opened.
//! - An invalid multipart is `text/plain` (RFC 2045 §5.2). One that is nested too deep is
//!   `application/octet-stream` (RFC 2046 §4).

use std::borrow::Cow;

use mail_parser::{MessagePart, PartFlags};

use super::{Message, charset, coding};
use crate::message::decode;
use crate::message::header::Field;
use crate::model::limits;

/// RFC 8621 §4.1.4 `EmailBodyPart`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part<'a> {
    pub number: u32,
    /// Whether the part has children, and no content of its own.
    pub is_multipart: bool,
    /// With the empty line.
    pub header: &'a [u8],
    /// After transfer decoding, in bytes; 0 for a multipart.
    pub size: usize,
    pub name: Option<String>,
    /// In lower case. If none can be read, `text/plain`, or `multipart/mixed` if `is_multipart`.
    /// Without a Content-Type in a digest, `message/rfc822` (RFC 2046 §5.1.5).
    pub media_type: String,
    /// As the part names it. If it names none: `us-ascii` for a text, `None` for any other part.
    pub charset: Option<String>,
    /// In lower case.
    pub disposition: Option<String>,
    /// Without angle brackets.
    pub cid: Option<String>,
    pub language: Option<Vec<String>>,
    pub location: Option<String>,
    /// Empty unless `is_multipart`.
    pub children: Vec<Part<'a>>,
}

impl<'a> Part<'a> {
    /// Whether the part is `text/*`, and so has a body value.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.media_type.starts_with("text/")
    }

    /// Returns the part and all parts within it, in order.
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

/// The lists hold numbers of parts, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure<'a> {
    pub root: Part<'a>,
    pub text: Vec<u32>,
    pub html: Vec<u32>,
    pub attachments: Vec<u32>,
}

/// The text of a part (RFC 8621 §4.1.4 `EmailBodyValue`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BodyValue {
    /// Lines end in LF.
    pub value: String,
    /// Whether the transfer encoding or the charset is broken or unknown. Bytes outside ASCII count
    /// as broken if the part names `us-ascii` or no charset.
    pub is_encoding_problem: bool,
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
        if let Some(message) = self.library.parsed().filter(|_| !self.is_body_only()) {
            let ids = PartIds(
                message.root().parts().take(limits::MAX_MIME_PARTS).map(|part| part.id()).collect(),
            );
            root = self.part(&message.root().root_part(), 0, &ids);
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

    /// Returns the text of a part, cut to at most `max` bytes (0 means no limit), not within a
    /// character, and HTML not within a tag (`whole_tags`). `None` if the part does not exist or is
    /// not `text/*`.
    #[must_use]
    pub fn body_value(&self, number: u32, max: usize) -> Option<BodyValue> {
        let (media_type, (text, is_encoding_problem)) = if self.is_body_only() && number == 0 {
            ("text/plain".to_owned(), charset::guessed(self.raw()))
        } else {
            let part = self.leaf(number)?;
            let media_type = Some(media_type(&part)).filter(|kind| kind.starts_with("text/"))?;
            (media_type, self.text(&part))
        };
        let value = lf_lines(&text);
        let end = if max == 0 { value.len() } else { value.floor_char_boundary(max) };
        let is_truncated = end < value.len();
        let mut cut = value.get(..end).unwrap_or_default();
        if is_truncated && media_type == "text/html" {
            cut = whole_tags(cut);
        }
        Some(BodyValue { value: cut.to_owned(), is_encoding_problem, is_truncated })
    }

    /// Returns the bytes of a part after transfer decoding. `None` if the part is a multipart or
    /// does not exist.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn decoded(&self, number: u32) -> Option<Cow<'_, [u8]>> {
        if self.is_body_only() && number == 0 {
            return Some(Cow::Borrowed(self.raw()));
        }
        self.leaf(number)
            .map(|part| decode::decode(self.transfer_encoding(&part), self.content(&part)).0)
    }

    /// Returns the whole text, and whether its encoding or charset is broken or unknown.
    fn text(&self, part: &MessagePart<'_>) -> (Cow<'_, str>, bool) {
        let encoding = self.transfer_encoding(part);
        let (coding, is_known) = coding(part);
        let (bytes, is_broken) = decode::decode(encoding, self.content(part));
        let is_unknown_encoding =
            encoding == decode::IDENTITY && !part.has_known_transfer_encoding();
        let problem = is_broken || !is_known || is_unknown_encoding;
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

    /// Returns a part that is no multipart.
    fn leaf(&self, number: u32) -> Option<MessagePart<'_>> {
        let number =
            usize::try_from(number).ok().filter(|number| *number < limits::MAX_MIME_PARTS)?;
        self.library.parsed()?.root().parts().nth(number).filter(|part| !part.is_multipart())
    }
}

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

/// Returns the HTML up to an unclosed tag at its end. A `<` that begins no tag is text. Quotation
/// marks are not looked at: an unclosed tag with `<` or `>` in an attribute may not be recognised.
fn whole_tags(html: &str) -> &str {
    let Some((before, tag)) = html.rsplit_once('<') else { return html };
    let begins =
        tag.chars().next().is_none_or(|c| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
    if begins && !tag.contains('>') { before } else { html }
}

/// The ids that the library gives to the parts of a message, ascending. The index of an id is the
/// number of the part.
struct PartIds(Vec<u32>);

impl PartIds {
    fn number_of(&self, part: &MessagePart<'_>) -> Option<u32> {
        u32::try_from(self.0.binary_search(&part.id()).ok()?).ok()
    }
}

impl Message<'_> {
    fn part(&self, part: &MessagePart<'_>, number: u32, ids: &PartIds) -> Part<'_> {
        let media_type = media_type(part);
        let charset = part.content_type().and_then(|kind| kind.attribute("charset")).map(tidy);
        let charset = charset.filter(|charset| !charset.is_empty());
        let default_charset = media_type.starts_with("text/").then(|| "us-ascii".to_owned());
        let is_multipart = part.is_multipart();
        let children = part
            .children()
            .filter_map(|child| Some(self.part(&child, ids.number_of(&child)?, ids)));
        let (header, body, _) = self.library.offsets(part);
        let size = || decode::decoded_len(self.transfer_encoding(part), self.content(part));
        Part {
            number,
            is_multipart,
            header: self.raw().get(header..body).unwrap_or_default(),
            size: if is_multipart { 0 } else { size() },
            name: self.name(part).map(|name| tidy(&name)).filter(|name| !name.is_empty()),
            charset: charset.or(default_charset),
            media_type,
            disposition: part
                .content_disposition()
                .map(|kind| tidy(kind.ctype()).to_lowercase())
                .filter(|disposition| !disposition.is_empty()),
            cid: self.field(part, "Content-ID").and_then(|field| content_id(&field)),
            language: self.field(part, "Content-Language").and_then(|field| languages(&field)),
            location: self.field(part, "Content-Location").and_then(|field| location(&field)),
            children: if is_multipart { children.collect() } else { Vec::new() },
        }
    }
}

/// Returns the media type as `Part::media_type` describes it.
pub(super) fn media_type(part: &MessagePart<'_>) -> String {
    let named =
        part.content_type().and_then(|kind| Some(format!("{}/{}", kind.ctype(), kind.subtype()?)));
    let named = named.map(|name| tidy(&name).to_lowercase());
    let in_digest =
        || part.parent().is_some_and(|parent| parent.is_content_type("multipart", "digest"));
    match named {
        Some(name) if name.starts_with("multipart/") && !part.is_multipart() => {
            let is_too_deep = part.flags().contains(PartFlags::LIMIT_REACHED);
            if is_too_deep { "application/octet-stream" } else { "text/plain" }.to_owned()
        }
        Some(name) => name,
        None if part.is_multipart() => "multipart/mixed".to_owned(),
        None if part.content_type().is_none() && in_digest() => "message/rfc822".to_owned(),
        None => "text/plain".to_owned(),
    }
}

/// Removes controls, so that no value can begin a header field where it is written again.
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

fn location(field: &Field<'_>) -> Option<String> {
    let uri: String =
        field.unfolded().chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    Some(uri).filter(|uri| !uri.is_empty())
}

/// Which lists take parts. In the algorithm of RFC 8621 §4.1.4, a list that takes none is null.
#[derive(Clone, Copy)]
struct OpenLists {
    text: bool,
    html: bool,
}

#[derive(Default)]
struct Lists {
    text: Vec<u32>,
    html: Vec<u32>,
    attachments: Vec<u32>,
}

impl Lists {
    /// Adds parts as `parseStructure` in RFC 8621 §4.1.4 does. `multipart` is the subtype of their
    /// parent; `in_alternative` tells whether a `multipart/alternative` is above them.
    fn add(
        &mut self,
        parts: &[Part<'_>],
        multipart: &str,
        in_alternative: bool,
        mut open: OpenLists,
    ) {
        let (text_before, html_before) = (self.text.len(), self.html.len());
        for (index, part) in parts.iter().enumerate() {
            if part.is_multipart {
                let kind = part.media_type.split_once('/').map_or("", |(_, kind)| kind);
                self.add(&part.children, kind, in_alternative || kind == "alternative", open);
            } else if !is_inline(part, index == 0, multipart) {
                self.attachments.push(part.number);
            } else if multipart == "alternative" {
                match part.media_type.as_str() {
                    "text/plain" if open.text => self.text.push(part.number),
                    "text/html" if open.html => self.html.push(part.number),
                    "text/plain" | "text/html" => {}
                    _ => self.attachments.push(part.number),
                }
            } else {
                if in_alternative {
                    open.html &= part.media_type != "text/plain";
                    open.text &= part.media_type != "text/html";
                }
                if open.text {
                    self.text.push(part.number);
                }
                if open.html {
                    self.html.push(part.number);
                }
                if part.is_media() && !(open.text && open.html) {
                    self.attachments.push(part.number);
                }
            }
        }
        if multipart == "alternative" && open.text && open.html {
            let (text, html) = (self.text.len(), self.html.len());
            if text == text_before && html != html_before {
                self.text.extend_from_slice(self.html.get(html_before..).unwrap_or_default());
            } else if html == html_before && text != text_before {
                self.html.extend_from_slice(self.text.get(text_before..).unwrap_or_default());
            }
        }
    }
}

/// Whether a part belongs to the body and is no attachment (`isInline` in RFC 8621 §4.1.4).
fn is_inline(part: &Part<'_>, is_first: bool, multipart: &str) -> bool {
    part.disposition.as_deref() != Some("attachment")
        && (matches!(part.media_type.as_str(), "text/plain" | "text/html") || part.is_media())
        && (is_first || (multipart != "related" && (part.is_media() || part.name.is_none())))
}

#[cfg(test)]
mod tests;
