//! The engine under the store: ordered keys in named tables, and nothing of mail.
//!
//! The contract, which `suite` holds every engine to:
//! - `get` and `scan` see every write that has returned, and no part of one that has not;
//! - a snapshot sees one state, whatever is written later;
//! - `write` makes each batch all or nothing, and durable when it returns. Batches apply in order:
//!   a later one may assert what an earlier one set;
//! - a batch is stale, and nothing of it is written, where one of its assertions fails, where one
//!   of its accounts has another version than its base, or where an earlier batch of the same write
//!   that names one of its accounts is stale. The other batches are written;
//! - an engine that several processes share gives each account a version, which every batch that
//!   names it raises. Elsewhere the account's lock in memory is enough: `base` is 0, and no version
//!   is stored or compared;
//! - after an error of `write` other than `Full` or `Away` the caller takes the state of the disk
//!   as unknown.

#[cfg(test)]
pub mod fault;
#[cfg(any(test, feature = "internals", not(feature = "rocksdb")))]
pub mod memory;
#[cfg(feature = "rocksdb")]
pub mod rocks;
#[cfg(test)]
mod suite;
pub(crate) mod typed;
#[cfg(test)]
pub mod watched;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Error;
pub use super::table::TableId as Table;
use crate::model::{AccountId, UtcMillis};

/// One row of a batch: set (`Some`) or deleted (`None`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// In which table.
    pub table: Table,
    /// Under which key.
    pub key: Vec<u8>,
    /// The row, or `None` to delete it.
    pub value: Option<Vec<u8>>,
}

/// An account that a batch changes, and the version of it that the change is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    pub account: AccountId,
    /// The version as [`RowReader::base`] gave it, and one more for each batch that was queued
    /// before this one.
    pub version: u64,
}

/// Rows that are written together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The accounts that it changes; none in what an engine's owner writes beside all accounts.
    pub bases: Vec<Base>,
    /// The rows, ascending by table and key, each once.
    pub puts: Vec<Put>,
    /// Rows that several batches of one write have in common: a message that is delivered to
    /// several accounts.
    pub shared: Option<Arc<Vec<Put>>>,
    /// Rows that must read so for the batch to be written.
    pub asserts: Vec<Put>,
}

impl Batch {
    /// Rows that are based on nothing and written in any case.
    #[must_use]
    pub fn of(puts: Vec<Put>) -> Self {
        Self { puts, ..Self::default() }
    }

    /// All that it writes, the shared rows first.
    pub(super) fn all_puts(&self) -> impl Iterator<Item = &Put> {
        self.shared.iter().flat_map(|shared| shared.iter()).chain(&self.puts)
    }

    /// What this batch says of a key: nothing, deleted, or its value.
    #[must_use]
    pub fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        let found =
            self.puts.binary_search_by(|put| (put.table, put.key.as_slice()).cmp(&(table, key)));
        found.ok().and_then(|at| self.puts.get(at)).map(|put| put.value.as_deref())
    }

    /// The rows of a table with `from <= key < to`, in order.
    pub fn range(&self, table: Table, from: &[u8], to: &[u8]) -> &[Put] {
        let behind = |key: &[u8]| {
            self.puts.partition_point(|put| (put.table, put.key.as_slice()) < (table, key))
        };
        self.puts.get(behind(from)..behind(to)).unwrap_or_default()
    }
}

/// What a scan calls for each row: key, value; `false` ends it.
pub type RowFn<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, Error> + 'a;

/// What is called for each key that was asked for: key, and its row.
pub type LookupFn<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), Error> + 'a;

/// Where a walk goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    not(any(test, feature = "internals", feature = "rocksdb")),
    expect(dead_code, reason = "only the scans of RocksDB walk back")
)]
pub enum WalkStep {
    /// To the first row at this key or behind it.
    At(Vec<u8>),
    /// To the last row before this key.
    Before(Vec<u8>),
    /// To the row behind the one where it stands; where it stands at none it ends.
    Next,
    /// To the row before the one where it stands; where it stands at none it ends.
    Prev,
    /// Nowhere.
    End,
}

/// What a walk asks at each row.
pub type WalkFn<'a> = dyn FnMut(Option<(&[u8], &[u8])>) -> Result<WalkStep, Error> + 'a;

/// Reading: the newest state of an engine, one snapshot of it, or a transaction's own view.
pub trait RowReader {
    /// The version of an account in this state, for [`Base::version`]; 0 where the engine has none.
    ///
    /// # Errors
    /// Those of the engine.
    fn base(&self, _account: AccountId) -> Result<u64, Error> {
        Ok(0)
    }

    /// One row.
    ///
    /// # Errors
    /// `Io` or `Corrupt` of the engine, or `Away`.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// The rows of all these keys, in their order: what as many calls of `get` give, which may cost
    /// less in company.
    ///
    /// # Errors
    /// As for `get`, and what `each` returns.
    fn get_many(
        &self,
        table: Table,
        keys: &[Vec<u8>],
        each: &mut LookupFn<'_>,
    ) -> Result<(), Error> {
        keys.iter().try_for_each(|key| each(key, self.get(table, key)?.as_deref()))
    }

    /// Rows with `from <= key < to`, ascending, or descending if `reverse`.
    ///
    /// # Errors
    /// Those of the engine, and what `each` returns.
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error>;

    /// A walk to and fro over the rows with `from <= key < to`: `each` is shown the row where it
    /// stands, or none where there is none, and says where to go. It finds what a scan for each
    /// step would; an engine that pays for the beginning of a scan pays here but once.
    ///
    /// # Errors
    /// Those of the engine, and what `each` returns.
    fn walk(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        first: WalkStep,
        each: &mut WalkFn<'_>,
    ) -> Result<(), Error> {
        let (mut go, mut at) = (first, None::<Vec<u8>>);
        loop {
            let (from, to, reverse) = match (go, at) {
                (WalkStep::At(key), _) => (key.max(from.to_vec()), to.to_vec(), false),
                (WalkStep::Before(key), _) => (from.to_vec(), key.min(to.to_vec()), true),
                (WalkStep::Next, Some(at)) => ([at.as_slice(), &[0]].concat(), to.to_vec(), false),
                (WalkStep::Prev, Some(at)) => (from.to_vec(), at, true),
                (WalkStep::Next | WalkStep::Prev, None) | (WalkStep::End, _) => return Ok(()),
            };
            let mut found = None;
            self.scan(table, &from, &to, reverse, &mut |key, value| {
                found = Some((key.to_vec(), value.to_vec()));
                Ok(false)
            })?;
            go = each(found.as_ref().map(|(key, value)| (key.as_slice(), value.as_slice())))?;
            at = found.map(|(key, _)| key);
        }
    }
}

/// What an engine has done since it was opened, for benches and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Synced writes.
    pub syncs: u64,
    /// Octets written to the log.
    pub log_bytes: u64,
    /// Octets written by flushes and compactions.
    pub table_bytes: u64,
}

/// What one table holds and has cost since it was opened, in as far as the engine knows.
#[cfg(any(test, feature = "internals"))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Rows, estimated.
    pub rows: u64,
    /// Octets on disk.
    pub bytes: u64,
    /// Octets that flushes wrote.
    pub flushed: u64,
    /// Octets that flushes and compactions wrote.
    pub written: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// Its number: later ones have higher ones.
    pub id: u32,
    /// When it was made, to the second.
    pub at: UtcMillis,
    /// Octets of all its files, shared ones among them.
    pub bytes: u64,
    pub files: u32,
    /// Octets that were written for it; 0 where that is not known any more.
    pub written: u64,
}

/// An ordered, durable key-value engine.
pub trait Engine: RowReader + Send + Sync + Debug {
    /// One consistent state.
    fn snapshot(&self) -> Box<dyn RowReader + '_>;

    /// The same for whoever reads everything once: what its scans read takes no place in the cache
    /// from what others read again and again.
    fn sweeping_snapshot(&self) -> Box<dyn RowReader + '_> {
        self.snapshot()
    }

    /// Whether other processes may write here as well: then a change is based on the version of its
    /// account, reads one snapshot, and is run again where it was overtaken. A commit then waits
    /// for its write, so it may not be called from an asynchronous task.
    fn is_shared(&self) -> bool {
        false
    }

    /// Writes the batches, durably, and returns the positions of those that were stale, ascending.
    ///
    /// # Errors
    /// `Full` where the disk is, `Away` where the engine cannot be reached: nothing was written
    /// then. Else what the engine says.
    fn write(&self, batches: &[Arc<Batch>]) -> Result<Vec<usize>, Error>;

    /// The directory that it lives in; none where it has no disk.
    fn directory(&self) -> Option<PathBuf> {
        None
    }

    /// Adds a backup to a directory of them: of what the ones before it have nothing is written
    /// twice.
    ///
    /// # Errors
    /// What the engine says, or that it has no disk.
    fn backup(&self, _dir: &Path) -> Result<Backup, Error> {
        Err(no_disk())
    }

    /// Lets go of all backups but the newest `keep`.
    ///
    /// # Errors
    /// As for `backup`.
    fn drop_backups(&self, _dir: &Path, _keep: usize) -> Result<(), Error> {
        Err(no_disk())
    }

    /// Whether so many rows were deleted side by side that `clear_remains` has something to look
    /// at.
    fn has_remains(&self) -> bool {
        false
    }

    /// Removes the remains of rows that were deleted side by side, of one neighbourhood at most;
    /// says whether there is more to look at. Where rows are still being deleted the first call
    /// only notes that: time should pass between two calls. May rewrite files of the tables: not
    /// for a thread that somebody waits for.
    ///
    /// # Errors
    /// Those of reading.
    fn clear_remains(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// What was done so far.
    fn statistics(&self) -> Statistics;

    /// What a table holds and has cost.
    #[cfg(any(test, feature = "internals"))]
    fn usage(&self, table: Table) -> Usage;
}

/// Which batches of a write are stale; an engine tells it of each batch, in their order.
#[derive(Debug, Default)]
pub(super) struct StaleBatches {
    positions: Vec<usize>,
    accounts: Vec<AccountId>,
}

impl StaleBatches {
    /// Whether a batch is stale: because `is_overtaken` says so, or an earlier one with an account
    /// of its own is.
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

    /// Whether the batch at a position is stale.
    #[cfg(feature = "rocksdb")]
    pub(super) fn contains(&self, at: usize) -> bool {
        self.positions.binary_search(&at).is_ok()
    }

    pub(super) fn positions(self) -> Vec<usize> {
        self.positions
    }
}

fn no_disk() -> Error {
    Error::Conflict("a store in memory has no disk: there is nothing to back up".into())
}

/// The first key after every key that begins with `prefix`.
#[must_use]
pub fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    vec![0xff; 64] // longer than any key of ours: the end of the table
}
