//! A file of keywords that have no place in the names of message files: all keywords of .eml files,
//! and those of a Maildir file that has a keyword without a letter.
//!
//! It is in the same folder and has lines `NAME<tab>keyword keyword`. Lines are only appended: the
//! last line about a name counts. A line without LF does not, so an interrupted export leaves a
//! valid file.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::keyword;

pub const MAX_LEDGER_BYTES: u64 = 256 * 1024 * 1024;

/// The keywords in normal form, by file name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger(BTreeMap<Vec<u8>, BTreeSet<String>>);

impl Ledger {
    /// Reads the file. Lines of another form are ignored.
    #[must_use]
    pub fn parse(file: &[u8]) -> Self {
        let mut ledger = Self::default();
        for line in file.split_inclusive(|byte| *byte == b'\n') {
            let Some((b'\n', line)) = line.split_last() else { continue };
            let Some((name, words)) =
                memchr::memchr(b'\t', line).and_then(|at| line.split_at_checked(at))
            else {
                continue;
            };
            let words = String::from_utf8_lossy(words);
            let words = words.split_ascii_whitespace().filter_map(keyword::normalize).collect();
            ledger.0.insert(name.to_vec(), words);
        }
        ledger
    }

    /// Returns the line about a file. `name` must have neither a tab nor an LF.
    #[must_use]
    pub fn line(name: &str, keywords: &BTreeSet<String>) -> String {
        let words: Vec<&str> = keywords.iter().map(String::as_str).collect();
        format!("{name}\t{}\n", words.join(" "))
    }

    #[must_use]
    pub fn of(&self, name: &[u8]) -> Option<&BTreeSet<String>> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_complete_line_counts() {
        let set = |words: &[&str]| {
            words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<String>>()
        };
        let file = Ledger::line("a", &set(&["$seen"]))
            + &Ledger::line("b", &set(&[]))
            + &Ledger::line("a", &set(&["x"]));
        let ledger = Ledger::parse(format!("{file}b\t$fla").as_bytes());
        assert_eq!(ledger.of(b"a"), Some(&set(&["x"])));
        assert_eq!(ledger.of(b"b"), Some(&set(&[])));
        assert_eq!(ledger.of(b"c"), None);
        assert_eq!(Ledger::parse(b"\xff\n\t\n\0"), Ledger::parse(b"\t\n"));
    }
}
