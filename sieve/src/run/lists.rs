//! Names of external lists (RFC 6134 §2.5).

use std::borrow::Cow;

/// The beginning of the URNs of Sieve, of which `:` is a short form.
const SIEVE_URN: &str = "urn:ietf:params:sieve:";

/// What follows [`SIEVE_URN`] in the URN of an address book, before the name of the book.
const ADDRESS_BOOK: &str = "addrbook:";

/// Returns the URI of a list that a script names.
///
/// - A URN of Sieve, also in its short form, begins with `urn:ietf:params:sieve:` in lower case.
/// - That of an address book goes on with `addrbook:` in lower case.
/// - The default address book has the name `default`, whatever its case and percent-encoding in the
///   script. Other names, and other URIs, stay as they are.
pub(super) fn list_uri(name: &str) -> Cow<'_, str> {
    let rest = name.strip_prefix(':').or_else(|| strip_prefix_ignore_case(name, SIEVE_URN));
    let Some(rest) = rest else { return Cow::Borrowed(name) };
    let Some(book) = strip_prefix_ignore_case(rest, ADDRESS_BOOK) else {
        return Cow::Owned(format!("{SIEVE_URN}{rest}"));
    };
    let book = if is_default(book) { "default" } else { book };
    Cow::Owned(format!("{SIEVE_URN}{ADDRESS_BOOK}{book}"))
}

fn strip_prefix_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| text.get(prefix.len()..))?
}

/// Returns whether a name is `default` after percent-decoding, without regard to case.
fn is_default(name: &str) -> bool {
    let mut rest = name;
    for expected in "default".chars() {
        let (c, after) = match rest.strip_prefix('%').and_then(|hex| hex.split_at_checked(2)) {
            Some((hex, after)) => match u8::from_str_radix(hex, 16) {
                Ok(byte) => (char::from(byte), after),
                Err(_) => return false,
            },
            None => match rest.chars().next() {
                Some(c) => (c, rest.get(c.len_utf8()..).unwrap_or_default()),
                None => return false,
            },
        };
        if !c.eq_ignore_ascii_case(&expected) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_books_have_one_name() {
        for (name, expected) in [
            (":addrbook:default", "urn:ietf:params:sieve:addrbook:default"),
            (":ADDRBOOK:DEFAULT", "urn:ietf:params:sieve:addrbook:default"),
            (":AddrBook:%44%65%66ault", "urn:ietf:params:sieve:addrbook:default"),
            ("URN:ietf:params:sieve:addrbook:Default", "urn:ietf:params:sieve:addrbook:default"),
            (":addrbook:Personal", "urn:ietf:params:sieve:addrbook:Personal"),
            (":addrbook:defaults", "urn:ietf:params:sieve:addrbook:defaults"),
            (":addrbook:%4", "urn:ietf:params:sieve:addrbook:%4"),
            (":other", "urn:ietf:params:sieve:other"),
            ("tag:example.org,2026:x", "tag:example.org,2026:x"),
            ("\u{fc}", "\u{fc}"),
        ] {
            assert_eq!(list_uri(name), expected);
        }
    }
}
