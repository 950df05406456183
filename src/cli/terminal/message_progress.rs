//! Shows on standard error how many messages a command has processed: as a bar on a terminal, else
//! as a line now and then.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::terminal::complain;
use crate::cli::terminal::output::clean;
use crate::model::clock::Stopwatch;

/// The least time between two lines where there is no bar.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
const BAR: &str = "{prefix} {bar:32} {pos} of {len} messages, {msg}, {eta} left";

pub(in crate::cli) struct MessageProgress {
    /// `None` if standard error is no terminal.
    bar: Option<ProgressBar>,
    verb: &'static str,
    watch: Stopwatch,
    /// The time of `watch` from which on another line may be written.
    next: Duration,
}

impl MessageProgress {
    pub(in crate::cli) fn new(verb: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template(BAR) {
                bar.set_style(style);
            }
            bar.with_prefix(verb)
        });
        Self { bar, verb, watch: Stopwatch::start(), next: LINE_INTERVAL }
    }

    /// Shows how many of all messages are processed. `message` says what was done with them.
    pub(in crate::cli) fn show(&mut self, done: u64, total: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done.min(total));
            bar.set_message(clean(message));
        } else if self.watch.elapsed() >= self.next {
            self.next = self.watch.elapsed() + LINE_INTERVAL;
            complain(&format!("{} {done} of {total} messages, {message}", self.verb));
        }
    }
}

impl Drop for MessageProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
