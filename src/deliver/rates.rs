//! What deliveries may send an hour: replies, and notifications of success (RFC 3461 §4.1).
//!
//! Both go to an envelope sender that anybody can write. They have the same limits, counted apart:
//! who asks for many notifications keeps nobody from getting a reply. Both are counted before the
//! commit, and given back where it does not happen.

use crate::vacation::{RateCharge, RateLimiter};

#[derive(Debug, Default)]
pub(super) struct RateLimiters {
    pub(super) replies: RateLimiter,
    pub(super) notifications: RateLimiter,
}

/// What was counted for one transaction, or for one account of it.
#[derive(Debug, Default)]
pub(super) struct RateCharges {
    pub(super) replies: Vec<RateCharge>,
    pub(super) notifications: Vec<RateCharge>,
}

impl RateLimiters {
    /// Gives back all of it: nothing was sent.
    pub(super) fn refund(&mut self, spent: &RateCharges) {
        for counted in &spent.replies {
            self.replies.refund(counted);
        }
        for counted in &spent.notifications {
            self.notifications.refund(counted);
        }
    }
}
