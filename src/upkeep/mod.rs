//! L3: what must be done by and by: folding of the search index, purge, expiry, collection, and
//! lists that nobody asks for.
//!
//! - All work is in steps. A step is one commit of a bounded number of rows, so it is safe to be
//!   killed at any point, and who needs the account meanwhile waits for no more than that.
//! - Accounts take turns: one step each, round after round, so that none waits for another's
//!   backlog.
//! - Between steps it rests several times as long as they took, and it begins none while others
//!   write, but for a bound: deliveries keep their pace. Its thread has the usual priority all the
//!   same, for it holds an account's lock at times, and those who wait for the lock must not wait
//!   long.
//! - What cannot be done in one account is said in the log and tried again in the next round; the
//!   others go on.
//!
//! How long things are kept is said in `Settings`; what is done with them, in the methods of
//! `store::Txn` that `steps` calls.

mod run;
mod steps;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

pub use run::UpkeepHandle;
#[cfg(feature = "internals")]
pub use steps::fold_index;

use crate::model::clock::Stopwatch;
use crate::model::{AccountId, LiveValue, limits};
use crate::store::{Error, Store};

/// How long things are kept, and how often they are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a destroyed email can be restored.
    pub restore: Duration,
    /// How long the history of mailboxes is kept.
    pub history: Duration,
    /// How long a list that was made on demand is kept after it was last asked for.
    pub lists: Duration,
    /// How long it is known who was told, after the response is over.
    pub told: Duration,
    /// How long a message id that is not seen again leads to its thread.
    pub threads: Duration,
    /// How long a message is kept that nobody holds any more.
    pub messages: Duration,
    /// How long an upload is kept that nothing was made of.
    pub uploads: Duration,
    /// How long a submission is remembered after it was settled.
    pub submissions: Duration,
    /// A round begins so long after the last one began.
    pub every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            restore: limits::DESTROYED_EMAIL_RETENTION,
            history: limits::LISTING_HISTORY_RETENTION,
            lists: limits::UNUSED_LISTING_RETENTION,
            told: limits::TOLD_RETENTION,
            threads: limits::THREAD_REF_RETENTION,
            messages: limits::UNREFERENCED_MESSAGE_RETENTION,
            uploads: limits::UPLOAD_RETENTION,
            submissions: limits::SUBMISSION_RETENTION,
            every: limits::UPKEEP_INTERVAL,
        }
    }
}

/// What a round did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundReport {
    /// Accounts that it looked at.
    pub accounts: usize,
    /// Steps that had something to do, or left something.
    pub steps: usize,
    /// Emails that were purged.
    pub emails: usize,
    /// Threads that died with them.
    pub threads: usize,
    /// Message ids by which threads are found no more.
    pub thread_refs: usize,
    /// Lists that were dropped.
    pub lists: usize,
    /// Listings that queries asked for, and that are whole now.
    pub made: usize,
    /// Messages that were collected.
    pub messages: usize,
    /// Their octets.
    pub octets: u64,
    /// Accounts in which something failed.
    pub failed: usize,
    /// Whether it came to its end.
    pub complete: bool,
}

/// The keeper. Cheap to make; `start` sets it to work.
#[derive(Debug, Clone)]
pub struct Upkeep {
    store: Store,
    settings: LiveValue<Settings>,
}

/// What a step had to do.
enum StepResult {
    Idle,
    /// Something, and whether there is more of it.
    Worked {
        left: bool,
    },
}

type Task = fn(&Store, AccountId, &Settings, &mut RoundReport) -> Result<StepResult, Error>;

/// Whose turn it is, and with what.
struct AccountTurn {
    account: AccountId,
    tasks: &'static [Task],
}

impl Upkeep {
    /// Of this store.
    #[must_use]
    pub fn new(store: Store, settings: LiveValue<Settings>) -> Self {
        Self { store, settings }
    }

    /// One round over all accounts and the site. `go_on` is told after each step how long it took;
    /// it may rest, and says whether to go on. May wait for the disk: not for an asynchronous task.
    ///
    /// # Errors
    /// Where accounts cannot be listed, or the store takes no writes.
    pub fn round(&self, mut go_on: impl FnMut(Duration) -> bool) -> Result<RoundReport, Error> {
        let mut report = RoundReport::default();
        let accounts = self.store.snapshot().account_ids()?;
        report.accounts = accounts.len();
        let mut turns: VecDeque<AccountTurn> = accounts
            .into_iter()
            .map(|account| AccountTurn { account, tasks: steps::ACCOUNT_TASKS })
            .collect();
        turns.push_back(AccountTurn { account: AccountId::SITE, tasks: steps::SITE_TASKS });
        report.complete = self.take_turns(turns, &mut report, &mut go_on)?;
        Ok(report)
    }

    /// What of these accounts does not wait for the next round: mail to be folded, and listings
    /// that queries asked for.
    fn round_of_urgent(
        &self,
        accounts: &[AccountId],
        mut go_on: impl FnMut(Duration) -> bool,
    ) -> Result<RoundReport, Error> {
        let mut report = RoundReport { accounts: accounts.len(), ..RoundReport::default() };
        let turns = accounts
            .iter()
            .map(|account| AccountTurn { account: *account, tasks: steps::URGENT_TASKS })
            .collect();
        report.complete = self.take_turns(turns, &mut report, &mut go_on)?;
        Ok(report)
    }

    /// Takes turns until nothing is left; says whether it came to that.
    fn take_turns(
        &self,
        mut turns: VecDeque<AccountTurn>,
        report: &mut RoundReport,
        go_on: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<bool, Error> {
        let settings = self.settings.get();
        while let Some(mut turn) = turns.pop_front() {
            let watch = Stopwatch::start();
            while let Some((task, rest)) = turn.tasks.split_first() {
                let step = self.step(*task, turn.account, &settings, report);
                match step {
                    Ok(StepResult::Worked { left: true }) => {
                        report.steps += 1;
                        break;
                    }
                    Ok(StepResult::Worked { left: false }) => {
                        report.steps += 1;
                        turn.tasks = rest;
                        break;
                    }
                    Ok(StepResult::Idle) => turn.tasks = rest,
                    Err(error) => {
                        self.store.health()?;
                        tracing::warn!(account = %turn.account, %error, "upkeep of an account failed; tried again next time");
                        report.failed += 1;
                        turn.tasks = &[];
                        if error == Error::Full {
                            return Err(error);
                        }
                    }
                }
            }
            if !turn.tasks.is_empty() {
                turns.push_back(turn);
            }
            if !go_on(watch.elapsed()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn step(
        &self,
        task: Task,
        account: AccountId,
        settings: &Settings,
        report: &mut RoundReport,
    ) -> Result<StepResult, Error> {
        let work = AssertUnwindSafe(|| task(&self.store, account, settings, report));
        std::panic::catch_unwind(work)
            .unwrap_or_else(|_| Err(Error::Io("upkeep panicked: a fault of the program".into())))
    }
}
