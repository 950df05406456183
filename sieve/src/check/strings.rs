//! Strings: escapes, encoded characters (RFC 5228 §2.4.2.4), and variables (RFC 5229 §3).

use super::variables::{Name, split_name};
use super::{Checker, excerpt};
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::Extension;
use crate::ir::{Segment, StringExpr};
use crate::lexer::{StringMap, Token, TokenKind, string_value};
use crate::parser::Argument;
use crate::span::Span;

/// A string of the tree with its token.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) expr: StringExpr,
    pub(super) token: Token,
}

/// Stands for a string with an error, which was reported. It is no constant, so that it is not
/// checked further; the tree is dropped.
const UNKNOWN: StringExpr = StringExpr::Template(Vec::new());

impl Text {
    /// Returns the string if it has neither variables nor an error.
    pub(super) fn constant(&self) -> Option<&str> {
        self.expr.as_constant()
    }

    pub(super) const fn span(&self) -> Span {
        self.token.span
    }
}

/// Returns the strings of the tree.
pub(super) fn exprs(texts: Vec<Text>) -> Vec<StringExpr> {
    texts.into_iter().map(|text| text.expr).collect()
}

/// Returns the string of the tree. If it is absent, that was reported, and the tree is dropped, or
/// else the caller does not use the result.
pub(super) fn expr(text: Option<Text>) -> StringExpr {
    text.map_or_else(|| "".into(), |text| text.expr)
}

impl Checker<'_> {
    /// Returns the value of a string before anything in it is expanded.
    pub(super) fn raw(&self, token: Token) -> String {
        string_value(self.source, token)
    }

    /// Returns whether a string has an error that is reported already: what it was meant to be is
    /// not known, so it is not judged further.
    pub(super) fn is_broken(&self, token: Token) -> bool {
        let bytes = token.span.of(self.source);
        token.defect.is_some()
            || memchr::memchr(0, bytes).is_some()
            || str::from_utf8(bytes).is_err()
    }

    /// Reads a string, within the limit of strings.
    pub(super) fn text(&mut self, token: Token) -> Text {
        self.text_within(token, self.options.limits.string)
    }

    /// Reads a string that may have at most `limit` bytes: escapes and encoded characters are
    /// processed, and variables are resolved, if the extensions for these are in effect.
    pub(super) fn text_within(&mut self, token: Token, limit: u32) -> Text {
        if self.is_broken(token) {
            return Text { expr: UNKNOWN, token };
        }
        self.check_backslashes(token);
        let value = string_value(self.source, token);
        if value.len() > limit as usize {
            let message = format!("the string has more than {limit} bytes");
            self.complain(Code::StringTooLong, token.span, message);
            return Text { expr: UNKNOWN, token };
        }
        let extensions = self.flow.extensions;
        let decoded = match extensions.contains(Extension::EncodedCharacter) {
            true => self.decode_characters(&value, token),
            false => Some(None),
        };
        let Some(decoded) = decoded else { return Text { expr: UNKNOWN, token } };
        let is_moved = decoded.is_some();
        let value = decoded.unwrap_or(value);
        let expr = match extensions.contains(Extension::Variables) {
            true => self.expand(value, token, is_moved),
            false => StringExpr::Constant(value),
        };
        Text { expr, token }
    }

    pub(super) fn texts(&mut self, tokens: &[Token]) -> Vec<Text> {
        tokens.iter().map(|&token| self.text(token)).collect()
    }

    /// Reads the string of an argument that is one string. `None` if the argument is absent.
    pub(super) fn argument(&mut self, argument: Option<&Argument>) -> Option<Text> {
        let &token = argument?.strings().first()?;
        Some(self.text(token))
    }

    /// Reads a string that must not have variables. `None` if it has some, which is reported, or
    /// another error. `what` is what the string is, for the message.
    pub(super) fn constant_string(&mut self, token: Token, what: &str) -> Option<String> {
        match self.text(token).expr {
            StringExpr::Constant(text) => Some(text),
            // It is `UNKNOWN`.
            StringExpr::Template(segments) if segments.is_empty() => None,
            StringExpr::Template(_) => {
                let message = format!("{what} must not contain variables");
                self.complain(Code::NotConstant, token.span, message);
                None
            }
        }
    }

    /// Does what [`Self::constant_string`] does for an argument that is one string, and returns its
    /// span too.
    pub(super) fn constant_argument(
        &mut self,
        argument: Option<&Argument>,
        what: &str,
    ) -> Option<(String, Span)> {
        let &token = argument?.strings().first()?;
        Some((self.constant_string(token, what)?, token.span))
    }

    /// Warns of the first backslash in a quoted string that stands neither before a quotation mark
    /// nor before another backslash: it has no effect. One before a control character gets no
    /// warning.
    fn check_backslashes(&mut self, token: Token) {
        if token.kind != TokenKind::Quoted {
            return;
        }
        let bytes = token.span.of(self.source);
        let mut position = 0;
        while let Some(found) = memchr::memchr(b'\\', bytes.get(position..).unwrap_or_default()) {
            position += found;
            match bytes.get(position + 1) {
                Some(b'"' | b'\\') => position += 2,
                Some(_) => break,
                None => return,
            }
        }
        let Some(rest) = bytes.get(position + 1..).filter(|_| bytes.get(position) == Some(&b'\\'))
        else {
            return;
        };
        // A character has at most four bytes.
        let text = String::from_utf8_lossy(rest.get(..rest.len().min(4)).unwrap_or_default());
        let Some(next) = text.chars().next().filter(|c| !c.is_control()) else { return };
        let start = token.span.start as usize + position;
        let message = format!("the backslash before `{next}` is lost");
        let diagnostic = Diagnostic::new(
            Code::LostBackslash,
            Span::of_range(start..start + 1 + next.len_utf8()),
            message,
        );
        self.report(diagnostic.with_help(format!("write `\\\\{next}` for a backslash")));
    }

    /// Decodes `${hex:…}` and `${unicode:…}`. Returns `Some(None)` if there is nothing to decode,
    /// and `None` after an error.
    fn decode_characters(&mut self, value: &str, token: Token) -> Option<Option<String>> {
        let mut out: Vec<u8> = Vec::new();
        // `out` has the part of `value` before this offset.
        let mut taken = 0;
        let mut map = None;
        let mut is_valid = true;
        for start in memchr::memmem::find_iter(value.as_bytes(), "${") {
            let body = value.get(start + 2..).unwrap_or_default();
            let Some((is_hex, digits)) = encoded_kind(body) else { continue };
            self.note_use(Extension::EncodedCharacter);
            let length = digits
                .bytes()
                .position(|byte| !byte.is_ascii_hexdigit() && !is_blank(byte))
                .unwrap_or(digits.len());
            let words = digits.get(..length).unwrap_or_default();
            // After the brace, or after the character that stands in its place.
            let end = value.len() - digits.len() + length + 1;
            let map = map.get_or_insert_with(|| StringMap::new(self.source, token));
            let span = map.span(start..end);
            let decoded = match digits.as_bytes().get(length) {
                Some(b'}') => self.decode_words(words, is_hex, span, &mut is_valid),
                _ => None,
            };
            let Some(decoded) = decoded else {
                let shown = excerpt(&String::from_utf8_lossy(span.of(self.source)));
                let message = format!("`{shown}` is not decoded");
                self.complain(Code::UndecodedEncodedCharacter, span, message);
                continue;
            };
            out.extend_from_slice(value.get(taken..start).unwrap_or_default().as_bytes());
            out.extend_from_slice(&decoded);
            taken = end;
        }
        if !is_valid {
            return None;
        }
        if taken == 0 {
            return Some(None);
        }
        out.extend_from_slice(value.get(taken..).unwrap_or_default().as_bytes());
        match String::from_utf8(out) {
            Ok(text) => Some(Some(text)),
            Err(_) => {
                let message = "the bytes of `${hex:}` make no UTF-8 text";
                self.complain(Code::EncodedBytesNotUtf8, token.span, message);
                None
            }
        }
    }

    /// Decodes words of hexadecimal digits: with `is_hex` bytes, or else numbers of characters.
    /// Returns `None` if they have not the right form, which is no error. A number that is of no
    /// character is reported at `span`, and makes `is_valid` false.
    fn decode_words(
        &mut self,
        words: &str,
        is_hex: bool,
        span: Span,
        is_valid: &mut bool,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut is_empty = true;
        for word in words.split(|c: char| c.is_ascii_whitespace()).filter(|word| !word.is_empty()) {
            is_empty = false;
            if is_hex {
                let byte = u8::from_str_radix(word, 16).ok().filter(|_| word.len() <= 2)?;
                out.push(byte);
                continue;
            }
            let number = u32::from_str_radix(word, 16).ok();
            let Some(c) = number.and_then(char::from_u32) else {
                let message = format!("`{}` is the number of no character", excerpt(word));
                self.complain(Code::BadEncodedCharacter, span, message);
                *is_valid = false;
                continue;
            };
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        (!is_empty).then_some(out)
    }

    /// Resolves references to variables. `is_moved` says that encoded characters were decoded. Then
    /// offsets in the value cannot be found in the source, and reports are about the whole token.
    fn expand(&mut self, value: String, token: Token, is_moved: bool) -> StringExpr {
        let mut segments = Vec::new();
        let mut literal = String::new();
        // `segments` and `literal` have the part of `value` before this offset.
        let mut taken = 0;
        let mut map = None;
        for start in memchr::memmem::find_iter(value.as_bytes(), "${") {
            let body = value.get(start + 2..).unwrap_or_default();
            let length = body
                .bytes()
                .position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_' && byte != b'.')
                .unwrap_or(body.len());
            let is_closed = body.as_bytes().get(length) == Some(&b'}');
            let name = body.get(..length).filter(|_| is_closed).and_then(split_name);
            let Some(name) = name else { continue };
            self.note_use(Extension::Variables);
            let end = start + 2 + length + 1;
            let span = match is_moved {
                true => token.span,
                false => {
                    map.get_or_insert_with(|| StringMap::new(self.source, token)).span(start..end)
                }
            };
            literal.push_str(value.get(taken..start).unwrap_or_default());
            taken = end;
            let Some(segment) = self.reference(&name, span) else { continue };
            if !literal.is_empty() {
                segments.push(Segment::Literal(std::mem::take(&mut literal)));
            }
            segments.push(segment);
        }
        if taken == 0 {
            return StringExpr::Constant(value);
        }
        literal.push_str(value.get(taken..).unwrap_or_default());
        if !literal.is_empty() {
            segments.push(Segment::Literal(literal));
        }
        StringExpr::Template(segments)
    }

    /// Resolves one reference at `span`. `None` after an error.
    fn reference(&mut self, name: &Name<'_>, span: Span) -> Option<Segment> {
        let id = match name {
            Name::Capture(digits) => {
                let limit = self.options.limits.capture;
                let number = digits.trim_start_matches('0');
                let number = if number.is_empty() { Ok(0) } else { number.parse::<u16>() };
                let number = number.ok().filter(|&number| number <= limit);
                if number.is_none() {
                    let message =
                        format!("`${{{}}}` exceeds the highest number {limit}", excerpt(digits));
                    self.complain(Code::MatchIndexTooLarge, span, message);
                }
                return number.map(Segment::Capture);
            }
            Name::Plain(name) => self.plain_variable(name, span),
            Name::InNamespace(namespace, name) => self.namespace_variable(namespace, name, span),
        }?;
        self.note_read(id, span);
        Some(Segment::Variable(id))
    }
}

/// Returns whether the text after `${` begins with `hex:`, or else with `unicode:`, and what
/// follows. `None` if it begins with neither.
fn encoded_kind(body: &str) -> Option<(bool, &str)> {
    let after = |name: &str| {
        let head = body.get(..name.len())?;
        head.eq_ignore_ascii_case(name).then(|| body.get(name.len()..).unwrap_or_default())
    };
    after("hex:").map(|rest| (true, rest)).or_else(|| after("unicode:").map(|rest| (false, rest)))
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
