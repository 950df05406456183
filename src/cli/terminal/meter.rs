//! How far long work is: a bar on a terminal, else a line now and then; on standard error, so that what is printed stays
//! what was asked for.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::cli::terminal::complain;
use crate::cli::terminal::output::{clean, size, text};
use crate::model::clock::Stopwatch;

/// Between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Shows how far something is.
pub(in crate::cli) struct ProgressMeter {
    what: &'static str,
    bar: Option<ProgressBar>,
    said: Stopwatch,
}

impl ProgressMeter {
    pub(in crate::cli) fn new(what: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1);
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg} ({elapsed})");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_prefix(what);
            bar
        });
        Self { what, bar, said: Stopwatch::start() }
    }

    /// `progress` of `Job/get`.
    pub(in crate::cli) fn show(&mut self, progress: &Value) {
        let words = words(progress);
        if words.is_empty() {
            return;
        }
        if let Some(bar) = &self.bar {
            if let Some(accounts) = progress["accounts"].as_u64() {
                bar.set_length(accounts.saturating_add(1));
                bar.set_position(progress["number"].as_u64().unwrap_or(0).saturating_sub(1));
            }
            bar.set_message(clean(&words));
        } else if self.said.elapsed() >= LINE_INTERVAL {
            complain(&format!("{}: {words}", self.what));
            self.said = Stopwatch::start();
        }
    }
}

impl Drop for ProgressMeter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn words(progress: &Value) -> String {
    if progress["octets"].is_u64() {
        return format!("{} written", size(&progress["octets"]));
    }
    let (Some(number), Some(accounts)) = (progress["number"].as_u64(), progress["accounts"].as_u64()) else {
        return String::new();
    };
    let whose = if number <= accounts {
        format!("account {number} of {accounts}")
    } else {
        "what all accounts share".to_owned()
    };
    let written = match progress["written"].as_u64() {
        None | Some(0) => String::new(),
        Some(written) => format!(", {written} written"),
    };
    format!("{whose}: {}, {} rows{written}", text(&progress["table"]), text(&progress["rows"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::words;

    #[test]
    fn progress_in_words() {
        let mut at = json!({"number": 2, "accounts": 3, "table": "threads", "rows": 1024, "written": 0});
        assert_eq!(words(&at), "account 2 of 3: threads, 1024 rows");
        at["written"] = 5.into();
        at["number"] = 4.into();
        assert_eq!(words(&at), "what all accounts share: threads, 1024 rows, 5 written");
        assert_eq!(words(&json!({"octets": 3 << 20})), "3 MiB written");
        assert_eq!(words(&json!({})), "");
    }
}
