//! Splits a text into words in the form that search compares, with the place of each.
//!
//! - Words are NFKD, case folded, without combining and zero-width marks; Hangul is composed again.
//! - Runs of ASCII letters and digits take a fast path. Runs with any other character are split by
//!   the rules of Unicode. Both agree on ASCII, which a test checks.
//! - Scripts without spaces between words, and Hangul, whose words take particles, give each
//!   character and each pair of neighbours as a word. A search term of one character is found by
//!   itself, a longer one by its pairs in a row. No pair reaches across punctuation.

use caseless::Caseless;
use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};
use unicode_segmentation::UnicodeSegmentation;

/// Longest word in bytes; longer words are cut.
pub const MAX_WORD_BYTES: usize = 64;

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextWord<'a> {
    /// The search form, at most `MAX_WORD_BYTES`.
    pub word: &'a str,
    /// The number of the word in the text. In a run without spaces, each character has a number,
    /// and a pair has the number of its first character.
    pub position: u32,
    /// Where the word begins in the original text, in bytes.
    pub start: usize,
    /// Where the word ends in the original text, in bytes.
    pub end: usize,
    /// Whether this is a single character of a longer run, which the pairs cover too. A search for
    /// the pairs need not look for it.
    pub in_pair: bool,
}

/// Calls `each` with every word of a text. Returns how many numbers the words took.
pub fn each_word(text: &str, mut each: impl FnMut(&TextWord<'_>)) -> u32 {
    let mut lower = String::with_capacity(MAX_WORD_BYTES);
    let mut folded = SearchRun::default();
    let (mut position, mut start, mut byte_union) = (0u32, 0usize, 0u8);
    // A blank is appended, to end the last run.
    for (end, byte) in text.bytes().chain([b' ']).enumerate() {
        if in_run(byte) {
            byte_union |= byte;
            continue;
        }
        // Both ends are next to ASCII, and so between characters.
        let run = text.get(start..end).unwrap_or_default();
        if byte_union >= 0x80 {
            folded.fold(run);
            position = folded.words(position, start, &mut each);
        } else if byte_union > 0 {
            lower.clear();
            lower.push_str(run.get(..MAX_WORD_BYTES).unwrap_or(run));
            lower.make_ascii_lowercase();
            each(&TextWord { word: &lower, position, start, end, in_pair: false });
            position = position.saturating_add(1);
        }
        (start, byte_union) = (end.saturating_add(1), 0);
    }
    position
}

/// Whether a byte is an ASCII letter or digit, or not ASCII.
fn in_run(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric()
}

/// A run in its search form, with the place of each character in the run.
#[derive(Default)]
struct SearchRun {
    plain: String,
    /// For each byte of `plain`: where its character begins and ends in the original run.
    origin: Vec<(usize, usize)>,
}

impl SearchRun {
    fn fold(&mut self, run: &str) {
        self.plain.clear();
        self.origin.clear();
        for (start, c) in run.char_indices() {
            let from = (start, start.saturating_add(c.len_utf8()));
            decompose_compatible(c, |c| {
                for c in std::iter::once(c).default_case_fold() {
                    decompose_compatible(c, |c| self.push(c, from));
                }
            });
        }
    }

    fn push(&mut self, c: char, from: (usize, usize)) {
        if is_combining_mark(c) || is_zero_width(c) {
            return;
        }
        let (mut c, mut from) = (c, from);
        // Only Hangul is composed again: people search by its composed characters.
        if matches!(u32::from(c), 0x1161..=0x11ff)
            && let Some(last) = self.plain.chars().next_back()
            && let Some(composed) = compose(last, c)
        {
            self.plain.pop();
            let length = self.origin.len().saturating_sub(last.len_utf8());
            from.0 = self.origin.get(length).map_or(from.0, |(start, _)| *start);
            self.origin.truncate(length);
            c = composed;
        }
        self.plain.push(c);
        self.origin.resize(self.plain.len(), from);
    }

    /// Calls `each` with the words of the run, numbered from `position`. Returns the next number.
    fn words(&self, mut position: u32, base: usize, each: &mut impl FnMut(&TextWord<'_>)) -> u32 {
        let mut run: Option<(usize, usize)> = None;
        for (start, word) in self.plain.unicode_word_indices() {
            let mut from = start;
            while let Some(rest) = self.plain.get(from..start.saturating_add(word.len()))
                && let Some(first) = rest.chars().next()
            {
                let unspaced = is_unspaced(first);
                let length = rest.find(|c| is_unspaced(c) != unspaced).unwrap_or(rest.len());
                let end = from.saturating_add(length);
                run = match run {
                    Some((first, last)) if unspaced && last == from => Some((first, end)),
                    other => {
                        position = self.pairs(other, position, base, each);
                        unspaced.then_some((from, end))
                    }
                };
                if !unspaced {
                    let cut = rest.get(..length).map_or("", |whole| cut(whole, MAX_WORD_BYTES));
                    let (start, end) = self.span(from, end, base);
                    each(&TextWord { word: cut, position, start, end, in_pair: false });
                    position = position.saturating_add(1);
                }
                from = end;
            }
        }
        self.pairs(run, position, base, each)
    }

    /// Calls `each` with the pairs and the characters of a run without spaces. Returns the next
    /// number.
    fn pairs(
        &self,
        run: Option<(usize, usize)>,
        mut position: u32,
        base: usize,
        each: &mut impl FnMut(&TextWord<'_>),
    ) -> u32 {
        let Some((first, last)) = run else { return position };
        let text = self.plain.get(first..last).unwrap_or_default();
        let is_single = text.chars().nth(1).is_none();
        for (offset, c) in text.char_indices() {
            let from = first.saturating_add(offset);
            let middle = from.saturating_add(c.len_utf8());
            let mut add = |to: usize, in_pair: bool| {
                let (start, end) = self.span(from, to, base);
                each(&TextWord {
                    word: self.plain.get(from..to).unwrap_or_default(),
                    position,
                    start,
                    end,
                    in_pair,
                });
            };
            if let Some(next) = self.plain.get(middle..last).and_then(|rest| rest.chars().next()) {
                add(middle.saturating_add(next.len_utf8()), false);
            }
            add(middle, !is_single);
            position = position.saturating_add(1);
        }
        position
    }

    fn span(&self, from: usize, to: usize, base: usize) -> (usize, usize) {
        let start = self.origin.get(from).map_or(0, |(start, _)| *start);
        let end =
            to.checked_sub(1).and_then(|last| self.origin.get(last)).map_or(start, |(_, end)| *end);
        (base.saturating_add(start), base.saturating_add(end))
    }
}

/// Returns the beginning of a text, cut between characters to at most `max` bytes.
#[must_use]
pub fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

/// Whether a character belongs to a script without spaces between words (Thai, Lao, Myanmar, Khmer,
/// kana, bopomofo, Han), or to Hangul.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3005..=0x3007 | 0x303b
        | 0x3040..=0x312f | 0x31a0..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7a3
        | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

fn is_zero_width(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        each_word(text, |found| out.push(found.word.to_owned()));
        out
    }

    #[test]
    fn texts_of_many_scripts_are_split_into_words() {
        for (text, wanted) in [
            ("Hello, World-2!", vec!["hello", "world", "2"]),
            ("Grüße STRASSE straße", vec!["grusse", "strasse", "strasse"]),
            ("ﬁne café cafe\u{301}", vec!["fine", "cafe", "cafe"]),
            ("日本語", vec!["日本", "日", "本語", "本", "語"]),
            ("日", vec!["日"]),
            ("日本、語 x", vec!["日本", "日", "本", "語", "x"]),
            ("日本（語）", vec!["日本", "日", "本", "語"]),
            ("한국어 한국", vec!["한국", "한", "국어", "국", "어", "한국", "한", "국"]),
            ("\u{1112}\u{1161}\u{11ab}", vec!["한"]),
            ("abc한국", vec!["abc", "한국", "한", "국"]),
            ("Привет МИР", vec!["привет", "мир"]),
        ] {
            assert_eq!(words(text), wanted, "{text}");
        }
        assert_eq!(words(&"x".repeat(500)), ["x".repeat(64)]);
        assert_eq!(words(&"é".repeat(500)), ["e".repeat(64)]);
    }

    #[test]
    fn words_have_their_position_and_their_place_in_the_text() {
        let mut out = Vec::new();
        let text = "A Café 日本語, b";
        let count = each_word(text, |found| {
            out.push((found.position, &text[found.start..found.end], found.in_pair));
        });
        let wanted = [
            (0, "A", false),
            (1, "Café", false),
            (2, "日本", false),
            (2, "日", true),
            (3, "本語", false),
            (3, "本", true),
            (4, "語", true),
            (5, "b", false),
        ];
        assert_eq!((out.as_slice(), count), (&wanted[..], 6));
    }

    proptest! {
        #[test]
        fn fast_path_agrees_with_unicode_on_ascii(run in "[A-Za-z0-9]{1,80}") {
            let mut folded = SearchRun::default();
            folded.fold(&run);
            let mut unicode = Vec::new();
            folded.words(0, 0, &mut |found: &TextWord<'_>| unicode.push(found.word.to_owned()));
            prop_assert_eq!(words(&run), unicode);
        }

        #[test]
        fn any_text_gives_bounded_words_in_order(text in ".{0,200}") {
            let mut last = 0;
            let count = each_word(&text, |found| {
                assert!(!found.word.is_empty() && found.word.len() <= MAX_WORD_BYTES);
                assert!(text.get(found.start..found.end).is_some_and(|origin| !origin.is_empty()));
                assert!(found.position >= last);
                last = found.position;
            });
            prop_assert!(count == 0 || last < count);
        }
    }
}
