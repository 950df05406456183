//! An engine whose writes fail on request, for tests of how the store handles failures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use super::segments::Segments;
use super::{
    Backup, Batch, Engine, LookupFn, RowFn, RowReader, Statistics, Table, WalkFn, WalkStep,
};
use crate::model::AccountId;
use crate::store::error::Error;

/// Wraps an engine and makes its writes fail, from `fail_after` until `heal`. Everything else is
/// passed on, except `flush` and `delete_segments`, which do nothing.
#[derive(Debug)]
pub struct FaultyEngine<E> {
    inner: E,
    /// How many calls of `write` succeed before they fail. Without an `error` it means nothing.
    successes_left: AtomicI64,
    /// `None` while writes are to succeed.
    error: Mutex<Option<Error>>,
    /// How many calls of `write` have failed with `error`.
    refused: AtomicI64,
}

impl<E: Engine> FaultyEngine<E> {
    /// Wraps an engine; its writes succeed until `fail_after`.
    pub fn new(inner: E) -> Self {
        Self {
            inner,
            successes_left: AtomicI64::new(0),
            error: Mutex::new(None),
            refused: AtomicI64::new(0),
        }
    }

    /// Lets this many more calls of `write` succeed, and then makes every call fail with `error`.
    pub fn fail_after(&self, writes: i64, error: Error) {
        self.successes_left.store(writes, Ordering::SeqCst);
        *self.error.lock() = Some(error);
    }

    /// Makes writes succeed again.
    pub fn heal(&self) {
        *self.error.lock() = None;
    }

    /// How many calls of `write` have failed on request.
    pub fn refused(&self) -> i64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// The wrapped engine.
    pub fn inner(&self) -> &E {
        &self.inner
    }
}

impl<E: Engine> RowReader for FaultyEngine<E> {
    fn segments(&self) -> Option<&Segments> {
        self.inner.segments()
    }

    fn base(&self, account: AccountId) -> Result<u64, Error> {
        self.inner.base(account)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
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
        self.inner.scan(table, from, to, reverse, each)
    }

    fn get_many(
        &self,
        table: Table,
        keys: &[Vec<u8>],
        each: &mut LookupFn<'_>,
    ) -> Result<(), Error> {
        self.inner.get_many(table, keys, each)
    }

    fn walk(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        first: WalkStep,
        each: &mut WalkFn<'_>,
    ) -> Result<(), Error> {
        self.inner.walk(table, from, to, first, each)
    }
}

impl<E: Engine> Engine for FaultyEngine<E> {
    fn snapshot(&self) -> Box<dyn RowReader + '_> {
        self.inner.snapshot()
    }

    fn sweeping_snapshot(&self) -> Box<dyn RowReader + '_> {
        self.inner.sweeping_snapshot()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn write(&self, batches: &[Arc<Batch>]) -> Result<Vec<usize>, Error> {
        if let Some(error) = self.error.lock().clone()
            && self.successes_left.fetch_sub(1, Ordering::SeqCst) <= 0
        {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(error);
        }
        self.inner.write(batches)
    }

    fn directory(&self) -> Option<PathBuf> {
        self.inner.directory()
    }

    fn backup(&self, dir: &Path) -> Result<Backup, Error> {
        self.inner.backup(dir)
    }

    fn drop_backups(&self, dir: &Path, keep: usize) -> Result<(), Error> {
        self.inner.drop_backups(dir, keep)
    }

    fn has_remains(&self) -> bool {
        self.inner.has_remains()
    }

    fn clear_remains(&self) -> Result<bool, Error> {
        self.inner.clear_remains()
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    #[cfg(any(test, feature = "internals"))]
    fn usage(&self, table: Table) -> super::Usage {
        self.inner.usage(table)
    }
}
