//! The background work of a store: deletes what is past its retention time, gives back the space of
//! deleted messages, folds the search index, and makes and drops listings.
//!
//! - A round runs every task of every account and of the site, in steps. A step is at most one
//!   commit, of a bounded number of rows, so the process can be killed at any point, and the
//!   account's lock is held for a short time. (Steps that reclaim segments are bounded too, but are
//!   no commit of an account.)
//! - Accounts take turns. A turn goes through the account's tasks, and ends with the first step
//!   that is not idle (`StepResult`).
//! - The upkeep thread rests after each turn, or after several short ones together: for several
//!   times as long as they took while others write, otherwise for as long. Before the next turn it
//!   waits, up to a bound, while other threads write. The thread has normal priority, because it
//!   holds accounts' locks for which others wait.
//! - If a step of an account fails, the account's other tasks are left to the next round. (A
//!   requested listing that cannot be made is only counted as a failure.) If the disk is full, or
//!   the store takes no writes, the round ends.

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a destroyed email can be restored before it is purged.
    pub destroyed_emails: Duration,
    /// How long clients can ask what left a listing, and which mailboxes and small objects were
    /// destroyed.
    pub history: Duration,
    /// How long a listing that was made on demand is maintained after its last use, which is
    /// recorded to the day.
    pub unused_listings: Duration,
    /// How long after a reply its told row is kept if the vacation response is off or over. While
    /// the response is on, the row stays. (For a reply of a script, the script says how long.)
    pub told_rows: Duration,
    /// How long, at least, a Message-ID leads to its thread after it was last seen.
    pub thread_refs: Duration,
    /// How long the bytes of a message are kept after the last reference to them is gone.
    pub unreferenced_messages: Duration,
    /// How long an upload is kept after it was last uploaded. What was made of it stays.
    pub unused_uploads: Duration,
    /// How long a submission is kept after it ended (`EmailSubmission::ended`).
    pub final_submissions: Duration,
    /// The time from the start of one round to the start of the next.
    pub interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            destroyed_emails: limits::DESTROYED_EMAIL_RETENTION,
            history: limits::LISTING_HISTORY_RETENTION,
            unused_listings: limits::UNUSED_LISTING_RETENTION,
            told_rows: limits::TOLD_RETENTION,
            thread_refs: limits::THREAD_REF_RETENTION,
            unreferenced_messages: limits::UNREFERENCED_MESSAGE_RETENTION,
            unused_uploads: limits::UPLOAD_RETENTION,
            final_submissions: limits::SUBMISSION_RETENTION,
            interval: limits::UPKEEP_INTERVAL,
        }
    }
}

/// What a round did: `emails` and `threads` were purged, `thread_refs` forgotten, and `messages`,
/// of `bytes` in all, deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundReport {
    /// Accounts of the round, without the site. If the round was stopped, some may not have had a
    /// turn.
    pub accounts: usize,
    /// Steps that were not idle.
    pub steps: usize,
    pub emails: usize,
    pub threads: usize,
    pub thread_refs: usize,
    pub dropped_listings: usize,
    /// Listings that now have all their emails.
    pub completed_listings: usize,
    pub messages: usize,
    pub bytes: u64,
    /// Messages that were moved to another segment, or from rows to a segment.
    pub moved_messages: usize,
    /// Bytes of the segments that were deleted.
    pub reclaimed_bytes: u64,
    /// Accounts, with the site, whose tasks were left to the next round because one failed, and
    /// listings that could not be made.
    pub failures: usize,
    /// `false` if the round was stopped.
    pub complete: bool,
}

/// The upkeep of a store. `start` runs it in a thread of its own, `round` in the caller's.
#[derive(Debug, Clone)]
pub struct Upkeep {
    store: Store,
    settings: LiveValue<Settings>,
}

enum StepResult {
    /// The task has nothing more to do, and did little or nothing. The account's next task follows
    /// in the same turn.
    Idle,
    /// The step did so much that the account's turn ends. `has_more` says whether the task has more
    /// steps.
    Worked { has_more: bool },
}

/// Runs one step of a task, and adds what it did to the report. Blocks until the step is durable.
type Task = fn(&Store, AccountId, &Settings, &mut RoundReport) -> Result<StepResult, Error>;

/// The tasks that an account still has in this round, the current one first.
struct AccountTurn {
    account: AccountId,
    tasks: &'static [Task],
}

impl Upkeep {
    #[must_use]
    pub fn new(store: Store, settings: LiveValue<Settings>) -> Self {
        Self { store, settings }
    }

    /// Runs one round over all accounts and the site. After each turn, of an account or the site,
    /// `after_turn` is called with the time that the turn took. It may rest, and returns whether to
    /// continue. Blocks on the disk, so an asynchronous task must not call this.
    ///
    /// # Errors
    /// If the accounts cannot be read; `Poisoned` or `Full` if the store accepts no writes.
    pub fn round(
        &self,
        mut after_turn: impl FnMut(Duration) -> bool,
    ) -> Result<RoundReport, Error> {
        let mut report = RoundReport::default();
        let accounts = self.store.snapshot().account_ids()?;
        report.accounts = accounts.len();
        let mut turns: VecDeque<AccountTurn> = accounts
            .into_iter()
            .map(|account| AccountTurn { account, tasks: steps::ACCOUNT_TASKS })
            .collect();
        turns.push_back(AccountTurn { account: AccountId::SITE, tasks: steps::SITE_TASKS });
        report.complete = self.take_turns(turns, &mut report, &mut after_turn)?;
        Ok(report)
    }

    /// Runs only the urgent tasks of `accounts`: completes listings that a query requested, and
    /// folds the search index. The upkeep thread calls this between two turns of a round, and
    /// between rounds, for accounts with a requested listing or much mail that is not folded yet.
    fn round_of_urgent(
        &self,
        accounts: &[AccountId],
        mut after_turn: impl FnMut(Duration) -> bool,
    ) -> Result<RoundReport, Error> {
        let mut report = RoundReport { accounts: accounts.len(), ..RoundReport::default() };
        let turns = accounts
            .iter()
            .map(|account| AccountTurn { account: *account, tasks: steps::URGENT_TASKS })
            .collect();
        report.complete = self.take_turns(turns, &mut report, &mut after_turn)?;
        Ok(report)
    }

    /// Runs the tasks of all accounts in turn. A turn goes through the account's tasks until one
    /// step is not idle, or fails. Returns `false` if `after_turn` stopped it.
    fn take_turns(
        &self,
        mut turns: VecDeque<AccountTurn>,
        report: &mut RoundReport,
        after_turn: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<bool, Error> {
        let settings = self.settings.get();
        while let Some(mut turn) = turns.pop_front() {
            let watch = Stopwatch::start();
            while let Some((task, later_tasks)) = turn.tasks.split_first() {
                let step = self.step(*task, turn.account, &settings, report);
                match step {
                    Ok(StepResult::Worked { has_more: true }) => {
                        report.steps += 1;
                        break;
                    }
                    Ok(StepResult::Worked { has_more: false }) => {
                        report.steps += 1;
                        turn.tasks = later_tasks;
                        break;
                    }
                    Ok(StepResult::Idle) => turn.tasks = later_tasks,
                    Err(error) => {
                        // A store that takes no writes ends the round for all accounts.
                        self.store.health()?;
                        tracing::warn!(
                            account = %turn.account,
                            %error,
                            "upkeep of an account failed; it is tried again in the next round"
                        );
                        report.failures += 1;
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
            if !after_turn(watch.elapsed()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs one step. A panic becomes an error, so that the other accounts go on.
    fn step(
        &self,
        task: Task,
        account: AccountId,
        settings: &Settings,
        report: &mut RoundReport,
    ) -> Result<StepResult, Error> {
        let work = AssertUnwindSafe(|| task(&self.store, account, settings, report));
        std::panic::catch_unwind(work)
            .unwrap_or_else(|_| Err(Error::Io("upkeep panicked: this is a bug".into())))
    }
}
