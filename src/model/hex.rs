//! Converts bytes to and from hexadecimal digits, and texts to xtext.

use std::fmt::Write as _;

/// Returns two lower-case digits for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut out, byte| {
        // Writing to a String cannot fail.
        write!(out, "{byte:02x}").ok();
        out
    })
}

/// Returns the byte of two digits in either letter case; `None` if one of them is no digit.
#[must_use]
pub fn hex_byte([high, low]: [u8; 2]) -> Option<u8> {
    encodify::hex::decode_pair(high, low)
}

/// Encodes a text as `xtext` (RFC 3461 §4).
#[must_use]
pub fn xtext(text: &str) -> String {
    encodify::hex::XTEXT.encode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_digits_and_read_back() {
        assert_eq!(hex(&[0, 0x0f, 0xff]), "000fff");
        assert_eq!(
            (hex_byte(*b"fF"), hex_byte(*b"0a"), hex_byte(*b"+1")),
            (Some(255), Some(10), None)
        );
        assert_eq!(xtext("rfc822;a+b=c \u{e9}\t~!"), "rfc822;a+2Bb+3Dc+20+C3+A9+09~!");
    }
}
