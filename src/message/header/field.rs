//! One field of a header, and the forms in which its value is read.

use std::borrow::Cow;

use crate::message::line::{composed, one_line};
use crate::message::parse::{self, CharsetCodec};

/// One header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name as written.
    pub name: &'a [u8],
    /// What follows the colon, to the end of the last folded line, line end included.
    pub value: &'a [u8],
    /// The charset that the header names for the body; known of values that are not UTF-8.
    pub(super) declared: Option<CharsetCodec>,
}

impl<'a> Field<'a> {
    /// A field that is not part of a header.
    #[must_use]
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, declared: None }
    }

    /// Its value as characters, unfolded, as far as it is parsed (`limits::MAX_FIELD_BYTES`). Bytes
    /// that are no UTF-8 are in the charset that the header names for the body, or in windows-1252.
    #[must_use]
    pub fn readable(&self) -> Cow<'a, str> {
        parse::readable(self.value, self.declared)
    }

    /// Whether it has that name, in any case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Its value as characters, unfolded and trimmed.
    #[must_use]
    pub fn unfolded(&self) -> String {
        self.readable().trim().to_owned()
    }

    /// Its value without comments (RFC 5322 §3.2.2), which may nest and hold quoted pairs; a quoted
    /// string keeps its brackets.
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

    /// Its value as people read it: encoded words decoded (RFC 2047), one line, NFC.
    #[must_use]
    pub fn decoded(&self) -> String {
        one_line(&composed(&parse::text(self.readable().as_bytes())))
    }
}
