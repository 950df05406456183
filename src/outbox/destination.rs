//! Remembers destinations, and the relay, that refuse mail.
//!
//! - After each refusal a destination rests, longer each time. Then one action probes it; the
//!   others go on only when a probe gets through.
//! - All of this is in memory, and is learned anew after a restart.
//! - Rests are measured by monotonic time: setting the clock does not change them.
//! - The number of destinations is bounded. At the bound, the one whose rest ends (or ended) first
//!   is forgotten, which costs one attempt. The refusals of single recipients are counted for as
//!   many domains; at that bound, all these counts begin anew.

use std::collections::BTreeMap;

use super::schedule::RetrySchedule;
use crate::model::MonotonicMillis;

/// A digest of a domain's folded name (`store::domain_digest`).
pub type DomainDigest = [u8; 8];

/// How many destinations are remembered.
const MAX_DESTINATIONS: usize = 4096;
/// The refusals of single recipients in a row after which the whole domain rests.
const RECIPIENT_REFUSALS_BEFORE_REST: u32 = 5;

/// Whether an action may be sent to a destination now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPermission {
    Go,
    /// The destination refused before, and another action is probing the destination. Its result
    /// decides.
    Probing,
    /// The destination rests until this time.
    NotBefore(MonotonicMillis),
}

/// The refusals of one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trouble {
    /// How often the destination refused in a row; 0 if it works.
    failures: u32,
    /// The end of the rest after the last refusal.
    until: MonotonicMillis,
    /// Whether an action is under way that was sent as a probe.
    is_probed: bool,
}

impl Trouble {
    /// Whether the destination works.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.failures == 0
    }

    /// Whether an action may be sent. If the destination refused before, this action is the probe.
    #[must_use]
    pub fn permission(&self, now: MonotonicMillis) -> SendPermission {
        if self.failures == 0 {
            SendPermission::Go
        } else if self.is_probed {
            SendPermission::Probing
        } else if now < self.until {
            SendPermission::NotBefore(self.until)
        } else {
            SendPermission::Go
        }
    }

    /// Notes that an action is sent, which is a probe if the destination refused before.
    pub fn begin_probe(&mut self) {
        self.is_probed = self.failures > 0;
    }

    /// Notes a refusal, or that the destination could not be reached. Of several actions that were
    /// under way when the trouble began, only the first counts.
    pub fn record_refusal(&mut self, now: MonotonicMillis, pace: &RetrySchedule, jitter: u8) {
        if now < self.until {
            return;
        }
        self.until = now.after(pace.delay(self.failures, jitter));
        self.failures = self.failures.saturating_add(1);
        self.is_probed = false;
    }

    /// Notes that the probe ended. What it learned, if anything, is recorded afterwards.
    pub fn cancel_probe(&mut self) {
        self.is_probed = false;
    }
}

/// All destinations that refuse.
#[derive(Debug, Default)]
pub struct Destinations {
    troubles: BTreeMap<DomainDigest, Trouble>,
    /// How many refusals of single recipients a domain gave in a row.
    recipient_refusals: BTreeMap<DomainDigest, u32>,
}

impl Destinations {
    /// Whether an action may be sent to a domain. The caller notes with `begin_probe` that it is
    /// sent.
    #[must_use]
    pub fn permission(&self, domain: DomainDigest, now: MonotonicMillis) -> SendPermission {
        self.troubles.get(&domain).map_or(SendPermission::Go, |trouble| trouble.permission(now))
    }

    /// Notes that an action is sent to a domain.
    pub fn begin_probe(&mut self, domain: DomainDigest) {
        if let Some(trouble) = self.troubles.get_mut(&domain) {
            trouble.begin_probe();
        }
    }

    /// Notes that a domain refused as a whole.
    pub fn record_refusal(
        &mut self,
        domain: DomainDigest,
        now: MonotonicMillis,
        pace: &RetrySchedule,
        jitter: u8,
    ) {
        if self.troubles.len() >= MAX_DESTINATIONS && !self.troubles.contains_key(&domain) {
            let oldest = self
                .troubles
                .iter()
                .min_by_key(|(_, trouble)| trouble.until)
                .map(|(domain, _)| *domain);
            oldest.map(|oldest| self.troubles.remove(&oldest));
        }
        self.troubles.entry(domain).or_default().record_refusal(now, pace, jitter);
    }

    /// Notes that a domain refused one recipient temporarily. `RECIPIENT_REFUSALS_BEFORE_REST` such
    /// refusals in a row count as a refusal of the whole domain.
    pub fn record_recipient_refusal(
        &mut self,
        domain: DomainDigest,
        now: MonotonicMillis,
        pace: &RetrySchedule,
        jitter: u8,
    ) {
        if self.troubles.contains_key(&domain) {
            return self.record_refusal(domain, now, pace, jitter);
        }
        if self.recipient_refusals.len() >= MAX_DESTINATIONS {
            self.recipient_refusals.clear();
        }
        let refusals = self.recipient_refusals.entry(domain).or_default();
        *refusals = refusals.saturating_add(1);
        if *refusals >= RECIPIENT_REFUSALS_BEFORE_REST {
            self.recipient_refusals.remove(&domain);
            self.record_refusal(domain, now, pace, jitter);
        }
    }

    /// Notes that a domain works: it accepted a message or refused it for good.
    pub fn record_success(&mut self, domain: DomainDigest) {
        self.troubles.remove(&domain);
        self.recipient_refusals.remove(&domain);
    }

    /// Notes that the probe of a domain ended. What it learned, if anything, is recorded
    /// afterwards.
    pub fn cancel_probe(&mut self, domain: DomainDigest) {
        if let Some(trouble) = self.troubles.get_mut(&domain) {
            trouble.cancel_probe();
        }
    }

    #[cfg(test)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.troubles.len()
    }

    #[cfg(test)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.troubles.is_empty()
    }
}
