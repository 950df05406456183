//! Gives each call of `append` its place in the file of a segment.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::file::{FILE_HEADER_BYTES, SegmentId};

/// Space that is taken from the disk at once.
const ALLOCATED_BYTES: u64 = 8 << 20;
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
    /// Where the last place ends: at the end of the file, if all places are written.
    pub(super) end: u64,
    /// Where the places begin that are still being written. A writer removes its place at the end.
    pub(super) unfinished: BTreeSet<u64>,
}

impl Segment {
    /// A segment whose file ends at `end`.
    pub(super) fn new(id: SegmentId, path: PathBuf, end: u64) -> Self {
        Self {
            id,
            path,
            places: Mutex::new(Places { end, unfinished: BTreeSet::new() }),
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
