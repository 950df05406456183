//! Positions in the source of a script.
//!
//! - A [`Span`] counts bytes.
//! - A [`LineIndex`] turns a byte offset into a line and a column, which count from 1.
//! - A line ends with LF or CR LF.
//! - A column counts characters. A byte that is not UTF-8 counts as a character. The bytes of a
//!   character that is cut off count together as one.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A range of bytes of a script, from `start` up to but not including `end`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// Makes the span from `start` up to `end`. An `end` before the start makes an empty span.
    #[must_use]
    pub const fn new(start: u32, end: u32) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }

    /// Returns the empty span at an offset.
    #[must_use]
    pub const fn at(offset: u32) -> Self {
        Self { start: offset, end: offset }
    }

    /// Makes a span of offsets in a slice. Offsets beyond `u32::MAX` become `u32::MAX`.
    #[must_use]
    pub fn of_range(range: Range<usize>) -> Self {
        let offset = |value| u32::try_from(value).unwrap_or(u32::MAX);
        Self::new(offset(range.start), offset(range.end))
    }

    /// Returns the shortest span that covers both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    #[must_use]
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes that the span covers; those beyond the end of the source are left out.
    #[must_use]
    pub fn of(self, source: &[u8]) -> &[u8] {
        let end = (self.end as usize).min(source.len());
        source.get((self.start as usize).min(end)..end).unwrap_or_default()
    }
}

/// A line and a column, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

/// The starts of the lines of a source.
///
/// ```
/// use restante_sieve::{LineIndex, Position};
///
/// let source = b"keep;\nstop;\n";
/// let index = LineIndex::new(source);
/// assert_eq!(index.position(8), Position { line: 2, column: 3 });
/// assert_eq!(index.line(2).of(source), b"stop;");
/// ```
#[derive(Debug, Clone)]
pub struct LineIndex<'a> {
    source: &'a [u8],
    /// In bytes, ascending. The first is 0.
    starts: Vec<u32>,
}

impl<'a> LineIndex<'a> {
    #[must_use]
    pub fn new(source: &'a [u8]) -> Self {
        let after = |end: usize| u32::try_from(end.saturating_add(1)).unwrap_or(u32::MAX);
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', source).map(after));
        Self { source, starts: starts.collect() }
    }

    /// Returns the position of a byte. An offset beyond the end is the position after the last
    /// character.
    #[must_use]
    pub fn position(&self, offset: u32) -> Position {
        let offset = offset.min(u32::try_from(self.source.len()).unwrap_or(u32::MAX));
        let index = self.starts.partition_point(|&start| start <= offset).saturating_sub(1);
        let start = self.starts.get(index).copied().unwrap_or(0);
        let before = String::from_utf8_lossy(Span::new(start, offset).of(self.source));
        let column = before.chars().count().saturating_add(1);
        Position {
            line: u32::try_from(index.saturating_add(1)).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    /// Returns the span of a line, counted from 1, without its line end. A line after the last one
    /// is the empty span at the end of the source.
    #[must_use]
    pub fn line(&self, line: u32) -> Span {
        let index = (line as usize).saturating_sub(1);
        let length = u32::try_from(self.source.len()).unwrap_or(u32::MAX);
        let start = self.starts.get(index).copied().unwrap_or(length);
        let end = self.starts.get(index.saturating_add(1)).copied().unwrap_or(length);
        let bytes = Span::new(start, end).of(self.source);
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        Span::new(start, start.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX)))
    }

    #[must_use]
    pub const fn source(&self) -> &'a [u8] {
        self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_and_lines_from_one() {
        let source = "keep;\r\n\u{e4}\u{f6} stop;\n".as_bytes();
        let index = LineIndex::new(source);
        let at = |offset| {
            let Position { line, column } = index.position(offset);
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(4), (1, 5));
        assert_eq!(at(7), (2, 1));
        assert_eq!(at(9), (2, 2));
        assert_eq!(at(12), (2, 4));
        assert_eq!(at(18), (3, 1));
        assert_eq!(at(999), (3, 1));
        assert_eq!(index.line(1).of(source), b"keep;");
        assert_eq!(index.line(2).of(source), "\u{e4}\u{f6} stop;".as_bytes());
        assert!(index.line(3).is_empty());
        assert!(index.line(99).is_empty());
    }

    #[test]
    fn invalid_utf8_counts_as_one_character_a_byte() {
        let index = LineIndex::new(b"\xff\xffx");
        assert_eq!(index.position(2).column, 3);
    }

    #[test]
    fn spans_never_reach_beyond_the_source() {
        assert_eq!(Span::new(2, 9).of(b"abc"), b"c");
        assert_eq!(Span::new(7, 9).of(b"abc"), b"");
    }

    #[test]
    fn a_span_never_ends_before_its_start() {
        assert_eq!(Span::new(5, 2), Span::at(5));
    }

    #[test]
    fn joined_spans_cover_what_is_between_them() {
        assert_eq!(Span::new(1, 2).join(Span::new(5, 6)), Span::new(1, 6));
    }
}
