//! Transactions, from which the committer takes its batches.
//!
//! A `Txn` reads what will be on disk when its batch is written: the rows on disk, over them the
//! account's queued rows, and over these the rows that it has staged. It sees no queued rows of
//! other accounts, except those in one batch with rows of this one (`Store::commit_together`), and
//! none that several batches share (`Batch::shared`).

pub(in crate::store) mod changes;
pub(in crate::store) mod committer;
pub(in crate::store) mod history;
#[cfg(any(test, feature = "internals"))]
mod inspect;
mod read_rows;
pub(in crate::store) mod repair_guard;
pub(in crate::store) mod snapshot;
pub(in crate::store) mod sweep;

use std::sync::Arc;

pub use crate::store::txn::committer::{CommitResults, Ticket};
pub(in crate::store) use crate::store::txn::committer::{Committer, SharedRows};
pub(in crate::store) use crate::store::txn::sweep::THREAD_REFS;

use crate::model::{
    AccountId, Change, DataType, EmailId, MailboxUid, ModSeq, ObjectKind, ThreadId, UtcMillis,
};
use crate::store::Thresholds;
use crate::store::account::mailbox_tree::MailboxTree;
use crate::store::account::shares::ShareChange;
use crate::store::engine::overlay::{Overlay, StagedRows, scan_merged};
use crate::store::engine::segments::Segments;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::engine::{Base, Batch, Engine, Put, RowFn, RowReader, Table};
use crate::store::error::Error;
use crate::store::listing::rank::Ranking;
use crate::store::row::{AccountStateRow, RowFormat};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{AccountKey, EmailKey, MailboxKey, SiteKey, ThreadIdKey};
use crate::store::table::{self, AccountState, Encoded, Home, Objects, Site};
use crate::store::txn::read_rows::ReadRows;
use crate::store::txn::snapshot::Snapshot;

/// A change of one account, made under the account's lock.
pub struct Txn<'s> {
    pub(in crate::store) account: AccountId,
    /// The time of the commit. It stays the same if the change is run again.
    pub(in crate::store) now: UtcMillis,
    pub(in crate::store) engine: &'s dyn Engine,
    /// The state to read if other processes write to the same store. `None` if not: then the newest
    /// state is read. While the account is locked, only its queued batches change its rows there.
    pub(in crate::store) snapshot: Option<Box<dyn RowReader + 's>>,
    pub(in crate::store) ranking: Ranking,
    pub(in crate::store) thresholds: Thresholds,
    /// The account's queued batches, oldest first.
    pub(in crate::store) pending: Vec<Arc<Batch>>,
    /// `Base::version` of the account on which the change is based.
    pub(in crate::store) base: u64,
    /// Rows on disk that the change has read.
    read_rows: ReadRows,
    /// The rows that the change has written or deleted so far.
    pub(in crate::store) stage: StagedRows,
    /// Rows that must be as they are here when the batch is written (`assert_unchanged`).
    pub(in crate::store) asserts: Vec<Put>,
    /// The account's state as the change leaves it. `finish` stages it if it changed.
    pub(in crate::store) state: AccountStateRow,
    /// The bytes of the account's state when the transaction began; `None` if it had none.
    pub(in crate::store) state_before: Option<Vec<u8>>,
    /// The account's state when the transaction began; a fresh one if it had none, or a damaged
    /// one.
    before: AccountStateRow,
    /// The live mailboxes, once a change of a mailbox has read them. Only the functions of
    /// `store::account::mailboxes` change what is in it.
    pub(in crate::store) mailbox_tree: Option<MailboxTree>,
    /// For notifications to guests (`take_share_changes`).
    pub(in crate::store) share_changes: Vec<ShareChange>,
}

impl std::fmt::Debug for Txn<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Txn")
            .field("account", &self.account)
            .field("staged", &self.stage.len())
            .finish_non_exhaustive()
    }
}

impl<'s> Txn<'s> {
    /// Begins a transaction. The caller holds the account's lock; `pending` are the account's
    /// queued batches.
    ///
    /// # Errors
    /// Those of reading. `Rebuilding` if another process repairs the account, and `Corrupt` if the
    /// account's state cannot be read; but neither if `is_repair`.
    pub(in crate::store) fn begin(
        account: AccountId,
        now: UtcMillis,
        engine: &'s dyn Engine,
        ranking: Ranking,
        thresholds: Thresholds,
        pending: Vec<Arc<Batch>>,
        is_repair: bool,
    ) -> Result<Self, Error> {
        let mut txn = Self {
            account,
            now,
            engine,
            // Made after `pending` was read, so that every batch is in one of the two.
            snapshot: engine.is_shared().then(|| engine.snapshot()),
            ranking,
            thresholds,
            pending,
            base: 0,
            read_rows: ReadRows::default(),
            stage: StagedRows::new(),
            asserts: Vec::new(),
            state: AccountStateRow::fresh(),
            state_before: None,
            before: AccountStateRow::fresh(),
            mailbox_tree: None,
            share_changes: Vec::new(),
        };
        let queued = txn
            .pending
            .iter()
            .rev()
            .flat_map(|batch| &batch.bases)
            .find(|base| base.account == account);
        txn.base = match queued {
            Some(queued) => queued.version + 1,
            None => txn.stored().base(account)?,
        };
        // The committer knows only the repairs of this process.
        if txn.snapshot.is_some()
            && !is_repair
            && txn.bytes::<Site>(&SiteKey::Repair(account))?.is_some()
        {
            return Err(Error::Rebuilding(account));
        }
        let key = txn.account_key();
        txn.state_before = txn.bytes::<AccountState>(&key)?;
        if let Some(row) = &txn.state_before {
            match AccountStateRow::from_bytes(Table::AccountState, &key.encode(), row) {
                Ok(state) => (txn.before, txn.state) = (state.clone(), state),
                // A repair writes a damaged row anew.
                Err(_) if is_repair => {}
                Err(error) => return Err(error),
            }
        }
        Ok(txn)
    }

    /// Reads the rows on disk, without queued and staged ones.
    pub(in crate::store) fn stored(&self) -> &dyn RowReader {
        match &self.snapshot {
            Some(snapshot) => &**snapshot,
            None => self.engine,
        }
    }

    #[must_use]
    pub fn account(&self) -> AccountId {
        self.account
    }

    #[must_use]
    pub fn now(&self) -> UtcMillis {
        self.now
    }

    #[must_use]
    pub fn state(&self) -> &AccountStateRow {
        &self.state
    }

    /// Reads the account as this transaction leaves it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::of(Box::new(self), self.thresholds)
    }

    /// Takes and returns the next change number. The caller then marks the data types that the
    /// change concerns (`touch`).
    pub(in crate::store) fn next_modseq(&mut self) -> ModSeq {
        self.state.modseq = self.state.modseq.next();
        self.state.modseq
    }

    /// Marks a data type as changed by the newest change number.
    pub(in crate::store) fn touch(&mut self, data: DataType) {
        if let Some(mark) = self.state.high.get_mut(data as usize) {
            *mark = self.state.modseq;
        }
    }

    pub(in crate::store) fn account_key(&self) -> AccountKey {
        AccountKey { account: self.account }
    }

    pub(in crate::store) fn email_key(&self, email: EmailId) -> EmailKey {
        EmailKey { account: self.account, email }
    }

    pub(in crate::store) fn mailbox_key(&self, mailbox: MailboxUid) -> MailboxKey {
        MailboxKey { account: self.account, mailbox }
    }

    pub(in crate::store) fn thread_key(&self, thread: ThreadId) -> ThreadIdKey {
        ThreadIdKey { account: self.account, thread }
    }

    pub(in crate::store) fn put<T: table::Table<Row: RowFormat>>(
        &mut self,
        key: &T::Key,
        row: &T::Row,
    ) {
        self.stage_row(T::ID, key.encode(), Some(row.to_bytes()));
    }

    /// Stages a row whose bytes were encoded by `store::row`.
    pub(in crate::store) fn put_bytes<T: table::Table<Row = Encoded>>(
        &mut self,
        key: &T::Key,
        bytes: Vec<u8>,
    ) {
        self.stage_row(T::ID, key.encode(), Some(bytes));
    }

    /// Stages the deletion of a row, which need not exist.
    pub(in crate::store) fn delete<T: table::Table>(&mut self, key: &T::Key) {
        self.stage_row(T::ID, key.encode(), None);
    }

    /// Says that there is no such row, so that it is not looked up.
    pub(in crate::store) fn note_absent<T: table::Table>(&self, key: &T::Key) {
        self.read_rows.remember(T::ID, &key.encode(), None);
    }

    /// Stages the deletion of the first `limit` rows of a range and returns their number. Damaged
    /// rows are deleted, too.
    pub(in crate::store) fn delete_range<T: table::Table>(
        &mut self,
        range: &KeyRange<T>,
        limit: usize,
    ) -> Result<usize, Error> {
        let mut keys = Vec::new();
        if limit > 0 {
            self.raw_rows(range, |key, _| {
                keys.push(key.to_vec());
                Ok(keys.len() < limit)
            })?;
        }
        let rows = keys.len();
        keys.into_iter().for_each(|key| self.stage_row(T::ID, key, None));
        Ok(rows)
    }

    /// Stages a row, or its deletion, in a table that is only known at run time.
    pub(in crate::store) fn stage_row(
        &mut self,
        table: Table,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) {
        if value.is_some() {
            self.assert_at_home(table, &key);
        }
        self.stage.insert((table, key), value);
    }

    /// Asserts in debug builds that the key is well formed and that this account may write it.
    pub(in crate::store) fn assert_at_home(&self, table: Table, key: &[u8]) {
        debug_assert_eq!(table.check_key(key), Ok(()));
        let is_home = match table.home() {
            Home::Account => key.starts_with(&self.account.0.to_be_bytes()),
            // The repair of an account also writes its addresses and its mark; `register`, for
            // tests, an address.
            Home::Site => {
                self.account == AccountId::SITE
                    || table == Table::Addresses
                    || SiteKey::is_repair_of(key, self.account)
            }
            Home::Message | Home::Hint => true,
        };
        debug_assert!(is_home, "account {} writes {} of another home", self.account, table);
    }

    /// Asserts that a row has this value when the batch is written. If not, nothing is written, and
    /// the ticket fails with `Overtaken`, or the change is run again (`Engine::is_shared`).
    pub(in crate::store) fn assert_unchanged<T: table::Table>(
        &mut self,
        key: &T::Key,
        value: Vec<u8>,
    ) {
        self.asserts.push(Put { table: T::ID, key: key.encode(), value: Some(value) });
    }

    /// Raises the low mark of a data type: changes up to `purged` can no longer be reported.
    pub(in crate::store) fn raise_low_mark(&mut self, data: DataType, purged: ModSeq) {
        if let Some(mark) = self.state.low.get_mut(data as usize) {
            *mark = purged.max(*mark);
        }
    }

    /// Stages the account's state even if it has not changed.
    pub(in crate::store) fn stage_state(&mut self) {
        let row = self.state.to_bytes();
        self.stage_row(Table::AccountState, self.account_key().encode(), Some(row));
    }

    /// Ends the transaction. Returns the batch and the change for the listeners, or `None` if no
    /// row was staged: then changes of `state` and assertions are dropped, too.
    pub(in crate::store) fn finish(mut self) -> Option<(Batch, Change)> {
        if self.stage.is_empty() {
            return None;
        }
        let key = self.account_key().encode();
        let types = DataType::ALL.iter().zip(self.state.high.iter().zip(&self.before.high));
        let types = types
            .filter(|(_, (now, was))| now != was)
            .map(|(data, (now, _))| (*data, *now))
            .collect();
        let unchanged_state =
            Put { table: Table::AccountState, key: key.clone(), value: self.state_before.take() };
        if self.state != self.before {
            self.stage.insert((Table::AccountState, key), Some(self.state.to_bytes()));
        }
        let puts =
            self.stage.into_iter().map(|((table, key), value)| Put { table, key, value }).collect();
        let mut asserts = self.asserts;
        asserts.push(unchanged_state);
        let bases = vec![Base { account: self.account, version: self.base }];
        let batch = Batch { bases, puts, shared: None, asserts };
        let subscriptions =
            KeyRange::<Objects>::under(&(self.account, ObjectKind::PushSubscription));
        let change = Change {
            account: self.account,
            types,
            writes_push_subscription: batch.sets_any(&subscriptions),
            remains: false,
        };
        Some((batch, change))
    }
}

impl RowReader for Txn<'_> {
    fn segments(&self) -> Option<&Segments> {
        self.stored().segments()
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if let Some(staged) = self.stage.get(&(table, key.to_vec())) {
            return Ok(staged.clone());
        }
        if let Some(queued) = self.pending.iter().rev().find_map(|batch| batch.get(table, key)) {
            return Ok(queued.map(<[u8]>::to_vec));
        }
        self.read_rows.get_or_read(table, key, || self.stored().get(table, key))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        let range = [from, to];
        let overlay = Overlay::of(&self.pending, &self.stage, table, range, reverse);
        scan_merged(self.stored(), overlay, table, range, each)
    }
}
