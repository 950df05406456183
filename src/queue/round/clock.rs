//! Corrects due times that are too far ahead because the wall clock was set back.

use super::{CurrentTime, Scheduler, WAKEUPS_PER_READ, action_key};
use crate::model::UtcMillis;
use crate::outbox::clamp_times;
use crate::store::WakeCondition;

/// If the wall clock loses more than this against monotonic time between two comparisons, it counts
/// as set back.
const SET_BACK_THRESHOLD_MS: i64 = 10_000;

/// Returns the condition of the same class that is a millisecond later; `None` for the classes
/// whose times are not corrected.
fn condition_after(wake: WakeCondition) -> Option<WakeCondition> {
    let next = |at: UtcMillis| UtcMillis(at.0.saturating_add(1));
    match wake {
        WakeCondition::Urgent(at) => Some(WakeCondition::Urgent(next(at))),
        WakeCondition::Due(at) => Some(WakeCondition::Due(next(at))),
        WakeCondition::Forget(at) => Some(WakeCondition::Forget(next(at))),
        WakeCondition::Attempting(_) | WakeCondition::After(_) => None,
    }
}

impl Scheduler {
    /// At the start, and after the wall clock was set back: corrects the actions that are due later
    /// than the schedule ever sets. A due time that its owner chose stays. What cannot be read or
    /// written is left as it is. Does nothing at other times.
    pub(super) async fn correct_due_times(&mut self, now: CurrentTime) {
        let offset = now.wall.0.saturating_sub(i64::try_from(now.steady.0).unwrap_or(i64::MAX));
        // At the start, there is no earlier offset to compare with.
        let must_correct = self
            .clock_offset
            .is_none_or(|last| offset < last.saturating_sub(SET_BACK_THRESHOLD_MS));
        self.clock_offset = Some(offset);
        if !must_correct {
            return;
        }
        // The next read of the queue begins at its start.
        (self.scan_from, self.may_have_more) = (UtcMillis(0), true);
        let (wall, retry) = (now.wall, self.settings.retry);
        // The latest due time that the schedule sets now: the longest wait with the most jitter.
        let longest = wall.after(retry.delay(u32::MAX, u8::MAX));
        let mut starts = vec![
            WakeCondition::Urgent(longest),
            WakeCondition::Due(longest),
            WakeCondition::Forget(wall.after(retry.keep_sent)),
        ];
        while let Some(from) = starts.pop() {
            let wakeups = self.store.snapshot().wakeups(from, WAKEUPS_PER_READ).unwrap_or_default();
            let mut has_changed = false;
            for (account, id) in wakeups.iter().map(action_key) {
                let committed = self.store.commit(account, |txn| {
                    let action = txn.action(id)?;
                    let clamped = clamp_times(&action, wall, &retry);
                    clamped
                        .as_ref()
                        .map_or(Ok(()), |clamped| txn.update_action(&action, clamped))?;
                    Ok(clamped.is_some())
                });
                if let Ok((is_clamped, ticket)) = committed {
                    has_changed |= is_clamped && ticket.wait().await.is_ok();
                    // What is remembered of the action is a time of the earlier clock.
                    self.order.lock().forget((account, id));
                }
            }
            let is_full = wakeups.len() >= WAKEUPS_PER_READ;
            // Corrected wake-ups have left the range, or stand at its beginning and need nothing
            // more. So the range is read again, for what the limit left out.
            starts.extend(if has_changed {
                Some(from).filter(|_| is_full)
            } else {
                let last = wakeups.last().filter(|_| is_full);
                last.and_then(|last| condition_after(last.wake))
            });
        }
    }
}
