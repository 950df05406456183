//! The collations by which texts are sorted (RFC 8620 §5.5 `collation`). Each turns a text into a
//! key whose bytes sort in the order of the collation. Keys are not stored.

use unicode_normalization::UnicodeNormalization;

use crate::model::limits;

/// A collation of the IANA registry (RFC 4790).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Collation {
    /// `i;unicode-casemap` (RFC 5051), the default.
    #[default]
    UnicodeCasemap,
    /// `i;ascii-casemap` (RFC 4790 §9.2).
    AsciiCasemap,
    /// `i;octet` (RFC 4790 §9.3).
    Octet,
}

impl Collation {
    /// All collations, in order of preference.
    pub const ALL: [Self; 3] = [Self::UnicodeCasemap, Self::AsciiCasemap, Self::Octet];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UnicodeCasemap => "i;unicode-casemap",
            Self::AsciiCasemap => "i;ascii-casemap",
            Self::Octet => "i;octet",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Returns the sort key of a text, cut between characters to `limits::MAX_SORT_KEY_BYTES`.
    /// Texts whose keys differ only after that sort as equal.
    #[must_use]
    pub fn key(self, text: &str) -> Box<str> {
        let mut key = String::new();
        let mut push = |c: char| {
            let fits = key.len().saturating_add(c.len_utf8()) <= limits::MAX_SORT_KEY_BYTES;
            if fits {
                key.push(c);
            }
            fits
        };
        match self {
            Self::UnicodeCasemap => text.chars().map(title).nfkd().all(&mut push),
            Self::AsciiCasemap => text.chars().map(|c| c.to_ascii_uppercase()).all(&mut push),
            Self::Octet => text.chars().all(&mut push),
        };
        key.into_boxed_str()
    }
}

/// Returns the simple titlecase mapping of a character (RFC 5051 §2), or the character itself if it
/// has none.
fn title(c: char) -> char {
    let special = match c {
        '\u{1c4}'..='\u{1c6}' => Some('\u{1c5}'),
        '\u{1c7}'..='\u{1c9}' => Some('\u{1c8}'),
        '\u{1ca}'..='\u{1cc}' => Some('\u{1cb}'),
        '\u{1f1}'..='\u{1f3}' => Some('\u{1f2}'),
        // Georgian letters have capitals, but no titlecase.
        '\u{10d0}'..='\u{10ff}' => Some(c),
        // Greek letters with iota subscript: the upper case is two characters, the titlecase one.
        '\u{1f80}'..='\u{1faf}' => char::from_u32(u32::from(c) | 8),
        '\u{1fb3}' => Some('\u{1fbc}'),
        '\u{1fc3}' => Some('\u{1fcc}'),
        '\u{1ff3}' => Some('\u{1ffc}'),
        _ => None,
    };
    special.unwrap_or_else(|| {
        let mut upper = c.to_uppercase();
        match (upper.next(), upper.next()) {
            (Some(one), None) => one,
            _ => c,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unicode_casemap_ignores_case_and_normalization_form() {
        let key = |text| Collation::UnicodeCasemap.key(text);
        for (one, other) in
            [("strasse", "STRASSE"), ("Äpfel", "a\u{308}PFEL"), ("ǆ", "Ǆ"), ("ᾳ", "ᾼ"), ("σ", "ς")]
        {
            assert_eq!(key(one), key(other), "{one} {other}");
        }
        // Full case mappings, of one character to several, do not apply.
        assert_ne!(key("ß"), key("ss"));
        assert!(key("a") < key("B") && key("ä") < key("b"));
        assert!(key("a_") > key("ab"), "letters sort as capitals, before the underscore");
    }

    #[test]
    fn other_collations_ignore_less_and_all_keys_are_bounded() {
        assert_eq!(Collation::AsciiCasemap.key("aÄä"), "AÄä".into());
        assert_eq!(Collation::Octet.key("aÄä"), "aÄä".into());
        for collation in Collation::ALL {
            assert_eq!(Collation::from_name(collation.name()), Some(collation));
            assert!(collation.key(&"ä".repeat(1000)).len() <= limits::MAX_SORT_KEY_BYTES);
        }
    }
}
