//! Keywords of an email (RFC 8621 §4.1.1): lower-case ASCII words such as `$seen`.

use super::limits;

pub const SEEN: &str = "$seen";
pub const FLAGGED: &str = "$flagged";
pub const DRAFT: &str = "$draft";
pub const ANSWERED: &str = "$answered";
pub const FORWARDED: &str = "$forwarded";
pub const JUNK: &str = "$junk";
/// A disposition notification for the email was sent, or must never be sent (RFC 3503 §2, RFC 9007
/// §1.2).
pub const MDN_SENT: &str = "$mdnsent";

/// Returns a keyword in lower case, or `None` if the text is not a keyword (RFC 8621 §4.1.1).
#[must_use]
pub fn normalize(text: &str) -> Option<String> {
    let fits = (1..=limits::MAX_KEYWORD_BYTES).contains(&text.len());
    let clean = text.bytes().all(|b| matches!(b, 0x21..=0x7e) && !b"(){]%*\"\\".contains(&b));
    (fits && clean).then(|| text.to_ascii_lowercase())
}
