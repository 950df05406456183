//! Adds and removes dot-stuffing (RFC 5321 §4.5.2), safe against SMTP smuggling.
//!
//! Only a line with a single dot ends a message: `<CRLF>.<CRLF>`, or `.<CRLF>` if the message is
//! empty. A bare LF or CR does not end a line, and stays in the message. So two servers cannot
//! disagree on where the message ends.

/// Removes dot-stuffing from a message that arrives in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DotUnstuffer(LinePosition);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    /// At the start of a line, or of the message.
    Start,
    /// Within a line, not after a CR.
    Line,
    /// After a CR, which is in the output.
    Cr,
    /// After a dot at the start of a line.
    Dot,
    /// After a dot at the start of a line and a CR. Neither is in the output yet.
    DotCr,
}

impl Default for DotUnstuffer {
    fn default() -> Self {
        Self(LinePosition::Start)
    }
}

impl DotUnstuffer {
    /// Appends the message bytes in `input` to `out`. Returns how many bytes of the input were
    /// consumed, and whether the message has ended.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, bool) {
        let mut rest = input;
        while let Some((&byte, after)) = rest.split_first() {
            if self.0 == LinePosition::Line {
                let plain = memchr::memchr(b'\r', rest).unwrap_or(rest.len());
                let (line, from_cr) = rest.split_at(plain);
                out.extend_from_slice(line);
                rest = from_cr;
                if let Some((_, after)) = rest.split_first() {
                    out.push(b'\r');
                    self.0 = LinePosition::Cr;
                    rest = after;
                }
                continue;
            }
            let (next, is_consumed) = match (self.0, byte) {
                (LinePosition::Start, b'.') => (LinePosition::Dot, true),
                (LinePosition::Dot, b'\r') => (LinePosition::DotCr, true),
                (LinePosition::DotCr, b'\n') => {
                    self.0 = LinePosition::Start;
                    return (input.len().saturating_sub(after.len()), true);
                }
                // The dot was stuffed, and a bare CR follows it. The dot is left out.
                (LinePosition::DotCr, _) => {
                    out.push(b'\r');
                    (LinePosition::Cr, false)
                }
                (LinePosition::Cr, b'\n') => {
                    out.push(byte);
                    (LinePosition::Start, true)
                }
                (LinePosition::Cr | LinePosition::Start, b'\r') => {
                    out.push(byte);
                    (LinePosition::Cr, true)
                }
                _ => (LinePosition::Line, false),
            };
            self.0 = next;
            if is_consumed {
                rest = after;
            }
        }
        (input.len(), false)
    }
}

/// Returns the message with dot-stuffing and the final dot, and with a CRLF before that if the
/// message is not empty and does not end in one.
#[cfg(any(test, feature = "internals"))]
#[must_use]
pub fn stuff(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len().saturating_add(64));
    let mut start = true;
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if start && line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
        start = line.ends_with(b"\r\n");
    }
    if !start && !message.is_empty() {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unstuff(wire: &[u8]) -> Option<(Vec<u8>, usize)> {
        let mut out = Vec::new();
        let (consumed, is_done) = DotUnstuffer::default().feed(wire, &mut out);
        is_done.then_some((out, consumed))
    }

    #[test]
    fn only_crlf_dot_crlf_ends_a_message() {
        for (wire, message) in [
            (&b".\r\n"[..], &b""[..]),
            (b"a\r\n.\r\n", b"a\r\n"),
            (b"..a\r\n.\r\n", b".a\r\n"),
            (b"a\r\n..\r\n.\r\n", b"a\r\n.\r\n"),
            (b"a\n.\nb\r\n.\r\n", b"a\n.\nb\r\n"),
            (b"a\n.\r\nb\r\n.\r\n", b"a\n.\r\nb\r\n"),
            (b"a\r\n.\nb\r\n.\r\n", b"a\r\n\nb\r\n"),
            (b"a\r.\r\nb\r\n.\r\n", b"a\r.\r\nb\r\n"),
            (b"a\r\n.\rb\r\n.\r\n", b"a\r\n\rb\r\n"),
            (b"a\r\n.\r\r\n.\r\n", b"a\r\n\r\r\n"),
            (b"\r\r\n.\r\n", b"\r\r\n"),
        ] {
            assert_eq!(
                unstuff(wire),
                Some((message.to_vec(), wire.len())),
                "{}",
                wire.escape_ascii()
            );
        }
        for open in [&b"a\n.\n"[..], b"a\n.\r\n", b"a\r\n.\n", b"a\r.\r", b"a.\r\n", b""] {
            assert_eq!(unstuff(open), None, "{}", open.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn stuffed_messages_are_read_back_at_any_split(
            bytes in "[ab.\r\n]{0,40}",
            cut in 0usize..60,
        ) {
            let mut message = bytes.into_bytes();
            if !message.is_empty() && !message.ends_with(b"\r\n") {
                message.extend_from_slice(b"\r\n");
            }
            // The 6 bytes of the next command are not consumed.
            let wire = [stuff(&message), b"NOOP\r\n".to_vec()].concat();
            let (mut state, mut out) = (DotUnstuffer::default(), Vec::new());
            let (first, second) = wire.split_at(cut.min(wire.len()));
            let (consumed, is_done) = state.feed(first, &mut out);
            let more = if is_done { 0 } else { state.feed(second, &mut out).0 };
            prop_assert_eq!(out, message);
            prop_assert_eq!(consumed.saturating_add(more), wire.len().saturating_sub(6));
        }
    }
}
