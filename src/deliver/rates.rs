//! Limits what deliveries send per hour: replies, and notifications of success (RFC 3461 §4.1).
//!
//! Both go to the envelope sender, which anybody can forge. They have the same limits, counted
//! separately. Both are charged before the commit, and refunded if nothing is queued or it does not
//! become durable.

use crate::vacation::{RateCharge, RateLimiter};

#[derive(Debug, Default)]
pub(super) struct RateLimiters {
    pub(super) replies: RateLimiter,
    pub(super) notifications: RateLimiter,
}

#[derive(Debug, Default)]
pub(super) struct RateCharges {
    pub(super) replies: Vec<RateCharge>,
    pub(super) notifications: Vec<RateCharge>,
}

impl RateLimiters {
    /// Takes back charges, each of which may be refunded only once.
    pub(super) fn refund(&mut self, charges: &RateCharges) {
        for charge in &charges.replies {
            self.replies.refund(charge);
        }
        for charge in &charges.notifications {
            self.notifications.refund(charge);
        }
    }
}
