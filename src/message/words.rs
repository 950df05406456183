//! Text to words, in the form that search compares, with where each stands.
//!
//! Words are NFKD, case folded, without combining and zero-width marks, Hangul composed again. Runs
//! of ASCII letters and digits are cut by hand; a run that touches any other byte takes the
//! Unicode way (both agree on ASCII, which a test holds). Scripts that put no spaces between words,
//! and Hangul, whose words grow particles, give each pair of neighbours and each character: a word
//! of one character is found by itself, a longer one by its pairs in a row. No pair reaches across
//! punctuation.

use caseless::Caseless;
use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};
use unicode_segmentation::UnicodeSegmentation;

/// Bytes of a word; what is longer is cut.
pub const MAX_WORD_BYTES: usize = 64;

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextWord<'a> {
    /// Its search form; at most `MAX_WORD_BYTES`.
    pub word: &'a str,
    /// Its number in the text. Of an unspaced run each character has one, and a pair has that of
    /// its first.
    pub position: u32,
    /// Where it begins in the text as given, in bytes.
    pub start: usize,
    /// Where it ends there.
    pub end: usize,
    /// A character that also stands in a pair: of no use in what is looked for, if the pairs are.
    pub in_pair: bool,
}

/// Calls `each` with every word of a text; gives how many numbers they took.
pub fn each_word(text: &str, mut each: impl FnMut(&TextWord<'_>)) -> u32 {
    let mut lower = String::with_capacity(MAX_WORD_BYTES);
    let mut folded = SearchRun::default();
    let (mut at, mut start, mut all) = (0u32, 0usize, 0u8);
    // What ends the last run is written behind it.
    for (end, byte) in text.bytes().chain([b' ']).enumerate() {
        if in_run(byte) {
            all |= byte;
            continue;
        }
        // Both ends are beside ASCII, and so at a character's.
        let run = text.get(start..end).unwrap_or_default();
        if all >= 0x80 {
            folded.fold(run);
            at = folded.words(at, start, &mut each);
        } else if all > 0 {
            lower.clear();
            lower.push_str(run.get(..MAX_WORD_BYTES).unwrap_or(run));
            lower.make_ascii_lowercase();
            each(&TextWord { word: &lower, position: at, start, end, in_pair: false });
            at = at.saturating_add(1);
        }
        (start, all) = (end.saturating_add(1), 0);
    }
    at
}

/// Letters, digits, and every byte of what is not ASCII.
fn in_run(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric()
}

/// A run in its search form, and where each character of it comes from.
#[derive(Default)]
struct SearchRun {
    plain: String,
    /// Of each byte of `plain`: where its character begins in the run, and where it ends.
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
        // Only Hangul is put together again: its characters are what people search by.
        if matches!(u32::from(c), 0x1161..=0x11ff)
            && let Some(last) = self.plain.chars().next_back()
            && let Some(both) = compose(last, c)
        {
            self.plain.pop();
            let bytes = self.origin.len().saturating_sub(last.len_utf8());
            from.0 = self.origin.get(bytes).map_or(from.0, |(start, _)| *start);
            self.origin.truncate(bytes);
            c = both;
        }
        self.plain.push(c);
        self.origin.resize(self.plain.len(), from);
    }

    /// The words of the run, numbered from `at`; gives the next number.
    fn words(&self, mut at: u32, base: usize, each: &mut impl FnMut(&TextWord<'_>)) -> u32 {
        let mut run: Option<(usize, usize)> = None;
        for (start, word) in self.plain.unicode_word_indices() {
            let mut from = start;
            while let Some(rest) = self.plain.get(from..start.saturating_add(word.len()))
                && let Some(first) = rest.chars().next()
            {
                let unspaced = is_unspaced(first);
                let bytes = rest.find(|c| is_unspaced(c) != unspaced).unwrap_or(rest.len());
                let end = from.saturating_add(bytes);
                run = match run {
                    Some((first, last)) if unspaced && last == from => Some((first, end)),
                    other => {
                        at = self.pairs(other, at, base, each);
                        unspaced.then_some((from, end))
                    }
                };
                if !unspaced {
                    let cut = rest.get(..bytes).map_or("", |whole| cut(whole, MAX_WORD_BYTES));
                    let (start, end) = self.span(from, end, base);
                    each(&TextWord { word: cut, position: at, start, end, in_pair: false });
                    at = at.saturating_add(1);
                }
                from = end;
            }
        }
        self.pairs(run, at, base, each)
    }

    /// The pairs and the characters of an unspaced run.
    fn pairs(
        &self,
        run: Option<(usize, usize)>,
        mut at: u32,
        base: usize,
        each: &mut impl FnMut(&TextWord<'_>),
    ) -> u32 {
        let Some((first, last)) = run else { return at };
        let text = self.plain.get(first..last).unwrap_or_default();
        let alone = text.chars().nth(1).is_none();
        for (offset, c) in text.char_indices() {
            let from = first.saturating_add(offset);
            let middle = from.saturating_add(c.len_utf8());
            let mut say = |to: usize, in_pair: bool| {
                let (start, end) = self.span(from, to, base);
                each(&TextWord {
                    word: self.plain.get(from..to).unwrap_or_default(),
                    position: at,
                    start,
                    end,
                    in_pair,
                });
            };
            if let Some(next) = self.plain.get(middle..last).and_then(|rest| rest.chars().next()) {
                say(middle.saturating_add(next.len_utf8()), false);
            }
            say(middle, !alone);
            at = at.saturating_add(1);
        }
        at
    }

    fn span(&self, from: usize, to: usize, base: usize) -> (usize, usize) {
        let start = self.origin.get(from).map_or(0, |(start, _)| *start);
        let end =
            to.checked_sub(1).and_then(|last| self.origin.get(last)).map_or(start, |(_, end)| *end);
        (base.saturating_add(start), base.saturating_add(end))
    }
}

/// The beginning of a text, no longer than `most` bytes.
#[must_use]
pub fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// Scripts that put no spaces between words: Thai, Lao, Myanmar, Khmer, kana, bopomofo, Han; and
/// Hangul.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3005..=0x3007 | 0x303b | 0x3040..=0x312f
        | 0x31a0..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0x20000..=0x3ffff)
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
    fn words_of_many_scripts() {
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
    fn a_word_knows_its_number_and_its_place() {
        let mut out = Vec::new();
        let text = "A Café 日本語, b";
        let count = each_word(text, |found| {
            out.push((found.position, &text[found.start..found.end], found.in_pair))
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
        fn both_ways_agree_on_ascii(run in "[A-Za-z0-9]{1,80}") {
            let mut folded = SearchRun::default();
            folded.fold(&run);
            let mut unicode = Vec::new();
            folded.words(0, 0, &mut |found: &TextWord<'_>| unicode.push(found.word.to_owned()));
            prop_assert_eq!(words(&run), unicode);
        }

        #[test]
        fn any_text_gives_bounded_words_in_their_places(text in ".{0,200}") {
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
