//! An engine that lets one store at a time run, up to its next call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::STORES;
use crate::model::AccountId;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::segments::Segments;
use crate::store::engine::{Batch, Engine, RowFn, RowReader, Statistics, Table, Usage};
use crate::store::error::Error;
use crate::store::tests::actors::SeededRng;

pub(super) struct Baton {
    state: Mutex<BatonState>,
    moved: Condvar,
}

struct BatonState {
    rng: SeededRng,
    /// The number of stores that have not left.
    alive: usize,
    waiting: BTreeSet<usize>,
    /// The store that runs; `None` until all that are alive wait.
    turn: Option<usize>,
}

impl Baton {
    pub(super) fn new(seed: u64) -> Self {
        let state = BatonState {
            rng: SeededRng::of(seed),
            alive: STORES,
            waiting: BTreeSet::new(),
            turn: None,
        };
        Self { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Passes the turn on, and waits for the next turn of this store.
    fn pass(&self, who: usize) {
        let mut state = self.state.lock();
        state.waiting.insert(who);
        self.give(&mut state, who);
        while state.turn != Some(who) {
            self.moved.wait(&mut state);
        }
    }

    /// Takes a store out of the round, also after a panic.
    fn leave(&self, who: usize) {
        let mut state = self.state.lock();
        state.alive -= 1;
        self.give(&mut state, who);
    }

    /// Ends the turn of `who`. Once all stores that are alive wait, gives the turn to one of them.
    fn give(&self, state: &mut BatonState, who: usize) {
        state.turn = state.turn.filter(|turn| *turn != who);
        if state.turn.is_none() && !state.waiting.is_empty() && state.waiting.len() == state.alive {
            let at = state.rng.below(state.alive);
            let next = state.waiting.iter().nth(at).copied().unwrap();
            state.waiting.remove(&next);
            state.turn = Some(next);
            self.moved.notify_all();
        }
    }
}

/// One store's handle on the engine. Reads, writes and [`Engine::snapshot`] wait for the store's
/// turn. Reads of a snapshot do not.
pub(super) struct BatonEngine {
    pub(super) inner: MemoryEngine,
    pub(super) baton: Arc<Baton>,
    pub(super) who: usize,
    /// Counts the batches of all handles, stale ones included.
    pub(super) writes: Arc<AtomicU64>,
    /// Counts the batches of this handle that were stale.
    pub(super) stale: AtomicU64,
    /// The number of this handle's last write of each account.
    pub(super) written: Mutex<BTreeMap<AccountId, u64>>,
}

impl std::fmt::Debug for BatonEngine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("BatonEngine").field("who", &self.who).finish_non_exhaustive()
    }
}

impl RowReader for BatonEngine {
    fn segments(&self) -> Option<&Segments> {
        self.inner.segments()
    }

    fn base(&self, account: AccountId) -> Result<u64, Error> {
        self.baton.pass(self.who);
        self.inner.base(account)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.baton.pass(self.who);
        self.inner.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        self.baton.pass(self.who);
        self.inner.scan(table, from, to, reverse, each)
    }
}

impl Engine for BatonEngine {
    fn snapshot(&self) -> Box<dyn RowReader + '_> {
        self.baton.pass(self.who);
        self.inner.snapshot()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn write(&self, batches: &[Arc<Batch>]) -> Result<Vec<usize>, Error> {
        self.baton.pass(self.who);
        let stale = self.inner.write(batches)?;
        self.stale.fetch_add(stale.len() as u64, Ordering::SeqCst);
        for (at, batch) in batches.iter().enumerate() {
            let number = self.writes.fetch_add(1, Ordering::SeqCst);
            if !stale.contains(&at) {
                self.written.lock().extend(batch.bases.iter().map(|base| (base.account, number)));
            }
        }
        Ok(stale)
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn usage(&self, table: Table) -> Usage {
        self.inner.usage(table)
    }
}

/// Takes a store out of the round when dropped, also by a panic.
pub(super) struct LeaveGuard(pub(super) Arc<Baton>, pub(super) usize);

impl Drop for LeaveGuard {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}
