//! Keeps the order of mail from one account to one address.
//!
//! - An action that was refused for now, or put off, is remembered with the addresses that it still
//!   goes to. What was queued later for one of them waits until its next attempt, and is remembered
//!   itself; the other recipients of a message do not wait for the one that must.
//! - Nothing waits longer for its place than `limits::MAX_ORDER_WAIT`, nor beyond its own lifetime.
//! - This is memory alone: what the store says of an action decides, and after a start it is read
//!   from there. At its bound (`limits::MAX_POSTPONED_ACTIONS`) newcomers are not remembered, which
//!   costs their order and nothing else.

use std::collections::{BTreeSet, HashMap};

use crate::model::{AccountId, ActionId, UtcMillis, limits};
use crate::outbox::DomainDigest;

/// A due action that is being carried out.
pub(super) type ActionKey = (AccountId, ActionId);

/// Actions that wait for another attempt.
#[derive(Debug, Default)]
pub(super) struct RetryOrder {
    waiting: HashMap<ActionKey, WaitingAction>,
    /// Those of each address, in the order in which they were queued.
    lanes: HashMap<(AccountId, DomainDigest), BTreeSet<ActionId>>,
}

#[derive(Debug)]
struct WaitingAction {
    until: UtcMillis,
    lanes: Vec<DomainDigest>,
}

impl RetryOrder {
    /// Remembers that an action waits until a time, and holds back what was queued later for these
    /// addresses.
    pub(super) fn wait(&mut self, key: ActionKey, lanes: Vec<DomainDigest>, until: UtcMillis) {
        self.forget(key);
        if self.waiting.len() >= limits::MAX_POSTPONED_ACTIONS {
            return;
        }
        for lane in &lanes {
            self.lanes.entry((key.0, *lane)).or_default().insert(key.1);
        }
        self.waiting.insert(key, WaitingAction { until, lanes });
    }

    /// Forgets an action: it is done, or waits no more.
    pub(super) fn forget(&mut self, key: ActionKey) {
        for lane in self.waiting.remove(&key).into_iter().flat_map(|waiting| waiting.lanes) {
            let place = (key.0, lane);
            if let Some(of) = self.lanes.get_mut(&place) {
                of.remove(&key.1);
                if of.is_empty() {
                    self.lanes.remove(&place);
                }
            }
        }
    }

    /// The first action before this one that waits for an address.
    pub(super) fn before(
        &self,
        (account, action): ActionKey,
        lane: DomainDigest,
    ) -> Option<ActionKey> {
        let first = self.lanes.get(&(account, lane))?.first()?;
        (*first < action).then_some((account, *first))
    }

    /// Whether somebody wants an action to go now: it is here, and is to wait by what was decided
    /// for it last; or nothing was ever decided.
    pub(super) fn is_wanted_now(&self, key: ActionKey, now: UtcMillis) -> bool {
        self.waiting.get(&key).is_none_or(|waiting| now < waiting.until)
    }

    /// Whether an action is before its time by what was decided for it last: a person asked for it.
    pub(super) fn is_early(&self, key: ActionKey, now: UtcMillis) -> bool {
        self.waiting.get(&key).is_some_and(|waiting| now < waiting.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: AccountId = AccountId(1);

    #[test]
    fn what_was_queued_later_waits_for_what_was_queued_first() {
        let mut order = RetryOrder::default();
        let (bob, eve) = ([1; 8], [2; 8]);
        let (first, second, third) = ((ANN, ActionId(1)), (ANN, ActionId(2)), (ANN, ActionId(3)));
        order.wait(second, vec![bob, eve], UtcMillis(50));
        assert_eq!((order.before(third, bob), order.before(first, bob)), (Some(second), None));
        order.wait(first, vec![bob], UtcMillis(50));
        assert_eq!(
            (order.before(third, bob), order.before(third, eve)),
            (Some(first), Some(second))
        );
        // Another account's mail is in no order with it.
        assert_eq!(order.before((AccountId(2), ActionId(9)), bob), None);
        order.wait(second, vec![eve], UtcMillis(60));
        order.forget(first);
        assert_eq!((order.before(third, bob), order.before(third, eve)), (None, Some(second)));
        assert!(order.is_early(second, UtcMillis(59)) && !order.is_early(second, UtcMillis(60)));
        order.forget(second);
        assert!(order.lanes.is_empty() && order.is_wanted_now(second, UtcMillis(0)));
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let mut order = RetryOrder::default();
        (0..2 * limits::MAX_POSTPONED_ACTIONS as u64)
            .for_each(|id| order.wait((ANN, ActionId(id)), vec![[1; 8]], UtcMillis(1)));
        assert_eq!(order.waiting.len(), limits::MAX_POSTPONED_ACTIONS);
    }
}
