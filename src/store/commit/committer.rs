//! One thread takes all that is queued, whoever queued it, writes it under one sync, and redeems the tickets.
//!
//! Rows are queued while the account's lock is held, so queue order is the order of change numbers. Where a write fails,
//! whatever was built on its rows must fail too: each account has an epoch that a failure moves, and rows that were built
//! in an older epoch are refused.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::oneshot;

use super::Txn;
use super::rank::Ranking;
use crate::model::{AccountId, BlobHash, Change, UtcMillis};
use crate::store::engine::typed::KeyRange;
use crate::store::engine::{Batch, Engine, Put};
use crate::store::error::Error;
use crate::store::table::codec::KeyPart as _;
use crate::store::table::{BlobRefs, Home, OutboxBlobs};

/// Octets that one synced write may hold.
const MAX_GROUP_BYTES: usize = 32 << 20;

/// Says when a commit is durable and visible.
#[derive(Debug)]
#[must_use = "nothing may be promised before the ticket is redeemed"]
pub struct Ticket(Option<oneshot::Receiver<Result<(), Error>>>);

impl Ticket {
    /// Waits for the disk.
    ///
    /// # Errors
    /// `Full`, `Overtaken`, `Poisoned` or what the engine said; then nothing of the commit was written.
    pub async fn wait(self) -> Result<(), Error> {
        match self.0 {
            Some(waiting) => waiting.await.unwrap_or_else(|_| Err(gone())),
            None => Ok(()),
        }
    }

    /// The same, for a thread that may sleep. Not to be called from an asynchronous task.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_blocking(self) -> Result<(), Error> {
        match self.0 {
            Some(waiting) => waiting.blocking_recv().unwrap_or_else(|_| Err(gone())),
            None => Ok(()),
        }
    }
}

fn gone() -> Error {
    Error::Io("the store was closed".into())
}

/// What one account has on the way to the disk.
#[derive(Debug, Default)]
struct AccountQueue {
    lock: Mutex<()>,
    queued: Mutex<QueuedBatches>,
}

#[derive(Debug, Default)]
struct QueuedBatches {
    epoch: u64,
    batches: VecDeque<Arc<Batch>>,
}

/// Several accounts' rows that are promised together.
struct CommitItem {
    shared: Option<Arc<Batch>>,
    parts: Vec<AccountBatch>,
    done: oneshot::Sender<Result<(), Error>>,
}

struct AccountBatch {
    account: AccountId,
    cell: Arc<AccountQueue>,
    epoch: u64,
    rows: Option<(Arc<Batch>, Change)>,
}

/// What became of each account's change, and the ticket that they share.
pub type CommitResults<T> = (Vec<(AccountId, Result<T, Error>)>, Ticket);

type ChangeListener = Box<dyn Fn(&Change) + Send + Sync>;

/// The queue, the thread that empties it, and the locks of the accounts.
pub(in crate::store) struct Committer {
    shared: Arc<CommitterState>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct CommitterState {
    engine: Arc<dyn Engine>,
    cells: RwLock<HashMap<AccountId, Arc<AccountQueue>>>,
    queue: Mutex<CommitQueue>,
    /// Commits that are queued or being written.
    in_flight: AtomicUsize,
    wake: Condvar,
    listeners: RwLock<Vec<ChangeListener>>,
    /// Accounts that are being repaired: nobody else writes them.
    marked: RwLock<BTreeSet<AccountId>>,
    poison: OnceLock<Error>,
    hold: Duration,
    ranking: Ranking,
}

#[derive(Default)]
struct CommitQueue {
    items: VecDeque<CommitItem>,
    closed: bool,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Committer").field("queued", &self.shared.queue.lock().items.len()).finish_non_exhaustive()
    }
}

impl Committer {
    pub(in crate::store) fn start(
        engine: Arc<dyn Engine>,
        hold: Duration,
        ranking: Ranking,
        marked: BTreeSet<AccountId>,
    ) -> Result<Self, Error> {
        let shared = Arc::new(CommitterState {
            engine,
            cells: RwLock::default(),
            queue: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            wake: Condvar::new(),
            listeners: RwLock::default(),
            marked: RwLock::new(marked),
            poison: OnceLock::new(),
            hold,
            ranking,
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("committer".into()).spawn(move || {
            // A panic must not leave sessions waiting for ever, nor the watchdog content.
            if std::panic::catch_unwind(AssertUnwindSafe(|| own.run())).is_err() {
                own.give_up();
            }
        });
        let thread = thread.map_err(|error| Error::Open(format!("cannot start the committer: {error}")))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(in crate::store) fn ranking(&self) -> Ranking {
        self.shared.ranking
    }

    pub(in crate::store) fn listen(&self, listener: ChangeListener) {
        self.shared.listeners.write().push(listener);
    }

    /// How many commits are on their way to the disk.
    pub(in crate::store) fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    pub(in crate::store) fn health(&self) -> Result<(), Error> {
        self.shared.poison.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// What `look` sees while no repair begins or ends; it is told which accounts are being repaired.
    pub(in crate::store) fn beside_repairs<T>(&self, look: impl FnOnce(&BTreeSet<AccountId>) -> T) -> T {
        look(&self.shared.marked.read())
    }

    /// The repair of an account is done: whoever wants may write it.
    pub(in crate::store) fn open_account(&self, account: AccountId) {
        self.shared.marked.write().remove(&account);
    }

    /// A repair's own commit; from the first of them on the account is marked.
    pub(in crate::store) fn commit_marked<T>(
        &self,
        now: UtcMillis,
        account: AccountId,
        change: impl FnOnce(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<(T, Ticket), Error> {
        let mut change = Some(change);
        let (mut results, ticket) =
            self.commit_as((true, false), now, &[account], Batch::default(), |txn| match change.take() {
                Some(change) => change(txn),
                None => Err(Error::NotFound("account")),
            });
        results.pop().map_or(Err(Error::NotFound("account")), |(_, result)| result.map(|value| (value, ticket)))
    }

    /// See `Store::commit_many`.
    pub(in crate::store) fn commit<T>(
        &self,
        now: UtcMillis,
        accounts: &[AccountId],
        shared: Batch,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        self.commit_as((false, false), now, accounts, shared, change)
    }

    /// See `Store::commit_together`.
    pub(in crate::store) fn commit_together<T>(
        &self,
        now: UtcMillis,
        accounts: &[AccountId],
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        self.commit_as((false, true), now, accounts, Batch::default(), change)
    }

    /// The locks are taken in ascending order and held until the rows are queued. With `all_or_none` nothing is written
    /// where any of the changes fails.
    fn commit_as<T>(
        &self,
        (repairs, all_or_none): (bool, bool),
        now: UtcMillis,
        accounts: &[AccountId],
        mut shared: Batch,
        mut change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let mut accounts = accounts.to_vec();
        accounts.sort_unstable();
        accounts.dedup();
        if let Err(error) = self.health() {
            return (accounts.into_iter().map(|account| (account, Err(error.clone()))).collect(), Ticket(None));
        }
        let cells: Vec<Arc<AccountQueue>> = accounts.iter().map(|account| self.shared.cell(*account)).collect();
        let guards: Vec<_> = cells.iter().map(|cell| cell.lock.lock()).collect();
        let mut results = Vec::with_capacity(accounts.len());
        let mut parts = Vec::with_capacity(accounts.len());
        let (mut writes, mut waits) = (false, false);
        for (account, cell) in accounts.iter().zip(&cells) {
            let (epoch, pending) = {
                let queued = cell.queued.lock();
                (queued.epoch, queued.batches.iter().cloned().collect::<Vec<_>>())
            };
            waits |= !pending.is_empty();
            let done = self.shared.may_write(*account, repairs).and_then(|()| {
                let (engine, ranking) = (&*self.shared.engine, self.shared.ranking);
                let mut txn = Txn::begin(*account, now, engine, ranking, pending, repairs)?;
                let value = change(&mut txn)?;
                Ok((value, txn.finish()))
            });
            results.push((
                *account,
                done.map(|(value, rows)| {
                    let rows = rows.map(|(batch, change)| (Arc::new(batch), change));
                    writes |= rows.is_some();
                    parts.push(AccountBatch { account: *account, cell: Arc::clone(cell), epoch, rows });
                    value
                }),
            ));
        }
        if all_or_none && results.iter().any(|(_, result)| result.is_err()) {
            return (results, Ticket(None));
        }
        // Even what stages nothing may have read rows that are still on their way: it waits for them.
        if parts.is_empty() || !(writes || waits) {
            return (results, Ticket(None));
        }
        let (done, waiting) = oneshot::channel();
        // A message that none of them refers to would be one that nobody ever collects.
        shared.puts.retain(|put| message_of(put).is_none_or(|blob| parts.iter().any(|part| part.refers_to(blob))));
        let shared_rows = (writes && !shared.puts.is_empty()).then(|| Arc::new(shared));
        for part in &parts {
            let mut queued = part.cell.queued.lock();
            if let Some((batch, _)) = &part.rows
                && queued.epoch == part.epoch
            {
                queued.batches.push_back(Arc::clone(batch));
            }
        }
        self.shared.push(CommitItem { shared: shared_rows, parts, done });
        drop(guards);
        (results, Ticket(Some(waiting)))
    }
}

impl AccountBatch {
    /// Whether its rows hold a reference to a message.
    fn refers_to(&self, blob: BlobHash) -> bool {
        self.rows.as_ref().is_some_and(|(batch, _)| {
            batch.sets_any(&KeyRange::<BlobRefs>::under(&(blob,)))
                || batch.sets_any(&KeyRange::<OutboxBlobs>::under(&(blob,)))
        })
    }
}

/// The message with whose hash the key of a row begins, in the tables of messages.
fn message_of(put: &Put) -> Option<BlobHash> {
    if put.table.home() == Home::Message { BlobHash::read(&mut put.key.as_slice()).ok() } else { None }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the committer ended by a panic");
        }
    }
}

impl CommitterState {
    fn cell(&self, account: AccountId) -> Arc<AccountQueue> {
        if let Some(cell) = self.cells.read().get(&account) {
            return Arc::clone(cell);
        }
        Arc::clone(self.cells.write().entry(account).or_default())
    }

    /// Under the account's lock: an account that is being repaired is the repair's alone.
    fn may_write(&self, account: AccountId, repairs: bool) -> Result<(), Error> {
        if repairs {
            self.marked.write().insert(account);
        } else if self.marked.read().contains(&account) {
            return Err(Error::Rebuilding(account));
        }
        Ok(())
    }

    /// Nobody is left to write what is queued: whoever waits is told so, for its end of the channel is dropped.
    fn give_up(&self) {
        self.poison.get_or_init(|| Error::Poisoned("the committer ended by a panic".into()));
        tracing::error!("the committer ended by a panic: the store takes no more until the service is restarted");
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.items.clear();
    }

    fn push(&self, item: CommitItem) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        queue.items.push_back(item);
        if queue.items.len() == 1 {
            self.wake.notify_one();
        }
    }

    fn run(&self) {
        let mut last = 0;
        while let Some(items) = self.take(last) {
            last = items.len();
            self.write(items);
            self.in_flight.fetch_sub(last, Ordering::Relaxed);
        }
    }

    /// All that is queued, up to a bound; waits where there is nothing, and ends when the store is closed and empty.
    ///
    /// Where several wrote at once the `last` time, more of them are on their way: they are waited for, since a write and
    /// its sync cost nearly the same for one as for twenty. Who writes alone waits for nobody.
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
                let error = Error::Overtaken(item.parts.first().map_or(AccountId::SITE, |part| part.account));
                self.fail(item, &error);
            }
        }
        match self.put(&current) {
            Ok(()) => current.into_iter().for_each(|item| self.redeem(item)),
            // One of them was overtaken by another writer: that is nothing to the others.
            Err(Error::Conflict(_)) if current.len() > 1 => {
                current.into_iter().for_each(|item| self.write(vec![item]));
            }
            Err(error) => {
                if !matches!(error, Error::Full | Error::Conflict(_) | Error::Poisoned(_)) {
                    self.poison.get_or_init(|| Error::Poisoned(error.to_string()));
                    tracing::error!(%error, "a write failed: the store takes no more until the service is restarted");
                }
                current.into_iter().for_each(|item| self.fail(item, &error));
            }
        }
    }

    fn put(&self, items: &[CommitItem]) -> Result<(), Error> {
        let batches: Vec<Arc<Batch>> = items.iter().flat_map(CommitItem::batches).cloned().collect();
        match self.poison.get() {
            Some(error) => Err(error.clone()),
            None if batches.is_empty() => Ok(()),
            None => self.engine.write(&batches),
        }
    }

    fn redeem(&self, mut item: CommitItem) {
        for part in &item.parts {
            if let Some((batch, _)) = &part.rows {
                part.cell.queued.lock().batches.retain(|queued| !Arc::ptr_eq(queued, batch));
            }
        }
        let (listeners, remains) = (self.listeners.read(), self.engine.has_remains());
        for (_, change) in item.parts.iter_mut().filter_map(|part| part.rows.as_mut()) {
            change.remains = remains;
            listeners.iter().for_each(|listener| listener(change));
        }
        drop(item.done.send(Ok(()))); // whoever asked may have gone away
    }

    /// Whatever these accounts queued behind these rows was built on what just failed.
    fn fail(&self, item: CommitItem, error: &Error) {
        for part in &item.parts {
            let Some((batch, _)) = &part.rows else { continue };
            let mut queued = part.cell.queued.lock();
            if let Some(at) = queued.batches.iter().position(|one| Arc::ptr_eq(one, batch)) {
                queued.epoch += 1;
                queued.batches.truncate(at);
            }
        }
        drop(item.done.send(Err(error.clone())));
    }
}

impl CommitItem {
    fn batches(&self) -> impl Iterator<Item = &Arc<Batch>> {
        self.shared.iter().chain(self.parts.iter().filter_map(|part| part.rows.as_ref().map(|(batch, _)| batch)))
    }

    fn is_current(&self) -> bool {
        self.parts.iter().all(|part| part.cell.queued.lock().epoch == part.epoch)
    }

    fn octets(&self) -> usize {
        let puts = self.batches().flat_map(|batch| &batch.puts);
        puts.map(|put| put.key.len() + put.value.as_ref().map_or(0, Vec::len)).sum()
    }
}
