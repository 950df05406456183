//! Writes results on standard output: lines, tables, and JSON with `--json`.

use comfy_table::{Cell, Table, presets};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use crate::cli::exit::{self, Failure};
use crate::model::UtcMillis;

/// Writes a text unchanged. Errors are ignored: a reader such as `head` may close the pipe early.
fn write(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Writes one line. Control characters become spaces, so that text from outside cannot look like
/// another line of the output.
pub(in crate::cli) fn line(text: &str) {
    write(&format!("{}\n", clean(text)));
}

/// Writes a text of several lines. Control characters other than line feeds become spaces.
pub(in crate::cli) fn lines(text: &str) {
    text.split('\n').for_each(line);
}

/// Writes a text unchanged. It must not contain text from outside, unless that is escaped.
pub(in crate::cli) fn raw(text: &str) {
    write(text);
}

/// Writes bytes unchanged.
///
/// # Errors
/// Those of writing, such as a full disk; but not that the reader closed the pipe.
pub(in crate::cli) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(exit::TEMPORARY, format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a value as indented JSON, with sorted members.
pub(in crate::cli) fn json(value: &impl Serialize) {
    // The members of a `Value` are sorted.
    let value = serde_json::to_value(value).unwrap_or_default();
    write(&format!("{value:#}\n"));
}

/// Writes the line `done` about something that was removed; with `as_json`, writes
/// `{"removed": NAME}` instead.
pub(in crate::cli) fn removed(as_json: bool, name: &str, done: &str) {
    if as_json {
        json(&serde_json::json!({ "removed": name }));
    } else {
        line(done);
    }
}

/// Writes a table without frames. A column is as wide as its widest cell, even if the terminal is
/// narrower.
pub(in crate::cli) fn table(head: &[&str], rows: Vec<Vec<String>>) {
    write(&table_text(Some(head), rows));
}

fn table_text(head: Option<&[&str]>, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(head) = head {
        table.set_header(head.iter().map(Cell::new));
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| clean(cell)).collect::<Vec<_>>());
    }
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Writes the properties of one object, one a line, sorted by name, without those that are null or
/// an empty list.
pub(in crate::cli) fn facts(value: &impl Serialize) {
    let value = serde_json::to_value(value).unwrap_or_default();
    let rows = value.as_object().into_iter().flatten().filter_map(|(name, value)| {
        let value = match value {
            Value::Null => return None,
            Value::Array(all) if all.is_empty() => return None,
            Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(", "),
            other => text(other),
        };
        Some(vec![format!("{name}:"), value])
    });
    write(&table_text(None, rows.collect()));
}

/// Replaces control characters and line separators by spaces, and removes overrides of the text's
/// direction.
#[must_use]
pub(in crate::cli) fn clean(text: &str) -> String {
    text.chars()
        .filter(|at| !matches!(at, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
        .map(|at| if at.is_control() || matches!(at, '\u{2028}' | '\u{2029}') { ' ' } else { at })
        .collect()
}

/// Returns a text as it is, any other value as JSON, and nothing for null.
#[must_use]
pub(in crate::cli) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Converts a date of RFC 3339 to local time; empty if it is not such a date.
#[must_use]
pub(in crate::cli) fn local(date: &str, zone: &TimeZone) -> String {
    UtcMillis::parse_rfc3339(date).map_or_else(String::new, |at| at.local(zone))
}

/// Writes a number with the noun that it counts.
pub(in crate::cli) fn counted(count: u64, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

/// Returns a number of bytes in B, KiB or MiB, rounded down.
#[must_use]
pub(in crate::cli) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / (1024 * 1024)),
    }
}

/// Shortens a text to at most `max` characters, the last of which is then `…`. `max` must not be 0.
#[must_use]
pub(in crate::cli) fn short(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_control_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\u{202e}c\rd\ne\u{2028}f"), "a [2Jbc d e f");
    }

    #[test]
    fn short_text_counts_characters_and_its_ellipsis() {
        assert_eq!(short("häufig", 4), "häu…");
    }

    #[test]
    fn text_from_outside_cannot_add_a_row_to_a_table() {
        let rows = vec![vec!["e1".to_owned(), "hi\ne2 forged".to_owned()]];
        let text = table_text(Some(&["ID", "SUBJECT"]), rows);
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
