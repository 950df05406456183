//! Converts a message to seven-bit text for a server without 8BITMIME (RFC 6152 §3, RFC 2045 §6).
//!
//! - A message of ASCII is returned as it is. Otherwise what stands before the header
//!   (`header::start`) is left out, and parts that are ASCII stay as they are.
//! - Bodies of parts that are not ASCII become quoted-printable; in a part that already is
//!   quoted-printable, only the bytes that are not ASCII are escaped, and lines that become too
//!   long are broken. Content-Transfer-Encoding is changed accordingly, also of the multiparts and
//!   messages around an encoded part.
//! - In the text before and after the parts, `?` replaces each byte that is not ASCII.
//! - A message is not converted if it has bytes that are not ASCII
//!   - in a header (RFC 6532), or in a `multipart/signed` (RFC 1847 §2.1);
//!   - in a part whose encoding is base64, uuencode or unknown, unless it is a multipart or a
//!     message;
//!   - in a `message/` type that must not be encoded and is no message, such as
//!     `message/delivery-status` (RFC 3464 §2.1, RFC 2045 §6.4);
//!   - deeper than `limits::MAX_MIME_DEPTH`;
//!   - in a multipart that has no boundary, one that is too long, or more than
//!     `limits::MAX_MIME_PARTS` delimiters.

use super::decode::{IDENTITY, QUOTED_PRINTABLE, encoding_named};
use super::encode::{escape_quoted_printable, quoted_printable};
use super::header::{Field, fields, part_body_offset, trimmed};
use crate::model::limits;

/// Returns the message as seven-bit text, or `None` if it cannot be converted.
#[must_use]
pub fn to_seven_bit(raw: &[u8]) -> Option<Vec<u8>> {
    if raw.is_ascii() {
        return Some(raw.to_vec());
    }
    let mut out = Vec::with_capacity(raw.len().saturating_add(raw.len() / 4));
    write_entity(trimmed(raw), 0, &mut out)?;
    Some(out)
}

fn write_entity(raw: &[u8], depth: usize, out: &mut Vec<u8>) -> Option<()> {
    if raw.is_ascii() {
        out.extend_from_slice(raw);
        return Some(());
    }
    let (header, body) = raw.split_at_checked(part_body_offset(raw))?;
    if !header.is_ascii() || depth > limits::MAX_MIME_DEPTH {
        return None;
    }
    let kind = fields(header).find(|field| field.is("Content-Type"));
    let value = kind.map_or_else(String::new, |field| field.without_comments());
    let media = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let encoding = fields(header).find(|field| field.is("Content-Transfer-Encoding"));
    let encoding = encoding.map_or_else(String::new, |field| field.without_comments());
    if media == "multipart/signed" {
        return None;
    }
    if media.starts_with("multipart/") {
        let boundary = boundary(&value)?;
        write_header(header, "7bit", out);
        return parts(body, &boundary, depth, out);
    }
    if matches!(media.as_str(), "message/rfc822" | "message/global") {
        write_header(header, "7bit", out);
        return write_entity(body, depth.saturating_add(1), out);
    }
    // Of the others, these may be encoded: those for internationalized mail (RFC 6533 §3 and 4),
    // and a `message/partial`, which holds a piece of a message (RFC 2046 §5.2.2).
    if media.starts_with("message/")
        && !media.starts_with("message/global-")
        && media != "message/partial"
    {
        return None;
    }
    match encoding_named(&encoding) {
        Some(IDENTITY) => {
            write_header(header, "quoted-printable", out);
            quoted_printable(body, out);
        }
        // Bytes that are not ASCII can only stand for themselves here.
        Some(QUOTED_PRINTABLE) => {
            out.extend_from_slice(header);
            escape_quoted_printable(body, out);
        }
        _ => return None,
    }
    Some(())
}

/// Writes the header with this transfer encoding, and with an empty line at its end.
fn write_header(header: &[u8], encoding: &str, out: &mut Vec<u8>) {
    let is_encoding = |field: &Field<'_>| field.is("Content-Transfer-Encoding");
    let encoding_field = format!("Content-Transfer-Encoding: {encoding}\r\n");
    let mut rest = header;
    let mut is_written = false;
    while let Some(field) = fields(rest).next() {
        // The value of a field is a slice of `rest`.
        let end = (field.value.as_ptr() as usize)
            .saturating_add(field.value.len())
            .saturating_sub(rest.as_ptr() as usize);
        let Some((whole, after)) = rest.split_at_checked(end) else { break };
        if is_encoding(&field) {
            if !is_written {
                out.extend_from_slice(encoding_field.as_bytes());
            }
            is_written = true;
        } else {
            out.extend_from_slice(whole);
        }
        rest = after;
    }
    if !is_written {
        // The last line of the header may have no line end.
        if !(out.is_empty() || out.ends_with(b"\n")) {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(encoding_field.as_bytes());
    }
    if rest.is_empty() {
        out.extend_from_slice(b"\r\n");
    } else {
        out.extend_from_slice(rest);
    }
}

/// The boundary in a Content-Type value. RFC 2046 §5.1.1 allows 70 bytes; some programs write more,
/// so up to 200 are taken.
fn boundary(value: &str) -> Option<String> {
    let lower = value.to_ascii_lowercase();
    let mut search_from = 0usize;
    while let Some(at) = lower.get(search_from..)?.find("boundary") {
        let start = search_from.saturating_add(at);
        let before = lower.get(..start)?.trim_end();
        let rest = value.get(start.saturating_add("boundary".len())..)?.trim_start();
        search_from = start.saturating_add(1);
        let Some(rest) = rest.strip_prefix('=').filter(|_| before.ends_with(';')) else { continue };
        let rest = rest.trim_start();
        let found = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?.replace('\\', ""),
            None => rest.split([';', ' ', '\t']).next()?.to_owned(),
        };
        return (!found.is_empty() && found.len() <= 200).then_some(found);
    }
    None
}

/// Writes the body of a multipart.
fn parts(body: &[u8], boundary: &str, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let (mut rest, mut part, mut count) = (body, body, 0usize);
    let mut open = false;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at.saturating_add(1));
        let (line, after) = rest.split_at_checked(end)?;
        let tail = line.strip_prefix(delimiter.as_slice()).map(<[u8]>::trim_ascii);
        if let Some(tail) = tail.filter(|tail| tail.is_empty() || *tail == b"--") {
            let length = part.len().saturating_sub(rest.len());
            write_section(part.get(..length)?, open, depth, out)?;
            out.extend_from_slice(line);
            open = tail.is_empty();
            part = after;
            count = count.saturating_add(1);
            if count > limits::MAX_MIME_PARTS {
                return None;
            }
        }
        rest = after;
    }
    write_section(part, open, depth, out)
}

/// Writes a part, or the text before or after the parts. `bytes` ends with the line end before the
/// next delimiter, which does not belong to the part.
fn write_section(bytes: &[u8], is_part: bool, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    if !is_part {
        // No reader shows this text (RFC 2046 §5.1.1), and it cannot be encoded.
        out.extend(bytes.iter().map(|byte| if byte.is_ascii() { *byte } else { b'?' }));
        return Some(());
    }
    let own = bytes.strip_suffix(b"\r\n").or_else(|| bytes.strip_suffix(b"\n")).unwrap_or(bytes);
    // The empty line that ends a header belongs to the part, even if no body follows.
    let own = if part_body_offset(own) == own.len() { bytes } else { own };
    write_entity(own, depth.saturating_add(1), out)?;
    out.extend_from_slice(bytes.get(own.len()..)?);
    Some(())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::message::Message;

    fn texts(raw: &[u8]) -> Vec<String> {
        Message::parse(raw).texts(1 << 20).into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn encoded_parts_decode_to_the_same_text() {
        let alone = "Subject: x\r\nContent-Type: text/plain; charset=utf-8\r\n\
                     Content-Transfer-Encoding: 8bit\r\n\r\n\
                     Grüße =) \r\n.\r\nlast";
        let inner = format!(
            "--\u{3d}b c\r\n{alone}\r\n--=b c\r\n\
             Content-Type: text/html; charset=utf-8\r\n\r\n<p>ö</p>"
        );
        let many = format!(
            "Content-Type: multipart/mixed; x=y;\r\n boundary=\"=b c\"\r\n\
             Content-Transfer-Encoding: 8bit\r\n\r\npräambel\r\n{inner}\r\n--=b c\r\n\
             Content-Type: message/rfc822\r\n\r\n{alone}\r\n--=b c--\r\n"
        );
        for raw in [alone, &many] {
            let converted = to_seven_bit(raw.as_bytes()).unwrap();
            assert!(converted.is_ascii());
            let text = String::from_utf8(converted.clone()).unwrap();
            assert!(text.lines().all(|line| line.len() <= 78), "{text}");
            assert!(!text.contains("8bit") && text.contains("quoted-printable"), "{text}");
            assert_eq!(texts(raw.as_bytes()), texts(&converted), "{text}");
        }
        assert_eq!(to_seven_bit(b"a: b\r\n\r\nplain\r\n").unwrap(), b"a: b\r\n\r\nplain\r\n");
    }

    #[test]
    fn quoted_printable_lines_with_escaped_bytes_have_at_most_76_bytes() {
        let header = "Content-Type: text/plain; charset=utf-8\r\n\
                      Content-Transfer-Encoding: quoted-printable\r\n\r\n";
        for body in [
            "ü".repeat(400),
            format!("{}=C3=BC{} =\r\nnext", "a".repeat(72), "ü=3D".repeat(100)),
            // A soft line break with white space after it, and white space at the end of a line.
            format!("{}=  \r\nnext \t\r\n", "ü".repeat(24) + "abc"),
            format!("short\n{} \nü\n", "ö".repeat(26)),
        ] {
            let raw = format!("{header}{body}");
            let converted = String::from_utf8(to_seven_bit(raw.as_bytes()).unwrap()).unwrap();
            assert!(converted.is_ascii() && converted.starts_with(header), "{converted}");
            assert!(converted.lines().all(|line| line.trim_end().len() <= 76), "{converted}");
            assert_eq!(texts(raw.as_bytes()), texts(converted.as_bytes()), "{converted}");
        }
        // A line of ASCII stays as it is.
        let long = "a".repeat(200);
        let converted = to_seven_bit(format!("{header}{long}\r\nü\r\n").as_bytes()).unwrap();
        assert_eq!(converted, format!("{header}{long}\r\n=C3=BC\r\n").as_bytes());
    }

    #[test]
    fn messages_that_cannot_be_converted_are_refused() {
        for raw in [
            "Subject: Grüße\r\n\r\nplain\r\n",
            "Content-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\nGrüße\r\n--b--\r\n",
            "Content-Type: multipart/mixed\r\n\r\n--b\r\n\r\nGrüße\r\n--b--\r\n",
            "Content-Transfer-Encoding: base64\r\n\r\nGrüße\r\n",
            "Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx\r\n\r\n\
             Final-Recipient: rfc822; a=b@x\r\nDiagnostic-Code: smtp; 550 Empfänger\r\n",
            "Content-Type: message/disposition-notification\r\n\r\nReporting-UA: ü\r\n",
        ] {
            assert_eq!(to_seven_bit(raw.as_bytes()), None, "{raw}");
        }
    }

    /// RFC 6533 §3 and 4.
    #[test]
    fn report_for_internationalized_mail_is_encoded_whole() {
        let header = "Content-Type: message/global-delivery-status\r\n";
        let status = "Reporting-MTA: dns; mx\r\n\r\nFinal-Recipient: utf-8; ü=b@x\r\n";
        let converted = to_seven_bit(format!("{header}\r\n{status}").as_bytes()).unwrap();
        let wanted = format!(
            "{header}Content-Transfer-Encoding: quoted-printable\r\n\r\n{}",
            status.replace("ü=b", "=C3=BC=3Db")
        );
        assert_eq!(String::from_utf8(converted).unwrap(), wanted);
    }

    /// A word, bytes that must be escaped, escapes, a soft line break, a space, and a line end.
    const QUOTED_PRINTABLE: &str = "[a-f]{1,9}|[äö]{1,40}|=3D|=C3=A4|=\r\n| |\r\n";

    proptest! {
        #[test]
        fn any_bytes_are_ascii_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(to_seven_bit(&raw).is_none_or(|converted| converted.is_ascii()));
        }

        #[test]
        fn any_text_decodes_to_the_same_text(body in "[a-zäö= \t.\r\n]{0,200}") {
            let raw = format!("Content-Type: text/plain; charset=utf-8\r\n\r\n{body}ü");
            let converted = to_seven_bit(raw.as_bytes()).unwrap();
            prop_assert_eq!(texts(raw.as_bytes()), texts(&converted));
        }

        #[test]
        fn any_quoted_printable_text_decodes_to_the_same_text(
            words in proptest::collection::vec(QUOTED_PRINTABLE, 0..60)
        ) {
            let body = words.concat();
            let raw = format!(
                "Content-Type: text/plain; charset=utf-8\r\n\
                 Content-Transfer-Encoding: quoted-printable\r\n\r\n{body}ü"
            );
            let converted = to_seven_bit(raw.as_bytes()).unwrap();
            prop_assert_eq!(texts(raw.as_bytes()), texts(&converted));
        }
    }
}
