//! Writes an edited message in the form of a `version` section, and compares two of these.

use restante_sieve::{HeaderEdits, MessageEdits, MessageView, PartId, PartReplacement};

use super::case::VersionText;
use super::words::Line;

/// Writes a message with its edits: the fields of the header of the message, and a line for each
/// other edit. With an enclosure, the header is still that of the message inside it.
pub fn describe(message: &dyn MessageView, edits: &MessageEdits) -> VersionText {
    let mut lines = replacements(&edits.parts);
    if let Some(enclosure) = &edits.enclosure {
        lines.push(Line::new("enclose", &[&enclosure.text]));
        let header = &enclosure.then.header;
        for field in header.prepended.iter().chain(&header.appended) {
            lines.push(Line::new("field", &[&field.name, &field.value]));
        }
        lines.extend(replacements(&enclosure.then.parts));
    }
    VersionText { header: header(message, &edits.header), edits: lines }
}

/// Returns whether two versions are equal, without regard to blanks around values. If there are
/// edits beside those of the header, the order of fields and of edits does not count: it is the
/// engine's choice.
pub fn is_equal(expected: &VersionText, actual: &VersionText) -> bool {
    let texts = |version: &VersionText| {
        let mut header: Vec<String> = version.header.iter().map(|field| trimmed(field)).collect();
        let mut edits: Vec<String> = version.edits.iter().map(ToString::to_string).collect();
        if !edits.is_empty() {
            header.sort();
            edits.sort();
        }
        (header, edits)
    };
    texts(expected) == texts(actual)
}

/// Returns a field without blanks around its name and value.
fn trimmed(field: &str) -> String {
    field.split_once(':').map_or_else(
        || field.to_owned(),
        |(name, value)| format!("{}: {}", name.trim(), value.trim()),
    )
}

/// Returns the fields of the header after the edits.
fn header(message: &dyn MessageView, edits: &HeaderEdits) -> Vec<String> {
    let added = |field: &restante_sieve::HeaderField| format!("{}: {}", field.name, field.value);
    let text = |range: std::ops::Range<usize>| {
        let bytes = message.raw().get(range).unwrap_or_default();
        String::from_utf8_lossy(bytes).replace("\r\n", "")
    };
    let mut lines: Vec<String> = edits.prepended.iter().map(added).collect();
    for (index, field) in message.fields(PartId::ROOT).iter().enumerate() {
        if !edits.deleted.iter().any(|&deleted| deleted as usize == index) {
            lines.push(format!("{}:{}", text(field.name.clone()), text(field.value.clone())));
        }
    }
    lines.extend(edits.appended.iter().map(added));
    lines
}

fn replacements(parts: &[PartReplacement]) -> Vec<Line> {
    let line = |part: &PartReplacement| {
        let mut line = Line::new("replace", &[&part.part.to_string(), &part.content]);
        if part.mime {
            line.tag("mime", [""; 0]);
        }
        line
    };
    parts.iter().map(line).collect()
}
