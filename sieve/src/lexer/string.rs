//! The values of string tokens.

use super::{Token, TokenKind};
use crate::span::Span;

/// Returns the value of a string token: escapes and dot-stuffing are undone, and line ends are
/// CR LF whatever they are in the source (RFC 5228 §2.4.2). Bytes that are not UTF-8 become
/// U+FFFD.
pub(crate) fn string_value(source: &[u8], token: Token) -> String {
    let mut value = Vec::with_capacity(token.span.len() as usize);
    decode(source, token, &mut |_, piece| value.extend_from_slice(piece));
    String::from_utf8(value)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Finds the place in the source of bytes of the value of a string.
pub(crate) struct StringMap {
    token: Token,
    /// The offset in the value and the offset in the source at which each piece begins, ascending.
    pieces: Vec<(usize, usize)>,
}

impl StringMap {
    pub(crate) fn new(source: &[u8], token: Token) -> Self {
        let mut pieces = Vec::new();
        let mut length = 0;
        decode(source, token, &mut |start, piece| {
            if !piece.is_empty() {
                pieces.push((length, start));
            }
            length += piece.len();
        });
        Self { token, pieces }
    }

    /// Returns the span in the source of a range of the value. It covers at least one byte, unless
    /// the token ends there.
    pub(crate) fn span(&self, range: std::ops::Range<usize>) -> Span {
        let last = range.end.saturating_sub(1).max(range.start);
        let end = self.offset(last).saturating_add(1).min(self.token.span.end as usize);
        Span::of_range(self.offset(range.start)..end)
    }

    /// Returns the offset in the source of the byte at an offset in the value.
    fn offset(&self, offset: usize) -> usize {
        let index = self.pieces.partition_point(|(from, _)| *from <= offset).saturating_sub(1);
        let (from, start) =
            self.pieces.get(index).copied().unwrap_or((0, self.token.span.start as usize));
        (start + offset.saturating_sub(from)).min(self.token.span.end as usize)
    }
}

/// Calls a function with each piece of the value of a string, and the offset of the piece in the
/// source. A piece is a part of the value that stands as it is in the source, or a line end.
fn decode(source: &[u8], token: Token, emit: &mut dyn FnMut(usize, &[u8])) {
    let start = token.span.start as usize;
    let bytes = token.span.of(source);
    if token.kind == TokenKind::Quoted {
        let body = bytes.strip_prefix(b"\"").unwrap_or(bytes);
        let body = match token.defect {
            None => body.strip_suffix(b"\"").unwrap_or(body),
            Some(_) => body,
        };
        decode_quoted(body, start + 1, emit);
        return;
    }
    // The value begins on the line after `text:`.
    let head = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
    let mut position = head;
    while position < bytes.len() {
        let rest = bytes.get(position..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let line = rest.get(..length).unwrap_or_default();
        if position + length == bytes.len() && line == b"." {
            return;
        }
        let stuffed = usize::from(line.starts_with(b".."));
        emit_lines(line.get(stuffed..).unwrap_or_default(), start + position + stuffed, emit);
        position += length;
    }
}

fn decode_quoted(body: &[u8], start: usize, emit: &mut dyn FnMut(usize, &[u8])) {
    let mut position = 0;
    while position < body.len() {
        let rest = body.get(position..).unwrap_or_default();
        let length = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
        emit_lines(rest.get(..length).unwrap_or_default(), start + position, emit);
        position += length + 1;
        // The backslash itself is left out. A backslash or a quotation mark after it is emitted
        // here: the backslash must not be read as the beginning of another escape.
        if let Some(escaped @ (b'\\' | b'"')) = body.get(position) {
            emit(start + position, &[*escaped]);
            position += 1;
        }
    }
}

/// Emits a text with CR LF as its line ends.
fn emit_lines(text: &[u8], start: usize, emit: &mut dyn FnMut(usize, &[u8])) {
    let mut position = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        let line = text.get(position..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        emit(start + position, line);
        emit(start + position + line.len(), b"\r\n");
        position = end + 1;
    }
    emit(start + position, text.get(position..).unwrap_or_default());
}
