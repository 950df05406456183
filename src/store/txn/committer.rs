//! The committer: one thread that writes the queued batches in groups, each with one sync, and
//! redeems their tickets. A commit that comes alone is written by its caller (`alone`).
//!
//! - A batch is queued under the account's lock, so the batches of an account are queued in the
//!   order of their change numbers.
//! - If the write of a batch fails, every batch that was built on its rows must fail, too. Each
//!   account counts its failures, and a batch that was built before a failure is refused.
//! - `Full` and `Away` fail one group of commits. Any other failed write poisons the store.
//! - If other processes share the engine, each commit waits for its write before it returns.

mod alone;
mod group;
mod queue;
mod shared_rows;
mod ticket;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::oneshot;

use self::queue::CommitQueue;
pub(in crate::store) use self::shared_rows::SharedRows;
pub use self::ticket::Ticket;
use self::ticket::WriteResult;
use crate::model::{AccountId, BlobHash, Change, UtcMillis};
use crate::store::engine::segments::SegmentGuard;
use crate::store::engine::typed::KeyRange;
use crate::store::engine::{Batch, Engine, Put};
use crate::store::error::Error;
use crate::store::listing::rank::Ranking;
use crate::store::table::codec::KeyPart as _;
use crate::store::table::{BlobRefs, Home, OutboxBlobs};
use crate::store::txn::Txn;
use crate::store::{Options, Thresholds, version};

/// How often a change that another process overtook is run again, at most.
const MAX_REPEATS: u32 = 8;

#[derive(Debug, Default)]
struct AccountQueue {
    /// The account's lock: held while a change is made and queued.
    lock: Mutex<()>,
    queued: Mutex<QueuedBatches>,
}

#[derive(Debug, Default)]
struct QueuedBatches {
    /// How often a batch was not written. Those that were dropped because of it do not count.
    failures: u64,
    /// Queued or being written, oldest first.
    batches: VecDeque<Arc<Batch>>,
}

/// The changes of one or several accounts that share a ticket.
struct QueuedCommit {
    parts: Vec<AccountChange>,
    /// Taken before the changes read their first row: their rows may name extents.
    _guard: Option<SegmentGuard>,
    result: oneshot::Sender<WriteResult>,
}

struct AccountChange {
    account: AccountId,
    queue: Arc<AccountQueue>,
    /// `QueuedBatches::failures` when the change was built.
    failures: u64,
    /// `None` if the change staged nothing.
    rows: Option<(Arc<Batch>, Change)>,
}

/// The result of each account's change, and the ticket that the changes share.
pub type CommitResults<T> = (Vec<(AccountId, Result<T, Error>)>, Ticket);

type ChangeListener = Box<dyn Fn(&Change) + Send + Sync>;

/// The store's handle on the committer. Dropping it waits until the queue is written.
pub(in crate::store) struct Committer {
    shared: Arc<CommitterState>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What the callers of commits and the committer's thread share.
struct CommitterState {
    engine: Arc<dyn Engine>,
    accounts: RwLock<HashMap<AccountId, Arc<AccountQueue>>>,
    queue: Mutex<CommitQueue>,
    /// The number of commits that are queued or being written.
    in_flight: AtomicUsize,
    wake: Condvar,
    /// Is notified when there are as many commits as `CommitQueue::awaited`.
    filled: Condvar,
    listeners: RwLock<Vec<ChangeListener>>,
    /// Accounts that only their repair may write.
    under_repair: RwLock<BTreeSet<AccountId>>,
    /// The error that every later write gets.
    poison: OnceLock<Error>,
    group_delay: Duration,
    writes_alone: bool,
    repeat_pause: Duration,
    /// Whether the store is known to have the format of this version.
    has_newest_format: AtomicBool,
    ranking: Ranking,
    thresholds: Thresholds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitKind {
    /// The change of each account is written or fails by itself. But if an earlier batch of one of
    /// the accounts has failed meanwhile, none is written.
    Separate,
    /// The changes of all accounts are written, or none.
    Together,
    /// Marks the account as under repair, and may write it.
    Repair,
}

impl std::fmt::Debug for Committer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Committer")
            .field("queued", &self.shared.queue.lock().commits.len())
            .finish_non_exhaustive()
    }
}

impl Committer {
    /// Starts the committer's thread. `under_repair` are the accounts with an unfinished repair.
    pub(in crate::store) fn start(
        engine: Arc<dyn Engine>,
        options: &Options,
        ranking: Ranking,
        under_repair: BTreeSet<AccountId>,
    ) -> Result<Self, Error> {
        let shared = Arc::new(CommitterState {
            engine,
            accounts: RwLock::default(),
            queue: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            wake: Condvar::new(),
            filled: Condvar::new(),
            listeners: RwLock::default(),
            under_repair: RwLock::new(under_repair),
            poison: OnceLock::new(),
            group_delay: options.hold,
            writes_alone: options.writes_alone,
            repeat_pause: options.repeat_pause,
            has_newest_format: AtomicBool::new(false),
            ranking,
            thresholds: options.thresholds,
        });
        let state = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("committer".into()).spawn(move || {
            // After a panic, waiting sessions must get an error, and the watchdog must notice.
            if std::panic::catch_unwind(AssertUnwindSafe(|| state.run())).is_err() {
                state.give_up();
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

    pub(in crate::store) fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    pub(in crate::store) fn health(&self) -> Result<(), Error> {
        self.shared.poison.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Calls `read` with the accounts under repair. No repair begins or ends meanwhile.
    pub(in crate::store) fn with_accounts_under_repair<T>(
        &self,
        read: impl FnOnce(&BTreeSet<AccountId>) -> T,
    ) -> T {
        read(&self.shared.under_repair.read())
    }

    pub(in crate::store) fn end_repair(&self, account: AccountId) {
        self.shared.under_repair.write().remove(&account);
    }

    /// Commits a step of a repair. From then on, until `end_repair`, other commits of the account
    /// are refused, also if this step fails.
    pub(in crate::store) fn commit_repair<T>(
        &self,
        now: UtcMillis,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<(T, Ticket), Error> {
        let none = SharedRows::none(&*self.shared.engine);
        let (mut results, ticket) =
            self.commit_as(CommitKind::Repair, now, &[account], &none, change);
        results.pop().map_or(Err(Error::NotFound("account")), |(_, result)| {
            result.map(|value| (value, ticket))
        })
    }

    /// Runs `change` for each account, and queues each change by itself. The rows of `message` are
    /// written once, with the changes that refer to the message.
    pub(in crate::store) fn commit<T>(
        &self,
        now: UtcMillis,
        accounts: &[AccountId],
        message: Option<&SharedRows>,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let none;
        let message = match message {
            Some(message) => message,
            None => {
                none = SharedRows::none(&*self.shared.engine);
                &none
            }
        };
        self.commit_as(CommitKind::Separate, now, accounts, message, change)
    }

    /// Runs `change` for each account, and queues the changes as one batch if none fails.
    pub(in crate::store) fn commit_together<T>(
        &self,
        now: UtcMillis,
        accounts: &[AccountId],
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let none = SharedRows::none(&*self.shared.engine);
        self.commit_as(CommitKind::Together, now, accounts, &none, change)
    }

    /// Runs `commit_once` for the accounts, each named once. If the engine is shared, waits for the
    /// write, and runs overtaken changes again, up to `MAX_REPEATS` times.
    fn commit_as<T>(
        &self,
        kind: CommitKind,
        now: UtcMillis,
        accounts: &[AccountId],
        message: &SharedRows,
        mut change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let mut accounts = accounts.to_vec();
        accounts.sort_unstable();
        accounts.dedup();
        if let Err(error) = self.health().and_then(|()| self.shared.raise_format()) {
            let refused = accounts.into_iter().map(|account| (account, Err(error.clone())));
            return (refused.collect(), Ticket::ended(Ok(Vec::new())));
        }
        if !self.shared.engine.is_shared() {
            return self.commit_once(kind, now, &accounts, message, &mut change);
        }
        let mut results = BTreeMap::new();
        let (mut remaining, mut repeats) = (accounts.clone(), 0);
        let written = loop {
            let (found, ticket) = self.commit_once(kind, now, &remaining, message, &mut change);
            results.extend(found);
            match ticket.overtaken_accounts_blocking() {
                Ok(overtaken) if overtaken.is_empty() => break Ok(Vec::new()),
                Ok(_) if kind == CommitKind::Together => remaining.clone_from(&accounts),
                Ok(overtaken) => remaining = overtaken,
                Err(error) => break Err(error),
            }
            if repeats == MAX_REPEATS {
                results.extend(
                    remaining.into_iter().map(|account| (account, Err(Error::Overtaken(account)))),
                );
                break Ok(Vec::new());
            }
            repeats += 1;
            self.shared.pause_before_repeat();
        };
        (results.into_iter().collect(), Ticket::ended(written))
    }

    /// Runs `change` once for each account and queues the batches. Takes the accounts' locks in
    /// ascending order and holds them until the batches are queued.
    fn commit_once<T>(
        &self,
        kind: CommitKind,
        now: UtcMillis,
        accounts: &[AccountId],
        message: &SharedRows,
        change: &mut impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let is_repair = kind == CommitKind::Repair;
        let queues: Vec<Arc<AccountQueue>> =
            accounts.iter().map(|account| self.shared.account_queue(*account)).collect();
        let locks: Vec<_> = queues.iter().map(|queue| queue.lock.lock()).collect();
        let mut results = Vec::with_capacity(accounts.len());
        let mut parts = Vec::with_capacity(accounts.len());
        let (mut has_rows, mut has_read_queued) = (false, false);
        for (account, queue) in accounts.iter().zip(&queues) {
            let (failures, pending) = {
                let queued = queue.queued.lock();
                (queued.failures, queued.batches.iter().cloned().collect::<Vec<_>>())
            };
            has_read_queued |= !pending.is_empty();
            let result = self.shared.check_may_write(*account, is_repair).and_then(|()| {
                let (engine, ranking, thresholds) =
                    (&*self.shared.engine, self.shared.ranking, self.shared.thresholds);
                let mut txn =
                    Txn::begin(*account, now, engine, ranking, thresholds, pending, is_repair)?;
                let value = change(&mut txn)?;
                Ok((value, txn.finish()))
            });
            results.push((
                *account,
                result.map(|(value, rows)| {
                    let rows = rows.map(|(batch, change)| {
                        let batch = with_message_rows(batch, message.rows.as_ref());
                        if batch.shared.is_some() {
                            message.refer();
                        }
                        (Arc::new(batch), change)
                    });
                    has_rows |= rows.is_some();
                    parts.push(AccountChange {
                        account: *account,
                        queue: Arc::clone(queue),
                        failures,
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
            merge_batches(&mut parts);
        }
        // A change that staged nothing may have read queued rows: its ticket waits for their write.
        if parts.is_empty() || !(has_rows || has_read_queued) {
            return (results, Ticket::ended(Ok(Vec::new())));
        }
        let (sender, receiver) = oneshot::channel();
        for part in &parts {
            let mut queued = part.queue.queued.lock();
            // If an earlier batch has failed meanwhile, nothing may build on this one, and the
            // committer will refuse it (`QueuedCommit::is_current`).
            if let Some((batch, _)) = &part.rows
                && queued.failures == part.failures
            {
                queued.batches.push_back(Arc::clone(batch));
            }
        }
        let commit = QueuedCommit { parts, _guard: message.guard.clone(), result: sender };
        let alone = self.shared.push(commit);
        drop(locks);
        if let Some(commit) = alone {
            self.shared.write_alone(commit);
        }
        (results, Ticket::waiting(receiver))
    }
}

/// Adds the rows of a message to a batch that refers to the message. Rows of a message that nothing
/// refers to would stay until a sweep over all messages finds them.
fn with_message_rows(mut batch: Batch, message_rows: Option<&Arc<Vec<Put>>>) -> Batch {
    let refers = |blob| {
        batch.sets_any(&KeyRange::<BlobRefs>::under(&(blob,)))
            || batch.sets_any(&KeyRange::<OutboxBlobs>::under(&(blob,)))
    };
    batch.shared = message_rows
        .filter(|rows| rows.first().and_then(message_hash).is_some_and(refers))
        .cloned();
    batch
}

/// Makes one batch of the batches of all accounts, so that it is written whole or not at all.
fn merge_batches(parts: &mut [AccountChange]) {
    let batches: Vec<Arc<Batch>> = parts
        .iter()
        .filter_map(|part| part.rows.as_ref())
        .map(|(batch, _)| Arc::clone(batch))
        .collect();
    if batches.len() < 2 {
        return;
    }
    let mut merged = Batch::default();
    let mut puts = BTreeMap::new();
    for batch in &batches {
        merged.bases.extend(&batch.bases);
        merged.asserts.extend(batch.asserts.iter().cloned());
        puts.extend(batch.puts.iter().map(|put| ((put.table, put.key.clone()), put.value.clone())));
    }
    merged.puts = puts.into_iter().map(|((table, key), value)| Put { table, key, value }).collect();
    let merged = Arc::new(merged);
    for (batch, _) in parts.iter_mut().filter_map(|part| part.rows.as_mut()) {
        *batch = Arc::clone(&merged);
    }
}

/// Returns the message to which a row belongs; `None` if the row is of another table.
fn message_hash(put: &Put) -> Option<BlobHash> {
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
        self.shared.filled.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the committer thread panicked");
        }
    }
}

impl CommitterState {
    fn account_queue(&self, account: AccountId) -> Arc<AccountQueue> {
        if let Some(queue) = self.accounts.read().get(&account) {
            return Arc::clone(queue);
        }
        Arc::clone(self.accounts.write().entry(account).or_default())
    }

    /// Raises the format of the store before the first write, in case it could not be raised when
    /// the store was opened.
    fn raise_format(&self) -> Result<(), Error> {
        if !self.has_newest_format.load(Ordering::Acquire) {
            version::raise_format(&*self.engine)?;
            self.has_newest_format.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Marks the account if the caller is its repair; otherwise refuses an account under repair.
    /// The caller holds the account's lock.
    fn check_may_write(&self, account: AccountId, is_repair: bool) -> Result<(), Error> {
        if is_repair {
            self.under_repair.write().insert(account);
        } else if self.under_repair.read().contains(&account) {
            return Err(Error::Rebuilding(account));
        }
        Ok(())
    }

    /// Poisons the store and drops the queue, which closes the channels of waiting callers.
    fn give_up(&self) {
        self.poison.get_or_init(|| Error::Poisoned("the committer panicked".into()));
        tracing::error!(
            "the committer panicked: the store takes no more writes until the service is \
             restarted"
        );
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.commits.clear();
        self.wake.notify_all();
        self.filled.notify_all();
    }

    /// Sleeps for a random part of `repeat_pause`, so that processes that were overtaken by the
    /// same write do not collide again.
    fn pause_before_repeat(&self) {
        let mut random = [0u8; 1];
        let share =
            getrandom::fill(&mut random).map_or(u32::from(u8::MAX), |()| u32::from(random[0]));
        std::thread::sleep(self.repeat_pause * (share + 1) / 256);
    }
}
