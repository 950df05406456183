//! Makes the bytes of a message whose header a script edited (RFC 5293).

use restante_sieve::{HeaderField, MessageEdits, MessageView as _, PartId};

use super::action::EditedMessage;
use super::view::View;
use crate::message::build::{BadFieldValue, EncodedField, FieldValue};

/// Applies the edits of a header to the message. No site offers edits of parts or enclosures
/// (`settings::NOT_OFFERED`), so there are none.
pub(super) fn apply(view: &View<'_>, edits: &MessageEdits) -> EditedMessage {
    let mut out = Vec::with_capacity(view.raw().len().saturating_add(1024));
    let header_end = write_header(view, edits, &mut out);
    out.extend_from_slice(view.raw().get(header_end..).unwrap_or_default());
    EditedMessage(out.into())
}

/// Applies the edits of a header, for an action that reads nothing else of the message.
pub(super) fn header(view: &View<'_>, edits: &MessageEdits) -> EditedMessage {
    let mut out = Vec::new();
    write_header(view, edits, &mut out);
    EditedMessage(out.into())
}

/// Writes the edited header: new fields on top, the old ones that are left, new fields at the end.
/// Returns where the last field ends. A message without a blank line right there gets one.
fn write_header(view: &View<'_>, edits: &MessageEdits, out: &mut Vec<u8>) -> usize {
    let raw = view.raw();
    let fields = view.fields(PartId::ROOT);
    let header_end = fields.last().map_or(0, |field| field.whole.end);
    let header = &edits.header;
    header.prepended.iter().for_each(|field| write(field, out));
    // Positions among all fields, ascending.
    let mut deleted = header.deleted.iter().copied().peekable();
    let mut at = 0;
    for (number, field) in fields.iter().enumerate() {
        // Lines between fields that are no field stay where they are.
        out.extend_from_slice(raw.get(at..field.whole.start).unwrap_or_default());
        let is_deleted = deleted.next_if(|next| u32::try_from(number) == Ok(*next)).is_some();
        if !is_deleted {
            out.extend_from_slice(raw.get(field.whole.clone()).unwrap_or_default());
        }
        at = field.whole.end;
    }
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.extend_from_slice(b"\r\n");
    }
    header.appended.iter().for_each(|field| write(field, out));
    let rest = raw.get(header_end..).unwrap_or_default();
    let has_blank_line = [&b"\r\n"[..], b"\n"].iter().any(|end| rest.starts_with(end));
    if !has_blank_line {
        out.extend_from_slice(b"\r\n");
    }
    header_end
}

/// Writes a field. A value of ASCII with an encoded word is written as the script has it. Any other
/// value is folded, and encoded if it has characters beyond ASCII.
fn write(HeaderField { name, value }: &HeaderField, out: &mut Vec<u8>) {
    let as_written = || EncodedField::new(name, &FieldValue::Raw(format!(" {value}")));
    let is_encoded = value.is_ascii() && value.contains("=?");
    let encoded = if is_encoded { as_written() } else { encode(name, value) };
    if let Ok(encoded) = encoded.or_else(|_| as_written()) {
        out.extend_from_slice(encoded.bytes());
        return;
    }
    // The engine allows names that `EncodedField` refuses, up to the length of a line. The value
    // goes to a line of its own, without characters beyond ASCII and controls.
    let value = value.chars().filter(|c| c.is_ascii() && !c.is_control()).collect::<String>();
    out.extend_from_slice(format!("{name}:\r\n {value}\r\n").as_bytes());
}

fn encode(name: &str, value: &str) -> Result<EncodedField, BadFieldValue> {
    EncodedField::new(name, &FieldValue::Text(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use restante_sieve::HeaderEdits;

    use super::*;

    fn field(name: &str, value: &str) -> HeaderField {
        HeaderField { name: name.into(), value: value.into() }
    }

    fn edited(raw: &str, header: HeaderEdits) -> String {
        let edits = MessageEdits { header, ..MessageEdits::default() };
        let EditedMessage(bytes) = apply(&View::new(raw.as_bytes()), &edits);
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn fields_are_added_and_deleted_by_their_position() {
        let raw = "A: 1\r\nB: 2\r\n folded\r\nA: 3\r\n\r\nbody\r\n";
        let edits = HeaderEdits {
            prepended: vec![field("X", "new")],
            deleted: vec![1],
            appended: vec![field("Y", "ü")],
        };
        assert_eq!(
            edited(raw, edits),
            "X: new\r\nA: 1\r\nA: 3\r\nY: =?utf-8?b?w7w=?=\r\n\r\nbody\r\n"
        );
        assert_eq!(edited(raw, HeaderEdits::default()), raw);
    }

    #[test]
    fn encoded_words_stay_and_long_names_are_written() {
        let add = |name: &str, value: &str| {
            let appended = vec![field(name, value)];
            edited("A: 1\r\n\r\n", HeaderEdits { appended, ..HeaderEdits::default() })
        };
        let word = "=?utf-8?q?=C3=BC?=";
        assert_eq!(add("Subject", word), format!("A: 1\r\nSubject: {word}\r\n\r\n"));
        let long = "X".repeat(80);
        assert_eq!(add(&long, "1"), format!("A: 1\r\n{long}:\r\n 1\r\n\r\n"));
    }

    #[test]
    fn messages_without_a_header_or_a_body_stay_messages() {
        let add = || HeaderEdits { appended: vec![field("X", "1")], ..HeaderEdits::default() };
        assert_eq!(edited("A: 1\r\n", add()), "A: 1\r\nX: 1\r\n\r\n");
        assert_eq!(edited("\r\nbody", add()), "X: 1\r\n\r\nbody");
        assert_eq!(edited("", add()), "X: 1\r\n\r\n");
        let delete = HeaderEdits { deleted: vec![0], ..HeaderEdits::default() };
        assert_eq!(edited("A: 1\r\n\r\nbody", delete), "\r\nbody");
    }
}
