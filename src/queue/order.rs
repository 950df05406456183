//! Keeps the order of mail from one account to one address.
//!
//! - A postponed action is one for which the queue decided on a later time: after a temporary
//!   refusal, while its domain rests, or because earlier mail goes first.
//! - A postponed action is remembered with the lanes of its outstanding recipients, or of the next
//!   one only if it rests with that one's domain. Later actions in one of these lanes go after it.
//! - Earlier mail holds an action back for at most `limits::MAX_ORDER_WAIT` from when the action
//!   was first due, and not beyond its lifetime (`outbox::order_deadline`).
//! - This state is in memory only; the start reads it from the rows of the actions. Beyond
//!   `limits::MAX_POSTPONED_ACTIONS` actions are not remembered, and their order may be lost.

use std::collections::{BTreeSet, HashMap};

use crate::model::{AccountId, ActionId, UtcMillis, limits};
use crate::store::Digest;

pub(super) type ActionKey = (AccountId, ActionId);

#[derive(Debug, Default)]
pub(super) struct RetryOrder {
    postponed: HashMap<ActionKey, PostponedAction>,
    /// The postponed actions of each lane, in the order in which they were queued.
    lanes: HashMap<(AccountId, Digest), BTreeSet<ActionId>>,
}

#[derive(Debug)]
struct PostponedAction {
    /// The time on which the queue decided.
    until: UtcMillis,
    /// The digests of the lanes (`store::lane_digest`).
    lanes: Vec<Digest>,
}

impl RetryOrder {
    /// Remembers that an action is postponed until a time, in place of what was remembered of it.
    /// `lanes` are those of its recipients in which later actions go after it. If too many actions
    /// are remembered, nothing is remembered of this one.
    pub(super) fn postpone(&mut self, key: ActionKey, lanes: Vec<Digest>, until: UtcMillis) {
        self.forget(key);
        if self.postponed.len() >= limits::MAX_POSTPONED_ACTIONS {
            return;
        }
        for lane in &lanes {
            self.lanes.entry((key.0, *lane)).or_default().insert(key.1);
        }
        self.postponed.insert(key, PostponedAction { until, lanes });
    }

    pub(super) fn forget(&mut self, key: ActionKey) {
        for lane in self.postponed.remove(&key).into_iter().flat_map(|action| action.lanes) {
            let lane_key = (key.0, lane);
            if let Some(actions) = self.lanes.get_mut(&lane_key) {
                actions.remove(&key.1);
                if actions.is_empty() {
                    self.lanes.remove(&lane_key);
                }
            }
        }
    }

    /// Returns the first postponed action of a lane, if it was queued before this one.
    pub(super) fn before(&self, (account, action): ActionKey, lane: Digest) -> Option<ActionKey> {
        let first = self.lanes.get(&(account, lane))?.first()?;
        (*first < action).then_some((account, *first))
    }

    /// Whether an urgent action, whose row says that it is due now, is due because a person asked
    /// for it. It is not if it is remembered that the queue postponed it until now. (An action is
    /// urgent if a person waits for it, `Action::urgent`.)
    pub(super) fn is_wanted_now(&self, key: ActionKey, now: UtcMillis) -> bool {
        self.postponed.get(&key).is_none_or(|action| now < action.until)
    }

    /// Whether the queue postponed an action beyond `now`. If the action's row says that it is due
    /// now nevertheless, a person has asked for it since.
    pub(super) fn is_early(&self, key: ActionKey, now: UtcMillis) -> bool {
        self.postponed.get(&key).is_some_and(|action| now < action.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: AccountId = AccountId(1);

    #[test]
    fn later_action_goes_after_the_first_postponed_one_of_its_lane() {
        let mut order = RetryOrder::default();
        // The digests of the lanes to Bob and to Eve.
        let (bob, eve) = ([1; 8], [2; 8]);
        let (first, second, third) = ((ANN, ActionId(1)), (ANN, ActionId(2)), (ANN, ActionId(3)));
        order.postpone(second, vec![bob, eve], UtcMillis(50));
        assert_eq!((order.before(third, bob), order.before(first, bob)), (Some(second), None));
        order.postpone(first, vec![bob], UtcMillis(50));
        assert_eq!(
            (order.before(third, bob), order.before(third, eve)),
            (Some(first), Some(second))
        );
        // Mail of another account is not held back.
        assert_eq!(order.before((AccountId(2), ActionId(9)), bob), None);
        order.postpone(second, vec![eve], UtcMillis(60));
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
            .for_each(|id| order.postpone((ANN, ActionId(id)), vec![[1; 8]], UtcMillis(1)));
        assert_eq!(order.postponed.len(), limits::MAX_POSTPONED_ACTIONS);
    }
}
