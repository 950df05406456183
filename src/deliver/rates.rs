//! Limits what deliveries send per hour: replies, notifications and redirects.
//!
//! - Replies and notifications go to the envelope sender, which anybody can forge, or to an address
//!   that a script names. They have the same limits, counted separately. Notifications are those of
//!   success (RFC 3461 §4.1), those of scripts (RFC 5435), and reports of a refusal.
//! - Redirects have a limit for each account, so that accounts that redirect to one another cannot
//!   multiply a message without end.
//! - All are charged before the commit. A charge is refunded if its message is not queued, unless
//!   an equal one is queued already; and if the commit of the account does not become durable.

use crate::filter;
use crate::vacation::{RateCharge, RateLimiter, RateLimits};

#[derive(Debug, Default)]
pub(super) struct RateLimiters {
    pub(super) replies: RateLimiter,
    pub(super) notifications: RateLimiter,
    pub(super) redirects: RateLimiter,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RateCharges {
    pub(super) replies: Vec<RateCharge>,
    pub(super) notifications: Vec<RateCharge>,
    pub(super) redirects: Vec<RateCharge>,
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
        for charge in &charges.redirects {
            self.redirects.refund(charge);
        }
    }
}

impl RateCharges {
    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.notifications.is_empty() && self.redirects.is_empty()
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.replies.extend_from_slice(&other.replies);
        self.notifications.extend_from_slice(&other.notifications);
        self.redirects.extend_from_slice(&other.redirects);
    }
}

/// Returns the limits of redirects: one for the account, none for the domain of the target and none
/// for the site, because all accounts may redirect to one provider.
pub(super) fn redirect_limits(settings: &filter::Settings) -> RateLimits {
    RateLimits { account: settings.redirects_per_hour, domain: u32::MAX, site: u32::MAX }
}
