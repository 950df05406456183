//! The content of a part, decoded (RFC 2045 §6.7, §6.8; uuencode), whole or a piece at a time, so
//! that a large attachment needs little memory.
//!
//! - In whatever pieces the bytes come, what comes out is the same, and no more than went in.
//! - Broken encodings are decoded as far as they go: bytes outside the base64 alphabet are passed
//!   over, escapes that are none stay as written.
//! - Base64 ends at its padding. Further lines count only as long as each is sound base64 itself,
//!   for there are programs that encode line by line; what follows the first other line (a footer
//!   of a mailing list) does not belong to the content.
//! - A bare CR in quoted-printable is a line break.
//! - Of a uuencoded content only what stands between `begin` and `end` counts; without `begin` it
//!   is taken as it is.
//!
//! A piece of quoted-printable is held until its line ends, as far as its last white space and
//! escape: what they are depends on what follows. A part of nothing but white space without an end
//! of line is held whole; all else in 64 KiB.

mod uu;

use std::borrow::Cow;

use encodify::{base64, qp};

/// Bytes of a line of quoted-printable that are held before a place to cut it is looked for.
const MAX_HELD_LINE_BYTES: usize = 64 * 1024;
/// Bytes of a line behind the padding of base64; a longer one is none of it.
const MAX_TAIL_BYTES: usize = 1000;
/// Bytes that are decoded at once where only their number is asked for.
const DECODE_CHUNK: usize = 64 * 1024;

/// The numbers of the encodings, as `PartOffsets` has them.
pub const QUOTED_PRINTABLE: u8 = 1;
/// See `QUOTED_PRINTABLE`.
pub const BASE64: u8 = 2;
/// See `QUOTED_PRINTABLE`.
pub const UUENCODE: u8 = 3;

/// Decodes a whole content; says also whether something of it was broken.
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

/// How many bytes a content has once it is decoded.
#[must_use]
pub fn decoded_len(encoding: u8, bytes: &[u8]) -> usize {
    let quick = match encoding {
        QUOTED_PRINTABLE if !has_bare_cr(bytes) => qp::BODY.decoded_len(bytes).ok(),
        BASE64 => {
            let tail =
                memchr::memchr(b'=', bytes).and_then(|at| bytes.get(at..)).unwrap_or_default();
            let is_plain = tail.iter().all(|byte| *byte == b'=' || byte.is_ascii_whitespace());
            is_plain.then(|| base64::MIME.decoded_len(bytes).ok()).flatten()
        }
        QUOTED_PRINTABLE | UUENCODE => None,
        _ => Some(bytes.len()),
    };
    quick.unwrap_or_else(|| {
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

/// The beginning of a content: at least `most` bytes, or all of a shorter one.
#[must_use]
pub fn decode_prefix(encoding: u8, bytes: &[u8], most: usize) -> (Cow<'_, [u8]>, bool) {
    if bytes.len() <= DECODE_CHUNK {
        return (decode(encoding, bytes).0, true);
    }
    if !matches!(encoding, QUOTED_PRINTABLE | BASE64 | UUENCODE) {
        return (Cow::Borrowed(bytes.get(..most).unwrap_or(bytes)), bytes.len() <= most);
    }
    let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
    for piece in bytes.chunks(DECODE_CHUNK) {
        decoder.feed(piece, &mut out);
        if out.len() > most {
            return (Cow::Owned(out), false);
        }
    }
    decoder.finish(&mut out);
    (Cow::Owned(out), true)
}

/// Decodes one part.
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

/// What is held of quoted-printable.
#[derive(Debug, Default)]
struct QuotedPrintable {
    line: Vec<u8>,
    /// Bytes at the beginning of the line in which there is no place to cut it.
    searched: usize,
    /// CRs of which it is not known yet whether LF follows them.
    returns: usize,
}

#[derive(Debug)]
struct Base64 {
    symbols: base64::Decoder,
    tail: Tail,
}

/// Where the content stands after padding.
#[derive(Debug)]
enum Tail {
    /// There was none.
    Before,
    /// There was; the beginning of the line that follows it.
    Line(Vec<u8>),
    /// What follows is not base64.
    Ended,
}

impl Decoder {
    /// For an encoding as `PartOffsets` has it.
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

    /// Takes a piece, and appends what it comes to.
    pub fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        match &mut self.state {
            DecoderState::Plain => out.extend_from_slice(piece),
            DecoderState::Quoted(quoted) => {
                quoted.take(piece);
                let cut = quoted.cut();
                self.is_broken |= decode_quoted(quoted.line.get(..cut).unwrap_or_default(), out);
                quoted.line.drain(..cut);
            }
            DecoderState::Base64(base64) => self.is_broken |= base64.feed(piece, out),
            DecoderState::Uu(uu) => uu.feed(piece, out),
        }
    }

    /// What is left when there are no more pieces; says whether something was broken.
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
    /// Adds a piece; a CR that no LF follows becomes LF.
    fn take(&mut self, piece: &[u8]) {
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

    /// How many of the bytes held mean the same whatever follows. No byte of a long line is looked
    /// at twice.
    fn cut(&mut self) -> usize {
        let found = self.place();
        if found > 0 {
            self.searched = 0;
        } else if self.line.len() >= MAX_HELD_LINE_BYTES {
            self.searched = self.line.len();
        }
        found
    }

    fn place(&self) -> usize {
        let fresh = self.line.get(self.searched..).unwrap_or_default();
        if let Some(line) = memchr::memrchr(b'\n', fresh) {
            return self.searched.saturating_add(line).saturating_add(1);
        }
        if self.line.len() < MAX_HELD_LINE_BYTES {
            return 0;
        }
        let firm = |at: &usize| {
            let before = self.line.get(at.saturating_sub(2)..*at).unwrap_or_default();
            !before.contains(&b'=') && before.last().is_some_and(|last| !last.is_ascii_whitespace())
        };
        (self.searched.saturating_add(1)..=self.line.len()).rev().find(firm).unwrap_or(0)
    }

    fn end_line(&mut self) {
        self.line.resize(self.line.len().saturating_add(self.returns), b'\n');
        self.returns = 0;
    }
}

impl Base64 {
    /// Whether something that is not base64 was passed over.
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> bool {
        let (mut rest, mut is_broken) = (piece, false);
        while !rest.is_empty() {
            match &mut self.tail {
                Tail::Before => {
                    let taken = self.symbols.decode_symbols(rest, out);
                    let Some((byte, after)) = rest.get(taken..).and_then(<[u8]>::split_first)
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
                    let (more, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
                    rest = after;
                    if line.len().saturating_add(more.len()) > MAX_TAIL_BYTES {
                        (self.tail, is_broken) = (Tail::Ended, true);
                    } else {
                        line.extend_from_slice(more);
                        if more.ends_with(b"\n") {
                            is_broken |= self.end_line(out);
                        }
                    }
                }
                Tail::Ended => break,
            }
        }
        is_broken
    }

    /// Decodes a line behind padding if it is sound base64; says whether it is not.
    fn end_line(&mut self, out: &mut Vec<u8>) -> bool {
        let Tail::Line(line) = std::mem::replace(&mut self.tail, Tail::Line(Vec::new())) else {
            return false;
        };
        let line = line.trim_ascii();
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

/// Whether an escape of it is none.
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
