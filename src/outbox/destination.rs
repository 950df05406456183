//! What is remembered of destinations that refuse, and of the relay: after each refusal it is left
//! alone for a growing time, and then asked by one action, until one gets through.
//!
//! This is memory alone: lost with the process, it is learned again; no setting of the clock makes
//! a rest longer or shorter. It is bounded; at the bound what rests longest over its time is
//! forgotten, which costs one attempt.

use std::collections::BTreeMap;

use super::schedule::RetrySchedule;
use crate::model::MonotonicMillis;

/// A digest that stands for a domain.
pub type DomainDigest = [u8; 8];

/// Destinations that are remembered.
const MAX_DESTINATIONS: usize = 4096;
/// Refusals of single recipients in a row after which a domain rests as a whole.
const RECIPIENT_REFUSALS_BEFORE_REST: u32 = 5;

/// Whether an action may go to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPermission {
    Go,
    /// One is asking: what comes of it is waited for.
    Asking,
    /// Not before then.
    Not(MonotonicMillis),
}

/// The trouble with one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trouble {
    failures: u32,
    until: MonotonicMillis,
    asking: bool,
}

impl Trouble {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.failures == 0
    }

    /// Whether an action may go; if so in trouble, it is the one that asks.
    #[must_use]
    pub fn may(&self, now: MonotonicMillis) -> SendPermission {
        if self.failures == 0 {
            SendPermission::Go
        } else if self.asking {
            SendPermission::Asking
        } else if now < self.until {
            SendPermission::Not(self.until)
        } else {
            SendPermission::Go
        }
    }

    /// An action goes.
    pub fn begin_probe(&mut self) {
        self.asking = self.failures > 0;
    }

    /// It refused, or could not be reached. Of several that were under way when it began only the
    /// first counts.
    pub fn record_refusal(&mut self, now: MonotonicMillis, pace: &RetrySchedule, jitter: u8) {
        if now < self.until {
            return;
        }
        self.until = now.after(pace.delay(self.failures, jitter));
        self.failures = self.failures.saturating_add(1);
        self.asking = false;
    }

    /// The one that asked came back without having asked.
    pub fn cancel_probe(&mut self) {
        self.asking = false;
    }
}

/// All destinations that refuse.
#[derive(Debug, Default)]
pub struct Destinations {
    known: BTreeMap<DomainDigest, Trouble>,
    /// Refusals of single recipients in a row.
    rows: BTreeMap<DomainDigest, u32>,
}

impl Destinations {
    /// Whether an action may go to this one.
    #[must_use]
    pub fn may(&self, domain: DomainDigest, now: MonotonicMillis) -> SendPermission {
        self.known.get(&domain).map_or(SendPermission::Go, |trouble| trouble.may(now))
    }

    /// An action goes to this one.
    pub fn begin_probe(&mut self, domain: DomainDigest) {
        if let Some(trouble) = self.known.get_mut(&domain) {
            trouble.begin_probe();
        }
    }

    /// It refused as a whole.
    pub fn record_refusal(
        &mut self,
        domain: DomainDigest,
        now: MonotonicMillis,
        pace: &RetrySchedule,
        jitter: u8,
    ) {
        if self.known.len() >= MAX_DESTINATIONS && !self.known.contains_key(&domain) {
            let oldest = self
                .known
                .iter()
                .min_by_key(|(_, trouble)| trouble.until)
                .map(|(domain, _)| *domain);
            oldest.map(|oldest| self.known.remove(&oldest));
        }
        self.known.entry(domain).or_default().record_refusal(now, pace, jitter);
    }

    /// It refused one recipient for now; `RECIPIENT_REFUSALS_BEFORE_REST` such refusals in a row
    /// count as a refusal of all.
    pub fn record_recipient_refusal(
        &mut self,
        domain: DomainDigest,
        now: MonotonicMillis,
        pace: &RetrySchedule,
        jitter: u8,
    ) {
        if self.known.contains_key(&domain) {
            return self.record_refusal(domain, now, pace, jitter);
        }
        if self.rows.len() >= MAX_DESTINATIONS {
            self.rows.clear();
        }
        let row = self.rows.entry(domain).or_default();
        *row = row.saturating_add(1);
        if *row >= RECIPIENT_REFUSALS_BEFORE_REST {
            self.rows.remove(&domain);
            self.record_refusal(domain, now, pace, jitter);
        }
    }

    /// It took something, or refused it for good: it is there.
    pub fn record_success(&mut self, domain: DomainDigest) {
        self.known.remove(&domain);
        self.rows.remove(&domain);
    }

    /// The one that asked came back without having asked.
    pub fn cancel_probe(&mut self, domain: DomainDigest) {
        if let Some(trouble) = self.known.get_mut(&domain) {
            trouble.cancel_probe();
        }
    }

    /// How many are remembered.
    #[cfg(test)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is.
    #[cfg(test)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}
