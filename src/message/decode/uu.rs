//! Decodes uuencode (`Content-Transfer-Encoding: x-uuencode`). Text before `begin` and after `end`
//! is dropped. Without a whole line `begin` in the first `limits::MAX_UUENCODE_PREAMBLE_BYTES`, the
//! content is returned as it is.

use crate::model::limits;

/// Longer lines are cut before they are decoded.
const MAX_LINE_BYTES: usize = 200;
/// The most bytes that the first character of a line can announce.
const MAX_DECODED_LINE: usize = 63;

#[derive(Debug, Default)]
pub(super) struct Uu {
    state: UuState,
    /// The bytes of the last line, which is not complete. Before `begin`, all bytes so far.
    held: Vec<u8>,
    is_broken: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum UuState {
    #[default]
    Before,
    Inside,
    After,
    /// There is no `begin` where it should be.
    Plain,
}

impl Uu {
    pub(super) fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            match self.state {
                UuState::Plain => out.extend_from_slice(line),
                UuState::After => {}
                UuState::Before => {
                    self.held.extend_from_slice(line);
                    if self.held.len() > limits::MAX_UUENCODE_PREAMBLE_BYTES {
                        self.state = UuState::Plain;
                        out.append(&mut self.held);
                    } else if line.ends_with(b"\n") && begins(last_line(&self.held)) {
                        self.state = UuState::Inside;
                        self.held.clear();
                    }
                }
                UuState::Inside => {
                    let room = MAX_LINE_BYTES.saturating_sub(self.held.len()).min(line.len());
                    self.held.extend_from_slice(line.get(..room).unwrap_or_default());
                    if line.ends_with(b"\n") {
                        self.decode_line(out);
                    }
                }
            }
        }
    }

    /// Appends the rest. Returns whether `begin` or `end` is missing, or a line is broken.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> bool {
        match self.state {
            UuState::Before => {
                out.append(&mut self.held);
                return true;
            }
            UuState::Inside => self.decode_line(out),
            UuState::After | UuState::Plain => {}
        }
        self.is_broken || self.state != UuState::After
    }

    fn decode_line(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let line = held.strip_suffix(b"\n").unwrap_or(&held);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii_end() == b"end" {
            self.state = UuState::After;
            return;
        }
        let Some((count, symbols)) = line.split_first() else { return };
        let wanted = usize::from(bits(*count));
        let mut decoded = Vec::with_capacity(MAX_DECODED_LINE);
        for four in symbols.chunks(4) {
            let at = |index: usize| four.get(index).map_or(0, |symbol| bits(*symbol));
            let (a, b, c, d) = (at(0), at(1), at(2), at(3));
            // Four symbols of six bits make three bytes.
            decoded.extend([(a << 2) | (b >> 4), (b << 4) | (c >> 2), (c << 6) | d]);
        }
        // Blanks at the end of a line stand for zeros and may have been stripped: they are added
        // again. But no line may grow by decoding. If it would, it gets only the bytes that its
        // characters hold.
        let available = symbols.len().saturating_mul(3) / 4;
        let length = if wanted <= line.len() { wanted } else { available };
        decoded.resize(length, 0);
        self.is_broken |=
            available < wanted || !symbols.iter().all(|symbol| matches!(symbol, b' '..=b'`'));
        out.append(&mut decoded);
    }
}

/// Returns the six bits of a symbol: its distance from the blank. A backquote is 0, too.
fn bits(symbol: u8) -> u8 {
    symbol.wrapping_sub(b' ') & 63
}

fn last_line(bytes: &[u8]) -> &[u8] {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let start = memchr::memrchr(b'\n', line).map_or(0, |at| at.saturating_add(1));
    line.get(start..).unwrap_or_default().trim_ascii_end()
}

/// Whether a line is `begin`, an octal mode of three or four digits, and a name.
fn begins(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.next() == Some(b"begin")
        && words.next().is_some_and(|mode| {
            matches!(mode.len(), 3 | 4) && mode.iter().all(|digit| matches!(digit, b'0'..=b'7'))
        })
        && words.next().is_some()
}
