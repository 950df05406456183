//! Splits a script into tokens (RFC 5228 §8.1).
//!
//! - The spans of the tokens cover the source: each begins where the one before it ends. Blanks and
//!   comments are tokens too.
//! - No error ends the reading: a malformed token has a defect, and the kind that it was probably
//!   meant to be.
//! - Every byte is read a bounded number of times.

mod string;
#[cfg(test)]
mod tests;

pub(crate) use string::{StringMap, string_value};

use crate::diagnostic::Code;
use crate::span::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Identifier,
    /// With its colon.
    Tag,
    /// The value, multiplied by its K, M or G. 0 if the number has a defect.
    Number(u64),
    /// A string in quotation marks.
    Quoted,
    /// `text:` up to the line with the single dot.
    MultiLine,
    Semicolon,
    Comma,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    LeftBracket,
    RightBracket,
    Blank,
    /// `#` up to the end of the line.
    LineComment,
    BlockComment,
    /// Characters that begin no token.
    Unknown,
    /// The end of the source, which the parser sees after the last token.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
    /// What is wrong with the token, if anything. NUL and bytes that are not UTF-8 are no defects
    /// here: `check_bytes` reports them.
    pub(crate) defect: Option<Code>,
}

impl Token {
    /// Returns whether the token is a blank or a comment.
    pub(crate) const fn is_trivia(self) -> bool {
        matches!(self.kind, TokenKind::Blank | TokenKind::LineComment | TokenKind::BlockComment)
    }
}

/// An iterator over the tokens of a source.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    /// The offset at which the next token begins.
    position: usize,
    /// Whether a quoted string without an end was found. Then the rest of the source is not
    /// searched again for the end of a string, so that the work stays linear.
    is_unterminated: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) const fn new(source: &'a [u8]) -> Self {
        Self { source, position: 0, is_unterminated: false }
    }

    fn rest(&self) -> &'a [u8] {
        self.source.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Moves over the bytes that satisfy a condition, and returns them.
    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let length = rest.iter().position(|&byte| !accept(byte)).unwrap_or(rest.len());
        self.position += length;
        rest.get(..length).unwrap_or_default()
    }

    /// Moves to the end of the line, before its LF.
    fn skip_line(&mut self) {
        let rest = self.rest();
        self.position += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    /// Reads digits and the letters after them, of which only one K, M or G is right.
    fn number(&mut self) -> (TokenKind, Option<Code>) {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let suffix = self.take_while(is_identifier_byte);
        let shift = match suffix {
            [] => 0,
            [b'k' | b'K'] => 10,
            [b'm' | b'M'] => 20,
            [b'g' | b'G'] => 30,
            _ => return (TokenKind::Number(0), Some(Code::BadNumber)),
        };
        let value = digits.iter().try_fold(0_u64, |value, digit| {
            value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        match value.and_then(|value| value.checked_mul(1 << shift)) {
            Some(value) => (TokenKind::Number(value), None),
            None => (TokenKind::Number(0), Some(Code::NumberTooLarge)),
        }
    }

    /// Reads a string from its opening quotation mark. One without an end is taken to end with its
    /// line, so that the lines after it are read as well.
    fn quoted(&mut self) -> (TokenKind, Option<Code>) {
        if !self.is_unterminated {
            let mut from = self.position + 1;
            while let Some(found) =
                memchr::memchr2(b'"', b'\\', self.source.get(from..).unwrap_or_default())
            {
                if self.source.get(from + found) == Some(&b'"') {
                    self.position = from + found + 1;
                    return (TokenKind::Quoted, None);
                }
                from = (from + found + 2).min(self.source.len());
            }
            self.is_unterminated = true;
        }
        self.position += 1;
        self.skip_line();
        if self.source.get(self.position.saturating_sub(1)) == Some(&b'\r') {
            self.position -= 1;
        }
        (TokenKind::Quoted, Some(Code::UnterminatedString))
    }

    /// Reads the rest of `text:` after its colon, with the line that has only a dot.
    fn multi_line(&mut self) -> (TokenKind, Option<Code>) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
        let rest = self.rest();
        let is_line_end = rest.is_empty() || rest.starts_with(b"\n") || rest.starts_with(b"\r\n");
        let defect = match is_line_end || rest.starts_with(b"#") {
            true => None,
            false => Some(Code::TextNotAtLineEnd),
        };
        self.skip_line();
        loop {
            if self.position >= self.source.len() {
                return (TokenKind::MultiLine, defect.or(Some(Code::UnterminatedText)));
            }
            self.position += 1;
            let rest = self.rest();
            if let Some(after) = rest.strip_prefix(b".")
                && (after.is_empty() || after.starts_with(b"\n") || after.starts_with(b"\r\n"))
            {
                self.position += 1;
                return (TokenKind::MultiLine, defect);
            }
            self.skip_line();
        }
    }

    fn block_comment(&mut self) -> (TokenKind, Option<Code>) {
        let body = self.source.get(self.position + 2..).unwrap_or_default();
        match memchr::memmem::find(body, b"*/") {
            Some(end) => {
                self.position += end + 4;
                (TokenKind::BlockComment, None)
            }
            None => {
                self.position = self.source.len();
                (TokenKind::BlockComment, Some(Code::UnterminatedComment))
            }
        }
    }

    fn identifier(&mut self) -> (TokenKind, Option<Code>) {
        let name = self.take_while(is_identifier_byte);
        if name.eq_ignore_ascii_case(b"text") && self.peek() == Some(b':') {
            self.position += 1;
            return self.multi_line();
        }
        (TokenKind::Identifier, None)
    }

    /// Reads characters that begin no token, or a `/` that begins no comment.
    fn unknown(&mut self) -> (TokenKind, Option<Code>) {
        let bytes = self.take_while(|byte| !begins_token(byte));
        if bytes.is_empty() {
            // The `/` could have begun a comment, so that `take_while` did not take it.
            self.position += 1;
        }
        let is_text = str::from_utf8(bytes).is_ok() && !bytes.contains(&0);
        (TokenKind::Unknown, is_text.then_some(Code::UnexpectedCharacter))
    }

    fn symbol(&mut self, kind: TokenKind) -> (TokenKind, Option<Code>) {
        self.position += 1;
        (kind, None)
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let start = self.position;
        let (kind, defect) = match self.peek()? {
            b';' => self.symbol(TokenKind::Semicolon),
            b',' => self.symbol(TokenKind::Comma),
            b'{' => self.symbol(TokenKind::LeftBrace),
            b'}' => self.symbol(TokenKind::RightBrace),
            b'(' => self.symbol(TokenKind::LeftParen),
            b')' => self.symbol(TokenKind::RightParen),
            b'[' => self.symbol(TokenKind::LeftBracket),
            b']' => self.symbol(TokenKind::RightBracket),
            b'"' => self.quoted(),
            b'#' => {
                self.skip_line();
                (TokenKind::LineComment, None)
            }
            b'/' if self.rest().starts_with(b"/*") => self.block_comment(),
            b':' => {
                self.position += 1;
                let is_named = self.peek().is_some_and(is_identifier_start);
                self.take_while(|byte| is_named && is_identifier_byte(byte));
                (TokenKind::Tag, (!is_named).then_some(Code::EmptyTag))
            }
            byte if is_blank(byte) => {
                self.take_while(is_blank);
                (TokenKind::Blank, None)
            }
            byte if byte.is_ascii_digit() => self.number(),
            byte if is_identifier_start(byte) => self.identifier(),
            _ => self.unknown(),
        };
        Some(Token { kind, span: Span::of_range(start..self.position), defect })
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

const fn is_identifier_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

const fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

const fn begins_token(byte: u8) -> bool {
    is_blank(byte)
        || is_identifier_byte(byte)
        || matches!(
            byte,
            b';' | b',' | b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'"' | b'#' | b'/' | b':'
        )
}
