//! The file in which an export writes the keywords that the names of message files cannot tell.
//!
//! - A file `.eml` has no place for keywords in its name. The name of a Maildir file has letters,
//!   but only for 26 keywords of a mailbox besides the flags: if a message has another keyword, all
//!   its keywords are here, also those with letters.
//! - The ledger is in the folder of the messages, or for a Maildir beside `cur`. It has lines
//!   `NAME<tab>keyword keyword`, where NAME is the name of the message file without its folder; of
//!   a Maildir file without `:2,` and the letters, which change.
//! - Lines are only appended, and the last line about a name counts.
//! - A last line without LF does not count: an export was interrupted while it wrote the line. The
//!   next line that is written takes its place (`whole_lines`).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::keyword;

/// The largest ledger that is read: a ledger is read into memory as a whole. Callers treat a larger
/// file like an empty one. There is room for the keywords of more than a million messages.
pub const MAX_LEDGER_BYTES: u64 = 256 * 1024 * 1024;

/// The keywords in normal form, by the name of the file (NAME above).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger(BTreeMap<Vec<u8>, BTreeSet<String>>);

impl Ledger {
    /// Returns the lines of a file that count: all, or all but a last one without LF.
    #[must_use]
    pub fn whole_lines(file: &[u8]) -> &[u8] {
        let end = memchr::memrchr(b'\n', file).map_or(0, |at| at.saturating_add(1));
        file.get(..end).unwrap_or_default()
    }

    /// Reads the file. A last line without LF and lines of another form are ignored.
    #[must_use]
    pub fn parse(file: &[u8]) -> Self {
        let mut ledger = Self::default();
        for line in Self::whole_lines(file).split(|byte| *byte == b'\n') {
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

    /// Returns the keywords of a file; `None` if the ledger has no line about it.
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
        // A line without a tab and a line without LF do not count. The line `\t` has an empty name.
        assert_eq!(Ledger::parse(b"\xff\n\t\n\0"), Ledger::parse(b"\t\n"));
    }
}
