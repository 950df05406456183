//! Texts on one line, for values of header fields and for rows that people read.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// The text on one line: each run of controls and white space becomes one space, and none stands at
/// either end.
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

/// The words between controls and white space.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty())
}

/// The text in NFC.
pub(super) fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

/// The text without controls, for a value in which every blank counts, as in an address: `"a
/// b"@example.org`.
#[must_use]
pub fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
