//! Reads the input of commands.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read, Write as _};
use std::path::Path;

use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;

/// Bounds the memory for one file.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Reads a file; `-` is standard input.
///
/// # Errors
/// The file cannot be read, or is larger than `MAX_FILE_BYTES`.
pub(in crate::cli) fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let stdin = file == Path::new("-");
    let bytes = if stdin {
        read_at_most(io::stdin().lock(), MAX_FILE_BYTES)
    } else {
        File::open(file).and_then(|file| read_at_most(file, MAX_FILE_BYTES))
    };
    bytes
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{}: {error}", file.display())))?
        .ok_or_else(|| Failure::new(exit::DATA, format!("{}: larger than 64 MiB", file.display())))
}

/// Reads a file of text, as `read` does.
///
/// # Errors
/// As for `read`, or the file is not UTF-8.
pub(in crate::cli) fn read_text(file: &Path) -> Result<String, Failure> {
    String::from_utf8(read(file)?).map_err(|_| {
        Failure::new(exit::DATA, format!("{}: not UTF-8; save it as UTF-8", file.display()))
    })
}

/// Reads to the end; returns `None` if there are more than `max` bytes.
///
/// # Errors
/// Those of the reader.
pub(in crate::cli) fn read_at_most(reader: impl Read, max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

/// Asks a question on the terminal; true if the answer is `yes`.
///
/// # Errors
/// There is no terminal, or it cannot be read or written.
pub(in crate::cli) fn confirmed(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(exit::USAGE, "there is no terminal to ask on: add --yes"));
    }
    let broken = |error: io::Error| Failure::new(exit::NO_INPUT, error.to_string());
    output::raw(question);
    io::stdout().flush().map_err(broken)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(broken)?;
    Ok(answer.trim() == "yes")
}

/// Converts line endings from LF, as in files and from pipe(8), to CRLF, as in mail. CRLF and a CR
/// alone stay.
pub(in crate::cli) fn with_crlf(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + message.len() / 32);
    let mut previous = 0;
    for byte in message {
        if *byte == b'\n' && previous != b'\r' {
            out.push(b'\r');
        }
        out.push(*byte);
        previous = *byte;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings_become_crlf() {
        assert_eq!(with_crlf(b"a\nb\r\nc"), b"a\r\nb\r\nc");
    }

    #[test]
    fn input_over_the_limit_is_not_returned() {
        assert_eq!(read_at_most(&b"abc"[..], 3).unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(read_at_most(&b"abcd"[..], 3).unwrap(), None);
    }
}
