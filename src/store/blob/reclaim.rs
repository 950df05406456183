//! Reclaims the space that deleted messages and rows of the journal leave in segments, and moves
//! messages that an earlier version stored in rows to segments.
//!
//! A cycle runs in steps of bounded work:
//! 1. *Count*: the bytes of each sealed segment that rows name. The active segment is sealed first,
//!    unless it is short.
//! 2. *Retire* the segments of which at most half is named, and short ones if there are many: from
//!    now on no new row names an extent in them.
//! 3. *Wait* until nobody is left who may have read an extent in them before they were retired
//!    (`SegmentGuard`).
//! 4. *Move* each message in them, and each in rows that belongs into a segment, to the active
//!    segment, compressed if that saves space (`pack`). One that is compressed already is moved as
//!    it is. One commit of the site moves some messages, and asserts that their rows are unchanged.
//! 5. *Wait* until nobody is left who may have read a row before it was moved.
//! 6. *Delete* the segments. Rows of the journal in them are written to the tables' files before
//!    (`Engine::delete_segments`).
//!
//! The phase is only in memory. A process begins with a count. A segment with a message that cannot
//! be read is not deleted; if a row of `blobs` is damaged, none is, since the row may name any.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::pack::{Packer, read_compressed, unpack};
use super::read::whole;
use crate::model::{AccountId, BlobHash};
use crate::store::Store;
use crate::store::engine::segments::{EarlierGuards, SegmentUsage, Segments};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::engine::{RowReader, next_key};
use crate::store::error::Error;
use crate::store::row::{BlobBytes, BlobRow};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::BlobKey;
use crate::store::table::{BlobFrames, Blobs, decode_key};
use crate::store::txn::Txn;

/// Rows that a step reads at most.
const ROWS_PER_STEP: usize = 2048;
/// A step reads no further row, and moves no further message, after this many bytes.
const BYTES_PER_STEP: u64 = 8 << 20;
/// A segment with less than 1/`SHORT_PART` of the bytes of a full one is short: the process that
/// wrote it ended early.
const SHORT_PART: u64 = 16;
/// A message from this length on may stay in a segment of its own.
const MIN_ALONE_BYTES: u64 = 64 << 10;
/// If there are at least this many short segments, their messages are moved together.
const MANY_SHORT_SEGMENTS: usize = 8;
/// A cycle begins when 1/`DELETED_PART` of the bytes of all segments was deleted since the last one
/// began.
const DELETED_PART: u64 = 16;
/// A cycle also begins when the journal has grown, since the last one began, by 1/`JOURNAL_PART` of
/// the bytes of all segments, or of a full segment if that is more. Soon the rows of the journal
/// are in the tables' files, too, and then its frames only take space.
const JOURNAL_PART: u64 = 8;
/// How often a step looks whether guards are dropped, and how long it waits before each look but
/// the first.
const GUARD_WAITS: u32 = 5;
const GUARD_WAIT: Duration = Duration::from_millis(10);

/// The progress of the current cycle.
#[derive(Debug, Default)]
pub(in crate::store) struct Reclaimer {
    phase: Mutex<Phase>,
    /// Bytes of messages that were deleted since the last cycle began.
    deleted: AtomicU64,
    /// The bytes of the journal (`Segments::log_written`) when the last cycle began.
    journal_at_begin: AtomicU64,
}

#[derive(Debug)]
enum Phase {
    /// No cycle runs.
    Idle,
    Counting(Count),
    /// Waits until the messages of these segments, which are retired, may be moved.
    Retired(BTreeSet<u32>, EarlierGuards),
    /// Moves the messages of these segments, from this key of `blobs` on.
    Moving(BTreeSet<u32>, Vec<u8>),
    /// Waits until these segments may be deleted.
    Moved(BTreeSet<u32>, EarlierGuards),
}

#[derive(Debug, Default)]
struct Count {
    /// The segments at the beginning of the count, and which of them were sealed.
    segments: Vec<SegmentUsage>,
    /// What the rows before `next` name of each.
    named: BTreeMap<u32, NamedBytes>,
    /// Whether rows were found with bytes that belong into a segment.
    has_old_rows: bool,
    /// The key from which on rows are to be counted; empty at the beginning.
    next: Vec<u8>,
}

/// What rows name of a segment.
#[derive(Debug, Clone, Copy, Default)]
struct NamedBytes {
    /// The bytes of messages with their frames.
    bytes: u64,
    messages: u64,
}

/// A process begins a cycle with its first step, since it does not know what was deleted before.
impl Default for Phase {
    fn default() -> Self {
        Self::Counting(Count::default())
    }
}

/// What a step of reclaiming did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReclaimStep {
    /// Messages that were moved.
    pub moved: usize,
    /// Bytes of the files that were deleted.
    pub deleted_bytes: u64,
    /// Whether the next step may be run at once. Otherwise it is for the next round of upkeep.
    pub has_more: bool,
}

/// The result of a commit that moves messages.
#[derive(Debug, Default)]
struct MoveResult {
    moved: usize,
    /// The key from which on rows are left; `None` if none are.
    next: Option<Vec<u8>>,
    /// Segments with a message that could not be read.
    damaged: BTreeSet<u32>,
}

impl Store {
    /// Notes that messages were deleted that took these bytes in segments, so that a cycle begins
    /// when there are enough.
    pub fn note_deleted_messages(&self, bytes: u64) {
        self.0.reclaimer.deleted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Runs a step of reclaiming the space of deleted messages. Does nothing if no cycle runs and
    /// none is due, or if the engine has no segments. Only upkeep calls this, on one thread.
    ///
    /// # Errors
    /// After `Full`, the next call goes on where this one failed, and so it does after any error if
    /// only files are left to be deleted. Otherwise an error ends the cycle, and its segments are
    /// no longer to be deleted.
    pub fn reclaim_segments(&self) -> Result<ReclaimStep, Error> {
        let Some(segments) = self.0.engine.segments() else { return Ok(ReclaimStep::default()) };
        let mut phase = self.0.reclaimer.phase.lock();
        let result = self.reclaim_step(segments, &mut phase);
        if result.as_ref().is_err_and(|error| *error != Error::Full) {
            if let Phase::Retired(retired, _) | Phase::Moving(retired, _) = &*phase {
                retired.iter().for_each(|segment| segments.unretire(*segment));
            }
            if !matches!(*phase, Phase::Moved(..)) {
                *phase = Phase::Idle;
            }
        }
        result
    }

    fn reclaim_step(&self, segments: &Segments, phase: &mut Phase) -> Result<ReclaimStep, Error> {
        let mut step = ReclaimStep { has_more: true, ..ReclaimStep::default() };
        match phase {
            Phase::Idle => {
                let bytes = segments.usage().iter().fold(0u64, |sum, one| sum + one.bytes);
                let deleted = self.0.reclaimer.deleted.load(Ordering::Relaxed);
                let journal_before = self.0.reclaimer.journal_at_begin.load(Ordering::Relaxed);
                let journal = segments.log_written().saturating_sub(journal_before);
                step.has_more = (deleted > 0 && deleted >= bytes / DELETED_PART)
                    || journal >= bytes.max(segments.max_bytes()) / JOURNAL_PART;
                if step.has_more {
                    *phase = Phase::default();
                }
            }
            Phase::Counting(count) => {
                if count.next.is_empty() {
                    self.0.reclaimer.deleted.store(0, Ordering::Relaxed);
                    let journal = segments.log_written();
                    self.0.reclaimer.journal_at_begin.store(journal, Ordering::Relaxed);
                    segments.seal_active(segments.max_bytes() / SHORT_PART);
                    count.segments = segments.usage();
                }
                if !self.count(segments, count)? {
                    let chosen = chosen_segments(count, segments.max_bytes());
                    let is_needed = !chosen.is_empty() || count.has_old_rows;
                    segments.retire(&chosen);
                    *phase = if is_needed {
                        Phase::Retired(chosen.into_iter().collect(), segments.earlier_guards())
                    } else {
                        Phase::Idle
                    };
                    step.has_more = is_needed;
                }
            }
            Phase::Retired(retired, guards) => {
                step.has_more = are_dropped(guards);
                if step.has_more {
                    *phase = Phase::Moving(std::mem::take(retired), Vec::new());
                }
            }
            Phase::Moving(retired, next) => {
                let result = self.move_messages(retired, next)?;
                for segment in result.damaged {
                    retired.remove(&segment);
                    segments.unretire(segment);
                }
                step.moved = result.moved;
                match result.next {
                    Some(key) => *next = key,
                    None => {
                        *phase = Phase::Moved(std::mem::take(retired), segments.earlier_guards());
                    }
                }
            }
            Phase::Moved(retired, guards) => {
                step.has_more = false;
                if are_dropped(guards) {
                    let ids: Vec<u32> = retired.iter().copied().collect();
                    if let Some(bytes) = self.0.engine.delete_segments(&ids)? {
                        step.deleted_bytes = bytes;
                        *phase = Phase::Idle;
                    }
                }
            }
        }
        Ok(step)
    }

    /// Counts what some rows of `blobs` name, and returns whether more rows may be left.
    fn count(&self, segments: &Segments, count: &mut Count) -> Result<bool, Error> {
        let (mut rows, mut bytes, mut last) = (0, 0, None);
        let read = self.0.engine.sweeping_snapshot();
        read.raw_rows(&KeyRange::<Blobs>::resumed(&(), count.next.clone()), |key, row| {
            // What a damaged row names is not counted; `Txn::move_messages` then gives up all
            // segments that were chosen.
            let found = BlobRow::decode(key, row).ok().map(|found| found.bytes);
            let is_old = decode_key::<Blobs>(key).is_ok()
                && found.is_some_and(|found| belongs_into_segment(found, segments));
            if let Some(extent) = found.and_then(BlobBytes::extent) {
                let named = count.named.entry(extent.segment).or_default();
                named.bytes += extent.stored_bytes();
                named.messages += 1;
            }
            count.has_old_rows |= is_old;
            rows += 1;
            bytes += row.len() as u64;
            last = Some(key.to_vec());
            Ok(rows < ROWS_PER_STEP && bytes < BYTES_PER_STEP)
        })?;
        count.next = last.map(|key| next_key(&key)).unwrap_or_default();
        Ok(rows >= ROWS_PER_STEP || bytes >= BYTES_PER_STEP)
    }

    /// Moves some messages, and waits until their rows are written. If one of these rows was
    /// changed meanwhile, the next step tries again.
    fn move_messages(&self, retired: &BTreeSet<u32>, next: &[u8]) -> Result<MoveResult, Error> {
        let (result, ticket) =
            self.commit(AccountId::SITE, |txn| txn.move_messages(retired, next))?;
        match ticket.wait_blocking() {
            Err(Error::Overtaken(_)) => {
                Ok(MoveResult { next: Some(next.to_vec()), ..MoveResult::default() })
            }
            done => done.map(|()| result),
        }
    }
}

impl Txn<'_> {
    /// Moves messages of the segments `retired`, and messages that are in rows and belong into a
    /// segment, to the active segment. Reads rows from the key `next` on.
    fn move_messages(&mut self, retired: &BTreeSet<u32>, next: &[u8]) -> Result<MoveResult, Error> {
        let mut result = MoveResult::default();
        let (mut rows, mut bytes, mut last, mut found) = (0, 0, None, Vec::new());
        let Some(segments) = self.engine.segments() else { return Ok(result) };
        let max_moved = self.thresholds.moved_messages;
        self.raw_rows(&KeyRange::<Blobs>::resumed(&(), next.to_vec()), |key, row| {
            rows += 1;
            bytes += row.len() as u64;
            last = Some(key.to_vec());
            let (Ok(_), Ok(blob)) = (decode_key::<Blobs>(key), BlobRow::decode(key, row)) else {
                // The row may name any segment, or cannot be written again.
                result.damaged.extend(retired);
                return Ok(rows < ROWS_PER_STEP && bytes < BYTES_PER_STEP);
            };
            let is_retired = |segment| retired.contains(&segment);
            if blob.bytes.extent().is_some_and(|extent| is_retired(extent.segment))
                || belongs_into_segment(blob.bytes, segments)
            {
                bytes += blob.bytes.len();
                found.push((key.to_vec(), row.to_vec()));
            }
            Ok(rows < ROWS_PER_STEP && bytes < BYTES_PER_STEP && found.len() < max_moved)
        })?;
        // Without memory for it, messages are moved as they are.
        let mut packer = if found.is_empty() { None } else { Packer::new() };
        let has_more = rows >= ROWS_PER_STEP || bytes >= BYTES_PER_STEP || found.len() >= max_moved;
        result.next = last.filter(|_| has_more).map(|key| next_key(&key));
        for (key, row) in found {
            let blob = BlobRow::decode(&key, &row)?;
            let key = decode_key::<Blobs>(&key)?;
            let Some(bytes) = bytes_to_move(self, segments, &key.blob, &row, packer.as_mut())
            else {
                tracing::warn!(
                    message = %key.blob,
                    "a message cannot be read and is left where it is: run `restante check --blobs`"
                );
                result.damaged.extend(blob.bytes.extent().map(|extent| extent.segment));
                continue;
            };
            let moved = match bytes {
                MovedBytes::Packed { packed, length } => {
                    let extent = segments.append(&key.blob.0, &packed)?;
                    BlobBytes::Packed { extent, length }
                }
                MovedBytes::Raw(raw) => BlobBytes::Located(segments.append(&key.blob.0, &raw)?),
            };
            self.put_bytes::<Blobs>(&key, BlobRow { at: blob.at, bytes: moved }.encode());
            for frame in blob.bytes.frame_keys(key.blob) {
                self.delete::<BlobFrames>(&frame);
            }
            self.assert_unchanged::<Blobs>(&key, row);
            result.moved += 1;
        }
        Ok(result)
    }
}

/// What is written of a message to the active segment.
#[derive(Debug, PartialEq, Eq)]
enum MovedBytes {
    Packed {
        packed: Vec<u8>,
        /// The number of bytes of the message.
        length: u64,
    },
    Raw(Vec<u8>),
}

/// Returns the bytes that are written of a message whose `blobs` row was read: compressed, if they
/// are so already or if that saves space. `None` if the message cannot be read, or its bytes are
/// not those of its hash.
fn bytes_to_move(
    read: &dyn RowReader,
    segments: &Segments,
    hash: &BlobHash,
    row: &[u8],
    packer: Option<&mut Packer>,
) -> Option<MovedBytes> {
    let is_its_own = |raw: &[u8]| *blake3::hash(raw).as_bytes() == hash.0;
    let blob = BlobRow::decode(&BlobKey { blob: *hash }.encode(), row).ok()?;
    if let BlobBytes::Packed { extent, length } = blob.bytes {
        let packed = read_compressed(segments, &extent).ok()?;
        let raw = unpack(&packed, length).ok()?;
        return is_its_own(&raw).then_some(MovedBytes::Packed { packed, length });
    }
    let raw = whole(read, hash, row).ok().filter(|raw| is_its_own(raw))?;
    Some(match packer.and_then(|packer| packer.pack(&raw)) {
        Some(packed) => MovedBytes::Packed { packed, length: raw.len() as u64 },
        None => MovedBytes::Raw(raw),
    })
}

/// Whether a message is in rows although it belongs into a segment.
fn belongs_into_segment(bytes: BlobBytes<'_>, segments: &Segments) -> bool {
    let length = usize::try_from(bytes.len()).unwrap_or(usize::MAX);
    bytes.extent().is_none() && segments.takes(length)
}

/// Chooses the sealed segments of which rows name at most half, and the short ones if there are
/// many. `max_bytes` is the length of a full one. A segment that has only one large message
/// (`MIN_ALONE_BYTES`) does not count as short: it is not worth writing the message again.
fn chosen_segments(count: &Count, max_bytes: u64) -> Vec<u32> {
    let sealed = || count.segments.iter().filter(|one| one.is_sealed);
    let named = |one: &SegmentUsage| count.named.get(&one.segment).copied().unwrap_or_default();
    let is_alone = |one: &SegmentUsage| {
        let NamedBytes { bytes, messages } = named(one);
        messages == 1 && bytes >= MIN_ALONE_BYTES && one.has_only(bytes)
    };
    let is_short = |one: &&SegmentUsage| one.bytes < max_bytes / SHORT_PART && !is_alone(one);
    let has_many_short = sealed().filter(is_short).count() >= MANY_SHORT_SEGMENTS;
    let is_half_dead = |one: &SegmentUsage| named(one).bytes <= one.bytes / 2;
    let chosen = sealed().filter(|one| is_half_dead(one) || (has_many_short && is_short(one)));
    chosen.map(|one| one.segment).collect()
}

/// Waits until the guards are dropped, at most 40 ms (`GUARD_WAITS`), and returns whether they are.
fn are_dropped(guards: &EarlierGuards) -> bool {
    (0..GUARD_WAITS).any(|wait| {
        std::thread::sleep(if wait == 0 { Duration::ZERO } else { GUARD_WAIT });
        guards.are_dropped()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UtcMillis;
    use crate::store::Options;
    use crate::store::engine::Engine as _;
    use crate::store::engine::memory::MemoryEngine;

    /// The bytes are of another level than ours, so that they show whether they are copied.
    #[test]
    fn compressed_message_is_moved_as_it_is_unless_its_hash_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let segments = Segments::open(dir.path(), &Options::small(), false).unwrap();
        let (engine, mut packer) = (MemoryEngine::new(), Packer::new().unwrap());
        let read = engine.snapshot();
        let lines = (0..200).map(|n| format!("line {n} of {}\r\n", n * n * 7919 % 10_007));
        let raw = lines.collect::<String>().into_bytes();
        let hash = BlobHash(*blake3::hash(&raw).as_bytes());
        let mut packed = vec![0; zstd_safe::compress_bound(raw.len())];
        let packed_length = zstd_safe::compress(packed.as_mut_slice(), &raw, 19).unwrap();
        packed.truncate(packed_length);
        assert_ne!(packer.pack(&raw).as_ref(), Some(&packed));
        let extent = segments.append(&hash.0, &packed).unwrap();
        let length = raw.len() as u64;
        let bytes = BlobBytes::Packed { extent, length };
        let row = BlobRow { at: UtcMillis(1), bytes }.encode();
        let mut moved =
            |hash| bytes_to_move(&*read, &segments, &BlobHash(hash), &row, Some(&mut packer));
        assert_eq!(moved(hash.0), Some(MovedBytes::Packed { packed, length }));
        assert_eq!(moved([1; 32]), None);
    }
}
