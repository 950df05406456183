//! What a person sees: tables, and JSON with `--json`.

use comfy_table::{Cell, ContentArrangement, Table, presets};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use crate::cli::exit::{self, Failure};
use crate::model::UtcMillis;

/// Writes on standard output. A reader that has seen enough (`| head`) is no fault.
fn say(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// A line.
pub(in crate::cli) fn line(text: &str) {
    say(&format!("{}\n", clean(text)));
}

/// Lines that are ours, as they are.
pub(in crate::cli) fn raw(text: &str) {
    say(text);
}

/// Octets, as they are. A reader that has seen enough is no fault; a full disk is.
///
/// # Errors
/// What hinders the writing.
pub(in crate::cli) fn octets(bytes: &[u8]) -> Result<(), Failure> {
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

/// JSON, indented.
pub(in crate::cli) fn json(value: &impl Serialize) {
    // By way of a value, whose members are in order.
    let value = serde_json::to_value(value).unwrap_or_default();
    say(&format!("{value:#}\n"));
}

/// A table without frames; nothing but the head if there are no rows.
pub(in crate::cli) fn table(head: &[&str], rows: Vec<Vec<String>>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head.iter().map(Cell::new));
    for row in rows {
        table.add_row(row.iter().map(|cell| clean(cell)).collect::<Vec<_>>());
    }
    for line in table.to_string().lines() {
        say(&format!("{}\n", line.trim_end()));
    }
}

/// The properties of one object, a line each; what is not set is left out.
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
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    for row in rows {
        table.add_row(row.iter().map(|cell| clean(cell)).collect::<Vec<_>>());
    }
    for line in table.to_string().lines() {
        say(&format!("{}\n", line.trim_end()));
    }
}

/// Text from outside cannot steer the terminal: control characters become spaces, and bidi
/// overrides vanish.
#[must_use]
pub(in crate::cli) fn clean(text: &str) -> String {
    text.chars()
        .filter(|at| !matches!(at, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
        .map(|at| if at.is_control() && at != '\n' { ' ' } else { at })
        .collect()
}

/// Text of a property; empty if it is not there.
#[must_use]
pub(in crate::cli) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A date of RFC 3339 as local time; empty where it is none.
#[must_use]
pub(in crate::cli) fn local(date: &str, zone: &TimeZone) -> String {
    UtcMillis::parse_rfc3339(date).map_or_else(String::new, |at| at.local(zone))
}

/// Octets as people read them.
#[must_use]
pub(in crate::cli) fn size(octets: u64) -> String {
    match octets {
        0..1024 => format!("{octets} B"),
        1024..1_048_576 => format!("{} KiB", octets / 1024),
        _ => format!("{} MiB", octets / (1024 * 1024)),
    }
}

/// At most this many characters.
#[must_use]
pub(in crate::cli) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_steered() {
        assert_eq!(clean("a\x1b[2Jb\u{202e}c\rd"), "a [2Jbc d");
        assert_eq!(short("häufig", 4), "häu…");
    }
}
