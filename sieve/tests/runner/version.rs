//! Writes an edited message as a `version` section does, and compares.

use restante_sieve::{HeaderEdits, MessageEdits, MessageView, PartId, PartReplacement};

use super::case::VersionText;
use super::words::Line;

/// Writes a message with its edits; without edits the message as received.
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

/// Returns whether two versions are equal. If parts or the whole message were replaced, the order
/// of fields does not count.
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

fn trimmed(field: &str) -> String {
    field.split_once(':').map_or_else(
        || field.to_owned(),
        |(name, value)| format!("{}: {}", name.trim(), value.trim()),
    )
}

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
