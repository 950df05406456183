//! Email addresses without a display name (RFC 5322 §3.4.1).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most bytes of an address: RFC 5321 §4.5.3.1.3 allows a path of 256 bytes, of which the angle
/// brackets take two.
const MAX_ADDRESS_BYTES: usize = 254;

/// The most bytes of a label of a domain (RFC 1035 §2.3.4).
const MAX_LABEL_BYTES: usize = 63;

/// An address: a local part and a domain, as written. A local part that is a quoted string is held
/// without quotation marks and escapes.
///
/// Serialised as its text.
///
/// ```
/// use restante_sieve::AddressSpec;
///
/// let quoted = AddressSpec::parse("\"me too\"@example.org").ok_or("no address")?;
/// assert_eq!(quoted.local_part(), "me too");
/// assert_eq!(quoted.to_string(), "\"me too\"@example.org");
///
/// let named = AddressSpec::parse_mailbox("Me <me@Example.org>").ok_or("no address")?;
/// assert!(named.matches(&AddressSpec::new("me", "example.org")));
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressSpec {
    local_part: String,
    domain: String,
}

impl AddressSpec {
    /// Makes an address of parts that a host has parsed. They are not checked: an address that
    /// [`Self::parse`] refuses cannot be deserialised again.
    #[must_use]
    pub fn new(local_part: impl Into<String>, domain: impl Into<String>) -> Self {
        Self { local_part: local_part.into(), domain: domain.into() }
    }

    /// Parses an addr-spec of at most 254 bytes: a dot-atom or a quoted string that is not empty,
    /// `@`, and a domain or a domain literal. Characters beyond ASCII are allowed (RFC 6532 §3.2).
    /// Comments, and blanks around tokens, are not. [`Self::parse_mailbox`] allows a display name
    /// too.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (local_part, domain) = match text.strip_prefix('"') {
            Some(quoted) => {
                let (local_part, rest) = parse_quoted(quoted)?;
                (local_part, rest.strip_prefix('@')?)
            }
            None => {
                let (local_part, domain) = text.split_once('@')?;
                (is_dot_atom(local_part).then(|| local_part.to_owned())?, domain)
            }
        };
        let is_valid =
            text.len() <= MAX_ADDRESS_BYTES && !local_part.is_empty() && is_domain(domain);
        is_valid.then(|| Self { local_part, domain: domain.to_owned() })
    }

    /// Parses an address as commands take it: an addr-spec, or an addr-spec in angle brackets, with
    /// or without a display name before it, as in `Name <name@example.org>` (RFC 5228 §2.4.2.3).
    /// The display name is dropped. A text with control characters is no address.
    #[must_use]
    pub fn parse_mailbox(text: &str) -> Option<Self> {
        if text.chars().any(char::is_control) {
            return None;
        }
        let text = text.trim();
        let Some(inner) = text.strip_suffix('>') else { return Self::parse(text) };
        let (name, address) = inner.rsplit_once('<')?;
        let name = name.trim();
        let has_unquoted = |c| split_unquoted(name, c).count() > 1;
        let is_quoted = name.len() >= 2
            && name.starts_with('"')
            && name.ends_with('"')
            && !has_unquoted('<')
            && !has_unquoted(',');
        let is_plain = !name.chars().any(|c| matches!(c, '<' | '>' | '"' | ',' | ';' | '@'));
        (is_quoted || is_plain).then(|| Self::parse(address.trim())).flatten()
    }

    #[must_use]
    pub fn local_part(&self) -> &str {
        &self.local_part
    }

    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns whether both addresses are one: the local parts are the same, and the domains differ
    /// at most in case (RFC 5321 §2.4).
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.local_part == other.local_part && self.domain.eq_ignore_ascii_case(&other.domain)
    }
}

impl fmt::Display for AddressSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local_part, domain } = self;
        if is_dot_atom(local_part) {
            return write!(f, "{local_part}@{domain}");
        }
        f.write_str("\"")?;
        for c in local_part.chars() {
            if matches!(c, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        write!(f, "\"@{domain}")
    }
}

impl Serialize for AddressSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AddressSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("no address"))
    }
}

/// Parses a quoted string after its opening quotation mark. Returns its content, without escapes,
/// and what follows the closing mark. `None` if there is none, or a control character before it.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((content, chars.as_str())),
            '\\' => content.push(chars.next().filter(|c| !c.is_control())?),
            c if c.is_control() => return None,
            c => content.push(c),
        }
    }
}

/// Splits a text at each separator that does not stand in quotation marks.
pub(crate) fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    text.split(move |c: char| {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = is_quoted;
        } else if c == '"' {
            is_quoted = !is_quoted;
        }
        c == separator && !is_quoted
    })
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

/// Returns whether a character is `atext` (RFC 5322 §3.2.3, RFC 6532 §3.2).
pub(crate) fn is_atext(c: char) -> bool {
    let is_plain = c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    is_plain || (!c.is_ascii() && !c.is_control() && !c.is_whitespace())
}

/// Returns whether a text is the name of a domain (RFC 5321 §4.1.2, RFC 1035 §2.3.1), or an address
/// literal, of which only the characters are checked. The name may be a single label, and may have
/// letters beyond ASCII, and underscores, which are in use.
pub(crate) fn is_domain(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(literal) => literal.strip_suffix(']').is_some_and(|literal| {
            let is_dtext = |c: char| c.is_ascii_graphic() && !matches!(c, '[' | ']' | '\\');
            !literal.is_empty() && literal.chars().all(is_dtext)
        }),
        None => text.split('.').all(|label| {
            let is_letter = |c: char| {
                c.is_ascii_alphanumeric()
                    || matches!(c, '-' | '_')
                    || (!c.is_ascii() && is_atext(c))
            };
            (1..=MAX_LABEL_BYTES).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(is_letter)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_written_back() {
        for text in [
            "a@b",
            "a.b+c@d.example",
            "\"a b\"@c.example",
            "\"\\\"\"@c",
            "a@[192.0.2.1]",
            "\u{fc}@b\u{fc}cher.example",
        ] {
            assert_eq!(AddressSpec::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(AddressSpec::parse("\"a\"@b").unwrap().to_string(), "a@b");
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for text in [
            "",
            "a",
            "@b",
            "a@",
            "a@b@c",
            "a..b@c",
            ".a@b",
            "a b@c",
            "<a@b>",
            "A <a@b>",
            "a@b.",
            "\"a@b",
            "\"a\"b@c",
            "a@[]",
            "a@b\r\nc",
            "a@b,c@d",
            "a@-b.example",
            "a@b-.example",
            "a@b!c",
            "a@b~c",
            "\"\"@b",
        ] {
            assert_eq!(AddressSpec::parse(text), None, "{text}");
        }
        assert_eq!(AddressSpec::parse(&format!("{}@b", "a".repeat(253))), None);
        assert_eq!(AddressSpec::parse(&format!("a@{}", "b".repeat(64))), None);
    }

    #[test]
    fn case_matters_in_local_parts_and_not_in_domains() {
        let parse = |text| AddressSpec::parse(text).unwrap();
        assert!(parse("me@Example.org").matches(&parse("me@example.ORG")));
        assert!(!parse("Me@example.org").matches(&parse("me@example.org")));
        assert!(!parse("me@example.org").matches(&parse("you@example.org")));
    }

    #[test]
    fn addresses_may_have_display_names() {
        for text in [
            "a@b.example",
            "<a@b.example>",
            "A. B <a@b.example>",
            "\"B, A\" <a@b.example>",
            "\"B\" \"A\" <a@b.example>",
            "=?UTF-8?Q?J=C3=BCrgen?= <j@example.org>",
            "J\u{fc}rgen <j@example.org>",
        ] {
            assert!(AddressSpec::parse_mailbox(text).is_some(), "{text}");
        }
        for text in [
            "",
            "A",
            "A <a>",
            "a@b, c@d",
            "A <b@c> <d@e>",
            "\"A\" <b@c>, \"D\" <d@e>",
            "A\r\nBcc: x <a@b>",
            "A\n<a@b>",
        ] {
            assert!(AddressSpec::parse_mailbox(text).is_none(), "{text}");
        }
    }
}
