//! Gives each call of `append` its place in the file of a segment, and prepares the file for what
//! will be appended.
//!
//! - A write to space that the file system has not given to the file changes its metadata, and the
//!   sync must write these, too: it then takes half as long again as one that finds the place
//!   written already, and may wait for other files. So space is taken ahead (`allocate`), and while
//!   syncs are small, zeros are written ahead (`before_sync`).
//! - Under load a sync has the bytes of many commits, and to write all of them twice would cost
//!   more than the metadata.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::file::{FILE_HEADER_BYTES, SegmentId};

/// Space that is taken from the disk at once.
const ALLOCATED_BYTES: u64 = 8 << 20;
/// Zeros that are written ahead at once.
const ZEROED_BYTES: u64 = 256 << 10;
/// A sync is small if no more bytes than this were appended for it: about as many as the file
/// system writes for the metadata.
const SMALL_SYNC_BYTES: u64 = 16 << 10;
/// Zeros are written ahead after this many small syncs in a row.
const SMALL_SYNCS: u32 = 8;
/// How long a backup waits before it looks again whether a value is written.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) path: PathBuf,
    pub(super) places: Mutex<Places>,
    /// The place up to which the disk was asked for space for the file.
    allocated: AtomicU64,
    /// Everything before this place is durable, and is not written any more.
    #[cfg(test)]
    pub(super) synced: AtomicU64,
}

/// The places in a segment that were given to calls of `append`.
#[derive(Debug)]
pub(super) struct Places {
    /// Where the last place ends: at the end of the file, if all places are written. There may be
    /// zeros behind it.
    pub(super) end: u64,
    /// Where the places begin that are still being written. A writer removes its place at the end.
    pub(super) unfinished: BTreeSet<u64>,
    /// Zeros were written from `end` up to this place, unless `end` is behind it.
    zeroed: u64,
    /// Where the last place ended at the last sync.
    end_at_sync: u64,
    /// The number of small syncs since the last one that was not small.
    small_syncs: u32,
    /// Whether nothing more is appended, so that zeros are of no use.
    is_sealed: bool,
}

impl Segment {
    /// A segment whose file ends at `end`.
    pub(super) fn new(id: SegmentId, path: PathBuf, end: u64) -> Self {
        Self {
            id,
            path,
            places: Mutex::new(Places {
                end,
                unfinished: BTreeSet::new(),
                zeroed: end,
                end_at_sync: end,
                small_syncs: 0,
                is_sealed: false,
            }),
            allocated: AtomicU64::new(end),
            #[cfg(test)]
            synced: AtomicU64::new(end),
        }
    }

    /// Takes the next `length` bytes of the segment, and returns where they begin; `None` if the
    /// segment is full (`end_after`). The caller writes them, and then removes the place from
    /// `Places::unfinished`.
    pub(super) fn reserve(&self, length: u64, max_bytes: u64) -> Option<u64> {
        let mut places = self.places.lock();
        let begin = places.end;
        places.end = end_after(begin, length, max_bytes)?;
        places.unfinished.insert(begin);
        Some(begin)
    }

    /// Takes space of the disk for a frame that ends at `end` and for what follows it, if there is
    /// none for the frame yet. A sync then need not look for space, which takes longer than to
    /// write a short message.
    pub(super) fn allocate(&self, file: &File, end: u64) {
        if end <= self.allocated.load(Ordering::Relaxed) {
            return;
        }
        let next = end.saturating_add(ALLOCATED_BYTES);
        let allocated = self.allocated.fetch_max(next, Ordering::Relaxed);
        if allocated < end {
            // If this fails, the write itself takes the space that it needs.
            let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
            let _unused = rustix::fs::fallocate(file, keep, allocated, next - allocated);
        }
    }

    /// Writes zeros behind the last place, if syncs are small and the zeros come to their end. The
    /// sync that follows makes the zeros durable, too. No place is given meanwhile. Nothing is
    /// written behind `max_bytes`.
    pub(super) fn before_sync(&self, file: &File, max_bytes: u64) {
        let mut places = self.places.lock();
        let bytes = places.end.saturating_sub(places.end_at_sync);
        places.end_at_sync = places.end;
        places.small_syncs =
            if bytes > SMALL_SYNC_BYTES { 0 } else { places.small_syncs.saturating_add(1) };
        let begin = places.end.max(places.zeroed);
        let end = max_bytes.min(places.end.saturating_add(ZEROED_BYTES));
        if places.is_sealed
            || places.small_syncs < SMALL_SYNCS
            || places.zeroed >= places.end.saturating_add(SMALL_SYNC_BYTES)
            || begin >= end
        {
            return;
        }
        self.allocate(file, end);
        // If this fails, the place is written as if there were no zeros.
        let zeros = vec![0; usize::try_from(end - begin).unwrap_or(0)];
        let _unused = file.write_all_at(&zeros, begin);
        places.zeroed = end;
    }

    /// Ends the file where the last place ends. Nothing may be appended after this, except what an
    /// earlier call of `append` is about to.
    pub(super) fn cut_zeros(&self, file: &File) {
        let mut places = self.places.lock();
        places.is_sealed = true;
        if places.zeroed > places.end && file.set_len(places.end).is_ok() {
            places.zeroed = places.end;
        }
    }

    /// Whether `reserve` would succeed now.
    pub(super) fn has_space(&self, length: u64, max_bytes: u64) -> bool {
        end_after(self.end(), length, max_bytes).is_some()
    }

    /// The end of the places given so far.
    pub(super) fn end(&self) -> u64 {
        self.places.lock().end
    }

    /// Returns the end of the places given so far, after everything before it is written.
    pub(super) fn settled_end(&self) -> u64 {
        let end = self.end();
        while self.places.lock().finished() < end {
            std::thread::sleep(SETTLE_PAUSE);
        }
        end
    }
}

impl Places {
    /// The place before which nothing is written any more.
    pub(super) fn finished(&self) -> u64 {
        self.unfinished.first().copied().unwrap_or(self.end)
    }
}

/// Returns the end of a segment after `length` more bytes; `None` if it is full. What begins before
/// `max_bytes` may end after it, and an empty segment takes a value of any length.
fn end_after(end: u64, length: u64, max_bytes: u64) -> Option<u64> {
    (end < max_bytes.max(FILE_HEADER_BYTES + 1)).then(|| end.checked_add(length)).flatten()
}
