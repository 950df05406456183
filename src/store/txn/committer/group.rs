//! The committer's thread: takes what is queued, writes it as one group, and tells what became of
//! it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CommitItem, CommitterState, QueuedBatches, WriteResult};
use crate::store::engine::Batch;
use crate::store::error::Error;

/// Bytes that one synced write may hold.
const MAX_GROUP_BYTES: usize = 32 << 20;

impl CommitterState {
    pub(super) fn run(&self) {
        let mut last = 0;
        while let Some(items) = self.take(last) {
            last = items.len();
            self.write(items);
            self.in_flight.fetch_sub(last, Ordering::Relaxed);
        }
    }

    /// All that is queued, up to a bound; waits where there is nothing, and ends when the store is
    /// closed and empty.
    ///
    /// Where several wrote at once the `last` time, more of them are on their way: they are waited
    /// for, since a write and its sync cost nearly the same for one as for twenty. Who writes alone
    /// waits for nobody.
    fn take(&self, last: usize) -> Option<Vec<CommitItem>> {
        let mut queue = self.queue.lock();
        while queue.items.is_empty() {
            if queue.closed {
                return None;
            }
            self.wake.wait(&mut queue);
        }
        if !self.hold.is_zero() && !queue.closed && last.max(queue.items.len()) > 1 {
            drop(queue);
            std::thread::sleep(self.hold);
            queue = self.queue.lock();
        }
        let (mut taken, mut octets) = (Vec::new(), 0);
        while octets < MAX_GROUP_BYTES
            && let Some(item) = queue.items.pop_front()
        {
            octets += item.octets();
            taken.push(item);
        }
        Some(taken)
    }

    fn write(&self, items: Vec<CommitItem>) {
        // In order: what fails makes stale what was built on it, also in this group.
        let mut current = Vec::with_capacity(items.len());
        for item in items {
            if item.is_current() {
                current.push(item);
            } else {
                let accounts = item.parts.iter().map(|part| part.account).collect();
                self.fail(item, Ok(accounts));
            }
        }
        match self.put(&current) {
            Ok(stale) => current.into_iter().for_each(|item| self.redeem(item, &stale)),
            Err(error) => {
                if !matches!(error, Error::Full | Error::Away(_) | Error::Poisoned(_)) {
                    self.poison.get_or_init(|| Error::Poisoned(error.to_string()));
                    tracing::error!(%error, "a write failed: the store takes no more until the service is restarted");
                }
                current.into_iter().for_each(|item| self.fail(item, Err(error.clone())));
            }
        }
    }

    /// Writes the batches of all items; returns those that were stale.
    fn put(&self, items: &[CommitItem]) -> Result<Vec<Arc<Batch>>, Error> {
        let mut batches: Vec<Arc<Batch>> =
            items.iter().flat_map(CommitItem::batches).cloned().collect();
        let stale = match self.poison.get() {
            Some(error) => return Err(error.clone()),
            None if batches.is_empty() => return Ok(Vec::new()),
            None => self.engine.write(&batches)?,
        };
        let mut at = 0;
        batches.retain(|_| {
            at += 1;
            stale.binary_search(&(at - 1)).is_ok()
        });
        Ok(batches)
    }

    /// Tells what became of an item of a group that was written, all but the `stale` batches.
    fn redeem(&self, mut item: CommitItem, stale: &[Arc<Batch>]) {
        let mut overtaken = Vec::new();
        for part in &mut item.parts {
            let mut queued = part.cell.queued.lock();
            let is_stale = match &part.rows {
                Some((batch, _)) => stale.iter().any(|one| Arc::ptr_eq(one, batch)),
                None => queued.epoch != part.epoch,
            };
            match &part.rows {
                Some((batch, _)) if is_stale => queued.forget(batch),
                Some((batch, _)) => queued.batches.retain(|queued| !Arc::ptr_eq(queued, batch)),
                None => {}
            }
            drop(queued);
            if is_stale {
                part.rows = None;
                overtaken.push(part.account);
            }
        }
        let (listeners, remains) = (self.listeners.read(), self.engine.has_remains());
        for (_, change) in item.parts.iter_mut().filter_map(|part| part.rows.as_mut()) {
            change.remains = remains;
            listeners.iter().for_each(|listener| listener(change));
        }
        drop(item.done.send(Ok(overtaken))); // the caller may have dropped its ticket
    }

    /// Tells that nothing of an item was written.
    fn fail(&self, item: CommitItem, result: WriteResult) {
        for part in &item.parts {
            if let Some((batch, _)) = &part.rows {
                part.cell.queued.lock().forget(batch);
            }
        }
        drop(item.done.send(result));
    }
}

impl QueuedBatches {
    /// A batch was not written: whatever the account queued behind it was built on it.
    fn forget(&mut self, batch: &Arc<Batch>) {
        if let Some(at) = self.batches.iter().position(|one| Arc::ptr_eq(one, batch)) {
            self.epoch += 1;
            self.batches.truncate(at);
        }
    }
}

impl CommitItem {
    /// Its batches, each once.
    fn batches(&self) -> impl Iterator<Item = &Arc<Batch>> {
        let mut last: Option<&Arc<Batch>> = None;
        let all = self.parts.iter().filter_map(|part| part.rows.as_ref().map(|(batch, _)| batch));
        all.filter(move |batch| last.replace(batch).is_none_or(|last| !Arc::ptr_eq(last, batch)))
    }

    fn is_current(&self) -> bool {
        self.parts.iter().all(|part| part.cell.queued.lock().epoch == part.epoch)
    }

    fn octets(&self) -> usize {
        let shared = self.batches().find_map(|batch| batch.shared.as_deref()).into_iter().flatten();
        let puts = self.batches().flat_map(|batch| &batch.puts).chain(shared);
        puts.map(|put| put.key.len() + put.value.as_ref().map_or(0, Vec::len)).sum()
    }
}
