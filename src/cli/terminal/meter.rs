//! How far long work is: a bar on a terminal, else a line now and then; on standard error, so that
//! what is printed stays what was asked for.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::terminal::complain;
use crate::cli::terminal::output::{clean, size};
use crate::model::clock::Stopwatch;
use crate::wire::jmap::admin::store::JobStage;

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
            bar.set_style(
                style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "),
            );
            bar.set_prefix(what);
            bar
        });
        Self { what, bar, said: Stopwatch::start() }
    }

    /// `progress` of `Job/get`.
    pub(in crate::cli) fn show(&mut self, progress: &JobStage) {
        let words = words(progress);
        if words.is_empty() {
            return;
        }
        if let Some(bar) = &self.bar {
            if let JobStage::Store(at) = progress {
                bar.set_length(at.accounts.saturating_add(1));
                bar.set_position(at.number.saturating_sub(1));
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

fn words(progress: &JobStage) -> String {
    let at = match progress {
        JobStage::Store(at) => at,
        JobStage::Backup { octets } => return format!("{} written", size(*octets)),
        JobStage::Begun {} => return String::new(),
    };
    let whose = if at.number <= at.accounts {
        format!("account {} of {}", at.number, at.accounts)
    } else {
        "what all accounts share".to_owned()
    };
    let written = if at.written > 0 { format!(", {} written", at.written) } else { String::new() };
    format!("{whose}: {}, {} rows{written}", at.table, at.rows)
}

#[cfg(test)]
mod tests {
    use super::words;
    use crate::wire::jmap::admin::store::{JobStage, StoreProgress};

    #[test]
    fn progress_in_words() {
        let mut at = StoreProgress {
            number: 2,
            accounts: 3,
            table: "threads".into(),
            rows: 1024,
            ..StoreProgress::default()
        };
        assert_eq!(words(&JobStage::Store(at.clone())), "account 2 of 3: threads, 1024 rows");
        at.written = 5;
        at.number = 4;
        assert_eq!(
            words(&JobStage::Store(at)),
            "what all accounts share: threads, 1024 rows, 5 written"
        );
        assert_eq!(words(&JobStage::Backup { octets: 3 << 20 }), "3 MiB written");
        assert_eq!(words(&JobStage::Begun {}), "");
    }
}
