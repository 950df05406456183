//! The store's own row (format, epoch and secrets), and the marks of unfinished repairs, in the
//! table `site`.
//!
//! - The store's own row is one byte of format, 8 bytes of epoch (big-endian), then the secrets.
//! - A store of a newer format is not opened. One of an older format is raised to `FORMAT` before
//!   anything else is written, except the new epoch of a restored store.
//! - An account under repair has a mark, so that a repair that was killed is resumed.

use std::sync::Arc;

use super::engine::typed::{KeyRange, TypedRead as _};
use super::engine::{Batch, Engine, Put, RowReader};
use super::error::Error;
use super::row::{QueueMark, RepairScope};
use super::table::keys::{RepairsPrefix, SiteKey};
use super::table::{self, codec};
use crate::model::{AccountId, Secrets};

/// The format that this version writes. Each format after the first has something that programs of
/// the format before do not know:
/// - Format 2: newer versions of some rows, which programs of format 1 take for damage.
/// - Format 3: messages in segments.
/// - Format 4: rows in the journal.
/// - Format 5: Sieve scripts, and the keys for SCRAM in the rows of accounts.
/// - Format 6: compressed messages in segments.
/// - Format 7: the index of the words in rows of `email_tokens`.
const FORMAT: u8 = 7;
/// The length of the epoch (8 bytes) and the secrets (32 + 32 + 16 + 16).
const RANDOM_BYTES: usize = 104;

/// What the store's own row has besides the format.
#[derive(Debug, Clone)]
pub(super) struct StoreIdentity {
    pub(super) epoch: u64,
    pub(super) secrets: Secrets,
}

/// Reads the identity of the store, or creates it in an empty store. Raises an older format.
///
/// # Errors
/// `Open` if the format is newer, the row is damaged, or there is no randomness; those of the
/// engine.
pub(super) fn open(engine: &dyn Engine) -> Result<StoreIdentity, Error> {
    if let Some(row) = engine.bytes::<table::Site>(&SiteKey::Store)? {
        let identity = decode_identity(&row)?;
        match raise_format(engine) {
            // A store on a full disk must still open for reading. The committer raises the format
            // before it writes anything else.
            Ok(()) | Err(Error::Full) => return Ok(identity),
            Err(error) => return Err(error),
        }
    }
    let mut random = [0u8; RANDOM_BYTES];
    getrandom::fill(&mut random)
        .map_err(|error| Error::Open(format!("no randomness for the store's keys: {error}")))?;
    let mut value = vec![FORMAT];
    value.extend_from_slice(&random);
    let identity = decode_identity(&value)?;
    // The queue of a new store is empty, so it may send.
    let mark = QueueMark { epoch: identity.epoch, held: None };
    let puts = vec![
        Put::bytes::<table::Site>(&SiteKey::Queue, mark.encode()),
        Put::bytes::<table::Site>(&SiteKey::Store, value),
    ];
    let asserts =
        vec![Put { value: None, ..Put::bytes::<table::Site>(&SiteKey::Store, Vec::new()) }];
    let stale = engine.write(&[Arc::new(Batch { asserts, ..Batch::of(puts) })])?;
    // If the batch is stale, another process has created the store meanwhile.
    if stale.is_empty() { Ok(identity) } else { open(engine) }
}

/// Raises the format of an older store, so that older programs refuse to open it. Must be called
/// before this version writes anything else.
pub(super) fn raise_format(engine: &dyn Engine) -> Result<(), Error> {
    let Some(mut row) = engine.bytes::<table::Site>(&SiteKey::Store)? else { return Ok(()) };
    match row.first_mut() {
        Some(format) if *format < FORMAT => *format = FORMAT,
        _ => return Ok(()),
    }
    let puts = vec![Put::bytes::<table::Site>(&SiteKey::Store, row)];
    engine.write(&[Arc::new(Batch::of(puts))])?;
    // Programs that do not know the journal must find the format, too.
    engine.flush()
}

/// Reads the identity of the store; `None` in an empty store.
#[cfg(feature = "rocksdb")]
pub(super) fn read_identity(engine: &dyn Engine) -> Result<Option<StoreIdentity>, Error> {
    engine.bytes::<table::Site>(&SiteKey::Store)?.map(|row| decode_identity(&row)).transpose()
}

/// Draws a new epoch for a restored store, which must not be open anywhere else.
#[cfg(feature = "rocksdb")]
pub(super) fn renew_epoch(engine: &dyn Engine) -> Result<(), Error> {
    let damaged = || Error::Open("the store's own row is damaged".into());
    let mut row = engine.bytes::<table::Site>(&SiteKey::Store)?.ok_or_else(damaged)?;
    decode_identity(&row)?;
    let epoch = row.get_mut(1..9).ok_or_else(damaged)?;
    getrandom::fill(epoch)
        .map_err(|error| Error::Open(format!("no randomness for the store's epoch: {error}")))?;
    let puts = vec![Put::bytes::<table::Site>(&SiteKey::Store, row)];
    engine.write(&[Arc::new(Batch::of(puts))]).map(drop)
}

pub(super) fn repair_mark_key(account: AccountId) -> Vec<u8> {
    codec::Prefix::<SiteKey>::encode(&SiteKey::Repair(account))
}

/// Returns the accounts with an unfinished repair, ascending, and the scope of each repair.
pub(super) fn accounts_under_repair(
    read: &dyn RowReader,
) -> Result<Vec<(AccountId, RepairScope)>, Error> {
    let mut out = Vec::new();
    read.keys(&KeyRange::<table::Site>::under(&RepairsPrefix), |key, row| {
        if let SiteKey::Repair(account) = key {
            // A mark that cannot be read may be one of the widest scope.
            out.push((account, RepairScope::of_row(row).unwrap_or(RepairScope::Rebuild)));
        }
        Ok(true)
    })?;
    Ok(out)
}

fn decode_identity(row: &[u8]) -> Result<StoreIdentity, Error> {
    let damaged = || Error::Open("the store's own row is damaged: restore the last backup".into());
    let (format, mut rest) =
        row.split_first().filter(|(format, _)| **format > 0).ok_or_else(damaged)?;
    if *format > FORMAT {
        return Err(Error::Open(format!(
            "the store has format {format}, and this version of Restante reads formats up to \
             {FORMAT}: use a newer version"
        )));
    }
    Ok(StoreIdentity {
        epoch: u64::from_be_bytes(take_bytes(&mut rest).ok_or_else(damaged)?),
        secrets: Secrets {
            threads: take_bytes(&mut rest).ok_or_else(damaged)?,
            told: take_bytes(&mut rest).ok_or_else(damaged)?,
            words: take_bytes(&mut rest).ok_or_else(damaged)?,
            ranks: take_bytes(&mut rest).ok_or_else(damaged)?,
        },
    })
}

fn take_bytes<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::memory::MemoryEngine;

    #[test]
    fn store_of_format_0_is_damaged_and_one_of_a_newer_format_is_refused() {
        let engine = MemoryEngine::new();
        open(&engine).unwrap();
        let row = engine.bytes::<table::Site>(&SiteKey::Store).unwrap().unwrap();
        for (format, wanted) in [(0, "damaged"), (FORMAT + 1, "newer version")] {
            let mut row = row.clone();
            row[0] = format;
            let puts = vec![Put::bytes::<table::Site>(&SiteKey::Store, row)];
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            let error = open(&engine).unwrap_err().to_string();
            assert!(error.contains(wanted), "{format}: {error}");
        }
        for format in 1..=FORMAT {
            let mut row = row.clone();
            row[0] = format;
            let puts = vec![Put::bytes::<table::Site>(&SiteKey::Store, row)];
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            assert!(open(&engine).is_ok(), "{format}");
        }
    }
}
