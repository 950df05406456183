//! Splits a text into words in the form that search compares, with the place of each.
//!
//! - Words are NFKD, case folded, without combining and zero-width marks; Hangul is composed again.
//! - A text is first divided into runs of ASCII letters, ASCII digits, and all characters outside
//!   ASCII. A run of ASCII is one word (the fast path), any other is split by the rules of Unicode.
//!   Both agree on ASCII, which a test checks.
//! - Scripts without spaces between words, and Hangul, whose words take particles, give each
//!   character and each pair of neighbours as a word. A search term of one character is found by
//!   itself, a longer one by its pairs in a row. No pair reaches across punctuation.

use caseless::Caseless;
use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};
use unicode_segmentation::UnicodeSegmentation;

/// Longest search form of a word, in bytes. Longer ones are cut.
pub const MAX_WORD_BYTES: usize = 64;

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextWord<'a> {
    /// The search form, at most `MAX_WORD_BYTES`.
    pub word: &'a str,
    /// The number of the word in the text. Each unspaced character (`is_unspaced`) has a number,
    /// and a pair has the number of its first character.
    pub position: u32,
    /// Where the word begins in the original text, in bytes.
    pub start: usize,
    /// Where the word ends in the original text, in bytes.
    pub end: usize,
    /// Whether this is a single character that a pair covers too. A search for the pair need not
    /// look for it.
    pub in_pair: bool,
}

/// Calls `each` with every word of a text. Returns how many numbers the words took.
pub fn each_word(text: &str, each: impl FnMut(&TextWord<'_>)) -> u32 {
    WordSplitter::default().each_word(text, each)
}

/// Splits texts into words. The buffers are kept from one text to the next.
#[derive(Debug, Default)]
pub struct WordSplitter {
    /// The text with its ASCII letters in lower case, and `PADDING`.
    lower: String,
    folded: SearchRun,
}

/// Blanks after a text, so that eight bytes can be read from any place in it.
const PADDING: &str = "        ";

impl WordSplitter {
    /// Does the same as [`each_word`].
    pub fn each_word(&mut self, text: &str, mut each: impl FnMut(&TextWord<'_>)) -> u32 {
        self.set(text);
        let Self { lower, folded } = self;
        let (is_ascii, mut position) = (lower.is_ascii(), 0u32);
        each_run(lower.as_bytes(), |start, end| {
            // Both ends are next to ASCII, and so between characters.
            let run = lower.get(start..end).unwrap_or_default();
            if is_ascii || run.is_ascii() {
                let word = run.get(..MAX_WORD_BYTES).unwrap_or(run);
                each(&TextWord { word, position, start, end, in_pair: false });
                position = position.saturating_add(1);
            } else {
                folded.fold(run);
                position = folded.words(position, start, &mut each);
            }
        });
        position
    }

    /// Returns the words of a text of ASCII; `None` if the text has any other character.
    pub fn ascii_words(&mut self, text: &str) -> Option<AsciiWords<'_>> {
        text.is_ascii().then(|| {
            self.set(text);
            AsciiWords(&self.lower)
        })
    }

    fn set(&mut self, text: &str) {
        self.lower.clear();
        self.lower.push_str(text);
        self.lower.make_ascii_lowercase();
        self.lower.push_str(PADDING);
    }
}

/// The words of a text of ASCII, which is in lower case and ends in `PADDING`. The position of each
/// is its number.
#[derive(Debug, Clone, Copy)]
pub struct AsciiWords<'a>(&'a str);

/// A word of ASCII.
#[derive(Debug, Clone, Copy)]
pub struct AsciiWord<'a> {
    padded: &'a str,
    start: usize,
    end: usize,
}

impl<'a> AsciiWords<'a> {
    /// Calls `each` with every word. Returns the number of words.
    #[inline]
    pub fn each(self, mut each: impl FnMut(AsciiWord<'a>, u32)) -> u32 {
        let mut count = 0u32;
        each_run(self.0.as_bytes(), |start, end| {
            each(AsciiWord { padded: self.0, start, end }, count);
            count = count.saturating_add(1);
        });
        count
    }
}

impl<'a> AsciiWord<'a> {
    #[must_use]
    pub fn text(&self) -> &'a str {
        let end = self.end.min(self.start.saturating_add(MAX_WORD_BYTES));
        self.padded.get(self.start..end).unwrap_or_default()
    }

    /// Returns a number that no other word has and that is not 0, if the word has at most seven
    /// bytes.
    #[inline]
    #[must_use]
    pub fn short_key(&self) -> Option<u64> {
        let unused = u32::try_from(8usize.checked_sub(self.end.wrapping_sub(self.start))?).ok()?;
        let bytes = self.padded.as_bytes().get(self.start..)?.first_chunk()?;
        let key = u64::from_be_bytes(*bytes).wrapping_shr(unused.wrapping_mul(8));
        (1..8).contains(&unused).then_some(key)
    }
}

/// Calls `each` with the begin and the end of every run in a text.
#[inline]
fn each_run(text: &[u8], mut each: impl FnMut(usize, usize)) {
    let (blocks, rest) = text.as_chunks::<64>();
    let mut padded_rest = [0; 64];
    padded_rest.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let (mut offset, mut open, mut last_bit) = (0usize, None, 0);
    for block in blocks.iter().chain([&padded_rest]) {
        let bits = run_bits(block);
        // Whether the byte before each byte belongs to a run.
        let bits_before = (bits << 1) | last_bit;
        last_bit = bits >> 63;
        let (mut begins, mut ends) = (bits & !bits_before, bits_before & !bits);
        while let Some(start) = open.take().or_else(|| take_bit(&mut begins, offset)) {
            let Some(end) = take_bit(&mut ends, offset) else {
                open = Some(start);
                break;
            };
            each(start, end);
        }
        offset = offset.wrapping_add(64);
    }
}

/// Clears the lowest bit that is set. Returns its number, counted from `offset`.
#[inline]
fn take_bit(bits: &mut u64, offset: usize) -> Option<usize> {
    if *bits == 0 {
        return None;
    }
    let number = usize::try_from(bits.trailing_zeros()).ok()?;
    *bits &= bits.wrapping_sub(1);
    Some(offset.wrapping_add(number))
}

/// Returns a bit for each byte, the first in the lowest bit: 1 if the byte belongs to a run.
#[inline]
fn run_bits(block: &[u8; 64]) -> u64 {
    let mut flags = [0u8; 64];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(in_run(*byte));
    }
    let (eights, _) = flags.as_chunks::<8>();
    eights.iter().rev().fold(0, |bits, eight| {
        // The multiplication moves the lowest bit of each byte into the highest byte.
        (bits << 8) | (u64::from_be_bytes(*eight).wrapping_mul(0x8040_2010_0804_0201) >> 56)
    })
}

/// Whether a byte is a lower-case ASCII letter, a digit, or not ASCII.
#[inline]
fn in_run(byte: u8) -> bool {
    byte.is_ascii_lowercase() | byte.is_ascii_digit() | !byte.is_ascii()
}

/// A run in its search form, with the place of each character in the run.
#[derive(Debug, Default)]
pub(super) struct SearchRun {
    plain: String,
    /// For each byte of `plain`: where its character begins and ends in the original run.
    origin: Vec<(usize, usize)>,
}

impl SearchRun {
    pub(super) fn fold(&mut self, run: &str) {
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
        // Only Hangul is composed again, because people search for its composed characters: a vowel
        // or a final consonant, with the character before it.
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

    /// Calls `each` with the words of the run, numbered from `position`. The run begins at `base`
    /// in the text. Returns the next number.
    pub(super) fn words(
        &self,
        mut position: u32,
        base: usize,
        each: &mut impl FnMut(&TextWord<'_>),
    ) -> u32 {
        // Neighbouring unspaced characters: their begin and end in `plain`.
        let mut stretch: Option<(usize, usize)> = None;
        for (start, word) in self.plain.unicode_word_indices() {
            let mut from = start;
            while let Some(rest) = self.plain.get(from..start.saturating_add(word.len()))
                && let Some(first) = rest.chars().next()
            {
                let unspaced = is_unspaced(first);
                let length = rest.find(|c| is_unspaced(c) != unspaced).unwrap_or(rest.len());
                let end = from.saturating_add(length);
                stretch = match stretch {
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
        self.pairs(stretch, position, base, each)
    }

    /// Calls `each` with neighbouring unspaced characters, in pairs and each alone. `stretch` is
    /// their begin and end in `plain`. Returns the next number.
    fn pairs(
        &self,
        stretch: Option<(usize, usize)>,
        mut position: u32,
        base: usize,
        each: &mut impl FnMut(&TextWord<'_>),
    ) -> u32 {
        let Some((first, last)) = stretch else { return position };
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

    /// Returns the place in the text of the characters from `from` to `to` in `plain`.
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

/// Whether a character is unspaced: of a script without spaces between words (Thai, Lao, Myanmar,
/// Khmer, kana, bopomofo, Han), or of Hangul.
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
