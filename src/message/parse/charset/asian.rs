//! Decodes the ISO 2022 charsets (RFC 1468, RFC 1554, RFC 1557, RFC 1922), HZ (RFC 1843) and Johab.
//! Each pair of bytes, except those of Johab syllables, is decoded in the EUC form of its set,
//! which the library mail-parser knows.

use std::borrow::Cow;

use mail_parser::Charset;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// A character set that an escape selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharacterSet {
    Ascii,
    /// The Latin half of JIS X 0201.
    Roman,
    /// The katakana half of JIS X 0201.
    Katakana,
    /// The set JIS X 0208.
    Japanese,
    /// The set JIS X 0212.
    Supplement,
    /// The set GB 2312.
    Chinese,
    /// The set KS X 1001.
    Korean,
    Unknown,
    /// The upper half of ISO 8859-1, for one character.
    Latin,
    /// The upper half of ISO 8859-7, for one character.
    Greek,
}

/// The bytes after an escape, when the set that they select is used, and the set. The longest
/// escapes come first. `$(O` and `$(Q` select the first plane of JIS X 0213, which extends JIS X
/// 0208. Its second plane (`$(P`) and CNS 11643 (`$)G`) are not supported.
const ESCAPES: [(&[u8], ShiftState, CharacterSet); 19] = [
    (b"$(C", ShiftState::Usual, CharacterSet::Korean),
    (b"$(D", ShiftState::Usual, CharacterSet::Supplement),
    (b"$(A", ShiftState::Usual, CharacterSet::Chinese),
    (b"$(B", ShiftState::Usual, CharacterSet::Japanese),
    (b"$(@", ShiftState::Usual, CharacterSet::Japanese),
    (b"$(O", ShiftState::Usual, CharacterSet::Japanese),
    (b"$(Q", ShiftState::Usual, CharacterSet::Japanese),
    (b"$(P", ShiftState::Usual, CharacterSet::Unknown),
    (b"$)C", ShiftState::Shifted, CharacterSet::Korean),
    (b"$)A", ShiftState::Shifted, CharacterSet::Chinese),
    (b"$)G", ShiftState::Shifted, CharacterSet::Unknown),
    (b"$B", ShiftState::Usual, CharacterSet::Japanese),
    (b"$@", ShiftState::Usual, CharacterSet::Japanese),
    (b"$A", ShiftState::Usual, CharacterSet::Chinese),
    (b"(B", ShiftState::Usual, CharacterSet::Ascii),
    (b"(J", ShiftState::Usual, CharacterSet::Roman),
    (b"(I", ShiftState::Usual, CharacterSet::Katakana),
    (b".A", ShiftState::Single, CharacterSet::Latin),
    (b".F", ShiftState::Single, CharacterSet::Greek),
];

/// When a selected set is used: from now on, between shift-out and shift-in, or for one character
/// after `ESC N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShiftState {
    Usual,
    Shifted,
    Single,
}

struct DecodedText {
    text: String,
    /// Characters of `set` in its EUC form, which follow `text` and are not decoded yet.
    pairs: Vec<u8>,
    set: CharacterSet,
    is_broken: bool,
}

impl DecodedText {
    fn new(bytes: usize) -> Self {
        Self {
            text: String::with_capacity(bytes),
            pairs: Vec::new(),
            set: CharacterSet::Ascii,
            is_broken: false,
        }
    }

    fn push(&mut self, c: char) {
        self.flush();
        self.text.push(c);
    }

    fn push_broken(&mut self) {
        self.push(REPLACEMENT);
        self.is_broken = true;
    }

    fn push_pair(&mut self, set: CharacterSet, first: u8, second: u8) {
        if set != self.set {
            self.flush();
            self.set = set;
        }
        // In EUC-JP this byte comes before each pair of JIS X 0212.
        if set == CharacterSet::Supplement {
            self.pairs.push(0x8f);
        }
        self.pairs.extend([first | 0x80, second | 0x80]);
    }

    fn flush(&mut self) {
        if self.pairs.is_empty() {
            return;
        }
        let charset = match self.set {
            CharacterSet::Korean => Some(Charset::EucKr),
            CharacterSet::Chinese => Some(Charset::Gbk),
            CharacterSet::Japanese | CharacterSet::Supplement => Some(Charset::EucJp),
            _ => None,
        };
        match charset {
            Some(charset) => {
                let (text, is_broken) = charset.decode_checked(&self.pairs);
                self.text.push_str(&text);
                self.is_broken |= is_broken;
            }
            None => {
                self.text.extend(self.pairs.chunks(2).map(|_| REPLACEMENT));
                self.is_broken = true;
            }
        }
        self.pairs.clear();
    }

    fn finish<'a>(mut self) -> (Cow<'a, str>, bool) {
        self.flush();
        (Cow::Owned(self.text), self.is_broken)
    }
}

/// Decodes the ISO 2022 charsets. Also returns whether any bytes are invalid.
pub(super) fn iso_2022(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    let mut out = DecodedText::new(bytes.len());
    let (mut usual, mut shifted, mut single, mut is_shifted) =
        (CharacterSet::Ascii, CharacterSet::Ascii, CharacterSet::Unknown, false);
    let mut rest = bytes;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let set = if is_shifted { shifted } else { usual };
        match (*byte, set) {
            (0x1b, _) => {
                if let Some((escape, slot, chosen)) =
                    ESCAPES.iter().find(|(escape, ..)| after.starts_with(escape))
                {
                    rest = after.get(escape.len()..).unwrap_or_default();
                    match slot {
                        ShiftState::Usual => usual = *chosen,
                        ShiftState::Shifted => shifted = *chosen,
                        ShiftState::Single => single = *chosen,
                    }
                } else if let (
                    Some(&[b'N', one @ (0x20..=0x7f | 0xa0..)]),
                    CharacterSet::Latin | CharacterSet::Greek,
                ) = (after.first_chunk::<2>(), single)
                {
                    rest = after.get(2..).unwrap_or_default();
                    let charset = if single == CharacterSet::Latin {
                        Charset::Windows1252
                    } else {
                        Charset::Iso8859_7
                    };
                    out.flush();
                    out.text.push_str(&charset.decode(&[one | 0x80]));
                } else {
                    out.push_broken();
                }
            }
            (0x0e, _) => is_shifted = true,
            (0x0f, _) => is_shifted = false,
            (0xa1..=0xdf, CharacterSet::Ascii | CharacterSet::Roman | CharacterSet::Katakana) => {
                // Katakana of eight bits, which no escape selected.
                out.push(katakana(byte & 0x7f));
                out.is_broken = true;
            }
            (0x80.., _) => out.push_broken(),
            (0x21..=0x5f, CharacterSet::Katakana) => out.push(katakana(*byte)),
            (b'\\', CharacterSet::Roman) => out.push('\u{a5}'),
            (b'~', CharacterSet::Roman) => out.push('\u{203e}'),
            // No set of pairs has DEL.
            (0..=0x20 | 0x7f, _)
            | (
                _,
                CharacterSet::Ascii
                | CharacterSet::Roman
                | CharacterSet::Katakana
                | CharacterSet::Latin
                | CharacterSet::Greek,
            ) => {
                out.push(char::from(*byte));
            }
            (_, set) => match after.split_first() {
                Some((second @ 0x21..=0x7e, after)) => {
                    out.push_pair(set, *byte, *second);
                    rest = after;
                }
                _ => out.push_broken(),
            },
        }
    }
    out.finish()
}

/// Returns the half-width katakana for a byte of JIS X 0201 (21 to 5F, hex).
fn katakana(byte: u8) -> char {
    char::from_u32(0xff40_u32.saturating_add(u32::from(byte))).unwrap_or(REPLACEMENT)
}

/// Decodes HZ: `~{` begins pairs of GB 2312; `~}` or the end of the line ends them. Outside of them
/// `~~` is a tilde, and `~` before an LF removes both. Also returns whether any bytes are invalid.
pub(super) fn hz(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    let (mut out, mut rest, mut in_pairs) = (DecodedText::new(bytes.len()), bytes, false);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (*byte, after.split_first()) {
            (b'~', Some((next @ (b'{' | b'}'), after))) => {
                in_pairs = *next == b'{';
                rest = after;
            }
            (b'~', Some((b'~', after))) if !in_pairs => {
                out.push('~');
                rest = after;
            }
            (b'~', Some((b'\n', after))) if !in_pairs => rest = after,
            (b'\n', _) => {
                in_pairs = false;
                out.push('\n');
            }
            (0..=0x20, _) => out.push(char::from(*byte)),
            (0x21..=0x7e, Some((second @ 0x21..=0x7e, after))) if in_pairs => {
                out.push_pair(CharacterSet::Chinese, *byte, *second);
                rest = after;
            }
            (0..=0x7f, _) if !in_pairs => out.push(char::from(*byte)),
            _ => out.push_broken(),
        }
    }
    out.finish()
}

/// For the five bits of each part of a Johab syllable: the index of the part in the order of
/// Unicode plus one, or 0 for none.
const INITIAL_INDEX: [u8; 32] = [
    0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0,
];
const VOWEL_INDEX: [u8; 32] = [
    0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 6, 7, 8, 9, 10, 11, 0, 0, 12, 13, 14, 15, 16, 17, 0, 0, 18, 19,
    20, 21, 0, 0,
];
const FINAL_INDEX: [u8; 32] = [
    0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 17, 18, 19, 20, 21, 22, 23, 24,
    25, 26, 27, 0, 0,
];
/// The initial consonants in the order of `INITIAL_INDEX`, and the final ones in that of
/// `FINAL_INDEX`.
const INITIALS: &str = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ";
const FINALS: &str = "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ";

/// Decodes Johab: syllables by their parts, other characters by their place in KS X 1001. Also
/// returns whether any bytes are invalid.
pub(super) fn johab(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    let (mut out, mut rest) = (DecodedText::new(bytes.len()), bytes);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if byte.is_ascii() {
            out.push(char::from(*byte));
            continue;
        }
        let Some((second, after)) = after.split_first() else {
            out.push_broken();
            break;
        };
        if let Some(c) = syllable(*byte, *second) {
            out.push(c);
        } else if let Some((row, column)) = symbol(*byte, *second) {
            out.push_pair(CharacterSet::Korean, row, column);
        } else {
            out.push_broken();
            // No second byte is that small, so this one is a character of its own.
            if *second < 0x31 {
                continue;
            }
        }
        rest = after;
    }
    out.finish()
}

/// Returns the syllable, or the single letter, whose initial consonant, vowel and final consonant
/// are five bits each. In Unicode the vowels begin after U+314E, and the syllables at U+AC00: 21
/// vowels for each initial, and for each vowel 27 finals and none.
fn syllable(first: u8, second: u8) -> Option<char> {
    if !matches!((first, second), (0x84..=0xd3, 0x41..=0x7e | 0x81..=0xfe)) {
        return None;
    }
    let both = u16::from_be_bytes([first, second]);
    let part = |table: &[u8; 32], bits: u16| {
        table.get(usize::from(bits & 31)).map_or(0, |place| u32::from(*place))
    };
    let parts =
        (part(&INITIAL_INDEX, both >> 10), part(&VOWEL_INDEX, both >> 5), part(&FINAL_INDEX, both));
    let single = |letters: &str, place: u32| {
        letters.chars().nth(usize::try_from(place).ok()?.checked_sub(1)?)
    };
    match parts {
        (0, 0, last) => single(FINALS, last),
        (first, 0, 0) => single(INITIALS, first),
        (0, middle, 0) => char::from_u32(middle.saturating_add(0x314e)),
        (0, ..) | (_, 0, _) => None,
        (first, middle, last) => {
            let at = first.checked_sub(1)?.checked_mul(21)?.checked_add(middle.checked_sub(1)?)?;
            char::from_u32(at.checked_mul(28)?.checked_add(last)?.checked_add(0xac00)?)
        }
    }
}

/// Returns the row and the column in KS X 1001, each from 21 (hex) on. Each first byte stands for
/// two rows of 94 columns; the second bytes, 31 to 7E and 91 to FE, number their columns.
fn symbol(first: u8, second: u8) -> Option<(u8, u8)> {
    let row = match first {
        0xd9..=0xde => first.checked_sub(0xd9)?.checked_mul(2)?.checked_add(0x21)?,
        0xe0..=0xf9 => first.checked_sub(0xe0)?.checked_mul(2)?.checked_add(0x4a)?,
        _ => return None,
    };
    let place = match second {
        0x31..=0x7e => second.checked_sub(0x31)?,
        0x91..=0xfe => second.checked_sub(0x43)?,
        _ => return None,
    };
    let column = (place % 94).checked_add(0x21)?;
    Some((row.checked_add(place / 94)?, column))
}
