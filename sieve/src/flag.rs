//! IMAP flags of stored messages (RFC 5232).
//!
//! - A set never contains a flag twice. Flags are compared without regard to the case of ASCII
//!   letters. A keyword has the spelling in which it was added first, a system flag that of RFC
//!   3501.
//! - A set never contains `\Recent` or another text that is no flag. A set that is made of texts or
//!   deserialised drops them.
//! - The order is that of insertion.

use serde::{Deserialize, Serialize};

/// The system flags that a script may set (RFC 3501 §2.3.2; `\Recent` is the server's).
const SYSTEM_FLAGS: [&str; 5] = ["\\Answered", "\\Flagged", "\\Deleted", "\\Seen", "\\Draft"];

/// A set of flags.
///
/// Serialised as a list of its flags.
///
/// ```
/// use restante_sieve::FlagSet;
///
/// let mut flags = FlagSet::new();
/// assert!(flags.insert("\\seen"));
/// // `\Recent` is the server's.
/// assert_eq!(flags.insert_words("$Work \\Recent"), ["\\Recent"]);
/// assert_eq!(flags.to_words(), "\\Seen $Work");
/// assert!(flags.contains("$WORK"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<String>")]
pub struct FlagSet(Vec<String>);

impl FlagSet {
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds each word of a text: a string may hold several flags, separated by blanks (RFC 5232
    /// §2). Returns the words that are no flags; they are not added.
    pub fn insert_words<'a>(&mut self, text: &'a str) -> Vec<&'a str> {
        text.split_ascii_whitespace().filter(|word| !self.insert(word)).collect()
    }

    /// Adds a flag, unless the set has it already. Returns false if the text is no flag.
    pub fn insert(&mut self, flag: &str) -> bool {
        if !is_flag(flag) {
            return false;
        }
        if !self.contains(flag) {
            let system = SYSTEM_FLAGS.iter().find(|system| system.eq_ignore_ascii_case(flag));
            self.0.push(system.map_or(flag, |system| system).to_owned());
        }
        true
    }

    /// Removes each flag that a text names; a text may name several, separated by blanks.
    pub fn remove_words(&mut self, text: &str) {
        for word in text.split_ascii_whitespace() {
            self.0.retain(|flag| !flag.eq_ignore_ascii_case(word));
        }
    }

    /// Adds the flags of another set.
    pub fn merge(&mut self, other: &Self) {
        for flag in &other.0 {
            self.insert(flag);
        }
    }

    #[must_use]
    pub fn contains(&self, flag: &str) -> bool {
        self.0.iter().any(|own| own.eq_ignore_ascii_case(flag))
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the flags separated by single blanks, which is the value of a variable with flags.
    #[must_use]
    pub fn to_words(&self) -> String {
        self.0.join(" ")
    }
}

impl<S: AsRef<str>> FromIterator<S> for FlagSet {
    fn from_iter<I: IntoIterator<Item = S>>(flags: I) -> Self {
        let mut set = Self::new();
        for flag in flags {
            set.insert_words(flag.as_ref());
        }
        set
    }
}

impl From<Vec<String>> for FlagSet {
    fn from(flags: Vec<String>) -> Self {
        flags.into_iter().collect()
    }
}

/// Returns whether a word is a flag that a script may set: a system flag other than `\Recent`, or
/// a keyword, which is an IMAP atom (RFC 3501 §9).
#[must_use]
pub fn is_flag(word: &str) -> bool {
    if word.starts_with('\\') {
        return SYSTEM_FLAGS.iter().any(|system| system.eq_ignore_ascii_case(word));
    }
    let is_atom = |c: char| c.is_ascii_graphic() && !"(){%*\"\\]".contains(c);
    !word.is_empty() && word.chars().all(is_atom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_may_hold_several_flags() {
        let mut set = FlagSet::new();
        assert!(set.insert_words("  \\seen $Junk \\SEEN ").is_empty());
        assert_eq!(set.insert_words("\\Recent \\Odd a(b ok"), ["\\Recent", "\\Odd", "a(b"]);
        assert_eq!(set.to_words(), "\\Seen $Junk ok");
        assert!(set.contains("$junk"));
        set.remove_words("$JUNK ok");
        assert_eq!(set.iter().collect::<Vec<_>>(), ["\\Seen"]);
    }

    #[test]
    fn sets_are_merged_and_read_back() {
        let mut set: FlagSet = ["a", "B"].into_iter().collect();
        set.merge(&["b c"].into_iter().collect());
        assert_eq!(set.len(), 3);
        let json = serde_json::to_string(&set).unwrap();
        assert_eq!(json, r#"["a","B","c"]"#);
        assert_eq!(serde_json::from_str::<FlagSet>(&json).unwrap(), set);
        assert!(serde_json::from_str::<FlagSet>(r#"["\\Recent"]"#).unwrap().is_empty());
    }
}
