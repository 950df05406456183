//! The order in which groups are redeemed, which is the order in which they were begun: listeners
//! hear of the changes of an account in the order of their change numbers.

use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
pub(super) struct GroupOrder {
    state: Mutex<OrderState>,
    passed: Condvar,
}

#[derive(Debug, Default)]
struct OrderState {
    /// The number of the group whose turn it is.
    current: u64,
    /// Whether nobody waits any more, because a group did not end.
    is_abandoned: bool,
}

impl GroupOrder {
    /// Waits until all earlier groups have ended, or one of them panicked.
    pub(super) fn wait_for(&self, number: u64) {
        let mut state = self.state.lock();
        while state.current < number && !state.is_abandoned {
            self.passed.wait(&mut state);
        }
    }

    /// Gives the turn to the next group.
    pub(super) fn pass(&self) {
        self.state.lock().current += 1;
        self.passed.notify_all();
    }

    /// Has nobody wait any more.
    pub(super) fn abandon(&self) {
        self.state.lock().is_abandoned = true;
        self.passed.notify_all();
    }
}
