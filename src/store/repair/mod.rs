//! Repair: what a check finds is put right, from what is authoritative
//! (`docs/storage.md`, "Decide which row is right").
//!
//! An account in order is not touched, and its deliveries are not stopped. One that is not is
//! marked, and from then on nobody else writes or reads it: deliveries to it are put off (451
//! 4.3.0), and all other accounts go on. Then it is checked again in rounds, and every row that is
//! not as it should be is written so, in batches, until a round finds nothing. It may be killed at
//! any point: the mark stays, and the next repair, or the next start of the service, goes on.
//!
//! Where anything of which clients know was wrong, the account's history begins anew: listings show
//! each email since the change that made it, and every state of before is refused
//! (`cannotCalculateChanges`), so that no client goes on with what was not so. What cannot be made
//! again is named and left as it is.

pub mod check;
mod mend;
pub(in crate::store) mod references;

use crate::model::AccountId;
use crate::store::Store;
use crate::store::Thresholds;
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::repair::check::{
    Breach, CheckObserver as _, CheckOptions, CheckRun, ProgressFn, RemakeFn, RowFault, RowFix,
};
pub use crate::store::row::RepairScope;
use crate::store::table::RepairMethod;
use crate::store::version;

/// The outcome of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Accounts that were looked at.
    pub accounts: usize,
    /// Accounts of which something was written.
    pub mended: Vec<AccountId>,
    /// Those of them whose clients' states are refused.
    pub renewed: Vec<AccountId>,
    /// Rows that were written.
    pub written: u64,
    /// What could not be mended, the first of it.
    pub left: Vec<Breach>,
    /// How many faults could not be mended.
    pub left_count: u64,
}

/// Rounds after which what is still wrong is left: two are the most that were ever seen to be
/// needed.
const MAX_ROUNDS: u32 = 8;
/// Of what is left, how much is named.
const MAX_LISTED: usize = 1000;

/// Whether a repair may mend this.
fn covers(scope: RepairScope, fault: &RowFault) -> bool {
    scope != RepairScope::Reindex
        || match fault.table.repair() {
            RepairMethod::SearchIndex => true,
            RepairMethod::State => !fault.history,
            _ => false,
        }
}

/// One batch that is being gathered.
#[derive(Default)]
struct RepairBatch {
    rows: Vec<(Table, Vec<u8>, Option<Vec<u8>>)>,
    octets: usize,
}

/// What one round found.
#[derive(Default)]
struct RepairRound {
    mended: u64,
    /// Something that clients know of, while history does not begin anew.
    history: bool,
    /// Something of the search index.
    search: bool,
    left: Vec<Breach>,
    left_count: u64,
}

impl Store {
    /// Puts right what is wrong, in these accounts or in all. `remake` is `message::rows`.
    ///
    /// # Errors
    /// `NotFound` for an account that is not there; `Stopped`; those of reading and writing. What
    /// was done stays, and a marked account stays marked.
    pub fn repair(
        &self,
        scope: RepairScope,
        accounts: Option<&[AccountId]>,
        remake: &RemakeFn<'_>,
        on_progress: &mut ProgressFn<'_>,
    ) -> Result<RepairReport, Error> {
        let (known, leads) = check::accounts_with_rows(&*self.0.engine.snapshot())?;
        let named: Vec<AccountId> = match accounts {
            Some(named) => named.to_vec(),
            None => known.clone(),
        };
        if named.iter().any(|account| !known.contains(account)) {
            return Err(Error::NotFound("account"));
        }
        let run = CheckRun::new(on_progress, named.len());
        let mut done = RepairReport { accounts: named.len(), ..RepairReport::default() };
        let depth = CheckOptions {
            remake: Some(remake),
            refold: false,
            anew: false,
            reread: false,
            leads: &leads,
            ranking: self.0.committer.ranking(),
            thresholds: self.0.thresholds,
        };
        for account in &named {
            self.repair_one(*account, scope, depth, &run, &mut done)?;
        }
        if scope != RepairScope::Reindex {
            run.enter(AccountId::SITE);
            self.repair_shared(&named, &run, &mut done)?;
        }
        done.written = run.progress().written;
        Ok(done)
    }

    /// The accounts that are marked, and what for.
    ///
    /// # Errors
    /// Those of reading.
    pub fn accounts_under_repair(&self) -> Result<Vec<(AccountId, RepairScope)>, Error> {
        version::accounts_under_repair(&*self.0.engine.snapshot())
    }

    fn repair_one(
        &self,
        account: AccountId,
        wished: RepairScope,
        depth: CheckOptions<'_>,
        run: &CheckRun<'_>,
        done: &mut RepairReport,
    ) -> Result<(), Error> {
        let marked = self
            .accounts_under_repair()?
            .into_iter()
            .find(|(id, _)| *id == account)
            .map(|(_, scope)| scope);
        run.enter(account);
        let mut scope = wished;
        let mut refold = marked.is_some() || wished == RepairScope::Rebuild;
        if let Some(begun) = marked {
            // What an earlier one began is ended first, and is the more of both.
            scope = if begun == RepairScope::Rebuild || wished == RepairScope::Rebuild {
                RepairScope::Rebuild
            } else {
                RepairScope::Repair
            };
        } else if wished != RepairScope::Rebuild {
            let found = self.preview_repair(account, scope, depth, run)?;
            if found.mended == 0 {
                done.add_unrepaired(found);
                return Ok(());
            }
            if found.history {
                scope = RepairScope::Rebuild;
            }
            refold = found.search || found.history;
        }
        self.mark_account(account, scope)?;
        let mut rounds = 0;
        let last = loop {
            let round = self.repair_round(
                account,
                CheckOptions { refold, anew: scope == RepairScope::Rebuild, ..depth },
                scope,
                run,
            )?;
            rounds += 1;
            if round.search && !refold && rounds < MAX_ROUNDS {
                refold = true;
            } else if round.history && scope == RepairScope::Repair {
                scope = RepairScope::Rebuild;
                self.mark_account(account, scope)?;
            } else if round.mended == 0 || rounds >= MAX_ROUNDS {
                break round;
            }
        };
        let is_new = scope == RepairScope::Rebuild;
        self.commit_repair(account, |txn| {
            if is_new {
                txn.refuse_states()?;
            }
            txn.end_repair();
            Ok(())
        })?;
        self.0.committer.end_repair(account);
        done.mended.push(account);
        if is_new {
            done.renewed.push(account);
        }
        done.add_unrepaired(last);
        Ok(())
    }

    /// Finds what a repair would change, while the account stays open.
    fn preview_repair(
        &self,
        account: AccountId,
        scope: RepairScope,
        depth: CheckOptions<'_>,
        run: &CheckRun<'_>,
    ) -> Result<RepairRound, Error> {
        let mut round = RepairRound::default();
        let depth = CheckOptions { reread: scope == RepairScope::Reindex, ..depth };
        let read = self.0.engine.sweeping_snapshot();
        check::check_account(&*read, run, account, depth, &mut |fault| {
            round.note_fault(&fault, scope);
            Ok(())
        })?;
        Ok(round)
    }

    /// Checks a marked account once, and writes what it finds wrong.
    fn repair_round(
        &self,
        account: AccountId,
        depth: CheckOptions<'_>,
        scope: RepairScope,
        run: &CheckRun<'_>,
    ) -> Result<RepairRound, Error> {
        let (mut round, mut gather) = (RepairRound::default(), RepairBatch::default());
        let Thresholds { repair_rows, repair_bytes, .. } = self.0.thresholds;
        let read = self.0.engine.sweeping_snapshot();
        check::check_account(&*read, run, account, depth, &mut |fault| {
            let is_told = fault.history && scope != RepairScope::Rebuild;
            let is_whole = fault.table.repair() == RepairMethod::SearchIndex && !depth.refold;
            if round.note_fault(&fault, scope) && !is_told && !is_whole {
                let value = if let RowFix::Put(value) = fault.mend { Some(value) } else { None };
                gather.octets += fault.key.len() + value.as_ref().map_or(0, Vec::len);
                gather.rows.push((fault.table, fault.key, value));
                if gather.rows.len() >= repair_rows || gather.octets >= repair_bytes {
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

    /// One commit of a repair, durable when this returns.
    fn commit_repair(
        &self,
        account: AccountId,
        change: impl FnMut(&mut crate::store::Txn<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ((), ticket) = self.0.committer.commit_repair(self.0.clock.now(), account, change)?;
        ticket.wait_blocking()
    }

    /// The tables that all accounts share.
    fn repair_shared(
        &self,
        named: &[AccountId],
        run: &CheckRun<'_>,
        done: &mut RepairReport,
    ) -> Result<(), Error> {
        let mut strays: Vec<(AccountId, Table, Vec<u8>)> = Vec::new();
        let read = self.0.engine.snapshot();
        check::check_shared_tables(&*read, run, &mut |fault| {
            if named.contains(&fault.account) {
                strays.push((fault.account, fault.table, fault.key));
            }
            if strays.len() >= self.0.thresholds.repair_rows {
                self.drop_strays(&mut strays, run, done)?;
            }
            Ok(())
        })?;
        self.drop_strays(&mut strays, run, done)
    }

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
            if gone > 0 && !done.mended.contains(account) {
                done.mended.push(*account);
            }
        }
        Ok(())
    }
}

impl RepairRound {
    /// Counts a fault. Returns whether the repair mends it.
    fn note_fault(&mut self, fault: &RowFault, scope: RepairScope) -> bool {
        if !covers(scope, fault) {
            return false;
        }
        if fault.mend == RowFix::Nothing {
            self.left_count += 1;
            if self.left.len() < MAX_LISTED {
                self.left.push(fault.breach());
            }
            return false;
        }
        self.mended += 1;
        self.history |= fault.history;
        self.search |= fault.table.repair() == RepairMethod::SearchIndex;
        true
    }
}

impl RepairReport {
    fn add_unrepaired(&mut self, round: RepairRound) {
        self.left_count += round.left_count;
        let room = MAX_LISTED.saturating_sub(self.left.len());
        self.left.extend(round.left.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests;
