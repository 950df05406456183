//! Makes the rows of a group of batches from those batches that are not stale, and writes them.

use std::sync::Arc;

use rocksdb::WriteBatch;

use super::RocksEngine;
use super::journal::{EarlierGroup, Overlap, add_put, encode_put};
use crate::store::engine::{Batch, Put, RowReader as _, StaleBatches};
use crate::store::error::Error;
use crate::store::table::Tuning;

impl RocksEngine {
    /// Does as `Engine::write_overlapping` with its number and `next`, and as `Engine::write`
    /// without them.
    pub(super) fn write_batches(
        &self,
        batches: &[Arc<Batch>],
        next: Option<(u64, &mut dyn FnMut())>,
    ) -> Result<Vec<usize>, Error> {
        let earlier = next.as_ref().and_then(|_| self.journal.earlier());
        // Insertions into a memtable are faster in the order of the keys: the place of each is near
        // that of the one before.
        let mut puts = sorted_puts(batches, true);
        let mut stale = self.stale_batches(batches, &puts, earlier.as_deref())?;
        if !stale.is_empty() {
            // The batch for which shared rows were listed may be stale. So they are listed for each
            // batch, and the batches are judged again.
            puts = sorted_puts(batches, false);
            stale = self.stale_batches(batches, &puts, earlier.as_deref())?;
            puts.retain(|(at, _)| !stale.contains(*at));
        }
        let (mut merged, mut rows) = (WriteBatch::default(), Vec::new());
        let mut followers = puts.iter().skip(1);
        for (_, put) in &puts {
            let following = followers.next();
            // If a key is written twice, the last value counts.
            if following.is_some_and(|(_, other)| other.table == put.table && other.key == put.key)
            {
                continue;
            }
            encode_put(put, &mut rows)?;
            add_put(&self.db, &mut merged, put)?;
        }
        if !rows.is_empty() {
            let overlap = next.map(|(number, next)| Overlap {
                group: EarlierGroup::new(number, batches, &stale),
                next,
            });
            self.write_journaled(merged, &rows, overlap)?;
        }
        let deleted = puts.iter().map(|(_, put)| *put).filter(|put| put.value.is_none());
        self.deletions.note(deleted.filter(|put| put.table.has_tuning(Tuning::NewestFirst)));
        Ok(stale.positions())
    }

    /// Finds the batches whose assertions fail, and the later ones that are stale because of them.
    /// An assertion of a batch sees the rows of the batches before it that are not stale, and those
    /// of the group before. `puts` are the rows of all batches as `sorted_puts` sorts them.
    fn stale_batches(
        &self,
        batches: &[Arc<Batch>],
        puts: &[(usize, &Put)],
        earlier: Option<&EarlierGroup>,
    ) -> Result<StaleBatches, Error> {
        let mut stale = earlier.map_or_else(StaleBatches::default, |earlier| {
            StaleBatches::behind(earlier.stale_accounts.clone())
        });
        for (at, batch) in batches.iter().enumerate() {
            let mut is_overtaken = false;
            for asserted in &batch.asserts {
                let end = puts.partition_point(|(of, put)| {
                    (put.table, &put.key, *of).cmp(&(asserted.table, &asserted.key, at)).is_lt()
                });
                let mut before =
                    puts.get(..end).unwrap_or_default().iter().rev().take_while(|(_, put)| {
                        put.table == asserted.table && put.key == asserted.key
                    });
                is_overtaken |= match before.find(|(of, _)| !stale.contains(*of)) {
                    Some((_, put)) => put.value != asserted.value,
                    None => {
                        let written =
                            earlier.and_then(|earlier| earlier.get(asserted.table, &asserted.key));
                        match written {
                            Some(value) => value != asserted.value,
                            None => self.get(asserted.table, &asserted.key)? != asserted.value,
                        }
                    }
                };
            }
            stale.check(at, batch, is_overtaken);
        }
        Ok(stale)
    }
}

/// Returns the rows of all batches, each with the position of its batch, sorted by table, key and
/// position. With `shared_once`, rows that adjacent batches share are listed only for the first of
/// these batches.
fn sorted_puts(batches: &[Arc<Batch>], shared_once: bool) -> Vec<(usize, &Put)> {
    let mut puts: Vec<(usize, &Put)> = Vec::new();
    let mut last_shared: Option<&Arc<Vec<Put>>> = None;
    for (at, batch) in batches.iter().enumerate() {
        // The shared rows come first in `all_puts`.
        let skipped = match (&batch.shared, last_shared) {
            (Some(shared), Some(last)) if shared_once && Arc::ptr_eq(shared, last) => shared.len(),
            _ => 0,
        };
        puts.extend(batch.all_puts().skip(skipped).map(|put| (at, put)));
        last_shared = batch.shared.as_ref();
    }
    puts.sort_by(|(_, one), (_, other)| (one.table, &one.key).cmp(&(other.table, &other.key)));
    puts
}
