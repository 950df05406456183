//! Converts keywords to the flags of each format, and back: letters in the names of Maildir files,
//! Dovecot's `dovecot-keywords`, and the fields Status, X-Status and X-Keywords of mbox files.
//! X-Mozilla-Status and X-Mozilla-Keys of mbox files are only read.
//!
//! The flag for a message that is deleted but not expunged becomes no keyword, because JMAP hides
//! such messages (RFC 8621 §4.1.1).

use std::collections::BTreeSet;

use crate::message::header;
use crate::model::keyword::{self, ANSWERED, DRAFT, FLAGGED, FORWARDED, SEEN};
use crate::model::limits;

/// The number of the letters `a` to `z`.
const MAX_LETTERS: usize = 26;
/// The largest `dovecot-keywords` file that is read. Callers treat a larger file like an empty one.
/// `Letters::parse` itself reads only so many bytes of one.
pub const MAX_KEYWORDS_FILE_BYTES: usize = 64 * 1024;

/// The letters that stand for a keyword in every Maildir folder.
const MAILDIR: [(u8, &str); 5] =
    [(b'D', DRAFT), (b'F', FLAGGED), (b'P', FORWARDED), (b'R', ANSWERED), (b'S', SEEN)];

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageFlags {
    /// In normal form, at most `limits::MAX_KEYWORDS`.
    pub keywords: BTreeSet<String>,
    /// Whether some keywords were left out.
    pub is_cut: bool,
    /// Whether the message is deleted but not expunged.
    pub deleted: bool,
}

impl MessageFlags {
    /// Adds a keyword in normal form. If there is no room, a keyword with a letter of its own in
    /// Maildir takes the place of another one; any other keyword is left out.
    pub fn set(&mut self, name: &str) {
        if self.keywords.contains(name) {
            return;
        }
        if self.keywords.len() >= limits::MAX_KEYWORDS {
            self.is_cut = true;
            if !has_maildir_letter(name) {
                return;
            }
            let other = self.keywords.iter().rfind(|other| !has_maildir_letter(other)).cloned();
            other.iter().for_each(|other| drop(self.keywords.take(other)));
        }
        self.keywords.insert(name.to_owned());
    }

    /// Adds the words of a text that are keywords.
    fn set_words(&mut self, words: &str) {
        words
            .split_ascii_whitespace()
            .filter_map(keyword::normalize)
            .for_each(|word| self.set(&word));
    }
}

/// The keywords of the letters `a` to `z` of a Maildir folder (Dovecot's `dovecot-keywords`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Letters(
    /// In normal form, from `a` on; `None` for a letter that is not used.
    Vec<Option<String>>,
);

impl Letters {
    /// Reads a `dovecot-keywords` file: a line for each letter, with its number from 0 and its
    /// keyword. Lines of another form are ignored.
    #[must_use]
    pub fn parse(file: &[u8]) -> Self {
        let text = String::from_utf8_lossy(file.get(..MAX_KEYWORDS_FILE_BYTES).unwrap_or(file))
            .into_owned();
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

    /// Returns the content of a `dovecot-keywords` file with these letters.
    #[must_use]
    pub fn write(&self) -> String {
        let known = self.0.iter().enumerate();
        known
            .filter_map(|(number, name)| name.as_ref().map(|name| format!("{number} {name}\n")))
            .collect()
    }

    /// Gives each keyword that has no letter the next one after the last of the folder, up to `z`.
    /// Returns whether a letter was assigned, so that the file must be written.
    pub fn assign(&mut self, keywords: &BTreeSet<String>) -> bool {
        let count_before = self.0.len();
        for name in keywords.iter().filter(|name| !has_maildir_letter(name)) {
            let known = self.0.iter().any(|known| known.as_ref() == Some(name));
            if !known && self.0.len() < MAX_LETTERS {
                self.0.push(Some(name.clone()));
            }
        }
        self.0.len() != count_before
    }

    /// Returns the letters of keywords. Keywords without a letter are left out.
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

    /// Whether each of the keywords has a letter, of the folder or of every folder.
    #[must_use]
    pub fn cover(&self, keywords: &BTreeSet<String>) -> bool {
        keywords.iter().all(|name| {
            has_maildir_letter(name) || self.0.iter().any(|known| known.as_ref() == Some(name))
        })
    }

    /// Returns the flags that Maildir letters stand for. Unknown letters are ignored.
    #[must_use]
    pub fn flags(&self, letters: &[u8]) -> MessageFlags {
        let mut flags = MessageFlags::default();
        for letter in letters {
            if let Some((_, name)) = MAILDIR.iter().find(|(known, _)| known == letter) {
                flags.set(name);
            }
            let number = letter.checked_sub(b'a').map(usize::from);
            if let Some(name) =
                number.and_then(|number| self.0.get(number)).and_then(Option::as_ref)
            {
                flags.set(name);
            }
            flags.deleted |= *letter == b'T';
        }
        flags
    }
}

/// Whether a keyword has a letter in every Maildir folder (`MAILDIR`).
fn has_maildir_letter(name: &str) -> bool {
    MAILDIR.iter().any(|(_, known)| *known == name)
}

/// Returns the fields for keywords in an mbox file, with LF line endings.
#[must_use]
pub fn mbox_fields(keywords: &BTreeSet<String>) -> String {
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

/// Adds to `flags` what a field says. Returns whether it is a field with flags.
pub(super) fn read_mbox_field(flags: &mut MessageFlags, field: &header::Field<'_>) -> bool {
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
        flags.set_words(&value);
    } else if is("X-Mozilla-Status") {
        // The bits are Mozilla's (`nsMsgMessageFlags`); 8 says that the message is deleted.
        let bits = u16::from_str_radix(value.trim(), 16).unwrap_or(0);
        for (bit, name) in [(1, SEEN), (2, ANSWERED), (4, FLAGGED), (0x1000, FORWARDED)] {
            if bits & bit != 0 {
                flags.set(name);
            }
        }
        flags.deleted |= bits & 8 != 0;
    } else {
        for letter in value.bytes() {
            match letter {
                b'R' if is("Status") => flags.set(SEEN),
                b'A' => flags.set(ANSWERED),
                b'F' => flags.set(FLAGGED),
                b'T' => flags.set(DRAFT),
                b'D' => flags.deleted = true,
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
    fn letters_are_those_of_dovecot() {
        let mut letters = Letters::parse(b"0 $Junk\n2 work\nx y\n99 far\n1\n");
        assert_eq!(
            letters.flags(b"FSacbT"),
            MessageFlags {
                keywords: set("$seen $flagged $junk work"),
                deleted: true,
                is_cut: false
            }
        );
        assert!(letters.assign(&set("$seen new work")));
        assert!(!letters.assign(&set("new")));
        assert_eq!(letters.write(), "0 $junk\n2 work\n3 new\n");
        assert_eq!(letters.letters(&set("new $draft $junk unknown")), "Dad");
        let many: BTreeSet<String> = (0..40).map(|number| format!("k{number:02}")).collect();
        letters.assign(&many);
        assert!(!letters.cover(&many) && letters.cover(&set("k00 $answered")));
        // The letter `b` stays unused.
        assert_eq!(letters.write().lines().count(), MAX_LETTERS - 1);
    }

    #[test]
    fn keywords_beyond_the_limit_are_cut_but_not_one_with_a_maildir_letter() {
        let words: Vec<String> = (0..150).map(|number| format!("k{number:03}")).collect();
        let read = |count: usize| {
            let mut flags = MessageFlags::default();
            let text = format!("X-Keywords: {}\nStatus: RO\n", words[..count].join(" "));
            header::fields(text.as_bytes())
                .for_each(|field| assert!(read_mbox_field(&mut flags, &field)));
            flags
        };
        let cut = read(150);
        assert_eq!((cut.keywords.len(), cut.is_cut), (limits::MAX_KEYWORDS, true));
        assert!(cut.keywords.contains(SEEN) && cut.keywords.contains("k000"));
        let whole = read(limits::MAX_KEYWORDS - 1);
        assert_eq!((whole.keywords.len(), whole.is_cut), (limits::MAX_KEYWORDS, false));
    }

    #[test]
    fn fields_of_mbox_files_are_read_and_written() {
        let flags = |text: &str| {
            let mut flags = MessageFlags::default();
            header::fields(text.as_bytes())
                .for_each(|field| assert!(read_mbox_field(&mut flags, &field)));
            flags
        };
        assert_eq!(flags("Status: RO\nX-Status: AF\n").keywords, set("$seen $answered $flagged"));
        assert_eq!(
            flags("X-Status: T\nX-Keywords: Work $MDNSent  (bad\n").keywords,
            set("$draft work $mdnsent")
        );
        let mozilla = flags("X-Mozilla-Status: 1009\nX-Mozilla-Keys: $label1\n");
        assert_eq!(
            mozilla,
            MessageFlags {
                keywords: set("$seen $forwarded $label1"),
                deleted: true,
                is_cut: false
            }
        );
        assert!(flags("Status: D\n").deleted);
        assert_eq!(
            mbox_fields(&set("$seen $flagged x")),
            "Status: RO\nX-Status: F\nX-Keywords: x\n"
        );
    }

    proptest! {
        #[test]
        fn keywords_are_written_and_read_again(
            words in proptest::collection::btree_set("[$]?[a-z0-9]{1,8}", 0..20),
        ) {
            let mut letters = Letters::default();
            letters.assign(&words);
            let letters = Letters::parse(letters.write().as_bytes());
            prop_assert_eq!(&letters.flags(letters.letters(&words).as_bytes()).keywords, &words);
            let mut flags = MessageFlags::default();
            for field in header::fields(mbox_fields(&words).as_bytes()) {
                assert!(read_mbox_field(&mut flags, &field));
            }
            prop_assert_eq!(flags.keywords, words);
        }
    }
}
