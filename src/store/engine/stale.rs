//! Which batches of a write are stale.

use super::Batch;
use crate::model::AccountId;

/// Collects which batches of a write are stale. The engine calls `check` for each batch, in order.
#[derive(Debug, Default)]
pub(super) struct StaleBatches {
    positions: Vec<usize>,
    accounts: Vec<AccountId>,
}

impl StaleBatches {
    /// For batches behind others, of which those of these accounts were stale.
    #[cfg(feature = "rocksdb")]
    pub(super) fn behind(accounts: Vec<AccountId>) -> Self {
        Self { positions: Vec::new(), accounts }
    }

    /// Returns whether a batch is stale, and remembers it if so. A batch is stale if it
    /// `is_overtaken`, or if an earlier stale batch names one of its accounts.
    pub(super) fn check(&mut self, at: usize, batch: &Batch, is_overtaken: bool) -> bool {
        let is_stale =
            is_overtaken || batch.bases.iter().any(|base| self.accounts.contains(&base.account));
        if is_stale {
            self.positions.push(at);
            self.accounts.extend(batch.bases.iter().map(|base| base.account));
        }
        is_stale
    }

    #[cfg(feature = "rocksdb")]
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Whether the batch at this position is stale.
    #[cfg(feature = "rocksdb")]
    pub(super) fn contains(&self, at: usize) -> bool {
        self.positions.binary_search(&at).is_ok()
    }

    pub(super) fn positions(self) -> Vec<usize> {
        self.positions
    }
}
