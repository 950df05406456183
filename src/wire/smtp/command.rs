//! Reads command lines (RFC 5321 §4.1.1, RFC 2033 §4.1, RFC 3030 §2, RFC 3207; Postfix's XFORWARD
//! and XCLIENT).

use super::path::{PathError, parameters, path, xtext};
use crate::model::Address;

/// A command of the client. The keywords of parameters are in upper case, and a parameter without
/// `=` has an empty value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// With the name of the client.
    Lhlo(String),
    /// HELO or EHLO, which are not for LMTP.
    Helo,
    /// `None` is the null path `<>`.
    Mail(Option<Address>, Vec<(String, String)>),
    Rcpt(Address, Vec<(String, String)>),
    Data,
    /// The size of the chunk, and whether the chunk is the last.
    Bdat(u64, bool),
    Rset,
    Noop,
    Vrfy,
    Help,
    Quit,
    StartTls,
    /// Names in upper case, with their values; `None` for an unavailable value.
    XForward(Vec<(String, Option<String>)>),
    /// As in `XForward`.
    XClient(Vec<(String, Option<String>)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandError {
    Unknown,
    Arguments,
    /// The arguments of BDAT are invalid. The chunk follows anyway; this is its size, or `None` if
    /// it cannot be read.
    Chunk(Option<u64>),
    Path(PathError),
}

/// Reads one line without its CRLF.
///
/// # Errors
/// `Unknown` if there is no command of this name; the others if its arguments are invalid.
pub fn parse(line: &[u8]) -> Result<Command, CommandError> {
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let (verb, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
    let argument = rest.trim_ascii();
    let bare =
        |command| if argument.is_empty() { Ok(command) } else { Err(CommandError::Arguments) };
    match verb.to_ascii_uppercase().as_slice() {
        b"LHLO" => lhlo(argument),
        b"HELO" | b"EHLO" => Ok(Command::Helo),
        b"MAIL" => {
            let (sender, parameters) = path_after(argument, b"FROM:")?;
            Ok(Command::Mail(sender, parameters))
        }
        b"RCPT" => {
            let (recipient, parameters) = path_after(argument, b"TO:")?;
            Ok(Command::Rcpt(recipient.ok_or(CommandError::Path(PathError::Syntax))?, parameters))
        }
        b"DATA" => bare(Command::Data),
        b"BDAT" => bdat(argument),
        b"RSET" => bare(Command::Rset),
        b"NOOP" => Ok(Command::Noop),
        b"VRFY" if !argument.is_empty() => Ok(Command::Vrfy),
        b"HELP" => Ok(Command::Help),
        b"QUIT" => bare(Command::Quit),
        b"STARTTLS" => bare(Command::StartTls),
        b"XFORWARD" => attributes(argument).map(Command::XForward),
        b"XCLIENT" => attributes(argument).map(Command::XClient),
        b"VRFY" => Err(CommandError::Arguments),
        _ => Err(CommandError::Unknown),
    }
}

/// Checks the client's name, because it goes into the Received field.
fn lhlo(argument: &[u8]) -> Result<Command, CommandError> {
    let name = std::str::from_utf8(argument).map_err(|_| CommandError::Arguments)?;
    let is_valid =
        (1..=255).contains(&name.len()) && name.chars().all(|c| !c.is_control() && c != ' ');
    if is_valid { Ok(Command::Lhlo(name.to_owned())) } else { Err(CommandError::Arguments) }
}

type PathAndParameters = (Option<Address>, Vec<(String, String)>);

/// Reads `FROM:` or `TO:`, as `keyword` says, then a path and parameters.
fn path_after(argument: &[u8], keyword: &[u8]) -> Result<PathAndParameters, CommandError> {
    let (found, rest) = argument.split_at_checked(keyword.len()).ok_or(CommandError::Arguments)?;
    if !found.eq_ignore_ascii_case(keyword) {
        return Err(CommandError::Arguments);
    }
    let (address, rest) = path(rest).map_err(CommandError::Path)?;
    Ok((address, parameters(rest).map_err(|_| CommandError::Arguments)?))
}

/// Reads `chunk-size [LAST]` (RFC 3030 §2).
fn bdat(argument: &[u8]) -> Result<Command, CommandError> {
    let text = std::str::from_utf8(argument).map_err(|_| CommandError::Chunk(None))?;
    let mut words = text.split_ascii_whitespace();
    // Any `u64` has at most 20 digits.
    let size = words
        .next()
        .filter(|word| word.len() <= 20 && word.bytes().all(|digit| digit.is_ascii_digit()));
    let size = size.and_then(|word| word.parse().ok()).ok_or(CommandError::Chunk(None))?;
    match (words.next(), words.next()) {
        (None, _) => Ok(Command::Bdat(size, false)),
        (Some(word), None) if word.eq_ignore_ascii_case("LAST") => Ok(Command::Bdat(size, true)),
        _ => Err(CommandError::Chunk(Some(size))),
    }
}

/// Reads `NAME=xtext` once or more. An empty value, `[UNAVAILABLE]` and `[TEMPUNAVAIL]` are `None`.
fn attributes(argument: &[u8]) -> Result<Vec<(String, Option<String>)>, CommandError> {
    let text = std::str::from_utf8(argument).map_err(|_| CommandError::Arguments)?;
    let all: Option<Vec<_>> = text
        .split_ascii_whitespace()
        .map(|word| {
            let (name, value) = word.split_once('=')?;
            let value = xtext(value).ok()?;
            let is_available =
                !value.is_empty() && !matches!(value.as_str(), "[UNAVAILABLE]" | "[TEMPUNAVAIL]");
            Some((name.to_ascii_uppercase(), is_available.then_some(value)))
        })
        .collect();
    all.filter(|all| !all.is_empty()).ok_or(CommandError::Arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_commands_and_refuses_invalid_lines() {
        let bob = Address::from_parts("bob", "example.net");
        for (line, expected) in [
            ("lhlo mx.example", Ok(Command::Lhlo("mx.example".into()))),
            ("EHLO x", Ok(Command::Helo)),
            ("MAIL FROM:<>", Ok(Command::Mail(None, vec![]))),
            (
                "mail from: <bob@example.net> SIZE=5",
                Ok(Command::Mail(Some(bob.clone()), vec![("SIZE".into(), "5".into())])),
            ),
            ("RCPT TO:<bob@example.net>", Ok(Command::Rcpt(bob, vec![]))),
            ("RCPT TO:<>", Err(CommandError::Path(PathError::Syntax))),
            ("BDAT 5 last", Ok(Command::Bdat(5, true))),
            ("BDAT -1", Err(CommandError::Chunk(None))),
            ("BDAT 99999999999999999999", Err(CommandError::Chunk(None))),
            ("BDAT 5 LASTX", Err(CommandError::Chunk(Some(5)))),
            ("BDAT 5 LAST 6", Err(CommandError::Chunk(Some(5)))),
            ("DATA junk", Err(CommandError::Arguments)),
            ("NOOP anything", Ok(Command::Noop)),
            ("LHLO", Err(CommandError::Arguments)),
            ("FROB", Err(CommandError::Unknown)),
            ("", Err(CommandError::Unknown)),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        }
        let forward = parse(b"XFORWARD NAME=spike.example ADDR=[UNAVAILABLE] IDENT=4+2B").unwrap();
        let expected = [("NAME", Some("spike.example")), ("ADDR", None), ("IDENT", Some("4+"))];
        let expected = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)))
            .collect();
        assert_eq!(forward, Command::XForward(expected));
    }
}
