//! Splits the bytes of a client into commands, whose strings may be literals (RFC 5804 §4).
//!
//! - A literal is any bytes. Its marker, `{size}` or `{size+}`, ends one line of the command, and
//!   another line of the command follows the literal.
//! - Lines, quoted strings, literals and the number of tokens are bounded. A command that is
//!   malformed, or is beyond one of these bounds, is discarded to its end, with its literals, and
//!   is refused. If its end cannot be found, the session must close (`Event::Lost`).
//! - A line may also end with LF alone.

/// Longest line, without its end. Two quoted strings, the most that a command takes, need half.
const MAX_LINE_BYTES: usize = 4096;
/// Most bytes between the quotes, with their escapes (RFC 5804 §4, `quoted`).
pub(super) const MAX_QUOTED_BYTES: usize = 1024;
/// The most tokens of a command: AUTHENTICATE, its mechanism and the initial response; or
/// PUTSCRIPT, the name and the script.
const MAX_TOKENS: usize = 3;
/// Largest literal of a refused command that is discarded. A larger one is `Event::Lost`.
const MAX_DISCARDED_BYTES: usize = 64 << 20;
/// The longest marker of a literal that is read. The largest number has 10 digits, and there is
/// room for zeros before it. A longer marker is `Event::Lost`.
const MAX_MARKER_BYTES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandToken {
    Atom(String),
    Number(u32),
    /// A quoted string, which is UTF-8, or a literal, which may be any bytes.
    Text(Vec<u8>),
}

/// Why the reader refused a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The grammar does not allow the line, or the command has too many tokens.
    Syntax,
    LongLine,
    LongQuoted,
    /// The literal is larger than `max_literal` allows at its place.
    LargeLiteral,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// All input is consumed, and more is needed.
    NeedInput,
    /// The tokens of a command; none for a blank line.
    Command(Vec<CommandToken>),
    /// The command was discarded to its end. The tokens are those that were read before the error;
    /// of a line that is too long none are read.
    Refused(ReadError, Vec<CommandToken>),
    /// Where the next command begins is not known: the marker of a literal is too long, or the
    /// literal too large to be discarded. No more may be read. The tokens are those of `Refused`.
    Lost(Vec<CommandToken>),
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    mode: Mode,
    /// The current line so far.
    line: Vec<u8>,
    /// The tokens of the current command, from its lines and literals so far.
    tokens: Vec<CommandToken>,
}

#[derive(Debug, Default)]
enum Mode {
    #[default]
    Line,
    Literal {
        left: usize,
        bytes: Vec<u8>,
    },
    /// Discards a line. Its last bytes are kept in `Reader::line`, as they may be the marker of a
    /// literal, which is discarded next.
    DiscardLine(ReadError),
    DiscardLiteral {
        left: usize,
        error: ReadError,
    },
}

/// What comes at the end of a line.
enum LineEnd {
    /// The end of the command.
    Command,
    /// The marker of a literal of this many bytes.
    Literal(usize),
}

impl Reader {
    /// Consumes input up to the end of a command, or all of it if no command ends in it. Returns
    /// the number of consumed bytes. `max_literal` is given the tokens before a literal, and
    /// returns the most bytes that the literal may have.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        max_literal: impl Fn(&[CommandToken]) -> usize,
    ) -> (usize, Event) {
        let mut rest = input;
        loop {
            let event = match std::mem::take(&mut self.mode) {
                Mode::Line => self.read_line(&mut rest, &max_literal),
                Mode::Literal { left, mut bytes } => {
                    let taken = take(&mut rest, left);
                    bytes.extend_from_slice(taken);
                    let left = left.saturating_sub(taken.len());
                    if left == 0 {
                        self.tokens.push(CommandToken::Text(bytes));
                    } else {
                        self.mode = Mode::Literal { left, bytes };
                    }
                    None
                }
                Mode::DiscardLine(error) => self.discard_line(&mut rest, error),
                Mode::DiscardLiteral { left, error } => {
                    let left = left.saturating_sub(take(&mut rest, left).len());
                    self.mode = if left == 0 {
                        Mode::DiscardLine(error)
                    } else {
                        Mode::DiscardLiteral { left, error }
                    };
                    None
                }
            };
            let consumed = input.len().saturating_sub(rest.len());
            if let Some(event) = event {
                return (consumed, event);
            }
            if rest.is_empty() {
                return (consumed, Event::NeedInput);
            }
        }
    }

    /// Reads a line, or a part of one. Returns `None` if the command has not ended with it.
    fn read_line(
        &mut self,
        rest: &mut &[u8],
        max_literal: impl Fn(&[CommandToken]) -> usize,
    ) -> Option<Event> {
        let is_complete = self.take_line(rest);
        // At the end of an incomplete line, a carriage return may belong to the line's end.
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if line.len() > MAX_LINE_BYTES {
            self.mode = Mode::DiscardLine(ReadError::LongLine);
            return if is_complete { self.end_discarded_line(ReadError::LongLine) } else { None };
        }
        if !is_complete {
            return None;
        }
        match tokenize(&self.line, &mut self.tokens) {
            Ok(LineEnd::Command) => {
                self.line.clear();
                Some(Event::Command(std::mem::take(&mut self.tokens)))
            }
            Ok(LineEnd::Literal(size)) if size <= max_literal(&self.tokens) => {
                self.line.clear();
                self.mode = Mode::Literal { left: size, bytes: Vec::new() };
                // An empty literal is complete already.
                if size == 0 {
                    self.mode = Mode::Line;
                    self.tokens.push(CommandToken::Text(Vec::new()));
                }
                None
            }
            Ok(LineEnd::Literal(_)) => self.end_discarded_line(ReadError::LargeLiteral),
            Err(error) => self.end_discarded_line(error),
        }
    }

    /// Moves bytes to `line`, up to the end of the line, which is removed. Returns whether the line
    /// has ended.
    fn take_line(&mut self, rest: &mut &[u8]) -> bool {
        let Some(end) = memchr::memchr(b'\n', rest) else {
            // Of a line that is too long, only as much is kept as shows this: the longest line, a
            // carriage return, and one byte more. At least one byte is taken each time, so that
            // reading goes on.
            let room = MAX_LINE_BYTES.saturating_add(2).saturating_sub(self.line.len());
            self.line.extend_from_slice(take(rest, room.max(1)));
            return false;
        };
        let line = take(rest, end.saturating_add(1));
        self.line.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        true
    }

    /// Discards a line, or a part of one, but for the bytes that may be a marker. Returns `None` if
    /// the command has not ended with it.
    fn discard_line(&mut self, rest: &mut &[u8], error: ReadError) -> Option<Event> {
        let is_complete = self.take_line(rest);
        // One byte more than a marker, because the last one may be a carriage return.
        let surplus = self.line.len().saturating_sub(MAX_MARKER_BYTES.saturating_add(1));
        self.line.drain(..surplus);
        if is_complete {
            return self.end_discarded_line(error);
        }
        self.mode = Mode::DiscardLine(error);
        None
    }

    /// Ends a discarded line, and with it the command, which is refused. If the line ends with the
    /// marker of a literal, the command goes on, and this returns `None`; or `Event::Lost`, if the
    /// literal cannot be discarded.
    fn end_discarded_line(&mut self, error: ReadError) -> Option<Event> {
        self.mode = Mode::Line;
        let line = std::mem::take(&mut self.line);
        match discarded_literal(&line) {
            DiscardedLiteral::None => Some(Event::Refused(error, std::mem::take(&mut self.tokens))),
            DiscardedLiteral::Size(left) if left <= MAX_DISCARDED_BYTES => {
                self.mode = Mode::DiscardLiteral { left, error };
                None
            }
            DiscardedLiteral::Size(_) | DiscardedLiteral::Unknown => {
                Some(Event::Lost(std::mem::take(&mut self.tokens)))
            }
        }
    }
}

/// Takes up to `count` bytes from the beginning of `rest`.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at_checked(count).unwrap_or((*rest, &[]));
    *rest = left;
    taken
}

/// Whether a discarded line ends with the marker of a literal.
enum DiscardedLiteral {
    None,
    Size(usize),
    /// The line may end with a marker that is longer than any that is read.
    Unknown,
}

/// Judges a discarded line by its last bytes, because no more of a long line is kept.
fn discarded_literal(line: &[u8]) -> DiscardedLiteral {
    let end = line.get(line.len().saturating_sub(MAX_MARKER_BYTES)..).unwrap_or(line);
    let marker = end.iter().rposition(|byte| *byte == b'{').and_then(|at| end.get(at..));
    if let Some(size) = marker.and_then(literal_size) {
        return DiscardedLiteral::Size(size);
    }
    let digits = end.strip_suffix(b"}").map(|end| end.strip_suffix(b"+").unwrap_or(end));
    let is_cut = end.len() == MAX_MARKER_BYTES
        && digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit));
    if is_cut { DiscardedLiteral::Unknown } else { DiscardedLiteral::None }
}

/// Reads a marker, `{size}` or `{size+}`. Returns `None` if it is not one or is too long, and
/// `usize::MAX` for a size that `u32` cannot hold.
fn literal_size(marker: &[u8]) -> Option<usize> {
    if marker.len() > MAX_MARKER_BYTES {
        return None;
    }
    let digits = marker.strip_prefix(b"{")?.strip_suffix(b"}")?;
    let digits = digits.strip_suffix(b"+").unwrap_or(digits);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    Some(
        number
            .parse::<u32>()
            .map_or(usize::MAX, |size| usize::try_from(size).unwrap_or(usize::MAX)),
    )
}

/// Adds the tokens of a line to those of the command. A line after a literal must begin with a
/// space, if it is not empty.
///
/// # Errors
/// `Syntax` or `LongQuoted`. The tokens before the error are added.
fn tokenize(line: &[u8], tokens: &mut Vec<CommandToken>) -> Result<LineEnd, ReadError> {
    let mut rest = line;
    let mut needs_space = !tokens.is_empty();
    loop {
        let token = rest.trim_ascii_start();
        if token.is_empty() {
            return Ok(LineEnd::Command);
        }
        let blanks = rest.len().saturating_sub(token.len());
        let are_spaces = rest.iter().take(blanks).all(|byte| *byte == b' ');
        // There is no space before the first token, and at least one before each other token.
        if !are_spaces || needs_space != (blanks > 0) {
            return Err(ReadError::Syntax);
        }
        if token.first() == Some(&b'{') {
            let size = literal_size(token).ok_or(ReadError::Syntax)?;
            return if tokens.len() < MAX_TOKENS {
                Ok(LineEnd::Literal(size))
            } else {
                Err(ReadError::Syntax)
            };
        }
        if tokens.len() >= MAX_TOKENS {
            return Err(ReadError::Syntax);
        }
        let (next, left) = match token.strip_prefix(b"\"") {
            Some(quoted) => read_quoted(quoted)?,
            None => read_atom(token)?,
        };
        tokens.push(next);
        rest = left;
        needs_space = true;
    }
}

/// Reads a quoted string after its opening quote. Returns what follows the closing quote, too.
fn read_quoted(mut rest: &[u8]) -> Result<(CommandToken, &[u8]), ReadError> {
    let (all, mut text) = (rest.len(), Vec::new());
    loop {
        let (byte, left) = rest.split_first().ok_or(ReadError::Syntax)?;
        if all.saturating_sub(rest.len()) > MAX_QUOTED_BYTES {
            return Err(ReadError::LongQuoted);
        }
        rest = left;
        match byte {
            b'"' => break,
            b'\\' => {
                let (escaped, left) = rest.split_first().ok_or(ReadError::Syntax)?;
                if !matches!(escaped, b'"' | b'\\') {
                    return Err(ReadError::Syntax);
                }
                text.push(*escaped);
                rest = left;
            }
            b'\0' | b'\r' => return Err(ReadError::Syntax),
            _ => text.push(*byte),
        }
    }
    std::str::from_utf8(&text).map_err(|_| ReadError::Syntax)?;
    Ok((CommandToken::Text(text), rest))
}

/// Reads an atom, or a number if there are only digits, up to a space. Returns the rest, too.
fn read_atom(token: &[u8]) -> Result<(CommandToken, &[u8]), ReadError> {
    let end = token.iter().position(|byte| *byte == b' ').unwrap_or(token.len());
    let (word, rest) = token.split_at_checked(end).unwrap_or((token, &[]));
    let is_atom = word.iter().all(|byte| byte.is_ascii_graphic() && !b"()\"{\\".contains(byte));
    let word = std::str::from_utf8(word).ok().filter(|_| is_atom).ok_or(ReadError::Syntax)?;
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let token = if is_number {
        CommandToken::Number(word.parse().map_err(|_| ReadError::Syntax)?)
    } else {
        CommandToken::Atom(word.to_owned())
    };
    Ok((token, rest))
}
