//! How far a long command has come: a bar on a terminal, else a line now and then; on standard
//! error both, so that what a command prints stays clean.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::terminal::output::{clean, size};
use crate::model::clock::Stopwatch;

/// Where there is no terminal: a line so often.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
const BAR: &str = "{prefix} {bar:32} {binary_bytes} of {binary_total_bytes}, {msg}, {eta} left";

/// A command's progress, by octets.
pub(in crate::cli) struct ByteProgress {
    bar: Option<ProgressBar>,
    verb: &'static str,
    total: u64,
    done: u64,
    watch: Stopwatch,
    next: Duration,
}

impl ByteProgress {
    /// Begins a bar of `octets` bytes.
    pub(in crate::cli) fn new(verb: &'static str, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template(BAR) {
                bar.set_style(style);
            }
            bar.with_prefix(verb)
        });
        Self { bar, verb, total, done: 0, watch: Stopwatch::start(), next: LINE_INTERVAL }
    }

    /// Adds bytes that were done, and shows a message.
    pub(in crate::cli) fn more(&mut self, octets: u64, says: impl Fn() -> String) {
        self.done = self.done.saturating_add(octets);
        if let Some(bar) = &self.bar {
            bar.set_position(self.done.min(self.total));
            bar.set_message(says());
        } else if self.watch.elapsed() >= self.next {
            self.next = self.watch.elapsed() + LINE_INTERVAL;
            crate::cli::terminal::complain(&format!(
                "{} {} of {}, {}",
                self.verb,
                size(self.done),
                size(self.total),
                says()
            ));
        }
    }

    /// A line that stays.
    pub(in crate::cli) fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(clean(line)),
            None => crate::cli::terminal::complain(line),
        }
    }

    /// Ends; how long it took.
    pub(in crate::cli) fn end(self) -> Duration {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.watch.elapsed()
    }
}
