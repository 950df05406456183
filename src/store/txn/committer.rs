//! One thread takes all queued batches, writes them under one sync, and redeems their tickets.
//!
//! Rows are queued while the account's lock is held, so queue order is the order of change numbers.
//! Where a write fails, whatever was built on its rows must fail too: each account has an epoch
//! that a failure moves, and rows that were built in an older epoch are refused.
//!
//! Where the engine is shared with other processes, a change that one of them overtook is run
//! again, on what is there now; so a commit waits for its write before it returns, and its ticket
//! is redeemed already.

mod group;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::oneshot;

use crate::model::{AccountId, BlobHash, Change, UtcMillis};
use crate::store::engine::typed::KeyRange;
use crate::store::engine::{Batch, Engine, Put};
use crate::store::error::Error;
use crate::store::listing::rank::Ranking;
use crate::store::table::codec::KeyPart as _;
use crate::store::table::{BlobRefs, Home, OutboxBlobs};
use crate::store::txn::Txn;
use crate::store::{Options, Thresholds};

/// How often a change is run again that another process overtook.
const MAX_REPEATS: u32 = 8;

/// What became of a commit's write: the accounts whose change was overtaken, and of which nothing
/// was written.
type WriteResult = Result<Vec<AccountId>, Error>;

/// Says when a commit is durable and visible.
#[derive(Debug)]
#[must_use = "nothing may be promised before the ticket is redeemed"]
pub struct Ticket(TicketState);

#[derive(Debug)]
enum TicketState {
    Ended(WriteResult),
    Waiting(oneshot::Receiver<WriteResult>),
}

impl Ticket {
    fn ended(result: WriteResult) -> Self {
        Self(TicketState::Ended(result))
    }

    /// Waits for the disk.
    ///
    /// # Errors
    /// `Full`, `Away`, `Overtaken`, `Poisoned` or what the engine said; then nothing of the commit
    /// was written, or with `Overtaken` nothing of at least one of its accounts.
    pub async fn wait(self) -> Result<(), Error> {
        all_written(self.overtaken_accounts().await)
    }

    /// Waits for the disk, and returns the accounts of which nothing was written, for another
    /// change of theirs came first or an earlier one failed. The changes of the others are written.
    ///
    /// # Errors
    /// `Full`, `Away`, `Poisoned` or what the engine said; then nothing of the commit was written,
    /// unless other processes share the engine: there an earlier try may have written some of the
    /// accounts.
    pub async fn overtaken_accounts(self) -> WriteResult {
        match self.0 {
            TicketState::Ended(result) => result,
            TicketState::Waiting(waiting) => waiting.await.unwrap_or_else(|_| Err(gone())),
        }
    }

    /// As `wait`, for a thread that may sleep. Not to be called from an asynchronous task.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_blocking(self) -> Result<(), Error> {
        all_written(self.overtaken_accounts_blocking())
    }

    /// As `overtaken`, for a thread that may sleep.
    fn overtaken_accounts_blocking(self) -> WriteResult {
        match self.0 {
            TicketState::Ended(result) => result,
            TicketState::Waiting(waiting) => {
                waiting.blocking_recv().unwrap_or_else(|_| Err(gone()))
            }
        }
    }
}

fn all_written(result: WriteResult) -> Result<(), Error> {
    result?.first().map_or(Ok(()), |account| Err(Error::Overtaken(*account)))
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
    parts: Vec<AccountBatch>,
    done: oneshot::Sender<WriteResult>,
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
    repeat_pause: Duration,
    ranking: Ranking,
    thresholds: Thresholds,
}

/// Who commits, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitKind {
    /// Each account for itself.
    Usual,
    /// All accounts by one write, or none.
    Together,
    /// A repair: it may write the account that it has marked.
    Repair,
}

#[derive(Default)]
struct CommitQueue {
    items: VecDeque<CommitItem>,
    closed: bool,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Committer")
            .field("queued", &self.shared.queue.lock().items.len())
            .finish_non_exhaustive()
    }
}

impl Committer {
    pub(in crate::store) fn start(
        engine: Arc<dyn Engine>,
        options: &Options,
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
            hold: options.hold,
            repeat_pause: options.repeat_pause,
            ranking,
            thresholds: options.thresholds,
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("committer".into()).spawn(move || {
            // A panic must not leave sessions waiting for ever, nor the watchdog content.
            if std::panic::catch_unwind(AssertUnwindSafe(|| own.run())).is_err() {
                own.give_up();
            }
        });
        let thread =
            thread.map_err(|error| Error::Open(format!("cannot start the committer: {error}")))?;
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

    /// What `look` sees while no repair begins or ends; it is told which accounts are being
    /// repaired.
    pub(in crate::store) fn with_accounts_under_repair<T>(
        &self,
        look: impl FnOnce(&BTreeSet<AccountId>) -> T,
    ) -> T {
        look(&self.shared.marked.read())
    }

    /// Ends the repair of an account: other commits may write it again.
    pub(in crate::store) fn end_repair(&self, account: AccountId) {
        self.shared.marked.write().remove(&account);
    }

    /// A repair's own commit; from the first of them on the account is marked.
    pub(in crate::store) fn commit_repair<T>(
        &self,
        now: UtcMillis,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<(T, Ticket), Error> {
        let (mut results, ticket) =
            self.commit_as(CommitKind::Repair, now, &[account], Vec::new(), change);
        results.pop().map_or(Err(Error::NotFound("account")), |(_, result)| {
            result.map(|value| (value, ticket))
        })
    }

    /// See `Store::commit_many`.
    pub(in crate::store) fn commit<T>(
        &self,
        now: UtcMillis,
        accounts: &[AccountId],
        message: Vec<Put>,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        self.commit_as(CommitKind::Usual, now, accounts, message, change)
    }

    /// See `Store::commit_together`.
    pub(in crate::store) fn commit_together<T>(
        &self,
        now: UtcMillis,
        accounts: &[AccountId],
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        self.commit_as(CommitKind::Together, now, accounts, Vec::new(), change)
    }

    /// Commits, and where the engine is shared waits for the write and repeats what was overtaken.
    fn commit_as<T>(
        &self,
        kind: CommitKind,
        now: UtcMillis,
        accounts: &[AccountId],
        message: Vec<Put>,
        mut change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let mut accounts = accounts.to_vec();
        accounts.sort_unstable();
        accounts.dedup();
        if let Err(error) = self.health() {
            let refused = accounts.into_iter().map(|account| (account, Err(error.clone())));
            return (refused.collect(), Ticket::ended(Ok(Vec::new())));
        }
        let message = (!message.is_empty()).then(|| Arc::new(message));
        if !self.shared.engine.is_shared() {
            return self.commit_once(kind, now, &accounts, message.as_ref(), &mut change);
        }
        let mut results = BTreeMap::new();
        let (mut left, mut repeats) = (accounts.clone(), 0);
        let written = loop {
            let (found, ticket) = self.commit_once(kind, now, &left, message.as_ref(), &mut change);
            results.extend(found);
            match ticket.overtaken_accounts_blocking() {
                Ok(overtaken) if overtaken.is_empty() => break Ok(Vec::new()),
                Ok(_) if kind == CommitKind::Together => left.clone_from(&accounts),
                Ok(overtaken) => left = overtaken,
                Err(error) => break Err(error),
            }
            if repeats == MAX_REPEATS {
                results.extend(
                    left.into_iter().map(|account| (account, Err(Error::Overtaken(account)))),
                );
                break Ok(Vec::new());
            }
            repeats += 1;
            self.shared.pause();
        };
        (results.into_iter().collect(), Ticket::ended(written))
    }

    /// The locks are taken in ascending order and held until the rows are queued.
    fn commit_once<T>(
        &self,
        kind: CommitKind,
        now: UtcMillis,
        accounts: &[AccountId],
        message: Option<&Arc<Vec<Put>>>,
        change: &mut impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let is_repair = kind == CommitKind::Repair;
        let cells: Vec<Arc<AccountQueue>> =
            accounts.iter().map(|account| self.shared.cell(*account)).collect();
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
            let done = self.shared.may_write(*account, is_repair).and_then(|()| {
                let (engine, ranking, thresholds) =
                    (&*self.shared.engine, self.shared.ranking, self.shared.thresholds);
                let mut txn =
                    Txn::begin(*account, now, engine, ranking, thresholds, pending, is_repair)?;
                let value = change(&mut txn)?;
                Ok((value, txn.finish()))
            });
            results.push((
                *account,
                done.map(|(value, rows)| {
                    let rows = rows
                        .map(|(batch, change)| (Arc::new(with_message(batch, message)), change));
                    writes |= rows.is_some();
                    parts.push(AccountBatch {
                        account: *account,
                        cell: Arc::clone(cell),
                        epoch,
                        rows,
                    });
                    value
                }),
            ));
        }
        if kind == CommitKind::Together {
            if results.iter().any(|(_, result)| result.is_err()) {
                return (results, Ticket::ended(Ok(Vec::new())));
            }
            merge(&mut parts);
        }
        // Even what stages nothing may have read rows that are still on their way: it waits for
        // them.
        if parts.is_empty() || !(writes || waits) {
            return (results, Ticket::ended(Ok(Vec::new())));
        }
        let (done, waiting) = oneshot::channel();
        for part in &parts {
            let mut queued = part.cell.queued.lock();
            if let Some((batch, _)) = &part.rows
                && queued.epoch == part.epoch
            {
                queued.batches.push_back(Arc::clone(batch));
            }
        }
        self.shared.push(CommitItem { parts, done });
        drop(guards);
        (results, Ticket(TicketState::Waiting(waiting)))
    }
}

/// Adds the rows of a message to a batch that refers to it. A message to which nothing refers would
/// be one that nobody ever collects.
fn with_message(mut batch: Batch, message: Option<&Arc<Vec<Put>>>) -> Batch {
    let refers = |blob| {
        batch.sets_any(&KeyRange::<BlobRefs>::under(&(blob,)))
            || batch.sets_any(&KeyRange::<OutboxBlobs>::under(&(blob,)))
    };
    batch.shared =
        message.filter(|rows| rows.first().and_then(message_of).is_some_and(refers)).cloned();
    batch
}

/// Makes one batch of all: it is written whole or not at all, also where one of its accounts was
/// overtaken.
fn merge(parts: &mut [AccountBatch]) {
    let batches: Vec<Arc<Batch>> = parts
        .iter()
        .filter_map(|part| part.rows.as_ref())
        .map(|(batch, _)| Arc::clone(batch))
        .collect();
    if batches.len() < 2 {
        return;
    }
    let mut whole = Batch::default();
    let mut puts = BTreeMap::new();
    for batch in &batches {
        whole.bases.extend(&batch.bases);
        whole.asserts.extend(batch.asserts.iter().cloned());
        puts.extend(batch.puts.iter().map(|put| ((put.table, put.key.clone()), put.value.clone())));
    }
    whole.puts = puts.into_iter().map(|((table, key), value)| Put { table, key, value }).collect();
    let whole = Arc::new(whole);
    for (batch, _) in parts.iter_mut().filter_map(|part| part.rows.as_mut()) {
        *batch = Arc::clone(&whole);
    }
}

/// The message with whose hash the key of a row begins, in the tables of messages.
fn message_of(put: &Put) -> Option<BlobHash> {
    if put.table.home() == Home::Message {
        BlobHash::read(&mut put.key.as_slice()).ok()
    } else {
        None
    }
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

    /// Drops the queue when the committing thread has ended. Callers that wait get an error,
    /// because their channels close.
    fn give_up(&self) {
        self.poison.get_or_init(|| Error::Poisoned("the committer ended by a panic".into()));
        tracing::error!(
            "the committer ended by a panic: the store takes no more until the service is restarted"
        );
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

    /// Waits for a random while before a change is run again, so that processes overtaken by the
    /// same write differ.
    fn pause(&self) {
        let mut dice = [0u8; 1];
        // Without randomness it is the whole pause.
        let share = getrandom::fill(&mut dice).map_or(u32::from(u8::MAX), |()| u32::from(dice[0]));
        std::thread::sleep(self.repeat_pause * (share + 1) / 256);
    }
}
