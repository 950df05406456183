//! L3: the background work: folding of the search index, purge, expiry, blob collection, and the
//! making and dropping of listings.
//!
//! - All work is done in steps. A step is one commit of a bounded number of rows. So the process
//!   can be killed at any point, and others wait for the account's lock for one short step only.
//! - Accounts take turns, one step each, so that none waits for another's backlog.
//! - After each step upkeep rests for several times as long as the step took. It waits, up to a
//!   bound, while others write, so that deliveries stay fast. The thread has normal priority,
//!   because it holds accounts' locks for which others wait.
//! - A failure in one account is logged and tried again in the next round. The other accounts go
//!   on.
//!
//! `Settings` has the retention times. The methods of `store::Txn` that `steps` calls do the work.

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

/// The retention times, and the time between rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a destroyed email can be restored.
    pub restore: Duration,
    /// How long the history of listings is kept.
    pub history: Duration,
    /// How long a listing that was made on demand is maintained after its last use.
    pub listings: Duration,
    /// How long told rows are kept after the response is over.
    pub told: Duration,
    /// How long a message id leads to its thread after it was last seen.
    pub threads: Duration,
    /// How long a message is kept after the last reference to it is gone.
    pub messages: Duration,
    /// How long an unused upload is kept.
    pub uploads: Duration,
    /// How long a submission is kept after it became final.
    pub submissions: Duration,
    /// The time from the start of one round to the start of the next.
    pub every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            restore: limits::DESTROYED_EMAIL_RETENTION,
            history: limits::LISTING_HISTORY_RETENTION,
            listings: limits::UNUSED_LISTING_RETENTION,
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
    /// Accounts for which there was work to look for.
    pub accounts: usize,
    /// Steps that did something.
    pub steps: usize,
    /// Emails that were purged.
    pub emails: usize,
    /// Threads purged with their last email.
    pub threads: usize,
    /// Purged references from message ids to threads.
    pub thread_refs: usize,
    /// Listings that were dropped.
    pub dropped_listings: usize,
    /// Listings that were completed.
    pub completed_listings: usize,
    /// Messages that were deleted.
    pub messages: usize,
    /// Bytes of the deleted messages.
    pub bytes: u64,
    /// Failures in accounts.
    pub failed: usize,
    /// Whether the round was finished.
    pub complete: bool,
}

/// The background work of a store. `start` runs it in a thread.
#[derive(Debug, Clone)]
pub struct Upkeep {
    store: Store,
    settings: LiveValue<Settings>,
}

/// Whether a step found work.
enum StepResult {
    Idle,
    /// The step did work; `left` says whether the task has more.
    Worked {
        left: bool,
    },
}

type Task = fn(&Store, AccountId, &Settings, &mut RoundReport) -> Result<StepResult, Error>;

/// An account, and the tasks that it still has in this round.
struct AccountTurn {
    account: AccountId,
    tasks: &'static [Task],
}

impl Upkeep {
    #[must_use]
    pub fn new(store: Store, settings: LiveValue<Settings>) -> Self {
        Self { store, settings }
    }

    /// Runs one round over all accounts and the site. After each step it calls `go_on` with the
    /// time that the step took; `go_on` may rest, and returns whether to continue. Blocks on the
    /// disk, so an asynchronous task must not call it.
    ///
    /// # Errors
    /// If the accounts cannot be read, or the store accepts no writes.
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

    /// Runs the urgent tasks of these accounts: folding, and listings that queries requested.
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

    /// Runs the tasks of all accounts in turn. Returns whether all were finished.
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
                        tracing::warn!(
                            account = %turn.account,
                            %error,
                            "upkeep of an account failed; it is tried again in the next round"
                        );
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
