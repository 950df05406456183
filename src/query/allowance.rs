//! Bounds how much the searches of one request read together: bytes of messages, and rows of
//! emails.
//!
//! - Bytes of messages are charged (`charge_bytes`). A search that needs more than remain is
//!   refused.
//! - Rows are counted (`count_rows`), and checked only when a walk over emails begins
//!   (`begin_walk`). So a walk that began is finished, even if it reads more rows than remain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Error;

/// What searches may still read. Clones share the amounts that remain. The default has no bound.
#[derive(Debug, Clone, Default)]
pub struct Allowance(Option<Arc<Remaining>>);

#[derive(Debug)]
struct Remaining {
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl Allowance {
    /// Creates an allowance of `bytes` of messages and `rows` of emails.
    #[must_use]
    pub fn new(bytes: u64, rows: u64) -> Self {
        Self(Some(Arc::new(Remaining { bytes: bytes.into(), rows: rows.into() })))
    }

    /// Charges the bytes of a message that is about to be read, or of a header that was read.
    ///
    /// # Errors
    /// `TooMuchRead` if fewer bytes remain. Nothing is charged then.
    pub(super) fn charge_bytes(&self, bytes: u64) -> Result<(), Error> {
        let Some(left) = &self.0 else { return Ok(()) };
        let charged = left
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        charged.map(drop).map_err(|_| Error::TooMuchRead)
    }

    /// Checks that a walk over emails may begin.
    ///
    /// # Errors
    /// `TooMuchWalked` if no rows remain.
    pub fn begin_walk(&self) -> Result<(), Error> {
        let is_left = self.0.as_ref().is_none_or(|left| left.rows.load(Ordering::Relaxed) > 0);
        if is_left { Ok(()) } else { Err(Error::TooMuchWalked) }
    }

    /// Counts rows that were read. If they are more than remain, no rows remain.
    pub fn count_rows(&self, rows: usize) {
        let Some(left) = &self.0 else { return };
        let rows = rows as u64;
        let less = |left: u64| Some(left.saturating_sub(rows));
        left.rows.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok();
    }
}

impl PartialEq for Allowance {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Allowance {}
