//! Paths and parameters of MAIL and RCPT (RFC 5321 §4.1.2, RFC 6531 §3.3, RFC 3461 §4). Each
//! function is named by its rule.

use crate::model::hex::hex_byte;
use crate::model::{Address, limits};

/// Why a path or parameter is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// Not the grammar.
    Syntax,
    /// Local part over 256 octets, domain over 255 (RFC 5321 §4.5.3.1).
    Long,
    /// Octets that are not UTF-8, or controls.
    Octets,
}

/// A path and what follows it: `<` [source route `:`] mailbox `>`. `None` is the null path. Blanks
/// before it are let through. `<Postmaster>` alone has an empty domain.
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

/// `A-d-l`: read and forgotten (RFC 5321 §4.1.1.3).
fn source_route(text: &[u8]) -> Result<&[u8], PathError> {
    let mut rest = text;
    while let Some(at) = rest.strip_prefix(b"@") {
        let (_, after) = domain(at)?;
        rest = match after.split_first() {
            Some((b',', more)) => more,
            Some((b':', mailbox)) => return Ok(mailbox),
            _ => return Err(PathError::Syntax),
        };
    }
    Ok(rest)
}

/// `Local-part`: a dot-string or a quoted string, without its quotes.
fn local_part(text: &[u8]) -> Result<(String, &[u8]), PathError> {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let mut local = Vec::new();
        let mut octets = quoted.iter();
        while let Some(octet) = octets.next() {
            match octet {
                b'"' => return Ok((utf8(local)?, octets.as_slice())),
                b'\\' => local.push(
                    *octets
                        .next()
                        .filter(|octet| matches!(octet, 32..=126))
                        .ok_or(PathError::Octets)?,
                ),
                0..=31 | 127 => return Err(PathError::Octets),
                other => local.push(*other),
            }
        }
        return Err(PathError::Syntax);
    }
    let end =
        text.iter().position(|octet| matches!(octet, b'@' | b'>')).ok_or(PathError::Syntax)?;
    let (local, rest) = text.split_at_checked(end).ok_or(PathError::Syntax)?;
    let local = utf8(local.to_vec())?;
    if crate::model::address::is_dot_atom(&local) {
        Ok((local, rest))
    } else {
        Err(PathError::Syntax)
    }
}

/// `Domain` or `address-literal`.
fn domain(text: &[u8]) -> Result<(String, &[u8]), PathError> {
    let end = match text.first() {
        Some(b'[') => text.iter().position(|octet| *octet == b']').map(|at| at.saturating_add(1)),
        _ => text.iter().position(|octet| matches!(octet, b'>' | b',' | b':')),
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

fn utf8(octets: Vec<u8>) -> Result<String, PathError> {
    let text = String::from_utf8(octets).map_err(|_| PathError::Octets)?;
    if text.chars().any(char::is_control) { Err(PathError::Octets) } else { Ok(text) }
}

/// The parameters behind a path: keyword in upper case, value as it stands.
pub fn parameters(text: &[u8]) -> Result<Vec<(String, String)>, PathError> {
    let text = std::str::from_utf8(text).map_err(|_| PathError::Octets)?;
    if !text.is_empty() && !text.starts_with(' ') {
        return Err(PathError::Syntax);
    }
    let words = text.split(' ').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (keyword, value) = word.split_once('=').unwrap_or((word, ""));
            let named = keyword.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-');
            let clean =
                !keyword.is_empty() && named && !value.chars().any(|c| c.is_control() || c == '=');
            // ORCPT and ENVID hold xtext, which has no `=`; nothing else of ours has one either.
            if clean {
                Ok((keyword.to_ascii_uppercase(), value.to_owned()))
            } else {
                Err(PathError::Syntax)
            }
        })
        .collect()
}

/// `xtext` (RFC 3461 §4), decoded.
pub fn xtext(text: &str) -> Result<String, PathError> {
    let mut out = Vec::with_capacity(text.len());
    let mut octets = text.bytes();
    while let Some(octet) = octets.next() {
        match octet {
            b'+' => {
                let digits = [
                    octets.next().ok_or(PathError::Syntax)?,
                    octets.next().ok_or(PathError::Syntax)?,
                ];
                if !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F')) {
                    return Err(PathError::Syntax);
                }
                out.push(hex_byte(digits).ok_or(PathError::Syntax)?);
            }
            b'!'..=b'~' if octet != b'=' => out.push(octet),
            _ => return Err(PathError::Syntax),
        }
    }
    utf8(out)
}

/// `utf-8-addr-xtext` and `utf-8-addr-unitext` (RFC 6533 §3), decoded.
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
    if out.chars().any(char::is_control) { Err(PathError::Octets) } else { Ok(out) }
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
    fn paths() {
        for (text, wanted) in [
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
            assert_eq!(read(text), Ok(wanted.to_owned()), "{text}");
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
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert_eq!(path(b"<a\xff@b>"), Err(PathError::Octets));
        assert_eq!(read(&format!("<{}@b>", "a".repeat(257))), Err(PathError::Long));
    }

    #[test]
    fn xtext_and_its_kin() {
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
