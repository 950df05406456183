//! Writes one header field from a value in a form of RFC 8621 §4.1.2.

use super::word::{self, MAX_WORD_BYTES};
use crate::message::forms::is_name;
use crate::message::parse::Group;
use crate::model::{EmailAddress, SentAt, limits};

/// Longest line in bytes (RFC 5322 §2.1.1).
const MAX_LINE_BYTES: usize = 998;
/// Longest name of a field in bytes; it leaves room for a value in the first line.
const MAX_NAME_BYTES: usize = 76;

/// The value of a field to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// The text after the colon: ASCII, folded as the client wants it.
    Raw(String),
    Text(String),
    Addresses(Vec<EmailAddress>),
    Groups(Vec<Group>),
    /// Without angle brackets.
    MessageIds(Vec<String>),
    Date(SentAt),
    Urls(Vec<String>),
}

/// The reason why a value cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadFieldValue(pub &'static str);

/// A header field in the form in which it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedField {
    name: String,
    bytes: Vec<u8>,
}

impl EncodedField {
    /// Writes a field.
    ///
    /// # Errors
    /// `BadFieldValue` if the name or the value cannot be written.
    pub fn new(name: &str, value: &FieldValue) -> Result<Self, BadFieldValue> {
        if !is_name(name) || name.len() > MAX_NAME_BYTES {
            return Err(BadFieldValue("not a name of a header field"));
        }
        let column = name.len().saturating_add(2);
        let written = match value {
            FieldValue::Raw(value) => return Self::raw(name, value),
            FieldValue::Text(text) => self::text(text, column)?,
            FieldValue::Addresses(people) => word::join_items(&addresses(people)?, ",", column),
            FieldValue::Groups(groups) => word::join_items(&self::groups(groups)?, ",", column),
            FieldValue::MessageIds(ids) => {
                word::join_items(&angled(ids, &is_id, "not a message id")?, "", column)
            }
            FieldValue::Urls(urls) => {
                word::join_items(&angled(urls, &is_url, "not a URL")?, ",", column)
            }
            // RFC 5322 requires four digits for the year, and readers take smaller years for
            // abbreviations.
            FieldValue::Date(date) if date.rfc3339().get(..4).is_none_or(|year| year < "1900") => {
                return Err(BadFieldValue(
                    "a date in a header field has no year before 1900 (RFC 5322 §3.3)",
                ));
            }
            FieldValue::Date(date) => date.rfc5322(),
        };
        let bytes = format!("{name}: {written}\r\n").into_bytes();
        Ok(Self { name: name.to_owned(), bytes })
    }

    fn raw(name: &str, value: &str) -> Result<Self, BadFieldValue> {
        let value = value.replace("\r\n", "\n");
        let mut lines = value.split('\n');
        let first = lines.next().unwrap_or_default();
        let mut bytes = format!("{name}:{first}");
        for line in lines {
            if !line.starts_with([' ', '\t']) || line.trim().is_empty() {
                return Err(BadFieldValue(
                    "a line of a folded value must begin with a blank, and not be blank",
                ));
            }
            bytes.push_str("\r\n");
            bytes.push_str(line);
        }
        if bytes.bytes().any(|byte| !matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
            || value.contains('\r')
        {
            return Err(BadFieldValue(
                "a raw value must be printable ASCII; asText takes any text",
            ));
        }
        if bytes.split("\r\n").any(|line| line.len() > MAX_LINE_BYTES) {
            return Err(BadFieldValue("a line is longer than 998 bytes"));
        }
        bytes.push_str("\r\n");
        Ok(Self { name: name.to_owned(), bytes: bytes.into_bytes() })
    }

    /// Whether the field has this name, in any case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The bytes of the field, line end included.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn text(text: &str, column: usize) -> Result<String, BadFieldValue> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(BadFieldValue("a control character is not allowed"));
    }
    let blank = |c: char| matches!(c, ' ' | '\t');
    // Blanks belong to the word after them.
    let has_short_words =
        text.split_inclusive(|c| !blank(c)).all(|run| run.len() <= MAX_WORD_BYTES)
            && text.split(blank).all(|word| word.len() <= MAX_WORD_BYTES);
    let is_plain = has_short_words
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && !text.contains("=?")
        && !text.starts_with(blank)
        && !text.ends_with(blank);
    Ok(if is_plain { word::fold(text, column) } else { word::encode(text, column) })
}

fn addresses(people: &[EmailAddress]) -> Result<Vec<String>, BadFieldValue> {
    if people.len() > limits::MAX_FIELD_ADDRESSES {
        return Err(BadFieldValue("too many addresses"));
    }
    people.iter().map(address).collect()
}

fn address(person: &EmailAddress) -> Result<String, BadFieldValue> {
    let (name, email) = (person.name.as_deref().unwrap_or_default(), person.email.as_str());
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
            let last = phrase.rsplit("\r\n").next().map_or(0, str::len);
            let break_ =
                if last.saturating_add(email.len()).saturating_add(3) > word::FOLDED_LINE_BYTES {
                    "\r\n"
                } else {
                    ""
                };
            format!("{phrase}{break_} <{email}>")
        }
    })
}

fn groups(groups: &[Group]) -> Result<Vec<String>, BadFieldValue> {
    let count = groups
        .iter()
        .fold(groups.len(), |count, group| count.saturating_add(group.addresses.len()));
    if count > limits::MAX_FIELD_ADDRESSES {
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

fn angled(
    items: &[String],
    fits: &dyn Fn(&str) -> bool,
    message: &'static str,
) -> Result<Vec<String>, BadFieldValue> {
    if items.len() > limits::MAX_FIELD_ADDRESSES || !items.iter().all(|item| fits(item)) {
        return Err(BadFieldValue(message));
    }
    Ok(items.iter().map(|item| format!("<{item}>")).collect())
}

fn is_id(id: &str) -> bool {
    (1..=MAX_WORD_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>".contains(&byte))
}

fn is_url(url: &str) -> bool {
    is_id(url) && url.contains(':')
}
