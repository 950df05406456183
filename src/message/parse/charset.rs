//! Decodes bytes in a charset to text (RFC 2045 §5.1, RFC 2047 §2).
//!
//! - The library mail-parser decodes most charsets. `asian` and `pages` are for those that it does
//!   not know or decodes badly.
//! - A text in `us-ascii`, or that names no charset or an unknown one, is read as UTF-8 if it is
//!   valid, and else as windows-1252. Bytes outside ASCII in it are still reported as a problem.

mod asian;
mod pages;

use std::borrow::Cow;

use mail_parser::Charset;

const MAX_LABEL_BYTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::message) enum CharsetCodec {
    /// `us-ascii`, or no charset at all.
    Ascii,
    Library(Charset),
    /// Any of the ISO 2022 charsets (`asian::iso_2022`).
    Iso2022,
    /// The charset of RFC 1843.
    Hz,
    /// The charset of KS X 1001 annex 3.
    Johab,
    /// ASCII below 80 (hex), and these characters from there on.
    Page(&'static str),
}

const ASCII: [&str; 9] = [
    "us-ascii",
    "ascii",
    "ansi-x3.4-1968",
    "ansi-x3.4-1986",
    "iso646-us",
    "iso-646.irv:1991",
    "csascii",
    "us",
    "7bit",
];
const SHIFT_JIS: [&str; 6] = ["cp932", "ms932", "ibm943", "cp943", "cp943c", "windows-932"];
const UTF7: [&str; 3] = ["unicode-1-1-utf-7", "csunicode11utf7", "x-unicode-2-0-utf-7"];
/// The numbers of code pages, each with its characters from byte 80 (hex) on.
const PAGES: [(&str, &str); 13] = [
    ("437", pages::CP437),
    ("737", pages::CP737),
    ("775", pages::CP775),
    ("852", pages::CP852),
    ("855", pages::CP855),
    ("857", pages::CP857),
    ("858", pages::CP858),
    ("860", pages::CP860),
    ("861", pages::CP861),
    ("862", pages::CP862),
    ("863", pages::CP863),
    ("865", pages::CP865),
    ("869", pages::CP869),
];

impl CharsetCodec {
    /// Finds a charset by one of its names, in any letter case, perhaps in quotes.
    pub(in crate::message) fn of_label(label: &str) -> Option<Self> {
        let label = label.trim().trim_matches(['"', '\'']).trim();
        if label.len() > MAX_LABEL_BYTES {
            return None;
        }
        let name = label.to_ascii_lowercase().replace('_', "-");
        let is_in = |names: &[&str]| names.contains(&name.as_str());
        if is_in(&ASCII) {
            return Some(Self::Ascii);
        }
        if name.starts_with("iso-2022-")
            || name.starts_with("csiso2022")
            || is_in(&["cp50220", "cp50221", "cp50222"])
        {
            return Some(Self::Iso2022);
        }
        if is_in(&["hz-gb-2312", "hz", "hz-gb2312", "cshzgb2312"]) {
            return Some(Self::Hz);
        }
        if is_in(&["johab", "cp1361", "ms1361", "ksc5601-1992", "x-johab"]) {
            return Some(Self::Johab);
        }
        if is_in(&SHIFT_JIS) {
            return Some(Self::Library(Charset::ShiftJis));
        }
        if is_in(&UTF7) {
            return Some(Self::Library(Charset::Utf7));
        }
        let prefixes = ["cp", "ibm", "ibm-", "cp-", "cspc", "dos-", "oem-", "cp00", "ibm00", ""];
        let page =
            prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix)).find_map(|number| {
                // Names that end in `latinus` mean code page 437.
                let number = number.strip_suffix("latinus").map_or(number, |_| "437");
                PAGES.iter().find(|(page, _)| *page == number).map(|(_, page)| Self::Page(page))
            });
        page.or_else(|| match Charset::from_label(label.as_bytes())? {
            Charset::Replacement => None,
            charset => Some(Self::Library(charset)),
        })
    }

    /// Whether escapes, or a mark at the beginning, tell what the bytes after them mean.
    pub(super) fn is_stateful(self) -> bool {
        matches!(self, Self::Iso2022 | Self::Hz | Self::Library(Charset::Utf7 | Charset::Utf16))
    }

    /// Returns the text, and whether any bytes do not belong to the charset (for `Ascii`: whether
    /// any are not ASCII). For `Page` that is always false.
    pub(in crate::message) fn decode(self, bytes: &[u8]) -> (Cow<'_, str>, bool) {
        match self {
            Self::Ascii => guessed(bytes),
            Self::Library(charset) => charset.decode_checked(bytes),
            Self::Iso2022 => asian::iso_2022(bytes),
            Self::Hz => asian::hz(bytes),
            Self::Johab => asian::johab(bytes),
            Self::Page(upper) => (page(bytes, upper), false),
        }
    }
}

/// Decodes bytes of no declared charset. Also returns whether they are not ASCII.
pub(in crate::message) fn guessed(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), !text.is_ascii()),
        Err(_) => (Charset::Windows1252.decode(bytes), true),
    }
}

/// Decodes the bytes of a header field: as UTF-8 if they are valid; else as the charset that the
/// header names for the body, if all bytes belong to it; else as windows-1252.
pub(in crate::message) fn of_header(bytes: &[u8], declared: Option<CharsetCodec>) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let declared = declared.map(|coding| coding.decode(bytes)).filter(|(_, is_broken)| !is_broken);
    declared.map_or_else(|| guessed(bytes).0, |(text, _)| text)
}

fn page<'b>(bytes: &'b [u8], upper: &str) -> Cow<'b, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && text.is_ascii()
    {
        return Cow::Borrowed(text);
    }
    let upper: Vec<char> = upper.chars().collect();
    let decode_byte = |byte: &u8| match byte.checked_sub(0x80) {
        None => char::from(*byte),
        Some(at) => upper.get(usize::from(at)).copied().unwrap_or(char::REPLACEMENT_CHARACTER),
    };
    Cow::Owned(bytes.iter().map(decode_byte).collect())
}

#[cfg(test)]
mod tests;
