//! The address of a delivery by this service, read out of the trace fields that the delivery wrote
//! before the message.
//!
//! - The trace fields are the one place where the address is kept. It is read from them, so that no
//!   second copy can differ.
//! - The value has the form in which conditions on header fields compare
//!   (`message::header::folded`): lower case, single blanks. A test of `message::trace` holds the
//!   two together.
//! - What is not plainly such a value (not ASCII, folded, twice, an encoded word, too long) is
//!   `Unread`: whoever needs to know reads the header.

/// A search text of an email that this service delivered begins so; the address follows, or nothing
/// where it is `Unread`. The blank keeps it apart from all other texts: ids have none, and
/// addresses none before the `@`.
pub const TEXT: &str = "delivered-to ";

const NAME: &[u8] = b"delivered-to";
/// The longest value that is a search text.
const MAX_BYTES: usize = 255;
/// Lines of trace fields in which the field is looked for; ours is the second.
const MAX_LINES: usize = 8;

/// What trace fields say in Delivered-To.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveredTo {
    /// They have no such field.
    Absent,
    /// The value of the only such field.
    Value(String),
    /// There may be such a field: the header says what is in it.
    Unread,
}

impl DeliveredTo {
    /// Reads trace fields; what was not delivered here has none.
    #[must_use]
    pub fn of(trace: &[u8]) -> Self {
        let lines: Vec<&[u8]> = trace.split(|byte| *byte == b'\n').collect();
        // Such a beginning may be passed over by who reads header fields, and then the next line is
        // the first.
        if trace.first().is_some_and(|first| !first.is_ascii_alphabetic() || *first == b'F') {
            return Self::Unread;
        }
        let is_named = |line: &&[u8]| {
            line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
        };
        let Some(at) = lines.iter().position(is_named) else { return Self::Absent };
        let (before, rest) = lines.split_at_checked(at).unwrap_or((&lines, &[]));
        let [line, behind @ ..] = rest else { return Self::Unread };
        let is_plain = before.len() < MAX_LINES
            && before.iter().all(|line| !line.trim_ascii().is_empty())
            && !behind.iter().any(is_named)
            && !behind.first().is_some_and(|next| matches!(next.first(), Some(b' ' | b'\t')));
        let value =
            line.get(NAME.len()..).and_then(|rest| rest.strip_prefix(b":")).filter(|_| is_plain);
        value.and_then(plain).map_or(Self::Unread, Self::Value)
    }

    /// The search text of an email with these trace fields.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Value(value) => Some(format!("{TEXT}{value}")),
            Self::Unread => Some(TEXT.to_owned()),
        }
    }
}

/// A value in the form in which it is compared, where that form is plain to see.
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
    fn the_value_is_read_where_it_is_plain() {
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
            ("Delivered-To: a@x\r\nX: 1\r\nDelivered-To: b@x\r\n", DeliveredTo::Unread),
            ("Delivered-To: a@x\r\n b@x\r\n", DeliveredTo::Unread),
            ("X: 1\r\n\r\nDelivered-To: a@x\r\n", DeliveredTo::Unread),
            ("From x\r\nDelivered-To: a@x\r\n", DeliveredTo::Unread),
            ("\r\nDelivered-To: a@x\r\n", DeliveredTo::Unread),
            ("Delivered-To : a@x\r\n", DeliveredTo::Unread),
            ("Delivered-To: \r\n", DeliveredTo::Unread),
            ("Delivered-To: jürgen@x\r\n", DeliveredTo::Unread),
            ("Delivered-To: =?utf-8?q?a?=@x\r\n", DeliveredTo::Unread),
        ] {
            assert_eq!(DeliveredTo::of(trace.as_bytes()), read, "{trace:?}");
        }
        assert_eq!(
            DeliveredTo::of(format!("Delivered-To: {}\r\n", "a".repeat(256)).as_bytes()),
            DeliveredTo::Unread
        );
        assert_eq!(value("a@x").text().as_deref(), Some("delivered-to a@x"));
        assert_eq!(
            (DeliveredTo::Absent.text(), DeliveredTo::Unread.text()),
            (None, Some(TEXT.to_owned()))
        );
    }
}
