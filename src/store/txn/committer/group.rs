//! The loop of the committer's thread: takes a group of queued commits, writes it, and redeems the
//! tickets.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CommitterState, QueuedBatches, QueuedCommit, WriteResult};
use crate::model::clock::Stopwatch;
use crate::store::engine::{Batch, Put};
use crate::store::error::Error;

/// Bytes of rows after which a group takes no further commit.
const MAX_GROUP_BYTES: usize = 32 << 20;

impl CommitterState {
    pub(super) fn run(&self) {
        while let Some(group) = self.take() {
            let len = group.len();
            self.write(group);
            self.end_write(len);
        }
    }

    /// Takes queued commits until they have `MAX_GROUP_BYTES`. Waits while the queue is empty or a
    /// caller writes; returns `None` if the store is closed and the queue is empty. The wait for a
    /// caller ends with `end_write`, or, if the caller panics, with `give_up`, which empties the
    /// queue.
    ///
    /// If the last group had several commits, as many are likely to come again, and the write waits
    /// for them, up to `Options::hold`.
    fn take(&self) -> Option<Vec<QueuedCommit>> {
        let mut queue = self.queue.lock();
        while queue.commits.is_empty() || queue.is_writing {
            if queue.closed && queue.commits.is_empty() {
                return None;
            }
            self.wake.wait(&mut queue);
        }
        queue.is_writing = true;
        queue.awaited = queue.last_len;
        let waited = Stopwatch::start();
        while queue.commits.len() < queue.awaited && !queue.closed {
            let left = self.group_delay.saturating_sub(waited.elapsed());
            if left.is_zero() || self.filled.wait_for(&mut queue, left).timed_out() {
                break;
            }
        }
        let (mut group, mut bytes) = (Vec::new(), 0);
        while bytes < MAX_GROUP_BYTES
            && let Some(commit) = queue.commits.pop_front()
        {
            bytes += commit.byte_len();
            group.push(commit);
        }
        Some(group)
    }

    /// Lets the next group be written, after one of `len` commits.
    pub(super) fn end_write(&self, len: usize) {
        self.in_flight.fetch_sub(len, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.is_writing = false;
        queue.last_len = len;
        if !queue.commits.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Writes a group of commits, and redeems their tickets.
    pub(super) fn write(&self, group: Vec<QueuedCommit>) {
        // In order, because a commit that fails makes later ones of its accounts fail, too.
        let mut current = Vec::with_capacity(group.len());
        for commit in group {
            if commit.is_current() {
                current.push(commit);
            } else {
                let accounts = commit.parts.iter().map(|part| part.account).collect();
                self.fail(commit, Ok(accounts));
            }
        }
        match self.write_batches(&current) {
            Ok(stale) => current.into_iter().for_each(|commit| self.redeem(commit, &stale)),
            Err(error) => {
                if !matches!(error, Error::Full | Error::Away(_) | Error::Poisoned(_)) {
                    self.poison.get_or_init(|| Error::Poisoned(error.to_string()));
                    tracing::error!(
                        %error,
                        "a write failed: the store takes no more writes until the service is \
                         restarted"
                    );
                }
                current.into_iter().for_each(|commit| self.fail(commit, Err(error.clone())));
            }
        }
    }

    /// Writes the batches of all commits, and returns the stale ones, of which nothing was written.
    fn write_batches(&self, commits: &[QueuedCommit]) -> Result<Vec<Arc<Batch>>, Error> {
        let mut batches: Vec<Arc<Batch>> =
            commits.iter().flat_map(QueuedCommit::batches).cloned().collect();
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

    /// Ends a commit whose group was written, apart from the batches in `stale`.
    fn redeem(&self, mut commit: QueuedCommit, stale: &[Arc<Batch>]) {
        let mut overtaken = Vec::new();
        for part in &mut commit.parts {
            let mut queued = part.queue.queued.lock();
            // A change that staged nothing is overtaken if a batch failed that it may have read.
            let is_stale = match &part.rows {
                Some((batch, _)) => stale.iter().any(|one| Arc::ptr_eq(one, batch)),
                None => queued.failures != part.failures,
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
        for (_, change) in commit.parts.iter_mut().filter_map(|part| part.rows.as_mut()) {
            change.remains = remains;
            listeners.iter().for_each(|listener| listener(change));
        }
        drop(commit.result.send(Ok(overtaken))); // the caller may have dropped its ticket
    }

    /// Ends a commit of which nothing was written.
    fn fail(&self, commit: QueuedCommit, result: WriteResult) {
        for part in &commit.parts {
            if let Some((batch, _)) = &part.rows {
                part.queue.queued.lock().forget(batch);
            }
        }
        drop(commit.result.send(result));
    }
}

impl QueuedBatches {
    /// Drops a batch that was not written, and the account's later ones, which were built on it.
    fn forget(&mut self, batch: &Arc<Batch>) {
        if let Some(at) = self.batches.iter().position(|one| Arc::ptr_eq(one, batch)) {
            self.failures += 1;
            self.batches.truncate(at);
        }
    }
}

impl QueuedCommit {
    /// The batches of the commit. A batch that several accounts share is returned once.
    fn batches(&self) -> impl Iterator<Item = &Arc<Batch>> {
        let mut last: Option<&Arc<Batch>> = None;
        let all = self.parts.iter().filter_map(|part| part.rows.as_ref().map(|(batch, _)| batch));
        all.filter(move |batch| last.replace(batch).is_none_or(|last| !Arc::ptr_eq(last, batch)))
    }

    /// Whether no batch on which the commit was built has failed.
    fn is_current(&self) -> bool {
        self.parts.iter().all(|part| part.queue.queued.lock().failures == part.failures)
    }

    /// Bytes of the keys and rows that the commit writes. Shared rows count once.
    fn byte_len(&self) -> usize {
        let shared = self.batches().find_map(|batch| batch.shared.as_deref()).into_iter().flatten();
        let puts = self.batches().flat_map(|batch| &batch.puts).chain(shared);
        puts.map(Put::byte_len).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;
    use crate::model::clock::FixedClock;
    use crate::model::{AccountId, UtcMillis};
    use crate::store::engine::memory::MemoryEngine;
    use crate::store::{Options, Store, Ticket};

    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method itself is not general over the lifetime of `Txn`"
    )]
    fn commit(store: &Store) -> Ticket {
        store.commit(AccountId::SITE, |txn| txn.next_account()).unwrap().1
    }

    #[test]
    fn store_is_closed_while_a_group_waits_for_more_commits() {
        let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
        let options = Options { hold: Duration::from_secs(60), ..Options::small() };
        let store = Store::open_engine(Arc::new(MemoryEngine::new()), &options, clock).unwrap();
        let queue = &store.0.committer.shared.queue;
        queue.lock().last_len = 2;
        let ticket = commit(&store);
        // The committer waits for a second commit.
        while !queue.lock().is_writing {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (done, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(store);
            done.send(ticket.wait_blocking())
        });
        assert_eq!(result.recv_timeout(Duration::from_secs(20)), Ok(Ok(())));
    }

    #[test]
    fn group_that_waits_is_written_as_soon_as_it_is_as_long_as_the_last_one() {
        let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
        let options = Options { hold: Duration::from_secs(60), ..Options::small() };
        let store = Store::open_engine(Arc::new(MemoryEngine::new()), &options, clock).unwrap();
        store.0.committer.shared.queue.lock().last_len = 2;
        let (first, second) = (commit(&store), commit(&store));
        let (done, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(first.wait_blocking().and(second.wait_blocking())));
        assert_eq!(result.recv_timeout(Duration::from_secs(20)), Ok(Ok(())));
    }

    #[test]
    fn queued_commit_is_written_if_the_store_is_closed_while_a_caller_writes() {
        let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
        let options = Options { writes_alone: true, ..Options::small() };
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open_engine(engine, &options, clock).unwrap();
        let (first, queued) = (Mutex::new(Some(store.clone())), Arc::new(Mutex::new(None)));
        let second = Arc::clone(&queued);
        // Runs on the thread of the first commit's caller, while that caller writes.
        store.on_change(move |_| {
            if let Some(store) = first.lock().take() {
                *second.lock() = Some(commit(&store));
                let state = &store.0.committer.shared;
                state.queue.lock().closed = true;
                state.wake.notify_all();
                // The committer's thread looks at the queue meanwhile.
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        commit(&store).wait_blocking().unwrap();
        let ticket: Ticket = queued.lock().take().unwrap();
        let (done, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(ticket.wait_blocking()));
        assert_eq!(result.recv_timeout(Duration::from_secs(20)), Ok(Ok(())));
    }
}
