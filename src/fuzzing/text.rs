//! Fuzz bodies of texts that people write: dates and the configuration file.

use std::path::Path;

use super::bounded;
use crate::cli::{Edge, parse_date};
use crate::config;
use crate::message::parse::date as header_date;
use crate::model::{UtcMillis, clock};

/// Parses any text as a date of a command, of a header and of RFC 3339. A text that is read as the
/// end of a window is never before the same text that is read as the beginning. A parsed date reads
/// the same after it is written. Only the first 512 bytes count: dates are short.
pub fn date(data: &[u8]) {
    let data = data.get(..512).unwrap_or(data);
    let text = String::from_utf8_lossy(data);
    for zone in ["UTC", "Europe/Berlin", "Pacific/Apia"].into_iter().filter_map(clock::zone) {
        for now in [0, 1_795_251_600_000, 4_102_444_799_999] {
            let read = |edge| parse_date(&text, UtcMillis(now), &zone, edge);
            match (read(Edge::From), read(Edge::Until)) {
                (Ok(from), Ok(until)) => {
                    assert!(from <= until, "from {from} until {until}");
                    check_rfc3339(from);
                }
                // The end of the last day of the calendar is out of its range.
                (Ok(from), Err(_)) => {
                    assert!(from.rfc3339().starts_with("9999-12"), "from {from}, and no end");
                }
                (Err(_), until) => assert!(until.is_err(), "an end without a beginning"),
            }
        }
    }
    if let Some(sent) = header_date(data) {
        // A zone is written with two digits for hours and two for minutes.
        assert!(sent.offset_minutes.unsigned_abs() <= 100 * 60, "{sent:?}");
        check_rfc3339(sent.at);
    }
    if let Some(at) = UtcMillis::parse_rfc3339(&text) {
        check_rfc3339(at);
    }
}

/// Checks that a time, without its milliseconds, reads the same after it is written.
fn check_rfc3339(at: UtcMillis) {
    let written = at.rfc3339();
    let seconds = UtcMillis(at.0.div_euclid(1000) * 1000);
    // RFC 3339 has only years of four digits.
    if written.len() == "2026-12-24T09:00:00Z".len() {
        assert_eq!(UtcMillis::parse_rfc3339(&written), Some(seconds), "{written}");
    }
}

/// Parses any text as a configuration file, an accepted one twice with the same result, and checks
/// the configuration. Every fault names the file and has a description; its line, if any, exists or
/// is the one after the last.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(bounded(data));
    let file = Path::new("restante.toml");
    let faults = match config::parse(&text, file) {
        Ok(config) => {
            assert_eq!(config::parse(&text, file).as_ref(), Ok(&config));
            config::check(&config, &text, file)
        }
        Err(faults) => {
            assert!(!faults.0.is_empty(), "refused without a fault");
            faults.0
        }
    };
    for fault in faults {
        let line = fault.line.unwrap_or(1);
        assert!(
            (1..=text.lines().count() + 1).contains(&line),
            "line {line} of {}",
            text.lines().count()
        );
        assert!(
            !fault.problem.is_empty() && fault.to_string().starts_with("restante.toml:"),
            "{fault:?}"
        );
    }
}
