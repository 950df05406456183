//! Reads the address to which this service delivered an email from the Delivered-To field of the
//! trace prefix.
//!
//! - The value has the form in which conditions on header fields compare
//!   (`message::header::folded`): lower case, single spaces.
//! - A value in an unusual form (not ASCII, folded, repeated, empty, an encoded word, too long, too
//!   far down, a blank before its colon) is `Unclear`, and so is every prefix whose beginning a
//!   parser of headers may skip. A caller that needs the value then parses the header.

/// The beginning of the search text; the address follows, or nothing if it is `Unclear`. The space
/// keeps it apart from other search texts: ids and media types have no space, and an address begins
/// with its domain (`Address::reversed_domain`), which has none.
pub const SEARCH_TEXT_PREFIX: &str = "delivered-to ";

const NAME: &[u8] = b"delivered-to";
/// The longest value that becomes a search text.
const MAX_BYTES: usize = 255;
/// A field that is not among these first lines is `Unclear`. `message::trace` writes it into the
/// second.
const MAX_LINES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveredTo {
    Absent,
    /// The value of the only Delivered-To field.
    Value(String),
    /// There may be a Delivered-To field, but only a parser of headers can read its value.
    Unclear,
}

impl DeliveredTo {
    /// Reads the value from a trace prefix, which may be empty.
    #[must_use]
    pub fn parse(trace: &[u8]) -> Self {
        let lines: Vec<&[u8]> = trace.split(|byte| *byte == b'\n').collect();
        // A parser of headers may skip a first line that begins with no letter, or with the `From `
        // of mailbox files.
        if trace.first().is_some_and(|first| !first.is_ascii_alphabetic() || *first == b'F') {
            return Self::Unclear;
        }
        let is_named = |line: &&[u8]| {
            line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
        };
        let Some(at) = lines.iter().position(is_named) else { return Self::Absent };
        let (before, rest) = lines.split_at_checked(at).unwrap_or((&lines, &[]));
        let [line, behind @ ..] = rest else { return Self::Unclear };
        let is_plain = before.len() < MAX_LINES
            && before.iter().all(|line| !line.trim_ascii().is_empty())
            && !behind.iter().any(is_named)
            && !behind.first().is_some_and(|next| matches!(next.first(), Some(b' ' | b'\t')));
        let value =
            line.get(NAME.len()..).and_then(|rest| rest.strip_prefix(b":")).filter(|_| is_plain);
        value.and_then(plain).map_or(Self::Unclear, Self::Value)
    }

    /// Returns the search text under which the store indexes the field. `None` if it is absent.
    #[must_use]
    pub fn search_text(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Value(value) => Some(format!("{SEARCH_TEXT_PREFIX}{value}")),
            Self::Unclear => Some(SEARCH_TEXT_PREFIX.to_owned()),
        }
    }
}

/// Returns the compared form of a value, or `None` if the value is in an unusual form.
fn plain(value: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(value).ok()?.trim_ascii();
    let is_plain =
        value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && !value.contains("=?");
    let folded = value.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    (is_plain && !folded.is_empty() && folded.len() <= MAX_BYTES).then_some(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_value_is_read() {
        let value = |text: &str| DeliveredTo::Value(text.to_owned());
        for (trace, read) in [
            ("", DeliveredTo::Absent),
            (
                "Return-Path: <>\r\nReceived: from delivered-to:\r\n\tdelivered-to: x\r\n",
                DeliveredTo::Absent,
            ),
            (
                "Return-Path: <>\r\nDelivered-To: Ann@Example.org\r\nReceived: x\r\n\ty\r\n",
                value("ann@example.org"),
            ),
            ("DELIVERED-TO:\"a  b\"@x", value("\"a b\"@x")),
            ("Delivered-To: a@x\r\n", value("a@x")),
            ("Delivered-To: a@x\r\nX: 1\r\nDelivered-To: b@x\r\n", DeliveredTo::Unclear),
            ("Delivered-To: a@x\r\n b@x\r\n", DeliveredTo::Unclear),
            ("X: 1\r\n\r\nDelivered-To: a@x\r\n", DeliveredTo::Unclear),
            ("From x\r\nDelivered-To: a@x\r\n", DeliveredTo::Unclear),
            ("\r\nDelivered-To: a@x\r\n", DeliveredTo::Unclear),
            ("Delivered-To : a@x\r\n", DeliveredTo::Unclear),
            ("Delivered-To: \r\n", DeliveredTo::Unclear),
            ("Delivered-To: jürgen@x\r\n", DeliveredTo::Unclear),
            ("Delivered-To: =?utf-8?q?a?=@x\r\n", DeliveredTo::Unclear),
        ] {
            assert_eq!(DeliveredTo::parse(trace.as_bytes()), read, "{trace:?}");
        }
        assert_eq!(
            DeliveredTo::parse(format!("Delivered-To: {}\r\n", "a".repeat(256)).as_bytes()),
            DeliveredTo::Unclear
        );
        assert_eq!(value("a@x").search_text().as_deref(), Some("delivered-to a@x"));
        assert_eq!(
            (DeliveredTo::Absent.search_text(), DeliveredTo::Unclear.search_text()),
            (None, Some(SEARCH_TEXT_PREFIX.to_owned()))
        );
    }
}
