//! Repairs what a check finds, from the rows that are right
//! (`docs/storage.md`, "Decide which row is right").
//!
//! - A repair first marks the account, by a row of the site. Until the mark is gone, other commits
//!   to the account are refused, and so are reads of the account by snapshots, in the tables that a
//!   repair rewrites (`RepairMethod::closes_account`, `RepairGuard`).
//! - A marked account is checked in rounds, each of which writes the rows that it finds wrong, or
//!   leaves some of them to a round with wider options.
//! - A repair may be killed at any point: the mark stays, and a later repair goes on.
//! - If clients may have seen something that was wrong, the account's history begins anew, and
//!   earlier states are refused.

pub mod check;
mod mend;
pub(in crate::store) mod references;

use crate::model::AccountId;
use crate::store::Store;
use crate::store::Thresholds;
use crate::store::account::site_check::site_state_fault;
use crate::store::engine::{RowReader, Table};
use crate::store::error::Error;
use crate::store::repair::check::{
    Breach, CheckObserver as _, CheckOptions, CheckRun, MakeRowsFn, ProgressFn, RowFault, RowFix,
};
pub use crate::store::row::RepairScope;
use crate::store::table::RepairMethod;
use crate::store::version;

/// What `Store::repair` did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The number of accounts that were checked.
    pub accounts: usize,
    /// The accounts that were marked, and those of which rows in the shared tables were deleted.
    pub repaired: Vec<AccountId>,
    /// The accounts of `repaired` whose history begins anew.
    pub history_restarted: Vec<AccountId>,
    /// The number of rows that were written or deleted to fix faults.
    pub written: u64,
    /// The first `MAX_LISTED` of the faults that `unrepaired_count` counts.
    pub unrepaired: Vec<Breach>,
    /// The number of faults that a repair leaves as they are (`RowFix::Nothing`). Faults in the
    /// shared tables are not counted.
    pub unrepaired_count: u64,
}

/// The most rounds over one account, but for one more if its history must begin anew. Each round
/// writes what it finds, so few are needed. The bound ends a repair whose fixes contradict each
/// other: what is wrong then stays so, and the account is opened again.
const MAX_ROUNDS: u32 = 8;
/// The most unrepaired faults that a report lists.
const MAX_LISTED: usize = 1000;

/// Whether a repair of this scope concerns itself with a fault. `Reindex` is for the search index
/// and the counters in the account's state that belong to it, which clients do not see.
fn covers(scope: RepairScope, fault: &RowFault) -> bool {
    scope != RepairScope::Reindex
        || match fault.table.repair() {
            RepairMethod::SearchIndex => true,
            RepairMethod::State => !fault.seen_by_clients,
            _ => false,
        }
}

/// The rows that the next commit of a repair writes.
#[derive(Default)]
struct RepairBatch {
    /// Without a value, the row is deleted.
    rows: Vec<(Table, Vec<u8>, Option<Vec<u8>>)>,
    /// The bytes of keys and values.
    bytes: usize,
}

/// What one check of an account found, of the faults that the scope covers.
#[derive(Default)]
struct RepairRound {
    /// The number of faults that the repair can fix.
    repairable: u64,
    /// Whether clients may have seen one of these.
    seen_by_clients: bool,
    /// Whether one of these is in the search index.
    is_index_faulty: bool,
    /// The first `MAX_LISTED` of the faults that `unrepaired_count` counts.
    unrepaired: Vec<Breach>,
    unrepaired_count: u64,
}

impl Store {
    /// Repairs the named accounts, or all (`None`), and then their rows in the tables that all
    /// accounts share; a `Reindex` leaves these out. `make_rows` makes the rows of a message again.
    /// Returns when everything that it wrote is durable.
    ///
    /// # Errors
    /// `NotFound` if a named account does not exist; `Stopped` if `on_progress` returned false; any
    /// error of reading or writing. What was written stays, and a marked account stays marked.
    pub fn repair(
        &self,
        scope: RepairScope,
        accounts: Option<&[AccountId]>,
        make_rows: &MakeRowsFn<'_>,
        on_progress: &mut ProgressFn<'_>,
    ) -> Result<RepairReport, Error> {
        let (existing, addresses) = check::accounts_with_rows(&*self.0.engine.snapshot())?;
        let named: Vec<AccountId> = match accounts {
            Some(named) => named.to_vec(),
            None => existing.clone(),
        };
        if named.iter().any(|account| !existing.contains(account)) {
            return Err(Error::NotFound("account"));
        }
        let run = CheckRun::new(on_progress, named.len());
        let mut done = RepairReport { accounts: named.len(), ..RepairReport::default() };
        let options = CheckOptions {
            make_rows: Some(make_rows),
            refold: false,
            restart_history: false,
            check_earlier_tokens: false,
            addresses: &addresses,
            ranking: self.0.committer.ranking(),
            thresholds: self.0.thresholds,
        };
        for account in &named {
            self.repair_one(*account, scope, options, &run, &mut done)?;
        }
        if scope != RepairScope::Reindex {
            run.enter(AccountId::SITE);
            self.repair_shared(accounts.map(|_| named.as_slice()), &run, &mut done)?;
        }
        done.written = run.progress().written;
        Ok(done)
    }

    /// Returns the accounts that are marked, each with the scope of its repair.
    pub fn accounts_under_repair(&self) -> Result<Vec<(AccountId, RepairScope)>, Error> {
        version::accounts_under_repair(&*self.0.engine.snapshot())
    }

    /// Repairs one account if it is marked, if a rebuild is requested, or if it has a fault that
    /// the scope covers and the repair can fix.
    fn repair_one(
        &self,
        account: AccountId,
        requested: RepairScope,
        options: CheckOptions<'_>,
        run: &CheckRun<'_>,
        done: &mut RepairReport,
    ) -> Result<(), Error> {
        let marked = self
            .accounts_under_repair()?
            .into_iter()
            .find(|(id, _)| *id == account)
            .map(|(_, scope)| scope);
        run.enter(account);
        let mut scope = requested;
        let mut refold = marked.is_some() || requested == RepairScope::Rebuild;
        if let Some(begun) = marked {
            // An earlier repair was not finished. It may have had another scope than this one, and
            // have left rows of any table half written, so a `Reindex` becomes a `Repair`.
            scope = if begun == RepairScope::Rebuild || requested == RepairScope::Rebuild {
                RepairScope::Rebuild
            } else {
                RepairScope::Repair
            };
        } else if requested != RepairScope::Rebuild {
            let found = self.preview_repair(account, scope, options, run)?;
            if found.repairable == 0 {
                done.add_unrepaired(found);
                return Ok(());
            }
            if found.seen_by_clients {
                scope = RepairScope::Rebuild;
            }
            refold = found.is_index_faulty || scope == RepairScope::Rebuild;
        }
        self.mark_account(account, scope)?;
        let mut rounds = 0;
        let last = loop {
            let round = self.repair_round(
                account,
                CheckOptions { refold, restart_history: scope == RepairScope::Rebuild, ..options },
                scope,
                run,
            )?;
            rounds += 1;
            // Another round, until one finds nothing to fix. If a fault of the search index or one
            // that clients may have seen was found, the next rounds have wider options.
            if round.is_index_faulty && !refold && rounds < MAX_ROUNDS {
                refold = true;
            } else if round.seen_by_clients && scope == RepairScope::Repair {
                scope = RepairScope::Rebuild;
                self.mark_account(account, scope)?;
            } else if round.repairable == 0 || rounds >= MAX_ROUNDS {
                break round;
            }
        };
        let refuse_states = scope == RepairScope::Rebuild;
        self.commit_repair(account, |txn| {
            if refuse_states {
                txn.refuse_states()?;
            }
            txn.end_repair();
            Ok(())
        })?;
        self.0.committer.end_repair(account);
        done.repaired.push(account);
        if refuse_states {
            done.history_restarted.push(account);
        }
        done.add_unrepaired(last);
        Ok(())
    }

    /// Finds what a repair would change, while the account stays open.
    fn preview_repair(
        &self,
        account: AccountId,
        scope: RepairScope,
        options: CheckOptions<'_>,
        run: &CheckRun<'_>,
    ) -> Result<RepairRound, Error> {
        let mut round = RepairRound::default();
        // Tokens by the rules of an earlier version are a reason for a reindex, and only for it.
        // The rounds need not compare them: they make all tokens again (`refold`).
        let options =
            CheckOptions { check_earlier_tokens: scope == RepairScope::Reindex, ..options };
        let read = self.0.engine.sweeping_snapshot();
        check::check_account(&*read, run, account, options, &mut |fault| {
            round.note_fault(&fault, scope);
            Ok(())
        })?;
        Ok(round)
    }

    /// Checks the account once, and writes the fixes that these options and this scope allow.
    fn repair_round(
        &self,
        account: AccountId,
        options: CheckOptions<'_>,
        scope: RepairScope,
        run: &CheckRun<'_>,
    ) -> Result<RepairRound, Error> {
        let (mut round, mut gather) = (RepairRound::default(), RepairBatch::default());
        let Thresholds { repair_rows, repair_bytes, .. } = self.0.thresholds;
        let read = self.0.engine.sweeping_snapshot();
        check::check_account(&*read, run, account, options, &mut |fault| {
            // These wait for a later round, whose options rewrite the history or the search index.
            let needs_rebuild = fault.seen_by_clients && scope != RepairScope::Rebuild;
            let needs_refold = fault.table.repair() == RepairMethod::SearchIndex && !options.refold;
            if round.note_fault(&fault, scope) && !needs_rebuild && !needs_refold {
                let value = if let RowFix::Put(value) = fault.fix { Some(value) } else { None };
                gather.bytes += fault.key.len() + value.as_ref().map_or(0, Vec::len);
                gather.rows.push((fault.table, fault.key, value));
                if gather.rows.len() >= repair_rows || gather.bytes >= repair_bytes {
                    self.write_batch(account, &mut gather, run)?;
                }
            }
            Ok(())
        })?;
        self.write_batch(account, &mut gather, run)?;
        Ok(round)
    }

    fn write_batch(
        &self,
        account: AccountId,
        gather: &mut RepairBatch,
        run: &CheckRun<'_>,
    ) -> Result<(), Error> {
        let rows = std::mem::take(gather).rows;
        if rows.is_empty() {
            return Ok(());
        }
        let count = rows.len() as u64;
        self.commit_repair(account, |txn| txn.mend(rows.iter().cloned()))?;
        run.add_written(count);
        Ok(())
    }

    /// Marks the account, or changes the scope of its mark. If the mark could not be written and
    /// none is stored, other commits may write the account again.
    fn mark_account(&self, account: AccountId, scope: RepairScope) -> Result<(), Error> {
        let marked = self.commit_repair(account, |txn| {
            txn.begin_repair(scope);
            Ok(())
        });
        if marked.is_err() && !self.accounts_under_repair()?.iter().any(|(id, _)| *id == account) {
            self.0.committer.end_repair(account);
        }
        marked
    }

    /// Makes one commit of a repair. It is durable when this function returns.
    fn commit_repair(
        &self,
        account: AccountId,
        change: impl FnMut(&mut crate::store::Txn<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ((), ticket) = self.0.committer.commit_repair(self.0.clock.now(), account, change)?;
        ticket.wait_blocking()
    }

    /// Deletes rows of the tables that all accounts share: of the `named` accounts, or of all
    /// (`None`). Rows whose keys are damaged are reported for the site, so only a repair of all
    /// accounts deletes them. Such a repair first mends the site's state, which every other commit
    /// of the site must read.
    fn repair_shared(
        &self,
        named: Option<&[AccountId]>,
        run: &CheckRun<'_>,
        done: &mut RepairReport,
    ) -> Result<(), Error> {
        let mut strays: Vec<(AccountId, Table, Vec<u8>)> = Vec::new();
        let read = self.0.engine.snapshot();
        if named.is_none() {
            self.repair_site_state(&*read, run)?;
        }
        check::check_shared_tables(&*read, run, &mut |fault| {
            if named.is_none_or(|named| named.contains(&fault.account))
                && fault.fix == RowFix::Delete
            {
                strays.push((fault.account, fault.table, fault.key));
            }
            if strays.len() >= self.0.thresholds.repair_rows {
                self.drop_strays(&mut strays, run, done)?;
            }
            Ok(())
        })?;
        self.drop_strays(&mut strays, run, done)
    }

    /// Writes the site's state anew if it is lost, damaged or below an account id in use.
    fn repair_site_state(&self, read: &dyn RowReader, run: &CheckRun<'_>) -> Result<(), Error> {
        let Some(RowFault { table, key, fix: RowFix::Put(row), .. }) = site_state_fault(read)?
        else {
            return Ok(());
        };
        let written = self.commit_repair(AccountId::SITE, |txn| {
            txn.mend([(table, key.clone(), Some(row.clone()))])
        });
        self.0.committer.end_repair(AccountId::SITE);
        written?;
        run.add_written(1);
        Ok(())
    }

    /// Deletes these rows, those of one account in one commit, and empties `strays`. A row stays if
    /// what it leads to exists by then.
    fn drop_strays(
        &self,
        strays: &mut Vec<(AccountId, Table, Vec<u8>)>,
        run: &CheckRun<'_>,
        done: &mut RepairReport,
    ) -> Result<(), Error> {
        strays.sort_unstable();
        for rows in std::mem::take(strays).chunk_by(|one, other| one.0 == other.0) {
            let Some((account, ..)) = rows.first() else { continue };
            let rows: Vec<(Table, Vec<u8>)> =
                rows.iter().map(|(_, table, key)| (*table, key.clone())).collect();
            let (gone, ticket) = self.commit(*account, |txn| txn.drop_strays(&rows))?;
            ticket.wait_blocking()?;
            run.add_written(gone);
            if gone > 0 && *account != AccountId::SITE && !done.repaired.contains(account) {
                done.repaired.push(*account);
            }
        }
        Ok(())
    }
}

impl RepairRound {
    /// Counts a fault that the scope covers. Returns whether it is to be fixed: it is covered, and
    /// has a fix.
    fn note_fault(&mut self, fault: &RowFault, scope: RepairScope) -> bool {
        if !covers(scope, fault) {
            return false;
        }
        if fault.fix == RowFix::Nothing {
            self.unrepaired_count += 1;
            if self.unrepaired.len() < MAX_LISTED {
                self.unrepaired.push(fault.breach());
            }
            return false;
        }
        self.repairable += 1;
        self.seen_by_clients |= fault.seen_by_clients;
        self.is_index_faulty |= fault.table.repair() == RepairMethod::SearchIndex;
        true
    }
}

impl RepairReport {
    fn add_unrepaired(&mut self, round: RepairRound) {
        self.unrepaired_count += round.unrepaired_count;
        let room = MAX_LISTED.saturating_sub(self.unrepaired.len());
        self.unrepaired.extend(round.unrepaired.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests;
