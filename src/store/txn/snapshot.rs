//! A consistent state of the store. Other modules add their reads to `Snapshot`.

pub use crate::store::txn::changes::{Changes, ClientState};
pub(in crate::store) use crate::store::txn::repair_guard::RepairGuard;

use crate::store::Thresholds;
use crate::store::engine::RowReader;

/// One consistent state of the store, or of an account as a transaction leaves it.
pub struct Snapshot<'a> {
    pub(in crate::store) read: Box<dyn RowReader + 'a>,
    pub(in crate::store) thresholds: Thresholds,
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Snapshot(..)")
    }
}

impl<'a> Snapshot<'a> {
    pub(in crate::store) fn of(read: Box<dyn RowReader + 'a>, thresholds: Thresholds) -> Self {
        Self { read, thresholds }
    }

    pub(in crate::store) fn reader(&self) -> &dyn RowReader {
        &*self.read
    }
}
