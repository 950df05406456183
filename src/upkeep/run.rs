//! The thread of upkeep: when it works, when it rests, and how it is stopped.
//!
//! Urgent work is done between two turns of a round, and between rounds:
//!
//! - folding, when enough mail has arrived in an account, because searches read unfolded mail row
//!   by row;
//! - listings that a query requested, because until they are complete each such query may read
//!   the whole mailbox.
//!
//! The remains of deleted rows (what they leave in the files, `Store::clear_remains`) are cleared
//! soon after the deletion.

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

/// How many times as long as a turn the thread rests after it, if others write.
const REST_FACTOR: u32 = 4;
/// The same if nobody else writes.
const IDLE_REST_FACTOR: u32 = 1;
/// Shorter rests of a round are added up until they reach this time.
const MIN_REST: Duration = Duration::from_millis(5);
/// The time between two looks whether others still write.
const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The longest wait for other writers before a turn, so that upkeep goes on under endless load.
const MAX_YIELD: Duration = Duration::from_millis(50);
/// The time from the report of remains until they are cleared. Remains that are reported in between
/// are cleared with them.
const CLEAR_DELAY: Duration = Duration::from_millis(500);
/// Bounds the urgent turns between two turns of a round, so that the round goes on however much
/// mail arrives.
const URGENT_TURNS_PER_TURN: usize = 4;

#[derive(Debug, Default)]
struct UpkeepRequests {
    stop: bool,
    /// Whether to begin a round at once.
    now: bool,
    urgent: BTreeSet<AccountId>,
    /// The account that had the last turn of urgent work. Further turns of the same accounts, after
    /// each had one, do not count.
    last_served: AccountId,
    /// Runs since remains of deleted rows were reported; `None` if none are reported.
    remains: Option<Stopwatch>,
}

impl UpkeepRequests {
    /// Returns how long until remains are to be cleared; `None` if none were reported.
    fn time_to_clear(&self) -> Option<Duration> {
        self.remains.as_ref().map(|since| CLEAR_DELAY.saturating_sub(since.elapsed()))
    }
}

/// Returns how long the thread is to rest after a turn, at whose end this many writes of others are
/// under way.
fn rest_after(took: Duration, in_flight: usize) -> Duration {
    took * if in_flight > 0 { REST_FACTOR } else { IDLE_REST_FACTOR }
}

/// Waits while `in_flight` counts other writes, for at most `MAX_YIELD`. Returns whether upkeep may
/// go on: `false`, at once, if `rest` returns `false`.
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

enum UpkeepCommand {
    Stop,
    Round,
    Urgent,
    Clear,
}

/// What other threads ask of the upkeep thread. The thread sleeps here between its turns.
#[derive(Debug, Default)]
pub(super) struct UpkeepWaker {
    requests: Mutex<UpkeepRequests>,
    wakeup: Condvar,
}

impl UpkeepWaker {
    fn notify(&self, requests: impl FnOnce(&mut UpkeepRequests)) {
        requests(&mut self.requests.lock());
        self.wakeup.notify_all();
    }

    /// Rests for `time`, or until upkeep is stopped. Returns whether to continue; a `time` of zero
    /// only asks that.
    fn rest(&self, time: Duration) -> bool {
        let mut requests = self.requests.lock();
        let watch = Stopwatch::start();
        while !requests.stop
            && let Some(left) = time.checked_sub(watch.elapsed()).filter(|left| !left.is_zero())
        {
            self.wakeup.wait_for(&mut requests, left);
        }
        !requests.stop
    }

    /// Waits for a request. Of several, a stop is returned first, then a round, urgent work, and
    /// clearing. After `time` a round is due.
    fn wait(&self, time: Duration) -> UpkeepCommand {
        let mut requests = self.requests.lock();
        let watch = Stopwatch::start();
        loop {
            let left = time.saturating_sub(watch.elapsed());
            let clears_in = requests.time_to_clear();
            if requests.stop {
                return UpkeepCommand::Stop;
            } else if requests.now || left.is_zero() {
                requests.now = false;
                return UpkeepCommand::Round;
            } else if !requests.urgent.is_empty() {
                return UpkeepCommand::Urgent;
            } else if clears_in.is_some_and(|left| left.is_zero()) {
                return UpkeepCommand::Clear;
            }
            self.wakeup
                .wait_for(&mut requests, clears_in.map_or(left, |clears_in| clears_in.min(left)));
        }
    }

    pub(super) fn request_clear(&self) {
        if self.requests.lock().remains.is_none() {
            self.notify(|requests| requests.remains = Some(Stopwatch::start()));
        }
    }

    /// Takes the request to clear remains if `CLEAR_DELAY` is over. Returns whether the request was
    /// taken.
    fn take_clear_request(&self) -> bool {
        let mut requests = self.requests.lock();
        let is_time = requests.time_to_clear().is_some_and(|left| left.is_zero());
        if is_time {
            requests.remains = None;
        }
        is_time
    }

    pub(super) fn request_urgent(&self, accounts: impl IntoIterator<Item = AccountId>) {
        self.notify(|requests| requests.urgent.extend(accounts));
    }

    /// Takes the accounts with urgent work, beginning with those after the one served last.
    fn take_urgent(&self) -> Vec<AccountId> {
        let mut requests = self.requests.lock();
        let (urgent, last_served) = (std::mem::take(&mut requests.urgent), requests.last_served);
        urgent
            .range((Bound::Excluded(last_served), Bound::Unbounded))
            .chain(urgent.range(..=last_served))
            .copied()
            .collect()
    }

    fn record_turn(&self, account: AccountId) {
        self.requests.lock().last_served = account;
    }
}

/// Dropping the handle stops the thread, like `stop`.
#[derive(Debug)]
pub struct UpkeepHandle {
    waker: Arc<UpkeepWaker>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Starts the thread of upkeep. The first round begins at once.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(self) -> std::io::Result<UpkeepHandle> {
        let waker = Arc::new(UpkeepWaker::default());
        self.listen(&waker);
        let thread_waker = Arc::clone(&waker);
        let thread = std::thread::Builder::new()
            .name("upkeep".into())
            .spawn(move || self.run(&thread_waker))?;
        Ok(UpkeepHandle { waker, thread: Some(thread) })
    }

    /// Registers for listing requests, for reports of remains, and for new mail. The commits of new
    /// mail are counted for each account; after `FoldSizes::rows` of them, folding is urgent.
    fn listen(&self, waker: &Arc<UpkeepWaker>) {
        let listing_waker = Arc::clone(waker);
        self.store.on_listing_request(move |account| listing_waker.request_urgent([account]));
        let waker = Arc::clone(waker);
        let (max_unfolded, counts) =
            (FoldSizes::default().rows, Mutex::new(HashMap::<AccountId, usize>::new()));
        self.store.on_change(move |change| {
            let mut urgent = false;
            if change.types.iter().any(|(data, _)| *data == DataType::EmailDelivery) {
                let mut counts = counts.lock();
                let count = counts.entry(change.account).or_default();
                *count += 1;
                if *count >= max_unfolded {
                    counts.remove(&change.account);
                    urgent = true;
                }
            }
            if urgent {
                waker.request_urgent([change.account]);
            }
            if change.remains {
                waker.request_clear();
            }
        });
    }

    /// Clears remains of deleted rows if it is time. What is left then is cleared another time.
    /// Readers have to skip remains until they are cleared.
    fn clear(&self, waker: &UpkeepWaker) {
        if waker.take_clear_request() {
            match self.store.clear_remains() {
                Ok(true) => waker.request_clear(),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "remains of deleted rows were not cleared"),
            }
        }
    }

    /// Runs at most `max_turns` turns of urgent work. If the turns are used up, all accounts of the
    /// work are requested again; if the store takes no writes, they are left to the next round.
    /// Returns `false` if upkeep must stop.
    pub(super) fn work_urgent(&self, waker: &UpkeepWaker, max_turns: usize) -> bool {
        self.clear(waker);
        let mut turns_taken = 0;
        while turns_taken < max_turns {
            let urgent = waker.take_urgent();
            if urgent.is_empty() {
                break;
            }
            let mut turns = urgent.iter();
            let after_turn = |took| {
                turns_taken += 1;
                // In the first pass each account has one turn, in this order.
                turns.next().into_iter().for_each(|account| waker.record_turn(*account));
                let is_running = waker.rest(self.rest_after(took));
                self.clear(waker);
                is_running && self.yield_to_writers(waker) && turns_taken < max_turns
            };
            match self.round_of_urgent(&urgent, after_turn) {
                Ok(report) if report.complete => {
                    let (accounts, steps, made) =
                        (report.accounts, report.steps, report.completed_listings);
                    tracing::debug!(
                        accounts,
                        steps,
                        made,
                        failed = report.failures,
                        "urgent upkeep"
                    );
                }
                Ok(_) => waker.request_urgent(urgent),
                Err(error) => tracing::warn!(%error, "upkeep ended early; tried again next time"),
            }
            if !waker.rest(Duration::ZERO) {
                return false;
            }
        }
        waker.rest(Duration::ZERO)
    }

    fn rest_after(&self, took: Duration) -> Duration {
        rest_after(took, self.store.in_flight())
    }

    /// Waits for other writers as `yield_while_writing` does. Returns whether to continue.
    fn yield_to_writers(&self, waker: &UpkeepWaker) -> bool {
        yield_while_writing(|| self.store.in_flight(), |time| waker.rest(time))
    }

    fn run(&self, waker: &UpkeepWaker) {
        loop {
            let watch = Stopwatch::start();
            let mut owed_rest = Duration::ZERO;
            let result = self.round(|took| {
                owed_rest += self.rest_after(took);
                let rest = if owed_rest < MIN_REST {
                    Duration::ZERO
                } else {
                    std::mem::take(&mut owed_rest)
                };
                waker.rest(rest)
                    && self.work_urgent(waker, URGENT_TURNS_PER_TURN)
                    && self.yield_to_writers(waker)
            });
            match result {
                Ok(report) => tracing::info!(
                    accounts = report.accounts,
                    steps = report.steps,
                    emails = report.emails,
                    threads = report.threads,
                    thread_refs = report.thread_refs,
                    lists = report.dropped_listings,
                    made = report.completed_listings,
                    messages = report.messages,
                    octets = report.bytes,
                    moved = report.moved_messages,
                    reclaimed = report.reclaimed_bytes,
                    failed = report.failures,
                    complete = report.complete,
                    ms = watch.elapsed().as_millis(),
                    "upkeep"
                ),
                Err(error) => tracing::warn!(%error, "upkeep ended early; tried again next time"),
            }
            let interval = self.settings.get().interval;
            loop {
                match waker.wait(interval.saturating_sub(watch.elapsed())) {
                    UpkeepCommand::Round => break,
                    UpkeepCommand::Clear => self.clear(waker),
                    UpkeepCommand::Urgent if self.work_urgent(waker, URGENT_TURNS_PER_TURN) => {}
                    UpkeepCommand::Urgent | UpkeepCommand::Stop => return,
                }
            }
        }
    }
}

impl UpkeepHandle {
    /// Asks for a round, which begins now or after the current one.
    pub fn wake(&self) {
        self.waker.notify(|requests| requests.now = true);
    }

    /// Stops upkeep after the current turn, and waits for the thread to end. Blocks, so an
    /// asynchronous task must not call it.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.waker.notify(|requests| requests.stop = true);
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
    fn urgent_work_begins_after_the_account_that_was_served_last() {
        let (waker, accounts) = (UpkeepWaker::default(), |ids: &[u32]| {
            ids.iter().copied().map(AccountId).collect::<Vec<_>>()
        });
        for (last_served, urgent) in
            [(2, [3, 5, 1, 2]), (3, [5, 1, 2, 3]), (5, [1, 2, 3, 5]), (9, [1, 2, 3, 5])]
        {
            waker.record_turn(AccountId(last_served));
            waker.request_urgent(accounts(&[1, 2, 3, 5]));
            assert_eq!(waker.take_urgent(), accounts(&urgent));
            assert_eq!(waker.take_urgent(), []);
        }
    }

    #[test]
    fn upkeep_leaves_most_of_the_time_to_writers_and_half_of_it_to_readers() {
        let turn = Duration::from_millis(3);
        assert_eq!(rest_after(turn, 0), Duration::from_millis(3));
        assert_eq!(rest_after(turn, 1), Duration::from_millis(12));
    }

    #[test]
    fn due_round_goes_before_urgent_work() {
        let waker = UpkeepWaker::default();
        waker.request_urgent([AccountId(1)]);
        assert!(matches!(waker.wait(Duration::from_secs(60)), UpkeepCommand::Urgent));
        assert!(matches!(waker.wait(Duration::ZERO), UpkeepCommand::Round));
    }

    #[test]
    fn upkeep_yields_to_writers_for_a_bounded_time() {
        // `busy` is the number of polls until nobody writes. Returns whether upkeep went on, and
        // how long it rested.
        let yield_for = |busy: u32, stops_at: u32| {
            let (left, rests) = (Cell::new(busy), Cell::new(0u32));
            let in_flight = || usize::try_from(left.get()).unwrap();
            let continues = yield_while_writing(in_flight, |time| {
                assert_eq!(time, BUSY_POLL_INTERVAL);
                left.set(left.get().saturating_sub(1));
                rests.set(rests.get() + 1);
                rests.get() < stops_at
            });
            (continues, BUSY_POLL_INTERVAL * rests.get())
        };
        assert_eq!(yield_for(0, 99), (true, Duration::ZERO), "nobody writes: no rest");
        assert_eq!(
            yield_for(3, 99),
            (true, BUSY_POLL_INTERVAL * 3),
            "goes on as soon as the writers are done"
        );
        assert_eq!(
            yield_for(u32::MAX, u32::MAX),
            (true, MAX_YIELD),
            "goes on under a load that never ends"
        );
        assert_eq!(yield_for(9, 2), (false, BUSY_POLL_INTERVAL * 2), "stopping does not wait");
    }
}
