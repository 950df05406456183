//! Writes groups of rows: first to the log, then to the tables.
//!
//! - A group holds `Journal::log` while its frame is appended and synced, and takes
//!   `Journal::tables` before it releases `log`. So the rows go to the tables in the order of the
//!   frames, and while they do, the frame of the next group is appended and synced.
//! - The next group may be built on rows of this one. If RocksDB refuses these, the next group
//!   fails with the same error, and both frames are cancelled before either caller hears of it.
//!   Until `Engine::end_overlap`, further groups fail, too.
//! - `next` is called while `tables` is held. So whoever holds a lock that `next` takes must not
//!   wait for `tables` while a group is being written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rocksdb::{ColumnFamily, FlushOptions, WriteBatch};

use super::super::{RocksEngine, family, io};
use super::{FAMILY, Journal, POSITION, Position, without_log};
use crate::model::AccountId;
use crate::store::engine::segments::log::{LogKind, LogPlace};
use crate::store::engine::{Batch, StaleBatches, Table};
use crate::store::error::Error;

#[derive(Debug)]
pub(super) struct LogState {
    /// The number of the last frame.
    pub(super) number: u64,
    /// The number of the last frame that an earlier process appended, if its rows do not count and
    /// it is still to be cancelled.
    pub(super) lost: Option<u64>,
    /// Why no more is written: it is not known whether the rows of the last frames count.
    pub(super) failure: Option<Error>,
}

#[derive(Debug)]
pub(super) struct TableState {
    pub(super) position: Position,
    /// Bytes of frames of rows since a write last requested a flush.
    pub(super) unflushed: u64,
    pub(super) refusal: Option<TableRefusal>,
}

/// RocksDB has refused the rows of a frame.
#[derive(Debug)]
pub(super) struct TableRefusal {
    /// The number of the frame.
    frame: u64,
    /// Frames from this number on are to be cancelled. Behind the last frame if all of them are.
    from: u64,
    /// What the writes get.
    error: Error,
}

/// How a group overlaps with the one behind it.
pub(in crate::store::engine::rocks) struct Overlap<'a> {
    pub(in crate::store::engine::rocks) group: EarlierGroup,
    /// Is called as soon as the next group may begin.
    pub(in crate::store::engine::rocks) next: &'a mut dyn FnMut(),
}

/// What the next group must know of a group whose rows may not be in the tables yet.
#[derive(Debug)]
pub(in crate::store::engine::rocks) struct EarlierGroup {
    number: u64,
    /// The batches that are written.
    batches: Vec<Arc<Batch>>,
    pub(in crate::store::engine::rocks) stale_accounts: Vec<AccountId>,
}

impl EarlierGroup {
    pub(in crate::store::engine::rocks) fn new(
        number: u64,
        batches: &[Arc<Batch>],
        stale: &StaleBatches,
    ) -> Self {
        let (mut written, mut stale_accounts) = (Vec::with_capacity(batches.len()), Vec::new());
        for (at, batch) in batches.iter().enumerate() {
            if stale.contains(at) {
                stale_accounts.extend(batch.bases.iter().map(|base| base.account));
            } else {
                written.push(Arc::clone(batch));
            }
        }
        Self { number, batches: written, stale_accounts }
    }

    /// Returns the value that the group writes for a key: `None` if it does not write the row,
    /// `Some(None)` if it deletes the row.
    pub(in crate::store::engine::rocks) fn get(
        &self,
        table: Table,
        key: &[u8],
    ) -> Option<Option<Vec<u8>>> {
        self.batches.iter().rev().find_map(|batch| {
            let shared = batch.shared.iter().flat_map(|shared| shared.iter());
            let shared = || {
                let mut shared = shared.rev();
                shared.find(|put| put.table == table && put.key == key).map(|put| &put.value)
            };
            let own = batch.get(table, key).map(|value| value.map(<[u8]>::to_vec));
            own.or_else(|| shared().cloned())
        })
    }
}

impl Journal {
    /// The group before, if its result may not be handled yet.
    pub(in crate::store::engine::rocks) fn earlier(&self) -> Option<Arc<EarlierGroup>> {
        self.earlier.lock().clone()
    }

    /// Does what `Engine::handled` says.
    pub(in crate::store::engine::rocks) fn handled(&self, number: u64) {
        self.earlier.lock().take_if(|earlier| earlier.number == number);
    }

    /// Does what `Engine::end_overlap` says.
    pub(in crate::store::engine::rocks) fn end_overlap(&self) {
        // A caller may hold a lock for which others wait, so this waits for nobody without need.
        if self.has_refused.swap(false, Ordering::AcqRel) {
            let log = self.log.lock();
            self.tables.lock().refusal.take_if(|refusal| refusal.from > log.number);
        }
    }
}

impl RocksEngine {
    /// Writes a batch durably. `rows` are its rows as `encode_put` encodes them.
    ///
    /// # Errors
    /// As for `Engine::write`, or, with `overlap`, `Engine::write_overlapping`.
    pub(in crate::store::engine::rocks) fn write_journaled(
        &self,
        mut batch: WriteBatch,
        rows: &[u8],
        overlap: Option<Overlap<'_>>,
    ) -> Result<(), Error> {
        let overlaps = overlap.is_some();
        let mut log = self.journal.log.lock();
        if let Some(failure) = &log.failure {
            return Err(failure.clone());
        }
        let family = family(&self.db, FAMILY)?;
        // If an earlier group is being written to the tables, this would wait for it.
        if let Some(mut tables) = self.journal.tables.try_lock() {
            if let Some(error) = self.cancel_refused(&mut log, &mut tables) {
                return Err(error);
            }
            // RocksDB refuses writes while a flush cannot be finished, as on a full disk. This
            // shows it before the rows are in the log.
            self.put_position(tables.position)?;
        }
        if let Some(lost) = log.lost {
            self.cancel(lost)?;
            log.lost = None;
        }
        let number = log.number.saturating_add(1);
        let place = self.segments.append_log(LogKind::Rows, number, rows)?;
        self.segments.sync()?;
        log.number = number;
        let mut tables = self.journal.tables.lock();
        if let Some(error) = self.cancel_refused(&mut log, &mut tables) {
            return Err(error);
        }
        if let Some(Overlap { group, next }) = overlap {
            *self.journal.earlier.lock() = Some(Arc::new(group));
            drop(log);
            next();
        } else {
            drop(log);
        }
        let position = Position { number, place };
        batch.put_cf(family, POSITION, position.encode());
        // If RocksDB panics, the rows of the next group must not go to the tables either.
        let unknown = Error::Io("a write to the tables did not end".into());
        tables.refusal = Some(TableRefusal { frame: number, from: number, error: unknown });
        if let Err(error) = self.write_to_tables(batch) {
            if let Some(refusal) = &mut tables.refusal {
                refusal.error = error.clone();
            }
            self.journal.has_refused.store(true, Ordering::Release);
            drop(tables);
            let mut log = self.journal.log.lock();
            let mut tables = self.journal.tables.lock();
            // The next group may have done this already.
            let refused = self.cancel_refused(&mut log, &mut tables);
            if !overlaps {
                tables.refusal.take_if(|refusal| refusal.frame == number);
            }
            return Err(refused.unwrap_or(error));
        }
        tables.refusal = None;
        tables.position = position;
        tables.unflushed += rows.len() as u64;
        if tables.unflushed >= self.journal.max_bytes && !self.is_flushing(family) {
            tables.unflushed = 0;
            // RocksDB retries a flush that failed, and reports the failure to writers.
            if let Err(error) = self.flush_all(false) {
                tracing::debug!(%error, "the tables are not flushed");
            }
        }
        Ok(())
    }

    /// Makes the tables refuse the rows of the next write.
    #[cfg(test)]
    pub(in crate::store) fn refuse_next(&self, error: Error) {
        *self.journal.next_refusal.lock() = Some(error);
    }

    fn write_to_tables(&self, batch: WriteBatch) -> Result<(), Error> {
        #[cfg(test)]
        if let Some(error) = self.journal.next_refusal.lock().take() {
            return Err(error);
        }
        self.db.write_opt(batch, &without_log()).map_err(|error| io(&error))
    }

    /// Cancels the frames that RocksDB refused and those behind them, and returns what the writes
    /// get; `None` if RocksDB has refused nothing.
    fn cancel_refused(&self, log: &mut LogState, tables: &mut TableState) -> Option<Error> {
        let refusal = tables.refusal.as_mut()?;
        if log.failure.is_none() && refusal.from <= log.number {
            match self.cancel(refusal.from) {
                Ok(place) => {
                    refusal.from = log.number.saturating_add(1);
                    tables.position = Position { number: log.number, place };
                }
                Err(_) => log.failure = Some(Error::Io(refusal.error.to_string())),
            }
        }
        Some(log.failure.clone().unwrap_or_else(|| refusal.error.clone()))
    }

    /// Cancels a frame and those behind it durably, and returns where the journal ends then.
    pub(super) fn cancel(&self, number: u64) -> Result<LogPlace, Error> {
        let place = self.segments.append_log(LogKind::Cancelled, number, &[])?;
        self.segments.sync().map(|()| place)
    }

    /// Sets the position of the tables, in memory. Fails if RocksDB refuses writes.
    fn put_position(&self, position: Position) -> Result<(), Error> {
        self.db
            .put_cf_opt(family(&self.db, FAMILY)?, POSITION, position.encode(), &without_log())
            .map_err(|error| io(&error))
    }

    /// Whether an earlier flush is not finished, or RocksDB does not tell: another flush would
    /// wait.
    fn is_flushing(&self, family: &ColumnFamily) -> bool {
        let waiting = self.db.property_int_value_cf(family, "rocksdb.num-immutable-mem-table");
        waiting.ok().flatten() != Some(0)
    }

    /// Calls `read` while no write is between the log and the tables.
    pub(in crate::store::engine::rocks) fn between_writes<T>(&self, read: impl FnOnce() -> T) -> T {
        let mut log = self.journal.log.lock();
        let mut tables = self.journal.tables.lock();
        self.cancel_refused(&mut log, &mut tables);
        read()
    }

    /// Flushes all tables and the position together. Returns when that is done if `waits`, and
    /// otherwise once it has begun.
    pub(in crate::store::engine::rocks) fn flush_all(&self, waits: bool) -> Result<(), Error> {
        let mut families = vec![family(&self.db, FAMILY)?];
        for table in Table::ALL {
            families.push(self.family(*table)?);
        }
        let mut options = FlushOptions::default();
        options.set_wait(waits);
        self.db.flush_cfs_opt(&families, &options).map_err(|error| io(&error))
    }

    /// Makes sure that no frame in these segments is needed when the store is opened again. Nothing
    /// may be appended to them any more.
    ///
    /// # Errors
    /// Those of a flush.
    pub(in crate::store::engine::rocks) fn release_log(
        &self,
        segments: &[u32],
    ) -> Result<(), Error> {
        let flushed = self.journal.flushed.load(Ordering::Acquire);
        if segments.iter().all(|segment| *segment < flushed) {
            return Ok(());
        }
        // Under both locks no write is between the log and the tables.
        let position = {
            let mut log = self.journal.log.lock();
            let mut tables = self.journal.tables.lock();
            self.cancel_refused(&mut log, &mut tables);
            // Frames that could not be cancelled are needed.
            if let Some(failure) = &log.failure {
                return Err(failure.clone());
            }
            self.put_position(tables.position)?;
            tables.position
        };
        self.flush_all(true)?;
        self.journal.flushed.fetch_max(position.place.segment, Ordering::AcqRel);
        Ok(())
    }
}
