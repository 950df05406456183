//! Writes responses (RFC 5804 §1.3, §4).

use super::reader::MAX_QUOTED_BYTES;

/// A response code without arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    Active,
    AlreadyExists,
    EncryptNeeded,
    NonExistent,
    Quota,
    MaxScripts,
    MaxSize,
    TryLater,
    Warnings,
}

impl Code {
    fn name(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::AlreadyExists => "ALREADYEXISTS",
            Self::EncryptNeeded => "ENCRYPT-NEEDED",
            Self::NonExistent => "NONEXISTENT",
            Self::Quota => "QUOTA",
            Self::MaxScripts => "QUOTA/MAXSCRIPTS",
            Self::MaxSize => "QUOTA/MAXSIZE",
            Self::TryLater => "TRYLATER",
            Self::Warnings => "WARNINGS",
        }
    }
}

/// Writes a response of one status: `OK`, `NO` or `BYE`. An empty text is left out.
pub(super) fn status(out: &mut Vec<u8>, status: &str, code: Option<Code>, text: &str) {
    out.extend_from_slice(status.as_bytes());
    if let Some(code) = code {
        out.extend_from_slice(format!(" ({})", code.name()).as_bytes());
    }
    human_text(out, text);
}

/// Writes `OK` with a code that has a string.
pub(super) fn ok_with(out: &mut Vec<u8>, code: &str, argument: &[u8], text: &str) {
    out.extend_from_slice(format!("OK ({code} ").as_bytes());
    string(out, argument);
    out.push(b')');
    human_text(out, text);
}

/// Writes the text for the user, if there is one, and ends the response.
fn human_text(out: &mut Vec<u8>, text: &str) {
    if !text.is_empty() {
        out.push(b' ');
        // Lines end with CRLF (RFC 5804 §2.6).
        let lines: Vec<&str> = text.trim_end().lines().collect();
        string(out, lines.join("\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes a quoted string where that can hold the text, and a literal otherwise.
pub(super) fn string(out: &mut Vec<u8>, text: &[u8]) {
    let is_plain = std::str::from_utf8(text).is_ok()
        && !text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0'));
    let escapes = text.iter().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    if is_plain && text.len().saturating_add(escapes) <= MAX_QUOTED_BYTES {
        out.push(b'"');
        for byte in text {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
    } else {
        literal(out, text);
    }
}

/// Writes a literal, also of a text that a quoted string can hold. Every script is written as one.
pub(super) fn literal(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(format!("{{{}}}\r\n", text.len()).as_bytes());
    out.extend_from_slice(text);
}

/// Writes one line of the capabilities: a name, and its value if it has one.
pub(super) fn capability(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    string(out, name.as_bytes());
    if let Some(value) = value {
        out.push(b' ');
        string(out, value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}
