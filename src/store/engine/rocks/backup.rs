//! Makes, verifies and restores backups: the tables with RocksDB's backup engine, the segments
//! beside them.
//!
//! - A backup whose segments were not all copied is not whole, as after a kill. It is not listed,
//!   and the next backup deletes it and takes its number. One that lacks a file of the tables is
//!   not listed either: RocksDB leaves it out.
//! - Files that do not change, blob files too, are stored once for all backups that have them.
//! - RocksDB verifies only the sizes of files. `verify` also reads every file and compares its
//!   checksum with the text file `meta/ID`, which has a line `PATH crc32 NUMBER` for each file. The
//!   number is a CRC-32C in spite of the name.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use rocksdb::Env;
use rocksdb::backup::{BackupEngine, BackupEngineInfo, BackupEngineOptions, RestoreOptions};

use super::{RocksEngine, io};
use crate::model::UtcMillis;
use crate::store::Options;
use crate::store::engine::Backup;
use crate::store::engine::segments::{Segments, backup as segments};
use crate::store::error::Error;

impl RocksEngine {
    /// Adds a backup to the directory, and has RocksDB verify the sizes of its files.
    pub(super) fn make_backup(&self, dir: &Path) -> Result<Backup, Error> {
        delete_interrupted(dir)?;
        let mut engine = open(dir)?;
        let earlier: Vec<u32> =
            engine.get_backup_info().iter().map(|earlier| earlier.backup_id).collect();
        segments::prepare(dir, &ids_in_meta(dir)?)?;
        // The segments are copied after the rows that name them, so none is deleted in between.
        let _held = self.segments.prevent_deletion();
        // RocksDB copies only files, so the rows in memory are flushed first.
        engine.create_new_backup_flush(&self.db, true).map_err(|error| io(&error))?;
        let newest = engine.get_backup_info().iter().map(backup).max_by_key(|backup| backup.id);
        let newest = newest.ok_or_else(|| Error::Io("the new backup is missing".into()))?;
        engine.verify_backup(newest.id).map_err(|error| io(&error))?;
        // Every value that a row of the backup names lies before these ends. They are read between
        // two writes, so that no frame is copied without the one that cancels it.
        let ends = self.between_writes(|| self.segments.ends());
        Segments::back_up(dir, newest.id, &earlier, &ends)?;
        Ok(with_segments(dir, newest))
    }

    /// Deletes the backups that are older than the newest `keep` whole ones.
    pub(super) fn purge_backups(dir: &Path, keep: usize) -> Result<(), Error> {
        let mut engine = open(dir)?;
        let mut ids: Vec<u32> = engine.get_backup_info().iter().map(|one| one.backup_id).collect();
        ids.sort_unstable();
        let mut whole = 0;
        let mut kept = ids.iter().rev().copied().take_while(|id| {
            let wanted = whole < keep;
            whole += usize::from(segments::is_whole(dir, *id));
            wanted
        });
        let kept: Vec<u32> = kept.by_ref().collect();
        engine.purge_old_backups(kept.len()).map_err(|error| io(&error))?;
        segments::keep_only(dir, &kept)?;
        // RocksDB does not delete a backup that lacks a file.
        let oldest = kept.iter().min();
        for id in list_incomplete(dir)?.iter().filter(|id| oldest.is_some_and(|kept| *id < kept)) {
            delete_meta(dir, *id)?;
        }
        Ok(())
    }
}

/// Deletes the newest backup if it was interrupted before all its segments were copied, so that it
/// cannot be restored. No other can have been: the next backup begins with this.
fn delete_interrupted(dir: &Path) -> Result<(), Error> {
    match ids_in_meta(dir)?.last() {
        Some(newest) if segments::was_interrupted(dir, *newest)? => delete_meta(dir, *newest),
        _ => Ok(()),
    }
}

/// Deletes RocksDB's file in `meta` of a backup that is not whole. The next backup deletes the
/// rest.
fn delete_meta(dir: &Path, id: u32) -> Result<(), Error> {
    let meta = dir.join("meta").join(id.to_string());
    fs::remove_file(&meta).map_err(|error| Error::Io(format!("{}: {error}", meta.display())))
}

/// Adds the segments of a backup to its size.
fn with_segments(dir: &Path, backup: Backup) -> Backup {
    let (bytes, files) = segments::size(dir, backup.id);
    Backup {
        bytes: backup.bytes.saturating_add(bytes),
        files: backup.files.saturating_add(files),
        ..backup
    }
}

fn open(dir: &Path) -> Result<BackupEngine, Error> {
    let env = Env::new().map_err(|error| io(&error))?;
    let options = BackupEngineOptions::new(dir).map_err(|error| io(&error))?;
    BackupEngine::open(&options, &env).map_err(|error| io(&error))
}

fn backup(info: &BackupEngineInfo) -> Backup {
    let at = UtcMillis(info.timestamp.saturating_mul(1000));
    Backup { id: info.backup_id, at, bytes: info.size, files: info.num_files, written: 0 }
}

/// Returns the backups in a directory, oldest first, without those that are not listed.
pub(in crate::store) fn list(dir: &Path) -> Result<Vec<Backup>, Error> {
    let all = open(dir)?.get_backup_info();
    let whole = all.iter().map(backup).filter(|backup| segments::is_whole(dir, backup.id));
    let mut all: Vec<Backup> = whole.map(|backup| with_segments(dir, backup)).collect();
    all.sort_by_key(|backup| backup.id);
    Ok(all)
}

/// Returns the ids of the backups that `list` leaves out, in order.
pub(in crate::store) fn list_incomplete(dir: &Path) -> Result<Vec<u32>, Error> {
    let whole: Vec<u32> = list(dir)?.iter().map(|backup| backup.id).collect();
    let mut ids = ids_in_meta(dir)?;
    ids.retain(|id| !whole.contains(id));
    Ok(ids)
}

/// Returns the ids of all backups whose tables RocksDB has finished, in order: each has a file in
/// `meta`.
fn ids_in_meta(dir: &Path) -> Result<Vec<u32>, Error> {
    let meta = dir.join("meta");
    let failed = |error: std::io::Error| Error::Io(format!("{}: {error}", meta.display()));
    let entries = match fs::read_dir(&meta) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        ids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Verifies that every file of a backup is there and has its checksum. `NotFound` if there is no
/// such backup; `Io` if it is damaged.
pub(in crate::store) fn verify(dir: &Path, id: u32) -> Result<(), Error> {
    let damaged = |what: String| Error::Io(format!("backup {id} is damaged: {what}: use another"));
    if !list(dir)?.iter().any(|backup| backup.id == id) {
        return Err(match list_incomplete(dir)?.contains(&id) {
            true => damaged("it lacks a file, was interrupted or is being made".into()),
            false => Error::NotFound("backup"),
        });
    }
    open(dir)?.verify_backup(id).map_err(|error| damaged(error.to_string()))?;
    let meta = fs::read_to_string(dir.join("meta").join(id.to_string()))
        .map_err(|error| damaged(error.to_string()))?;
    let mut files = 0;
    for line in meta.lines() {
        let Some((path, wanted)) = line.split_once(" crc32 ") else { continue };
        let wanted: u32 =
            wanted.trim().parse().map_err(|_| damaged(format!("{path}: no checksum")))?;
        let found =
            checksum(&dir.join(path)).map_err(|error| damaged(format!("{path}: {error}")))?;
        if found != wanted {
            return Err(damaged(format!("{path} is not as it was written")));
        }
        files += 1;
    }
    if files == 0 {
        return Err(damaged("it names no files".into()));
    }
    segments::verify(dir, id).map_err(damaged)
}

/// Restores a backup to an empty directory, and opens the engine there, so that the caller can draw
/// a new epoch. It has small buffers, because nothing else is written to it. The caller has
/// verified the backup.
pub(in crate::store) fn restore(dir: &Path, id: u32, to: &Path) -> Result<RocksEngine, Error> {
    open(dir)?
        .restore_from_backup(to, to, &RestoreOptions::default(), id)
        .map_err(|error| io(&error))?;
    segments::restore(dir, id, to)?;
    RocksEngine::open(to, &Options::small())
}

/// Returns the CRC-32C of a file.
fn checksum(path: &Path) -> std::io::Result<u32> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0u8; 1 << 18];
    let mut sum = !0u32;
    loop {
        let read = file.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(!sum);
        };
        sum = crc32c(sum, bytes);
    }
}

/// Continues a CRC-32C (Castagnoli, reflected), eight bytes at a time. The first `sum` is `!0`, and
/// the checksum is the complement of the last.
fn crc32c(mut sum: u32, bytes: &[u8]) -> u32 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let word = u64::from_be_bytes(*chunk).swap_bytes() ^ u64::from(sum);
        let at = |shift: u32| usize::from(word.wrapping_shr(shift).to_be_bytes()[7]);
        sum =
            TABLES.iter().rev().zip(0u32..).fold(0, |sum, (table, byte)| sum ^ table[at(byte * 8)]);
    }
    rest.iter()
        .fold(sum, |sum, byte| (sum >> 8) ^ TABLES[0][usize::from(sum.to_be_bytes()[3] ^ byte)])
}

/// `TABLES[n][byte]` is what a byte adds to the sum when `n` more bytes follow in its chunk. They
/// are computed from the polynomial of CRC-32C, whose reflected form is 0x82f63b78.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0u32;
    while byte < 256 {
        let (mut sum, mut bit) = (byte, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte as usize] = sum;
        byte += 1;
    }
    let mut at = 0;
    while at < 256 {
        let mut table = 1;
        while table < 8 {
            let below = tables[table - 1][at];
            tables[table][at] = (below >> 8) ^ tables[0][(below & 0xff) as usize];
            table += 1;
        }
        at += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn the_checksum_is_that_of_rfc_3720() {
        let sum = |bytes: &[u8]| !crc32c(!0, bytes);
        // The usual check value of CRC-32C, and two examples of RFC 3720 B.4.
        assert_eq!(sum(b"123456789"), 0xe306_9283);
        assert_eq!(sum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(sum(&[0xff; 32]), 0x62a8_ab43);
    }
}
