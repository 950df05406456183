//! Decodes the content of a part (RFC 2045 §6.7, §6.8; uuencode), whole or piece by piece.
//!
//! - The result does not depend on how the content is cut into pieces, and is not longer than the
//!   content.
//! - Broken encodings are decoded as far as possible.
//! - In base64, bytes that are no symbols are skipped. After padding, which some programs write
//!   after each line or piece, what follows up to a line end is decoded if it is valid base64
//!   itself; otherwise the content ends there.
//! - A bare CR in quoted-printable is a line break; several CRs before an LF are one.
//! - A line of quoted-printable is held until it can be cut without changing its meaning, which
//!   depends on what follows white space and escapes. A line that has nothing but white space and
//!   `=` is held whole.

mod uu;

use std::borrow::Cow;

use encodify::{base64, qp};

/// From this length on, a line of quoted-printable that is held is cut where that is possible.
const MAX_HELD_LINE_BYTES: usize = 64 * 1024;
/// Longest line after padding that is decoded as base64; a longer one ends the content.
const MAX_TAIL_BYTES: usize = 1000;
/// Encoded bytes that are decoded at a time. Content that is not longer is decoded whole.
pub const DECODE_CHUNK: usize = 64 * 1024;

/// The number that stands for 7bit, 8bit, binary and any unknown encoding in `PartOffsets`. The
/// numbers of the other encodings follow.
pub const IDENTITY: u8 = 0;
pub const QUOTED_PRINTABLE: u8 = 1;
pub const BASE64: u8 = 2;
pub const UUENCODE: u8 = 3;

/// Returns the number of the transfer encoding with this name, which stands without comments (RFC
/// 2045 §6.1); `IDENTITY` for an empty name, and `None` for an encoding that is not known.
#[must_use]
pub fn encoding_named(name: &str) -> Option<u8> {
    match name.to_ascii_lowercase().as_str() {
        "" | "7bit" | "8bit" | "binary" => Some(IDENTITY),
        "quoted-printable" => Some(QUOTED_PRINTABLE),
        "base64" => Some(BASE64),
        "x-uuencode" | "uuencode" | "x-uue" | "uue" => Some(UUENCODE),
        _ => None,
    }
}

/// Decodes a whole content. Also returns whether any of it was broken. An unknown number counts as
/// `IDENTITY`.
#[must_use]
pub fn decode(encoding: u8, bytes: &[u8]) -> (Cow<'_, [u8]>, bool) {
    match encoding {
        QUOTED_PRINTABLE if !has_bare_cr(bytes) => match qp::BODY.strict().decode(bytes) {
            Ok(decoded) => (decoded, false),
            Err(_) => (qp::BODY.decode(bytes).unwrap_or(Cow::Borrowed(bytes)), true),
        },
        QUOTED_PRINTABLE | BASE64 | UUENCODE => {
            let (mut decoder, mut out) = (Decoder::new(encoding), Vec::with_capacity(bytes.len()));
            decoder.feed(bytes, &mut out);
            let is_broken = decoder.finish(&mut out);
            (Cow::Owned(out), is_broken)
        }
        _ => (Cow::Borrowed(bytes), false),
    }
}

/// Returns the length of what `decode` returns, mostly without decoding.
#[must_use]
pub fn decoded_len(encoding: u8, bytes: &[u8]) -> usize {
    let fast_length = match encoding {
        QUOTED_PRINTABLE if !has_bare_cr(bytes) => qp::BODY.decoded_len(bytes).ok(),
        BASE64 => {
            // If symbols follow the first `=`, only decoding tells the length.
            let tail =
                memchr::memchr(b'=', bytes).and_then(|at| bytes.get(at..)).unwrap_or_default();
            let is_plain = tail.iter().all(|byte| *byte == b'=' || byte.is_ascii_whitespace());
            is_plain.then(|| base64::MIME.decoded_len(bytes).ok()).flatten()
        }
        QUOTED_PRINTABLE | UUENCODE => None,
        _ => Some(bytes.len()),
    };
    fast_length.unwrap_or_else(|| {
        let (mut decoder, mut out, mut size) = (Decoder::new(encoding), Vec::new(), 0usize);
        for piece in bytes.chunks(DECODE_CHUNK) {
            decoder.feed(piece, &mut out);
            size = size.saturating_add(out.len());
            out.clear();
        }
        decoder.finish(&mut out);
        size.saturating_add(out.len())
    })
}

/// Decodes the beginning of a content: at least `wanted` bytes, or all of a shorter one. Also
/// returns whether this is known to be the whole content.
#[must_use]
pub fn decode_prefix(encoding: u8, bytes: &[u8], wanted: usize) -> (Cow<'_, [u8]>, bool) {
    if bytes.len() <= DECODE_CHUNK {
        return (decode(encoding, bytes).0, true);
    }
    if !matches!(encoding, QUOTED_PRINTABLE | BASE64 | UUENCODE) {
        return (Cow::Borrowed(bytes.get(..wanted).unwrap_or(bytes)), bytes.len() <= wanted);
    }
    let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
    for piece in bytes.chunks(DECODE_CHUNK) {
        decoder.feed(piece, &mut out);
        if out.len() > wanted {
            return (Cow::Owned(out), false);
        }
    }
    decoder.finish(&mut out);
    (Cow::Owned(out), true)
}

/// Decodes a content piece by piece: `feed` takes each piece, and `finish` ends it.
#[derive(Debug)]
pub struct Decoder {
    state: DecoderState,
    is_broken: bool,
}

#[derive(Debug)]
enum DecoderState {
    Plain,
    Quoted(QuotedPrintable),
    Base64(Base64),
    Uu(uu::Uu),
}

#[derive(Debug, Default)]
struct QuotedPrintable {
    /// What is held of the last line.
    line: Vec<u8>,
    /// How many bytes at the beginning of `line` are known to hold no place to cut it.
    searched: usize,
    /// How many CRs came last, of which it is not known yet whether LF follows.
    returns: usize,
}

#[derive(Debug)]
struct Base64 {
    symbols: base64::Decoder,
    tail: Tail,
}

/// Where the decoder is in base64.
#[derive(Debug)]
enum Tail {
    /// In symbols that no padding has ended: those of the beginning, or those that go on after a
    /// line without padding.
    Before,
    /// After padding: what has come since, up to a line end.
    Line(Vec<u8>),
    /// The rest is not base64.
    Ended,
}

impl Decoder {
    #[must_use]
    pub fn new(encoding: u8) -> Self {
        let state = match encoding {
            QUOTED_PRINTABLE => DecoderState::Quoted(QuotedPrintable::default()),
            BASE64 => {
                DecoderState::Base64(Base64 { symbols: base64::MIME.decoder(), tail: Tail::Before })
            }
            UUENCODE => DecoderState::Uu(uu::Uu::default()),
            _ => DecoderState::Plain,
        };
        Self { state, is_broken: false }
    }

    pub fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        match &mut self.state {
            DecoderState::Plain => out.extend_from_slice(piece),
            DecoderState::Quoted(quoted) => {
                quoted.push(piece);
                let cut = quoted.cut();
                self.is_broken |= decode_quoted(quoted.line.get(..cut).unwrap_or_default(), out);
                quoted.line.drain(..cut);
            }
            DecoderState::Base64(base64) => self.is_broken |= base64.feed(piece, out),
            DecoderState::Uu(uu) => uu.feed(piece, out),
        }
    }

    /// Appends the rest. Returns whether any of the content was broken.
    pub fn finish(self, out: &mut Vec<u8>) -> bool {
        self.is_broken
            | match self.state {
                DecoderState::Plain => false,
                DecoderState::Quoted(mut quoted) => {
                    quoted.end_line();
                    decode_quoted(&quoted.line, out)
                }
                DecoderState::Base64(base64) => base64.finish(out),
                DecoderState::Uu(uu) => uu.finish(out),
            }
    }
}

impl QuotedPrintable {
    /// Makes line breaks of CRs: one or more with an LF after them become CRLF, and each other CR
    /// becomes an LF.
    fn push(&mut self, piece: &[u8]) {
        for line in piece.split_inclusive(|byte| *byte == b'\r') {
            let (rest, is_return) =
                line.strip_suffix(b"\r").map_or((line, false), |rest| (rest, true));
            if let Some(first) = rest.first() {
                if *first == b'\n' {
                    self.line.extend_from_slice(if self.returns > 0 { b"\r" } else { b"" });
                    self.returns = 0;
                } else {
                    self.end_line();
                }
                self.line.extend_from_slice(rest);
            }
            self.returns = self.returns.saturating_add(usize::from(is_return));
        }
    }

    /// Returns how many of the held bytes can be decoded whatever follows. The part of a long line
    /// that has no place to cut is not searched again.
    fn cut(&mut self) -> usize {
        let found = self.cut_offset();
        if found > 0 {
            self.searched = 0;
        } else if self.line.len() >= MAX_HELD_LINE_BYTES {
            self.searched = self.line.len();
        }
        found
    }

    fn cut_offset(&self) -> usize {
        let unsearched = self.line.get(self.searched..).unwrap_or_default();
        if let Some(line) = memchr::memrchr(b'\n', unsearched) {
            return self.searched.saturating_add(line).saturating_add(1);
        }
        if self.line.len() < MAX_HELD_LINE_BYTES {
            return 0;
        }
        // The line is cut neither within an escape (`=` and two more bytes) nor after white space.
        let is_cut = |at: &usize| {
            let before = self.line.get(at.saturating_sub(2)..*at).unwrap_or_default();
            !before.contains(&b'=') && before.last().is_some_and(|last| !last.is_ascii_whitespace())
        };
        (self.searched.saturating_add(1)..=self.line.len()).rev().find(is_cut).unwrap_or(0)
    }

    /// Makes an LF of each CR that came last.
    fn end_line(&mut self) {
        self.line.resize(self.line.len().saturating_add(self.returns), b'\n');
        self.returns = 0;
    }
}

impl Base64 {
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> bool {
        let (mut rest, mut is_broken) = (piece, false);
        while !rest.is_empty() {
            match &mut self.tail {
                Tail::Before => {
                    let consumed = self.symbols.decode_symbols(rest, out);
                    let Some((byte, after)) = rest.get(consumed..).and_then(<[u8]>::split_first)
                    else {
                        break;
                    };
                    rest = after;
                    if *byte == b'=' && !self.symbols.is_aligned() {
                        self.symbols.pad(out);
                        self.tail = Tail::Line(Vec::new());
                    } else {
                        is_broken |= !byte.is_ascii_whitespace();
                    }
                }
                Tail::Line(line) => {
                    let end =
                        memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at.saturating_add(1));
                    let (added, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
                    rest = after;
                    if line.len().saturating_add(added.len()) > MAX_TAIL_BYTES {
                        (self.tail, is_broken) = (Tail::Ended, true);
                    } else {
                        line.extend_from_slice(added);
                        if added.ends_with(b"\n") {
                            is_broken |= self.end_line(out);
                        }
                    }
                }
                Tail::Ended => break,
            }
        }
        is_broken
    }

    /// Decodes a line after padding if it is valid base64. Returns whether it is not.
    fn end_line(&mut self, out: &mut Vec<u8>) -> bool {
        let Tail::Line(line) = std::mem::replace(&mut self.tail, Tail::Line(Vec::new())) else {
            return false;
        };
        let line = line.trim_ascii();
        // More `=` may follow the one that ended the symbols.
        let line =
            line.get(line.iter().take_while(|byte| **byte == b'=').count()..).unwrap_or_default();
        let symbols = line.strip_suffix(b"==").or_else(|| line.strip_suffix(b"=")).unwrap_or(line);
        let is_symbol = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        if line.is_empty() {
            return false;
        }
        if line.len() % 4 != 0 || !symbols.iter().all(is_symbol) {
            self.tail = Tail::Ended;
            return true;
        }
        self.symbols.decode_symbols(symbols, out);
        if symbols.len() == line.len() {
            self.tail = Tail::Before;
        } else {
            self.symbols.pad(out);
        }
        false
    }

    fn finish(mut self, out: &mut Vec<u8>) -> bool {
        let is_broken = self.end_line(out);
        self.symbols.finish(out);
        is_broken
    }
}

fn has_bare_cr(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'\r', bytes).any(|at| bytes.get(at.saturating_add(1)) != Some(&b'\n'))
}

/// Decodes quoted-printable. Returns whether an escape is invalid.
fn decode_quoted(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    if bytes.is_empty() || qp::BODY.strict().decode_append(bytes, out).is_ok() {
        return false;
    }
    if qp::BODY.decode_append(bytes, out).is_err() {
        out.extend_from_slice(bytes);
    }
    true
}

#[cfg(test)]
mod tests;
