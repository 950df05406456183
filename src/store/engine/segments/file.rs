//! The layout of a segment file, and reading and writing at a place in it. Integers are big-endian.
//!
//! ```text
//! file    magic (8), id (4), random number (8), CRC-32 of these; then frames in any number
//! frame   CRC-32 of the next two fields (4), length of the value (8), name (32);
//!         then chunks: up to 128 KiB of the value, and their CRC-32 (4)
//! ```
//!
//! - A place is written once, perhaps over zeros, and never changed. Behind the last frame there
//!   may be zeros (`places`), and between two frames there may be bytes that belong to none: a
//!   frame that was not finished before a crash, or for which the disk had no space. Rows name
//!   values by their place; `log` finds the frames of the log.
//! - Every read of a chunk verifies its checksum.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Bytes of a value under one checksum. A read of a part of a value reads whole chunks.
pub(super) const CHUNK_BYTES: u64 = 128 << 10;
/// The length of the header of a file.
pub(super) const FILE_HEADER_BYTES: u64 = 24;
/// Begins every segment. The last byte is the version of the layout.
const MAGIC: &[u8; 8] = b"RSTSEG\0\x01";
pub(super) const NAME_BYTES: usize = 32;
/// The length of the header of a frame.
pub(super) const FRAME_HEADER_BYTES: u64 = FRAME_HEADER_LENGTH as u64;
const FRAME_HEADER_LENGTH: usize = 4 + 8 + NAME_BYTES;
pub(super) const CHECKSUM_BYTES: u64 = CHECKSUM_LENGTH as u64;
pub(super) const CHECKSUM_LENGTH: usize = 4;

/// What identifies a segment. The random number tells apart segments with the same id that a store
/// and its restored copy wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentId {
    pub(super) id: u32,
    pub(super) random: u64,
}

impl SegmentId {
    /// The name of the segment's file.
    pub(super) fn file_name(self) -> String {
        format!("{:08x}-{:016x}.segment", self.id, self.random)
    }

    /// Returns the segment whose file has this name; `None` if it is not the name of a segment.
    pub(super) fn of_file_name(name: &str) -> Option<Self> {
        let (id, random) = name.strip_suffix(".segment")?.split_once('-')?;
        let segment = Self {
            id: u32::from_str_radix(id, 16).ok()?,
            random: u64::from_str_radix(random, 16).ok()?,
        };
        // Only the form that `file_name` writes.
        (segment.file_name() == name).then_some(segment)
    }

    /// Encodes the header of the segment's file.
    pub(super) fn header(self) -> Vec<u8> {
        let mut header = Vec::with_capacity(24);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&self.id.to_be_bytes());
        header.extend_from_slice(&self.random.to_be_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_be_bytes());
        header
    }
}

/// The length of the frame of a value with this many bytes.
pub(super) fn frame_length(value: u64) -> u64 {
    FRAME_HEADER_BYTES + value + value.div_ceil(CHUNK_BYTES) * CHECKSUM_BYTES
}

pub(super) fn frame_header(name: &[u8; NAME_BYTES], length: u64) -> Vec<u8> {
    let mut rest = Vec::with_capacity(8 + NAME_BYTES);
    rest.extend_from_slice(&length.to_be_bytes());
    rest.extend_from_slice(name);
    [&crc32fast::hash(&rest).to_be_bytes()[..], &rest].concat()
}

/// Writes the frame of a value at a place in a file. Bytes that were written remain after an error.
///
/// The header is written by one call together with the first chunk, so that the system does not
/// write back the page with the header before the bytes behind it are in the page, too. After a
/// power failure such a frame could count as damaged.
///
/// # Errors
/// Those of the file.
pub(super) fn write_frame(
    file: &File,
    mut at: u64,
    name: &[u8; NAME_BYTES],
    value: &[u8],
) -> io::Result<()> {
    let mut buffer = frame_header(name, value.len() as u64);
    let mut chunks = value.chunks(usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX));
    if let Some(first) = chunks.next() {
        buffer.reserve_exact(first.len() + CHECKSUM_LENGTH);
        buffer.extend_from_slice(first);
        buffer.extend_from_slice(&crc32fast::hash(first).to_be_bytes());
    }
    for chunk in chunks {
        for bytes in [&buffer, chunk] {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        buffer.clear();
        buffer.extend_from_slice(&crc32fast::hash(chunk).to_be_bytes());
    }
    file.write_all_at(&buffer, at)
}

/// Appends to `out` the bytes in a range of a value of `length` bytes, whose frame begins at `at`.
/// A range that goes beyond the end of the value is cut there. The header of the frame is read only
/// with the first chunk. Its name is not compared: a caller that must know whether this is the
/// right message compares the hash of the bytes.
///
/// # Errors
/// `InvalidData` if a checksum is wrong, or if the header is read and is damaged or that of a value
/// of another length; `UnexpectedEof` if the file ends within the chunks that are read; those of
/// the file.
pub(super) fn read_frame(
    file: &File,
    at: u64,
    length: u64,
    range: &Range<u64>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let (begin, end) = (range.start, range.end.min(length));
    if begin >= end {
        return Ok(());
    }
    let first = begin / CHUNK_BYTES;
    let last = (end - 1) / CHUNK_BYTES;
    for number in first..=last {
        let chunk = number * CHUNK_BYTES..length.min((number + 1) * CHUNK_BYTES);
        let chunk_length = chunk.end - chunk.start;
        let place = at + FRAME_HEADER_BYTES + number * (CHUNK_BYTES + CHECKSUM_BYTES);
        // The header is read with the first chunk.
        let (place, header) = if number == 0 { (at, FRAME_HEADER_BYTES) } else { (place, 0) };
        let mut bytes = vec![0; as_usize(header + chunk_length + CHECKSUM_BYTES)?];
        file.read_exact_at(&mut bytes, place)?;
        let (found_header, rest) = bytes.split_at(as_usize(header)?);
        let (value, checksum) = rest.split_at(as_usize(chunk_length)?);
        if !found_header.is_empty()
            && parse_frame_header(found_header).is_none_or(|(found, _)| found != length)
        {
            return Err(damaged("no frame of this length is there"));
        }
        verify_chunk(value, checksum)?;
        let from = begin.max(chunk.start) - chunk.start;
        let to = end.min(chunk.end) - chunk.start;
        out.extend_from_slice(value.get(as_usize(from)?..as_usize(to)?).unwrap_or_default());
    }
    Ok(())
}

/// Compares a chunk with its checksum.
///
/// # Errors
/// `InvalidData` if they differ.
pub(super) fn verify_chunk(chunk: &[u8], checksum: &[u8]) -> io::Result<()> {
    if crc32fast::hash(chunk).to_be_bytes() == *checksum {
        Ok(())
    } else {
        Err(damaged("a checksum is wrong"))
    }
}

/// Reads the header of a frame: the length and the name of its value; `None` if no header is there.
///
/// # Errors
/// Those of the file.
pub(super) fn read_frame_header(
    file: &File,
    at: u64,
) -> io::Result<Option<(u64, [u8; NAME_BYTES])>> {
    let mut header = [0; FRAME_HEADER_LENGTH];
    file.read_exact_at(&mut header, at)?;
    Ok(parse_frame_header(&header))
}

fn parse_frame_header(header: &[u8]) -> Option<(u64, [u8; NAME_BYTES])> {
    let (checksum, rest) = header.split_first_chunk::<4>()?;
    let (length, name) = rest.split_first_chunk::<8>()?;
    let is_whole = crc32fast::hash(rest).to_be_bytes() == *checksum;
    is_whole.then_some((u64::from_be_bytes(*length), name.try_into().ok()?))
}

pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

fn as_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| damaged("a length does not fit into memory"))
}
