//! The rows that the changes of one commit have in common: those of a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::engine::segments::{SegmentGuard, Segments};
use crate::store::engine::{Engine, Put};
use crate::store::error::Error;

/// The rows of a message, or none, with a guard that holds its bytes.
pub(in crate::store) struct SharedRows {
    /// `None` if the changes have no message in common.
    pub(super) rows: Option<Arc<Vec<Put>>>,
    /// Taken before the rows were made, which may name an extent.
    pub(super) guard: Option<SegmentGuard>,
    /// Whether a change that was queued refers to the message.
    is_referred: AtomicBool,
}

impl SharedRows {
    /// For changes that have no message in common.
    pub(super) fn none(engine: &dyn Engine) -> Self {
        Self {
            rows: None,
            guard: engine.segments().map(Segments::guard),
            is_referred: AtomicBool::new(false),
        }
    }

    /// Makes the rows of a message under a guard of the segments, which is kept with them.
    ///
    /// # Errors
    /// What `make` returns.
    pub(in crate::store) fn make(
        engine: &dyn Engine,
        make: impl FnOnce() -> Result<Vec<Put>, Error>,
    ) -> Result<Self, Error> {
        let guard = engine.segments().map(Segments::guard);
        make().map(|rows| Self {
            rows: Some(Arc::new(rows)),
            guard,
            is_referred: AtomicBool::new(false),
        })
    }

    /// Notes that a change refers to the message.
    pub(super) fn refer(&self) {
        self.is_referred.store(true, Ordering::Relaxed);
    }

    /// Whether a change that was queued refers to the message. If none does, but bytes of the
    /// message were appended to a segment, no row names them.
    pub(in crate::store) fn is_referred(&self) -> bool {
        self.is_referred.load(Ordering::Relaxed)
    }
}
