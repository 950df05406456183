//! What deliveries may send an hour: replies, and notifications of success (RFC 3461 §4.1).
//!
//! Both go to an envelope sender that anybody can write. They have the same limits, counted apart:
//! who asks for many notifications keeps nobody from getting a reply. Both are counted before the
//! commit, and given back where it does not happen.

use crate::vacation::{Counted, Rate};

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Rates {
    pub(super) replies: Rate,
    pub(super) notifications: Rate,
}

/// What was counted for one transaction, or for one account of it.
#[derive(Debug, Default)]
pub(super) struct Spent {
    pub(super) replies: Vec<Counted>,
    pub(super) notifications: Vec<Counted>,
}

impl Rates {
    /// Gives back all of it: nothing was sent.
    pub(super) fn give_back(&mut self, spent: &Spent) {
        for counted in &spent.replies {
            self.replies.give_back(counted);
        }
        for counted in &spent.notifications {
            self.notifications.give_back(counted);
        }
    }
}
