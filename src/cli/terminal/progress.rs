//! Shows on standard error how many bytes a command has processed: as a bar on a terminal, else as
//! a line now and then.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::terminal::output::{clean, size};
use crate::model::clock::Stopwatch;

/// The least time between two lines where there is no bar.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
const BAR: &str = "{prefix} {bar:32} {binary_bytes} of {binary_total_bytes}, {msg}, {eta} left";

pub(in crate::cli) struct ByteProgress {
    /// `None` if standard error is no terminal.
    bar: Option<ProgressBar>,
    verb: &'static str,
    total: u64,
    done: u64,
    watch: Stopwatch,
    /// The time of `watch` from which on another line may be written.
    next: Duration,
}

impl ByteProgress {
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

    /// Says that so many more bytes are processed.
    pub(in crate::cli) fn advance(&mut self, bytes: u64, message: impl Fn() -> String) {
        self.done = self.done.saturating_add(bytes);
        if let Some(bar) = &self.bar {
            bar.set_position(self.done.min(self.total));
            bar.set_message(message());
        } else if self.watch.elapsed() >= self.next {
            self.next = self.watch.elapsed() + LINE_INTERVAL;
            crate::cli::terminal::complain(&format!(
                "{} {} of {}, {}",
                self.verb,
                size(self.done),
                size(self.total),
                message()
            ));
        }
    }

    /// Writes a line that stays: above the bar, if there is one.
    pub(in crate::cli) fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(clean(line)),
            None => crate::cli::terminal::complain(&clean(line)),
        }
    }

    /// Removes the bar, and returns the time since `new`.
    pub(in crate::cli) fn finish(self) -> Duration {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.watch.elapsed()
    }
}
