//! Keeps the order of mail from one account to one address.
//!
//! - An action that waits for another attempt is remembered with the addresses that it still goes
//!   to. Later actions to one of them wait for it.
//! - No action waits longer for its turn than `limits::MAX_ORDER_WAIT` from when it was first due,
//!   nor beyond its lifetime (`outbox::order_deadline`).
//! - This state is in memory only; the start reads it from the rows of the actions. Beyond
//!   `limits::MAX_POSTPONED_ACTIONS` actions are not remembered, and their order may be lost.

use std::collections::{BTreeSet, HashMap};

use crate::model::{AccountId, ActionId, UtcMillis, limits};
use crate::store::Digest;

pub(super) type ActionKey = (AccountId, ActionId);

/// Actions that wait for another attempt.
#[derive(Debug, Default)]
pub(super) struct RetryOrder {
    waiting: HashMap<ActionKey, WaitingAction>,
    /// The waiting actions of each lane, in the order in which they were queued.
    lanes: HashMap<(AccountId, Digest), BTreeSet<ActionId>>,
}

#[derive(Debug)]
struct WaitingAction {
    /// When it is tried again, as the queue decided.
    until: UtcMillis,
    /// The digests of its lanes (`store::lane_digest`).
    lanes: Vec<Digest>,
}

impl RetryOrder {
    /// Remembers that an action waits until a time, in place of what was remembered of it. `lanes`
    /// are those of the recipients that it still goes to. If too many actions are remembered,
    /// nothing is remembered of this one.
    pub(super) fn wait(&mut self, key: ActionKey, lanes: Vec<Digest>, until: UtcMillis) {
        self.forget(key);
        if self.waiting.len() >= limits::MAX_POSTPONED_ACTIONS {
            return;
        }
        for lane in &lanes {
            self.lanes.entry((key.0, *lane)).or_default().insert(key.1);
        }
        self.waiting.insert(key, WaitingAction { until, lanes });
    }

    pub(super) fn forget(&mut self, key: ActionKey) {
        for lane in self.waiting.remove(&key).into_iter().flat_map(|waiting| waiting.lanes) {
            let lane_key = (key.0, lane);
            if let Some(actions) = self.lanes.get_mut(&lane_key) {
                actions.remove(&key.1);
                if actions.is_empty() {
                    self.lanes.remove(&lane_key);
                }
            }
        }
    }

    /// Returns the first action that waits in a lane, if it was queued before this one.
    pub(super) fn before(&self, (account, action): ActionKey, lane: Digest) -> Option<ActionKey> {
        let first = self.lanes.get(&(account, lane))?.first()?;
        (*first < action).then_some((account, *first))
    }

    /// Whether a person asked for an urgent action whose row says that it is due now: the queue
    /// decided on a later time (`is_early`), or has not decided anything yet.
    pub(super) fn is_wanted_now(&self, key: ActionKey, now: UtcMillis) -> bool {
        self.waiting.get(&key).is_none_or(|waiting| now < waiting.until)
    }

    /// Whether the queue decided that an action waits beyond `now`. If the action's row says that
    /// it is due now, a person has asked for it since.
    pub(super) fn is_early(&self, key: ActionKey, now: UtcMillis) -> bool {
        self.waiting.get(&key).is_some_and(|waiting| now < waiting.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: AccountId = AccountId(1);

    #[test]
    fn later_action_waits_for_the_first_one_in_its_lane() {
        let mut order = RetryOrder::default();
        // The digests of the lanes to Bob and to Eve.
        let (bob, eve) = ([1; 8], [2; 8]);
        let (first, second, third) = ((ANN, ActionId(1)), (ANN, ActionId(2)), (ANN, ActionId(3)));
        order.wait(second, vec![bob, eve], UtcMillis(50));
        assert_eq!((order.before(third, bob), order.before(first, bob)), (Some(second), None));
        order.wait(first, vec![bob], UtcMillis(50));
        assert_eq!(
            (order.before(third, bob), order.before(third, eve)),
            (Some(first), Some(second))
        );
        // Mail of another account does not wait.
        assert_eq!(order.before((AccountId(2), ActionId(9)), bob), None);
        order.wait(second, vec![eve], UtcMillis(60));
        order.forget(first);
        assert_eq!((order.before(third, bob), order.before(third, eve)), (None, Some(second)));
        assert!(order.is_early(second, UtcMillis(59)) && !order.is_early(second, UtcMillis(60)));
        order.forget(second);
        assert!(order.lanes.is_empty() && order.is_wanted_now(second, UtcMillis(0)));
    }

    #[test]
    fn number_of_remembered_actions_is_bounded() {
        let mut order = RetryOrder::default();
        (0..2 * limits::MAX_POSTPONED_ACTIONS as u64)
            .for_each(|id| order.wait((ANN, ActionId(id)), vec![[1; 8]], UtcMillis(1)));
        assert_eq!(order.waiting.len(), limits::MAX_POSTPONED_ACTIONS);
    }
}
