//! Decodes encoded words (RFC 2047).
//!
//! - In a text or a comment, an encoded word stands alone between blanks (`words`, RFC 2047 §5
//!   (1)). In quoted strings and file names, where programs write them against the RFC, and in the
//!   values that filters compare, it may touch other text and contain blanks (`anywhere`).
//! - Blanks between two encoded words are dropped (§6.2).
//! - Neighbours in one charset are decoded together, since a character may be split between them;
//!   in a stateful charset each by itself (§3).
//! - A word that is invalid, or in an unknown charset, stays as written.

use std::borrow::{Borrow, Cow};

use super::charset::CharsetCodec;
use crate::message::decode;
use crate::model::hex::hex_byte;

/// Bytes in which the end of an encoded word with blanks or question marks is looked for.
const MAX_LENIENT_BYTES: usize = 998;

pub(super) struct EncodedWord {
    coding: CharsetCodec,
    bytes: Vec<u8>,
}

impl EncodedWord {
    /// Parses a whole word (RFC 2047 §2), which may be longer than the RFC allows.
    pub(super) fn read(word: &str) -> Option<Self> {
        let (found, length) = Self::first(word)?;
        (length == word.len()).then_some(found)
    }

    /// Parses the encoded word at the beginning of a text; returns it with its length.
    pub(super) fn first(text: &str) -> Option<(Self, usize)> {
        let (label, encoding, from) = opening(text)?;
        let (inner, rest) = from.split_once('?')?;
        let found = Self::of(label, encoding, inner, |byte| byte.is_ascii_graphic());
        found.filter(|_| rest.starts_with('='))
    }

    /// As `first`, for names, where Q text may hold blanks and question marks, but no `=?`. Its end
    /// is then looked for in `MAX_LENIENT_BYTES`.
    pub(super) fn lenient(text: &str) -> Option<(Self, usize)> {
        let lenient = || {
            let (label, encoding, from) = opening(text)?;
            let near = from.get(..from.floor_char_boundary(MAX_LENIENT_BYTES))?;
            let inner = near.get(..near.find("?=")?)?;
            let is_q = matches!(encoding, "Q" | "q") && !inner.contains("=?");
            is_q.then(|| {
                Self::of(label, encoding, inner, |byte| matches!(byte, b' '..=b'~' | b'\t'))
            })?
        };
        Self::first(text).or_else(lenient)
    }

    fn of(label: &str, encoding: &str, inner: &str, is_q: fn(u8) -> bool) -> Option<(Self, usize)> {
        // A language may follow the charset (RFC 2231 §5).
        let coding = CharsetCodec::of_label(label.split('*').next().unwrap_or_default())?;
        let bytes = match encoding {
            "Q" | "q" if inner.bytes().all(is_q) => q(inner),
            "B" | "b"
                if inner
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)) =>
            {
                decode::decode(decode::BASE64, inner.as_bytes()).0.into_owned()
            }
            _ => return None,
        };
        let length =
            ["=?", label, "?", encoding, "?", inner, "?="].iter().map(|piece| piece.len()).sum();
        Some((Self { coding, bytes }, length))
    }
}

/// Returns the charset, the encoding and what follows them, if `=?` begins the text.
fn opening(text: &str) -> Option<(&str, &str, &str)> {
    let mut pieces = text.strip_prefix("=?")?.splitn(3, '?');
    Some((pieces.next()?, pieces.next()?, pieces.next()?))
}

/// Appends the text of neighbouring encoded words.
pub(super) fn append<W: Borrow<EncodedWord>>(run: &[W], out: &mut String) {
    let run: Vec<&EncodedWord> = run.iter().map(Borrow::borrow).collect();
    for neighbours in
        run.chunk_by(|one, next| one.coding == next.coding && !one.coding.is_stateful())
    {
        let Some(first) = neighbours.first() else { continue };
        if let [only] = neighbours {
            out.push_str(&only.coding.decode(&only.bytes).0);
        } else {
            let bytes: Vec<u8> = neighbours.iter().flat_map(|word| &word.bytes).copied().collect();
            out.push_str(&first.coding.decode(&bytes).0);
        }
    }
}

/// Decodes the encoded words of a text that stand alone between blanks.
pub(super) fn words(text: &str) -> Cow<'_, str> {
    if !text.contains("=?") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let (blank, word, after) = next_word(rest);
        out.push_str(blank);
        rest = after;
        let Some(first) = EncodedWord::read(word) else {
            out.push_str(word);
            continue;
        };
        let mut run = vec![first];
        loop {
            let (_, next, after) = next_word(rest);
            let Some(next) = EncodedWord::read(next) else { break };
            run.push(next);
            rest = after;
        }
        append(&run, &mut out);
    }
    Cow::Owned(out)
}

/// Decodes the encoded words of a text, wherever they stand.
pub(super) fn anywhere(text: &str) -> Cow<'_, str> {
    if !text.contains("=?") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut run, mut rest) = (String::with_capacity(text.len()), Vec::new(), text);
    while let Some(start) = rest.find("=?") {
        let (before, from) = rest.split_at_checked(start).unwrap_or((rest, ""));
        let Some((word, length)) = EncodedWord::lenient(from) else {
            append(&run, &mut out);
            run.clear();
            out.push_str(before);
            out.push_str("=?");
            rest = from.get(2..).unwrap_or_default();
            continue;
        };
        if run.is_empty() || !before.chars().all(is_blank) {
            append(&run, &mut out);
            run.clear();
            out.push_str(before);
        }
        run.push(word);
        rest = from.get(length..).unwrap_or_default();
    }
    append(&run, &mut out);
    out.push_str(rest);
    Cow::Owned(out)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// Returns the blanks before the next word, the word, and the rest.
fn next_word(text: &str) -> (&str, &str, &str) {
    let start = text.find(|c| !is_blank(c)).unwrap_or(text.len());
    let (before, text) = text.split_at(start);
    let (word, after) = text.split_at(text.find(is_blank).unwrap_or(text.len()));
    (before, word, after)
}

/// Decodes the Q encoding (RFC 2047 §4.2). An invalid escape stays as written.
fn q(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let escaped =
            after.first_chunk::<2>().filter(|_| *byte == b'=').and_then(|digits| hex_byte(*digits));
        match (byte, escaped) {
            (_, Some(byte)) => {
                out.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            (b'_', None) => out.push(b' '),
            (byte, None) => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_stateful_charsets_are_decoded_separately() {
        let text = "=?iso-2022-jp?B?GyRCJTkbKEI=?= =?iso-2022-jp?B?GyRCJVElYBsoQg==?=\t\
                    =?ISO-2022-JP?Q?!?=";
        assert_eq!(words(text), "スパム!");
        assert_eq!(anywhere(&format!("\"{text}\"")), "\"スパム!\"");
        assert_eq!(words("=?iso-2022-kr?B?GyQpQw5HUQ8=?= =?hz-gb-2312?Q?~{VPND~}?="), "한中文");
        assert_eq!(words("=?utf-8?q?J=C3?= =?utf-8?q?=BC?= =?latin1?q?=FC?="), "Jüü");
    }

    #[test]
    fn encoded_words_that_touch_text_are_decoded_only_in_names() {
        assert_eq!(words("=?utf-8?q?a?=.pdf"), "=?utf-8?q?a?=.pdf");
        assert_eq!(
            anywhere("=?utf-8?q?a?=.pdf =?x =?utf-8?q?b?==?utf-8?q?c?= =?utf-8?q?d?="),
            "a.pdf =?x bcd"
        );
        assert_eq!(anywhere("=?utf-8?q?a?= x =?utf-8?q?b?="), "a x b");
        assert_eq!(words("=?us-ascii?q?caf=E9?="), "café");
    }

    #[test]
    fn q_text_with_blanks_is_decoded_only_in_names() {
        for (text, wanted) in [
            ("=?UTF-8?Q?Rechnung M=C3=A4rz.pdf?=", "Rechnung März.pdf"),
            ("=?utf-8?q?Really??= =?utf-8?q?a?b?=!", "Really?a?b!"),
            ("=?utf-8?q?open =?utf-8?q?b?=", "=?utf-8?q?open b"),
            ("=?utf-8?b?SGVs bG8=?=", "=?utf-8?b?SGVs bG8=?="),
            ("=?klingon?q?a b?=", "=?klingon?q?a b?="),
        ] {
            assert_eq!(anywhere(text), wanted, "{text}");
        }
        assert_eq!(words("=?utf-8?q?a b?="), "=?utf-8?q?a b?=");
        let far = format!("=?utf-8?q?{}?=", "a ".repeat(MAX_LENIENT_BYTES));
        assert_eq!(anywhere(&far), far);
    }

    /// The work is linear in the length of a run.
    #[test]
    fn long_run_of_encoded_words_takes_linear_time() {
        assert_eq!(words(&"=?utf-8?q?a?= ".repeat(20_000)).trim_end().len(), 20_000);
        assert_eq!(anywhere(&"=?".repeat(100_000)).len(), 200_000);
        assert_eq!(anywhere(&"=?us?q?a ".repeat(20_000)).len(), 180_000);
    }
}
