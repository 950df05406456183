//! Checks and writes a body part, in the transfer encoding that its content needs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::field::{BadFieldValue, EncodedField};
use super::word;
use crate::message::encode::quoted_printable;

/// RFC 5322 §2.1.1.
const MAX_LINE_BYTES: usize = 998;
/// RFC 2045 §6.8.
const BASE64_LINE_BYTES: usize = 76;
/// Longest token. RFC 6838 §4.2 allows this many bytes in a name of a media type.
const MAX_TOKEN_BYTES: usize = 127;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartDraft {
    /// The media type without parameters, in lower case.
    pub media_type: String,
    /// Parameters of Content-Type, without `boundary`, `name` and, for a `Text` of type `text/*`,
    /// `charset`.
    pub params: Vec<(String, String)>,
    /// The file name. It is written in Content-Type, and in Content-Disposition if there is one.
    pub name: Option<String>,
    pub disposition: Option<String>,
    /// Parameters of Content-Disposition, without `filename`.
    pub disposition_params: Vec<(String, String)>,
    /// Without angle brackets.
    pub cid: Option<String>,
    pub language: Vec<String>,
    pub location: Option<String>,
    /// Further fields, written after those that the properties above make.
    pub fields: Vec<EncodedField>,
    pub content: PartContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartContent {
    /// UTF-8. In text and messages, lines end in LF and are written with CRLF.
    Text(String),
    Bytes(Vec<u8>),
    Parts(Vec<PartDraft>),
}

impl Default for PartContent {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl PartDraft {
    /// Checks whether the values of this part, but not of its children, can be written.
    ///
    /// # Errors
    /// `BadFieldValue`, and the property of RFC 8621 §4.1.4 that has the bad value.
    pub fn check(&self) -> Result<(), (&'static str, BadFieldValue)> {
        let token = |text: &str| {
            (1..=MAX_TOKEN_BYTES).contains(&text.len())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=*".contains(&byte))
        };
        let clean = |text: &str| !text.chars().any(char::is_control);
        let url = |text: &String| {
            (1..=word::MAX_WORD_BYTES).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let params = |params: &[(String, String)]| {
            params.iter().all(|(name, value)| token(name) && clean(value))
        };
        let multipart = self.media_type.starts_with("multipart/");
        let rules = [
            (
                "type",
                self.media_type
                    .split_once('/')
                    .is_some_and(|(kind, rest)| token(kind) && token(rest)),
            ),
            ("type", params(&self.params)),
            ("type", multipart == matches!(self.content, PartContent::Parts(_))),
            // A message is not encoded (RFC 2045 §6.4), so the lines of one that is given as text
            // must be short enough. One that is given as bytes is base64 if need be.
            (
                "partId",
                !self.is_message()
                    || !matches!(
                        &self.content,
                        PartContent::Text(text) if !fits_lines(&crlf_lines(text))
                    ),
            ),
            ("name", self.name.as_deref().is_none_or(clean)),
            ("disposition", self.disposition.as_deref().is_none_or(token)),
            ("disposition", params(&self.disposition_params)),
            (
                "cid",
                self.cid.as_ref().is_none_or(|cid| url(cid) && !cid.contains(['<', '>', '(', ')'])),
            ),
            ("language", self.language.iter().all(|tag| token(tag))),
            ("location", self.location.as_ref().is_none_or(url)),
        ];
        match rules.iter().find(|(_, fits)| !fits) {
            Some((property, _)) => Err((*property, BadFieldValue("this value cannot be written"))),
            None => Ok(()),
        }
    }

    /// Whether the part is a message that is written as 8-bit, or has such a part.
    fn is_eight_bit(&self) -> bool {
        match &self.content {
            PartContent::Parts(parts) => parts.iter().any(Self::is_eight_bit),
            PartContent::Bytes(bytes) => {
                self.is_message() && !bytes.is_ascii() && fits_lines(bytes)
            }
            PartContent::Text(text) => self.is_message() && !text.is_ascii(),
        }
    }

    fn is_message(&self) -> bool {
        self.media_type.starts_with("message/")
    }

    fn is_text(&self) -> bool {
        self.media_type.starts_with("text/")
    }
}

/// Writes the fields that describe a part, an empty line, and the content.
pub(super) fn write(part: &PartDraft, seed: &str, out: &mut Vec<u8>) {
    let mut header = format!("Content-Type: {}", part.media_type);
    for (name, value) in &part.params {
        header.push_str(&word::parameter(name, value));
    }
    if part.is_text() && matches!(part.content, PartContent::Text(_)) {
        header.push_str(&word::parameter("charset", "utf-8"));
    }
    if let Some(name) = &part.name {
        header.push_str(&word::legacy_name(name));
    }
    let boundary = matches!(part.content, PartContent::Parts(_)).then(|| free_boundary(part, seed));
    if let Some(boundary) = &boundary {
        header.push_str(&word::parameter("boundary", boundary));
    }
    header.push_str("\r\n");
    if let Some(disposition) = &part.disposition {
        header.push_str("Content-Disposition: ");
        header.push_str(disposition);
        for (name, value) in &part.disposition_params {
            header.push_str(&word::parameter(name, value));
        }
        header.push_str(
            &part.name.as_ref().map(|name| word::parameter("filename", name)).unwrap_or_default(),
        );
        header.push_str("\r\n");
    }
    if let Some(cid) = &part.cid {
        header.push_str(&format!("Content-ID: <{cid}>\r\n"));
    }
    if !part.language.is_empty() {
        // The first tag begins after the 18 bytes of `Content-Language: `.
        header.push_str(&format!(
            "Content-Language: {}\r\n",
            word::join_items(&part.language, ",", 18)
        ));
    }
    if let Some(location) = &part.location {
        header.push_str(&format!("Content-Location: {location}\r\n"));
    }
    out.extend_from_slice(header.as_bytes());
    for field in &part.fields {
        out.extend_from_slice(field.bytes());
    }
    let (encoding, bytes) = encoded_content(part);
    out.extend_from_slice(format!("Content-Transfer-Encoding: {encoding}\r\n\r\n").as_bytes());
    out.extend_from_slice(&bytes);
    if let (PartContent::Parts(parts), Some(boundary)) = (&part.content, boundary) {
        for child in parts {
            out.extend_from_slice(format!("\r\n--{boundary}\r\n").as_bytes());
            write(child, seed, out);
        }
        out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    }
}

/// Returns a boundary that occurs in no unencoded content: `=_` and 32 digits of a hash.
fn free_boundary(part: &PartDraft, seed: &str) -> String {
    let mut attempt = 0u32;
    loop {
        // Neither base64 nor quoted-printable can contain `=_`.
        let boundary = format!(
            "=_{}",
            blake3::hash(format!("{seed} {attempt} {}", depth(part)).as_bytes()).to_hex()
        );
        let boundary: String = boundary.chars().take(34).collect();
        if !has_text(part, boundary.as_bytes()) {
            return boundary;
        }
        attempt = attempt.saturating_add(1);
    }
}

/// Returns how many levels of multiparts a part has. A multipart has more than each within it, so
/// their boundaries differ.
fn depth(part: &PartDraft) -> usize {
    match &part.content {
        PartContent::Parts(parts) => parts.iter().map(depth).max().unwrap_or(0).saturating_add(1),
        _ => 0,
    }
}

fn has_text(part: &PartDraft, boundary: &[u8]) -> bool {
    match &part.content {
        PartContent::Text(text) => memchr::memmem::find(text.as_bytes(), boundary).is_some(),
        PartContent::Bytes(bytes) => memchr::memmem::find(bytes, boundary).is_some(),
        PartContent::Parts(parts) => parts.iter().any(|part| has_text(part, boundary)),
    }
}

/// Returns the transfer encoding and the encoded content; no content for a multipart.
fn encoded_content(part: &PartDraft) -> (&'static str, Vec<u8>) {
    match &part.content {
        PartContent::Parts(_) => (if part.is_eight_bit() { "8bit" } else { "7bit" }, Vec::new()),
        PartContent::Text(text) if part.is_text() => encoded(crlf_lines(text)),
        PartContent::Text(text) if part.is_message() => {
            (if text.is_ascii() { "7bit" } else { "8bit" }, crlf_lines(text))
        }
        // In other types every byte counts, also line ends.
        PartContent::Text(text) if text.is_ascii() && fits_lines(text.as_bytes()) => {
            ("7bit", text.clone().into_bytes())
        }
        PartContent::Text(text) => ("base64", base64(text.as_bytes())),
        PartContent::Bytes(bytes) if part.is_text() => encoded(bytes.clone()),
        PartContent::Bytes(bytes) if part.is_message() && fits_lines(bytes) => {
            (if bytes.is_ascii() { "7bit" } else { "8bit" }, bytes.clone())
        }
        PartContent::Bytes(bytes) => ("base64", base64(bytes)),
    }
}

fn crlf_lines(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
}

/// Encodes a text: 7-bit if it can be, base64 if more than a quarter of its bytes are not those of
/// ASCII text, and otherwise quoted-printable.
fn encoded(bytes: Vec<u8>) -> (&'static str, Vec<u8>) {
    let escaped_count =
        bytes.iter().filter(|byte| !matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n')).count();
    if bytes.is_ascii() && fits_lines(&bytes) {
        ("7bit", bytes)
    } else if escaped_count.saturating_mul(4) > bytes.len() {
        ("base64", base64(&bytes))
    } else {
        let mut out = Vec::with_capacity(bytes.len().saturating_add(bytes.len() / 4));
        quoted_printable(&bytes, &mut out);
        ("quoted-printable", out)
    }
}

/// Whether the bytes are CRLF lines without NUL, and short enough. The CR of a line counts, too, so
/// a line may have one byte less than RFC 5322 allows.
fn fits_lines(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').all(|line| line.len() <= MAX_LINE_BYTES)
        && !bytes.contains(&0)
        && memchr::memchr_iter(b'\n', bytes)
            .all(|at| at.checked_sub(1).and_then(|at| bytes.get(at)) == Some(&b'\r'))
        && memchr::memchr_iter(b'\r', bytes)
            .all(|at| bytes.get(at.saturating_add(1)) == Some(&b'\n'))
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(bytes);
    // Every 76 bytes get the two bytes of a line end.
    let mut out = Vec::with_capacity(text.len().saturating_add(text.len() / 38));
    for (at, line) in text.as_bytes().chunks(BASE64_LINE_BYTES).enumerate() {
        if at > 0 {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(line);
    }
    out
}
