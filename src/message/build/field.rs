//! Encodes one header field from a value in one of the forms of RFC 8621 §4.1.2.
//!
//! - The result is ASCII, except for internationalized email addresses, and ends with CRLF.
//! - Lines are folded where possible. Only the raw form is written as it is given.
//! - Line ends in a value are refused, except folds in the raw form.

use super::word::{self, MAX_WORD_BYTES};
use crate::message::forms::is_name;
use crate::message::parse::Group;
use crate::message::refs::is_writable;
use crate::model::{EmailAddress, SentAt, limits};

/// Longest line, without CRLF (RFC 5322 §2.1.1).
const MAX_LINE_BYTES: usize = 998;
/// Longest name of a field. With `: ` it fits into a line of 78 bytes (RFC 5322 §2.1.1).
const MAX_NAME_BYTES: usize = 76;

/// The value of a field, in one of the forms of RFC 8621 §4.1.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// The text after the colon, with the blank that usually follows it. ASCII, folded with LF or
    /// CRLF.
    Raw(String),
    Text(String),
    Addresses(Vec<EmailAddress>),
    Groups(Vec<Group>),
    /// Without angle brackets.
    MessageIds(Vec<String>),
    Date(SentAt),
    Urls(Vec<String>),
}

/// Says why a field cannot be encoded, for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadFieldValue(pub &'static str);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedField {
    name: String,
    bytes: Vec<u8>,
}

impl EncodedField {
    /// Encodes a field.
    ///
    /// # Errors
    /// `BadFieldValue` if the name is no name of a field or longer than 76 bytes, or if the value
    /// breaks a rule of its form.
    pub fn new(name: &str, value: &FieldValue) -> Result<Self, BadFieldValue> {
        if !is_name(name) || name.len() > MAX_NAME_BYTES {
            return Err(BadFieldValue("not a name of a header field of at most 76 bytes"));
        }
        let column = name.len().saturating_add(2);
        let text = match value {
            FieldValue::Raw(value) => return Self::raw(name, value),
            FieldValue::Text(text) => self::text(text, column)?,
            FieldValue::Addresses(list) => word::join_items(&addresses(list)?, ",", column),
            FieldValue::Groups(groups) => word::join_items(&self::groups(groups)?, ",", column),
            FieldValue::MessageIds(ids) => word::join_items(
                &in_angle_brackets(ids, &is_writable, "not a message id")?,
                "",
                column,
            ),
            FieldValue::Urls(urls) => {
                word::join_items(&in_angle_brackets(urls, &is_url, "not a URL")?, ",", column)
            }
            // RFC 5322 requires four digits for the year, and programs may take a smaller one for
            // an abbreviation.
            FieldValue::Date(date) if date.rfc3339().get(..4).is_none_or(|year| year < "1900") => {
                return Err(BadFieldValue(
                    "the year of a date in a header field must not be before 1900 (RFC 5322 §3.3)",
                ));
            }
            FieldValue::Date(date) => date.rfc5322(),
        };
        let bytes = format!("{name}: {text}\r\n").into_bytes();
        Ok(Self { name: name.to_owned(), bytes })
    }

    /// Encodes a field in the raw form.
    fn raw(name: &str, value: &str) -> Result<Self, BadFieldValue> {
        let value = value.replace("\r\n", "\n");
        let mut lines = value.split('\n');
        let first = lines.next().unwrap_or_default();
        let mut bytes = format!("{name}:{first}");
        for line in lines {
            if !line.starts_with([' ', '\t']) || line.trim().is_empty() {
                return Err(BadFieldValue(
                    "each further line of a folded value must begin with a space or a tab, and \
                     have text",
                ));
            }
            bytes.push_str("\r\n");
            bytes.push_str(line);
        }
        if bytes.bytes().any(|byte| !matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
            || value.contains('\r')
        {
            return Err(BadFieldValue(
                "a raw value must be printable ASCII; use the form asText for other text",
            ));
        }
        if bytes.split("\r\n").any(|line| line.len() > MAX_LINE_BYTES) {
            return Err(BadFieldValue("a line is longer than 998 bytes"));
        }
        bytes.push_str("\r\n");
        Ok(Self { name: name.to_owned(), bytes: bytes.into_bytes() })
    }

    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Encodes a text that begins at `column`. It becomes encoded words, unless it is ASCII, has no
/// `=?` and no blanks at its ends, and its words fit into a line: then it is only folded.
fn text(text: &str, column: usize) -> Result<String, BadFieldValue> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(BadFieldValue("a control character is not allowed"));
    }
    let blank = |c: char| matches!(c, ' ' | '\t');
    // A line can be broken only before a run of blanks, so the run and the word after it stay in
    // one line.
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t');
    let mut pieces = text.as_bytes().chunk_by(|one, next| is_blank(*one) || !is_blank(*next));
    let has_short_pieces = pieces.all(|piece| piece.len() <= MAX_WORD_BYTES);
    let is_plain = has_short_pieces
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && !text.contains("=?")
        && !text.starts_with(blank)
        && !text.ends_with(blank);
    Ok(if is_plain { word::fold(text, column) } else { word::encode(text, column) })
}

fn addresses(addresses: &[EmailAddress]) -> Result<Vec<String>, BadFieldValue> {
    if addresses.len() > limits::MAX_FIELD_ADDRESSES {
        return Err(BadFieldValue("too many addresses"));
    }
    addresses.iter().map(address).collect()
}

fn address(address: &EmailAddress) -> Result<String, BadFieldValue> {
    let (name, email) = (address.name.as_deref().unwrap_or_default(), address.email.as_str());
    if name.chars().any(|c| c.is_control() && c != '\t') || email.chars().any(char::is_control) {
        return Err(BadFieldValue("a control character is not allowed"));
    }
    let has_name = !name.trim().is_empty();
    if (email.is_empty() && !has_name)
        || email.len() > MAX_WORD_BYTES
        || email.contains(['<', '>'])
        || email.trim() != email
    {
        return Err(BadFieldValue("not an email address"));
    }
    let is_bare = email.contains('@')
        && email.chars().all(|c| {
            !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.@".contains(c)
        });
    Ok(match name.trim() {
        "" if is_bare => email.to_owned(),
        "" => format!("<{email}>"),
        _ => {
            let phrase = word::phrase(name);
            // ` <` and `>` take three bytes.
            let last_line = phrase.rsplit("\r\n").next().map_or(0, str::len);
            let fold = if last_line.saturating_add(email.len()).saturating_add(3)
                > word::FOLDED_LINE_BYTES
            {
                "\r\n"
            } else {
                ""
            };
            format!("{phrase}{fold} <{email}>")
        }
    })
}

/// Encodes each group as `name: address, address;`. The addresses of a group without a name become
/// items of their own.
fn groups(groups: &[Group]) -> Result<Vec<String>, BadFieldValue> {
    // As they are counted when the field is read.
    let count =
        |group: &Group| usize::from(group.name.is_some()).saturating_add(group.addresses.len());
    if groups.iter().fold(0, |sum: usize, group| sum.saturating_add(count(group)))
        > limits::MAX_FIELD_ADDRESSES
    {
        return Err(BadFieldValue("too many addresses"));
    }
    let mut items = Vec::new();
    for group in groups {
        let addresses = addresses(&group.addresses)?;
        let Some(name) = &group.name else {
            items.extend(addresses);
            continue;
        };
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(BadFieldValue("not a name of a group"));
        }
        let members = word::join_items(&addresses, ",", 1);
        items.push(format!("{}:\r\n {members};", word::phrase(name)));
    }
    Ok(items)
}

fn in_angle_brackets(
    items: &[String],
    is_valid: &dyn Fn(&str) -> bool,
    problem: &'static str,
) -> Result<Vec<String>, BadFieldValue> {
    if items.len() > limits::MAX_FIELD_ADDRESSES {
        return Err(BadFieldValue("too many ids or URLs"));
    }
    if !items.iter().all(|item| is_valid(item)) {
        return Err(BadFieldValue(problem));
    }
    Ok(items.iter().map(|item| format!("<{item}>")).collect())
}

fn is_url(url: &str) -> bool {
    is_writable(url) && url.contains(':')
}
