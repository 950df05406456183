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

/// Appends a byte as `=` and two hexadecimal digits.
pub(super) fn escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    out.extend([b'=', digit(byte >> 4), digit(byte & 15)]);
}
