//! Copies segments to a directory of backups, beside RocksDB's files, and back.
//!
//! - `segments/NAME` in the directory is a copy of the beginning of a segment, at least up to the
//!   greatest length that a backup has of it. Bytes in a segment never change, so a later backup
//!   adds only what is new.
//! - `segments/ID.list` belongs to the backup ID, and has a line `NAME LENGTH CHECKSUM` for each
//!   segment: the length up to which the backup has it, and the CRC-32 of these bytes. The list is
//!   written last, so a backup without a list is not whole.
//! - `segments/older` lists the backups that were there when the directory was made: an earlier
//!   version made them, and they have no segments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::MutexGuard;

use super::file::SegmentId;
use super::places::Segment;
use super::{DIRECTORY, Segments, sync_directory};
use crate::store::error::Error;

/// Bytes that are copied at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// The file that lists the backups without segments.
const OLDER: &str = "older";

/// What a backup has of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CopiedPart {
    length: u64,
    checksum: u32,
}

type Parts = BTreeMap<SegmentId, CopiedPart>;

impl Segments {
    /// Prevents the deletion of segments until the result is dropped.
    pub(in crate::store::engine) fn prevent_deletion(&self) -> MutexGuard<'_, ()> {
        self.deletion.lock()
    }

    /// The segments as they are now, after everything before their ends is written.
    pub(in crate::store::engine) fn ends(&self) -> SegmentEnds {
        let segments: Vec<_> = self.state.read().segments.values().cloned().collect();
        let end = |one: Arc<Segment>| (one.settled_end(), one);
        SegmentEnds(segments.into_iter().map(end).collect())
    }

    /// Adds the segments up to these ends to the backup `id`. `earlier` are all other backups in
    /// the directory, which was made by `prepare`.
    ///
    /// # Errors
    /// `Full` if the disk is full, `Io`. Then the backup is not whole.
    pub(in crate::store::engine) fn back_up(
        backups: &Path,
        id: u32,
        earlier: &[u32],
        ends: &SegmentEnds,
    ) -> Result<(), Error> {
        copy_to(backups, id, earlier, ends).map_err(|error| failed(&error))
    }
}

/// Up to which place a backup copies each segment.
pub(in crate::store::engine) struct SegmentEnds(Vec<(u64, Arc<Segment>)>);

fn copy_to(backups: &Path, id: u32, earlier: &[u32], ends: &SegmentEnds) -> io::Result<()> {
    let dir = backups.join(DIRECTORY);
    let mut copied = Parts::new();
    for other in earlier {
        // If several have a part of a segment, the last one counts, which is the newest.
        copied.extend(read_list(&dir, *other)?.into_iter().flatten());
    }
    let mut parts = Parts::new();
    for (length, segment) in &ends.0 {
        let part = copy(&segment.path, &dir, segment.id, *length, copied.get(&segment.id))?;
        parts.insert(segment.id, part);
    }
    write_list(&dir, id, &parts)
}

fn failed(error: &io::Error) -> Error {
    Error::of_write("segments of the backup", error)
}

/// Makes the directory of the segments if there is none. Then a version without segments made the
/// backups `earlier`, which are all that exist, and `older` lists them. Must be called before the
/// tables are backed up, so that a backup that is interrupted later does not count as whole.
///
/// # Errors
/// `Full` if the disk is full, `Io`.
pub(in crate::store::engine) fn prepare(backups: &Path, earlier: &[u32]) -> Result<(), Error> {
    make_directory(backups, earlier).map_err(|error| failed(&error))
}

fn make_directory(backups: &Path, earlier: &[u32]) -> io::Result<()> {
    let dir = backups.join(DIRECTORY);
    if dir.try_exists()? {
        return Ok(());
    }
    let begun = backups.join(format!("{DIRECTORY}.begun"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&begun)?;
    let older: String = earlier.iter().map(|id| format!("{id}\n")).collect();
    write_whole(&begun.join(OLDER), older.as_bytes())?;
    sync_directory(&begun)?;
    fs::rename(&begun, &dir)?;
    sync_directory(backups)
}

/// Copies the first `length` bytes of a segment, except those that an earlier backup has.
fn copy(
    path: &Path,
    dir: &Path,
    id: SegmentId,
    length: u64,
    earlier: Option<&CopiedPart>,
) -> io::Result<CopiedPart> {
    let target = dir.join(id.file_name());
    if let Some(whole) = earlier.filter(|part| part.length == length)
        && fs::metadata(&target).is_ok_and(|found| found.len() >= length)
    {
        return Ok(*whole);
    }
    let to = File::options().write(true).create(true).truncate(false).mode(0o600).open(target)?;
    let present = to.metadata()?.len();
    let usable = |part: &&CopiedPart| part.length <= present.min(length);
    let begin = earlier.filter(usable).copied().unwrap_or(CopiedPart { length: 0, checksum: 0 });
    let from = File::open(path)?;
    let mut hasher = crc32fast::Hasher::new_with_initial_len(begin.checksum, begin.length);
    let end = copy_range(&from, Some(&to), begin.length..length, &mut hasher)?;
    to.sync_all()?;
    Ok(CopiedPart { length: end, checksum: hasher.finalize() })
}

/// Reads a range of a file into a checksum, and writes it to the same place in the file `to`.
/// Returns where the range ends, or where `from` ends if that comes before: the write of the last
/// value of a segment may have failed.
fn copy_range(
    from: &File,
    to: Option<&File>,
    range: std::ops::Range<u64>,
    hasher: &mut crc32fast::Hasher,
) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = range.start;
    while at < range.end {
        let wanted =
            usize::try_from(range.end - at).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
        let buffer = buffer.get_mut(..wanted).unwrap_or_default();
        let read = from.read_at(buffer, at)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        hasher.update(bytes);
        if let Some(to) = to {
            to.write_all_at(bytes, at)?;
        }
        at += read as u64;
    }
    Ok(at)
}

fn list_path(dir: &Path, id: u32) -> PathBuf {
    dir.join(format!("{id}.list"))
}

fn write_list(dir: &Path, id: u32, parts: &Parts) -> io::Result<()> {
    let text: String = parts
        .iter()
        .map(|(id, part)| format!("{} {} {:08x}\n", id.file_name(), part.length, part.checksum))
        .collect();
    let (path, begun) = (list_path(dir, id), dir.join(format!("{id}.list.begun")));
    write_whole(&begun, text.as_bytes())?;
    fs::rename(begun, path)?;
    sync_directory(dir)
}

/// Writes a file with these bytes durably, in place of an earlier one.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Returns what a backup has of each segment; `None` if it has no list.
fn read_list(dir: &Path, id: u32) -> io::Result<Option<Parts>> {
    let text = match fs::read_to_string(list_path(dir, id)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let line = |line: &str| {
        let mut words = line.split(' ');
        let segment = SegmentId::of_file_name(words.next()?)?;
        let length = words.next()?.parse().ok()?;
        let checksum = u32::from_str_radix(words.next()?, 16).ok()?;
        words.next().is_none().then_some((segment, CopiedPart { length, checksum }))
    };
    let parts: Option<Parts> = text.lines().map(line).collect();
    let damaged = || io::Error::new(ErrorKind::InvalidData, format!("{id}.list is damaged"));
    parts.map(Some).ok_or_else(damaged)
}

/// Whether a backup is whole: it has its list of segments, or an earlier version made it. Not, if
/// that cannot be read.
pub(in crate::store::engine) fn is_whole(backups: &Path, id: u32) -> bool {
    was_interrupted(backups, id).is_ok_and(|interrupted| !interrupted)
}

/// Whether the copy of the segments of a backup was begun, or was about to begin, and not finished.
///
/// # Errors
/// `Io`, also if `older` is missing: then the directory is not the one that `prepare` made.
pub(in crate::store::engine) fn was_interrupted(backups: &Path, id: u32) -> Result<bool, Error> {
    let dir = backups.join(DIRECTORY);
    let lacks_list = || -> io::Result<bool> {
        if !dir.try_exists()? || list_path(&dir, id).try_exists()? {
            return Ok(false);
        }
        let older = fs::read_to_string(dir.join(OLDER))?;
        Ok(!older.lines().any(|line| line.parse() == Ok(id)))
    };
    lacks_list().map_err(|error| failed(&error))
}

/// Returns the bytes and the number of the segments of a backup: 0 if it has no readable list.
pub(in crate::store::engine) fn size(backups: &Path, id: u32) -> (u64, u32) {
    let parts = read_list(&backups.join(DIRECTORY), id).ok().flatten().unwrap_or_default();
    let bytes = parts.values().map(|part| part.length).sum();
    (bytes, u32::try_from(parts.len()).unwrap_or(u32::MAX))
}

/// Deletes all files in the directory of the segments, except `older`, the lists of these backups,
/// and the segments that these lists name.
///
/// # Errors
/// `Io`.
pub(in crate::store::engine) fn keep_only(backups: &Path, kept: &[u32]) -> Result<(), Error> {
    let dir = backups.join(DIRECTORY);
    let delete = || -> io::Result<()> {
        let mut files = BTreeSet::from([OLDER.to_owned()]);
        for id in kept {
            if let Some(parts) = read_list(&dir, *id)? {
                files.insert(format!("{id}.list"));
                files.extend(parts.keys().map(|segment| segment.file_name()));
            }
        }
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| files.contains(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    if dir.is_dir() { delete().map_err(|error| failed(&error)) } else { Ok(()) }
}

/// Verifies the segments of a backup: each is there and has its checksum.
///
/// # Errors
/// What is wrong, as text.
pub(in crate::store::engine) fn verify(backups: &Path, id: u32) -> Result<(), String> {
    let dir = backups.join(DIRECTORY);
    let parts = read_list(&dir, id).map_err(|error| error.to_string())?.unwrap_or_default();
    for (segment, part) in parts {
        let name = segment.file_name();
        check_part(&dir.join(&name), None, part)
            .map_err(|error| format!("{DIRECTORY}/{name}: {error}"))?;
    }
    Ok(())
}

/// Copies the segments of a backup to the directory of an engine, which has no segments yet.
///
/// # Errors
/// `Full` if the disk is full; `Io`, also if a segment does not have its checksum.
pub(in crate::store::engine) fn restore(
    backups: &Path,
    id: u32,
    engine: &Path,
) -> Result<(), Error> {
    let dir = backups.join(DIRECTORY);
    let restore = || -> io::Result<()> {
        let Some(parts) = read_list(&dir, id)? else { return Ok(()) };
        let to = engine.join(DIRECTORY);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&to)?;
        for (segment, part) in parts {
            let name = segment.file_name();
            let file =
                File::options().write(true).create_new(true).mode(0o600).open(to.join(&name))?;
            check_part(&dir.join(&name), Some(&file), part)?;
            file.sync_all()?;
        }
        sync_directory(&to)
    };
    restore().map_err(|error| failed(&error))
}

/// Verifies the checksum of what a backup has of a segment. Copies that to the file `to`, if there
/// is one.
fn check_part(path: &Path, to: Option<&File>, part: CopiedPart) -> io::Result<()> {
    let mut hasher = crc32fast::Hasher::new();
    let end = copy_range(&File::open(path)?, to, 0..part.length, &mut hasher)?;
    if end == part.length && hasher.finalize() == part.checksum {
        Ok(())
    } else {
        Err(io::Error::new(ErrorKind::InvalidData, "it is not as it was written"))
    }
}
