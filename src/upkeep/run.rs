//! The thread that keeps: when it works, when it rests, and how it is stopped.
//!
//! An account into which so much mail came that it can be folded does not wait for the next round:
//! searches read what is not folded row by row. Nor does a listing that a query asked for: until it
//! is made, each answer costs the mailbox.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Upkeep;
use crate::model::clock::Stopwatch;
use crate::model::{AccountId, DataType};
use crate::store::FoldSizes;

/// It rests so many times as long as its steps take.
const REST_FACTOR: u32 = 4;
/// A rest is taken once it has come to this: a shorter one costs more than it gives.
const MIN_REST: Duration = Duration::from_millis(5);
/// While others write it looks so often whether they are done.
const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// But for no longer than this before each step: under a load that never ends it goes on
/// nevertheless.
const MAX_YIELD: Duration = Duration::from_millis(50);
/// Remains of deleted rows are cleared so long after they were first heard of, and again after each
/// time.
const CLEAR_DELAY: Duration = Duration::from_millis(500);
/// Steps of what does not wait, between two steps of a round: accounts into which mail comes
/// without end keep it from none.
const URGENT_STEPS_PER_STEP: usize = 4;

#[derive(Debug, Default)]
struct UpkeepRequests {
    stop: bool,
    now: bool,
    /// Accounts that have enough to fold, or whose queries asked for listings.
    due: BTreeSet<AccountId>,
    /// The account of these that was served last.
    served: AccountId,
    /// Since when there are remains of deleted rows.
    remains: Option<Stopwatch>,
}

impl UpkeepRequests {
    /// How long until remains are to be cleared, if there are any.
    fn time_to_clear(&self) -> Option<Duration> {
        self.remains.as_ref().map(|since| CLEAR_DELAY.saturating_sub(since.elapsed()))
    }
}

/// Gives way to who writes just now, `in_flight` by what the store says, up to a bound; `rest`
/// rests, and says whether to go on, as does this.
fn yield_while_writing(
    in_flight: impl Fn() -> usize,
    mut rest: impl FnMut(Duration) -> bool,
) -> bool {
    let mut waited = Duration::ZERO;
    while in_flight() > 0 && waited < MAX_YIELD {
        if !rest(BUSY_POLL_INTERVAL) {
            return false;
        }
        waited += BUSY_POLL_INTERVAL;
    }
    true
}

/// What is to be done.
enum UpkeepCommand {
    Stop,
    Round,
    Hurry,
    Clear,
}

#[derive(Debug, Default)]
pub(super) struct UpkeepWaker {
    wish: Mutex<UpkeepRequests>,
    rung: Condvar,
}

impl UpkeepWaker {
    fn notify(&self, wish: impl FnOnce(&mut UpkeepRequests)) {
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

    /// Waits until somebody wants something, or the time is over.
    fn wait(&self, time: Duration) -> UpkeepCommand {
        let mut wish = self.wish.lock();
        let watch = Stopwatch::start();
        loop {
            // A round that is due is not put off by what does not wait for it.
            let left = time.saturating_sub(watch.elapsed());
            let clears_in = wish.time_to_clear();
            if wish.stop {
                return UpkeepCommand::Stop;
            } else if wish.now || left.is_zero() {
                wish.now = false;
                return UpkeepCommand::Round;
            } else if !wish.due.is_empty() {
                return UpkeepCommand::Hurry;
            } else if clears_in.is_some_and(|left| left.is_zero()) {
                return UpkeepCommand::Clear;
            }
            self.rung.wait_for(&mut wish, clears_in.map_or(left, |clears_in| clears_in.min(left)));
        }
    }

    /// There are remains of deleted rows.
    pub(super) fn request_clear(&self) {
        if self.wish.lock().remains.is_none() {
            self.notify(|wish| wish.remains = Some(Stopwatch::start()));
        }
    }

    /// Takes the wish for remains to be cleared, where it is time.
    fn take_clear_request(&self) -> bool {
        let mut wish = self.wish.lock();
        let is_time = wish.time_to_clear().is_some_and(|left| left.is_zero());
        if is_time {
            wish.remains = None;
        }
        is_time
    }

    /// These accounts have something that does not wait for the next round.
    pub(super) fn request(&self, accounts: impl IntoIterator<Item = AccountId>) {
        self.notify(|wish| wish.due.extend(accounts));
    }

    /// Takes the accounts that do not wait, each in its turn: those behind the one that was served
    /// last come first.
    fn take_due(&self) -> Vec<AccountId> {
        let mut wish = self.wish.lock();
        let (due, served) = (std::mem::take(&mut wish.due), wish.served);
        due.range((Bound::Excluded(served), Bound::Unbounded))
            .chain(due.range(..=served))
            .copied()
            .collect()
    }

    fn serve(&self, account: AccountId) {
        self.wish.lock().served = account;
    }
}

/// Upkeep at work. Dropped, it stops as `stop` has it.
#[derive(Debug)]
pub struct UpkeepHandle {
    bell: Arc<UpkeepWaker>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Begins to work, in a thread of its own; the first round begins at once.
    ///
    /// # Errors
    /// No thread could be had.
    pub fn start(self) -> std::io::Result<UpkeepHandle> {
        let bell = Arc::new(UpkeepWaker::default());
        self.listen(&bell);
        let own = Arc::clone(&bell);
        let thread =
            std::thread::Builder::new().name("upkeep".into()).spawn(move || self.run(&own))?;
        Ok(UpkeepHandle { bell, thread: Some(thread) })
    }

    /// Counts the mail that comes into each account, and listens for requests of queries.
    fn listen(&self, bell: &Arc<UpkeepWaker>) {
        let waker = Arc::clone(bell);
        self.store.on_listing_request(move |account| waker.request([account]));
        let bell = Arc::clone(bell);
        let (enough, counts) =
            (FoldSizes::default().rows, Mutex::new(HashMap::<AccountId, usize>::new()));
        self.store.on_change(move |change| {
            let mut due = false;
            if change.types.iter().any(|(data, _)| *data == DataType::EmailDelivery) {
                let mut counts = counts.lock();
                let count = counts.entry(change.account).or_default();
                *count += 1;
                if *count >= enough {
                    counts.remove(&change.account);
                    due = true;
                }
            }
            if due {
                bell.request([change.account]);
            }
            if change.remains {
                bell.request_clear();
            }
        });
    }

    /// Clears remains of deleted rows, where it is time: readers step over them until then.
    fn clear(&self, bell: &UpkeepWaker) {
        if bell.take_clear_request() {
            match self.store.clear_remains() {
                Ok(true) => bell.request_clear(),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "remains of deleted rows are not cleared"),
            }
        }
    }

    /// Does what does not wait for the next round, so many steps of it at most; says whether to go
    /// on.
    pub(super) fn work_urgent(&self, bell: &UpkeepWaker, most: usize) -> bool {
        self.clear(bell);
        let mut steps = 0;
        while steps < most {
            let due = bell.take_due();
            if due.is_empty() {
                break;
            }
            let mut turns = due.iter();
            let go_on = |took| {
                steps += 1;
                // They take turns; once each had one, the order is theirs again.
                turns.next().into_iter().for_each(|account| bell.serve(*account));
                let goes_on = bell.rest(took * REST_FACTOR);
                self.clear(bell);
                goes_on && self.yield_to_writers(bell) && steps < most
            };
            match self.round_of_urgent(&due, go_on) {
                Ok(report) if report.complete => {
                    let (accounts, steps, made) = (report.accounts, report.steps, report.made);
                    tracing::debug!(
                        accounts,
                        steps,
                        made,
                        failed = report.failed,
                        "upkeep in between"
                    );
                }
                Ok(_) => bell.request(due),
                Err(error) => tracing::warn!(%error, "upkeep ended early; tried again next time"),
            }
            if !bell.rest(Duration::ZERO) {
                return false;
            }
        }
        bell.rest(Duration::ZERO)
    }

    /// Deliveries go first.
    fn yield_to_writers(&self, bell: &UpkeepWaker) -> bool {
        yield_while_writing(|| self.store.in_flight(), |time| bell.rest(time))
    }

    fn run(&self, bell: &UpkeepWaker) {
        loop {
            let watch = Stopwatch::start();
            let mut tired = Duration::ZERO;
            let done = self.round(|took| {
                tired += took * REST_FACTOR;
                let rest =
                    if tired < MIN_REST { Duration::ZERO } else { std::mem::take(&mut tired) };
                bell.rest(rest)
                    && self.work_urgent(bell, URGENT_STEPS_PER_STEP)
                    && self.yield_to_writers(bell)
            });
            match done {
                Ok(report) => tracing::info!(
                    accounts = report.accounts,
                    steps = report.steps,
                    emails = report.emails,
                    threads = report.threads,
                    thread_refs = report.thread_refs,
                    lists = report.lists,
                    made = report.made,
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
            loop {
                match bell.wait(every.saturating_sub(watch.elapsed())) {
                    UpkeepCommand::Round => break,
                    UpkeepCommand::Clear => self.clear(bell),
                    UpkeepCommand::Hurry if self.work_urgent(bell, URGENT_STEPS_PER_STEP) => {}
                    UpkeepCommand::Hurry | UpkeepCommand::Stop => return,
                }
            }
        }
    }
}

impl UpkeepHandle {
    /// Begins a round now, where none is under way; else another one after it.
    pub fn wake(&self) {
        self.bell.notify(|wish| wish.now = true);
    }

    /// Stops within the step that is under way, and waits for it. Not for an asynchronous task.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.bell.notify(|wish| wish.stop = true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("upkeep ended by a panic");
        }
    }
}

impl Drop for UpkeepHandle {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn who_does_not_wait_has_a_turn_before_another_has_a_second() {
        let (bell, accounts) = (UpkeepWaker::default(), |ids: &[u32]| {
            ids.iter().copied().map(AccountId).collect::<Vec<_>>()
        });
        for (served, due) in
            [(2, [3, 5, 1, 2]), (3, [5, 1, 2, 3]), (5, [1, 2, 3, 5]), (9, [1, 2, 3, 5])]
        {
            bell.serve(AccountId(served));
            bell.request(accounts(&[1, 2, 3, 5]));
            assert_eq!(bell.take_due(), accounts(&due));
            assert_eq!(bell.take_due(), []);
        }
    }

    #[test]
    fn a_round_that_is_due_is_not_put_off_by_what_is_in_a_hurry() {
        let bell = UpkeepWaker::default();
        bell.request([AccountId(1)]);
        assert!(matches!(bell.wait(Duration::from_secs(60)), UpkeepCommand::Hurry));
        assert!(matches!(bell.wait(Duration::ZERO), UpkeepCommand::Round));
    }

    #[test]
    fn it_gives_way_to_who_writes_and_never_starves() {
        // How many looks it takes until nobody writes, how long it then rested, and whether it went
        // on.
        let give = |busy: u32, stops_at: u32| {
            let (left, rests) = (Cell::new(busy), Cell::new(0u32));
            let in_flight = || usize::try_from(left.get()).unwrap();
            let on = yield_while_writing(in_flight, |time| {
                assert_eq!(time, BUSY_POLL_INTERVAL);
                left.set(left.get().saturating_sub(1));
                rests.set(rests.get() + 1);
                rests.get() < stops_at
            });
            (on, BUSY_POLL_INTERVAL * rests.get())
        };
        assert_eq!(give(0, 99), (true, Duration::ZERO), "nobody writes: no rest");
        assert_eq!(
            give(3, 99),
            (true, BUSY_POLL_INTERVAL * 3),
            "it goes on as soon as they are done"
        );
        assert_eq!(
            give(u32::MAX, u32::MAX),
            (true, MAX_YIELD),
            "under a load that never ends it goes on"
        );
        assert_eq!(give(9, 2), (false, BUSY_POLL_INTERVAL * 2), "who stops it does not wait");
    }
}
