//! Reads wake-ups from the store: into the window, at the start, and for removing sent actions.
//!
//! The window (`Scheduler::in_window`) is the bounded set of actions that the scheduler has in
//! memory. Of these, the `ready` ones are tried next.

use super::{CurrentTime, Scheduler, WAKEUPS_PER_READ, action_key};
use crate::model::{ActionState, UtcMillis, limits};
use crate::outbox::is_delayed;
use crate::queue::attempt::lanes;
use crate::store::{Error, WakeCondition, Wakeup};

/// The next read of the queue begins this long before the earliest wake-up of the last read: a
/// commit may become visible later than one that began after it, so an earlier wake-up may appear.
const VISIBILITY_LAG: std::time::Duration = std::time::Duration::from_secs(5);
/// The most interrupted attempts that a start recovers. The earlier run had at most
/// `Settings::concurrency` under way when it ended, by default 4.
const MAX_INTERRUPTED: usize = 10_000;

impl Scheduler {
    /// At the start: reads the attempts that an earlier run left without a result, and the order of
    /// the actions that it postponed.
    pub(in crate::queue) fn recover(&mut self) {
        let interrupted =
            self.store.snapshot().wakeups(WakeCondition::Attempting(UtcMillis(0)), MAX_INTERRUPTED);
        match interrupted {
            Ok(wakeups) => wakeups.into_iter().for_each(|wakeup| self.add_wakeup(wakeup)),
            Err(error) => tracing::error!(%error, "interrupted attempts cannot be read"),
        }
        if let Err(error) = self.recover_order() {
            tracing::error!(%error, "postponed actions cannot be read: later mail may go first");
        }
    }

    /// Remembers in `order` the actions that are due later, without those whose owner chose the
    /// time.
    fn recover_order(&self) -> Result<(), Error> {
        let (now, snapshot) = (self.store.clock().now(), self.store.snapshot());
        for from in [WakeCondition::Urgent(now), WakeCondition::Due(now)] {
            for wakeup in snapshot.wakeups(from, limits::MAX_POSTPONED_ACTIONS)? {
                let (account, id) = action_key(&wakeup);
                let action = snapshot.action(account, id)?;
                if let Some(action) = action.filter(|action| !is_delayed(action)) {
                    self.order.lock().postpone((account, id), lanes(account, &action), action.due);
                }
            }
        }
        Ok(())
    }

    /// Removes at most `WAKEUPS_PER_READ` sent actions that were kept long enough. Also has the
    /// next read of the queue begin at its start: it finds the wake-ups of commits that became
    /// visible so late that `VISIBILITY_LAG` was not enough for them.
    pub(super) async fn clean_up(&mut self, now: CurrentTime) {
        self.last_cleanup = Some(now.steady);
        (self.scan_from, self.may_have_more) = (UtcMillis(0), true);
        let now = now.wall;
        let kept = self
            .store
            .snapshot()
            .wakeups(WakeCondition::Forget(UtcMillis(0)), WAKEUPS_PER_READ)
            .unwrap_or_default();
        for wakeup in kept
            .iter()
            .filter(|wakeup| matches!(wakeup.wake, WakeCondition::Forget(at) if at <= now))
        {
            let (account, id) = action_key(wakeup);
            let committed = self.store.commit(account, |txn| {
                let action = txn.action(id)?;
                if action.state == ActionState::Sent && action.due <= now {
                    txn.complete_action(id)?;
                }
                Ok(())
            });
            if let Ok(((), ticket)) = committed
                && let Err(error) = ticket.wait().await
            {
                tracing::error!(
                    %account,
                    action = %id,
                    %error,
                    "what was sent long ago could not be forgotten"
                );
            }
        }
    }

    /// Fills the window with the wake-ups that are due: urgent ones, then the others by due time.
    /// While half of `WAKEUPS_PER_READ` or more are ready, only urgent ones are read.
    pub(super) fn fill_window(&mut self, now: UtcMillis) {
        let is_half_full = self.ready.len() >= WAKEUPS_PER_READ / 2;
        // If only urgent wake-ups are read, what is known of the others stays: that there may be
        // more, and when the next is due.
        let next_due = self.next_due.filter(|_| is_half_full);
        (self.may_have_more, self.next_due) = (is_half_full, next_due);
        let mut note_later =
            |at: UtcMillis| self.next_due = Some(self.next_due.map_or(at, |next| next.min(at)));
        let limit = WAKEUPS_PER_READ.saturating_add(self.in_window.len());
        let ordinary_limit = if is_half_full { 0 } else { limit };
        let snapshot = self.store.snapshot();
        let wakeups =
            snapshot.wakeups(WakeCondition::Urgent(UtcMillis(0)), limit).and_then(|urgent| {
                let from = WakeCondition::Due(self.scan_from);
                let ordinary = snapshot.wakeups(from, ordinary_limit)?;
                Ok((urgent, ordinary))
            });
        let (urgent, ordinary) = match wakeups {
            Ok(wakeups) => wakeups,
            Err(error) => {
                tracing::error!(%error, "the queue cannot be read");
                return note_later(now.after(self.settings.relay_pause));
            }
        };
        let is_due = |wakeup: &Wakeup| match wakeup.wake {
            WakeCondition::Urgent(at) | WakeCondition::Due(at) => at <= now,
            _ => false,
        };
        let is_cut =
            |wakeups: &[Wakeup]| wakeups.len() >= limit && wakeups.last().is_some_and(is_due);
        let is_cut = is_cut(&ordinary) || is_cut(&urgent);
        if let Some(Wakeup { wake: WakeCondition::Due(first), .. }) = ordinary.first() {
            // At most `now`: actions that are queued from now on are due now.
            self.scan_from = (*first).min(now).before(VISIBILITY_LAG);
        }
        let mut due: Vec<Wakeup> = Vec::new();
        for wakeup in urgent.into_iter().chain(ordinary) {
            match wakeup.wake {
                WakeCondition::Urgent(at) | WakeCondition::Due(at) if at > now => note_later(at),
                _ => due.push(wakeup),
            }
        }
        drop(snapshot);
        for wakeup in due.iter().filter(|due| matches!(due.wake, WakeCondition::Urgent(_))) {
            let index = self.ready.iter().position(|ready| {
                action_key(ready) == action_key(wakeup) && ready.wake != wakeup.wake
            });
            if index.and_then(|index| self.ready.remove(index)).is_some() {
                // The action was ready already, and now a person asks for it. It leaves the window
                // here, and is added to it again as an urgent one.
                self.in_window.remove(&action_key(wakeup));
                self.is_probe_requested = true;
            }
        }
        due.retain(|wakeup| !self.in_window.contains(&action_key(wakeup)));
        let room = (2 * WAKEUPS_PER_READ).saturating_sub(self.ready.len());
        self.may_have_more |= is_cut || due.len() > room;
        due.into_iter().take(room).for_each(|wakeup| self.add_wakeup(wakeup));
    }

    /// Makes a wake-up ready, unless its action is in the window.
    fn add_wakeup(&mut self, wakeup: Wakeup) {
        if self.in_window.insert(action_key(&wakeup)) {
            self.make_ready(wakeup);
        }
    }
}
