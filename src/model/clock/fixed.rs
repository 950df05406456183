//! A clock for tests and fuzz targets.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::{Clock, MonotonicMillis, UtcMillis};

/// A clock that stands still until it is set or advanced.
#[derive(Debug, Default)]
pub struct FixedClock {
    wall: AtomicI64,
    steady: AtomicU64,
}

impl FixedClock {
    /// Returns a clock whose wall clock shows `at`, and whose monotonic clock shows 0.
    #[must_use]
    pub fn at(at: UtcMillis) -> Self {
        Self { wall: AtomicI64::new(at.0), steady: AtomicU64::default() }
    }

    /// Sets the wall clock only.
    pub fn set(&self, at: UtcMillis) {
        self.wall.store(at.0, Ordering::SeqCst);
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().after(by));
        self.steady.store(self.steady().after(by).0, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> UtcMillis {
        UtcMillis(self.wall.load(Ordering::SeqCst))
    }

    fn steady(&self) -> MonotonicMillis {
        MonotonicMillis(self.steady.load(Ordering::SeqCst))
    }
}
