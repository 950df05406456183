//! The wildcards of `:matches` (RFC 5228 §2.7.1) and what they capture (RFC 5229 §3.2).
//!
//! - `*` stands for any text, `?` for one character. A `\` makes the character after it stand for
//!   itself; at the end of a pattern it stands for itself.
//! - Every wildcard captures as little as possible; where two could share a text differently, the
//!   left one takes the least.
//! - Texts are compared in the folded form of the comparator; captures are parts of the text as it
//!   is.
//! - The work is bounded by the product of the lengths of pattern and text, and is charged step by
//!   step.

use std::borrow::Cow;
use std::ops::Range;

use super::Result;
use super::comparator::{fold, fold_char};
use super::fuel::Fuel;
use crate::extension::Comparator;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// A byte of a literal in the folded form.
    Byte(u8),
    /// `?`: one character.
    One,
    /// `*`: any characters.
    Any,
}

impl Pattern {
    pub(super) fn new(comparator: Comparator, source: &str) -> Self {
        let mut tokens = Vec::with_capacity(source.len());
        let mut literal = String::new();
        let mut chars = source.chars();
        while let Some(c) = chars.next() {
            let wildcard = match c {
                '*' => Token::Any,
                '?' => Token::One,
                '\\' => {
                    literal.push(chars.next().unwrap_or('\\'));
                    continue;
                }
                c => {
                    literal.push(c);
                    continue;
                }
            };
            push_literal(&mut tokens, comparator, &mut literal);
            tokens.push(wildcard);
        }
        push_literal(&mut tokens, comparator, &mut literal);
        Self { tokens }
    }

    /// Matches a whole text. Returns for each wildcard the range of bytes of the text that it
    /// captures, `None` if the text does not match.
    ///
    /// On a mismatch the last `*` takes one character more. A longer capture of an earlier `*` is
    /// never tried: it would only leave less text to the last one, which can take any text.
    pub(super) fn captures(
        &self,
        subject: &Subject<'_>,
        fuel: &mut Fuel,
    ) -> Result<Option<Vec<Range<usize>>>> {
        let text = subject.folded.as_ref();
        let mut captures: Vec<Range<usize>> = Vec::new();
        // The index of the last `*` in `tokens`, and that of its range in `captures`. The ranges
        // are offsets in the folded text.
        let mut last_any: Option<(usize, usize)> = None;
        let (mut at, mut next) = (0, 0);
        loop {
            fuel.bytes(1)?;
            match self.tokens.get(next) {
                Some(Token::Any) if subject.is_boundary(at) => {
                    last_any = Some((next, captures.len()));
                    captures.push(at..at);
                    next += 1;
                    continue;
                }
                Some(Token::One) if at < text.len() && subject.is_boundary(at) => {
                    let end = subject.end_of_char(at);
                    captures.push(at..end);
                    at = end;
                    next += 1;
                    continue;
                }
                Some(Token::Byte(byte)) if text.get(at) == Some(byte) => {
                    at += 1;
                    next += 1;
                    continue;
                }
                None if at == text.len() => break,
                _ => {}
            }
            let Some((token, index)) = last_any else { return Ok(None) };
            let Some(capture) = captures.get_mut(index) else { return Ok(None) };
            if capture.end >= text.len() {
                return Ok(None);
            }
            capture.end = subject.end_of_char(capture.end);
            if let (Some(Token::Byte(first)), None) = (self.tokens.get(token + 1), &subject.origins)
            {
                // The text after the `*` must begin with the first byte of the literal: what stands
                // before the next such byte is skipped at once. In UTF-8 the byte always begins a
                // character.
                let rest = text.get(capture.end..).unwrap_or_default();
                let skipped = memchr::memchr(*first, rest);
                fuel.scanned(skipped.unwrap_or(rest.len()))?;
                let Some(skipped) = skipped else { return Ok(None) };
                capture.end += skipped;
            }
            at = capture.end;
            captures.truncate(index + 1);
            next = token + 1;
        }
        let source = |range: &Range<usize>| {
            subject.source_offset(range.start)..subject.source_offset(range.end)
        };
        Ok(Some(captures.iter().map(source).collect()))
    }
}

/// Appends a literal in the folded form to the tokens, and clears it.
fn push_literal(tokens: &mut Vec<Token>, comparator: Comparator, literal: &mut String) {
    tokens.extend(fold(comparator, literal).iter().copied().map(Token::Byte));
    literal.clear();
}

/// A text that patterns are matched against.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    folded: Cow<'a, [u8]>,
    /// For each folded byte, the offset in the text of the character that it comes from. `None` if
    /// each byte of the text gives one folded byte, so that the offsets are equal.
    origins: Option<Vec<u32>>,
    source_len: usize,
}

impl<'a> Subject<'a> {
    pub(super) fn new(comparator: Comparator, text: &'a str) -> Self {
        if comparator != Comparator::UnicodeCasemap || text.is_ascii() {
            // ASCII is folded alike by both casemaps.
            let comparator = match comparator {
                Comparator::UnicodeCasemap => Comparator::AsciiCasemap,
                other => other,
            };
            let folded = fold(comparator, text);
            return Self { folded, origins: None, source_len: text.len() };
        }
        let mut folded = String::with_capacity(text.len());
        let mut origins = Vec::with_capacity(text.len());
        for (offset, c) in text.char_indices() {
            fold_char(c, &mut |part| folded.push(part));
            origins.resize(folded.len(), u32::try_from(offset).unwrap_or(u32::MAX));
        }
        let folded = Cow::Owned(folded.into_bytes());
        Self { folded, origins: Some(origins), source_len: text.len() }
    }

    /// Returns the offset in the folded text at which the character ends that gave the folded byte
    /// at `at`.
    fn end_of_char(&self, at: usize) -> usize {
        let len = self.folded.len();
        let mut end = at.saturating_add(1).min(len);
        match &self.origins {
            Some(origins) => {
                while end < len && origins.get(end) == origins.get(at) {
                    end += 1;
                }
            }
            None => {
                // The bytes of UTF-8 that continue a character begin with the bits 10.
                while self.folded.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                    end += 1;
                }
            }
        }
        end
    }

    /// Returns whether a character of the text begins or the text ends at this offset of the folded
    /// text. A wildcard captures whole characters, so that it can only begin there.
    fn is_boundary(&self, at: usize) -> bool {
        match &self.origins {
            Some(origins) => {
                at == 0 || at >= origins.len() || origins.get(at - 1) != origins.get(at)
            }
            // A literal consists of whole characters, so that none is cut after it.
            None => true,
        }
    }

    /// Returns the offset in the text for an offset in the folded text.
    fn source_offset(&self, at: usize) -> usize {
        let Some(origins) = &self.origins else { return at };
        origins.get(at).map_or(self.source_len, |&offset| offset as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captures(comparator: Comparator, pattern: &str, text: &str) -> Option<Vec<String>> {
        let subject = Subject::new(comparator, text);
        let ranges =
            Pattern::new(comparator, pattern).captures(&subject, &mut Fuel::new(1000)).unwrap()?;
        Some(ranges.into_iter().map(|range| text[range].to_owned()).collect())
    }

    /// Tries every length of every wildcard, the shortest first.
    fn oracle(pattern: &[char], text: &[char]) -> Option<Vec<String>> {
        let Some((first, rest)) = pattern.split_first() else {
            return text.is_empty().then(Vec::new);
        };
        let lengths = match first {
            '*' => 0..=text.len(),
            '?' => 1..=1,
            c => {
                let matches = text.first().is_some_and(|t| t.eq_ignore_ascii_case(c));
                return matches.then(|| oracle(rest, &text[1..])).flatten();
            }
        };
        lengths.filter(|&length| length <= text.len()).find_map(|length| {
            let mut captures = oracle(rest, &text[length..])?;
            captures.insert(0, text[..length].iter().collect());
            Some(captures)
        })
    }

    #[test]
    fn wildcards_capture_as_little_as_possible() {
        let captures = |pattern, text| captures(Comparator::AsciiCasemap, pattern, text);
        let some = |texts: &[&str]| Some(texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        // RFC 5229 §3.2
        assert_eq!(
            captures("[*] *", "[acme-users] [fwd] version 1.0 is out"),
            some(&["acme-users", "[fwd] version 1.0 is out"])
        );
        assert_eq!(
            captures("coyote@**.com", "coyote@ACME.Example.COM"),
            some(&["", "ACME.Example"])
        );
        assert_eq!(captures("a?c", "a\u{e4}C"), some(&["\u{e4}"]));
        assert_eq!(captures("?", ""), None);
        assert_eq!(captures("", ""), some(&[]));
        assert_eq!(captures("*", ""), some(&[""]));
        assert_eq!(captures("\\*\\?\\\\\\a", "*?\\A"), some(&[]));
        assert_eq!(captures("a\\", "a\\"), some(&[]));
    }

    #[test]
    fn captures_are_parts_of_the_text_and_not_of_its_folded_form() {
        let captures = |pattern, text| captures(Comparator::UnicodeCasemap, pattern, text);
        assert_eq!(
            captures("GR\u{dc}\u{df}E *?", "gr\u{fc}\u{df}e \u{e4}\u{f6}"),
            Some(vec!["\u{e4}".into(), "\u{f6}".into()])
        );
        assert_eq!(captures("\u{e4}*", "A\u{308}b"), Some(vec!["b".into()]));
        assert_eq!(captures("a", "\u{e4}"), None);
    }

    #[test]
    fn work_is_bounded_by_fuel() {
        let text = "a".repeat(20_000);
        let pattern = Pattern::new(Comparator::Octet, &format!("*{}b", "a".repeat(10_000)));
        let mut fuel = Fuel::new(1000);
        assert!(pattern.captures(&Subject::new(Comparator::Octet, &text), &mut fuel).is_err());
        assert_eq!(fuel.used(), 1000);
    }

    proptest! {
        #[test]
        fn matches_as_the_oracle_does(
            pattern in "[abA*?\u{e4}]{0,8}",
            text in "[abA\u{e4}]{0,10}",
        ) {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = oracle(&chars(&pattern), &chars(&text));
            prop_assert_eq!(captures(Comparator::AsciiCasemap, &pattern, &text), expected.clone());
            prop_assert_eq!(captures(Comparator::UnicodeCasemap, &pattern, &text), expected);
        }
    }
}
