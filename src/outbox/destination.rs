//! Remembers destinations (domains of recipients), and the relay, that refuse mail.
//!
//! - After each refusal a destination rests, longer each time. Then one action probes it; the
//!   others go on only when a probe gets through.
//! - The queue asks here before it sends an action. For one that a person wants tried now, it asks
//!   only about the relay.
//! - All of this is in memory, and is learned anew after a restart.
//! - Rests are measured by monotonic time.
//! - The number of destinations is bounded. At the bound, the one whose rest ends first is
//!   forgotten. The number of domains for which refusals of single recipients are counted has the
//!   same bound; at the bound, all these counts begin anew.

use std::collections::BTreeMap;

use super::schedule::RetrySchedule;
use crate::model::MonotonicMillis;

/// A digest of a domain's folded name (`store::domain_digest`).
pub type DomainDigest = [u8; 8];

const MAX_DESTINATIONS: usize = 4096;
/// How many refusals of single recipients, one after another, make the domain count as refusing
/// mail: see `Destinations::record_recipient_refusal`.
const RECIPIENT_REFUSALS_BEFORE_REST: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPermission {
    Go,
    /// Another action is probing the destination. Its result decides.
    Probing,
    NotBefore(MonotonicMillis),
}

/// The refusals of one destination, or of the relay. `Trouble::default` is a destination that
/// works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trouble {
    /// Refusals in a row; 0 if the destination works.
    failures: u32,
    /// When the rest after the last refusal ends.
    until: MonotonicMillis,
    /// Whether an action is being sent that tries whether the destination takes mail again.
    is_probed: bool,
}

impl Trouble {
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.failures == 0
    }

    /// Whether an action may be sent to the destination now. If the destination refused before,
    /// this action is the probe.
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

    /// Notes that an action is sent: a probe if the destination refused before.
    pub fn begin_probe(&mut self) {
        self.is_probed = self.failures > 0;
    }

    /// Notes a refusal, or that the destination could not be reached. Refusals during a rest, by
    /// actions that were under way when it began, do not count. `pace` and `jitter` make the length
    /// of the rest (`RetrySchedule::delay`).
    pub fn record_refusal(&mut self, now: MonotonicMillis, pace: &RetrySchedule, jitter: u8) {
        if now < self.until {
            return;
        }
        self.until = now.after(pace.delay(self.failures, jitter));
        self.failures = self.failures.saturating_add(1);
        self.is_probed = false;
    }

    /// Notes that the probe ended. What it learned of the destination, if anything, is recorded
    /// afterwards.
    pub fn end_probe(&mut self) {
        self.is_probed = false;
    }
}

#[derive(Debug, Default)]
pub struct Destinations {
    troubles: BTreeMap<DomainDigest, Trouble>,
    /// Refusals of single recipients in a row.
    recipient_refusals: BTreeMap<DomainDigest, u32>,
}

impl Destinations {
    /// Whether an action may be sent to a domain. The caller that sends one calls `begin_probe`.
    #[must_use]
    pub fn permission(&self, domain: DomainDigest, now: MonotonicMillis) -> SendPermission {
        self.troubles.get(&domain).map_or(SendPermission::Go, |trouble| trouble.permission(now))
    }

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
            let first = self
                .troubles
                .iter()
                .min_by_key(|(_, trouble)| trouble.until)
                .map(|(domain, _)| *domain);
            first.map(|first| self.troubles.remove(&first));
        }
        self.troubles.entry(domain).or_default().record_refusal(now, pace, jitter);
    }

    /// Notes that a domain refused one recipient temporarily. `RECIPIENT_REFUSALS_BEFORE_REST` of
    /// these in a row count as a refusal of the domain as a whole. After a refusal as a whole, each
    /// refusal of a recipient counts as another one, until `record_success`.
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

    /// Notes that a domain accepted a message or refused it for good.
    pub fn record_success(&mut self, domain: DomainDigest) {
        self.troubles.remove(&domain);
        self.recipient_refusals.remove(&domain);
    }

    /// Notes that the probe of a domain ended (`Trouble::end_probe`).
    pub fn end_probe(&mut self, domain: DomainDigest) {
        if let Some(trouble) = self.troubles.get_mut(&domain) {
            trouble.end_probe();
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
