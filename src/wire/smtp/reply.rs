//! A reply: code, enhanced status code (RFC 3463, RFC 2034), text.

/// One reply. A text of several lines is written as several (RFC 5321 §4.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The basic code.
    pub code: u16,
    /// The enhanced code: class, subject, detail.
    pub enhanced: Option<[u16; 3]>,
    /// What a person reads.
    pub text: String,
}

/// Octets of one line's text: 512 less code, enhanced code and CRLF (RFC 5321 §4.5.3.1.5).
const MAX_LINE_BYTES: usize = 480;

impl Reply {
    /// A reply with an enhanced code.
    #[must_use]
    pub fn new(code: u16, enhanced: [u16; 3], text: impl Into<String>) -> Self {
        Self { code, enhanced: Some(enhanced), text: text.into() }
    }

    /// A reply without (the greeting, LHLO, 354).
    #[must_use]
    pub fn bare(code: u16, text: impl Into<String>) -> Self {
        Self { code, enhanced: None, text: text.into() }
    }

    /// Whether it says yes.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.code < 400
    }

    /// Writes it. Whatever the text holds, it cannot begin a line of its own making: controls are
    /// dropped.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut lines: Vec<String> =
            self.text.split('\n').map(clean).filter(|line| !line.is_empty()).collect();
        let last = lines.pop().unwrap_or_default();
        for line in &lines {
            self.line(out, '-', line);
        }
        self.line(out, ' ', &last);
    }

    fn line(&self, out: &mut Vec<u8>, mark: char, text: &str) {
        use std::io::Write as _;
        // Writing to a Vec cannot fail.
        let written = match self.enhanced {
            Some([class, subject, detail]) => {
                write!(out, "{:03}{mark}{class}.{subject}.{detail} {text}\r\n", self.code)
            }
            None => write!(out, "{:03}{mark}{text}\r\n", self.code),
        };
        debug_assert!(written.is_ok());
    }
}

fn clean(line: &str) -> String {
    let mut kept: String = line.chars().filter(|c| !c.is_control()).collect();
    while kept.len() > MAX_LINE_BYTES {
        kept.pop();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_makes_a_reply_of_its_own() {
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
