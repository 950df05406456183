//! Replies: code, enhanced status code (RFC 3463, RFC 2034) and text.

use std::borrow::Cow;

/// Each line of `text`, without the empty ones, becomes a line of the reply (RFC 5321 §4.2.1). If
/// all are empty, the reply is one line without text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub code: u16,
    /// Class, subject, detail.
    pub enhanced: Option<[u16; 3]>,
    pub text: String,
}

/// The most bytes of text in a line, which may have 512 bytes with code, enhanced code and CRLF
/// (RFC 5321 §4.5.3.1.5).
const MAX_LINE_BYTES: usize = 480;

impl Reply {
    #[must_use]
    pub fn new(code: u16, enhanced: [u16; 3], text: impl Into<String>) -> Self {
        Self { code, enhanced: Some(enhanced), text: text.into() }
    }

    /// Makes a reply without an enhanced code.
    #[must_use]
    pub fn bare(code: u16, text: impl Into<String>) -> Self {
        Self { code, enhanced: None, text: text.into() }
    }

    /// Whether the code says success, or asks for more (354).
    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.code < 400
    }

    /// Appends the lines of the reply to `out`. Control characters are removed, so the text cannot
    /// forge another reply. Long lines are cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut lines: Vec<Cow<'_, str>> =
            self.text.split('\n').map(clean_line).filter(|line| !line.is_empty()).collect();
        let last = lines.pop().unwrap_or_default();
        for line in &lines {
            self.write_line(out, '-', line);
        }
        self.write_line(out, ' ', &last);
    }

    fn write_line(&self, out: &mut Vec<u8>, separator: char, text: &str) {
        use std::io::Write as _;
        // Writing to a Vec cannot fail.
        let written = match self.enhanced {
            Some([class, subject, detail]) => {
                write!(out, "{:03}{separator}{class}.{subject}.{detail} {text}\r\n", self.code)
            }
            None => write!(out, "{:03}{separator}{text}\r\n", self.code),
        };
        debug_assert!(written.is_ok());
    }
}

/// Removes control characters, and cuts the line to `MAX_LINE_BYTES`.
fn clean_line(line: &str) -> Cow<'_, str> {
    let cut = |line: &str| line.floor_char_boundary(MAX_LINE_BYTES);
    if !line.contains(char::is_control) {
        return Cow::Borrowed(line.get(..cut(line)).unwrap_or_default());
    }
    let mut cleaned: String = line.chars().filter(|c| !c.is_control()).collect();
    cleaned.truncate(cut(&cleaned));
    Cow::Owned(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_forge_another_reply() {
        let written = |reply: Reply| {
            let mut out = Vec::new();
            reply.write(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Reply::new(250, [2, 1, 5], "fine")), "250 2.1.5 fine\r\n");
        assert_eq!(written(Reply::bare(250, "a\nb")), "250-a\r\n250 b\r\n");
        assert_eq!(
            written(Reply::new(550, [5, 1, 1], "x\r\n250 ok\u{7f}")),
            "550-5.1.1 x\r\n550 5.1.1 250 ok\r\n"
        );
        assert!(written(Reply::bare(500, "é".repeat(600))).len() < 512);
    }
}
