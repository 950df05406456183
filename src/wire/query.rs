//! Reads and writes query strings (RFC 3986 §3.4): `name=value&name=value`, percent-encoded (§2.1).
//! A `+` is a plus sign, not a blank.

use crate::model::hex::hex_byte;
use crate::model::limits;

/// A query has an invalid escape, text that is not UTF-8, a repeated name, or too many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a well-formed query")]
pub struct BadQuery;

/// Writes a query string without the `?`. Names must be different for `read` to accept it.
#[must_use]
pub fn write(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        escape(name, &mut out);
        out.push('=');
        escape(value, &mut out);
    }
    out
}

/// Returns the pairs of a query string without the `?`, in order. A name without `=` has an empty
/// value, and empty pairs are skipped.
///
/// # Errors
/// `BadQuery` if the string is not well-formed.
pub fn read(query: &str) -> Result<Vec<(String, String)>, BadQuery> {
    if query.len() > limits::MAX_QUERY_STRING_BYTES {
        return Err(BadQuery);
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = unescape(name)?;
        if pairs.iter().any(|(key, _)| *key == name) {
            return Err(BadQuery);
        }
        pairs.push((name, unescape(value)?));
    }
    Ok(pairs)
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

fn unescape(text: &str) -> Result<String, BadQuery> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || bytes.next().ok_or(BadQuery);
                out.push(hex_byte([digit()?, digit()?]).ok_or(BadQuery)?);
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).map_err(|_| BadQuery)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_writes_escapes_and_refuses_invalid_queries() {
        assert_eq!(write(&[("a", "x y&z"), ("ü", "")]), "a=x%20y%26z&%C3%BC=");
        assert_eq!(
            read("a=%41%2b&&b"),
            Ok(vec![("a".into(), "A+".into()), ("b".into(), String::new())])
        );
        for invalid in [
            "a=%",
            "a=%4",
            "a=%g0",
            "a=%ff",
            "a=1&a=2",
            &"x".repeat(limits::MAX_QUERY_STRING_BYTES + 1),
        ] {
            assert_eq!(read(invalid), Err(BadQuery), "{invalid:.20}");
        }
    }

    proptest! {
        #[test]
        fn written_queries_are_read_back(name in ".{1,20}", value in ".{0,20}") {
            prop_assert_eq!(read(&write(&[(&name, &value)])), Ok(vec![(name, value)]));
        }
    }
}
