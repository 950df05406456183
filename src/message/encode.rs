//! Encodes quoted-printable (RFC 2045 §6.7). The encoder of the library `encodify` takes a bare LF
//! for a line end; here every byte decodes to itself.

/// The longest line, without the `=` of a soft line break.
const MAX_LINE_BYTES: usize = 75;

/// Appends the bytes as quoted-printable. Only CRLF is kept as a line end.
pub(super) fn quoted_printable(body: &[u8], out: &mut Vec<u8>) {
    let mut rest = body;
    let mut width = 0usize;
    while let Some((byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\r\n") {
            out.extend_from_slice(b"\r\n");
            (rest, width) = (after, 0);
            continue;
        }
        let at_line_end = after.is_empty() || after.starts_with(b"\r\n");
        let plain = match byte {
            b' ' | b'\t' => !at_line_end,
            b'=' => false,
            33..=126 => true,
            _ => false,
        };
        let cost = if plain { 1 } else { 3usize };
        if width.saturating_add(cost) > MAX_LINE_BYTES {
            out.extend_from_slice(b"=\r\n");
            width = 0;
        }
        if plain {
            out.push(*byte);
        } else {
            escape(*byte, out);
        }
        width = width.saturating_add(cost);
        rest = after;
    }
}

/// Appends a body that is quoted-printable already but for bytes that are not ASCII, which are
/// escaped. Lines with such bytes get soft line breaks where they become too long; lines of ASCII
/// stay as they are.
pub(super) fn escape_quoted_printable(body: &[u8], out: &mut Vec<u8>) {
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        if line.is_ascii() {
            out.extend_from_slice(line);
        } else {
            escape_line(line, out);
        }
    }
}

/// Appends a line with bytes that are not ASCII, which are escaped, with soft line breaks where it
/// becomes longer than `MAX_LINE_BYTES`.
fn escape_line(line: &[u8], out: &mut Vec<u8>) {
    // A soft line break, or white space that a decoder removes, stays together with the line end.
    let text = line.trim_ascii_end();
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let (mut rest, mut width) = (text, 0usize);
    while let Some(byte) = rest.first() {
        let is_escape = |unit: &[u8]| *byte == b'=' && unit.iter().all(u8::is_ascii_hexdigit);
        let (length, cost) = match rest.get(1..3) {
            Some(digits) if is_escape(digits) => (3, 3usize),
            _ if byte.is_ascii() => (1, 1),
            _ => (1, 3),
        };
        if width.saturating_add(cost) > MAX_LINE_BYTES {
            out.extend_from_slice(b"=\r\n");
            width = 0;
        }
        let (unit, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        if byte.is_ascii() {
            out.extend_from_slice(unit);
        } else {
            escape(*byte, out);
        }
        (rest, width) = (after, width.saturating_add(cost));
    }
    out.extend_from_slice(line.get(text.len()..).unwrap_or_default());
}

/// Appends a byte as `=` and two hexadecimal digits.
pub(super) fn escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    out.extend([b'=', digit(byte >> 4), digit(byte & 15)]);
}
