//! Encoded words (RFC 2047), to text.
//!
//! - In a text an encoded word stands alone between blanks (`words`, RFC 2047 §5 (1)); in quoted
//!   strings and file names, where the RFC allows none but mail programs write them, it may touch
//!   other text (`anywhere`).
//! - In names, Q text may hold blanks and question marks, as many programs write them (`lenient`).
//! - Blanks between two encoded words go (§6.2).
//! - Neighbours in one charset are decoded together, since a character may be cut in two between
//!   them; where a charset has states each is decoded by itself, since each begins in the first
//!   state (§3).
//! - What is not sound, or in a charset that is not known, stays as it is written.

use std::borrow::{Borrow, Cow};

use super::charset::CharsetCodec;
use crate::message::decode;
use crate::model::hex::hex_byte;

/// Bytes in which the end of an encoded word with blanks or question marks is looked for.
const MAX_LENIENT_BYTES: usize = 998;

/// The bytes of an encoded word, and their charset.
pub(super) struct EncodedWord {
    coding: CharsetCodec,
    bytes: Vec<u8>,
}

impl EncodedWord {
    /// Reads a whole word (RFC 2047 §2). One longer than the 75 bytes there is read alike.
    pub(super) fn read(word: &str) -> Option<Self> {
        let (found, length) = Self::first(word)?;
        (length == word.len()).then_some(found)
    }

    /// Reads the encoded word at the beginning of a text; gives also how long it is.
    pub(super) fn first(text: &str) -> Option<(Self, usize)> {
        let (label, encoding, from) = opening(text)?;
        let (inner, rest) = from.split_once('?')?;
        let found = Self::of(label, encoding, inner, |byte| byte.is_ascii_graphic());
        found.filter(|_| rest.starts_with('='))
    }

    /// Reads the encoded word at the beginning of a name, where Q text may also hold blanks and
    /// question marks. No other encoded word may begin in it.
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
        // RFC 2231 §5: a language may follow the charset.
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

/// The charset and the encoding of an encoded word, and what follows them.
fn opening(text: &str) -> Option<(&str, &str, &str)> {
    let mut pieces = text.strip_prefix("=?")?.splitn(3, '?');
    Some((pieces.next()?, pieces.next()?, pieces.next()?))
}

/// Decodes words that follow each other, and appends their text.
pub(super) fn append<W: Borrow<EncodedWord>>(run: &[W], out: &mut String) {
    let run: Vec<&EncodedWord> = run.iter().map(Borrow::borrow).collect();
    for together in run.chunk_by(|one, next| one.coding == next.coding && !one.coding.is_stateful())
    {
        let Some(first) = together.first() else { continue };
        if let [only] = together {
            out.push_str(&only.coding.decode(&only.bytes).0);
        } else {
            let bytes: Vec<u8> = together.iter().flat_map(|word| &word.bytes).copied().collect();
            out.push_str(&first.coding.decode(&bytes).0);
        }
    }
}

/// Decodes encoded words that stand as words of their own.
pub(super) fn words(text: &str) -> Cow<'_, str> {
    if !text.contains("=?") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let (blank, word, after) = step(rest);
        out.push_str(blank);
        rest = after;
        let Some(first) = EncodedWord::read(word) else {
            out.push_str(word);
            continue;
        };
        let mut run = vec![first];
        loop {
            let (_, next, after) = step(rest);
            let Some(next) = EncodedWord::read(next) else { break };
            run.push(next);
            rest = after;
        }
        append(&run, &mut out);
    }
    Cow::Owned(out)
}

/// Decodes encoded words wherever they stand.
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

/// The blanks before a word, the word, and what follows.
fn step(text: &str) -> (&str, &str, &str) {
    let start = text.find(|c| !is_blank(c)).unwrap_or(text.len());
    let (before, text) = text.split_at(start);
    let (word, after) = text.split_at(text.find(is_blank).unwrap_or(text.len()));
    (before, word, after)
}

/// The Q encoding (RFC 2047 §4.2); an escape that is none stays as it is written.
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
    fn words_in_a_charset_with_states_are_decoded_each_by_itself() {
        let text = "=?iso-2022-jp?B?GyRCJTkbKEI=?= =?iso-2022-jp?B?GyRCJVElYBsoQg==?=\t=?ISO-2022-JP?Q?!?=";
        assert_eq!(words(text), "スパム!");
        assert_eq!(anywhere(&format!("\"{text}\"")), "\"スパム!\"");
        assert_eq!(words("=?iso-2022-kr?B?GyQpQw5HUQ8=?= =?hz-gb-2312?Q?~{VPND~}?="), "한中文");
        assert_eq!(words("=?utf-8?q?J=C3?= =?utf-8?q?=BC?= =?latin1?q?=FC?="), "Jüü");
    }

    #[test]
    fn words_that_touch_others_are_decoded_in_names_alone() {
        assert_eq!(words("=?utf-8?q?a?=.pdf"), "=?utf-8?q?a?=.pdf");
        assert_eq!(
            anywhere("=?utf-8?q?a?=.pdf =?x =?utf-8?q?b?==?utf-8?q?c?= =?utf-8?q?d?="),
            "a.pdf =?x bcd"
        );
        assert_eq!(anywhere("=?utf-8?q?a?= x =?utf-8?q?b?="), "a x b");
        assert_eq!(words("=?us-ascii?q?caf=E9?="), "café");
    }

    #[test]
    fn blanks_and_question_marks_stand_in_q_text_of_names_alone() {
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

    /// A run of words costs its length.
    #[test]
    fn a_long_run_is_decoded_whole() {
        assert_eq!(words(&"=?utf-8?q?a?= ".repeat(20_000)).trim_end().len(), 20_000);
        assert_eq!(anywhere(&"=?".repeat(100_000)).len(), 200_000);
        assert_eq!(anywhere(&"=?us?q?a ".repeat(20_000)).len(), 180_000);
    }
}
