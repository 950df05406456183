//! Proves the invariants of the store by recounting everything from scratch; writes nothing.
//!
//! 1. Each kept listing holds exactly the emails that match it, collapsed or not: one live list row
//!    and one index row that point at each other; its total and its ranks equal a recount. 2.
//!    `email_by_modseq` has one row for each email, `email_by_thread` one for each live one, and
//!    the `threads` rows equal a recount. 3. Counts equal a recount. 4. Every live email has
//!    content, and a token row or is in exactly one fold, and in a deep check those that are made
//!    of its message; folds are in order, and every row of them is of one that there is. 5. Every
//!    live email has its blob and its reference to it; in a deep check each blob has the hash that
//!    is its key. 6. No change number is above the account's, none stands for two changes. 7. Told
//!    rows belong to the current generation. 8. Queued actions and wake-ups point at each other;
//!    what an action sends is there. 9. Quota equals the sum of sizes. 10. A tombstone holds what
//!    restoring it needs, or nothing; a dead thread's row goes with the email that was its last;
//!    nothing is kept of emails that are not there. 11. Every message is held by an email, an
//!    action or an upload, or is to be looked at by the collection. 12. No low mark is above the
//!    newest change. 13. Every subscription names an existing mailbox. 14. In a deep check,
//!    messages lead to their threads by all their ids. 15. `object_by_modseq` has one row for each
//!    small object with a state. 16. Whom something is shared with finds it, and nobody else. 17.
//!    An account's addresses lead to it, and every address to an account that names it.
//!
//! Each table of an account is read once, in key order, beside what should stand there (`rows`);
//! what decides that is the account's `census`. An account of a million emails takes some 100 MB
//! while it is checked, and nothing afterwards. Every breach says what would mend it: `repair` is
//! this check, done to what it finds.

pub(in crate::store) mod census;
pub(in crate::store) mod rows;

use std::cell::{Cell, RefCell};
use std::fmt;

use crate::model::{AccountId, MessageRows};
use crate::store::Thresholds;
pub(in crate::store) use crate::store::account::directory_check::Leads;
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

/// One breach of an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    pub account: AccountId,
    pub table: &'static str,
    /// Under which key, in hex; empty where it is about several.
    pub key: String,
    /// What is wrong.
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
    /// Which account is looked at: the first is 1; behind the last come the tables that all share.
    pub number: usize,
    /// The number of accounts.
    pub accounts: usize,
    pub account: AccountId,
    pub table: &'static str,
    /// Rows that were looked at so far, over all accounts.
    pub rows: u64,
    /// Rows that were written so far: a check writes none.
    pub written: u64,
}

/// Hears how far it is, and says whether to go on.
pub type ProgressFn<'a> = dyn FnMut(&Progress) -> bool + 'a;

/// Makes the rows of a message anew: `message::rows`, which the store does not know.
pub type RemakeFn<'a> = dyn Fn(&[u8]) -> MessageRows + 'a;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The breaches: those beyond `MAX_REPORTED_BREACHES` are counted, not kept.
    pub breaches: Vec<Breach>,
    /// The number of breaches.
    pub count: u64,
    /// Accounts that were looked at.
    pub accounts: usize,
    /// Rows that were looked at.
    pub rows: u64,
}

/// Breaches that a report keeps.
pub(in crate::store) const MAX_REPORTED_BREACHES: usize = 10_000;

/// What is wrong with one row, and what should stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct RowFault {
    pub(in crate::store) account: AccountId,
    pub(in crate::store) table: Table,
    pub(in crate::store) key: Vec<u8>,
    pub(in crate::store) what: String,
    pub(in crate::store) mend: RowFix,
    /// Whether clients may have been told something that is not so: their states are refused after
    /// the repair.
    pub(in crate::store) history: bool,
}

/// What mends a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum RowFix {
    /// The row gets this value.
    Put(Vec<u8>),
    /// The row is deleted.
    Delete,
    /// Nothing that is still in the store.
    Nothing,
}

/// Hears of each fault.
pub(in crate::store) type FaultFn<'a> = dyn FnMut(RowFault) -> Result<(), Error> + 'a;

/// How an account is looked at.
#[derive(Clone, Copy)]
pub(in crate::store) struct CheckOptions<'a> {
    /// Whether each message is read, proved and its rows compared.
    pub(in crate::store) remake: Option<&'a RemakeFn<'a>>,
    /// Whether the search index begins anew: every email has a token row, and there are no folds.
    pub(in crate::store) refold: bool,
    /// Whether the history of listings begins anew: what is shown is shown since the change that
    /// made the email.
    pub(in crate::store) anew: bool,
    /// Whether tokens that were made by earlier rules are compared, too.
    pub(in crate::store) reread: bool,
    pub(in crate::store) leads: &'a Leads,
    pub(in crate::store) ranking: Ranking,
    pub(in crate::store) thresholds: Thresholds,
}

/// Hears which rows are read, and may end it.
pub(in crate::store) trait CheckObserver {
    /// The next account begins.
    fn enter(&self, account: AccountId);

    /// A row of a table was read.
    ///
    /// # Errors
    /// `Stopped`.
    fn step(&self, table: Table) -> Result<(), Error>;
}

/// What is shared by all accounts of one run.
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
    /// One that is looked at again, as a repair does in rounds, is still the same one.
    fn enter(&self, account: AccountId) {
        let at = self.at.get();
        let more = usize::from(at.account != account);
        self.at.set(Progress { number: at.number.saturating_add(more), account, ..at });
    }

    fn step(&self, table: Table) -> Result<(), Error> {
        const EVERY: u64 = 512;
        let at = self.at.get();
        let new = Progress { table: table.name(), rows: at.rows.saturating_add(1), ..at };
        self.at.set(new);
        if new.table != at.table || new.rows.is_multiple_of(EVERY) {
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
    pub(in crate::store) depth: CheckOptions<'a>,
    pub(in crate::store) on_fault: RefCell<&'a mut FaultFn<'a>>,
    /// As it stands there; `None` where it cannot be read.
    pub(in crate::store) found: Option<AccountStateRow>,
    pub(in crate::store) census: Census,
    pub(in crate::store) refs: Refs,
}

/// The accounts that have rows of their own, a state, or mailboxes and an address; with the
/// addresses that lead to each.
pub(in crate::store) fn accounts_with_rows(
    read: &dyn RowReader,
) -> Result<(Vec<AccountId>, Leads), Error> {
    let mut all = std::collections::BTreeSet::new();
    let mut add = |AccountKey { account }: AccountKey, _: &[u8]| {
        all.insert(account);
        Ok(true)
    };
    read.keys::<AccountState>(&KeyRange::under(&()), &mut add)?;
    read.keys::<Accounts>(&KeyRange::under(&()), &mut add)?;
    let leads = crate::store::account::directory_check::read_addresses(read, &mut all)?;
    all.remove(&AccountId::SITE);
    Ok((all.into_iter().collect(), leads))
}

/// Checks the whole store on one state of it.
pub(in crate::store) fn check_store(
    read: &dyn RowReader,
    (ranking, thresholds): (Ranking, Thresholds),
    remake: Option<&RemakeFn<'_>>,
    on_progress: &mut ProgressFn<'_>,
) -> Result<CheckReport, Error> {
    let (all, leads) = accounts_with_rows(read)?;
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
        let depth = CheckOptions {
            remake,
            refold: false,
            anew: false,
            reread: false,
            leads: &leads,
            ranking,
            thresholds,
        };
        check_account(read, &run, id, depth, &mut on_fault)?;
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
            mend: RowFix::Nothing,
            history: false,
        })?;
    }
    crate::store::account::directory_check::check_addresses(read, &run, &mut on_fault)?;
    crate::store::outbox::check::check_hints(read, &run, &mut on_fault)?;
    crate::store::blob::uploads_check::check_upload_blobs(read, &run, &mut on_fault)?;
    crate::store::account::shares_check::check_shared_rows(read, &run, &mut on_fault)?;
    crate::store::blob::check::check_messages(read, &run, remake.is_some(), &mut on_fault)?;
    report.rows = run.progress().rows;
    Ok(report)
}

/// Checks one account.
pub(in crate::store) fn check_account<'a>(
    read: &'a dyn RowReader,
    run: &'a dyn CheckObserver,
    account: AccountId,
    depth: CheckOptions<'a>,
    on_fault: &'a mut FaultFn<'a>,
) -> Result<(), Error> {
    run.enter(account);
    let found = read.row_if_any::<AccountState>(&AccountKey { account })?.and_then(Result::ok);
    let on_fault = RefCell::new(on_fault);
    let (census, refs) = (Census::default(), Refs::default());
    let mut checker = Checker { read, run, account, depth, on_fault, found, census, refs };
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

/// Hints and references that name nothing, in the tables that all accounts share.
pub(in crate::store) fn check_shared_tables(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    crate::store::outbox::check::check_hints(read, run, on_fault)?;
    crate::store::blob::uploads_check::check_upload_blobs(read, run, on_fault)?;
    crate::store::account::shares_check::check_shared_rows(read, run, on_fault)?;
    crate::store::blob::check::check_blob_refs(read, run, on_fault)
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
    pub(in crate::store) fn report(
        &self,
        table: Table,
        key: &[u8],
        what: impl Into<String>,
        mend: RowFix,
    ) -> Result<(), Error> {
        self.report_with_history(table, key, what, mend, table.is_seen_by_clients())
    }

    pub(in crate::store) fn report_with_history(
        &self,
        table: Table,
        key: &[u8],
        what: impl Into<String>,
        mend: RowFix,
        history: bool,
    ) -> Result<(), Error> {
        let fault = RowFault {
            account: self.account,
            table,
            key: key.to_vec(),
            what: what.into(),
            mend,
            history,
        };
        let mut on_fault = self.on_fault.borrow_mut();
        on_fault(fault)
    }

    /// The row under a key, if there is one that can be read.
    pub(in crate::store) fn readable<T: table::Table<Row: RowFormat>>(
        &self,
        key: &T::Key,
    ) -> Result<Option<T::Row>, Error> {
        Ok(self.read.row_if_any::<T>(key)?.and_then(Result::ok))
    }

    /// What the account's state should be, as far as it is known.
    pub(in crate::store) fn state_or_fresh(&self) -> AccountStateRow {
        self.found.clone().unwrap_or_else(AccountStateRow::fresh)
    }
}
