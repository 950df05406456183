//! An engine in memory that counts the rows that are read from it. For tests of what the store and
//! its queries cost, and of races between readers and writers.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::memory::MemoryEngine;
use super::segments::Segments;
use super::{Batch, Engine, RowFn, RowReader, Statistics, Table};
use crate::model::AccountId;
use crate::store::error::Error;

type SnapshotHook = Box<dyn FnOnce() + Send>;

/// Counts the rows that are read from the engine and from its snapshots. Lookups of many keys and
/// walks count as the single lookups and scans of which they consist here.
#[derive(Default)]
pub struct CountingEngine {
    inner: MemoryEngine,
    read: AtomicUsize,
    before_snapshot: Mutex<Option<SnapshotHook>>,
    remains: AtomicUsize,
}

impl CountingEngine {
    /// Returns how many rows were read since the last call of this function. A lookup by key counts
    /// even if it finds no row.
    pub fn read(&self) -> usize {
        self.read.swap(0, Ordering::Relaxed)
    }

    /// Runs `hook` once, before the next snapshot is made.
    pub fn before_snapshot(&self, hook: impl FnOnce() + Send + 'static) {
        *self.before_snapshot.lock() = Some(Box::new(hook));
    }

    /// Makes this many calls of `clear_remains` necessary until there are no remains.
    pub fn set_remains(&self, times: usize) {
        self.remains.store(times, Ordering::SeqCst);
    }

    /// How many calls of `clear_remains` are still necessary.
    pub fn remains(&self) -> usize {
        self.remains.load(Ordering::SeqCst)
    }

    /// The wrapped engine.
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
    fn segments(&self) -> Option<&Segments> {
        self.inner.segments()
    }

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
    fn segments(&self) -> Option<&Segments> {
        self.inner.segments()
    }

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
        let hook = self.before_snapshot.lock().take();
        if let Some(hook) = hook {
            hook();
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
