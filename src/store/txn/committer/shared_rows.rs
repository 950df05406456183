//! The rows that the changes of one commit have in common: those of the message that they file.

use std::sync::Arc;

use crate::store::engine::segments::{SegmentGuard, Segments};
use crate::store::engine::{Engine, Put};
use crate::store::error::Error;

/// The rows of a message, which are written once with the changes that refer to it.
pub(in crate::store) struct SharedRows {
    pub(super) rows: Option<Arc<Vec<Put>>>,
    /// Taken before the rows were made, which may name an extent.
    pub(super) guard: Option<SegmentGuard>,
}

impl SharedRows {
    /// No rows, for changes that have no message in common.
    pub(super) fn none(engine: &dyn Engine) -> Self {
        Self { rows: None, guard: engine.segments().map(Segments::guard) }
    }

    /// The rows that `make` returns.
    ///
    /// # Errors
    /// What `make` returns.
    pub(in crate::store) fn make(
        engine: &dyn Engine,
        make: impl FnOnce() -> Result<Vec<Put>, Error>,
    ) -> Result<Self, Error> {
        let guard = engine.segments().map(Segments::guard);
        make().map(|rows| Self { rows: Some(Arc::new(rows)), guard })
    }
}
