//! Backups by RocksDB's own engine: files that do not change are kept once, whichever backups they
//! are of; blob files, too.
//!
//! Its check of a backup looks at sizes alone. The checksum that it wrote down for each file stands
//! in the text file `meta/ID`, a line each: `PATH crc32 NUMBER` (in truth CRC32C); here every file
//! is read and compared with that.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use rocksdb::Env;
use rocksdb::backup::{BackupEngine, BackupEngineInfo, BackupEngineOptions, RestoreOptions};

use super::{RocksEngine, io};
use crate::model::UtcMillis;
use crate::store::Options;
use crate::store::engine::Backup;
use crate::store::error::Error;

impl RocksEngine {
    /// One backup more; proved.
    pub(super) fn make_backup(&self, dir: &Path) -> Result<Backup, Error> {
        let mut engine = open(dir)?;
        // Flushed first: else each backup would hold the whole log once more.
        engine.create_new_backup_flush(&self.db, true).map_err(|error| io(&error))?;
        let made = engine.get_backup_info().iter().map(backup).max_by_key(|made| made.id);
        let made = made.ok_or_else(|| Error::Io("the backup was made, and is not there".into()))?;
        engine.verify_backup(made.id).map_err(|error| io(&error))?;
        Ok(made)
    }

    /// Lets go of all but the newest `keep`.
    pub(super) fn purge_backups(dir: &Path, keep: usize) -> Result<(), Error> {
        open(dir)?.purge_old_backups(keep).map_err(|error| io(&error))
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

pub(in crate::store) fn list(dir: &Path) -> Result<Vec<Backup>, Error> {
    let mut all: Vec<Backup> = open(dir)?.get_backup_info().iter().map(backup).collect();
    all.sort_by_key(|backup| backup.id);
    Ok(all)
}

pub(in crate::store) fn verify(dir: &Path, id: u32) -> Result<(), Error> {
    let broken = |what: String| Error::Io(format!("backup {id} is damaged: {what}: use another"));
    if !list(dir)?.iter().any(|backup| backup.id == id) {
        return Err(Error::NotFound("backup"));
    }
    open(dir)?.verify_backup(id).map_err(|error| broken(error.to_string()))?;
    let meta = fs::read_to_string(dir.join("meta").join(id.to_string()))
        .map_err(|error| broken(error.to_string()))?;
    let mut files = 0;
    for line in meta.lines() {
        let Some((path, sum)) = line.split_once(" crc32 ") else { continue };
        let sum: u32 = sum.trim().parse().map_err(|_| broken(format!("{path}: no checksum")))?;
        let found =
            checksum(&dir.join(path)).map_err(|error| broken(format!("{path}: {error}")))?;
        if found != sum {
            return Err(broken(format!("{path} is not as it was written")));
        }
        files += 1;
    }
    if files == 0 { Err(broken("it names no files".into())) } else { Ok(()) }
}

/// Makes an engine's directory of a backup, and opens it.
pub(in crate::store) fn restore(dir: &Path, id: u32, to: &Path) -> Result<RocksEngine, Error> {
    open(dir)?
        .restore_from_backup(to, to, &RestoreOptions::default(), id)
        .map_err(|error| io(&error))?;
    RocksEngine::open(to, &Options::small())
}

fn checksum(path: &Path) -> std::io::Result<u32> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0u8; 1 << 18];
    let mut sum = !0u32;
    loop {
        let read = file.read(&mut buffer)?;
        let Some(octets) = buffer.get(..read).filter(|octets| !octets.is_empty()) else {
            return Ok(!sum);
        };
        sum = crc32c(sum, octets);
    }
}

/// CRC-32C (Castagnoli), reflected, eight octets a step.
fn crc32c(mut sum: u32, octets: &[u8]) -> u32 {
    let (eights, rest) = octets.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_be_bytes(*eight).swap_bytes() ^ u64::from(sum);
        let at = |shift: u32| usize::from(word.wrapping_shr(shift).to_be_bytes()[7]);
        sum = TABLES
            .iter()
            .rev()
            .zip(0u32..)
            .fold(0, |sum, (table, octet)| sum ^ table[at(octet * 8)]);
    }
    rest.iter()
        .fold(sum, |sum, octet| (sum >> 8) ^ TABLES[0][usize::from(sum.to_be_bytes()[3] ^ octet)])
}

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut octet = 0u32;
    while octet < 256 {
        let (mut sum, mut bit) = (octet, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        tables[0][octet as usize] = sum;
        octet += 1;
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
        let sum = |octets: &[u8]| !crc32c(!0, octets);
        assert_eq!(sum(b"123456789"), 0xe306_9283);
        assert_eq!(sum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(sum(&[0xff; 32]), 0x62a8_ab43);
    }
}
