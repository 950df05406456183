//! Checks the invariants of the store (`docs/storage.md`) by recounting its rows on one snapshot.
//! Writes nothing.
//!
//! Each table of an account is read in key order, beside the rows that should stand there (`rows`),
//! which come from the account's `census`. Each fault names its fix, which `repair` writes, or
//! `RowFix::Nothing`.

pub(in crate::store) mod census;
pub(in crate::store) mod rows;

use std::cell::{Cell, RefCell};
use std::fmt;

use crate::model::{AccountId, MessageRows};
use crate::store::Thresholds;
pub(in crate::store) use crate::store::account::directory_check::AddressesByAccount;
use crate::store::email::thread_refs_check::Refs;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::engine::{RowReader, Table};
use crate::store::error::{Error, hex};
use crate::store::listing::rank::Ranking;
use crate::store::repair::check::census::Census;
use crate::store::row::{AccountStateRow, RowFormat};
use crate::store::table::keys::AccountKey;
use crate::store::table::{self, AccountState, Accounts};
use crate::store::version;

/// A place where an invariant does not hold, as a check reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    pub account: AccountId,
    pub table: &'static str,
    /// In hex. If several keys are concerned, what their beginnings have in common.
    pub key: String,
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}: {}", self.account, self.table, self.key, self.what)
    }
}

/// How far a check or a repair has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The position of the account in the run: 1 for the first. The tables that all accounts share
    /// come last, as account 0, with the next number.
    pub number: usize,
    /// The number of accounts in the run, without account 0.
    pub accounts: usize,
    pub account: AccountId,
    pub table: &'static str,
    /// Rows that were read so far, of all accounts.
    pub rows: u64,
    /// Rows that the repair has written so far.
    pub written: u64,
}

/// Gets the progress whenever a row is of another table than the one before, and every 512 rows;
/// returns whether to go on.
pub type ProgressFn<'a> = dyn FnMut(&Progress) -> bool + 'a;

/// Makes the rows of a message that is given as received (`message::rows_of_any`).
pub type MakeRowsFn<'a> = dyn Fn(&[u8]) -> MessageRows + 'a;

/// What `Store::check_deep` found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The first `MAX_REPORTED_BREACHES` breaches.
    pub breaches: Vec<Breach>,
    /// The number of all breaches.
    pub count: u64,
    /// The number of accounts that were checked.
    pub accounts: usize,
    /// The number of rows that were read in the order of their keys.
    pub rows: u64,
}

/// The most breaches that a report lists, so that the report of a ruined store fits into memory.
pub(in crate::store) const MAX_REPORTED_BREACHES: usize = 10_000;

/// A row that is wrong, missing or should not be there, and what to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct RowFault {
    pub(in crate::store) account: AccountId,
    pub(in crate::store) table: Table,
    pub(in crate::store) key: Vec<u8>,
    pub(in crate::store) what: String,
    pub(in crate::store) fix: RowFix,
    /// Whether clients may have seen the fault: then their states are refused after the repair.
    pub(in crate::store) seen_by_clients: bool,
}

/// How a repair corrects a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum RowFix {
    /// A repair writes this value.
    Put(Vec<u8>),
    Delete,
    /// A repair leaves the row as it is: the store does not have what the row should say, or a
    /// person must decide.
    Nothing,
}

/// Gets each fault that a check finds. Its error ends the check.
pub(in crate::store) type FaultFn<'a> = dyn FnMut(RowFault) -> Result<(), Error> + 'a;

/// How an account is checked. In a plain check, every `bool` is `false`.
#[derive(Clone, Copy)]
pub(in crate::store) struct CheckOptions<'a> {
    /// In a deep check, the function by which the rows of each message are made again.
    pub(in crate::store) make_rows: Option<&'a MakeRowsFn<'a>>,
    /// Whether the search index begins anew: only token rows should exist.
    pub(in crate::store) refold: bool,
    /// Whether the history of listings begins anew: emails are shown since the change that created
    /// them. Rows that an earlier version made of messages are then made again, too.
    pub(in crate::store) restart_history: bool,
    /// Whether tokens that were made by the rules of an earlier version are compared, too.
    pub(in crate::store) check_earlier_tokens: bool,
    /// The addresses that lead to each account, as the run read them when it began.
    pub(in crate::store) addresses: &'a AddressesByAccount,
    pub(in crate::store) ranking: Ranking,
    pub(in crate::store) thresholds: Thresholds,
}

/// Learns how far a check has come, and may end it.
pub(in crate::store) trait CheckObserver {
    /// Called when the check of an account begins; account 0 stands for the shared tables.
    fn enter(&self, account: AccountId);

    /// Called after each row.
    ///
    /// # Errors
    /// `Stopped`, to end the check.
    fn step(&self, table: Table) -> Result<(), Error>;
}

/// Counts the rows of a check or a repair, and passes the counts on to the caller.
pub(in crate::store) struct CheckRun<'a> {
    pub(in crate::store) on_progress: RefCell<&'a mut ProgressFn<'a>>,
    pub(in crate::store) at: Cell<Progress>,
}

impl<'a> CheckRun<'a> {
    pub(in crate::store) fn new(on_progress: &'a mut ProgressFn<'a>, accounts: usize) -> Self {
        let (account, table) = (AccountId::SITE, "");
        let at = Cell::new(Progress { number: 0, accounts, account, table, rows: 0, written: 0 });
        Self { on_progress: RefCell::new(on_progress), at }
    }

    pub(in crate::store) fn add_written(&self, rows: u64) {
        let at = self.at.get();
        self.at.set(Progress { written: at.written.saturating_add(rows), ..at });
    }

    pub(in crate::store) fn progress(&self) -> Progress {
        self.at.get()
    }
}

impl CheckObserver for CheckRun<'_> {
    /// An account that is entered again, by another round of a repair, is not counted again.
    fn enter(&self, account: AccountId) {
        let at = self.at.get();
        let more = usize::from(at.account != account);
        self.at.set(Progress { number: at.number.saturating_add(more), account, ..at });
    }

    fn step(&self, table: Table) -> Result<(), Error> {
        const ROWS_PER_CALL: u64 = 512;
        let at = self.at.get();
        let new = Progress { table: table.name(), rows: at.rows.saturating_add(1), ..at };
        self.at.set(new);
        if new.table != at.table || new.rows.is_multiple_of(ROWS_PER_CALL) {
            let mut on_progress = self.on_progress.borrow_mut();
            if !on_progress(&new) {
                return Err(Error::Stopped);
            }
        }
        Ok(())
    }
}

/// The check of one account.
pub(in crate::store) struct Checker<'a> {
    pub(in crate::store) read: &'a dyn RowReader,
    pub(in crate::store) run: &'a dyn CheckObserver,
    pub(in crate::store) account: AccountId,
    pub(in crate::store) options: CheckOptions<'a>,
    pub(in crate::store) on_fault: RefCell<&'a mut FaultFn<'a>>,
    /// The account's state as it is stored; `None` if it cannot be read.
    pub(in crate::store) found_state: Option<AccountStateRow>,
    pub(in crate::store) census: Census,
    pub(in crate::store) refs: Refs,
}

/// Returns all accounts, ascending, and the addresses that lead to each. An account is one that has
/// a row in `accounts`, or has a state, or has both an address and a mailbox. Rows whose keys are
/// damaged are skipped: `check_unplaced_rows` reports them.
pub(in crate::store) fn accounts_with_rows(
    read: &dyn RowReader,
) -> Result<(Vec<AccountId>, AddressesByAccount), Error> {
    let mut all = std::collections::BTreeSet::new();
    let mut add = |key: Result<AccountKey, Error>, _: &[u8]| {
        all.extend(key.ok().map(|AccountKey { account }| account));
        Ok(true)
    };
    read.keys_or_damage::<AccountState>(&KeyRange::under(&()), &mut add)?;
    read.keys_or_damage::<Accounts>(&KeyRange::under(&()), &mut add)?;
    let addresses = crate::store::account::directory_check::read_addresses(read, &mut all)?;
    all.remove(&AccountId::SITE);
    Ok((all.into_iter().collect(), addresses))
}

pub(in crate::store) fn check_store(
    read: &dyn RowReader,
    (ranking, thresholds): (Ranking, Thresholds),
    make_rows: Option<&MakeRowsFn<'_>>,
    on_progress: &mut ProgressFn<'_>,
) -> Result<CheckReport, Error> {
    let (all, addresses) = accounts_with_rows(read)?;
    let mut report = CheckReport { accounts: all.len(), ..CheckReport::default() };
    let run = CheckRun::new(on_progress, all.len());
    let mut on_fault = |fault: RowFault| {
        report.count = report.count.saturating_add(1);
        if report.breaches.len() < MAX_REPORTED_BREACHES {
            report.breaches.push(fault.breach());
        }
        Ok(())
    };
    for id in all {
        let options = CheckOptions {
            make_rows,
            refold: false,
            restart_history: false,
            check_earlier_tokens: false,
            addresses: &addresses,
            ranking,
            thresholds,
        };
        check_account(read, &run, id, options, &mut on_fault)?;
    }
    run.enter(AccountId::SITE);
    for (id, _) in version::accounts_under_repair(read)? {
        let what = "a repair of this account was not finished: run `restante repair`".into();
        let key = version::repair_mark_key(id);
        on_fault(RowFault {
            account: id,
            table: Table::Site,
            key,
            what,
            fix: RowFix::Nothing,
            seen_by_clients: false,
        })?;
    }
    if let Some(fault) = crate::store::account::site_check::site_state_fault(read)? {
        on_fault(fault)?;
    }
    crate::store::account::site_check::check_sweeps(read, &run, &mut on_fault)?;
    crate::store::account::unplaced_check::check_unplaced_rows(read, &run, &mut on_fault)?;
    crate::store::account::directory_check::check_addresses(read, &run, &mut on_fault)?;
    crate::store::outbox::check::check_hints(read, &run, &mut on_fault)?;
    crate::store::blob::uploads_check::check_upload_blobs(read, &run, &mut on_fault)?;
    crate::store::account::shares_check::check_shared_rows(read, &run, &mut on_fault)?;
    crate::store::blob::check::check_messages(read, &run, make_rows.is_some(), &mut on_fault)?;
    report.rows = run.progress().rows;
    Ok(report)
}

/// Checks one account. Each step may need what the earlier steps put into the census.
pub(in crate::store) fn check_account<'a>(
    read: &'a dyn RowReader,
    run: &'a dyn CheckObserver,
    account: AccountId,
    options: CheckOptions<'a>,
    on_fault: &'a mut FaultFn<'a>,
) -> Result<(), Error> {
    run.enter(account);
    let found_state =
        read.row_if_any::<AccountState>(&AccountKey { account })?.and_then(Result::ok);
    let on_fault = RefCell::new(on_fault);
    let (census, refs) = (Census::default(), Refs::default());
    let mut checker = Checker { read, run, account, options, on_fault, found_state, census, refs };
    checker.check_registration()?;
    checker.check_mailboxes()?;
    checker.read_history()?;
    checker.check_emails()?;
    checker.check_uncertain_references()?;
    checker.check_email_indexes()?;
    checker.check_threads()?;
    checker.check_listings()?;
    checker.check_delivery_records()?;
    checker.check_search_index()?;
    checker.check_subscriptions()?;
    checker.check_upkeep_rows()?;
    checker.check_uploads()?;
    checker.check_objects()?;
    checker.check_shares()?;
    checker.check_state()
}

/// Finds what `Store::repair` mends after the accounts: wake-ups and references that name nothing,
/// in the tables that all accounts share; sweeps of the site that cannot be read; and rows whose
/// keys are damaged, in all these tables and in those that have one row for each account. The
/// site's state is mended before (`site_state_fault`).
pub(in crate::store) fn check_shared_tables(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    crate::store::account::site_check::check_sweeps(read, run, on_fault)?;
    crate::store::account::unplaced_check::check_unplaced_rows(read, run, on_fault)?;
    crate::store::outbox::check::check_hints(read, run, on_fault)?;
    crate::store::blob::uploads_check::check_upload_blobs(read, run, on_fault)?;
    crate::store::account::shares_check::check_shared_rows(read, run, on_fault)?;
    crate::store::blob::check::check_candidates_and_refs(read, run, on_fault)
}

impl RowFault {
    pub(in crate::store) fn breach(&self) -> Breach {
        Breach {
            account: self.account,
            table: self.table.name(),
            key: hex(&self.key),
            what: self.what.clone(),
        }
    }
}

impl Checker<'_> {
    /// Reports a fault of a row. Whether clients may have seen it depends on the table.
    pub(in crate::store) fn report(
        &self,
        table: Table,
        key: &[u8],
        what: impl Into<String>,
        fix: RowFix,
    ) -> Result<(), Error> {
        self.report_fault(table, key, what, fix, table.is_seen_by_clients())
    }

    pub(in crate::store) fn report_fault(
        &self,
        table: Table,
        key: &[u8],
        what: impl Into<String>,
        fix: RowFix,
        seen_by_clients: bool,
    ) -> Result<(), Error> {
        let fault = RowFault {
            account: self.account,
            table,
            key: key.to_vec(),
            what: what.into(),
            fix,
            seen_by_clients,
        };
        let mut on_fault = self.on_fault.borrow_mut();
        on_fault(fault)
    }

    /// Returns the row under a key; `None` if there is no such row or it cannot be decoded.
    pub(in crate::store) fn readable<T: table::Table<Row: RowFormat>>(
        &self,
        key: &T::Key,
    ) -> Result<Option<T::Row>, Error> {
        Ok(self.read.row_if_any::<T>(key)?.and_then(Result::ok))
    }

    /// Returns the account's state as it is stored, or that of a new account if it cannot be read.
    pub(in crate::store) fn state_or_fresh(&self) -> AccountStateRow {
        self.found_state.clone().unwrap_or_else(AccountStateRow::fresh)
    }
}
