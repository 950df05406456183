//! Prepares passwords for SCRAM with `SASLprep` (RFC 4013), as RFC 5802 §2.2 asks.

use unicode_normalization::UnicodeNormalization as _;

/// Maps spaces to U+0020, removes characters that are commonly mapped to nothing, and normalizes to
/// NFKC. Does not refuse what RFC 4013 prohibits: a client that uses such a password has prepared
/// it in the same way, or its login fails.
#[must_use]
pub(super) fn prepare(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mapped = text.chars().filter(|c| !is_removed(*c));
    mapped.map(|c| if is_space(c) { ' ' } else { c }).nfkc().collect()
}

/// RFC 3454, table C.1.2, without U+200B, which is in table B.1 too, and is removed.
fn is_space(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// RFC 3454, table B.1.
fn is_removed(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{1806}'
            | '\u{180b}'..='\u{180d}'
            | '\u{200b}'..='\u{200d}'
            | '\u{2060}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_rfc_4013() {
        for (text, prepared) in [
            ("I\u{ad}X", "IX"),
            ("user", "user"),
            ("USER", "USER"),
            ("\u{aa}", "a"),
            ("\u{2168}", "IX"),
            ("a\u{a0}b\u{3000}c", "a b c"),
            ("e\u{301}", "\u{e9}"),
        ] {
            assert_eq!(prepare(text), prepared, "{text:?}");
        }
    }
}
