//! Uuencode, as `Content-Transfer-Encoding: x-uuencode` names it: lines between `begin 644 name`
//! and `end`, each with the number of its bytes before it and four characters for each three of
//! them.

use crate::model::limits;

/// Bytes of a line; what is longer is cut.
const MAX_LINE_BYTES: usize = 200;
/// Bytes of one line once it is decoded.
const MAX_DECODED_LINE: usize = 63;

#[derive(Debug, Default)]
pub(super) struct Uu {
    stands: UuState,
    /// What was fed and belongs to no whole line; before `begin`, all that was fed.
    held: Vec<u8>,
    is_broken: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum UuState {
    #[default]
    Before,
    Inside,
    After,
    /// There is no `begin`: the content is taken as it is.
    Plain,
}

impl Uu {
    pub(super) fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            match self.stands {
                UuState::Plain => out.extend_from_slice(line),
                UuState::After => {}
                UuState::Before => {
                    self.held.extend_from_slice(line);
                    if line.ends_with(b"\n") && begins(last_line(&self.held)) {
                        self.stands = UuState::Inside;
                        self.held.clear();
                    } else if self.held.len() > limits::MAX_UUENCODE_PREAMBLE_BYTES {
                        self.stands = UuState::Plain;
                        out.append(&mut self.held);
                    }
                }
                UuState::Inside => {
                    let room = MAX_LINE_BYTES.saturating_sub(self.held.len()).min(line.len());
                    self.held.extend_from_slice(line.get(..room).unwrap_or_default());
                    if line.ends_with(b"\n") {
                        self.line(out);
                    }
                }
            }
        }
    }

    /// Whether it has no beginning or no end, or a line was not as long as it says.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> bool {
        match self.stands {
            UuState::Before => {
                out.append(&mut self.held);
                return true;
            }
            UuState::Inside => self.line(out),
            UuState::After | UuState::Plain => {}
        }
        self.is_broken || self.stands != UuState::After
    }

    /// Decodes the line that is held.
    fn line(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let line = held.strip_suffix(b"\n").unwrap_or(&held);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii_end() == b"end" {
            self.stands = UuState::After;
            return;
        }
        let Some((count, symbols)) = line.split_first() else { return };
        let wanted = usize::from(bits(*count));
        let mut decoded = Vec::with_capacity(MAX_DECODED_LINE);
        for four in symbols.chunks(4) {
            let at = |place: usize| four.get(place).map_or(0, |symbol| bits(*symbol));
            let (one, two, three, four_th) = (at(0), at(1), at(2), at(3));
            decoded.extend([one << 2 | two >> 4, two << 4 | three >> 2, three << 6 | four_th]);
        }
        // Blanks at the end of a line stand for zeros and may be stripped. If more lacks, there are
        // as many bytes as the characters that are there can stand for.
        let sound = symbols.len().saturating_mul(3) / 4;
        let length = if wanted <= line.len() { wanted } else { sound };
        decoded.resize(length, 0);
        self.is_broken |=
            sound < wanted || !symbols.iter().all(|symbol| matches!(symbol, b' '..=b'`'));
        out.append(&mut decoded);
    }
}

/// The six bits of a character.
fn bits(symbol: u8) -> u8 {
    symbol.wrapping_sub(b' ') & 63
}

/// The last line of what ends in a line end.
fn last_line(bytes: &[u8]) -> &[u8] {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let start = memchr::memrchr(b'\n', line).map_or(0, |at| at.saturating_add(1));
    line.get(start..).unwrap_or_default().trim_ascii_end()
}

/// Whether a line is `begin`, a mode in octal, and a name.
fn begins(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.next() == Some(b"begin")
        && words.next().is_some_and(|mode| {
            matches!(mode.len(), 3 | 4) && mode.iter().all(|digit| matches!(digit, b'0'..=b'7'))
        })
        && words.next().is_some()
}
