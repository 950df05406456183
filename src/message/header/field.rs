//! One header field, and the forms in which its value is read.

use std::borrow::Cow;

use super::folded;
use crate::message::line::{composed, one_line};
use crate::message::parse::{self, CharsetCodec};
use crate::model::limits;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'a [u8],
    /// The bytes after the colon, with the line end.
    pub value: &'a [u8],
    /// The charset that the header names for the body; set only if the value is not UTF-8.
    pub(super) declared: Option<CharsetCodec>,
}

impl<'a> Field<'a> {
    /// Makes a field that is not part of a header, so no charset of a body is known for its value.
    #[must_use]
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, declared: None }
    }

    /// Returns the unfolded value, up to `limits::MAX_FIELD_BYTES`. A value that is not UTF-8 is
    /// decoded from the charset of the body if all bytes belong to it, or else from windows-1252.
    #[must_use]
    pub fn readable(&self) -> Cow<'a, str> {
        parse::readable(self.value, self.declared)
    }

    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns the value of `readable` without white space at its ends.
    #[must_use]
    pub fn unfolded(&self) -> String {
        self.readable().trim().to_owned()
    }

    /// Returns the value without comments (RFC 5322 §3.2.2).
    #[must_use]
    pub fn without_comments(&self) -> String {
        let text = self.unfolded();
        let mut out = String::with_capacity(text.len());
        let (mut depth, mut quoted) = (0usize, false);
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => {
                    let pair = chars.next();
                    if depth == 0 {
                        out.push(c);
                        out.extend(pair);
                    }
                }
                '"' if depth == 0 => {
                    quoted = !quoted;
                    out.push(c);
                }
                '(' if !quoted => depth = depth.saturating_add(1),
                ')' if !quoted && depth > 0 => depth = depth.saturating_sub(1),
                _ if depth == 0 => out.push(c),
                _ => {}
            }
        }
        out.trim().to_owned()
    }

    /// Returns the value as people read it: encoded words decoded (RFC 2047), on one line, in NFC.
    #[must_use]
    pub fn decoded(&self) -> String {
        one_line(&composed(&parse::text(self.readable().as_bytes())))
    }

    /// Appends `decoded` in the form in which values are compared (`header::folded`).
    pub fn push_folded(&self, out: &mut String) {
        // In plain ASCII nothing is decoded, so this gives the same text faster.
        let is_plain = self.value.len() <= limits::MAX_FIELD_BYTES
            && self.value.is_ascii()
            && memchr::memmem::find(self.value, b"=?").is_none();
        if !is_plain {
            out.push_str(&folded(&self.decoded()));
            return;
        }
        let start = out.len();
        let mut is_after_space = false;
        for byte in self.value {
            match byte {
                b' ' | b'\t' => is_after_space = out.len() > start,
                byte if byte.is_ascii_control() => {}
                byte => {
                    if std::mem::take(&mut is_after_space) {
                        out.push(' ');
                    }
                    out.push(char::from(byte.to_ascii_lowercase()));
                }
            }
        }
    }
}
