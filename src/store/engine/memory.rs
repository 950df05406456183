//! An engine that keeps its rows in memory, for tests and for builds without RocksDB.
//!
//! - Rows are lost with the last handle on them.
//! - Several handles on the same rows (`MemoryEngine::share`) stand for several processes on one
//!   database. While there are several, the engine says that it is shared.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use super::{Base, Batch, Engine, Put, RowFn, RowReader, StaleBatches, Statistics, Table};
use crate::model::AccountId;
use crate::store::error::Error;

type RowMap = BTreeMap<(Table, Vec<u8>), Arc<[u8]>>;

/// Ordered rows behind a lock. A snapshot shares the map of rows. A write copies the map first if a
/// snapshot still shares it.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    state: Arc<RwLock<MemoryState>>,
}

#[derive(Debug, Default)]
struct MemoryState {
    rows: Arc<RowMap>,
    versions: Arc<HashMap<AccountId, u64>>,
    statistics: Statistics,
}

impl MemoryEngine {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns another handle on the same rows.
    #[must_use]
    #[cfg(test)]
    pub fn share(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }

    /// The rows of a table, for tests that read below the store.
    #[must_use]
    #[cfg(any(test, feature = "internals"))]
    pub fn rows(&self, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
        let rows = Arc::clone(&self.state.read().rows);
        let of_table = rows.iter().filter(|((of, _), _)| *of == table);
        of_table.map(|((_, key), value)| (key.clone(), value.to_vec())).collect()
    }
}

struct MemorySnapshot {
    rows: Arc<RowMap>,
    versions: Arc<HashMap<AccountId, u64>>,
}

impl RowReader for MemorySnapshot {
    fn base(&self, account: AccountId) -> Result<u64, Error> {
        Ok(self.versions.get(&account).copied().unwrap_or_default())
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.rows.get(&(table, key.to_vec())).map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let range = self.rows.range((table, from.to_vec())..(table, to.to_vec()));
        let rows: Box<dyn Iterator<Item = _>> =
            if reverse { Box::new(range.rev()) } else { Box::new(range) };
        for ((_, key), value) in rows {
            if !each(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

impl MemoryEngine {
    fn current(&self) -> MemorySnapshot {
        let state = self.state.read();
        MemorySnapshot { rows: Arc::clone(&state.rows), versions: Arc::clone(&state.versions) }
    }
}

impl RowReader for MemoryEngine {
    fn base(&self, account: AccountId) -> Result<u64, Error> {
        self.current().base(account)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.current().get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        self.current().scan(table, from, to, reverse, each)
    }
}

impl Engine for MemoryEngine {
    fn snapshot(&self) -> Box<dyn RowReader + '_> {
        Box::new(self.current())
    }

    fn is_shared(&self) -> bool {
        Arc::strong_count(&self.state) > 1
    }

    fn write(&self, batches: &[Arc<Batch>]) -> Result<Vec<usize>, Error> {
        let mut state = self.state.write();
        let MemoryState { rows, versions, statistics } = &mut *state;
        let mut changed: BTreeMap<(Table, Vec<u8>), Option<&[u8]>> = BTreeMap::new();
        let mut raised: HashMap<AccountId, u64> = HashMap::new();
        let mut stale = StaleBatches::default();
        for (at, batch) in batches.iter().enumerate() {
            let is_as_asserted = |asserted: &Put| {
                let key = (asserted.table, asserted.key.clone());
                let found =
                    changed.get(&key).copied().unwrap_or_else(|| rows.get(&key).map(AsRef::as_ref));
                found == asserted.value.as_deref()
            };
            let is_newest = |base: &Base| {
                let version = raised.get(&base.account).or_else(|| versions.get(&base.account));
                version.copied().unwrap_or_default() == base.version
            };
            let is_current =
                batch.bases.iter().all(is_newest) && batch.asserts.iter().all(is_as_asserted);
            if stale.check(at, batch, !is_current) {
                continue;
            }
            changed.extend(
                batch.all_puts().map(|put| ((put.table, put.key.clone()), put.value.as_deref())),
            );
            raised.extend(batch.bases.iter().map(|base| (base.account, base.version + 1)));
        }
        // Copies the map only if a snapshot still refers to it.
        let rows = Arc::make_mut(rows);
        for (key, value) in changed {
            match value {
                Some(value) => {
                    statistics.log_bytes += (key.1.len() + value.len()) as u64;
                    rows.insert(key, Arc::from(value));
                }
                None => drop(rows.remove(&key)),
            }
        }
        Arc::make_mut(versions).extend(raised);
        statistics.syncs += 1;
        Ok(stale.positions())
    }

    fn statistics(&self) -> Statistics {
        self.state.read().statistics
    }

    #[cfg(any(test, feature = "internals"))]
    fn usage(&self, table: Table) -> super::Usage {
        let rows = self.current().rows;
        let size =
            |(key, value): (&(Table, Vec<u8>), &Arc<[u8]>)| (key.1.len() + value.len()) as u64;
        let sizes: Vec<u64> = rows.iter().filter(|((of, _), _)| *of == table).map(size).collect();
        super::Usage {
            rows: sizes.len() as u64,
            bytes: sizes.iter().sum(),
            ..super::Usage::default()
        }
    }
}
