//! Encodes a MIME entity that a script gives as text (RFC 5230 §4.4) so that relays accept it. The
//! result has the fields that describe the body (RFC 2045 §9), and lines of at most 998 bytes (RFC
//! 5322 §2.1.1).
//!
//! - A part that needs an encoding becomes quoted-printable, unless it names quoted-printable,
//!   base64 or uuencode.
//! - A message within the entity is not encoded (RFC 2046 §5.2.1), only lines that are too long are
//!   broken.
//! - If the content is still not ASCII, it is declared as 8-bit.

use super::decode::{BASE64, IDENTITY, QUOTED_PRINTABLE, UUENCODE, encoding_named};
use super::encode::quoted_printable;
use super::header::{body_offset, fields};
use super::parse::Message;
use crate::model::PartOffsets;

/// Fields with a longer name or value are dropped. Others fit into a line.
const MAX_NAME_BYTES: usize = 76;
const MAX_FIELD_BYTES: usize = 900;
const MAX_LINE_BYTES: usize = 998;
const DEFAULT_TYPE: &str = "text/plain; charset=utf-8";

/// Returns the `Content-` fields, each once and on one line, and the content. A field that is not
/// ASCII or too long is dropped. The type is added if it is missing. The last field is
/// `Content-Transfer-Encoding`, spelled so. An encoding of the whole entity other than
/// quoted-printable, base64 and uuencode is replaced. A text without any `Content-` field is all
/// content. `text` must be in CRLF lines without controls other than tabs.
#[must_use]
pub(super) fn entity(text: &str) -> (Vec<(String, String)>, String) {
    let is_content_field =
        |name: &str| name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("Content-"));
    let has_header =
        fields(text.as_bytes()).any(|field| is_content_field(&String::from_utf8_lossy(field.name)));
    let whole = encoded(&if has_header {
        text.to_owned()
    } else {
        format!("Content-Type: {DEFAULT_TYPE}\r\n\r\n{text}")
    });
    let mut kept_fields: Vec<(String, String)> = Vec::new();
    for field in fields(whole.as_bytes()).filter(|field| !field.is("Content-Transfer-Encoding")) {
        let name = String::from_utf8_lossy(field.name).into_owned();
        // Blanks are kept: in a quoted boundary each one counts.
        let value = field.unfolded();
        let is_repeated = kept_fields.iter().any(|(kept, _)| kept.eq_ignore_ascii_case(&name));
        if is_content_field(&name)
            && !is_repeated
            && name.len() <= MAX_NAME_BYTES
            && value.is_ascii()
            && value.len() <= MAX_FIELD_BYTES
        {
            kept_fields.push((name, value));
        }
    }
    if !kept_fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("Content-Type")) {
        kept_fields.insert(0, ("Content-Type".into(), DEFAULT_TYPE.into()));
    }
    let content = break_lines(whole.get(body_offset(whole.as_bytes())..).unwrap_or_default());
    let (encoding, content) = match whole_encoding(&whole) {
        // Encoded content is ASCII; other characters never belonged to it.
        Some(encoding) => (encoding, content.chars().filter(char::is_ascii).collect()),
        None if content.is_ascii() => ("7bit", content),
        None => ("8bit", content),
    };
    // `mail_builder` adds another field unless the name is written like this.
    kept_fields.push(("Content-Transfer-Encoding".into(), encoding.into()));
    (kept_fields, content)
}

/// Returns the usual name of the encoding of the whole entity; `None` if it is neither
/// quoted-printable nor base64 nor uuencode.
fn whole_encoding(text: &str) -> Option<&'static str> {
    let field = fields(text.as_bytes()).find(|field| field.is("Content-Transfer-Encoding"))?;
    match encoding_named(&field.without_comments())? {
        QUOTED_PRINTABLE => Some("quoted-printable"),
        BASE64 => Some("base64"),
        UUENCODE => Some("x-uuencode"),
        _ => None,
    }
}

/// Encodes the parts that need it, and leaves all other bytes as they are.
fn encoded(text: &str) -> String {
    let parts = Message::parse(text.as_bytes()).parts();
    let is_within = |inner: &PartOffsets, outer: &PartOffsets| {
        inner != outer
            && inner.header >= outer.body
            && inner.end <= outer.end
            && inner.body < outer.end
    };
    // The parts that have no other part within their content.
    let mut leaves: Vec<&PartOffsets> =
        parts.iter().filter(|part| !parts.iter().any(|other| is_within(other, part))).collect();
    leaves.sort_by_key(|part| part.header);
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for part in leaves {
        let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
        let (start, body, end) = (at(part.header), at(part.body), at(part.end));
        let (Some(before), Some(header), Some(content)) =
            (text.get(copied..start), text.get(start..body), text.get(body..end))
        else {
            continue;
        };
        let needs_encoding =
            !content.is_ascii() || content.split("\r\n").any(|line| line.len() > MAX_LINE_BYTES);
        if part.encoding != IDENTITY || !needs_encoding || is_message(header) {
            continue;
        }
        out.push_str(before);
        for field in
            fields(header.as_bytes()).filter(|field| !field.is("Content-Transfer-Encoding"))
        {
            out.push_str(&String::from_utf8_lossy(field.name));
            out.push(':');
            out.push_str(&String::from_utf8_lossy(field.value));
        }
        out.push_str("Content-Transfer-Encoding: quoted-printable\r\n\r\n");
        let mut encoded = Vec::with_capacity(content.len());
        quoted_printable(content.as_bytes(), &mut encoded);
        out.push_str(&String::from_utf8_lossy(&encoded));
        copied = end;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out
}

fn is_message(header: &str) -> bool {
    fields(header.as_bytes()).any(|field| {
        field.is("Content-Type")
            && field.without_comments().to_ascii_lowercase().starts_with("message/")
    })
}

/// Breaks lines, so that none is longer than `MAX_LINE_BYTES`.
fn break_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0usize;
    for c in text.chars() {
        column = if c == '\n' { 0 } else { column.saturating_add(c.len_utf8()) };
        if column > MAX_LINE_BYTES && c != '\r' {
            out.push_str("\r\n");
            column = c.len_utf8();
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crlf(text: &str) -> String {
        text.replace('\n', "\r\n")
    }

    #[test]
    fn only_parts_that_need_it_are_encoded() {
        let long = "x".repeat(3000);
        let (fields, content) = entity(&crlf(&format!(
            "Content-Type: multipart/alternative; boundary=b\nBcc: x\n\n--b\n\
             Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\nGrüße = \n\
             --b\nContent-Type: text/html\n\n<p>plain</p>\n--b\n\
             Content-Type: text/x\n\n{long}\n--b--\n"
        )));
        assert_eq!(fields.len(), 2, "{fields:?}");
        assert_eq!(fields[1], ("Content-Transfer-Encoding".into(), "7bit".into()));
        assert!(content.is_ascii() && content.lines().all(|line| line.len() <= 998), "{content}");
        assert_eq!(content.matches("quoted-printable").count(), 2, "{content}");
        assert!(
            content.contains("Gr=C3=BC=C3=9Fe =3D=20\r\n")
                && content.contains("\r\n\r\n<p>plain</p>\r\n")
        );
        let whole = format!("Content-Type: multipart/alternative; boundary=b\r\n\r\n{content}");
        let parsed = Message::parse(whole.as_bytes());
        assert_eq!(parsed.parts().len(), 4, "{content}");
        assert!(parsed.texts(9999).join("").contains("Grüße = "), "{:?}", parsed.texts(9999));
        let longest = "x".repeat(MAX_LINE_BYTES) + "\r\n";
        assert_eq!(entity(&format!("Content-Type: text/plain\r\n\r\n{longest}")).1, longest);
    }

    #[test]
    fn encoding_of_the_whole_entity_is_kept_if_it_is_known() {
        let coded = "begin 644 cat.txt\n#0V%T\n`\nend\n";
        for (encoding, content, expected) in [
            ("x-uuencode", coded, "x-uuencode"),
            ("UUENCODE", coded, "x-uuencode"),
            ("base64 (a cat)", "Q2F0\n", "base64"),
            ("quoted-printable", "Cat=\n", "quoted-printable"),
            ("binary", "Cat\n", "7bit"),
            ("x-odd", "Cat\n", "7bit"),
        ] {
            let text = format!("Content-Type: text/plain\nContent-Transfer-Encoding: {encoding}");
            let (fields, kept) = entity(&crlf(&format!("{text}\n\n{content}")));
            assert_eq!(fields[1].1, expected);
            assert_eq!(kept, crlf(content), "{encoding}");
            let header = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
            let whole = format!("{}\r\n{kept}", header.collect::<String>());
            let parsed = Message::parse(whole.as_bytes());
            let decoded = parsed.decoded(0).unwrap();
            assert_eq!(String::from_utf8_lossy(&decoded).trim_end(), "Cat", "{encoding}");
        }
    }

    #[test]
    fn long_name_of_a_field_is_dropped() {
        let name = |length: usize| format!("Content-{}", "x".repeat(length - "Content-".len()));
        for (length, count) in [(MAX_NAME_BYTES, 3), (MAX_NAME_BYTES + 1, 2), (2000, 2)] {
            let (fields, _) = entity(&format!("{}: x\r\n\r\naway\r\n", name(length)));
            assert_eq!(fields.len(), count, "{fields:?}");
        }
    }

    #[test]
    fn message_within_the_entity_is_not_encoded() {
        let text = "Content-Type: multipart/mixed; boundary=b\n\n\
                    --b\nContent-Type: message/rfc822\n\n\
                    Subject: x\n\nGrüße\n--b--\n";
        let (fields, content) = entity(&crlf(text));
        let bits = fields.iter().find(|(name, _)| name == "Content-Transfer-Encoding").unwrap();
        let message = "Content-Type: message/rfc822\r\n\r\nSubject: x\r\n\r\nGrüße\r\n";
        assert!(content.contains(message), "{content}");
        assert_eq!(bits.1, "8bit");
    }

    proptest! {
        #[test]
        fn any_entity_becomes_short_lines_with_type_and_encoding(
            text in concat!(
                "(Content-Type: (text/plain|multipart/mixed; boundary=b|message/rfc822)\r\n)?",
                "(content-transfer-encoding: (base64|8bit|x|base64 \\(MIME\\))\r\n)?",
                "(Content-[a-z]{1,99}: [a-z ]{0,40}\r\n)?",
                "(\r\n)?(--b\r\n|[a-zü =.\t]{0,40}\r\n|\r\n){0,9}",
            ),
            long in 0usize..3000,
        ) {
            let text = format!("{text}{}", "ü".repeat(long));
            let (fields, content) = entity(&text);
            let is_line =
                |line: &str| line.len() <= MAX_LINE_BYTES && !line.contains(['\r', '\n']);
            prop_assert!(content.split("\r\n").all(is_line));
            let is_short = |(name, value): &(String, String)| {
                is_line(&format!("{name}: {value}"))
            };
            prop_assert!(fields.iter().all(is_short), "{:?}", fields);
            let count = |name: &str| {
                fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name)).count()
            };
            prop_assert_eq!((count("Content-Type"), count("Content-Transfer-Encoding")), (1, 1));
        }
    }
}
