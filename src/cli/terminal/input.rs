//! What commands read: a file, or standard input where it is named `-`.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read, Write as _};
use std::path::Path;

use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;

/// The largest text or message that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// A file's octets; `-` is standard input.
///
/// # Errors
/// It cannot be read, or is larger than 64 MiB.
pub(in crate::cli) fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let stdin = file == Path::new("-");
    let bytes = if stdin { at_most(io::stdin().lock(), MAX_FILE_BYTES) } else { open(file) };
    bytes
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{}: {error}", file.display())))?
        .ok_or_else(|| Failure::new(exit::DATA, format!("{}: larger than 64 MiB", file.display())))
}

/// A file as text.
///
/// # Errors
/// As `read`, and where it is not UTF-8.
pub(in crate::cli) fn read_text(file: &Path) -> Result<String, Failure> {
    String::from_utf8(read(file)?).map_err(|_| {
        Failure::new(exit::DATA, format!("{}: not UTF-8; save it as UTF-8", file.display()))
    })
}

/// All that a reader gives; `None` where that is more than `most` octets.
///
/// # Errors
/// Those of reading.
pub(in crate::cli) fn at_most(reader: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Asks on the terminal, and takes nothing but `yes` for yes.
///
/// # Errors
/// There is no terminal, or it is gone.
pub(in crate::cli) fn confirmed(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(exit::USAGE, "nobody to ask: say --yes"));
    }
    let broken = |error: io::Error| Failure::new(exit::NO_INPUT, error.to_string());
    output::raw(question);
    io::stdout().flush().map_err(broken)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(broken)?;
    Ok(answer.trim() == "yes")
}

/// Lines of a file, or of pipe(8), end with LF: as mail they end with CRLF.
pub(in crate::cli) fn with_crlf(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + message.len() / 32);
    let mut before = 0;
    for octet in message {
        if *octet == b'\n' && before != b'\r' {
            out.push(b'\r');
        }
        out.push(*octet);
        before = *octet;
    }
    out
}

fn open(file: &Path) -> io::Result<Option<Vec<u8>>> {
    at_most(File::open(file)?, MAX_FILE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_in_mail() {
        assert_eq!(with_crlf(b"a\nb\r\nc"), b"a\r\nb\r\nc");
    }

    #[test]
    fn no_more_than_is_wanted() {
        assert_eq!(at_most(&b"abc"[..], 3).unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(at_most(&b"abcd"[..], 3).unwrap(), None);
    }
}
