//! An engine in memory that tells what is read of it. For tests of what the store and its queries
//! cost, and of who looks at what at which moment.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::memory::MemoryEngine;
use super::{Batch, Engine, RowFn, RowReader, Statistics, Table};
use crate::model::AccountId;
use crate::store::error::Error;

type SnapshotHook = Box<dyn FnOnce() + Send>;

/// Counts the rows that are read, of itself and of its snapshots.
#[derive(Default)]
pub struct CountingEngine {
    inner: MemoryEngine,
    read: AtomicUsize,
    before_snapshot: Mutex<Option<SnapshotHook>>,
    remains: AtomicUsize,
}

impl CountingEngine {
    /// The rows that were read since this was last asked; a row that is not there counts where it
    /// was asked for by its key.
    pub fn read(&self) -> usize {
        self.read.swap(0, Ordering::Relaxed)
    }

    /// Does something before the next snapshot is made.
    pub fn before_snapshot(&self, deed: impl FnOnce() + Send + 'static) {
        *self.before_snapshot.lock() = Some(Box::new(deed));
    }

    /// From now on it must be asked so often to clear remains until there are none.
    pub fn set_remains(&self, times: usize) {
        self.remains.store(times, Ordering::SeqCst);
    }

    /// How often it is still to be asked to clear remains.
    pub fn remains(&self) -> usize {
        self.remains.load(Ordering::SeqCst)
    }

    /// The engine beneath.
    pub fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
}

impl std::fmt::Debug for CountingEngine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("CountingEngine").field("read", &self.read).finish_non_exhaustive()
    }
}

struct CountingReader<'a, R> {
    inner: R,
    read: &'a AtomicUsize,
}

impl<R: Deref<Target: RowReader>> RowReader for CountingReader<'_, R> {
    fn base(&self, account: AccountId) -> Result<u64, Error> {
        self.inner.base(account)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.inner.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        self.inner.scan(table, from, to, reverse, &mut |key, value| {
            self.read.fetch_add(1, Ordering::Relaxed);
            each(key, value)
        })
    }
}

impl CountingEngine {
    fn counting(&self) -> CountingReader<'_, &MemoryEngine> {
        CountingReader { inner: &self.inner, read: &self.read }
    }
}

impl RowReader for CountingEngine {
    fn base(&self, account: AccountId) -> Result<u64, Error> {
        self.inner.base(account)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.counting().get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        self.counting().scan(table, from, to, reverse, each)
    }
}

impl Engine for CountingEngine {
    fn snapshot(&self) -> Box<dyn RowReader + '_> {
        let deed = self.before_snapshot.lock().take();
        if let Some(deed) = deed {
            deed();
        }
        Box::new(CountingReader { inner: self.inner.snapshot(), read: &self.read })
    }

    fn write(&self, batches: &[Arc<Batch>]) -> Result<Vec<usize>, Error> {
        self.inner.write(batches)
    }

    fn has_remains(&self) -> bool {
        self.remains() > 0
    }

    fn clear_remains(&self) -> Result<bool, Error> {
        let left = self.remains().saturating_sub(1);
        self.set_remains(left);
        Ok(left > 0)
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    #[cfg(any(test, feature = "internals"))]
    fn usage(&self, table: Table) -> super::Usage {
        self.inner.usage(table)
    }
}
