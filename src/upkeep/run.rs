//! The thread that keeps: when it works, when it rests, and how it is stopped.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Upkeep;
use crate::model::clock::Stopwatch;

/// It rests so many times as long as its steps take.
const RESTS: u32 = 4;
/// A rest is taken once it has come to this: a shorter one costs more than it gives.
const REST: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Wish {
    stop: bool,
    now: bool,
}

#[derive(Debug, Default)]
struct Bell {
    wish: Mutex<Wish>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self, wish: impl FnOnce(&mut Wish)) {
        wish(&mut self.wish.lock());
        self.rung.notify_all();
    }

    /// Rests; says whether to go on.
    fn rest(&self, time: Duration) -> bool {
        let mut wish = self.wish.lock();
        let watch = Stopwatch::start();
        while !wish.stop
            && let Some(left) = time.checked_sub(watch.elapsed()).filter(|left| !left.is_zero())
        {
            self.rung.wait_for(&mut wish, left);
        }
        !wish.stop
    }

    /// Waits until somebody wants something, or the time is over; says whether to go on.
    fn wait(&self, time: Duration) -> bool {
        let mut wish = self.wish.lock();
        let watch = Stopwatch::start();
        while !wish.stop
            && !wish.now
            && let Some(left) = time.checked_sub(watch.elapsed()).filter(|left| !left.is_zero())
        {
            self.rung.wait_for(&mut wish, left);
        }
        wish.now = false;
        !wish.stop
    }
}

/// Upkeep at work. Dropped, it stops as `stop` has it.
#[derive(Debug)]
pub struct Running {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Begins to work, in a thread of its own; the first round begins at once.
    ///
    /// # Errors
    /// No thread could be had.
    pub fn start(self) -> std::io::Result<Running> {
        let bell = Arc::new(Bell::default());
        let own = Arc::clone(&bell);
        let thread = std::thread::Builder::new().name("upkeep".into()).spawn(move || self.run(&own))?;
        Ok(Running { bell, thread: Some(thread) })
    }

    fn run(&self, bell: &Bell) {
        loop {
            let watch = Stopwatch::start();
            let mut tired = Duration::ZERO;
            let done = self.round(|took| {
                tired += took * RESTS;
                if tired < REST { bell.rest(Duration::ZERO) } else { bell.rest(std::mem::take(&mut tired)) }
            });
            match done {
                Ok(report) => tracing::info!(
                    accounts = report.accounts,
                    steps = report.steps,
                    emails = report.emails,
                    threads = report.threads,
                    thread_refs = report.thread_refs,
                    lists = report.lists,
                    messages = report.messages,
                    octets = report.octets,
                    failed = report.failed,
                    complete = report.complete,
                    ms = watch.elapsed().as_millis(),
                    "upkeep"
                ),
                Err(error) => tracing::warn!(%error, "upkeep ended early; tried again next time"),
            }
            let every = self.settings.get().every;
            if !bell.wait(every.saturating_sub(watch.elapsed())) {
                return;
            }
        }
    }
}

impl Running {
    /// Begins a round now, where none is under way; else another one after it.
    pub fn wake(&self) {
        self.bell.ring(|wish| wish.now = true);
    }

    /// Stops within the step that is under way, and waits for it. Not for an asynchronous task.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.bell.ring(|wish| wish.stop = true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("upkeep ended by a panic");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
