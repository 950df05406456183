//! The journal: what RocksDB has in memory is in the log of the segments, so that messages and the
//! rows that name them are made durable by one sync.
//!
//! - RocksDB's own log has only the first position of the journal (`begin`). A write is appended to
//!   the segments as a frame of rows. It is synced together with the messages before it, and then
//!   goes to the memtables.
//! - Each write also sets the *position*: the number of its frame, and where the frame ends.
//!   RocksDB flushes all tables together (`atomic_flush`), so the rows in files are those of the
//!   frames up to the position in files.
//! - Opening a store writes the rows of the frames behind the position again. A table may be ahead
//!   of the position, if it was flushed by itself: rows are set or deleted as a whole, so it does
//!   not matter if they are written twice.
//! - If RocksDB refuses rows that are in the log, a frame is appended that cancels their frame. The
//!   last frame before a power failure is also cancelled if a message that its rows may name is
//!   lost.
//! - The position is in a column family of its own. Programs that do not know it refuse to open the
//!   store for writing; the store's format keeps out those that only read.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rocksdb::{ColumnFamily, DB, FlushOptions, WriteBatch, WriteOptions};

use super::{RocksEngine, family, io, open_error};
use crate::store::engine::overlay::StagedRows;
use crate::store::engine::segments::Segments;
use crate::store::engine::segments::log::{LogFrame, LogKind, LogPlace};
use crate::store::engine::{Put, Table};
use crate::store::error::Error;

/// The column family of the position.
pub(super) const FAMILY: &str = "journal";
const POSITION: &[u8] = b"position";
/// The number of a table (1), and the lengths of its key and its value (4 each).
const PUT_HEADER_BYTES: usize = 9;
/// The most bytes that a row takes in a frame, or in a batch of RocksDB, besides its key and its
/// value. In a batch these are its kind (1), its table (at most 5) and two lengths (at most 5
/// each).
pub(super) const MAX_PUT_OVERHEAD: usize = 16;
/// The length that stands for a deleted row.
const DELETED: u32 = u32::MAX;

/// How far a state of the tables has come: it has the rows of all frames up to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    /// The number of the last frame.
    number: u64,
    /// Where that frame ends.
    place: LogPlace,
}

impl Position {
    /// Encodes the position: number (8), segment (4), offset (8), big-endian.
    fn encode(self) -> [u8; 20] {
        let mut out = [0; 20];
        out[..8].copy_from_slice(&self.number.to_be_bytes());
        out[8..12].copy_from_slice(&self.place.segment.to_be_bytes());
        out[12..].copy_from_slice(&self.place.offset.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (segment, offset) = rest.split_first_chunk::<4>()?;
        let place = LogPlace {
            segment: u32::from_be_bytes(*segment),
            offset: u64::from_be_bytes(offset.try_into().ok()?),
        };
        Some(Self { number: u64::from_be_bytes(*number), place })
    }
}

/// The journal of an open store.
#[derive(Debug)]
pub(super) struct Journal {
    state: Mutex<JournalState>,
    /// Bytes of frames of rows after which the tables are flushed.
    max_bytes: u64,
    /// The segment of the newest position that is known to be in the tables' files: opening the
    /// store reads no earlier segment.
    flushed: AtomicU32,
    /// How the tables refuse the rows of the next write, if they are to.
    #[cfg(test)]
    next_refusal: Mutex<Option<Error>>,
}

#[derive(Debug)]
struct JournalState {
    position: Position,
    /// Bytes of frames of rows since a write last requested a flush.
    unflushed: u64,
    /// The number of the last frame that an earlier process appended, if its rows do not count and
    /// it is still to be cancelled.
    lost: Option<u64>,
    /// Why no more is written: it is not known whether the rows of the last frame count.
    failure: Option<Error>,
}

/// Encodes a row of a frame at the end of `out`.
///
/// # Errors
/// `Io` if the key or the value has `u32::MAX` bytes or more.
pub(super) fn encode_put(put: &Put, out: &mut Vec<u8>) -> Result<(), Error> {
    let length = |bytes: &[u8]| {
        u32::try_from(bytes.len())
            .ok()
            .filter(|length| *length != DELETED)
            .ok_or_else(|| Error::Io("a row is too long for the journal".into()))
    };
    out.push(put.table as u8);
    out.extend_from_slice(&length(&put.key)?.to_be_bytes());
    let value = put.value.as_deref();
    out.extend_from_slice(&value.map_or(Ok(DELETED), length)?.to_be_bytes());
    out.extend_from_slice(&put.key);
    out.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// Decodes the rows of a frame. `None` if the bytes are not rows of tables of this version.
fn decode_puts(mut bytes: &[u8]) -> Option<Vec<Put>> {
    let mut puts = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = bytes.split_first_chunk::<PUT_HEADER_BYTES>()?;
        let (number, lengths) = header.split_first()?;
        let (key, value) = lengths.split_first_chunk::<4>()?;
        let key = usize::try_from(u32::from_be_bytes(*key)).ok()?;
        let value = u32::from_be_bytes(value.try_into().ok()?);
        let table = Table::ALL.iter().copied().find(|table| *table as u8 == *number)?;
        let (key, rest) = rest.split_at_checked(key)?;
        let (value, rest) = if value == DELETED {
            (None, rest)
        } else {
            let (value, rest) = rest.split_at_checked(usize::try_from(value).ok()?)?;
            (Some(value.to_vec()), rest)
        };
        puts.push(Put { table, key: key.to_vec(), value });
        bytes = rest;
    }
    Some(puts)
}

fn without_log() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

fn read_position(db: &DB) -> Result<Option<Position>, Error> {
    let row = db.get_cf(family(db, FAMILY)?, POSITION).map_err(|error| open_error(&error))?;
    let damaged = || open_error(&"corruption: the position of the journal is damaged");
    row.map(|row| Position::decode(&row).ok_or_else(damaged)).transpose()
}

/// The end of the journal that an earlier process left.
struct JournalEnd {
    /// The last frame, whether its rows count or not.
    position: Position,
    /// The number of the last frame if its rows do not count, because a value that they may name is
    /// lost.
    lost: Option<u64>,
}

/// Calls `each` with the rows of each frame behind a position. Leaves out cancelled frames, and the
/// last frame if a value that its rows may name is lost.
fn read_frames(
    segments: &Segments,
    mut position: Position,
    each: &mut dyn FnMut(Position, Vec<Put>) -> Result<(), Error>,
) -> Result<JournalEnd, Error> {
    let damaged = |what: &str| open_error(&format!("corruption: the journal {what}"));
    // The last frame, which counts if the next one does not cancel it.
    let mut last: Option<LogFrame> = None;
    let mut take = |frame: LogFrame| {
        let puts = decode_puts(&frame.rows).ok_or_else(|| damaged("has rows of no table"))?;
        each(Position { number: frame.number, place: frame.end }, puts)
    };
    segments.read_log(position.place, &mut |frame| {
        let is_next = position.number.checked_add(1) == Some(frame.number);
        // The frame that is cancelled may be in a segment that was deleted.
        let cancels_last = frame.kind == LogKind::Cancelled && frame.number == position.number;
        if !is_next && !cancels_last {
            return Err(damaged("lacks a frame"));
        }
        position = Position { number: frame.number, place: frame.end };
        match frame.kind {
            LogKind::Rows => last.replace(frame).map_or(Ok(()), &mut take),
            LogKind::Cancelled => {
                last = None;
                Ok(())
            }
        }
    })?;
    let Some(last) = last else { return Ok(JournalEnd { position, lost: None }) };
    // Frames before the last one were durable when the next was appended.
    if !segments.has_values_of(&last)? {
        return Ok(JournalEnd { position, lost: Some(last.number) });
    }
    take(last).map(|()| JournalEnd { position, lost: None })
}

/// Returns the rows of a store's log that its tables may lack.
///
/// # Errors
/// `Open`.
pub(super) fn unflushed_rows(db: &DB, segments: &Segments) -> Result<StagedRows, Error> {
    let mut rows = StagedRows::new();
    if let Some(position) = read_position(db)? {
        read_frames(segments, position, &mut |_, puts| {
            rows.extend(puts.into_iter().map(|put| ((put.table, put.key), put.value)));
            Ok(())
        })?;
    }
    Ok(rows)
}

impl Journal {
    /// Opens the journal of a store, or begins one. Writes to the tables the rows of the log that
    /// they may lack.
    ///
    /// # Errors
    /// `Open`; those of writing.
    pub(super) fn open(db: &DB, segments: &Segments, max_bytes: u64) -> Result<Self, Error> {
        let from = match read_position(db)? {
            Some(position) => position,
            None => begin(db, segments)?,
        };
        let flushed = AtomicU32::new(from.place.segment);
        // Frames that are appended later count only if those behind `from` do, also after a power
        // failure.
        segments.sync_behind(from.place)?;
        let JournalEnd { position, lost } = read_frames(segments, from, &mut |at, puts| {
            let mut batch = WriteBatch::default();
            for put in &puts {
                add_put(family(db, put.table.name())?, &mut batch, put);
            }
            batch.put_cf(family(db, FAMILY)?, POSITION, at.encode());
            db.write_opt(batch, &without_log()).map_err(|error| io(&error))
        })?;
        segments.continue_behind(position.place);
        let state = JournalState { position, unflushed: 0, lost, failure: None };
        Ok(Self {
            state: Mutex::new(state),
            max_bytes,
            flushed,
            #[cfg(test)]
            next_refusal: Mutex::default(),
        })
    }
}

/// Begins the journal of a new store, or of one that an earlier version wrote: the log has no
/// frames yet.
fn begin(db: &DB, segments: &Segments) -> Result<Position, Error> {
    let position = Position { number: 0, place: segments.log_end() };
    let mut options = WriteOptions::default();
    options.set_sync(true);
    db.put_cf_opt(family(db, FAMILY)?, POSITION, position.encode(), &options)
        .map_err(|error| io(&error))?;
    Ok(position)
}

/// Adds the change of a row to a batch of RocksDB. `family` is that of its table.
pub(super) fn add_put(family: &ColumnFamily, batch: &mut WriteBatch, put: &Put) {
    match &put.value {
        Some(value) => batch.put_cf(family, &put.key, value),
        None => batch.delete_cf(family, &put.key),
    }
}

impl RocksEngine {
    /// Writes a batch durably. `rows` are its rows as `encode_put` encodes them.
    ///
    /// # Errors
    /// As for `Engine::write`.
    pub(super) fn write_journaled(&self, mut batch: WriteBatch, rows: &[u8]) -> Result<(), Error> {
        let mut state = self.journal.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let family = family(&self.db, FAMILY)?;
        // RocksDB refuses writes while a flush cannot be finished, as on a full disk. This shows it
        // before the rows are in the log.
        self.put_position(state.position)?;
        if let Some(lost) = state.lost {
            state.position.place = self.cancel(lost)?;
            state.lost = None;
        }
        let number = state.position.number.saturating_add(1);
        let place = self.segments.append_log(LogKind::Rows, number, rows)?;
        self.segments.sync()?;
        state.position = Position { number, place };
        batch.put_cf(family, POSITION, state.position.encode());
        if let Err(error) = self.write_to_tables(batch) {
            match self.cancel(number) {
                Ok(place) => state.position.place = place,
                Err(_) => state.failure = Some(Error::Io(error.to_string())),
            }
            return Err(state.failure.clone().unwrap_or(error));
        }
        state.unflushed += rows.len() as u64;
        if state.unflushed >= self.journal.max_bytes && !self.is_flushing(family) {
            state.unflushed = 0;
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

    /// Cancels a frame durably, and returns where the journal ends then.
    fn cancel(&self, number: u64) -> Result<LogPlace, Error> {
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
    pub(super) fn between_writes<T>(&self, read: impl FnOnce() -> T) -> T {
        let _held = self.journal.state.lock();
        read()
    }

    /// Flushes all tables and the position together. Returns when that is done if `waits`, and
    /// otherwise once it has begun.
    pub(super) fn flush_all(&self, waits: bool) -> Result<(), Error> {
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
    pub(super) fn release_log(&self, segments: &[u32]) -> Result<(), Error> {
        let flushed = self.journal.flushed.load(Ordering::Acquire);
        if segments.iter().all(|segment| *segment < flushed) {
            return Ok(());
        }
        // Under the lock no write is between the log and the tables.
        let position = {
            let state = self.journal.state.lock();
            self.put_position(state.position)?;
            state.position
        };
        self.flush_all(true)?;
        self.journal.flushed.fetch_max(position.place.segment, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
