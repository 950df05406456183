//! Bounds the bytes of messages that several searches read together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Error;

/// How many bytes of messages searches may still read. Clones share it; the default has no bound.
#[derive(Debug, Clone, Default)]
pub struct Allowance(Option<Arc<AtomicU64>>);

impl Allowance {
    /// An allowance of so many bytes.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(bytes))))
    }

    /// Charges bytes.
    ///
    /// # Errors
    /// `TooMuchRead` where no so many are left.
    pub(super) fn take(&self, bytes: u64) -> Result<(), Error> {
        let Some(left) = &self.0 else { return Ok(()) };
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| Error::TooMuchRead)
    }
}

impl PartialEq for Allowance {
    /// Whether both are the same allowance.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Allowance {}
