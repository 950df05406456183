//! Reads paths and parameters of MAIL and RCPT (RFC 5321 §4.1.2, RFC 6531 §3.3, RFC 3461 §4).

use crate::model::hex::hex_byte;
use crate::model::{Address, limits};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    Syntax,
    /// The local part is longer than `limits::MAX_LOCAL_PART_BYTES`, or the domain than
    /// `limits::MAX_DOMAIN_BYTES` (RFC 5321 §4.5.3.1).
    Long,
    /// Not UTF-8, control characters, or a quoted string with a backslash before anything but a
    /// character of printable ASCII.
    Characters,
}

/// Reads a path: `<` [source route `:`] mailbox `>`. Returns it with the text that follows.
///
/// `None` is the null path `<>`. Leading blanks are skipped. `<Postmaster>` has an empty domain.
pub fn path(text: &[u8]) -> Result<(Option<Address>, &[u8]), PathError> {
    let text = text.trim_ascii_start();
    let inner = text.strip_prefix(b"<").ok_or(PathError::Syntax)?;
    if let Some(rest) = inner.strip_prefix(b">") {
        return Ok((None, rest));
    }
    let inner = source_route(inner)?;
    let (local, rest) = local_part(inner)?;
    let (domain, rest) = match rest.strip_prefix(b"@") {
        Some(rest) => domain(rest)?,
        None if local.eq_ignore_ascii_case("postmaster") => (String::new(), rest),
        None => return Err(PathError::Syntax),
    };
    let rest = rest.strip_prefix(b">").ok_or(PathError::Syntax)?;
    if local.len() > limits::MAX_LOCAL_PART_BYTES || domain.len() > limits::MAX_DOMAIN_BYTES {
        return Err(PathError::Long);
    }
    Ok((Some(Address::from_parts(local, domain)), rest))
}

/// Skips the source route, `A-d-l` (RFC 5321 §4.1.1.3).
fn source_route(text: &[u8]) -> Result<&[u8], PathError> {
    if !text.starts_with(b"@") {
        return Ok(text);
    }
    let mut rest = text;
    loop {
        let (_, after) = domain(rest.strip_prefix(b"@").ok_or(PathError::Syntax)?)?;
        rest = match after.split_first() {
            Some((b',', more)) => more,
            Some((b':', mailbox)) => return Ok(mailbox),
            _ => return Err(PathError::Syntax),
        };
    }
}

/// Reads `Local-part`: a dot-string, or a quoted string, whose quotes are removed.
fn local_part(text: &[u8]) -> Result<(String, &[u8]), PathError> {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let mut local = Vec::new();
        let mut bytes = quoted.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => return Ok((utf8(local)?, bytes.as_slice())),
                b'\\' => local.push(
                    *bytes
                        .next()
                        .filter(|byte| matches!(byte, 32..=126))
                        .ok_or(PathError::Characters)?,
                ),
                0..=31 | 127 => return Err(PathError::Characters),
                other => local.push(*other),
            }
        }
        return Err(PathError::Syntax);
    }
    let end = text.iter().position(|byte| matches!(byte, b'@' | b'>')).ok_or(PathError::Syntax)?;
    let (local, rest) = text.split_at_checked(end).ok_or(PathError::Syntax)?;
    let local = utf8(local.to_vec())?;
    if crate::model::address::is_dot_atom(&local) {
        Ok((local, rest))
    } else {
        Err(PathError::Syntax)
    }
}

/// Reads `Domain` or `address-literal`.
fn domain(text: &[u8]) -> Result<(String, &[u8]), PathError> {
    let end = match text.first() {
        Some(b'[') => text.iter().position(|byte| *byte == b']').map(|end| end.saturating_add(1)),
        _ => text.iter().position(|byte| matches!(byte, b'>' | b',' | b':')),
    };
    let (domain, rest) =
        text.split_at_checked(end.ok_or(PathError::Syntax)?).ok_or(PathError::Syntax)?;
    let domain = utf8(domain.to_vec())?;
    if crate::model::address::domain_is_well_formed(&domain) {
        Ok((domain, rest))
    } else {
        Err(PathError::Syntax)
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String, PathError> {
    let text = String::from_utf8(bytes).map_err(|_| PathError::Characters)?;
    if text.chars().any(char::is_control) { Err(PathError::Characters) } else { Ok(text) }
}

/// Reads what follows a path: ` KEYWORD=value` or ` KEYWORD`, any number of times. Returns keywords
/// in upper case, and values unchanged; a missing value is empty.
pub fn parameters(text: &[u8]) -> Result<Vec<(String, String)>, PathError> {
    let text = std::str::from_utf8(text).map_err(|_| PathError::Characters)?;
    if !text.is_empty() && !text.starts_with(' ') {
        return Err(PathError::Syntax);
    }
    let words = text.split(' ').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (keyword, value) = word.split_once('=').unwrap_or((word, ""));
            let is_keyword =
                keyword.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let is_valid = !keyword.is_empty()
                && is_keyword
                && !value.chars().any(|c| c.is_control() || c == '=');
            if is_valid {
                Ok((keyword.to_ascii_uppercase(), value.to_owned()))
            } else {
                Err(PathError::Syntax)
            }
        })
        .collect()
}

/// Decodes `xtext` (RFC 3461 §4).
pub fn xtext(text: &str) -> Result<String, PathError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => {
                let digits = [
                    bytes.next().ok_or(PathError::Syntax)?,
                    bytes.next().ok_or(PathError::Syntax)?,
                ];
                if !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F')) {
                    return Err(PathError::Syntax);
                }
                out.push(hex_byte(digits).ok_or(PathError::Syntax)?);
            }
            b'!'..=b'~' if byte != b'=' => out.push(byte),
            _ => return Err(PathError::Syntax),
        }
    }
    utf8(out)
}

/// Decodes `utf-8-addr-xtext` and `utf-8-addr-unitext` (RFC 6533 §3).
pub fn utf8_addr(text: &str) -> Result<String, PathError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once("\\x{") {
        out.push_str(plain);
        let (digits, after) = escaped.split_once('}').ok_or(PathError::Syntax)?;
        let point =
            u32::from_str_radix(digits, 16).ok().filter(|_| (2..=6).contains(&digits.len()));
        out.push(point.and_then(char::from_u32).ok_or(PathError::Syntax)?);
        rest = after;
    }
    out.push_str(rest);
    if out.chars().any(char::is_control) { Err(PathError::Characters) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, PathError> {
        path(text.as_bytes()).map(|(address, rest)| {
            assert!(rest.is_empty(), "{text}");
            address.map_or_else(|| "<>".into(), |address| address.to_string())
        })
    }

    #[test]
    fn reads_paths_and_refuses_invalid_ones() {
        for (text, expected) in [
            ("<>", "<>"),
            ("  <a@b.example>", "a@b.example"),
            ("<\"a b\"@c.example>", "\"a b\"@c.example"),
            ("<\"a\\\"b\"@c.example>", "\"a\\\"b\"@c.example"),
            ("<\"plain\"@c.example>", "plain@c.example"),
            ("<@x.example,@y.example:a@b.example>", "a@b.example"),
            ("<a@[192.0.2.1]>", "a@[192.0.2.1]"),
            ("<a@[IPv6:2001:db8::1]>", "a@[IPv6:2001:db8::1]"),
            ("<PostMaster>", "PostMaster"),
            ("<jürgen@bücher.example>", "jürgen@bücher.example"),
        ] {
            assert_eq!(read(text), Ok(expected.to_owned()), "{text}");
        }
        for text in [
            "",
            "a@b",
            "<a>",
            "<a@b",
            "<a@>",
            "<@b>",
            "<a..b@c>",
            "<a b@c>",
            "<a@b c>",
            "<\"a@b>",
            "<a@b@c>",
            "<a\u{7f}@b>",
            "<\"a\u{1}\"@b>",
            "<a@-b.example>",
            "<@x.example:>",
            "<@x.example,a@b.example>",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert_eq!(path(b"<a\xff@b>"), Err(PathError::Characters));
        assert_eq!(read(&format!("<{}@b>", "a".repeat(257))), Err(PathError::Long));
    }

    #[test]
    fn decodes_xtext_and_utf8_addresses() {
        assert_eq!(xtext("a+2Bb+3D"), Ok("a+b=".into()));
        for text in ["+2", "+2b", "a=b", "a b", "+0D+0A", "+FF"] {
            assert!(xtext(text).is_err(), "{text}");
        }
        assert_eq!(utf8_addr("j\\x{FC}rgen@example.org"), Ok("jürgen@example.org".into()));
        assert!(utf8_addr("\\x{0D}").is_err());
        assert_eq!(
            parameters(b" SIZE=9  smtputf8"),
            Ok(vec![("SIZE".into(), "9".into()), ("SMTPUTF8".into(), String::new())])
        );
        assert!(parameters(b"SIZE=9").is_err());
    }
}
