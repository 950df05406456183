//! L2: the truth on disk. The store knows no mail syntax: it takes finished rows and keeps them
//! true to one another.
//!
//! - Every mutation goes through `Store::commit`: it takes the account's lock, reads the store
//!   overlaid with what the account has queued, builds its rows, queues them while it still holds
//!   the lock, and returns a `Ticket` that is redeemed when they are durable and visible. Nobody
//!   else makes a batch.
//! - One committer thread merges all that is queued into one synced write.
//! - Nothing is visible before it is durable; a `Snapshot` is one consistent state.
//! - After a write that failed for any cause but a full disk the store is poisoned: it refuses
//!   writes until it is opened anew. A full disk is temporary, and heals by itself.
//!
//! The tables and their keys are in `table`, the rows in `row`, the invariants in `repair::check`.

mod account;
pub mod backup;
mod blob;
mod email;
pub mod engine;
mod error;
mod listing;
mod outbox;
pub mod repair;
pub mod row;
mod search;
pub(crate) mod table;
mod txn;
mod vacation;
mod version;

use std::collections::BTreeSet;
#[cfg(feature = "rocksdb")]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use account::directory_read::DirectoryRows;
pub use account::mailboxes::NewMailbox;
pub use account::shares::ShareChange;
pub use email::write::NewEmail;
pub use engine::Statistics;
#[cfg(feature = "internals")]
pub use engine::Usage;
pub use error::{Error, MailboxFault};
pub use listing::difference::CountedListing;
pub use listing::read::ListingMoves;
pub use listing::requests::{ListingAction, ListingRequest};
pub use outbox::read::{QueueAudit, Wakeup};
pub use repair::check;
pub use row::fold::Fold;
pub use row::{
    AccountStateRow, Digest, EncodedMessage, Object, QueueMark, domain_digest, lane_digest,
};
#[cfg(any(test, feature = "internals"))]
pub use row::{DeliveryRow, Thread, ToldRow, fold::Folds};
pub use search::folding::FoldSizes;
pub use search::postings::Postings;
pub use search::tokens::Ordinals;
pub use table::keys::WakeCondition;
pub use txn::snapshot::{Changes, ClientState, Snapshot};
pub use txn::{CommitResults, Ticket, Txn};
#[cfg(test)]
pub use {blob::write::CollectResult, email::purge::PurgeResult, row::UploadRow};

use crate::model::{AccountId, Change, Clock, Secrets};
use engine::{Engine, Put};
use listing::rank::Ranking;
use listing::requests::ListingRequests;
use txn::Committer;

/// How the store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Octets of the block cache.
    pub cache_bytes: usize,
    /// Octets of one table's memory before it is flushed.
    pub memtable_bytes: usize,
    /// Octets of all tables' memory together.
    pub total_memtable_bytes: usize,
    /// Octets of the log before the oldest tables are flushed.
    pub log_bytes: u64,
    /// Flushes and compactions at once.
    pub jobs: u32,
    /// How long the committer holds a write to gather more, where several write at once.
    pub hold: Duration,
    /// The longest pause before a change is run again that another process overtook.
    pub repeat_pause: Duration,
    /// Listings of more emails than this get rank rows; `None`: of more than 4,096. Tests rank from
    /// the first.
    pub ranked_above: Option<u64>,
    /// From how many rows on another way is taken.
    pub thresholds: Thresholds,
}

/// Numbers of rows from which on another way is taken. They change what an answer costs and never
/// the answer, so tests set them low and cross them with a few rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// What finding a position in a listing by its ranks costs, in rows of a walk.
    pub rank_cost: u64,
    /// Rows of a fold that are read one after the other before the wanted one is looked up.
    pub fold_scan_rows: usize,
    /// Rows that one commit of a repair writes.
    pub repair_rows: usize,
    /// Bytes after which a commit of a repair takes no further row.
    pub repair_bytes: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { rank_cost: 64, fold_scan_rows: 8, repair_rows: 256, repair_bytes: 1 << 20 }
    }
}

impl Thresholds {
    /// What tests use.
    #[cfg(any(test, feature = "internals", feature = "rocksdb"))]
    pub(in crate::store) const SMALL: Self =
        Self { rank_cost: 2, fold_scan_rows: 2, repair_rows: 16, repair_bytes: 1 << 12 };
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
            memtable_bytes: 64 << 20,
            total_memtable_bytes: 256 << 20,
            log_bytes: 512 << 20,
            jobs: jobs(),
            hold: Duration::from_millis(1),
            repeat_pause: Duration::from_millis(50),
            ranked_above: None,
            thresholds: Thresholds::default(),
        }
    }
}

/// Half the machine's cores, so that those who answer have the others.
fn jobs() -> u32 {
    const MAX_DEFAULT_JOBS: u32 = 8;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores / 2)
        .unwrap_or(MAX_DEFAULT_JOBS)
        .clamp(crate::model::limits::MIN_STORE_JOBS, MAX_DEFAULT_JOBS)
}

impl Options {
    /// Small tables, logs and thresholds: for tests, which open many stores and put few rows into
    /// each.
    #[must_use]
    #[cfg(any(test, feature = "internals", feature = "rocksdb"))]
    pub fn small() -> Self {
        Self {
            cache_bytes: 8 << 20,
            memtable_bytes: 2 << 20,
            total_memtable_bytes: 16 << 20,
            log_bytes: 16 << 20,
            jobs: crate::model::limits::MIN_STORE_JOBS,
            hold: Duration::ZERO,
            repeat_pause: Duration::ZERO,
            ranked_above: None,
            thresholds: Thresholds::SMALL,
        }
    }
}

/// The store. Cheap to clone; the last clone closes it.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    committer: Committer,
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    site: version::StoreIdentity,
    thresholds: Thresholds,
    listing_requests: ListingRequests,
}

impl Store {
    /// Opens the store in a directory, making it if it is not there.
    ///
    /// # Errors
    /// `Open`, with what to do; nothing is changed then.
    #[cfg(feature = "rocksdb")]
    pub fn open(dir: &Path, options: &Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::open_engine(Arc::new(engine::rocks::RocksEngine::open(dir, options)?), options, clock)
    }

    /// Opens the store in a directory to look at it: no file is made or changed, and commits are
    /// refused. Nobody else may write there meanwhile: other processes are kept out.
    ///
    /// # Errors
    /// `Open`, with what to do: there is none, a service has it, or it is damaged.
    #[cfg(feature = "rocksdb")]
    pub fn open_read_only(
        dir: &Path,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let engine = Arc::new(engine::rocks::RocksEngine::open_read_only(dir, options)?);
        let empty = || {
            Error::Open(format!(
                "the store in {} was never used: there is nothing to see",
                dir.display()
            ))
        };
        let site = version::read_identity(&*engine)?.ok_or_else(empty)?;
        Self::with(engine, site, options, clock)
    }

    /// Opens a store over an engine.
    ///
    /// # Errors
    /// `Open` where a newer version wrote it, and those of the engine.
    pub fn open_engine(
        engine: Arc<dyn Engine>,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let site = version::open(&*engine)?;
        Self::with(engine, site, options, clock)
    }

    fn with(
        engine: Arc<dyn Engine>,
        site: version::StoreIdentity,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let ranking = Ranking::new(site.secrets.ranks, options.ranked_above);
        let marked = version::accounts_under_repair(&*engine)?
            .into_iter()
            .map(|(account, _)| account)
            .collect();
        let committer = Committer::start(Arc::clone(&engine), options, ranking, marked)?;
        let (thresholds, listing_requests) = (options.thresholds, ListingRequests::default());
        Ok(Self(Arc::new(Inner { committer, engine, clock, site, thresholds, listing_requests })))
    }

    /// The keys of the hashes over what strangers choose.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.0.site.secrets
    }

    /// A random word of this store: states of another epoch are refused.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.site.epoch
    }

    /// The clock that the store's rows are dated by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Returns one consistent state to read from. Reading a row of an account under repair fails
    /// with `Rebuilding`.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'_> {
        // Both under one lock: otherwise a repair could begin or end between them, and the snapshot
        // hold half of it.
        let look = |closed: &BTreeSet<AccountId>| (closed.clone(), self.0.engine.snapshot());
        let (mut closed, read) = self.0.committer.with_accounts_under_repair(look);
        if self.0.engine.is_shared() {
            // Repairs of other processes. If their marks cannot be read, nothing else can be,
            // either.
            let marked = version::accounts_under_repair(&*read).unwrap_or_default();
            closed.extend(marked.into_iter().map(|(account, _)| account));
        }
        let read = if closed.is_empty() {
            read
        } else {
            Box::new(txn::snapshot::RepairGuard { read, closed })
        };
        Snapshot::of(read, self.0.thresholds)
    }

    /// Changes one account: `change` stages what it wants, and all of it or nothing is written. The
    /// result may be used before the ticket is redeemed, but nothing may be promised on it.
    ///
    /// Where other processes write, too, `change` is called again each time one of them was first:
    /// so it keeps no effect outside the transaction, and what it learns is its result.
    ///
    /// # Errors
    /// What `change` returns, and those of reading.
    pub fn commit<T>(
        &self,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<(T, Ticket), Error> {
        let (mut results, ticket) = self.commit_many(&[account], Vec::new(), change);
        results.pop().map_or(Err(Error::NotFound("account")), |(_, result)| {
            result.map(|value| (value, ticket))
        })
    }

    /// Changes several accounts by one write: all of it or nothing. `change` is called for each of
    /// them, in ascending order; as for `commit` it may be called again.
    ///
    /// # Errors
    /// The first that `change` returns, and those of reading.
    pub fn commit_together(
        &self,
        accounts: &[AccountId],
        change: impl FnMut(&mut Txn<'_>) -> Result<(), Error>,
    ) -> Result<Ticket, Error> {
        let (results, ticket) =
            self.0.committer.commit_together(self.0.clock.now(), accounts, change);
        results.into_iter().try_for_each(|(_, result)| result).map(|()| ticket)
    }

    /// Files a message for several accounts under one sync: each is a commit of its own, and one
    /// that fails drops out alone. The message's octets are put beside them, once, if any of them
    /// is written. The results come in ascending order of the accounts.
    pub fn commit_message<T>(
        &self,
        accounts: &[AccountId],
        message: &EncodedMessage,
        raw: &[u8],
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let puts = row::blob_rows(&message.blob, raw, self.0.clock.now());
        self.commit_many(accounts, puts, change)
    }

    fn commit_many<T>(
        &self,
        accounts: &[AccountId],
        message: Vec<Put>,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        self.0.committer.commit(self.0.clock.now(), accounts, message, change)
    }

    fn listing_requests(&self) -> &ListingRequests {
        &self.0.listing_requests
    }

    /// Calls `listener` with every durable change, from the committer's thread: it must be quick.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        self.0.committer.listen(Box::new(listener));
    }

    /// Proves the invariants; an empty answer is a clean store.
    ///
    /// # Errors
    /// Those of the engine.
    #[cfg(any(test, feature = "internals"))]
    pub fn check(&self) -> Result<Vec<check::Breach>, Error> {
        Ok(self.check_deep(None, &mut |_| true)?.breaches)
    }

    /// Checks the invariants on one state of the store while deliveries go on, and reports
    /// progress. With `remake` (`message::rows`) each message is read, its hash verified, and the
    /// rows derived from it compared.
    ///
    /// # Errors
    /// Those of the engine; `Stopped`.
    pub fn check_deep(
        &self,
        remake: Option<&check::RemakeFn<'_>>,
        on_progress: &mut check::ProgressFn<'_>,
    ) -> Result<check::CheckReport, Error> {
        let sizes = (self.0.committer.ranking(), self.0.thresholds);
        check::check_store(&*self.0.engine.sweeping_snapshot(), sizes, remake, on_progress)
    }

    /// Whether the store still takes writes, and if not, why.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn health(&self) -> Result<(), Error> {
        self.0.committer.health()
    }

    /// How many commits are on their way to the disk: what may wait does so while there are any.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.committer.in_flight()
    }

    /// Removes what is left of rows that were deleted side by side, a part of it; says whether
    /// there is more to look at. It may take seconds, for files of the tables are written anew: for
    /// upkeep alone, which lets time pass between two calls.
    ///
    /// # Errors
    /// Those of reading.
    pub fn clear_remains(&self) -> Result<bool, Error> {
        self.0.engine.clear_remains()
    }

    /// What the engine has done since it was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.engine.statistics()
    }

    /// What each table holds and has cost, by its name.
    #[cfg(feature = "internals")]
    #[must_use]
    pub fn usage(&self) -> Vec<(&'static str, Usage)> {
        engine::Table::ALL.iter().map(|table| (table.name(), self.0.engine.usage(*table))).collect()
    }
}

#[cfg(test)]
mod tests;
