//! Evaluates header fields in the forms of JMAP (RFC 8621 §4.1.2), and parses the names of the
//! properties that ask for them (§4.1.3).
//!
//! The form Raw is allowed for every field, any other for the fields that the RFC names for it, and
//! for fields that neither RFC 5322 nor RFC 2369 defines.

use std::fmt;
use std::str::FromStr;

use super::header::Field;
use super::parse::{self, Group};
use super::refs;
use crate::model::{EmailAddress, SentAt, limits};

/// Longest text of a property, `header:` included: the longest line of RFC 5322 §2.1.1.
const MAX_PROPERTY_BYTES: usize = 998;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    Raw,
    Text,
    Addresses,
    GroupedAddresses,
    MessageIds,
    Date,
    Urls,
}

const FORM_NAMES: [(&str, Form); 7] = [
    ("asRaw", Form::Raw),
    ("asText", Form::Text),
    ("asAddresses", Form::Addresses),
    ("asGroupedAddresses", Form::GroupedAddresses),
    ("asMessageIds", Form::MessageIds),
    ("asDate", Form::Date),
    ("asURLs", Form::Urls),
];

const ADDRESS_FIELDS: [&str; 12] = [
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Bcc",
    "Resent-From",
    "Resent-Sender",
    "Resent-Reply-To",
    "Resent-To",
    "Resent-Cc",
    "Resent-Bcc",
];
const TEXT_FIELDS: [&str; 3] = ["Subject", "Comments", "Keywords"];
const ID_FIELDS: [&str; 4] = ["Message-ID", "In-Reply-To", "References", "Resent-Message-ID"];
const DATE_FIELDS: [&str; 2] = ["Date", "Resent-Date"];
const URL_FIELDS: [&str; 6] =
    ["List-Help", "List-Unsubscribe", "List-Subscribe", "List-Post", "List-Owner", "List-Archive"];
const RAW_FIELDS: [&str; 2] = ["Return-Path", "Received"];

/// Whether the grammar of this field requires a value (RFC 5322 §3.6, RFC 2369), so that
/// `Email/set` leaves the field out if its value is empty. True also for Bcc and Resent-Bcc, though
/// their grammar allows an empty value: without a value such a field says nothing.
#[must_use]
pub fn needs_value(name: &str) -> bool {
    [&ADDRESS_FIELDS[..], &ID_FIELDS, &DATE_FIELDS, &URL_FIELDS]
        .iter()
        .any(|names| names.iter().any(|one| one.eq_ignore_ascii_case(name)))
}

impl Form {
    #[must_use]
    pub fn allows(self, name: &str) -> bool {
        let is_in = |names: &[&str]| names.iter().any(|one| one.eq_ignore_ascii_case(name));
        let is_own = match self {
            Self::Raw => return true,
            Self::Text => is_in(&TEXT_FIELDS),
            Self::Addresses | Self::GroupedAddresses => is_in(&ADDRESS_FIELDS),
            Self::MessageIds => is_in(&ID_FIELDS),
            Self::Date => is_in(&DATE_FIELDS),
            Self::Urls => is_in(&URL_FIELDS),
        };
        is_own
            || ![
                &TEXT_FIELDS[..],
                &ADDRESS_FIELDS,
                &ID_FIELDS,
                &DATE_FIELDS,
                &URL_FIELDS,
                &RAW_FIELDS,
            ]
            .iter()
            .any(|names| is_in(names))
    }

    #[must_use]
    pub fn evaluate(self, field: &Field<'_>) -> FormValue {
        let non_empty = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
        match self {
            Self::Raw => FormValue::Text(raw(field)),
            Self::Text => FormValue::Text(parse::text(field.readable().as_bytes())),
            Self::Addresses => FormValue::Addresses(parse::addresses(field.readable().as_bytes())),
            Self::GroupedAddresses => FormValue::Groups(parse::groups(field.readable().as_bytes())),
            Self::MessageIds => FormValue::Strings(non_empty(refs::message_ids(field.value))),
            Self::Date => FormValue::Date(parse::date(field.value)),
            Self::Urls => FormValue::Strings(non_empty(urls(field))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormValue {
    Text(String),
    Addresses(Vec<EmailAddress>),
    Groups(Vec<Group>),
    /// Of `MessageIds` and `Urls`. `None` if the field has no id or URL.
    Strings(Option<Vec<String>>),
    /// `None` if the field has no valid date.
    Date(Option<SentAt>),
}

/// The value as written, without the last line end. NUL is dropped, and bytes that are not UTF-8
/// become U+FFFD.
#[must_use]
pub fn raw(field: &Field<'_>) -> String {
    let value = field.value.strip_suffix(b"\n").unwrap_or(field.value);
    let value = value.strip_suffix(b"\r").unwrap_or(value);
    String::from_utf8_lossy(value).replace('\0', "")
}

/// The URLs in angle brackets, outside of comments (RFC 2369 §2), without white space, at most
/// `limits::MAX_FIELD_ADDRESSES`. If there are none, what is outside of comments and brackets, if
/// it can be a URL.
fn urls(field: &Field<'_>) -> Vec<String> {
    let text = parse::text(field.readable().as_bytes());
    let (mut out, mut open, mut depth) = (Vec::new(), None::<String>, 0usize);
    let mut unbracketed = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (&mut open, c) {
            (Some(_), '>') => out.extend(open.take().filter(|url| !url.is_empty())),
            (Some(url), c) if !c.is_whitespace() => url.push(c),
            (None, '\\') if depth > 0 => drop(chars.next()),
            (None, '(') => depth = depth.saturating_add(1),
            (None, ')') if depth > 0 => depth = depth.saturating_sub(1),
            (None, '<') if depth == 0 => open = Some(String::new()),
            (None, c) if depth == 0 => unbracketed.push(c),
            _ => {}
        }
        if out.len() >= limits::MAX_FIELD_ADDRESSES {
            return out;
        }
    }
    let unbracketed = unbracketed.trim();
    let scheme = unbracketed.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    if out.is_empty() && scheme.is_some_and(is_scheme) && !unbracketed.contains(char::is_whitespace)
    {
        out.push(unbracketed.to_owned());
    }
    out
}

/// A property `header:Name:asForm:all` (RFC 8621 §4.1.3). Without `:asForm` the form is Raw, and
/// `:all` may be missing, too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeaderProperty {
    /// The name of the field as the client wrote it.
    pub name: String,
    pub form: Form,
    /// Whether the property shows every field of the name, and not only the last.
    pub all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHeaderProperty {
    #[error("not of the form header:Name:asForm:all")]
    Malformed,
    /// RFC 8621 §4.1.2 does not allow this form for this field.
    #[error("this form is not for this header field")]
    NotAllowed,
}

impl FromStr for HeaderProperty {
    type Err = BadHeaderProperty;

    fn from_str(text: &str) -> Result<Self, BadHeaderProperty> {
        let rest = text
            .strip_prefix("header:")
            .filter(|_| text.len() <= MAX_PROPERTY_BYTES)
            .ok_or(BadHeaderProperty::Malformed)?;
        let mut pieces = rest.split(':').peekable();
        let name =
            pieces.next().filter(|name| is_name(name)).ok_or(BadHeaderProperty::Malformed)?;
        let form = pieces
            .peek()
            .and_then(|piece| FORM_NAMES.iter().find(|(name, _)| name == piece))
            .map(|(_, form)| *form);
        if form.is_some() {
            pieces.next();
        }
        let form = form.unwrap_or(Form::Raw);
        let all = match (pieces.next(), pieces.next()) {
            (None, _) => false,
            (Some("all"), None) => true,
            _ => return Err(BadHeaderProperty::Malformed),
        };
        if form.allows(name) {
            Ok(Self { name: name.to_owned(), form, all })
        } else {
            Err(BadHeaderProperty::NotAllowed)
        }
    }
}

/// Whether this can be the name of a header field (RFC 5322 §3.6.8).
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| matches!(byte, 33..=126) && byte != b':')
}

impl fmt::Display for HeaderProperty {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "header:{}", self.name)?;
        let form = FORM_NAMES.iter().find(|(_, form)| *form == self.form && *form != Form::Raw);
        form.map_or(Ok(()), |(name, _)| write!(out, ":{name}"))?;
        if self.all { out.write_str(":all") } else { Ok(()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyValue {
    /// The last field of the name; `None` if there is no such field.
    Last(Option<FormValue>),
    All(Vec<FormValue>),
}

impl HeaderProperty {
    #[must_use]
    pub fn evaluate<'a>(&self, header: impl Iterator<Item = Field<'a>>) -> PropertyValue {
        let named = header.filter(|field| field.is(&self.name));
        if self.all {
            PropertyValue::All(named.map(|field| self.form.evaluate(&field)).collect())
        } else {
            PropertyValue::Last(named.last().map(|field| self.form.evaluate(&field)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::header::fields;

    fn evaluate(property: &str, header: &str) -> PropertyValue {
        property.parse::<HeaderProperty>().unwrap().evaluate(fields(header.as_bytes()))
    }

    #[test]
    fn header_property_names_are_parsed() {
        let parsed = |text: &str| text.parse::<HeaderProperty>();
        let is = |name: &str, form, all| Ok(HeaderProperty { name: name.into(), form, all });
        assert_eq!(parsed("header:Subject"), is("Subject", Form::Raw, false));
        assert_eq!(parsed("header:suBject:asText"), is("suBject", Form::Text, false));
        assert_eq!(parsed("header:X-A:asURLs:all"), is("X-A", Form::Urls, true));
        assert_eq!(parsed("header:X-A:all"), is("X-A", Form::Raw, true));
        assert_eq!(parsed("header:all"), is("all", Form::Raw, false));
        for bad in [
            "header:",
            "header",
            "Header:X",
            "header:X:",
            "header:X:astext",
            "header:X:all:asText",
            "header:X:asText:all:all",
            "header:X Y",
            "header:X:asText:asDate",
            "header:J\u{fc}",
            "header:X\n",
        ] {
            assert_eq!(parsed(bad), Err(BadHeaderProperty::Malformed), "{bad:?}");
        }
        for text in [
            "header:From:asText",
            "header:date:asMessageIds",
            "header:Received:asText",
            "header:Subject:asDate",
            "header:List-Post:asText",
            "header:RETURN-PATH:asAddresses",
        ] {
            assert_eq!(parsed(text), Err(BadHeaderProperty::NotAllowed), "{text}");
        }
        for text in [
            "header:Resent-Reply-To:asAddresses",
            "header:List-Id:asText",
            "header:X:asGroupedAddresses:all",
            "header:Received:asRaw:all",
            "header:list-post:asURLs",
            "header:References:asMessageIds",
        ] {
            let property = parsed(text).unwrap();
            assert_eq!(parsed(&property.to_string()), Ok(property), "{text}");
        }
    }

    #[test]
    fn last_field_counts_unless_all_are_requested() {
        let header = "X-A: 1\r\nx-a:  2\r\n 3\r\nTo: \r\n\r\n";
        let text = |text: &str| FormValue::Text(text.into());
        assert_eq!(evaluate("header:X-A", header), PropertyValue::Last(Some(text("  2\r\n 3"))));
        assert_eq!(evaluate("header:X-A:asText", header), PropertyValue::Last(Some(text("2 3"))));
        assert_eq!(
            evaluate("header:X-A:asText:all", header),
            PropertyValue::All(vec![text("1"), text("2 3")])
        );
        assert_eq!(evaluate("header:X-B", header), PropertyValue::Last(None));
        assert_eq!(evaluate("header:X-B:all", header), PropertyValue::All(vec![]));
        assert_eq!(
            evaluate("header:To:asAddresses", header),
            PropertyValue::Last(Some(FormValue::Addresses(vec![])))
        );
        assert_eq!(
            evaluate("header:X-A:asDate", header),
            PropertyValue::Last(Some(FormValue::Date(None)))
        );
        assert_eq!(
            evaluate("header:To:asRaw", "To: a\0\r\n"),
            PropertyValue::Last(Some(text(" a")))
        );
    }

    #[test]
    fn message_ids_and_urls_are_evaluated() {
        let list =
            |property: &str, value: &str| match evaluate(property, &format!("X: {value}\r\n")) {
                PropertyValue::Last(Some(FormValue::Strings(list))) => {
                    list.map(|list| list.join(" "))
                }
                other => panic!("{other:?}"),
            };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(list("header:X:asMessageIds", "<a@x> (c) <b@x>"), some("a@x b@x"));
        assert_eq!(list("header:X:asMessageIds", "none of all"), None);
        assert_eq!(
            list("header:X:asURLs", "<http://a/b\r\n c>, (no <x:y>) <mailto:a@x?subject=(y)>"),
            some("http://a/bc mailto:a@x?subject=(y)")
        );
        assert_eq!(list("header:X:asURLs", "NO (posting not allowed)"), None);
        assert_eq!(list("header:X:asURLs", "https://x.example/"), some("https://x.example/"));
        assert_eq!(list("header:X:asURLs", ""), None);
    }
}
