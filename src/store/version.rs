//! The store's own facts: format, epoch, secrets. Written at the making, refused where a newer
//! version wrote them. Beside them, which accounts are being repaired: so that a repair that was
//! killed is not forgotten.

use std::sync::Arc;

use super::engine::typed::{KeyRange, TypedRead as _};
use super::engine::{Batch, Engine, Put, RowReader};
use super::error::Error;
use super::row::{QueueMark, RepairScope};
use super::table::keys::{Repairs, SiteKey};
use super::table::{self, codec};
use crate::model::{AccountId, Secrets};

/// The format that this version writes.
///
/// 1: the first. 2: rows of accounts, messages and the search index have versions that the programs
/// of format 1 take for damage, which their `repair` would "mend" by a loss.
const FORMAT: u8 = 2;

/// What a store knows of itself.
#[derive(Debug, Clone)]
pub(super) struct StoreIdentity {
    pub(super) epoch: u64,
    pub(super) secrets: Secrets,
}

/// Reads the store's facts, or makes them in an empty store.
pub(super) fn open(engine: &dyn Engine) -> Result<StoreIdentity, Error> {
    if let Some(row) = engine.bytes::<table::Site>(&SiteKey::Store)? {
        let site = read(&row)?;
        raise(engine, row)?;
        return Ok(site);
    }
    let mut random = [0u8; 104];
    getrandom::fill(&mut random)
        .map_err(|error| Error::Open(format!("no randomness for the store's keys: {error}")))?;
    let mut value = vec![FORMAT];
    value.extend_from_slice(&random);
    let site = read(&value)?;
    // Its queue is empty and whole.
    let mark = QueueMark { epoch: site.epoch, held: None };
    let puts = vec![
        Put::bytes::<table::Site>(&SiteKey::Queue, mark.encode()),
        Put::bytes::<table::Site>(&SiteKey::Store, value),
    ];
    let asserts =
        vec![Put { value: None, ..Put::bytes::<table::Site>(&SiteKey::Store, Vec::new()) }];
    let stale = engine.write(&[Arc::new(Batch { asserts, ..Batch::of(puts) })])?;
    // Another process made it meanwhile.
    if stale.is_empty() { Ok(site) } else { open(engine) }
}

/// Says in a store of an earlier format that this version has written in it, before it does:
/// earlier programs refuse to open it from then on.
fn raise(engine: &dyn Engine, mut row: Vec<u8>) -> Result<(), Error> {
    match row.first_mut() {
        Some(format) if *format < FORMAT => *format = FORMAT,
        _ => return Ok(()),
    }
    let puts = vec![Put::bytes::<table::Site>(&SiteKey::Store, row)];
    match engine.write(&[Arc::new(Batch::of(puts))]) {
        // A full disk keeps nobody from reading mail: the next opening says it.
        Err(Error::Full) => Ok(()),
        done => done.map(drop),
    }
}

/// Reads the store's facts; `None` in an empty store.
#[cfg(feature = "rocksdb")]
pub(super) fn read_identity(engine: &dyn Engine) -> Result<Option<StoreIdentity>, Error> {
    engine.bytes::<table::Site>(&SiteKey::Store)?.map(|row| read(&row)).transpose()
}

/// Another epoch: states of the other line of history are refused from now on. The store must be
/// open nowhere.
#[cfg(feature = "rocksdb")]
pub(super) fn renew_epoch(engine: &dyn Engine) -> Result<(), Error> {
    let damaged = || Error::Open("the store's own row is damaged".into());
    let mut row = engine.bytes::<table::Site>(&SiteKey::Store)?.ok_or_else(damaged)?;
    read(&row)?;
    let epoch = row.get_mut(1..9).ok_or_else(damaged)?;
    getrandom::fill(epoch)
        .map_err(|error| Error::Open(format!("no randomness for the store's epoch: {error}")))?;
    let puts = vec![Put::bytes::<table::Site>(&SiteKey::Store, row)];
    engine.write(&[Arc::new(Batch::of(puts))]).map(drop)
}

/// The row that says that an account is being repaired.
pub(super) fn repair_mark_key(account: AccountId) -> Vec<u8> {
    codec::Prefix::<SiteKey>::encode(&SiteKey::Repair(account))
}

/// The accounts that are being repaired.
pub(super) fn accounts_under_repair(
    read: &dyn RowReader,
) -> Result<Vec<(AccountId, RepairScope)>, Error> {
    let mut out = Vec::new();
    read.keys(&KeyRange::<table::Site>::under(&Repairs), |key, row| {
        if let SiteKey::Repair(account) = key {
            // A row that cannot be read may have said the most that there is.
            out.push((account, RepairScope::of_row(row).unwrap_or(RepairScope::Rebuild)));
        }
        Ok(true)
    })?;
    Ok(out)
}

fn read(row: &[u8]) -> Result<StoreIdentity, Error> {
    let damaged = || Error::Open("the store's own row is damaged: restore the last backup".into());
    let (format, mut rest) = row.split_first().ok_or_else(damaged)?;
    if *format > FORMAT {
        return Err(Error::Open(format!(
            "the store has format {format}, and this version of Restante knows {FORMAT} at most: use a newer version"
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
    let (taken, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*taken)
}
