//! Puts texts on one line, splits them into words, composes characters (NFC), and removes controls.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// Returns the text on one line: each run of controls and white space becomes one space, and the
/// ends are trimmed.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in words(text) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// The words of a text, which white space and controls separate.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| match c {
        '\0'..=' ' | '\x7f' => true,
        '!'..='~' => false,
        c => c.is_whitespace() || c.is_control(),
    };
    text.split(is_between).filter(|word| !word.is_empty())
}

/// Returns the text in NFC.
pub(super) fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

/// Returns the text without controls. For values in which every blank counts, such as the address
/// `"a b"@example.org`.
#[must_use]
pub fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
