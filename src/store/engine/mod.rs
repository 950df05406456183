//! The interface of storage engines: ordered keys in named tables. An engine knows nothing of mail.
//!
//! Every engine keeps this contract. `suite` tests what of it can be seen without a crash or an
//! error:
//! - `get` and `scan` see every write that has returned.
//! - A snapshot shows one state, whatever is written later.
//! - `write` writes each batch whole or not at all. What it wrote is durable when it returns,
//!   except in the engine in memory. Batches apply in order, so a batch may assert what an earlier
//!   batch of the same write set.
//! - Nothing is written of a stale batch. A batch is stale if one of its assertions fails, if one
//!   of its accounts has another version than its base, or if an earlier batch of the same write is
//!   stale and names one of its accounts. The other batches are written.
//! - An engine that several processes share stores a version of each account. Every batch of the
//!   account that is written raises it. Other engines need none, because the account's lock in
//!   memory is enough: `base` may always be 0.
//! - Before `write` writes a row, what was appended to the segments is durable.
//! - After an error of `write` other than `Full` or `Away`, the state of the disk is unknown.

#[cfg(test)]
pub mod fault;
#[cfg(any(test, feature = "internals", not(feature = "rocksdb")))]
pub mod memory;
pub(in crate::store) mod overlay;
#[cfg(feature = "rocksdb")]
pub mod rocks;
#[cfg_attr(
    not(feature = "rocksdb"),
    expect(dead_code, reason = "the engine in memory has no segments")
)]
pub mod segments;
#[cfg(test)]
mod suite;
pub(crate) mod typed;
#[cfg(test)]
pub mod watched;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::segments::Segments;
use super::error::Error;
/// The name by which engines, and errors, know a table. (`store::table::Table` is the trait of the
/// types that name tables where keys and rows are typed.)
pub use super::table::TableId as Table;
use crate::model::{AccountId, UtcMillis};

/// One row of a batch: set (`Some`) or deleted (`None`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    pub table: Table,
    pub key: Vec<u8>,
    /// The row, or `None` to delete it.
    pub value: Option<Vec<u8>>,
}

impl Put {
    /// The bytes of the key and the row.
    pub(in crate::store) fn byte_len(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// An account that a batch changes, and the version of the account that the batch was built on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    pub account: AccountId,
    /// What [`RowReader::base`] returned, plus one for each batch of the account that was queued
    /// before this one.
    pub version: u64,
}

/// Rows that are written together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The accounts that the batch changes. Empty if the batch belongs to no account.
    pub bases: Vec<Base>,
    /// The rows, ascending by table and key, each once. `get` and `range` rely on this order.
    pub puts: Vec<Put>,
    /// Rows that several batches have in common, such as a message that is delivered to several
    /// accounts, sorted as `puts` are. Each batch that is not stale writes them. `get` and `range`
    /// do not find them.
    pub shared: Option<Arc<Vec<Put>>>,
    /// Rows that must have these values, or not exist (`None`): otherwise the batch is stale.
    pub asserts: Vec<Put>,
}

impl Batch {
    /// A batch without bases and assertions, which is never stale.
    #[must_use]
    pub fn of(puts: Vec<Put>) -> Self {
        Self { puts, ..Self::default() }
    }

    /// Every row that the batch writes, the shared rows first.
    pub(super) fn all_puts(&self) -> impl Iterator<Item = &Put> {
        self.shared.iter().flat_map(|shared| shared.iter()).chain(&self.puts)
    }

    /// The value that `puts` sets for a key: `None` if the key is not among them, `Some(None)` if
    /// the row is deleted.
    #[must_use]
    pub fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        let found =
            self.puts.binary_search_by(|put| (put.table, put.key.as_slice()).cmp(&(table, key)));
        found.ok().and_then(|at| self.puts.get(at)).map(|put| put.value.as_deref())
    }

    /// The rows of a table in `puts` with `from <= key < to`, in order.
    pub fn range(&self, table: Table, from: &[u8], to: &[u8]) -> &[Put] {
        let position = |key: &[u8]| {
            self.puts.partition_point(|put| (put.table, put.key.as_slice()) < (table, key))
        };
        self.puts.get(position(from)..position(to)).unwrap_or_default()
    }
}

/// Called by a scan with the key and the value of each row; returns `false` to end the scan.
pub type RowFn<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, Error> + 'a;

/// Called by a lookup with each key and its row, if there is one.
pub type LookupFn<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), Error> + 'a;

/// The next move of a walk over rows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    not(any(test, feature = "internals", feature = "rocksdb")),
    expect(dead_code, reason = "only the scans of RocksDB walk back")
)]
pub enum WalkStep {
    /// Goes to the first row whose key is not less than this key.
    At(Vec<u8>),
    /// Goes to the last row before this key.
    Before(Vec<u8>),
    /// Goes to the next row. Ends the walk if it stands at no row.
    Next,
    /// Goes to the previous row. Ends the walk if it stands at no row.
    Prev,
    /// Ends the walk.
    End,
}

/// Called by a walk with the row where it stands, if there is one; returns the next move.
pub type WalkFn<'a> = dyn FnMut(Option<(&[u8], &[u8])>) -> Result<WalkStep, Error> + 'a;

/// Reads rows of the newest state of an engine, of a snapshot, or of a transaction.
///
/// A function that can fail does so with `Io` or `Corrupt` of the engine, with `Away` if the engine
/// cannot be reached, with `Rebuilding` if the account is under repair (`RepairGuard`), or with the
/// error that its callback returns.
pub trait RowReader {
    /// Returns the version of an account in this state, for [`Base::version`]; 0 if the engine
    /// stores none.
    ///
    /// # Errors
    /// Those of the engine.
    fn base(&self, _account: AccountId) -> Result<u64, Error> {
        Ok(0)
    }

    /// The segments in which rows may name values; `None` if all values are in rows. While the
    /// reader is a snapshot or a transaction, no segment is deleted that a row of its state names.
    fn segments(&self) -> Option<&Segments> {
        None
    }

    /// Returns the row under a key.
    ///
    /// # Errors
    /// Those of the engine.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Calls `each` with the row of each of these keys, in their order, which may be any. An engine
    /// may do this at less cost than with single calls of `get`, above all if the keys ascend.
    ///
    /// # Errors
    /// Those of the engine, and what `each` returns.
    fn get_many(
        &self,
        table: Table,
        keys: &[Vec<u8>],
        each: &mut LookupFn<'_>,
    ) -> Result<(), Error> {
        keys.iter().try_for_each(|key| each(key, self.get(table, key)?.as_deref()))
    }

    /// Calls `each` with the rows with `from <= key < to`, ascending, or descending if `reverse`.
    /// There are none if `from >= to`.
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

    /// Walks forwards and backwards over the rows with `from <= key < to`: moves by `first`, then
    /// calls `each` with the row where the walk stands, or with `None` where there is none, and
    /// moves on as `each` says. `At` a key before the range leads to the first row of the range,
    /// `Before` a key behind the range to its last row. The rows are those that one scan for each
    /// step would find, but an engine needs to open only one iterator.
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
        let (mut step, mut at) = (first, None::<Vec<u8>>);
        loop {
            let (from, to, reverse) = match (step, at) {
                (WalkStep::At(key), _) => (key.max(from.to_vec()), to.to_vec(), false),
                (WalkStep::Before(key), _) => (from.to_vec(), key.min(to.to_vec()), true),
                (WalkStep::Next, Some(at)) => (next_key(&at), to.to_vec(), false),
                (WalkStep::Prev, Some(at)) => (from.to_vec(), at, true),
                (WalkStep::Next | WalkStep::Prev, None) | (WalkStep::End, _) => return Ok(()),
            };
            let mut found = None;
            self.scan(table, &from, &to, reverse, &mut |key, value| {
                found = Some((key.to_vec(), value.to_vec()));
                Ok(false)
            })?;
            step = each(found.as_ref().map(|(key, value)| (key.as_slice(), value.as_slice())))?;
            at = found.map(|(key, _)| key);
        }
    }
}

impl<T: RowReader + ?Sized> RowReader for &T {
    fn base(&self, account: AccountId) -> Result<u64, Error> {
        (**self).base(account)
    }

    fn segments(&self) -> Option<&Segments> {
        (**self).segments()
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        (**self).get(table, key)
    }

    fn get_many(
        &self,
        table: Table,
        keys: &[Vec<u8>],
        each: &mut LookupFn<'_>,
    ) -> Result<(), Error> {
        (**self).get_many(table, keys, each)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        (**self).scan(table, from, to, reverse, each)
    }

    fn walk(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        first: WalkStep,
        each: &mut WalkFn<'_>,
    ) -> Result<(), Error> {
        (**self).walk(table, from, to, first, each)
    }
}

/// Counters of an engine since it was opened, and the memory that it holds now. For benches and
/// metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Syncs of segments. In the engine in memory, calls of `write`.
    pub syncs: u64,
    /// Bytes appended to the segments: messages, and the rows of the journal. In the engine in
    /// memory, the bytes of all rows that were written.
    pub log_bytes: u64,
    /// Bytes written by flushes and compactions.
    pub table_bytes: u64,
    /// Bytes of memory for rows that are not yet in a table file.
    pub memtable_bytes: u64,
    /// Bytes of memory in the cache of what was read from table files.
    pub cache_bytes: u64,
}

/// The size of a table, and what was written for it since the engine was opened. 0 if the engine
/// does not know.
#[cfg(any(test, feature = "internals"))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The estimated number of rows.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes written by flushes.
    pub flushed: u64,
    /// Bytes written by flushes and compactions.
    pub written: u64,
}

/// A backup in a directory of backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// Ascends with the time of the backups of the directory.
    pub id: u32,
    /// The time of the backup, to the second.
    pub at: UtcMillis,
    /// Bytes of all its files, including those that it shares with other backups.
    pub bytes: u64,
    pub files: u32,
    /// Bytes that were written for this backup: in what `Store::backup` returns; 0 elsewhere.
    pub written: u64,
}

/// An ordered, durable key-value engine.
pub trait Engine: RowReader + Send + Sync + Debug {
    /// Returns one consistent state.
    fn snapshot(&self) -> Box<dyn RowReader + '_>;

    /// Returns one consistent state for reading everything once: rows that are scanned in it do not
    /// displace other rows from the cache.
    fn sweeping_snapshot(&self) -> Box<dyn RowReader + '_> {
        self.snapshot()
    }

    /// Whether other processes may write, too. If so, a change is based on the version of its
    /// account, reads one snapshot, and is run again if it was overtaken. A commit then waits for
    /// its write, so it must not be called from an asynchronous task.
    fn is_shared(&self) -> bool {
        false
    }

    /// Writes the batches durably, and returns the positions in `batches` of the stale ones,
    /// ascending.
    ///
    /// # Errors
    /// `Full` if the disk is full and `Away` if the engine cannot be reached: nothing was written.
    /// `Io` for every other failure.
    fn write(&self, batches: &[Arc<Batch>]) -> Result<Vec<usize>, Error>;

    /// Writes all rows to the tables' files, where programs that know no journal find them.
    ///
    /// # Errors
    /// Those of the engine.
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Deletes retired segments, and returns the bytes of their files (`Segments::delete`); `None`
    /// while a backup or another deletion runs, or if the engine has no segments.
    ///
    /// # Errors
    /// Those of the engine, and of `Segments::delete`.
    fn delete_segments(&self, _segments: &[u32]) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// The directory of the engine's files; `None` if it has none.
    fn directory(&self) -> Option<PathBuf> {
        None
    }

    /// Adds a backup to a directory of backups. Files that earlier backups have are not written
    /// again. `Backup::written` is left 0.
    ///
    /// # Errors
    /// Those of the engine; `Conflict` if it has no disk.
    fn backup(&self, _dir: &Path) -> Result<Backup, Error> {
        Err(no_disk())
    }

    /// Deletes the backups that are older than the newest `keep` whole ones. A backup that was
    /// interrupted is not whole: it does not count, and stays if it is newer than the oldest one
    /// that is kept.
    ///
    /// # Errors
    /// Those of the engine; `Conflict` if it has no disk.
    fn drop_backups(&self, _dir: &Path, _keep: usize) -> Result<(), Error> {
        Err(no_disk())
    }

    /// Whether many neighbouring rows were deleted, and `clear_remains` should be called.
    fn has_remains(&self) -> bool {
        false
    }

    /// Removes what many deleted neighbouring rows leave in the engine's files: markers that an
    /// iterator must step over one by one. A call does this for one group of neighbours at most,
    /// and returns whether it should be called again.
    ///
    /// A group in which more rows were deleted since the last call is left for a later one, unless
    /// it is very large, so time should pass between two calls. A call may rewrite files of the
    /// tables and take seconds, so it must not run on a thread that somebody waits for.
    ///
    /// # Errors
    /// Those of reading.
    fn clear_remains(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Counters since the engine was opened.
    fn statistics(&self) -> Statistics;

    /// The size of a table, and what was written for it.
    #[cfg(any(test, feature = "internals"))]
    fn usage(&self, table: Table) -> Usage;
}

/// Collects which batches of a write are stale. The engine calls `check` for each batch, in order.
#[derive(Debug, Default)]
pub(super) struct StaleBatches {
    positions: Vec<usize>,
    accounts: Vec<AccountId>,
}

impl StaleBatches {
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

fn no_disk() -> Error {
    Error::Conflict("a store in memory has no files, so it cannot be backed up".into())
}

/// The first key after this one.
#[must_use]
pub fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
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
    // The prefix is empty or has only 0xff bytes. This key is behind every key of a table.
    vec![0xff; 64]
}
