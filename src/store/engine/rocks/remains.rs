//! Clears the remains of deleted rows, so that iterators need not step over them one by one.
//!
//! A *remain* is what RocksDB stores for a deleted row until a compaction drops it.
//!
//! - A *neighbourhood* is the rows of a table whose keys differ only in the email, with which they
//!   end. Only tables that are tuned as `NewestFirst` are looked after. `Deletions` counts the rows
//!   that are deleted in each neighbourhood, as when thousands of emails are destroyed at once.
//! - Once a neighbourhood has many deletions and no more are added, or once it has very many,
//!   `clear_deleted` looks for runs of remains without a live row in between, and compacts from the
//!   first run to the last. The cost of looking grows with the deletions, and nothing is compacted
//!   if there is no run: a new email in a thread deletes rows of listings too, but scattered ones.
//! - A read that steps over many remains before that has the memtable flushed
//!   (`flush_after_remains`). That alone does not suffice: RocksDB may move a file down to the
//!   lowest level as it is, with the deletions in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rocksdb::perf::{PerfContext, PerfMetric};
use rocksdb::{BottommostLevelCompaction, CompactOptions, FlushOptions};

use super::{RocksEngine, io, read_options};
use crate::store::engine::{Put, Table};
use crate::store::error::Error;
use crate::store::table::Tuning;

/// Remains from which on something is done: a read that steps over this many has those in memory
/// flushed, and a run of this many is compacted.
pub(super) const MIN_CLEARED_REMAINS: u64 = 1024;
/// Files of level 0 from which on no scan requests another flush: with four times as many
/// (`tuning`), RocksDB slows writes down, and the flush would wait.
const MAX_UNSORTED_FILES: u64 = 10;
/// Bytes of the email id, at the end of a key, in which the rows of a neighbourhood differ.
const ID_BYTES: usize = 8;
/// Deletions in a neighbourhood from which on it is examined once no more are added.
const MIN_EXAMINED_DELETIONS: u64 = 4096;
/// Deletions in a neighbourhood from which on it is examined even while more are added.
const MIN_URGENT_DELETIONS: u64 = 32 * MIN_EXAMINED_DELETIONS;
/// Neighbourhoods that are tracked. If there are more, those with fewer deletions than
/// `MIN_EXAMINED_DELETIONS` are forgotten.
const MAX_TRACKED_NEIGHBOURHOODS: usize = 4096;
/// Live rows that `runs` steps over at most for each deleted one.
const LIVE_PER_DELETED: u64 = 4;

/// A table, and the part of the key that the rows of a neighbourhood have in common.
type Neighbourhood = (Table, Box<[u8]>);

/// The deletions in each neighbourhood since it was last examined.
#[derive(Default)]
pub(super) struct Deletions {
    counts: Mutex<HashMap<Neighbourhood, DeletedRange>>,
    /// Whether a neighbourhood has `MIN_EXAMINED_DELETIONS`.
    are_due: AtomicBool,
}

/// The deletions in one neighbourhood, from the key `first` to the key `last`, both included.
#[derive(Debug, Clone)]
struct DeletedRange {
    /// The number of deletions. A key that was deleted twice counts twice.
    rows: u64,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Whether rows were deleted since the last call of `next_due`.
    grows: bool,
}

impl Deletions {
    /// Counts deleted rows. They must be sorted by table and key.
    pub(super) fn note<'p>(&self, deleted: impl Iterator<Item = &'p Put>) {
        let mut deleted = deleted.peekable();
        if deleted.peek().is_none() {
            return;
        }
        let mut counts = self.counts.lock();
        while let Some(put) = deleted.next() {
            let prefix = common_prefix(&put.key);
            let (mut rows, mut last) = (1, put);
            while let Some(next) = deleted
                .next_if(|next| next.table == put.table && common_prefix(&next.key) == prefix)
            {
                rows += 1;
                last = next;
            }
            let fresh = || DeletedRange {
                rows: 0,
                first: put.key.clone(),
                last: last.key.clone(),
                grows: true,
            };
            let range = counts.entry((put.table, prefix.into())).or_insert_with(fresh);
            range.rows += rows;
            range.grows = true;
            if put.key < range.first {
                range.first.clone_from(&put.key);
            }
            if last.key > range.last {
                range.last.clone_from(&last.key);
            }
            if range.rows >= MIN_EXAMINED_DELETIONS {
                self.are_due.store(true, Ordering::Relaxed);
            }
        }
        if counts.len() > MAX_TRACKED_NEIGHBOURHOODS {
            counts.retain(|_, range| range.rows >= MIN_EXAMINED_DELETIONS);
        }
    }

    /// Whether a neighbourhood has enough deletions to be examined, at once or later.
    pub(super) fn are_due(&self) -> bool {
        self.are_due.load(Ordering::Relaxed)
    }

    /// Removes and returns a neighbourhood that has `MIN_EXAMINED_DELETIONS` and no new ones since
    /// the last call, or `MIN_URGENT_DELETIONS`. Also returns whether others have enough.
    fn next_due(&self) -> (Option<(Table, DeletedRange)>, bool) {
        let mut counts = self.counts.lock();
        let is_due = |range: &DeletedRange| range.rows >= MIN_EXAMINED_DELETIONS;
        let settled = counts.iter().find(|(_, range)| {
            is_due(range) && (!range.grows || range.rows >= MIN_URGENT_DELETIONS)
        });
        let key = settled.map(|(key, _)| key.clone());
        let due = key.and_then(|key| counts.remove(&key).map(|range| (key.0, range)));
        counts.values_mut().for_each(|range| range.grows = false);
        let has_more = counts.values().any(is_due);
        self.are_due.store(has_more, Ordering::Relaxed);
        (due, has_more)
    }
}

/// The part of a key that the rows of its neighbourhood have in common.
fn common_prefix(key: &[u8]) -> &[u8] {
    key.get(..key.len().saturating_sub(ID_BYTES)).unwrap_or_default()
}

/// How many remains the iterators of this thread have stepped over, since the thread began.
pub(super) fn remains_passed() -> u64 {
    PerfContext::default().metric(PerfMetric::InternalDeleteSkippedCount)
}

impl RocksEngine {
    /// Runs `read`, and requests a flush of the table if `read` stepped over many remains: those in
    /// files are compacted, but those in memory would slow every reader until the memtable is full.
    /// In tables that are not tuned as `NewestFirst`, only runs `read`.
    pub(super) fn flush_after_remains<T>(
        &self,
        table: Table,
        read: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !table.has_tuning(Tuning::NewestFirst) {
            return read();
        }
        let before = remains_passed();
        let result = read();
        if remains_passed().saturating_sub(before) >= MIN_CLEARED_REMAINS {
            self.flush_remains(table)?;
        }
        result
    }

    /// Begins to flush a table that has many remains in memory, unless writes would have to wait
    /// for the flush. Does not wait for it.
    fn flush_remains(&self, table: Table) -> Result<(), Error> {
        let family = self.family(table)?;
        let number = |name: &str| self.property(table, name);
        let is_idle = number("rocksdb.num-immutable-mem-table") == 0
            && number("rocksdb.num-files-at-level0") < MAX_UNSORTED_FILES;
        if is_idle && number("rocksdb.num-deletes-active-mem-table") >= MIN_CLEARED_REMAINS {
            let mut options = FlushOptions::default();
            options.set_wait(false);
            // RocksDB retries a flush that failed, and reports the failure to writers.
            if let Err(error) = self.db.flush_cf_opt(family, &options) {
                let table = table.name();
                tracing::debug!(table, %error, "remains of deleted rows are not flushed");
            }
        }
        Ok(())
    }

    /// Compacts the runs of remains in one neighbourhood, and returns whether others should be
    /// examined (`Engine::clear_remains`).
    pub(super) fn clear_deleted(&self) -> Result<bool, Error> {
        let (due, has_more) = self.deletions.next_due();
        if let Some((table, deleted)) = due
            && let Some([from, to]) = self.runs(table, &deleted)?
        {
            let mut options = CompactOptions::default();
            options.set_exclusive_manual_compaction(false);
            // RocksDB may move a file to the lowest level as it is. Only a compaction of that level
            // drops its deletions.
            options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
            self.db.compact_range_cf_opt(self.family(table)?, Some(from), Some(to), &options);
            tracing::debug!(
                table = table.name(),
                rows = deleted.rows,
                "remains of deleted rows are compacted"
            );
        }
        Ok(has_more)
    }

    /// Returns the key at which the first run of remains begins, and the key at which the last run
    /// ends. A run has at least `MIN_CLEARED_REMAINS`. `None` if no run is found, as when the
    /// remains are scattered among live rows. Runs behind too many live rows (`LIVE_PER_DELETED`)
    /// are not found.
    fn runs(&self, table: Table, deleted: &DeletedRange) -> Result<Option<[Vec<u8>; 2]>, Error> {
        // Behind every row of the neighbourhood.
        let end = [common_prefix(&deleted.last), &[0xff; ID_BYTES + 1]].concat();
        let mut options = read_options(&deleted.first, &end);
        options.fill_cache(false);
        let mut rows = self.db.raw_iterator_cf_opt(self.family(table)?, options);
        let (mut begin, mut runs) = (deleted.first.clone(), None);
        let mut passed = remains_passed();
        rows.seek(&deleted.first);
        for _ in 0..=deleted.rows.saturating_mul(LIVE_PER_DELETED) {
            rows.status().map_err(|error| io(&error))?;
            let (now, live) = (remains_passed(), rows.key().map(<[u8]>::to_vec));
            let upto = live.clone().unwrap_or_else(|| deleted.last.clone());
            if now.saturating_sub(passed) >= MIN_CLEARED_REMAINS {
                let from = runs.map_or_else(|| begin.clone(), |[from, _]: [Vec<u8>; 2]| from);
                runs = Some([from, upto]);
            }
            match live {
                Some(key) if key <= deleted.last => begin = key,
                _ => break,
            }
            passed = remains_passed();
            rows.next();
        }
        Ok(runs)
    }
}
