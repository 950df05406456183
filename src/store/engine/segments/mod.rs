//! Segments: files to which large values are appended, beside an engine's tables.
//!
//! A value in a table is written to the log, to a table file, and again by compactions. A value in
//! a segment is written once. A row names it by its `Extent`.
//!
//! - `append` writes a value without a sync. The value is durable when a call of `sync` returns
//!   that began after `append` returned. The engine calls `sync` before it writes rows, so a row
//!   never names a value that is not durable.
//! - After a failed `sync` it is not known what is durable, so every later one fails, too.
//! - Threads append at the same time, each at a place of its own.
//! - A large value may be written while it comes in, to a segment of its own (`stream`).
//! - Nothing is appended to a segment that an earlier process wrote: its last frame may be torn.
//! - A segment is deleted in steps, so that nobody who knows an extent in it finds it gone. A
//!   caller that reads rows and then extents, or will write a row with an extent, holds a
//!   `SegmentGuard` meanwhile. The caller of `retire` waits until all earlier guards are dropped
//!   (`EarlierGuards::are_dropped`), moves what rows still name, waits for guards again, and calls
//!   `delete`.

pub(super) mod backup;
mod file;
mod guard;
pub(super) mod log;
mod places;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use self::file::{FILE_HEADER_BYTES, NAME_BYTES, SegmentId, frame_length, read_frame, write_frame};
use self::guard::GuardGroups;
pub use self::guard::{EarlierGuards, SegmentGuard};
use self::places::Segment;
use self::stream::FileNames;
pub use self::stream::StreamedValue;
use crate::store::Options;
use crate::store::error::Error;

/// The directory of the segments, in the directory of the engine.
pub(super) const DIRECTORY: &str = "segments";
/// Files that are kept open for reading.
const MAX_OPEN_FILES: usize = 128;

/// The place of a value in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub segment: u32,
    /// Where the value's frame begins in the file.
    pub offset: u64,
    /// The length of the value in bytes.
    pub length: u64,
}

impl Extent {
    /// The bytes that the value takes in its segment.
    #[must_use]
    pub fn stored_bytes(self) -> u64 {
        frame_length(self.length)
    }
}

/// A segment that is not being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentUsage {
    pub segment: u32,
    /// The length of its file, once all its values are written, without zeros that this process
    /// wrote behind them.
    pub bytes: u64,
    /// Whether nothing more is appended to it.
    pub is_sealed: bool,
}

impl SegmentUsage {
    /// Whether a value whose frame has this many bytes is all that the segment has.
    #[must_use]
    pub fn has_only(self, stored_bytes: u64) -> bool {
        self.bytes == FILE_HEADER_BYTES + stored_bytes
    }
}

#[derive(Debug, Default)]
struct State {
    segments: BTreeMap<u32, Arc<Segment>>,
    /// The segment that takes values, with its file. `None` until a process appends its first
    /// value, and after `seal_active`.
    active: Option<(Arc<Segment>, Arc<File>)>,
    /// Segments that are to be deleted: `may_name` refuses their extents.
    retired: BTreeSet<u32>,
    /// The highest number that a segment had since the store was opened. No number is given twice
    /// before the store is closed, so that a late deletion cannot hit another segment.
    last_id: u32,
}

impl State {
    /// Takes the number of a new segment.
    fn next_id(&mut self) -> io::Result<u32> {
        let next = self.last_id.checked_add(1);
        self.last_id = next.ok_or_else(|| io::Error::other("no segment id is left"))?;
        Ok(self.last_id)
    }

    /// Has nothing more appended to the active segment, and appends to this one, if any.
    fn replace_active(&mut self, next: Option<(Arc<Segment>, Arc<File>)>) {
        if let Some((segment, file)) = std::mem::replace(&mut self.active, next) {
            segment.cut_zeros(&file);
        }
    }
}

/// What was appended and is not synced.
#[derive(Debug, Default)]
struct Unsynced {
    segments: Vec<(Arc<Segment>, Arc<File>)>,
    values: Vec<Extent>,
}

/// The segments of a store.
#[derive(Debug)]
pub struct Segments {
    dir: PathBuf,
    is_read_only: bool,
    /// A segment takes no further value once it is this long.
    max_bytes: u64,
    /// The length from which on a value belongs into a segment.
    min_value: usize,
    state: RwLock<State>,
    unsynced: Mutex<Unsynced>,
    /// Held during a sync. `true` after one has failed.
    has_failed: Mutex<bool>,
    file_names: FileNames,
    /// Files that are open for reading, the last used first.
    open: Mutex<VecDeque<(u32, Arc<File>)>>,
    guard_groups: GuardGroups,
    /// Held while files are deleted, and while a backup copies them.
    deletion: Mutex<()>,
    /// Bytes of frames that were appended.
    written: AtomicU64,
    /// The part of `written` that is frames of the log.
    log_written: AtomicU64,
    syncs: AtomicU64,
}

impl Segments {
    /// Opens the segments in the directory of an engine. Creates nothing. Deletes streamed values
    /// that an earlier process did not complete, but not if `is_read_only`.
    ///
    /// # Errors
    /// `Open`.
    pub(in crate::store) fn open(
        engine: &Path,
        options: &Options,
        is_read_only: bool,
    ) -> Result<Self, Error> {
        let dir = engine.join(DIRECTORY);
        let failed = |error: &dyn std::fmt::Display| open_failed(&dir, error);
        let mut segments = BTreeMap::new();
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => Some(entries),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&error)),
        };
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(|error| failed(&error))?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(SegmentId::of_file_name) else {
                if !is_read_only {
                    stream::delete_unfinished(&entry.path());
                }
                continue;
            };
            let bytes = entry.metadata().map_err(|error| failed(&error))?.len();
            let segment = Segment::new(id, entry.path(), bytes);
            if segments.insert(id.id, Arc::new(segment)).is_some() {
                let twice = format!("two files have the number {:08x}", id.id);
                return Err(failed(&twice));
            }
        }
        Ok(Self {
            dir,
            is_read_only,
            max_bytes: options.segment_bytes,
            min_value: options.min_segment_value,
            state: RwLock::new(State {
                last_id: segments.last_key_value().map_or(0, |(id, _)| *id),
                segments,
                ..State::default()
            }),
            unsynced: Mutex::default(),
            has_failed: Mutex::default(),
            file_names: FileNames::new(),
            open: Mutex::default(),
            guard_groups: GuardGroups::default(),
            deletion: Mutex::default(),
            written: AtomicU64::new(0),
            log_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        })
    }

    /// Whether a value of this length belongs into a segment; shorter ones belong into their rows.
    pub(in crate::store) fn takes(&self, length: usize) -> bool {
        length >= self.min_value
    }

    /// Appends a value, and returns its place. `name` is written with it, for a recovery by hand.
    ///
    /// # Errors
    /// `Full` if there is no space (`append_error`), `Io`. Then the value may be appended again,
    /// and what was written before stays as it is.
    pub(in crate::store) fn append(&self, name: &[u8; 32], value: &[u8]) -> Result<Extent, Error> {
        self.append_named(value, |_| *name)
    }

    /// Does as `append`, with a name that may depend on the segment.
    fn append_named(
        &self,
        value: &[u8],
        name: impl FnOnce(SegmentId) -> [u8; NAME_BYTES],
    ) -> Result<Extent, Error> {
        let length = frame_length(value.len() as u64);
        let (segment, file, offset) = loop {
            let active = self.state.read().active.clone();
            if let Some((segment, file)) = active
                && let Some(offset) = segment.reserve(length, self.max_bytes)
            {
                break (segment, file, offset);
            }
            self.begin_segment(length).map_err(|error| append_error(&error))?;
        };
        segment.allocate(&file, offset.saturating_add(length));
        let result = write_frame(&file, offset, &name(segment.id), value);
        segment.places.lock().unfinished.remove(&offset);
        result.map_err(|error| append_error(&error))?;
        self.written.fetch_add(length, Ordering::Relaxed);
        let id = segment.id.id;
        let extent = Extent { segment: id, offset, length: value.len() as u64 };
        let mut unsynced = self.unsynced.lock();
        if !unsynced.segments.iter().any(|(dirty, _)| dirty.id.id == id) {
            unsynced.segments.push((segment, file));
        }
        unsynced.values.push(extent);
        Ok(extent)
    }

    /// Begins a new segment, unless another thread has begun one with space for `length` bytes.
    fn begin_segment(&self, length: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.state.write();
        if state.active.as_ref().is_some_and(|(active, _)| active.has_space(length, self.max_bytes))
        {
            return Ok(());
        }
        fs::create_dir_all(&self.dir)?;
        let id = SegmentId { id: state.next_id()?, random: random_number()? };
        let path = self.dir.join(id.file_name());
        let mut file = create_file(&path)?;
        let begun = file.write_all(&id.header()).and_then(|()| {
            // The file must be found after a power failure, and so must its directory.
            file.sync_all()?;
            sync_directory(&self.dir)?;
            self.dir.parent().map_or(Ok(()), sync_directory)
        });
        if let Err(error) = begun {
            let _may_stay = fs::remove_file(&path);
            return Err(error);
        }
        let segment = Arc::new(Segment::new(id, path, FILE_HEADER_BYTES));
        state.segments.insert(id.id, Arc::clone(&segment));
        state.replace_active(Some((segment, Arc::new(file))));
        Ok(())
    }

    /// Has nothing more appended to the active segment if it has at least `min_bytes`.
    pub(in crate::store) fn seal_active(&self, min_bytes: u64) {
        let mut state = self.state.write();
        if state.active.as_ref().is_some_and(|(active, _)| active.end() >= min_bytes) {
            state.replace_active(None);
        }
    }

    /// Makes everything durable that was appended before the call. Calls at the same time run one
    /// after the other.
    ///
    /// # Errors
    /// `Io`: it is not known what is durable. Every later call fails, too.
    pub(super) fn sync(&self) -> Result<(), Error> {
        let mut has_failed = self.has_failed.lock();
        if *has_failed {
            return Err(Error::Io("segment: an earlier sync has failed".into()));
        }
        let dirty = std::mem::take(&mut *self.unsynced.lock());
        for (segment, file) in dirty.segments {
            segment.before_sync(&file, self.max_bytes);
            #[cfg(test)]
            let finished = segment.places.lock().finished();
            file.sync_data().map_err(|error| {
                *has_failed = true;
                Error::Io(format!("segment {:08x}: {error}", segment.id.id))
            })?;
            #[cfg(test)]
            segment.synced.fetch_max(finished, Ordering::AcqRel);
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Appends the bytes in a range of a value to `out`. A range that goes beyond the end of the
    /// value is cut there.
    ///
    /// # Errors
    /// What is wrong with the segment, as text: it is missing or damaged.
    pub(in crate::store) fn read(
        &self,
        extent: &Extent,
        range: &Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.file(extent.segment)
            .and_then(|file| read_frame(&file, extent.offset, extent.length, range, out))
            .map_err(|error| {
                let Extent { segment, offset, .. } = extent;
                format!("segment {segment:08x} at {offset}: {error}")
            })
    }

    /// Whether the segment of an extent exists and is long enough. Reads nothing.
    pub(in crate::store) fn contains(&self, extent: &Extent) -> bool {
        let end = extent.offset.checked_add(frame_length(extent.length));
        let state = self.state.read();
        let segment = state.segments.get(&extent.segment);
        segment.zip(end).is_some_and(|(segment, end)| end <= segment.end())
    }

    /// Returns the file of a segment, open for reading.
    fn file(&self, id: u32) -> io::Result<Arc<File>> {
        if let Some(file) = find_open(&mut self.open.lock(), id) {
            return Ok(file);
        }
        let missing = || io::Error::new(ErrorKind::NotFound, "the segment is missing");
        let path = self.state.read().segments.get(&id).ok_or_else(missing)?.path.clone();
        // On a slow disk this takes long, so the lock is not held: other segments can be read.
        let file = Arc::new(File::open(path)?);
        let mut open = self.open.lock();
        if let Some(other) = find_open(&mut open, id) {
            return Ok(other);
        }
        // The open file of a segment that was deleted meanwhile would keep its space.
        if self.state.read().segments.contains_key(&id) {
            open.push_front((id, Arc::clone(&file)));
        }
        let oldest = if open.len() > MAX_OPEN_FILES { open.pop_back() } else { None };
        drop(open);
        drop(oldest);
        Ok(file)
    }

    /// Returns every segment that is not retired, by ascending number.
    pub(in crate::store) fn usage(&self) -> Vec<SegmentUsage> {
        let state = self.state.read();
        let active = state.active.as_ref().map(|(segment, _)| segment.id.id);
        let all = state.segments.values().filter(|one| !state.retired.contains(&one.id.id));
        all.map(|one| SegmentUsage {
            segment: one.id.id,
            bytes: one.end(),
            is_sealed: active != Some(one.id.id),
        })
        .collect()
    }

    /// Whether a new row may name an extent that another row names: not if its segment is missing
    /// or to be deleted.
    pub(in crate::store) fn may_name(&self, extent: &Extent) -> bool {
        self.contains(extent) && !self.state.read().retired.contains(&extent.segment)
    }

    /// Marks segments as to be deleted.
    pub(in crate::store) fn retire(&self, segments: &[u32]) {
        self.state.write().retired.extend(segments);
    }

    /// Takes back `retire` for a segment.
    pub(in crate::store) fn unretire(&self, segment: u32) {
        self.state.write().retired.remove(&segment);
    }

    /// Deletes the `segments` that are retired, and returns the bytes of their files; `None` while
    /// a backup or another deletion runs. No row may name an extent in a retired segment, and
    /// nobody may know such an extent.
    ///
    /// # Errors
    /// `Io`; the remaining segments stay retired.
    pub(in crate::store) fn delete(&self, segments: &[u32]) -> Result<Option<u64>, Error> {
        let failed = |error: io::Error| Error::Io(format!("segment: {error}"));
        let Some(_held) = self.deletion.try_lock() else { return Ok(None) };
        let mut bytes = 0;
        for id in segments {
            let found = {
                let state = self.state.read();
                state.segments.get(id).filter(|_| state.retired.contains(id)).cloned()
            };
            let Some(segment) = found else { continue };
            match fs::remove_file(&segment.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
            bytes += segment.end();
            let mut state = self.state.write();
            state.segments.remove(id);
            state.retired.remove(id);
            drop(state);
            self.open.lock().retain(|(open, _)| open != id);
        }
        if !segments.is_empty() {
            sync_directory(&self.dir).map_err(failed)?;
        }
        Ok(Some(bytes))
    }

    /// The file of each segment, and how much of it is durable.
    #[cfg(test)]
    pub(in crate::store) fn synced(&self) -> Vec<(PathBuf, u64)> {
        let state = self.state.read();
        let synced = |one: &Arc<Segment>| (one.path.clone(), one.synced.load(Ordering::Acquire));
        state.segments.values().map(synced).collect()
    }

    /// The length at which a segment is full.
    pub(in crate::store) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Bytes that were appended since the segments were opened.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Bytes of frames of the log that were appended since the segments were opened.
    pub(in crate::store) fn log_written(&self) -> u64 {
        self.log_written.load(Ordering::Relaxed)
    }

    /// Syncs since the segments were opened.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        self.state.get_mut().replace_active(None);
    }
}

/// Returns the open file of a segment, and puts it first.
fn find_open(open: &mut VecDeque<(u32, Arc<File>)>, id: u32) -> Option<Arc<File>> {
    let at = open.iter().position(|(segment, _)| *segment == id)?;
    let found = open.remove(at)?;
    let file = Arc::clone(&found.1);
    open.push_front(found);
    Some(file)
}

/// Makes the error for segments, or one segment, that cannot be read when a store is opened.
fn open_failed(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Open(format!("{} cannot be read: {error}", path.display()))
}

/// Returns the random number of a new segment.
fn random_number() -> io::Result<u64> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(u64::from_be_bytes(random))
}

fn create_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Makes the error for an append that failed. `Full` is temporary: nothing names what was written.
fn append_error(error: &io::Error) -> Error {
    Error::of_write("segment", error)
}
