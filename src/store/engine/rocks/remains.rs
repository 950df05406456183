//! What is left of deleted rows, which iterators step over one by one until RocksDB drops it.
//!
//! - Rows that are deleted side by side, as when thousands of emails are destroyed at once, are
//!   counted as they are written (`Deletions`). Once a neighbourhood has many and no more of them
//!   come, `clear_deleted` looks how many lie between two rows that are still there, and compacts
//!   the stretch from the first such run to the last.
//! - Replies delete rows of listings, too, one here and one there. Looking costs what was deleted,
//!   and nothing is compacted where no run is found.
//! - Whoever reads before that has the table in memory flushed (`noting_remains`). That alone does
//!   not suffice: RocksDB keeps deletions in files with no files of a lower level beneath.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rocksdb::perf::{PerfContext, PerfMetric};
use rocksdb::{BottommostLevelCompaction, CompactOptions, FlushOptions};

use super::{RocksEngine, io, read_options};
use crate::store::engine::{Put, Table};
use crate::store::error::Error;
use crate::store::table::Tuning;

/// Remains that a reader may step over: a scan of more has those in memory flushed, and a run of
/// more is compacted.
pub(super) const REMAINS: u64 = 1024;
/// Files that are not sorted into levels yet, from which on no scan asks for another one: with four
/// times as many RocksDB slows writes down, and a flush would wait.
const MAX_UNSORTED_FILES: u64 = 10;
/// Bytes at the end of a key in which the rows of one neighbourhood differ: the id of an email.
const ID_BYTES: usize = 8;
/// Rows deleted in a neighbourhood from which on it is looked at.
const MIN_EXAMINED_DELETIONS: u64 = 4096;
/// From so many on it is looked at while more are being deleted, too.
const MIN_URGENT_DELETIONS: u64 = 32 * MIN_EXAMINED_DELETIONS;
/// Neighbourhoods with fewer deletions than `MIN_EXAMINED_DELETIONS` that are remembered.
const MAX_TRACKED_NEIGHBOURHOODS: usize = 4096;
/// Rows still there that are stepped over for each deleted one.
const LIVE_PER_DELETED: u64 = 4;

/// A table, and the part of the key that the rows of a neighbourhood have in common.
type Neighbourhood = (Table, Box<[u8]>);

/// The rows that were deleted since their neighbourhood was looked at last.
#[derive(Default)]
pub(super) struct Deletions {
    known: Mutex<HashMap<Neighbourhood, Deleted>>,
    are_due: AtomicBool,
}

/// What was deleted in a neighbourhood.
#[derive(Debug, Clone)]
struct Deleted {
    rows: u64,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Whether more were deleted since `next_due` saw it.
    grows: bool,
}

impl Deletions {
    /// Notes deleted rows, which are in the order of tables and keys.
    pub(super) fn note<'p>(&self, deleted: impl Iterator<Item = &'p Put>) {
        let mut deleted = deleted.peekable();
        if deleted.peek().is_none() {
            return;
        }
        let mut known = self.known.lock();
        while let Some(put) = deleted.next() {
            let common = common(&put.key);
            let (mut rows, mut last) = (1, put);
            while let Some(next) =
                deleted.next_if(|next| next.table == put.table && self::common(&next.key) == common)
            {
                rows += 1;
                last = next;
            }
            let fresh =
                || Deleted { rows: 0, first: put.key.clone(), last: last.key.clone(), grows: true };
            let deleted = known.entry((put.table, common.into())).or_insert_with(fresh);
            deleted.rows += rows;
            deleted.grows = true;
            if put.key < deleted.first {
                deleted.first.clone_from(&put.key);
            }
            if last.key > deleted.last {
                deleted.last.clone_from(&last.key);
            }
            if deleted.rows >= MIN_EXAMINED_DELETIONS {
                self.are_due.store(true, Ordering::Relaxed);
            }
        }
        if known.len() > MAX_TRACKED_NEIGHBOURHOODS {
            known.retain(|_, deleted| deleted.rows >= MIN_EXAMINED_DELETIONS);
        }
    }

    /// Whether a neighbourhood is to be looked at.
    pub(super) fn are_due(&self) -> bool {
        self.are_due.load(Ordering::Relaxed)
    }

    /// Takes a neighbourhood in which no more rows were deleted since the last call; and says
    /// whether others are to be looked at.
    fn next_due(&self) -> (Option<(Table, Deleted)>, bool) {
        let mut known = self.known.lock();
        let is_due = |deleted: &Deleted| deleted.rows >= MIN_EXAMINED_DELETIONS;
        let settled = known
            .iter()
            .find(|(_, one)| is_due(one) && (!one.grows || one.rows >= MIN_URGENT_DELETIONS));
        let key = settled.map(|(key, _)| key.clone());
        let taken = key.and_then(|key| known.remove(&key).map(|deleted| (key.0, deleted)));
        known.values_mut().for_each(|deleted| deleted.grows = false);
        let is_more = known.values().any(is_due);
        self.are_due.store(is_more, Ordering::Relaxed);
        (taken, is_more)
    }
}

/// The part of a key that the rows beside it have, too.
fn common(key: &[u8]) -> &[u8] {
    key.get(..key.len().saturating_sub(ID_BYTES)).unwrap_or_default()
}

/// Deleted rows that the iterators of this thread have stepped over.
pub(super) fn remains_passed() -> u64 {
    PerfContext::default().metric(PerfMetric::InternalDeleteSkippedCount)
}

impl RocksEngine {
    /// Reads, and has the remains flushed that this walked over, if they were many: what lies in
    /// files is compacted, and what lies in memory would be walked over by every reader until
    /// something else fills it.
    pub(super) fn noting_remains<T>(
        &self,
        table: Table,
        read: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.read_only || !table.has_tuning(Tuning::NewestFirst) {
            return read();
        }
        let before = remains_passed();
        let done = read();
        if remains_passed().saturating_sub(before) >= REMAINS {
            self.flush_remains(table)?;
        }
        done
    }

    /// Begins to flush a table that has remains in memory, where no write would wait for it, nor a
    /// reader.
    fn flush_remains(&self, table: Table) -> Result<(), Error> {
        let family = self.family(table)?;
        let number =
            |name: &str| self.db.property_int_value_cf(family, name).ok().flatten().unwrap_or(0);
        let is_idle = number("rocksdb.num-immutable-mem-table") == 0
            && number("rocksdb.num-files-at-level0") < MAX_UNSORTED_FILES;
        if is_idle && number("rocksdb.num-deletes-active-mem-table") >= REMAINS {
            let mut options = FlushOptions::default();
            options.set_wait(false);
            // A flush that fails is tried again by RocksDB, which tells the writers.
            if let Err(error) = self.db.flush_cf_opt(family, &options) {
                tracing::debug!(table = table.name(), %error, "remains of deleted rows are not flushed");
            }
        }
        Ok(())
    }

    /// See `Engine::clear_remains`.
    pub(super) fn clear_deleted(&self) -> Result<bool, Error> {
        let (due, is_more) = self.deletions.next_due();
        if let Some((table, deleted)) = due
            && let Some([from, to]) = self.runs(table, &deleted)?
        {
            let mut options = CompactOptions::default();
            options.set_exclusive_manual_compaction(false);
            // A file may be moved to the lowest level as it is, and deletions are dropped by the
            // compaction of that.
            options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
            self.db.compact_range_cf_opt(self.family(table)?, Some(from), Some(to), &options);
            tracing::debug!(
                table = table.name(),
                rows = deleted.rows,
                "remains of deleted rows are compacted"
            );
        }
        Ok(is_more)
    }

    /// The keys from the beginning of the first run of remains to the end of the last: a run is of
    /// more than a reader may step over. None where they are scattered among rows that are still
    /// there.
    fn runs(&self, table: Table, deleted: &Deleted) -> Result<Option<[Vec<u8>; 2]>, Error> {
        let end = [common(&deleted.last), &[0xff; ID_BYTES + 1]].concat();
        let mut options = read_options(&deleted.first, &end);
        options.fill_cache(false);
        let mut rows = self.db.raw_iterator_cf_opt(self.family(table)?, options);
        let (mut begin, mut runs) = (deleted.first.clone(), None);
        let mut passed = remains_passed();
        rows.seek(&deleted.first);
        for _ in 0..=deleted.rows.saturating_mul(LIVE_PER_DELETED) {
            rows.status().map_err(|error| io(&error))?;
            let (now, stands) = (remains_passed(), rows.key().map(<[u8]>::to_vec));
            let upto = stands.clone().unwrap_or_else(|| deleted.last.clone());
            if now.saturating_sub(passed) >= REMAINS {
                let from = runs.map_or_else(|| begin.clone(), |[from, _]: [Vec<u8>; 2]| from);
                runs = Some([from, upto]);
            }
            match stands {
                Some(key) if key <= deleted.last => begin = key,
                _ => break,
            }
            passed = remains_passed();
            rows.next();
        }
        Ok(runs)
    }
}
