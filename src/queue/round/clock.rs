//! Times in rows that a clock left too far ahead, for it was set back since.

use super::{CurrentTime, MAX_HELD_WAKEUPS, Scheduler, action_key};
use crate::model::UtcMillis;
use crate::outbox::clamp_times;
use crate::store::WakeCondition;

/// A wall clock that lost more than this, in milliseconds, was set back.
const SET_BACK_THRESHOLD_MS: i64 = 10_000;
/// The wake-ups of a class behind one of them.
fn behind(wake: WakeCondition) -> Option<WakeCondition> {
    let next = |at: UtcMillis| UtcMillis(at.0.saturating_add(1));
    match wake {
        WakeCondition::Urgent(at) => Some(WakeCondition::Urgent(next(at))),
        WakeCondition::Due(at) => Some(WakeCondition::Due(next(at))),
        WakeCondition::Forget(at) => Some(WakeCondition::Forget(next(at))),
        WakeCondition::Attempting(_) | WakeCondition::After(_) => None,
    }
}

impl Scheduler {
    /// At the start, and after the wall clock was set back: no action waits longer than the
    /// schedule ever lets one wait.
    pub(super) async fn bring_back(&mut self, now: CurrentTime) {
        let ahead = now.wall.0.saturating_sub(i64::try_from(now.steady.0).unwrap_or(i64::MAX));
        let is_back =
            self.ahead.is_none_or(|known| ahead < known.saturating_sub(SET_BACK_THRESHOLD_MS));
        self.ahead = Some(ahead);
        if !is_back {
            return;
        }
        (self.from, self.more) = (UtcMillis(0), true);
        let (wall, pace) = (now.wall, self.settings.pace);
        let longest = wall.after(pace.delay(u32::MAX, u8::MAX));
        let mut left = vec![
            WakeCondition::Urgent(longest),
            WakeCondition::Due(longest),
            WakeCondition::Forget(wall.after(pace.kept)),
        ];
        while let Some(from) = left.pop() {
            let found = self.store.snapshot().wakeups(from, MAX_HELD_WAKEUPS).unwrap_or_default();
            let mut changed = false;
            for (account, id) in found.iter().map(action_key) {
                let done = self.store.commit(account, |txn| {
                    let action = txn.action(id)?;
                    let clamped = clamp_times(&action, wall, &pace);
                    clamped
                        .as_ref()
                        .map_or(Ok(()), |clamped| txn.update_action(&action, clamped))?;
                    Ok(clamped.is_some())
                });
                if let Ok((is_changed, ticket)) = done {
                    changed |= is_changed && ticket.wait().await.is_ok();
                    self.order.lock().forget((account, id));
                }
            }
            let last =
                found.last().filter(|_| found.len() >= MAX_HELD_WAKEUPS).map(|last| last.wake);
            left.extend(if changed {
                Some(from).filter(|_| found.len() >= MAX_HELD_WAKEUPS)
            } else {
                last.and_then(behind)
            });
        }
    }
}
