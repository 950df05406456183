//! Reads the `mailto` URIs of notifications (RFC 5436 §2, RFC 6068).
//!
//! - `to`, `cc` and `bcc` are recipients, `subject` and `body` the text.
//! - Every other field is dropped. RFC 5436 §2.7 forbids `from`, `auto-submitted`, `received`,
//!   `message-id` and `date`. It lets a notification have all other fields of the URI; but with
//!   them a script could write any field, such as Sender, Reply-To or List-Id, in the name of the
//!   site.

use crate::model::Address;
use crate::model::hex::hex_byte;

/// The most recipients of one notification.
const MAX_RECIPIENTS: usize = 8;
/// The scheme of the URIs, in lower case.
pub(super) const SCHEME: &str = "mailto";
/// The most bytes of a URI.
const MAX_URI_BYTES: usize = 8192;

/// What a `mailto` URI says. Addresses in `cc` and `bcc` are recipients, too: each gets a
/// notification of its own. Other header fields are ignored (RFC 5436 §2.7).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MailtoUri {
    pub(crate) to: Vec<Address>,
    pub(crate) subject: Option<String>,
    pub(crate) body: Option<String>,
}

/// Parses a URI; `None` if it is no `mailto` URI or too long, names no address or too many, or has
/// a malformed address, header field or percent-encoding. The values of header fields that are
/// ignored are not looked at. Of several subjects or bodies the last one counts.
pub(crate) fn parse(uri: &str) -> Option<MailtoUri> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || uri.len() > MAX_URI_BYTES {
        return None;
    }
    let (to, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut out = MailtoUri::default();
    add_addresses(to, &mut out.to)?;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=')?;
        match decode(name)?.to_ascii_lowercase().as_str() {
            "to" | "cc" | "bcc" => add_addresses(value, &mut out.to)?,
            "subject" => out.subject = Some(decode(value)?),
            "body" => out.body = Some(decode(value)?),
            _ => {}
        }
    }
    (!out.to.is_empty() && out.to.len() <= MAX_RECIPIENTS).then_some(out)
}

/// Returns the value of a capability of this method, whose name is in lower case; `None` for an
/// unknown one. Nobody knows whether the recipients are online (RFC 5436 §2.2).
pub(super) fn capability(name: &str) -> Option<String> {
    (name == "online").then(|| "maybe".to_owned())
}

/// Adds the addresses of a list that are not in `out` yet; `None` if one is malformed.
fn add_addresses(list: &str, out: &mut Vec<Address>) -> Option<()> {
    for text in list.split(',').filter(|text| !text.is_empty()) {
        let address = Address::parse(decode(text)?.trim()).ok()?;
        if !out.contains(&address) {
            out.push(address);
        }
    }
    Some(())
}

/// Undoes percent-encoding. `None` if it is broken, or the bytes are not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        out.push(hex_byte([bytes.next()?, bytes.next()?])?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_recipients_subject_and_body() {
        let uri = "mailto:a@example.org,b%2Bx@example.org?to=a@example.org&Subject=New%20mail\
                   &body=%C3%BC&From=evil@example.net";
        let parsed = parse(uri).unwrap();
        let to: Vec<String> = parsed.to.iter().map(ToString::to_string).collect();
        assert_eq!(to, ["a@example.org", "b+x@example.org"]);
        assert_eq!(
            (parsed.subject.as_deref(), parsed.body.as_deref()),
            (Some("New mail"), Some("ü"))
        );
        assert!(parse("MAILTO:?to=a@example.org").is_some());
        let copies = parse("mailto:?cc=a@example.org&BCC=b@example.org").unwrap();
        assert_eq!(copies.to.len(), 2);
    }

    #[test]
    fn other_uris_are_refused() {
        for uri in [
            "",
            "mailto:",
            "mailto:a",
            "xmpp:a@example.org",
            "mailto:a@example.org?subject",
            "mailto:a%4@example.org",
            "mailto:a@example.org?subject=%ff",
            "mailto:a%0d%0aX@example.org",
            "é",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
        let many: Vec<String> = (0..9).map(|n| format!("a{n}@b.example")).collect();
        assert_eq!(parse(&format!("mailto:{}", many.join(","))), None);
    }
}
