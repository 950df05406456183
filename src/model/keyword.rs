//! Keywords of an email (RFC 8621 §4.1.1): lower-case ASCII words such as `$seen`.

use super::limits;

/// The email was read.
pub const SEEN: &str = "$seen";
/// The owner marked it.
pub const FLAGGED: &str = "$flagged";
/// The email is being written.
pub const DRAFT: &str = "$draft";
/// The owner answered it.
pub const ANSWERED: &str = "$answered";
/// The owner sent it on.
pub const FORWARDED: &str = "$forwarded";
/// A filter called it spam.
pub const JUNK: &str = "$junk";
/// A disposition notification was sent for it, or never shall be (RFC 3503 §2, RFC 9007 §1.2).
pub const MDN_SENT: &str = "$mdnsent";

/// The keyword in its stored form, or `None` where it is none: 1 to 255 characters of `%x21-%x7e`
/// without `( ) { ] % * " \` (RFC 8621 §4.1.1).
#[must_use]
pub fn normal(text: &str) -> Option<String> {
    let fits = (1..=limits::MAX_KEYWORD_BYTES).contains(&text.len());
    let clean = text.bytes().all(|b| matches!(b, 0x21..=0x7e) && !b"(){]%*\"\\".contains(&b));
    (fits && clean).then(|| text.to_ascii_lowercase())
}
