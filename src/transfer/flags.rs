//! Marks of an email in the words of each format: letters of Maildir names, `dovecot-keywords`, and
//! the fields Status, X-Status, X-Keywords and X-Mozilla-Status of mailbox files.
//!
//! A message that is marked as deleted and not yet expunged has no like in JMAP (RFC 8621 §4.1.1
//! hides it): it is told apart, and the caller decides.

use std::collections::BTreeSet;

use crate::message::header;
use crate::model::keyword::{self, ANSWERED, DRAFT, FLAGGED, FORWARDED, SEEN};

/// Keywords a folder has letters for: `a` to `z`.
const MAX_LETTERS: usize = 26;
/// Octets of a `dovecot-keywords` file that are looked at.
pub const MAX_TABLE_BYTES: usize = 64 * 1024;
/// Keywords of one message.
const MAX_KEYWORDS: usize = 1000;

/// Letters of Maildir, in their order, with the keywords that they stand for.
const MAILDIR: [(u8, &str); 5] =
    [(b'D', DRAFT), (b'F', FLAGGED), (b'P', FORWARDED), (b'R', ANSWERED), (b'S', SEEN)];

/// What a format says of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageFlags {
    /// Its keywords, normal form.
    pub keywords: BTreeSet<String>,
    /// Whether it waits for being expunged.
    pub deleted: bool,
}

impl MessageFlags {
    fn set(&mut self, name: &str) {
        if self.keywords.len() < MAX_KEYWORDS {
            self.keywords.insert(name.to_owned());
        }
    }

    fn set_words(&mut self, words: &str) {
        words
            .split_ascii_whitespace()
            .filter_map(keyword::normalize)
            .for_each(|word| self.set(&word));
    }
}

/// The keywords of a Maildir folder's letters `a` to `z`, as Dovecot keeps them in
/// `dovecot-keywords`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Letters(Vec<Option<String>>);

impl Letters {
    /// Reads the file: a line for each letter, with its number from 0 and its keyword.
    #[must_use]
    pub fn parse(file: &[u8]) -> Self {
        let text =
            String::from_utf8_lossy(file.get(..MAX_TABLE_BYTES).unwrap_or(file)).into_owned();
        let mut letters = Self::default();
        for line in text.lines() {
            let Some((number, name)) = line.split_once(' ') else { continue };
            let Some(number) = number.parse::<usize>().ok().filter(|number| *number < MAX_LETTERS)
            else {
                continue;
            };
            if letters.0.len() <= number {
                letters.0.resize(number + 1, None);
            }
            if let Some(slot) = letters.0.get_mut(number) {
                *slot = keyword::normalize(name.trim());
            }
        }
        letters
    }

    #[must_use]
    pub fn write(&self) -> String {
        let known = self.0.iter().enumerate();
        known
            .filter_map(|(number, name)| name.as_ref().map(|name| format!("{number} {name}\n")))
            .collect()
    }

    /// Gives letters to those keywords that have none, as long as there are any; says whether one
    /// was given.
    pub fn learn(&mut self, keywords: &BTreeSet<String>) -> bool {
        let before = self.0.len();
        for name in keywords.iter().filter(|name| !is_flag(name)) {
            let known = self.0.iter().any(|known| known.as_ref() == Some(name));
            if !known && self.0.len() < MAX_LETTERS {
                self.0.push(Some(name.clone()));
            }
        }
        self.0.len() != before
    }

    /// The letters of these keywords, in order; those without a letter are left out.
    #[must_use]
    pub fn letters(&self, keywords: &BTreeSet<String>) -> String {
        let flags = MAILDIR
            .iter()
            .filter(|(_, name)| keywords.contains(*name))
            .map(|(letter, _)| char::from(*letter));
        let known = self.0.iter().zip('a'..='z');
        let known =
            known.filter(|(name, _)| name.as_ref().is_some_and(|name| keywords.contains(name)));
        flags.chain(known.map(|(_, letter)| letter)).collect()
    }

    /// Whether every keyword has its letter.
    #[must_use]
    pub fn cover(&self, keywords: &BTreeSet<String>) -> bool {
        keywords
            .iter()
            .all(|name| is_flag(name) || self.0.iter().any(|known| known.as_ref() == Some(name)))
    }

    /// What letters stand for; one that is not known stands for nothing.
    #[must_use]
    pub fn marks(&self, letters: &[u8]) -> MessageFlags {
        let mut marks = MessageFlags::default();
        for letter in letters {
            if let Some((_, name)) = MAILDIR.iter().find(|(known, _)| known == letter) {
                marks.set(name);
            }
            let number = letter.checked_sub(b'a').map(usize::from);
            if let Some(name) =
                number.and_then(|number| self.0.get(number)).and_then(Option::as_ref)
            {
                marks.set(name);
            }
            marks.deleted |= *letter == b'T';
        }
        marks
    }
}

fn is_flag(name: &str) -> bool {
    MAILDIR.iter().any(|(_, known)| *known == name)
}

/// The fields of a mailbox file that say the same, LF lines: Status and X-Status as mutt and
/// Dovecot write them, and X-Keywords where there are any.
#[must_use]
pub fn status(keywords: &BTreeSet<String>) -> String {
    let seen = if keywords.contains(SEEN) { "RO" } else { "O" };
    let letters = [('A', ANSWERED), ('F', FLAGGED), ('T', DRAFT)];
    let letters: String = letters
        .iter()
        .filter(|(_, name)| keywords.contains(*name))
        .map(|(letter, _)| *letter)
        .collect();
    let in_letters = [SEEN, ANSWERED, FLAGGED, DRAFT];
    let words: Vec<&str> =
        keywords.iter().map(String::as_str).filter(|name| !in_letters.contains(name)).collect();
    let words =
        if words.is_empty() { String::new() } else { format!("X-Keywords: {}\n", words.join(" ")) };
    format!("Status: {seen}\nX-Status: {letters}\n{words}")
}

/// Takes in one such field; says whether it is one.
pub(super) fn read_status(marks: &mut MessageFlags, field: &header::Field<'_>) -> bool {
    let is = |name| field.is(name);
    if !(is("Status")
        || is("X-Status")
        || is("X-Keywords")
        || is("X-Mozilla-Status")
        || is("X-Mozilla-Keys"))
    {
        return false;
    }
    let value = field.unfolded();
    if is("X-Keywords") || is("X-Mozilla-Keys") {
        marks.set_words(&value);
    } else if is("X-Mozilla-Status") {
        let bits = u16::from_str_radix(value.trim(), 16).unwrap_or(0);
        for (bit, name) in [(1, SEEN), (2, ANSWERED), (4, FLAGGED), (0x1000, FORWARDED)] {
            if bits & bit != 0 {
                marks.set(name);
            }
        }
        marks.deleted |= bits & 8 != 0;
    } else {
        for letter in value.bytes() {
            match letter {
                b'R' if is("Status") => marks.set(SEEN),
                b'A' => marks.set(ANSWERED),
                b'F' => marks.set(FLAGGED),
                b'T' => marks.set(DRAFT),
                b'D' => marks.deleted = true,
                _ => {}
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(words: &str) -> BTreeSet<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn letters_as_dovecot_has_them() {
        let mut letters = Letters::parse(b"0 $Junk\n2 work\nx y\n99 far\n1\n");
        assert_eq!(
            letters.marks(b"FSacbT"),
            MessageFlags { keywords: set("$seen $flagged $junk work"), deleted: true }
        );
        assert!(letters.learn(&set("$seen new work")));
        assert!(!letters.learn(&set("new")));
        assert_eq!(letters.write(), "0 $junk\n2 work\n3 new\n");
        assert_eq!(letters.letters(&set("new $draft $junk unknown")), "Dad");
        let many: BTreeSet<String> = (0..40).map(|number| format!("k{number:02}")).collect();
        letters.learn(&many);
        assert!(!letters.cover(&many) && letters.cover(&set("k00 $answered")));
        assert_eq!(letters.write().lines().count(), MAX_LETTERS - 1);
    }

    #[test]
    fn fields_of_mailbox_files() {
        let marks = |text: &str| {
            let mut marks = MessageFlags::default();
            header::fields(text.as_bytes())
                .for_each(|field| assert!(read_status(&mut marks, &field)));
            marks
        };
        assert_eq!(marks("Status: RO\nX-Status: AF\n").keywords, set("$seen $answered $flagged"));
        assert_eq!(
            marks("X-Status: T\nX-Keywords: Work $MDNSent  (bad\n").keywords,
            set("$draft work $mdnsent")
        );
        let mozilla = marks("X-Mozilla-Status: 1009\nX-Mozilla-Keys: $label1\n");
        assert_eq!(
            mozilla,
            MessageFlags { keywords: set("$seen $forwarded $label1"), deleted: true }
        );
        assert!(marks("Status: D\n").deleted);
        assert_eq!(status(&set("$seen $flagged x")), "Status: RO\nX-Status: F\nX-Keywords: x\n");
    }

    proptest! {
        #[test]
        fn keywords_come_back(words in proptest::collection::btree_set("[$]?[a-z0-9]{1,8}", 0..20)) {
            let mut letters = Letters::default();
            letters.learn(&words);
            let letters = Letters::parse(letters.write().as_bytes());
            prop_assert_eq!(&letters.marks(letters.letters(&words).as_bytes()).keywords, &words);
            let mut marks = MessageFlags::default();
            header::fields(status(&words).as_bytes()).for_each(|field| assert!(read_status(&mut marks, &field)));
            prop_assert_eq!(marks.keywords, words);
        }
    }
}
