//! The scheduler: chooses which actions are attempted next.
//!
//! - It holds a bounded window of the wake-ups that are due, and no messages. A wake-up (`Wakeup`)
//!   is a row that says when an action must be looked at.
//! - Urgent actions go first, also after a temporary refusal, and then the others. Both go by due
//!   time, whether they were read from the store, have rested, or return because the relay is down.
//!   Interrupted attempts of an earlier run, which only get a result, go before all.
//! - In each lane one action goes at a time. The lanes go side by side, as many as the site allows.
//!   An action with several recipients counts for the lane and the domain of its next one.
//! - While the relay is down nothing is tried. After each rest, or at once if a person asks for an
//!   action that is ready, one action probes the relay.
//! - A domain that refuses mail rests in the same way. An action that a person asks for is tried
//!   nevertheless.
//! - Rests are measured by monotonic time.

mod clock;
mod results;
mod window;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::{Id, JoinSet};

use super::attempt::{AttemptContext, AttemptResult};
use super::order::{ActionKey, RetryOrder};
use super::pool::RelayPool;
use super::settings::Settings;
use crate::account::Directory;
use crate::model::{AccountId, ActionId, LiveValue, MonotonicMillis, RelayTrouble, UtcMillis};
use crate::outbox::{Destinations, SendPermission, Trouble};
use crate::store::{Digest, Store, WakeCondition, Wakeup};

/// How many wake-ups are read at once; those that are in the window already do not count. Reading
/// stops when twice as many are ready. Interrupted attempts at the start, and wake-ups that return
/// to `ready`, may make them more.
const WAKEUPS_PER_READ: usize = 256;
/// The longest sleep of the worker, and the time between two clean-ups.
const MAX_SLEEP: Duration = Duration::from_secs(60);

pub(super) struct Scheduler {
    store: Store,
    directory: Directory,
    live_settings: LiveValue<Settings>,
    settings: Arc<Settings>,
    pool: Arc<RelayPool>,
    under_way: JoinSet<AttemptResult>,
    wakeups_by_task: HashMap<Id, Wakeup>,
    /// The lanes of the attempts that are under way.
    busy_lanes: HashSet<Digest>,
    /// Due wake-ups, in the order in which they are tried (`Scheduler::make_ready`).
    ready: VecDeque<Wakeup>,
    /// Wake-ups that are left alone until a time, after an attempt that could not be made or
    /// recorded, or a new due time that could not be stored.
    resting: HashMap<ActionKey, (MonotonicMillis, Wakeup)>,
    /// The actions that are ready, resting, under way, or held back by earlier mail.
    in_window: HashSet<ActionKey>,
    relay_trouble: Trouble,
    published_trouble: LiveValue<Option<RelayTrouble>>,
    destinations: Destinations,
    order: Arc<Mutex<RetryOrder>>,
    /// Actions whose attempts found earlier mail that goes first. `start_attempts` postpones them
    /// until the times given.
    held_back: Vec<(UtcMillis, Wakeup)>,
    /// Whether a person asked for an action that was ready already. If the relay rests, it is then
    /// probed at once.
    is_probe_requested: bool,
    /// The wall clock minus the monotonic time, in milliseconds, when they were last compared.
    clock_offset: Option<i64>,
    /// Whether another read of the queue may find more due wake-ups.
    may_have_more: bool,
    /// The earliest known due time of an action that is not due yet; after a read of the queue
    /// failed, perhaps the time of the next try.
    next_due: Option<UtcMillis>,
    /// The due time at which the next read of the queue begins among actions that are not urgent.
    scan_from: UtcMillis,
    last_cleanup: Option<MonotonicMillis>,
    /// The most actions that were in the window at once, for tests.
    max_in_window: Arc<AtomicUsize>,
}

/// The wall clock for times in rows, and the monotonic time for rests.
#[derive(Debug, Clone, Copy)]
struct CurrentTime {
    wall: UtcMillis,
    steady: MonotonicMillis,
}

fn action_key(wakeup: &Wakeup) -> ActionKey {
    (wakeup.account, wakeup.action)
}

impl Scheduler {
    pub(super) fn new(
        (store, directory): (Store, Directory),
        live_settings: LiveValue<Settings>,
        published_trouble: LiveValue<Option<RelayTrouble>>,
        max_in_window: Arc<AtomicUsize>,
    ) -> Self {
        let settings = live_settings.get();
        Self {
            store,
            directory,
            live_settings,
            settings,
            pool: Arc::default(),
            under_way: JoinSet::new(),
            wakeups_by_task: HashMap::new(),
            busy_lanes: HashSet::new(),
            ready: VecDeque::new(),
            resting: HashMap::new(),
            in_window: HashSet::new(),
            relay_trouble: Trouble::default(),
            published_trouble,
            destinations: Destinations::default(),
            order: Arc::default(),
            held_back: Vec::new(),
            is_probe_requested: false,
            clock_offset: None,
            may_have_more: true,
            next_due: None,
            scan_from: UtcMillis(0),
            last_cleanup: None,
            max_in_window,
        }
    }

    fn now(&self) -> CurrentTime {
        let clock = self.store.clock();
        CurrentTime { wall: clock.now(), steady: clock.steady() }
    }

    pub(super) fn note_work(&mut self) {
        self.may_have_more = true;
    }

    /// Starts the attempts that may start now. Returns how long the worker may sleep afterwards, if
    /// nothing wakes it and no attempt ends.
    pub(super) async fn start_attempts(&mut self) -> Duration {
        let now = self.now();
        self.refresh(now.steady);
        let mark = self.store.snapshot().queue_mark();
        match mark {
            Ok(mark) if mark.as_ref().is_none_or(|mark| mark.held.is_none()) => {}
            Ok(_) => return MAX_SLEEP,
            Err(error) => {
                tracing::error!(%error, "the queue's mark cannot be read");
                return MAX_SLEEP;
            }
        }
        self.pool.expire(self.settings.relay.idle_timeout).await;
        self.correct_due_times(now).await;
        if self.last_cleanup.is_none_or(|last| now.steady.since(last) >= MAX_SLEEP) {
            self.clean_up(now).await;
        }
        if self.may_have_more || self.next_due.is_some_and(|next| next <= now.wall) {
            self.fill_window(now.wall);
        }
        let mut deferred = self.pick(now);
        deferred.append(&mut self.held_back);
        self.defer(deferred, now).await;
        self.max_in_window.fetch_max(self.in_window.len(), Ordering::Relaxed);
        self.sleep_time(now)
    }

    /// Returns how long until something may be due: a read of the queue, the end of a rest, or an
    /// idle connection to close.
    fn sleep_time(&self, now: CurrentTime) -> Duration {
        let mut wait = if self.pool.is_empty() {
            MAX_SLEEP
        } else {
            self.settings.relay.idle_timeout.min(MAX_SLEEP)
        };
        let has_room = self.under_way.len() < self.settings.concurrency.max(1);
        let is_relay_well = self.relay_trouble.is_none();
        if self.may_have_more
            && has_room
            && self.ready.len() < WAKEUPS_PER_READ / 2
            && is_relay_well
        {
            return Duration::ZERO;
        }
        if let SendPermission::NotBefore(until) = self.relay_trouble.permission(now.steady) {
            return wait.min(until.since(now.steady));
        }
        // Without room, the end of an attempt wakes the worker.
        if has_room {
            wait = self.next_due.map_or(wait, |next| wait.min(next.since(now.wall)));
        }
        self.resting.values().map(|(until, _)| until.since(now.steady)).fold(wait, Duration::min)
    }

    fn clear_relay_trouble(&mut self) {
        self.relay_trouble = Trouble::default();
        if self.published_trouble.get().is_some() {
            self.published_trouble.set(None);
        }
    }

    /// Takes over changed settings, and makes the wake-ups ready whose rest is over. With another
    /// relay, what was learned of the relay and the destinations is forgotten.
    fn refresh(&mut self, now: MonotonicMillis) {
        let newest = self.live_settings.get();
        if newest.relay != self.settings.relay {
            self.clear_relay_trouble();
            self.destinations = Destinations::default();
            self.pool = Arc::default();
        }
        self.settings = newest;
        let rested: Vec<Wakeup> =
            self.resting.extract_if(|_, (until, _)| *until <= now).map(|(_, (_, at))| at).collect();
        rested.into_iter().for_each(|wakeup| self.make_ready(wakeup));
    }

    /// Adds a wake-up to `ready`, in the order of the store: by class, due time, account, action.
    fn make_ready(&mut self, wakeup: Wakeup) {
        let turn = |wakeup: &Wakeup| (wakeup.wake, wakeup.account, wakeup.action);
        let index = self.ready.partition_point(|ready| turn(ready) < turn(&wakeup));
        self.ready.insert(index, wakeup);
    }

    /// Starts as many attempts as may be under way. Returns the wake-ups to postpone, and
    /// until when; they are not ready any more.
    fn pick(&mut self, now: CurrentTime) -> Vec<(UtcMillis, Wakeup)> {
        let mut room = self.settings.concurrency.max(1).saturating_sub(self.under_way.len());
        let mut deferred = Vec::new();
        match self.relay_trouble.permission(now.steady) {
            // One action is enough to find out whether the relay is back.
            SendPermission::Go if !self.relay_trouble.is_none() => {
                room = usize::from(self.under_way.is_empty());
            }
            SendPermission::Go => {}
            SendPermission::NotBefore(_)
                if self.is_probe_requested && self.under_way.is_empty() =>
            {
                room = 1;
            }
            SendPermission::Probing | SendPermission::NotBefore(_) => return deferred,
        }
        self.is_probe_requested = false;
        let mut index = 0;
        while let Some(wakeup) = self.ready.get(index).copied().filter(|_| room > 0) {
            let is_wanted = matches!(wakeup.wake, WakeCondition::Urgent(_))
                && self.order.lock().is_wanted_now(action_key(&wakeup), now.wall);
            let permission = if is_wanted {
                SendPermission::Go
            } else {
                self.destinations.permission(wakeup.domain, now.steady)
            };
            match permission {
                _ if self.busy_lanes.contains(&wakeup.lane) => index += 1,
                // So many actions depend on probes of their domains that they would keep others out
                // of the window.
                SendPermission::Probing if index > WAKEUPS_PER_READ / 2 => {
                    self.ready.remove(index);
                    deferred.push((now.wall.after(self.settings.retry.first), wakeup));
                }
                SendPermission::Probing => index += 1,
                SendPermission::NotBefore(until) => {
                    self.ready.remove(index);
                    deferred.push((now.wall.after(until.since(now.steady)), wakeup));
                }
                SendPermission::Go => {
                    self.ready.remove(index);
                    self.destinations.begin_probe(wakeup.domain);
                    self.relay_trouble.begin_probe();
                    self.busy_lanes.insert(wakeup.lane);
                    let context = AttemptContext {
                        store: self.store.clone(),
                        directory: self.directory.clone(),
                        settings: Arc::clone(&self.settings),
                        pool: Arc::clone(&self.pool),
                        order: Arc::clone(&self.order),
                    };
                    let task = self.under_way.spawn(context.carry_out(action_key(&wakeup)));
                    self.wakeups_by_task.insert(task.id(), wakeup);
                    room = if self.relay_trouble.is_none() { room - 1 } else { 0 };
                }
            }
        }
        deferred
    }

    /// Stores new due times of actions and removes the actions from the window. An action whose
    /// time cannot be stored stays in the window, and rests. Of an action that was changed since it
    /// was read, nothing is stored or remembered.
    async fn defer(&mut self, deferred: Vec<(UtcMillis, Wakeup)>, now: CurrentTime) {
        let mut groups: BTreeMap<(AccountId, UtcMillis), Vec<(ActionId, Wakeup)>> = BTreeMap::new();
        for (until, wakeup) in deferred {
            groups.entry((wakeup.account, until)).or_default().push((wakeup.action, wakeup));
        }
        for ((account, until), actions) in groups {
            let conditions: Vec<(ActionId, WakeCondition)> =
                actions.iter().map(|(id, wakeup)| (*id, wakeup.wake)).collect();
            let committed = self.store.commit(account, |txn| txn.defer_actions(&conditions, until));
            let result = match committed {
                Ok((moved, ticket)) => ticket.wait().await.map(|()| moved),
                Err(error) => Err(error),
            };
            if let Err(error) = &result {
                tracing::error!(%account, %error, "actions could not be postponed");
            }
            for (_, wakeup) in actions {
                match &result {
                    Ok(moved) => {
                        let key = action_key(&wakeup);
                        self.in_window.remove(&key);
                        let mut order = self.order.lock();
                        // If `order` postpones the action at least to `until` already, an attempt
                        // did that, for all its lanes.
                        let is_remembered =
                            order.is_early(key, until.before(Duration::from_millis(1)));
                        if moved.contains(&wakeup.action) && !is_remembered {
                            order.postpone(key, vec![wakeup.lane], until);
                        }
                    }
                    Err(_) => self.set_to_rest(wakeup, now.steady),
                }
            }
            self.next_due = Some(self.next_due.map_or(until, |next| next.min(until)));
        }
    }

    /// Leaves a wake-up alone for four times the first pause of the relay: a minute by default.
    fn set_to_rest(&mut self, wakeup: Wakeup, now: MonotonicMillis) {
        let until = now.after(self.settings.relay_pause.saturating_mul(4));
        self.resting.insert(action_key(&wakeup), (until, wakeup));
    }
}

#[cfg(test)]
mod tests;
