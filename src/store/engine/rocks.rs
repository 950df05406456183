//! The engine over RocksDB: one column family for each table, and a journal in the segments in
//! place of RocksDB's log.
//!
//! - Only one process has the store open for writing, so no versions of accounts are stored
//!   (`Engine::is_shared`).
//! - Every write syncs the journal, so mail that was acknowledged is on the disk.
//! - Recovery leaves out cancelled frames of the journal, and the last frame if it, or a message
//!   that its rows may name, was not written whole: no write of the rows of these frames has
//!   succeeded. If recovery finds any other damage, the store is not opened.

pub(in crate::store) mod backup;
#[cfg(test)]
pub(crate) mod image;
mod journal;
mod read_only;
mod remains;
mod tuning;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocksdb::perf::get_memory_usage_stats;
use rocksdb::statistics::Ticker;
use rocksdb::{
    ColumnFamily, DB, DBAccess, DBRawIterator, DBRawIteratorWithThreadMode, ReadOptions, WriteBatch,
};

use self::journal::{Journal, MAX_PUT_OVERHEAD, add_put, encode_put};
pub(in crate::store) use self::read_only::open_read_only;
use self::remains::Deletions;
use super::segments::{SegmentGuard, Segments};
use super::{
    Backup, Batch, Engine, LookupFn, Put, RowFn, RowReader, StaleBatches, Statistics, Table,
    WalkFn, WalkStep,
};
use crate::store::Options;
use crate::store::error::Error;
use crate::store::table::Tuning;

/// An open RocksDB.
pub struct RocksEngine {
    db: DB,
    /// The options of the database, which also have the counters for `statistics`.
    options: rocksdb::Options,
    segments: Segments,
    journal: Journal,
    /// Counts deleted neighbouring rows, whose remains are cleared later.
    deletions: Deletions,
}

impl std::fmt::Debug for RocksEngine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RocksEngine").field("path", &self.db.path()).finish_non_exhaustive()
    }
}

impl RocksEngine {
    /// Opens the store in a directory, and creates what is missing.
    ///
    /// # Errors
    /// `Open`; `Full` or `Io` if the rows of the journal cannot be written.
    pub fn open(dir: &Path, settings: &Options) -> Result<Self, Error> {
        let (mut options, families) = tuning::database_options(settings);
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let db =
            DB::open_cf_descriptors(&options, dir, families).map_err(|error| open_error(&error))?;
        let segments = Segments::open(dir, settings, false)?;
        let journal = Journal::open(&db, &segments, settings.log_bytes)?;
        Ok(Self { db, options, segments, journal, deletions: Deletions::default() })
    }

    fn family(&self, table: Table) -> Result<&ColumnFamily, Error> {
        family(&self.db, table.name())
    }

    /// Returns a number that RocksDB keeps about a table; 0 if it does not tell.
    fn property(&self, table: Table, name: &str) -> u64 {
        let number = |family| self.db.property_int_value_cf(family, name).ok().flatten();
        self.family(table).ok().and_then(number).unwrap_or(0)
    }
}

fn family<'db>(db: &'db DB, name: &str) -> Result<&'db ColumnFamily, Error> {
    db.cf_handle(name).ok_or_else(|| Error::Io(format!("column family {name} is missing")))
}

/// Makes the error for a store that cannot be opened, with a remedy. The directory is not in the
/// text: callers name it.
fn open_error(error: &dyn std::fmt::Display) -> Error {
    let text = error.to_string();
    // RocksDB writes some words with and without a capital, so their first letters are left out.
    if text.contains("While lock file") || text.contains("lock hold by current process") {
        return Error::Open(
            "another process has it open: is the service running already?".to_owned(),
        );
    }
    let remedy = if text.contains("orruption") {
        "it is damaged, and nothing was changed. Copy the directory away before anything else; \
         then restore the last backup. Opening it anyway would silently drop mail that was \
         acknowledged"
    } else if text.contains("olumn family not found") {
        "it was written by an older version: start the service once, which brings it up to date"
    } else if text.contains("olumn famil") {
        "it was written by a newer version: use that one"
    } else {
        "check that the directory exists, that the service owns it, and that the disk has space"
    };
    Error::Open(format!("it cannot be opened: {text}. {remedy}."))
}

/// Makes the error for a failed read or write of an open store.
fn io(error: &rocksdb::Error) -> Error {
    let text = error.to_string();
    // After ENOSPC, RocksDB recovers by itself. After every other failed write, also an exceeded
    // quota (EDQUOT), it refuses writes until it is opened again: `Io` poisons the store, and the
    // watchdog restarts the service.
    if text.contains("No space left on device") { Error::Full } else { Error::Io(text) }
}

fn read_options(from: &[u8], to: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_lower_bound(from);
    options.set_iterate_upper_bound(to);
    options
}

/// Moves an iterator by the step `first`, and then as `each` says. After that it moves only when
/// `each` asks for another row: behind the last wanted row there may be remains of thousands of
/// deleted rows, and the iterator would step over all of them.
fn walk<D: DBAccess>(
    mut rows: DBRawIteratorWithThreadMode<'_, D>,
    first: WalkStep,
    each: &mut WalkFn<'_>,
) -> Result<(), Error> {
    let mut step = first;
    loop {
        match step {
            WalkStep::At(key) => rows.seek(key),
            WalkStep::Before(key) => {
                rows.seek_for_prev(&key);
                if rows.key() == Some(&key) {
                    rows.prev();
                }
            }
            WalkStep::Next if rows.valid() => rows.next(),
            WalkStep::Prev if rows.valid() => rows.prev(),
            WalkStep::Next | WalkStep::Prev | WalkStep::End => return Ok(()),
        }
        let row = rows.item();
        if row.is_none() {
            rows.status().map_err(|error| io(&error))?;
        }
        step = each(row)?;
    }
}

/// Returns the rows of all batches, each with the position of its batch, sorted by table, key and
/// position. With `shared_once`, rows that adjacent batches share are listed only for the first of
/// these batches.
fn sorted_puts(batches: &[Arc<Batch>], shared_once: bool) -> Vec<(usize, &Put)> {
    let mut puts: Vec<(usize, &Put)> = Vec::new();
    let mut last_shared: Option<&Arc<Vec<Put>>> = None;
    for (at, batch) in batches.iter().enumerate() {
        // The shared rows come first in `all_puts`.
        let skipped = match (&batch.shared, last_shared) {
            (Some(shared), Some(last)) if shared_once && Arc::ptr_eq(shared, last) => shared.len(),
            _ => 0,
        };
        puts.extend(batch.all_puts().skip(skipped).map(|put| (at, put)));
        last_shared = batch.shared.as_ref();
    }
    puts.sort_by(|(_, one), (_, other)| (one.table, &one.key).cmp(&(other.table, &other.key)));
    puts
}

/// Calls `each` with the rows of an iterator, until it returns `false`.
fn scan<D: DBAccess>(
    rows: DBRawIteratorWithThreadMode<'_, D>,
    [from, to]: [&[u8]; 2],
    reverse: bool,
    each: &mut RowFn<'_>,
) -> Result<(), Error> {
    let (first, next) = if reverse {
        (WalkStep::Before(to.to_vec()), WalkStep::Prev)
    } else {
        (WalkStep::At(from.to_vec()), WalkStep::Next)
    };
    walk(rows, first, &mut |row| match row {
        Some((key, value)) if each(key, value)? => Ok(next.clone()),
        _ => Ok(WalkStep::End),
    })
}

impl RowReader for RocksEngine {
    fn segments(&self) -> Option<&Segments> {
        Some(&self.segments)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.db.get_cf(self.family(table)?, key).map_err(|error| io(&error))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let rows = self.rows(table, from, to)?;
        self.flush_after_remains(table, || scan(rows, [from, to], reverse, each))
    }

    fn walk(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        first: WalkStep,
        each: &mut WalkFn<'_>,
    ) -> Result<(), Error> {
        let rows = self.rows(table, from, to)?;
        self.flush_after_remains(table, || walk(rows, first, each))
    }
}

impl RocksEngine {
    fn rows(&self, table: Table, from: &[u8], to: &[u8]) -> Result<DBRawIterator<'_>, Error> {
        Ok(self.db.raw_iterator_cf_opt(self.family(table)?, read_options(from, to)))
    }
}

impl RocksEngine {
    /// Makes a snapshot. `fills_cache` is that of `RocksSnapshot`.
    fn open_snapshot(&self, fills_cache: bool) -> RocksSnapshot<'_> {
        // The guard is taken first, so that no segment is missing that a row of the snapshot names.
        let guard = self.segments.guard();
        let (mut options, snapshot) = (ReadOptions::default(), self.db.snapshot());
        options.set_snapshot(&snapshot);
        RocksSnapshot { engine: self, options, snapshot, fills_cache, _guard: guard }
    }
}

struct RocksSnapshot<'a> {
    engine: &'a RocksEngine,
    /// Options that read from `snapshot`.
    options: ReadOptions,
    snapshot: rocksdb::Snapshot<'a>,
    /// Whether blocks that scans read are put into the cache.
    fills_cache: bool,
    _guard: SegmentGuard,
}

impl RocksSnapshot<'_> {
    fn rows(&self, table: Table, from: &[u8], to: &[u8]) -> Result<DBRawIterator<'_>, Error> {
        let mut options = read_options(from, to);
        options.fill_cache(self.fills_cache);
        Ok(self.snapshot.raw_iterator_cf_opt(self.engine.family(table)?, options))
    }
}

impl RowReader for RocksSnapshot<'_> {
    fn segments(&self) -> Option<&Segments> {
        Some(&self.engine.segments)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let found =
            self.engine.db.get_pinned_cf_opt(self.engine.family(table)?, key, &self.options);
        Ok(found.map_err(|error| io(&error))?.map(|value| value.to_vec()))
    }

    fn get_many(
        &self,
        table: Table,
        keys: &[Vec<u8>],
        each: &mut LookupFn<'_>,
    ) -> Result<(), Error> {
        let family = self.engine.family(table)?;
        let found =
            self.engine.db.batched_multi_get_cf_opt(family, keys, keys.is_sorted(), &self.options);
        keys.iter()
            .zip(found)
            .try_for_each(|(key, row)| each(key, row.map_err(|error| io(&error))?.as_deref()))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let rows = self.rows(table, from, to)?;
        self.engine.flush_after_remains(table, || scan(rows, [from, to], reverse, each))
    }

    fn walk(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        first: WalkStep,
        each: &mut WalkFn<'_>,
    ) -> Result<(), Error> {
        let rows = self.rows(table, from, to)?;
        self.engine.flush_after_remains(table, || walk(rows, first, each))
    }
}

impl Engine for RocksEngine {
    fn snapshot(&self) -> Box<dyn RowReader + '_> {
        Box::new(self.open_snapshot(true))
    }

    fn sweeping_snapshot(&self) -> Box<dyn RowReader + '_> {
        Box::new(self.open_snapshot(false))
    }

    fn write(&self, batches: &[Arc<Batch>]) -> Result<Vec<usize>, Error> {
        // Insertions into a memtable are faster in the order of the keys: the place of each is near
        // that of the one before.
        let mut puts = sorted_puts(batches, true);
        let mut stale = self.stale_batches(batches, &puts)?;
        if !stale.is_empty() {
            // The batch for which shared rows were listed may be stale. So they are listed for each
            // batch, and the batches are judged again.
            puts = sorted_puts(batches, false);
            stale = self.stale_batches(batches, &puts)?;
            puts.retain(|(at, _)| !stale.contains(*at));
        }
        let bytes = puts.iter().map(|(_, put)| put.byte_len() + MAX_PUT_OVERHEAD).sum();
        let (mut merged, mut rows) =
            (WriteBatch::with_capacity_bytes(bytes), Vec::with_capacity(bytes));
        let mut last: Option<(Table, &ColumnFamily)> = None;
        let mut followers = puts.iter().skip(1);
        for (_, put) in &puts {
            let next = followers.next();
            // If a key is written twice, the last value counts.
            if next.is_some_and(|(_, next)| next.table == put.table && next.key == put.key) {
                continue;
            }
            encode_put(put, &mut rows)?;
            let family = match last {
                Some((table, family)) if table == put.table => family,
                _ => self.family(put.table)?,
            };
            last = Some((put.table, family));
            add_put(family, &mut merged, put);
        }
        if !rows.is_empty() {
            self.write_journaled(merged, &rows)?;
        }
        let deleted = puts.iter().map(|(_, put)| *put).filter(|put| put.value.is_none());
        self.deletions.note(deleted.filter(|put| put.table.has_tuning(Tuning::NewestFirst)));
        Ok(stale.positions())
    }

    fn has_remains(&self) -> bool {
        self.deletions.are_due()
    }

    fn clear_remains(&self) -> Result<bool, Error> {
        self.clear_deleted()
    }

    fn directory(&self) -> Option<PathBuf> {
        Some(self.db.path().to_path_buf())
    }

    fn flush(&self) -> Result<(), Error> {
        self.flush_all(true)
    }

    fn delete_segments(&self, segments: &[u32]) -> Result<Option<u64>, Error> {
        self.release_log(segments)?;
        self.segments.delete(segments)
    }

    fn backup(&self, dir: &Path) -> Result<Backup, Error> {
        self.make_backup(dir)
    }

    fn drop_backups(&self, dir: &Path, keep: usize) -> Result<(), Error> {
        Self::purge_backups(dir, keep)
    }

    fn statistics(&self) -> Statistics {
        let ticker = |which| self.options.get_ticker_count(which);
        Statistics {
            syncs: self.segments.syncs(),
            log_bytes: self.segments.written(),
            table_bytes: ticker(Ticker::FlushWriteBytes)
                + ticker(Ticker::CompactWriteBytes)
                + ticker(Ticker::BlobDbBlobFileBytesWritten),
            memtable_bytes: get_memory_usage_stats(Some(&[&self.db]), None)
                .map_or(0, |memory| memory.mem_table_total),
            cache_bytes: self.property(Table::Site, "rocksdb.block-cache-usage"),
        }
    }

    #[cfg(any(test, feature = "internals"))]
    fn usage(&self, table: Table) -> super::Usage {
        let Ok(family) = self.family(table) else { return super::Usage::default() };
        let number = |name: &str| self.property(table, name);
        let report =
            self.db.property_value_cf(family, "rocksdb.cfstats").ok().flatten().unwrap_or_default();
        let (blobs, tables) =
            (number("rocksdb.live-blob-file-size"), number("rocksdb.live-sst-files-size"));
        super::Usage {
            rows: number("rocksdb.estimate-num-keys"),
            bytes: tables.saturating_add(blobs),
            flushed: parse_gib(&report, "Flush(GB): cumulative "),
            written: parse_gib(&report, "Cumulative compaction: "),
        }
    }
}

/// Returns, in bytes, the figure that follows a label in RocksDB's report. The report counts in
/// units of 1024³ bytes, with two or three digits after the point.
#[cfg(any(test, feature = "internals"))]
fn parse_gib(report: &str, label: &str) -> u64 {
    let figure = report.split_once(label).and_then(|(_, rest)| rest.split([' ', ',']).next());
    let (whole, part) = figure.and_then(|figure| figure.split_once('.')).unwrap_or(("0", "0"));
    let digits = u32::try_from(part.len()).unwrap_or(0);
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    let part =
        number(part).saturating_mul(1 << 30).checked_div(10u64.saturating_pow(digits)).unwrap_or(0);
    number(whole).saturating_mul(1 << 30).saturating_add(part)
}

impl RocksEngine {
    /// Finds the batches whose assertions fail, and the later ones that are stale because of them.
    /// An assertion of a batch sees the rows of the batches before it that are not stale. `puts`
    /// are the rows of all batches as `sorted_puts` sorts them.
    fn stale_batches(
        &self,
        batches: &[Arc<Batch>],
        puts: &[(usize, &Put)],
    ) -> Result<StaleBatches, Error> {
        let mut stale = StaleBatches::default();
        for (at, batch) in batches.iter().enumerate() {
            let mut is_overtaken = false;
            for asserted in &batch.asserts {
                let end = puts.partition_point(|(of, put)| {
                    (put.table, &put.key, *of).cmp(&(asserted.table, &asserted.key, at)).is_lt()
                });
                let mut earlier =
                    puts.get(..end).unwrap_or_default().iter().rev().take_while(|(_, put)| {
                        put.table == asserted.table && put.key == asserted.key
                    });
                is_overtaken |= match earlier.find(|(of, _)| !stale.contains(*of)) {
                    Some((_, put)) => put.value != asserted.value,
                    None => self.get(asserted.table, &asserted.key)? != asserted.value,
                };
            }
            stale.check(at, batch, is_overtaken);
        }
        Ok(stale)
    }
}

impl Drop for RocksEngine {
    fn drop(&mut self) {
        self.db.cancel_all_background_work(true);
    }
}

#[cfg(test)]
mod tests;
