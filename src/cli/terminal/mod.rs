//! What a person at a terminal types and sees: input, dates, tables, progress.

pub(super) mod dates;
pub(super) mod input;
pub(super) mod meter;
pub(super) mod output;
pub(super) mod progress;

use crate::model::limits;
use clap::builder::RangedU64ValueParser;

/// How many lines of a list may be asked for at once.
pub(super) fn listed() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=limits::MAX_LISTED_ROWS as u64)
}

/// Says something on standard error.
pub(super) fn complain(message: &str) {
    use std::io::Write as _;
    let mut out = std::io::stderr().lock();
    for (at, line) in message.lines().enumerate() {
        // With standard error gone there is nobody to tell.
        drop(writeln!(out, "{}{}", if at == 0 { "restante: " } else { "" }, output::clean(line)));
    }
}
