//! A large value that is written while it comes in, to a segment of its own.
//!
//! - Until the value is complete, nothing names it, and its file is `RANDOM.begun`. The file is
//!   deleted when the value is dropped, or by the next process that opens the store for writing.
//! - `Segments::add` makes the file durable, gives it the name of a segment, and makes this name
//!   durable. From then on it is a sealed segment with one value.
//! - So the value is durable before a row can name it, and no frame of the log lists it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::file::{
    CHECKSUM_BYTES, CHECKSUM_LENGTH, CHUNK_BYTES, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, SegmentId,
    frame_header, frame_length, verify_chunk,
};
use super::places::Segment;
use super::{Extent, Segments, append_error, create_file, random_number};
use crate::store::error::Error;

/// How the name of a file ends while its value is not complete.
const BEGUN: &str = ".begun";
/// Where the value begins in the file.
const VALUE_OFFSET: u64 = FILE_HEADER_BYTES + FRAME_HEADER_BYTES;

/// A value that is being written. The space of the headers is left free until it is complete.
#[derive(Debug)]
pub struct StreamedValue {
    file: File,
    path: PathBuf,
    /// Whether the file stays when this is dropped.
    is_kept: bool,
    /// The random number of the segment.
    random: u64,
    /// The bytes written so far.
    length: u64,
    /// The checksum of the last chunk so far.
    checksum: crc32fast::Hasher,
    /// The hash of all bytes so far.
    hasher: blake3::Hasher,
}

/// Counts the names that the files of streamed values are given when the values are complete.
#[derive(Debug)]
pub(super) struct FileNames {
    /// How many were given.
    given: AtomicU64,
    /// How many of them are durable; `None` during a sync and after one has failed.
    synced: Mutex<Option<u64>>,
}

impl FileNames {
    pub(super) fn new() -> Self {
        Self { given: AtomicU64::new(0), synced: Mutex::new(Some(0)) }
    }

    /// Has every later call of `sync` fail, as after a sync that failed.
    #[cfg(test)]
    pub(super) fn fail(&self) {
        *self.synced.lock() = None;
    }

    /// Makes a name durable that the caller gave before the call. One sync serves all who wait. If
    /// the directory cannot be opened, the next call tries again; after a failed sync, every later
    /// call fails.
    pub(super) fn sync(&self, dir: &Path) -> io::Result<()> {
        let mine = self.given.fetch_add(1, Ordering::AcqRel) + 1;
        let mut synced = self.synced.lock();
        let known = synced.ok_or_else(|| io::Error::other("an earlier sync has failed"))?;
        if known < mine {
            let upto = self.given.load(Ordering::Acquire);
            let dir = File::open(dir)?;
            *synced = None;
            dir.sync_all()?;
            *synced = Some(upto);
        }
        Ok(())
    }
}

impl StreamedValue {
    fn begin(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let random = random_number()?;
        let path = dir.join(format!("{random:016x}{BEGUN}"));
        let file = create_file(&path)?;
        Ok(Self {
            file,
            path,
            is_kept: false,
            random,
            length: 0,
            checksum: crc32fast::Hasher::new(),
            hasher: blake3::Hasher::new(),
        })
    }

    /// Begins a value in a directory without a store.
    #[cfg(test)]
    pub(crate) fn begin_in(dir: &Path) -> Result<Self, Error> {
        Self::begin(dir).map_err(|error| append_error(&error))
    }

    /// Has what follows written to another file.
    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: File) {
        self.file = file;
    }

    /// Appends bytes to the value.
    ///
    /// # Errors
    /// `Full` if the disk is full, `Io`. Then the value must be dropped.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        self.hasher.update(bytes);
        while !bytes.is_empty() {
            let space = usize::try_from(CHUNK_BYTES - self.length % CHUNK_BYTES);
            let (part, rest) = bytes.split_at(bytes.len().min(space.unwrap_or(usize::MAX)));
            let checksums = self.length / CHUNK_BYTES * CHECKSUM_BYTES;
            let place = VALUE_OFFSET + self.length + checksums;
            self.file.write_all_at(part, place).map_err(|error| append_error(&error))?;
            self.checksum.update(part);
            self.length += part.len() as u64;
            if self.length.is_multiple_of(CHUNK_BYTES) {
                self.end_chunk().map_err(|error| append_error(&error))?;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Writes the checksum of the last chunk.
    fn end_chunk(&mut self) -> io::Result<()> {
        let earlier = self.length.div_ceil(CHUNK_BYTES).saturating_sub(1) * CHECKSUM_BYTES;
        let checksum = std::mem::take(&mut self.checksum).finalize();
        self.file.write_all_at(&checksum.to_be_bytes(), VALUE_OFFSET + self.length + earlier)
    }

    /// The bytes written so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the BLAKE3 hash of the bytes written so far.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        *self.hasher.finalize().as_bytes()
    }

    /// Appends the bytes written so far to `out`.
    ///
    /// # Errors
    /// `Io`, also if a checksum is wrong.
    pub fn read(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Io(format!("segment: {error}"));
        let begin = out.len();
        let length = usize::try_from(self.length).map_err(|error| failed(&error))?;
        out.resize(begin.saturating_add(length), 0);
        let chunk_length = usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX);
        let mut place = VALUE_OFFSET;
        for chunk in out.get_mut(begin..).unwrap_or_default().chunks_mut(chunk_length) {
            self.file.read_exact_at(chunk, place).map_err(|error| failed(&error))?;
            let mut checksum = [0; CHECKSUM_LENGTH];
            if chunk.len() == chunk_length {
                let place = place + CHUNK_BYTES;
                self.file.read_exact_at(&mut checksum, place).map_err(|error| failed(&error))?;
            } else {
                // That of the last chunk is written when the value is complete.
                checksum = self.checksum.clone().finalize().to_be_bytes();
            }
            verify_chunk(chunk, &checksum).map_err(|error| failed(&error))?;
            place += CHUNK_BYTES + CHECKSUM_BYTES;
        }
        Ok(())
    }
}

impl Drop for StreamedValue {
    fn drop(&mut self) {
        if !self.is_kept {
            // If it stays, the next start deletes it.
            let _may_stay = fs::remove_file(&self.path);
        }
    }
}

impl Segments {
    /// Begins a value whose bytes are still to come.
    ///
    /// # Errors
    /// `Full` if the disk is full, `Io`.
    pub(in crate::store) fn begin_value(&self) -> Result<StreamedValue, Error> {
        self.check_writable()
            .and_then(|()| StreamedValue::begin(&self.dir))
            .map_err(|error| append_error(&error))
    }

    /// Adds a complete value as a sealed segment, and returns its place. The value is durable then,
    /// also without `sync`. It is named by its hash.
    ///
    /// # Errors
    /// `Full` if the disk is full, `Io`. Then nothing is left of the value.
    pub(in crate::store) fn add(&self, mut value: StreamedValue) -> Result<Extent, Error> {
        self.add_file(&mut value).map_err(|error| append_error(&error))
    }

    fn add_file(&self, value: &mut StreamedValue) -> io::Result<Extent> {
        self.check_writable()?;
        if !value.length.is_multiple_of(CHUNK_BYTES) {
            value.end_chunk()?;
        }
        let id = SegmentId { id: self.state.write().next_id()?, random: value.random };
        let headers = [id.header(), frame_header(&value.hash(), value.length)].concat();
        value.file.write_all_at(&headers, 0)?;
        value.file.sync_all()?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(id.file_name());
        fs::rename(&value.path, &path)?;
        value.path.clone_from(&path);
        // `begin_segment` makes the directory's own entry durable: a row that names this value is
        // first written to a segment that was begun so.
        self.file_names.sync(&self.dir)?;
        value.is_kept = true;
        let length = frame_length(value.length);
        self.written.fetch_add(length, Ordering::Relaxed);
        let segment = Segment::new(id, path, FILE_HEADER_BYTES + length);
        self.state.write().segments.insert(id.id, Arc::new(segment));
        Ok(Extent { segment: id.id, offset: FILE_HEADER_BYTES, length: value.length })
    }

    pub(super) fn check_writable(&self) -> io::Result<()> {
        if self.is_read_only {
            return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "opened read-only"));
        }
        Ok(())
    }
}

/// Deletes a file if it is what an earlier process left of a value that was not complete.
pub(super) fn delete_unfinished(path: &Path) {
    let name = path.file_name().and_then(|name| name.to_str());
    if name.is_some_and(|name| name.ends_with(BEGUN)) {
        // If it stays, it only takes space until the next start.
        let _may_stay = fs::remove_file(path);
    }
}
