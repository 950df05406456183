//! What goes next. Of what is due a window is held, and no more: the wake-ups, without any message.
//!
//! - What a person waits for goes first, also after it was refused for now; else what is due first.
//! - To one recipient from one account one after the other (`order`); all else at once, as many as
//!   the site allows.
//! - The relay is one for all: while it is out of order nothing is tried, and no action's own
//!   attempts are spent on it; then one action asks.
//! - A domain that refuses rests likewise: what would go there is put off until one has got
//!   through. What a person asks for just now is tried nevertheless.
//! - Rests are measured by this process's own time; times in rows that a clock which was set back
//!   left too far ahead are brought back.

mod clock;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;

use super::attempt::{AttemptContext, AttemptResult, DestinationHealth, RelayHealth, lanes};
use super::order::{ActionKey, RetryOrder};
use super::pool::RelayPool;
use super::settings::Settings;
use crate::account::Directory;
use crate::model::{
    AccountId, ActionId, ActionState, LiveValue, MonotonicMillis, RelayTrouble, UtcMillis, limits,
};
use crate::outbox::{
    Destinations, DomainDigest, RetrySchedule, SendPermission, Trouble, is_delayed,
};
use crate::store::{Error, Store, WakeCondition, Wakeup};

/// Wake-ups that are held, beside those under way.
const MAX_HELD_WAKEUPS: usize = 256;
/// The longest sleep: whatever else may have happened is seen then.
const MAX_SLEEP: Duration = Duration::from_secs(60);
/// How far behind the first wake-up the next look begins: a commit may be visible later than one
/// that began after it.
const VISIBILITY_LAG: Duration = Duration::from_secs(5);
/// Actions that were half attempted when the service ended: no more than were under way.
const MAX_HALF_ATTEMPTED: usize = 10_000;

/// The state of the work.
pub(super) struct Scheduler {
    store: Store,
    directory: Directory,
    live: LiveValue<Settings>,
    settings: Arc<Settings>,
    pool: Arc<RelayPool>,
    under_way: JoinSet<AttemptResult>,
    tasks: HashMap<Id, Wakeup>,
    lanes: HashSet<DomainDigest>,
    ready: VecDeque<Wakeup>,
    resting: HashMap<ActionKey, (MonotonicMillis, Wakeup)>,
    /// All of the above.
    known: HashSet<ActionKey>,
    relay: Trouble,
    /// The same for those who look at the queue.
    trouble: LiveValue<Option<RelayTrouble>>,
    destinations: Destinations,
    order: Arc<Mutex<RetryOrder>>,
    /// What was found to wait for earlier mail, and until when.
    behind: Vec<(UtcMillis, Wakeup)>,
    /// Whether a person asks for something that waits for the relay: it is asked before its time.
    asked_for: bool,
    /// What the wall clock shows beyond the process's own time: less than before where it was set
    /// back.
    ahead: Option<i64>,
    /// Whether another look may find more.
    more: bool,
    next: Option<UtcMillis>,
    /// Where the next look begins.
    from: UtcMillis,
    swept: Option<MonotonicMillis>,
    most: Arc<AtomicUsize>,
}

/// The time of one look: what o'clock it is, for times in rows, and the process's own time, for
/// rests.
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
        live: LiveValue<Settings>,
        trouble: LiveValue<Option<RelayTrouble>>,
        most: Arc<AtomicUsize>,
    ) -> Self {
        let settings = live.get();
        Self {
            store,
            directory,
            live,
            settings,
            pool: Arc::default(),
            under_way: JoinSet::new(),
            tasks: HashMap::new(),
            lanes: HashSet::new(),
            ready: VecDeque::new(),
            resting: HashMap::new(),
            known: HashSet::new(),
            relay: Trouble::default(),
            trouble,
            destinations: Destinations::default(),
            order: Arc::default(),
            behind: Vec::new(),
            asked_for: false,
            ahead: None,
            more: true,
            next: None,
            from: UtcMillis(0),
            swept: None,
            most,
        }
    }

    fn now(&self) -> CurrentTime {
        let clock = self.store.clock();
        CurrentTime { wall: clock.now(), steady: clock.steady() }
    }

    /// What an earlier run of the service left half attempted is looked at first; and what it put
    /// off is remembered.
    pub(super) fn recover(&mut self) {
        let half = self
            .store
            .snapshot()
            .wakeups(WakeCondition::Attempting(UtcMillis(0)), MAX_HALF_ATTEMPTED);
        match half {
            Ok(half) => half.into_iter().for_each(|wakeup| self.add_wakeup(wakeup, false)),
            Err(error) => tracing::error!(%error, "what was half attempted cannot be read"),
        }
        if let Err(error) = self.remember() {
            tracing::error!(%error, "what was put off cannot be read: later mail may go before it");
        }
    }

    fn remember(&self) -> Result<(), Error> {
        let (now, view) = (self.store.clock().now(), self.store.snapshot());
        for from in [WakeCondition::Urgent(now), WakeCondition::Due(now)] {
            for wakeup in view.wakeups(from, limits::MAX_POSTPONED_ACTIONS)? {
                let (account, id) = action_key(&wakeup);
                if let Some(action) = view.action(account, id)?.filter(|action| !is_delayed(action))
                {
                    self.order.lock().wait((account, id), lanes(account, &action), action.due);
                }
            }
        }
        Ok(())
    }

    /// Something was queued or changed.
    pub(super) fn note_work(&mut self) {
        self.more = true;
    }

    /// Begins what may begin now; says how long nothing else will.
    pub(super) async fn begin(&mut self) -> Duration {
        let now = self.now();
        self.settle(now.steady);
        let mark = self.store.snapshot().queue_mark();
        match mark {
            Ok(mark) if mark.as_ref().is_none_or(|mark| mark.held.is_none()) => {}
            Ok(_) => return MAX_SLEEP,
            Err(error) => {
                tracing::error!(%error, "the queue's mark cannot be read");
                return MAX_SLEEP;
            }
        }
        self.pool.expire(self.settings.relay.idle).await;
        self.bring_back(now).await;
        if self.swept.is_none_or(|last| now.steady.since(last) >= MAX_SLEEP) {
            self.sweep(now).await;
        }
        if self.more || self.next.is_some_and(|next| next <= now.wall) {
            self.fill_window(now.wall);
        }
        let mut put_off = self.pick(now);
        put_off.append(&mut self.behind);
        self.put_off(put_off, now).await;
        self.most.fetch_max(self.known.len(), Ordering::Relaxed);
        self.sleep(now)
    }

    fn sleep(&self, now: CurrentTime) -> Duration {
        let mut wait =
            if self.pool.is_empty() { MAX_SLEEP } else { self.settings.relay.idle.min(MAX_SLEEP) };
        let room = self.under_way.len() < self.settings.concurrency.max(1);
        if self.more && room && self.ready.len() < MAX_HELD_WAKEUPS / 2 && self.relay.is_none() {
            return Duration::ZERO;
        }
        if let SendPermission::Not(until) = self.relay.may(now.steady) {
            return wait.min(until.since(now.steady));
        }
        if room {
            wait = self.next.map_or(wait, |next| wait.min(next.since(now.wall)));
        }
        self.resting.values().map(|(until, _)| until.since(now.steady)).fold(wait, Duration::min)
    }

    fn relay_is_well(&mut self) {
        self.relay = Trouble::default();
        if self.trouble.get().is_some() {
            self.trouble.set(None);
        }
    }

    /// Takes new settings, and what has rested.
    fn settle(&mut self, now: MonotonicMillis) {
        let newest = self.live.get();
        if newest.relay != self.settings.relay {
            // What was found out about the old relay says nothing about the new one.
            self.relay_is_well();
            self.destinations = Destinations::default();
            self.pool = Arc::default();
        }
        self.settings = newest;
        let rested: Vec<ActionKey> = self
            .resting
            .iter()
            .filter(|(_, (until, _))| *until <= now)
            .map(|(key, _)| *key)
            .collect();
        for wakeup in rested
            .iter()
            .filter_map(|key| self.resting.remove(key))
            .map(|(_, wakeup)| wakeup)
            .collect::<Vec<_>>()
        {
            self.ready.push_front(wakeup);
        }
    }

    /// Forgets what was kept for its time, and looks from the beginning again.
    async fn sweep(&mut self, now: CurrentTime) {
        (self.swept, self.from, self.more) = (Some(now.steady), UtcMillis(0), true);
        let now = now.wall;
        let over = self
            .store
            .snapshot()
            .wakeups(WakeCondition::Forget(UtcMillis(0)), MAX_HELD_WAKEUPS)
            .unwrap_or_default();
        for wakeup in over
            .iter()
            .filter(|wakeup| matches!(wakeup.wake, WakeCondition::Forget(at) if at <= now))
        {
            let (account, id) = action_key(wakeup);
            let done = self.store.commit(account, |txn| {
                let action = txn.action(id)?;
                if action.state == ActionState::Sent && action.due <= now {
                    txn.complete_action(id)?;
                }
                Ok(())
            });
            if let Ok(((), ticket)) = done
                && let Err(error) = ticket.wait().await
            {
                tracing::error!(%account, action = %id, %error, "what was sent long ago could not be forgotten");
            }
        }
    }

    /// Fills the window: what a person waits for, then the rest, by time. While it is half full the
    /// rest is not looked for.
    fn fill_window(&mut self, now: UtcMillis) {
        let is_filled = self.ready.len() >= MAX_HELD_WAKEUPS / 2;
        let known_next = self.next.filter(|_| is_filled);
        (self.more, self.next) = (is_filled, known_next);
        let mut later = |at: UtcMillis| self.next = Some(self.next.map_or(at, |next| next.min(at)));
        let limit = MAX_HELD_WAKEUPS.saturating_add(self.known.len());
        let snapshot = self.store.snapshot();
        let found =
            snapshot.wakeups(WakeCondition::Urgent(UtcMillis(0)), limit).and_then(|urgent| {
                let limit = if is_filled { 0 } else { limit };
                snapshot.wakeups(WakeCondition::Due(self.from), limit).map(|usual| (urgent, usual))
            });
        let (urgent, usual) = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "the queue cannot be read");
                return later(now.after(self.settings.relay_pause));
            }
        };
        // Beyond one that is not due there is none that is.
        let is_full = |found: &[Wakeup]| {
            found.len() >= limit
                && found.last().is_none_or(
                    |last| matches!(last.wake, WakeCondition::Urgent(at) | WakeCondition::Due(at) if at <= now),
                )
        };
        let full = is_full(&usual) || is_full(&urgent);
        if let Some(Wakeup { wake: WakeCondition::Due(first), .. }) = usual.first() {
            // What is queued from now on is due now, and stands before what waits for later.
            self.from = (*first).min(now).before(VISIBILITY_LAG);
        }
        let mut due: Vec<(Wakeup, bool)> = Vec::new();
        for (wakeup, is_urgent) in urgent
            .into_iter()
            .map(|wakeup| (wakeup, true))
            .chain(usual.into_iter().map(|wakeup| (wakeup, false)))
        {
            match wakeup.wake {
                WakeCondition::Urgent(at) | WakeCondition::Due(at) if at > now => later(at),
                _ => due.push((wakeup, is_urgent)),
            }
        }
        drop(snapshot);
        for (wakeup, _) in due.iter().filter(|(_, is_urgent)| *is_urgent) {
            let place = self
                .ready
                .iter()
                .position(|one| action_key(one) == action_key(wakeup) && one.wake != wakeup.wake);
            if place.and_then(|at| self.ready.remove(at)).is_some() {
                // It waited here already, and a person asks for it now.
                self.known.remove(&action_key(wakeup));
                self.asked_for = true;
            }
        }
        let due: Vec<(Wakeup, bool)> = due
            .into_iter()
            .filter(|(wakeup, _)| !self.known.contains(&action_key(wakeup)))
            .collect();
        // What does not fit is looked for when there is room again.
        let room = (2 * MAX_HELD_WAKEUPS).saturating_sub(self.ready.len());
        self.more |= full || due.len() > room;
        for (wakeup, is_urgent) in due.into_iter().take(room) {
            self.add_wakeup(wakeup, is_urgent);
        }
    }

    fn add_wakeup(&mut self, wakeup: Wakeup, is_urgent: bool) {
        if !self.known.insert(action_key(&wakeup)) {
            return;
        }
        if is_urgent {
            let place = self
                .ready
                .iter()
                .take_while(|one| matches!(one.wake, WakeCondition::Urgent(_)))
                .count();
            self.ready.insert(place, wakeup);
        } else {
            self.ready.push_back(wakeup);
        }
    }

    /// Begins as many as may be under way; gives those that are to be put off, and until when.
    fn pick(&mut self, now: CurrentTime) -> Vec<(UtcMillis, Wakeup)> {
        let mut room = self.settings.concurrency.max(1).saturating_sub(self.under_way.len());
        let mut put_off = Vec::new();
        match self.relay.may(now.steady) {
            // After a failure of the relay one action is enough to find out whether it is back.
            SendPermission::Go if !self.relay.is_none() => {
                room = usize::from(self.under_way.is_empty())
            }
            SendPermission::Go => {}
            SendPermission::Not(_) if self.asked_for && self.under_way.is_empty() => room = 1,
            SendPermission::Asking | SendPermission::Not(_) => return put_off,
        }
        self.asked_for = false;
        let mut at = 0;
        while let Some(wakeup) = self.ready.get(at).copied().filter(|_| room > 0) {
            let is_wanted = matches!(wakeup.wake, WakeCondition::Urgent(_))
                && self.order.lock().is_wanted_now(action_key(&wakeup), now.wall);
            let may = if is_wanted {
                SendPermission::Go
            } else {
                self.destinations.may(wakeup.domain, now.steady)
            };
            match may {
                _ if self.lanes.contains(&wakeup.lane) => at += 1,
                // They fill the window, while others could go.
                SendPermission::Asking if at > MAX_HELD_WAKEUPS / 2 => {
                    self.ready.remove(at);
                    put_off.push((now.wall.after(self.settings.pace.first), wakeup));
                }
                SendPermission::Asking => at += 1,
                SendPermission::Not(until) => {
                    self.ready.remove(at);
                    put_off.push((now.wall.after(until.since(now.steady)), wakeup));
                }
                SendPermission::Go => {
                    self.ready.remove(at);
                    self.destinations.begin_probe(wakeup.domain);
                    self.relay.begin_probe();
                    self.lanes.insert(wakeup.lane);
                    let office = AttemptContext {
                        store: self.store.clone(),
                        directory: self.directory.clone(),
                        settings: Arc::clone(&self.settings),
                        pool: Arc::clone(&self.pool),
                        order: Arc::clone(&self.order),
                    };
                    let task = self.under_way.spawn(office.carry_out(action_key(&wakeup)));
                    self.tasks.insert(task.id(), wakeup);
                    room = if self.relay.is_none() { room - 1 } else { 0 };
                }
            }
        }
        put_off
    }

    /// What goes to a domain that rests waits with it.
    async fn put_off(&mut self, all: Vec<(UtcMillis, Wakeup)>, now: CurrentTime) {
        let mut groups: BTreeMap<(AccountId, UtcMillis), Vec<(ActionId, Wakeup)>> = BTreeMap::new();
        for (until, wakeup) in all {
            groups.entry((wakeup.account, until)).or_default().push((wakeup.action, wakeup));
        }
        for ((account, until), actions) in groups {
            let seen: Vec<(ActionId, WakeCondition)> =
                actions.iter().map(|(id, wakeup)| (*id, wakeup.wake)).collect();
            let done = match self.store.commit(account, |txn| txn.defer_actions(&seen, until)) {
                Ok(((), ticket)) => ticket.wait().await,
                Err(error) => Err(error),
            };
            if let Err(error) = &done {
                tracing::error!(%account, %error, "what waits for a domain could not be put off");
            }
            for (_, wakeup) in actions {
                match &done {
                    Ok(()) => {
                        self.known.remove(&action_key(&wakeup));
                        let mut order = self.order.lock();
                        if !order
                            .is_early(action_key(&wakeup), until.before(Duration::from_millis(1)))
                        {
                            order.wait(action_key(&wakeup), vec![wakeup.lane], until);
                        }
                    }
                    Err(_) => self.set_to_rest(wakeup, now.steady),
                }
            }
            self.next = Some(self.next.map_or(until, |next| next.min(until)));
        }
    }

    fn set_to_rest(&mut self, wakeup: Wakeup, now: MonotonicMillis) {
        self.resting.insert(
            action_key(&wakeup),
            (now.after(self.settings.relay_pause.saturating_mul(4)), wakeup),
        );
    }

    /// Waits for one that is under way, and takes notice of what came of it. Nothing is lost where
    /// the wait is broken off.
    pub(super) async fn wait_for_attempt(&mut self) {
        match self.under_way.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, came))) => self.apply_result(id, came),
            Some(Err(error)) => {
                tracing::error!(%error, "an attempt ended badly");
                self.apply_result(error.id(), AttemptResult::Unrecorded);
            }
        }
    }

    fn apply_result(&mut self, id: Id, came: AttemptResult) {
        let Some(wakeup) = self.tasks.remove(&id) else { return };
        self.lanes.remove(&wakeup.lane);
        let now = self.store.clock().steady();
        let (pace, jitter) = (self.settings.pace, wakeup.lane[0]);
        let relay_pace = RetrySchedule {
            first: self.settings.relay_pause,
            longest: self.settings.relay_pause.saturating_mul(64),
            ..pace
        };
        self.relay.cancel_probe();
        self.destinations.cancel_probe(wakeup.domain);
        match came {
            AttemptResult::Recorded(heard, word) => {
                self.known.remove(&action_key(&wakeup));
                // It may be due again, and whoever looked while it was under way did not see it.
                self.more = true;
                for (domain, heard) in heard {
                    match heard {
                        DestinationHealth::Reached => self.destinations.record_success(domain),
                        DestinationHealth::RefusedOne => {
                            self.destinations.record_recipient_refusal(domain, now, &pace, jitter);
                        }
                        DestinationHealth::Refused => {
                            self.destinations.record_refusal(domain, now, &pace, jitter)
                        }
                    }
                }
                match word {
                    RelayHealth::None => {}
                    RelayHealth::Well => self.relay_is_well(),
                    RelayHealth::Refused => self.relay.record_refusal(now, &relay_pace, 0),
                }
            }
            AttemptResult::RelayDown(error) => {
                // Its turn stays: it is the first again.
                self.ready.push_front(wakeup);
                self.relay.record_refusal(now, &relay_pace, 0);
                if let SendPermission::Not(until) = self.relay.may(now) {
                    self.trouble.set(Some(RelayTrouble { error, until }));
                }
            }
            AttemptResult::Rests => self.set_to_rest(wakeup, now),
            AttemptResult::Behind(until) => self.behind.push((until, wakeup)),
            AttemptResult::Unrecorded => {
                // A store that takes nothing would have every action begun in vain, one after
                // another.
                self.relay.record_refusal(
                    now,
                    &RetrySchedule { longest: self.settings.relay_pause, ..relay_pace },
                    0,
                );
                self.set_to_rest(wakeup, now);
            }
        }
    }

    /// Waits for what is under way, within its bounds.
    pub(super) async fn finish(mut self) {
        let bound = self.settings.relay.patience;
        if timeout(bound, async { while self.under_way.join_next().await.is_some() {} })
            .await
            .is_err()
        {
            tracing::warn!(
                "some actions were under way at the end: replies among them count as sent"
            );
        }
        self.pool.expire(Duration::ZERO).await;
    }
}
