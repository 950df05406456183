//! Bytes in a charset to text (RFC 2045 §5.1, RFC 2047 §2).
//!
//! The library decodes the single-byte, Unicode and EUC charsets. Decoded here are those that it
//! turns into a single U+FFFD or does not know: all of ISO-2022 (also the Japanese one: two escapes
//! in a row mean nothing and are no error), HZ, Johab and the code pages of DOS.
//!
//! `us-ascii`, and a text that names no charset, is read as UTF-8 where it is valid UTF-8 and else
//! as windows-1252. Bytes that are not ASCII in such a text are reported as a problem all the same.

mod asian;
mod pages;

use std::borrow::Cow;

use mail_parser::Charset;

/// Bytes of the name of a charset; a longer one is not known.
const MAX_LABEL_BYTES: usize = 64;

/// A charset that text can be decoded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::message) enum CharsetCodec {
    /// `us-ascii`, and what names no charset.
    Ascii,
    /// One that the library decodes.
    Library(Charset),
    /// The ISO-2022 family; which sets are used is said by escapes.
    Iso2022,
    /// RFC 1843.
    Hz,
    /// KS X 1001 annex 3.
    Johab,
    /// ASCII below 80, and these characters from there on.
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
    /// The charset of a name; `None` of one that nobody here knows.
    pub(in crate::message) fn of_label(label: &str) -> Option<Self> {
        let label = label.trim().trim_matches(['"', '\'']).trim();
        if label.len() > MAX_LABEL_BYTES {
            return None;
        }
        let name = label.to_ascii_lowercase().replace('_', "-");
        let among = |names: &[&str]| names.contains(&name.as_str());
        if among(&ASCII) {
            return Some(Self::Ascii);
        }
        if name.starts_with("iso-2022-")
            || name.starts_with("csiso2022")
            || among(&["cp50220", "cp50221", "cp50222"])
        {
            return Some(Self::Iso2022);
        }
        if among(&["hz-gb-2312", "hz", "hz-gb2312", "cshzgb2312"]) {
            return Some(Self::Hz);
        }
        if among(&["johab", "cp1361", "ms1361", "ksc5601-1992", "x-johab"]) {
            return Some(Self::Johab);
        }
        if among(&SHIFT_JIS) {
            return Some(Self::Library(Charset::ShiftJis));
        }
        if among(&UTF7) {
            return Some(Self::Library(Charset::Utf7));
        }
        let number = ["cp", "ibm", "ibm-", "cp-", "cspc", "dos-", "oem-", "cp00", "ibm00", ""];
        let page =
            number.iter().filter_map(|before| name.strip_prefix(before)).find_map(|number| {
                let number = number.strip_suffix("latinus").map_or(number, |_| "437");
                PAGES.iter().find(|(known, _)| *known == number).map(|(_, page)| Self::Page(page))
            });
        page.or_else(|| match Charset::from_label(label.as_bytes())? {
            Charset::Replacement => None,
            known => Some(Self::Library(known)),
        })
    }

    /// Whether what a byte means depends on those before it, so that each encoded word must be
    /// decoded by itself.
    pub(super) fn is_stateful(self) -> bool {
        matches!(self, Self::Iso2022 | Self::Hz | Self::Library(Charset::Utf7 | Charset::Utf16))
    }

    /// The text, and whether bytes of it do not belong to the charset.
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

/// Bytes of which nobody says the charset: UTF-8 if they are valid, else windows-1252; and whether
/// they are not ASCII.
pub(in crate::message) fn guessed(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), !text.is_ascii()),
        Err(_) => (Charset::Windows1252.decode(bytes), true),
    }
}

/// The bytes of a header field: UTF-8 if they are valid, for hardly any other text is by chance;
/// else the charset that the header names for the body, if all bytes belong to it; else
/// windows-1252.
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
    let of = |byte: &u8| match byte.checked_sub(0x80) {
        None => char::from(*byte),
        Some(at) => upper.get(usize::from(at)).copied().unwrap_or(char::REPLACEMENT_CHARACTER),
    };
    Cow::Owned(bytes.iter().map(of).collect())
}

#[cfg(test)]
mod tests;
