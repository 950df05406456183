//! The log: frames among the values, in which an engine notes the rows that it is about to write.
//! The journal of RocksDB (`rocks::journal`) consists of them.
//!
//! - Frames with rows are numbered, and are appended in the order of their numbers. A frame that
//!   cancels another has the number of the cancelled one. A frame is appended only once the frame
//!   before it is synced.
//! - The name of a frame has the random number of its segment, so a message that somebody sends
//!   cannot be taken for a frame of the log.
//! - Nothing says in which order what is not synced reaches the disk. So a frame lists the values
//!   that were appended before it and not synced: if one of them is lost, the sync of the frame did
//!   not succeed.
//! - Between the frames are values, places that were never written, and what an earlier process or
//!   a power failure left unfinished. A reader steps from frame to frame, and where no whole frame
//!   begins it searches for the next frame of the log.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use super::file::{
    CHECKSUM_LENGTH, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, NAME_BYTES, SegmentId, damaged,
    frame_length, read_frame, read_frame_header,
};
use super::{Extent, Segments, open_failed};
use crate::store::error::Error;

/// The first bytes of the name of a frame of the log.
const TAG: &[u8; 8] = b"RSTLOG\0\x01";
/// The length of the tag and the random number.
const PREFIX_BYTES: usize = 16;
/// Where the name begins in the header of a frame.
const NAME_OFFSET: u64 = 12;
/// The length of an encoded extent.
const EXTENT_BYTES: usize = 20;
/// What a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: u64 = 512;
/// Bytes that a search reads at a time.
const SEARCH_BYTES: usize = 1 << 20;

/// A place in the log: the frames before it are known. The default is before all frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::store::engine) struct LogPlace {
    pub(in crate::store::engine) segment: u32,
    pub(in crate::store::engine) offset: u64,
}

/// What a frame of the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::engine) enum LogKind {
    /// Rows are about to be written.
    Rows,
    /// The rows of the frame with this number were not written.
    Cancelled,
}

/// A frame of the log.
#[derive(Debug)]
pub(in crate::store::engine) struct LogFrame {
    pub(in crate::store::engine) kind: LogKind,
    /// Its number, or that of the frame which it cancels.
    pub(in crate::store::engine) number: u64,
    /// As the engine encoded them. Empty if the frame cancels another.
    pub(in crate::store::engine) rows: Vec<u8>,
    /// Values that became durable together with the frame.
    values: Vec<Extent>,
    /// Where the frame ends.
    pub(in crate::store::engine) end: LogPlace,
}

impl Segments {
    /// Appends a frame to the log, and returns where it ends. The frame is durable after `sync`. If
    /// it cancels another frame, `number` is that of the other, and `rows` are empty.
    ///
    /// # Errors
    /// Those of `append`.
    pub(in crate::store::engine) fn append_log(
        &self,
        kind: LogKind,
        number: u64,
        rows: &[u8],
    ) -> Result<LogPlace, Error> {
        let value = encode_frame(&self.unsynced.lock().values, rows);
        let extent = self.append_named(&value, |segment| log_name(segment, kind, number))?;
        self.log_written.fetch_add(extent.stored_bytes(), Ordering::Relaxed);
        let offset = extent.offset.saturating_add(extent.stored_bytes());
        Ok(LogPlace { segment: extent.segment, offset })
    }

    /// The place behind everything that was appended.
    pub(in crate::store::engine) fn log_end(&self) -> LogPlace {
        let state = self.state.read();
        let last = state.segments.last_key_value();
        last.map_or_else(LogPlace::default, |(id, segment)| LogPlace {
            segment: *id,
            offset: segment.end(),
        })
    }

    /// Gives new segments numbers after that of a place, although its file may be deleted: frames
    /// in a segment before the place would never be read.
    pub(in crate::store::engine) fn continue_behind(&self, place: LogPlace) {
        let mut state = self.state.write();
        state.last_id = state.last_id.max(place.segment);
    }

    /// Calls `each` with every whole frame of the log that begins at or behind a place, in their
    /// order.
    ///
    /// # Errors
    /// `Open` if a segment cannot be read, or if a frame of the log or the header of any frame is
    /// damaged; what `each` returns. The last frame before a power failure may be incomplete, which
    /// is no error.
    pub(in crate::store::engine) fn read_log(
        &self,
        from: LogPlace,
        each: &mut dyn FnMut(LogFrame) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let segments: Vec<_> =
            self.state.read().segments.range(from.segment..).map(|(_, one)| one.clone()).collect();
        for segment in segments {
            let failed = |error: io::Error| match error.kind() {
                ErrorKind::InvalidData => Error::Open(format!(
                    "{} is damaged, and nothing was changed: {error}. Copy the directory away \
                     before anything else; then restore the last backup.",
                    segment.path.display()
                )),
                _ => open_failed(&segment.path, &error),
            };
            let file = File::open(&segment.path).map_err(failed)?;
            let end = file.metadata().map_err(failed)?.len();
            let mut at =
                if segment.id.id == from.segment { from.offset } else { FILE_HEADER_BYTES };
            while let Some(frame) = next_frame(&file, segment.id, at, end).map_err(failed)? {
                at = frame.end.offset;
                each(frame)?;
            }
        }
        Ok(())
    }

    /// Whether all values that a frame lists were written whole. If not, the system stopped before
    /// the frame was durable. A value that was deleted or changed later counts as written.
    ///
    /// # Errors
    /// `Open` if a segment cannot be read.
    pub(in crate::store::engine) fn has_values_of(&self, frame: &LogFrame) -> Result<bool, Error> {
        let mut settled = BTreeSet::new();
        for extent in &frame.values {
            // The file of a segment is durable before anything is appended to it, so one that is
            // missing was deleted later.
            let segment = self.state.read().segments.get(&extent.segment).cloned();
            let Some(segment) = segment else { continue };
            let mut is_there = || -> io::Result<bool> {
                let file = File::open(&segment.path)?;
                if settled.insert(extent.segment) {
                    settle(&file)?;
                }
                let end = extent.offset.saturating_add(extent.stored_bytes());
                if end > file.metadata()?.len() {
                    return Ok(false);
                }
                let whole = 0..extent.length;
                match read_frame(&file, extent.offset, extent.length, &whole, &mut Vec::new()) {
                    Err(error) if error.kind() == ErrorKind::InvalidData => {
                        // A value that was changed later is damage, which a check reports.
                        Ok(!is_unfinished(&file, extent.offset, end)?)
                    }
                    read => read.map(|()| true),
                }
            };
            if !is_there().map_err(|error| open_failed(&segment.path, &error))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes durable what an earlier process appended behind a place. What could not be written is
    /// not found any more after this.
    ///
    /// # Errors
    /// `Open`.
    pub(in crate::store::engine) fn sync_behind(&self, from: LogPlace) -> Result<(), Error> {
        for segment in self.state.read().segments.range(from.segment..).map(|(_, one)| one) {
            File::open(&segment.path)
                .and_then(|file| settle(&file))
                .map_err(|error| open_failed(&segment.path, &error))?;
        }
        Ok(())
    }
}

/// Encodes a frame: the number of values (4), the segment (4), offset (8) and length (8) of each,
/// and the rows.
fn encode_frame(values: &[Extent], rows: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + values.len() * EXTENT_BYTES + rows.len());
    out.extend_from_slice(&u32::try_from(values.len()).unwrap_or(u32::MAX).to_be_bytes());
    for value in values {
        out.extend_from_slice(&value.segment.to_be_bytes());
        out.extend_from_slice(&value.offset.to_be_bytes());
        out.extend_from_slice(&value.length.to_be_bytes());
    }
    out.extend_from_slice(rows);
    out
}

fn decode_frame(bytes: &[u8]) -> Option<(Vec<Extent>, &[u8])> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let count = usize::try_from(u32::from_be_bytes(*count)).ok()?;
    let (values, rows) = rest.split_at_checked(count.checked_mul(EXTENT_BYTES)?)?;
    let values = values.chunks(EXTENT_BYTES).map(|bytes| {
        let (segment, rest) = bytes.split_first_chunk::<4>()?;
        let (offset, rest) = rest.split_first_chunk::<8>()?;
        Some(Extent {
            segment: u32::from_be_bytes(*segment),
            offset: u64::from_be_bytes(*offset),
            length: u64::from_be_bytes(rest.try_into().ok()?),
        })
    });
    Some((values.collect::<Option<_>>()?, rows))
}

/// Makes a file durable, and drops its pages from memory: after a failed write the system may keep
/// what is not on the disk.
fn settle(file: &File) -> io::Result<()> {
    file.sync_all()?;
    let _unsupported = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

fn log_prefix(segment: SegmentId) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..8].copy_from_slice(TAG);
    prefix[8..].copy_from_slice(&segment.random.to_be_bytes());
    prefix
}

/// The name of a frame: the tag (8), the random number of the segment (8), the kind (8), and the
/// number (8).
fn log_name(segment: SegmentId, kind: LogKind, number: u64) -> [u8; NAME_BYTES] {
    let kind = match kind {
        LogKind::Rows => 1u64,
        LogKind::Cancelled => 2,
    };
    let mut name = [0; NAME_BYTES];
    name[..PREFIX_BYTES].copy_from_slice(&log_prefix(segment));
    name[PREFIX_BYTES..24].copy_from_slice(&kind.to_be_bytes());
    name[24..].copy_from_slice(&number.to_be_bytes());
    name
}

/// Returns what the name of a frame says; `None` if it is not one of the log of this segment.
fn parse_log_name(segment: SegmentId, name: &[u8; NAME_BYTES]) -> Option<(LogKind, u64)> {
    let (prefix, rest) = name.split_first_chunk::<PREFIX_BYTES>()?;
    let (kind, number) = rest.split_first_chunk::<8>()?;
    let kind = match u64::from_be_bytes(*kind) {
        1 => LogKind::Rows,
        2 => LogKind::Cancelled,
        _ => return None,
    };
    (*prefix == log_prefix(segment))
        .then_some((kind, u64::from_be_bytes(*number.first_chunk::<8>()?)))
}

/// Returns the first whole frame of the log at or behind a place; `None` if there is none. `end` is
/// the length of the file.
///
/// # Errors
/// `InvalidData` if a frame of the log, or the header of any frame, was changed after it was
/// written; those of the file.
fn next_frame(
    file: &File,
    segment: SegmentId,
    mut at: u64,
    end: u64,
) -> io::Result<Option<LogFrame>> {
    while end.saturating_sub(at) >= FRAME_HEADER_BYTES {
        let header = read_frame_header(file, at)?;
        if header.is_none() && !is_unfinished(file, at, at + FRAME_HEADER_BYTES)? {
            return Err(damaged("the header of a frame was changed"));
        }
        let frame_end = header.and_then(|(length, _)| at.checked_add(frame_length(length)));
        if let (Some((length, name)), Some(frame_end)) = (header, frame_end)
            && frame_end <= end
        {
            let Some((kind, number)) = parse_log_name(segment, &name) else {
                at = frame_end;
                continue;
            };
            let mut value = Vec::new();
            match read_frame(file, at, length, &(0..length), &mut value) {
                Ok(()) => {
                    let end = LogPlace { segment: segment.id, offset: frame_end };
                    let (values, rows) = decode_frame(&value)
                        .ok_or_else(|| damaged("a frame of the log has another format"))?;
                    let rows = rows.to_vec();
                    return Ok(Some(LogFrame { kind, number, rows, values, end }));
                }
                Err(error) if error.kind() != ErrorKind::InvalidData => return Err(error),
                Err(_) if !is_unfinished(file, at, frame_end)? => {
                    return Err(damaged("a frame of the log was changed"));
                }
                Err(_) => {}
            }
        }
        // Nothing whole begins here. The next frame of the log is found by the beginning of its
        // name.
        match find(file, &log_prefix(segment), at + 1 + NAME_OFFSET, end)? {
            Some(name) => at = name - NAME_OFFSET,
            None => break,
        }
    }
    Ok(None)
}

/// Whether a frame, or its header, was not written whole before a crash: its last four bytes are
/// zeros, or a sector in it has only zeros. A whole frame ends in a checksum, and a whole header in
/// a number or a hash, whose last four bytes are hardly ever zeros.
fn is_unfinished(file: &File, begin: u64, end: u64) -> io::Result<bool> {
    let mut checksum = [0; CHECKSUM_LENGTH];
    file.read_exact_at(&mut checksum, end - CHECKSUM_LENGTH as u64)?;
    Ok(checksum == [0; CHECKSUM_LENGTH] || has_empty_sector(file, begin, end)?)
}

/// Whether there is a sector of which the part in a range of a file has only zeros.
fn has_empty_sector(file: &File, begin: u64, end: u64) -> io::Result<bool> {
    let length = usize::try_from(end - begin).map_err(|_| damaged("a frame is too long"))?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, begin)?;
    let first = usize::try_from(SECTOR_BYTES - begin % SECTOR_BYTES).unwrap_or(0).min(length);
    let (first, rest) = bytes.split_at(first);
    let sectors = rest.chunks(usize::try_from(SECTOR_BYTES).unwrap_or(usize::MAX));
    Ok(std::iter::once(first).chain(sectors).any(|part| part.iter().all(|byte| *byte == 0)))
}

/// Returns where bytes occur first in a range of a file.
fn find(file: &File, wanted: &[u8], from: u64, end: u64) -> io::Result<Option<u64>> {
    let finder = memchr::memmem::Finder::new(wanted);
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = from;
    while end.saturating_sub(at) >= wanted.len() as u64 {
        let length = usize::try_from(end - at).map_or(SEARCH_BYTES, |left| left.min(SEARCH_BYTES));
        let bytes = buffer.get_mut(..length).unwrap_or_default();
        file.read_exact_at(bytes, at)?;
        if let Some(found) = finder.find(bytes) {
            return Ok(Some(at + found as u64));
        }
        // What is wanted may begin at the end of these bytes.
        at += (length + 1 - wanted.len()) as u64;
    }
    Ok(None)
}
