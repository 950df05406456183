//! The engine in memory: for tests, and for the inner loop without C++. Nothing survives it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{Batch, Engine, RowFn, RowReader, Statistics, Table};
use crate::store::error::Error;

type RowMap = BTreeMap<(Table, Vec<u8>), Arc<[u8]>>;

/// Ordered rows behind a lock; a snapshot is a shared copy that the next write replaces.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    state: RwLock<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    rows: Arc<RowMap>,
    statistics: Statistics,
}

impl MemoryEngine {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The rows of a table, for tests that look underneath.
    #[must_use]
    #[cfg(any(test, feature = "internals"))]
    pub fn rows(&self, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
        let rows = Arc::clone(&self.state.read().rows);
        let of_table = rows.iter().filter(|((of, _), _)| *of == table);
        of_table.map(|((_, key), value)| (key.clone(), value.to_vec())).collect()
    }
}

struct MemorySnapshot(Arc<RowMap>);

impl RowReader for MemorySnapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.get(&(table, key.to_vec())).map(|value| value.to_vec()))
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], reverse: bool, each: &mut RowFn<'_>) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let range = self.0.range((table, from.to_vec())..(table, to.to_vec()));
        let rows: Box<dyn Iterator<Item = _>> = if reverse { Box::new(range.rev()) } else { Box::new(range) };
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
        MemorySnapshot(Arc::clone(&self.state.read().rows))
    }
}

impl RowReader for MemoryEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.current().get(table, key)
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], reverse: bool, each: &mut RowFn<'_>) -> Result<(), Error> {
        self.current().scan(table, from, to, reverse, each)
    }
}

impl Engine for MemoryEngine {
    fn snapshot(&self) -> Box<dyn RowReader + '_> {
        Box::new(self.current())
    }

    fn write(&self, batches: &[Arc<Batch>]) -> Result<(), Error> {
        let mut state = self.state.write();
        let MemoryState { rows, statistics } = &mut *state;
        let mut over: BTreeMap<(Table, Vec<u8>), Option<&[u8]>> = BTreeMap::new();
        for batch in batches {
            for fence in &batch.asserts {
                let key = (fence.table, fence.key.clone());
                let found = over.get(&key).copied().unwrap_or_else(|| rows.get(&key).map(AsRef::as_ref));
                if found != fence.value.as_deref() {
                    return Err(Error::Conflict(format!("a row of {} changed meanwhile", fence.table.name())));
                }
            }
            over.extend(batch.puts.iter().map(|put| ((put.table, put.key.clone()), put.value.as_deref())));
        }
        // Copied only where somebody still looks at the rows as they were.
        let rows = Arc::make_mut(rows);
        for (key, value) in over {
            match value {
                Some(value) => {
                    statistics.log_octets += (key.1.len() + value.len()) as u64;
                    rows.insert(key, Arc::from(value));
                }
                None => drop(rows.remove(&key)),
            }
        }
        statistics.syncs += 1;
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        self.state.read().statistics
    }

    #[cfg(any(test, feature = "internals"))]
    fn usage(&self, table: Table) -> super::Usage {
        let rows = self.current().0;
        let octets = |(key, value): (&(Table, Vec<u8>), &Arc<[u8]>)| (key.1.len() + value.len()) as u64;
        let sizes: Vec<u64> = rows.iter().filter(|((of, _), _)| *of == table).map(octets).collect();
        super::Usage { rows: sizes.len() as u64, octets: sizes.iter().sum(), ..super::Usage::default() }
    }
}
