//! Shows the progress of a job on standard error: as a bar on a terminal, else as a line now and
//! then.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::terminal::complain;
use crate::cli::terminal::output::{clean, size};
use crate::model::clock::Stopwatch;
use crate::wire::jmap::admin::store::JobStage;

/// The least time between two lines where there is no bar.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

pub(in crate::cli) struct ProgressMeter {
    job: &'static str,
    /// `None` if standard error is no terminal.
    bar: Option<ProgressBar>,
    last_line: Stopwatch,
}

impl ProgressMeter {
    pub(in crate::cli) fn new(job: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1);
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg} ({elapsed})");
            bar.set_style(
                style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "),
            );
            bar.set_prefix(job);
            bar
        });
        Self { job, bar, last_line: Stopwatch::start() }
    }

    /// Shows the property `progress` of `Job/get`.
    pub(in crate::cli) fn show(&mut self, progress: &JobStage) {
        let text = describe(progress);
        if text.is_empty() {
            return;
        }
        if let Some(bar) = &self.bar {
            if let JobStage::Store(at) = progress {
                // After the accounts come the rows of no account.
                bar.set_length(at.accounts.saturating_add(1));
                bar.set_position(at.number.saturating_sub(1));
            }
            bar.set_message(clean(&text));
        } else if self.last_line.elapsed() >= LINE_INTERVAL {
            complain(&format!("{}: {text}", self.job));
            self.last_line = Stopwatch::start();
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

/// Returns the progress in words; empty if there is nothing to tell yet.
fn describe(progress: &JobStage) -> String {
    let at = match progress {
        JobStage::Store(at) => at,
        JobStage::Backup { octets } => return format!("{} written", size(*octets)),
        JobStage::Begun {} => return String::new(),
    };
    let scope = if at.number <= at.accounts {
        format!("account {} of {}", at.number, at.accounts)
    } else {
        "rows of no account".to_owned()
    };
    let written = if at.written > 0 { format!(", {} written", at.written) } else { String::new() };
    format!("{scope}: {}; {} rows in all{written}", at.table, at.rows)
}

#[cfg(test)]
mod tests {
    use super::describe;
    use crate::wire::jmap::admin::store::{JobStage, StoreProgress};

    #[test]
    fn progress_is_described() {
        let mut at = StoreProgress {
            number: 2,
            accounts: 3,
            table: "threads".into(),
            rows: 1024,
            ..StoreProgress::default()
        };
        assert_eq!(
            describe(&JobStage::Store(at.clone())),
            "account 2 of 3: threads; 1024 rows in all"
        );
        at.written = 5;
        at.number = 4;
        at.table = "directory".into();
        assert_eq!(
            describe(&JobStage::Store(at)),
            "rows of no account: directory; 1024 rows in all, 5 written"
        );
        assert_eq!(describe(&JobStage::Backup { octets: 3 << 20 }), "3 MiB written");
        assert_eq!(describe(&JobStage::Begun {}), "");
    }
}
