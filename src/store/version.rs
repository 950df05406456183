//! The store's own facts: format, epoch, secrets. Written at the making, refused where a newer version wrote them.

use std::sync::Arc;

use super::engine::{Batch, Engine, Put, Table};
use super::error::Error;
use crate::model::Secrets;

/// The format that this version writes. 1: the first.
const FORMAT: u8 = 1;
const KEY: &[u8] = b"store";

/// What a store knows of itself.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) epoch: u64,
    pub(super) secrets: Secrets,
}

/// Reads the store's facts, or makes them in an empty store.
pub(super) fn open(engine: &dyn Engine) -> Result<Site, Error> {
    if let Some(site) = known(engine)? {
        return Ok(site);
    }
    let mut random = [0u8; 104];
    getrandom::fill(&mut random)
        .map_err(|error| Error::Open(format!("no randomness for the store's keys: {error}")))?;
    let mut value = vec![FORMAT];
    value.extend_from_slice(&random);
    let site = read(&value)?;
    let puts = vec![Put { table: Table::Site, key: KEY.to_vec(), value: Some(value) }];
    engine.write(&[Arc::new(Batch { puts, asserts: Vec::new() })])?;
    Ok(site)
}

/// Reads the store's facts; `None` in an empty store.
pub(super) fn known(engine: &dyn Engine) -> Result<Option<Site>, Error> {
    engine.get(Table::Site, KEY)?.map(|row| read(&row)).transpose()
}

fn read(row: &[u8]) -> Result<Site, Error> {
    let damaged = || Error::Open("the store's own row is damaged: restore the last backup".into());
    let (format, mut rest) = row.split_first().ok_or_else(damaged)?;
    if *format > FORMAT {
        return Err(Error::Open(format!(
            "the store has format {format}, and this version of Restante knows {FORMAT} at most: use a newer version"
        )));
    }
    Ok(Site {
        epoch: u64::from_be_bytes(take(&mut rest).ok_or_else(damaged)?),
        secrets: Secrets {
            threads: take(&mut rest).ok_or_else(damaged)?,
            told: take(&mut rest).ok_or_else(damaged)?,
            words: take(&mut rest).ok_or_else(damaged)?,
            ranks: take(&mut rest).ok_or_else(damaged)?,
        },
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*taken)
}
