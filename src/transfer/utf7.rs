//! Modified UTF-7, the encoding of mailbox names in IMAP and in Maildir++ (RFC 3501 §5.1.3).

use base64::Engine as _;
use base64::alphabet::IMAP_MUTF7;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

const BASE64: GeneralPurpose = GeneralPurpose::new(&IMAP_MUTF7, NO_PAD);

/// Encodes a name as printable ASCII.
#[must_use]
pub fn encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut shifted: Vec<u8> = Vec::new();
    let flush = |out: &mut String, shifted: &mut Vec<u8>| {
        if !shifted.is_empty() {
            out.push('&');
            BASE64.encode_string(&shifted, out);
            out.push('-');
            shifted.clear();
        }
    };
    for c in name.chars() {
        if matches!(c, ' '..='~') {
            flush(&mut out, &mut shifted);
            out.push(c);
            if c == '&' {
                out.push('-');
            }
        } else {
            shifted.extend(c.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_be_bytes()));
        }
    }
    flush(&mut out, &mut shifted);
    out
}

/// Decodes a name; `None` if the text is no modified UTF-7. Also decodes printable ASCII that is
/// in base64, which `encode` never writes.
#[must_use]
pub fn decode(text: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'&' => {
                let (shifted, after) = rest.split_at_checked(memchr::memchr(b'-', rest)?)?;
                rest = after.get(1..)?;
                if shifted.is_empty() {
                    out.push('&');
                } else {
                    out.push_str(&unshift(shifted)?);
                }
            }
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => return None,
        }
    }
    Some(out)
}

/// Decodes the base64 between `&` and `-`, which is UTF-16 in big-endian order.
fn unshift(shifted: &[u8]) -> Option<String> {
    let bytes = BASE64.decode(shifted).ok()?;
    let units = bytes.chunks(2).map(|pair| pair.try_into().ok().map(u16::from_be_bytes));
    String::from_utf16(&units.collect::<Option<Vec<u16>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_encoded_as_in_rfc_3501() {
        for (name, text) in [
            ("~peter/mail/台北/日本語", "~peter/mail/&U,BTFw-/&ZeVnLIqe-"),
            ("Entwürfe", "Entw&APw-rfe"),
            ("R&D", "R&-D"),
            ("&", "&-"),
            ("", ""),
            ("a\u{1f600}\n", "a&2D3eAAAK-"),
        ] {
            assert_eq!(encode(name), text);
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(name));
        }
        for text in ["&", "&AP", "&AP-", "&APw", "\u{fc}", "&2D0-", "&A-", "&AB/C-", "a\n"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_encoded_and_decoded_again(
            name in "\\PC{0,40}|[\\x00-\\x7f]{0,20}|.{0,20}",
        ) {
            let text = encode(&name);
            prop_assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text}");
            prop_assert_eq!(decode(text.as_bytes()), Some(name));
        }

        #[test]
        fn any_bytes_are_a_name_or_none(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(name) = decode(&text) {
                prop_assert_eq!(decode(encode(&name).as_bytes()), Some(name));
            }
        }
    }
}
