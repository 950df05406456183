//! Input and output of commands: files, dates, tables, progress.

pub(super) mod dates;
pub(super) mod input;
pub(super) mod message_progress;
pub(super) mod meter;
pub(super) mod output;
pub(super) mod progress;

use crate::model::limits;
use clap::builder::RangedU64ValueParser;

/// Parses the option for the number of rows that a command lists.
pub(super) fn row_count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=limits::MAX_LISTED_ROWS as u64)
}

/// Writes a message on standard error.
pub(super) fn complain(message: &str) {
    use std::io::Write as _;
    let mut out = std::io::stderr().lock();
    for (at, line) in message.lines().enumerate() {
        drop(writeln!(out, "{}{}", if at == 0 { "restante: " } else { "" }, output::clean(line)));
    }
}
