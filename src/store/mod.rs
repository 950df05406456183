//! The store: all data of all accounts on disk. It does not parse mail: callers bring finished
//! rows.
//!
//! - `Store::commit` and its variants take the account's lock, run a transaction (`Txn`) and queue
//!   its batch. The `Ticket` is ready when the committer has written the batch, or has failed to.
//! - Nothing is visible before it is durable. A `Snapshot` is one consistent state.
//! - After a failed write, the store refuses writes until it is opened again, except if the disk
//!   was full or the engine was away (`Error::Away`).

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
mod script;
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
pub use engine::segments::StreamedValue;
pub use error::{Error, MailboxFault, ScriptFault};
pub use listing::difference::CountedListing;
pub use listing::read::ListingMoves;
pub use listing::requests::{ListingAction, ListingRequest};
pub use outbox::read::{QueueAudit, Wakeup};
pub use repair::check;
pub use row::fold::Fold;
pub use row::{
    AccountStateRow, Digest, EncodedMessage, Object, QueueMark, domain_digest, lane_digest,
};
pub use row::{DeliveredEmail, DeliveryRow, RecipientOutcome};
#[cfg(any(test, feature = "internals"))]
pub use row::{Thread, ToldRow, fold::Folds};
#[cfg(test)]
pub(crate) use search::folding::FoldPiece;
pub use search::folding::FoldSizes;
pub use search::postings::Postings;
pub use search::tokens::Ordinals;
pub use table::keys::WakeCondition;
pub use txn::snapshot::{Changes, ClientState, Snapshot};
pub use txn::{CommitResults, Ticket, Txn};
#[cfg(test)]
pub use {blob::write::CollectResult, email::purge::PurgeResult, row::UploadRow};

use crate::model::{AccountId, Change, Clock, Secrets};
use blob::reclaim::Reclaimer;
use engine::Engine;
use listing::rank::Ranking;
use listing::requests::ListingRequests;
use txn::{Committer, SharedRows};

/// The settings of a store. None of them changes what the store answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The most bytes in the cache of what was read from table files.
    pub cache_bytes: usize,
    /// All tables are flushed when the memtable of one table has this many bytes.
    pub memtable_bytes: usize,
    /// All tables are flushed when their memtables together have this many bytes.
    pub total_memtable_bytes: usize,
    /// All tables are flushed when the journal has this many bytes of rows.
    pub log_bytes: u64,
    /// A new segment is begun when one has this many bytes.
    pub segment_bytes: u64,
    /// Messages of at least this many bytes are stored in segments, shorter ones in their rows.
    pub min_segment_value: usize,
    /// The most flushes and compactions that the engine runs at once.
    pub jobs: u32,
    /// How long the committer waits, at most, for as many commits as the last group had.
    pub hold: Duration,
    /// Whether a caller writes its commit itself if there are no others.
    pub writes_alone: bool,
    /// The longest pause before a change is run again after another process overtook it. Only for
    /// engines that are shared (`Engine::is_shared`).
    pub repeat_pause: Duration,
    /// A listing with more emails than this gets rank rows. `None`: `rank::RANKED_ABOVE`.
    pub ranked_above: Option<u64>,
    pub thresholds: Thresholds,
}

/// Sizes at which the store changes how it works, and never what it answers. Tests set them low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// The cost of finding a position in a listing by its ranks, as a number of scanned rows.
    pub rank_cost: u64,
    /// Rows of a fold that are scanned before the wanted row is looked up by its key.
    pub fold_scan_rows: usize,
    /// The most rows that one commit of a repair writes.
    pub repair_rows: usize,
    /// Bytes after which a commit of a repair takes no further row.
    pub repair_bytes: usize,
    /// The most messages that one commit moves to another segment.
    pub moved_messages: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            rank_cost: 64,
            fold_scan_rows: 8,
            repair_rows: 256,
            repair_bytes: 1 << 20,
            moved_messages: 64,
        }
    }
}

impl Thresholds {
    #[cfg(any(test, feature = "internals", feature = "rocksdb"))]
    pub(in crate::store) const SMALL: Self = Self {
        rank_cost: 2,
        fold_scan_rows: 2,
        repair_rows: 16,
        repair_bytes: 1 << 12,
        moved_messages: 4,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 32 << 20,
            memtable_bytes: 56 << 20,
            total_memtable_bytes: 112 << 20,
            log_bytes: 224 << 20,
            segment_bytes: 256 << 20,
            min_segment_value: 1 << 10,
            jobs: default_jobs(),
            hold: Duration::from_micros(500),
            writes_alone: true,
            repeat_pause: Duration::from_millis(50),
            ranked_above: None,
            thresholds: Thresholds::default(),
        }
    }
}

fn default_jobs() -> u32 {
    const MAX_DEFAULT_JOBS: u32 = 8;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores / 2)
        .unwrap_or(MAX_DEFAULT_JOBS)
        .clamp(crate::model::limits::MIN_STORE_JOBS, MAX_DEFAULT_JOBS)
}

impl Options {
    /// Small memtables, logs and thresholds: for tests, which open many stores with few rows, and
    /// for a restored store, into which only its epoch is written.
    #[must_use]
    #[cfg(any(test, feature = "internals", feature = "rocksdb"))]
    pub fn small() -> Self {
        Self {
            cache_bytes: 8 << 20,
            memtable_bytes: 2 << 20,
            total_memtable_bytes: 16 << 20,
            log_bytes: 16 << 20,
            segment_bytes: 1 << 20,
            min_segment_value: 128,
            jobs: crate::model::limits::MIN_STORE_JOBS,
            hold: Duration::ZERO,
            writes_alone: false,
            repeat_pause: Duration::ZERO,
            ranked_above: None,
            thresholds: Thresholds::SMALL,
        }
    }
}

/// An open store. Cheap to clone; it is closed with its last clone.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    committer: Committer,
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    identity: version::StoreIdentity,
    thresholds: Thresholds,
    listing_requests: ListingRequests,
    reclaimer: Reclaimer,
}

impl Store {
    /// Opens the store in a directory for writing, and creates it if it does not exist. No other
    /// process can open it meanwhile.
    ///
    /// # Errors
    /// `Open`; those of the engine.
    #[cfg(feature = "rocksdb")]
    pub fn open(dir: &Path, options: &Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::open_engine(Arc::new(engine::rocks::RocksEngine::open(dir, options)?), options, clock)
    }

    /// Opens the store in a directory for reading: commits are refused. No other process can open
    /// the store for writing meanwhile.
    ///
    /// # Errors
    /// `Open`, for instance if there is no store, or another process has it open for writing; those
    /// of reading.
    #[cfg(feature = "rocksdb")]
    pub fn open_read_only(
        dir: &Path,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let engine = engine::rocks::open_read_only(dir, options)?;
        let empty = || Error::Open("it is empty: it was never opened for writing".into());
        let identity = version::read_identity(&*engine)?.ok_or_else(empty)?;
        Self::open_with_identity(engine, identity, options, clock)
    }

    /// Opens a store over an engine. Creates the store if the engine is empty, and raises the
    /// format of an older one.
    ///
    /// # Errors
    /// `Open`, for instance if a newer version wrote the store; those of the engine.
    pub fn open_engine(
        engine: Arc<dyn Engine>,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let identity = version::open(&*engine)?;
        Self::open_with_identity(engine, identity, options, clock)
    }

    fn open_with_identity(
        engine: Arc<dyn Engine>,
        identity: version::StoreIdentity,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let ranking = Ranking::new(identity.secrets.ranks, options.ranked_above);
        let under_repair = version::accounts_under_repair(&*engine)?
            .into_iter()
            .map(|(account, _)| account)
            .collect();
        let committer = Committer::start(Arc::clone(&engine), options, ranking, under_repair)?;
        let (thresholds, listing_requests) = (options.thresholds, ListingRequests::default());
        let reclaimer = Reclaimer::default();
        let inner =
            Inner { committer, engine, clock, identity, thresholds, listing_requests, reclaimer };
        Ok(Self(Arc::new(inner)))
    }

    /// The keys for hashes of data that strangers choose.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.0.identity.secrets
    }

    /// The random number of this store. States of another epoch are refused.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.identity.epoch
    }

    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Returns one consistent state to read from. If an account is under repair now, reading its
    /// rows in the tables that the repair rewrites (`RepairMethod::closes_account`) fails with
    /// `Rebuilding`, in this snapshot also after the repair has ended.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'_> {
        // Both are read under one lock, so that no repair begins or ends in between.
        let read_both =
            |accounts: &BTreeSet<AccountId>| (accounts.clone(), self.0.engine.snapshot());
        let (mut under_repair, read) = self.0.committer.with_accounts_under_repair(read_both);
        if self.0.engine.is_shared() {
            // Other processes may be repairing, too. If their marks cannot be read, neither can
            // anything else.
            let marked = version::accounts_under_repair(&*read).unwrap_or_default();
            under_repair.extend(marked.into_iter().map(|(account, _)| account));
        }
        let read = if under_repair.is_empty() {
            read
        } else {
            Box::new(txn::snapshot::RepairGuard { read, under_repair })
        };
        Snapshot::of(read, self.0.thresholds)
    }

    /// Changes one account: the rows that `change` stages are written together or not at all. The
    /// result may be used before the ticket is ready, but nothing may be promised on it.
    ///
    /// `change` runs under the account's lock, so it must not commit itself. It may be called again
    /// if other processes write, too (`Engine::is_shared`), so it must have no other effect.
    ///
    /// # Errors
    /// What `change` returns; then nothing is queued. `Poisoned`; `Rebuilding`; `Overtaken` if
    /// other processes were first too often; those of reading, and of raising the format of an
    /// older store. Errors of the write come by the ticket.
    pub fn commit<T>(
        &self,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<(T, Ticket), Error> {
        let (mut results, ticket) = self.commit_many(&[account], None, change);
        results.pop().map_or(Err(Error::NotFound("account")), |(_, result)| {
            result.map(|value| (value, ticket))
        })
    }

    /// Changes several accounts together: all changes are written, or none. `change` is called as
    /// for `commit_message`.
    ///
    /// # Errors
    /// Those of `commit`, of the first account that failed.
    pub fn commit_together(
        &self,
        accounts: &[AccountId],
        change: impl FnMut(&mut Txn<'_>) -> Result<(), Error>,
    ) -> Result<Ticket, Error> {
        let (results, ticket) =
            self.0.committer.commit_together(self.0.clock.now(), accounts, change);
        results.into_iter().try_for_each(|(_, result)| result).map(|()| ticket)
    }

    /// Files a message for several accounts with one sync. `change` is called for each account in
    /// ascending order, once even if `accounts` repeats it, and perhaps again, as for `commit`. An
    /// account whose `change` fails does not hinder the others; `Ticket::overtaken_accounts` tells
    /// which changes were not written.
    ///
    /// `raw` has the bytes of the message whose rows `message` has. `change` need not stage them:
    /// they are written once, if a change that is written refers to them.
    pub fn commit_message<T>(
        &self,
        accounts: &[AccountId],
        message: &EncodedMessage,
        raw: &[u8],
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        self.commit_streamed(accounts, message, raw, None, change)
    }

    /// Begins a large message, whose bytes are written to the disk while they come in; `None` if
    /// the engine has no segments. `commit_streamed` stores the message; if the value is dropped
    /// before, its bytes are deleted.
    ///
    /// # Errors
    /// `Full` if the disk is full, `Io`.
    pub fn begin_message(&self) -> Result<Option<StreamedValue>, Error> {
        self.0.engine.segments().map(engine::segments::Segments::begin_value).transpose()
    }

    /// Files a message as `commit_message` does. `streamed` may have the bytes of `raw` on the disk
    /// already. If it has other bytes, or the store has the message undamaged in a segment that is
    /// not to be deleted, or the message is too short for a segment, `streamed` is deleted and not
    /// used.
    pub fn commit_streamed<T>(
        &self,
        accounts: &[AccountId],
        message: &EncodedMessage,
        raw: &[u8],
        streamed: Option<StreamedValue>,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        let (engine, now) = (&*self.0.engine, self.0.clock.now());
        let rows = || {
            self.health()?;
            blob::write::blob_rows(engine, &message.blob, raw, streamed, now)
        };
        match SharedRows::make(engine, rows) {
            Ok(rows) => {
                let (results, ticket) = self.commit_many(accounts, Some(&rows), change);
                // If no row names the bytes that were appended, they are to be reclaimed. A length
                // that cannot be read counts as missing.
                let is_known = || {
                    let known = blob::read::length(engine, &message.blob);
                    known.is_ok_and(|length| length.is_some())
                };
                if !rows.is_referred() && !is_known() {
                    self.note_deleted_messages(raw.len() as u64);
                }
                (results, ticket)
            }
            Err(error) => {
                let accounts: BTreeSet<AccountId> = accounts.iter().copied().collect();
                let refused = accounts.into_iter().map(|account| (account, Err(error.clone())));
                (refused.collect(), Ticket::of_nothing())
            }
        }
    }

    fn commit_many<T>(
        &self,
        accounts: &[AccountId],
        message: Option<&SharedRows>,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> CommitResults<T> {
        self.0.committer.commit(self.0.clock.now(), accounts, message, change)
    }

    fn listing_requests(&self) -> &ListingRequests {
        &self.0.listing_requests
    }

    /// Has `listener` called with every durable change that this process writes, before the ticket
    /// of its commit is ready. `listener` runs on the committer's thread, or within a call of
    /// `commit`: it must be quick, must not wait for a ticket, and must take no lock that a caller
    /// of `commit` holds.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        self.0.committer.listen(Box::new(listener));
    }

    /// Checks the invariants, and returns the breaches.
    #[cfg(any(test, feature = "internals"))]
    pub fn check(&self) -> Result<Vec<check::Breach>, Error> {
        Ok(self.check_deep(None, &mut |_| true)?.breaches)
    }

    /// Checks the invariants on one state of the store. With `make_rows` (`message::rows_of_any`),
    /// also reads each message, verifies its hash, and compares the rows that derive from it.
    ///
    /// # Errors
    /// `Stopped` if `on_progress` stops the check; those of the engine.
    pub fn check_deep(
        &self,
        make_rows: Option<&check::MakeRowsFn<'_>>,
        on_progress: &mut check::ProgressFn<'_>,
    ) -> Result<check::CheckReport, Error> {
        let sizes = (self.0.committer.ranking(), self.0.thresholds);
        check::check_store(&*self.0.engine.sweeping_snapshot(), sizes, make_rows, on_progress)
    }

    /// Checks that the store still accepts writes.
    ///
    /// # Errors
    /// `Poisoned`, with the cause.
    pub fn health(&self) -> Result<(), Error> {
        self.0.committer.health()
    }

    /// Returns the number of commits that are queued or being written.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.committer.in_flight()
    }

    /// Removes what many deleted neighbouring rows leave in the engine's files, a part at a time,
    /// and returns whether it should be called again (`Engine::clear_remains`). It may take
    /// seconds; let time pass between two calls.
    pub fn clear_remains(&self) -> Result<bool, Error> {
        self.0.engine.clear_remains()
    }

    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.engine.statistics()
    }

    #[cfg(feature = "internals")]
    #[must_use]
    pub fn usage(&self) -> Vec<(&'static str, Usage)> {
        engine::Table::ALL.iter().map(|table| (table.name(), self.0.engine.usage(*table))).collect()
    }
}

#[cfg(test)]
mod tests;
