//! Long work that an administrator begins and looks in on: a check, a repair, a backup. One at a
//! time, on a thread of its own, so that no request waits for it and it does not end with whoever
//! asked.
//!
//! What it found stays to be fetched until the next one begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::store::check::Progress;
use crate::store::{Error, Store};
use crate::wire::jmap::MethodError;
use crate::wire::jmap::admin::store::{JobGetAnswer, JobRef, JobResult, JobStage, StoreProgress};

/// What is under way, or was last.
#[derive(Debug, Clone, Default)]
pub struct Jobs(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    slot: Mutex<JobSlot>,
    ended: Condvar,
    stop: AtomicBool,
}

#[derive(Debug)]
struct JobSlot {
    id: u64,
    what: &'static str,
    progress: JobStage,
    /// `None` while it is under way.
    result: Option<Result<JobResult, Error>>,
}

impl Default for JobSlot {
    /// Before the first job.
    fn default() -> Self {
        Self { id: 0, what: "", progress: JobStage::Begun {}, result: None }
    }
}

/// What a job says of itself while it works.
#[derive(Debug, Clone)]
pub struct JobProgress(Arc<Inner>);

impl JobProgress {
    /// How far it is; whether to go on.
    #[must_use]
    pub fn report(&self, progress: JobStage) -> bool {
        self.0.slot.lock().progress = progress;
        !self.0.stop.load(Ordering::Relaxed)
    }

    /// The same of a check or a repair.
    #[must_use]
    pub fn report_store(&self, at: &Progress) -> bool {
        self.report(JobStage::Store(at.into()))
    }
}

impl From<&Progress> for StoreProgress {
    fn from(at: &Progress) -> Self {
        Self {
            number: at.number as u64,
            accounts: at.accounts as u64,
            account: at.account.to_string(),
            table: at.table.to_owned(),
            rows: at.rows,
            written: at.written,
        }
    }
}

impl Jobs {
    /// Begins a job on a thread of its own.
    ///
    /// # Errors
    /// `Conflict` while another is under way.
    pub fn start(
        &self,
        what: &'static str,
        work: impl FnOnce(&JobProgress) -> Result<JobResult, Error> + Send + 'static,
    ) -> Result<JobRef, MethodError> {
        let inner = Arc::clone(&self.0);
        let mut slot = self.0.slot.lock();
        if slot.id > 0 && slot.result.is_none() {
            return Err(MethodError::Conflict(format!(
                "a {} is under way: one at a time",
                slot.what
            )));
        }
        let id = slot.id + 1;
        self.0.stop.store(false, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name(what.into()).spawn(move || {
            let progress = JobProgress(Arc::clone(&inner));
            // A panic must not leave everybody waiting for ever.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&progress)));
            let done = done.unwrap_or_else(|_| {
                Err(Error::Io("a fault of the program ended it; see the log".into()))
            });
            match &done {
                Ok(_) => tracing::info!(job = what, "done"),
                Err(error) => tracing::warn!(job = what, %error, "not done"),
            }
            inner.slot.lock().result = Some(done);
            inner.ended.notify_all();
        });
        if let Err(error) = thread {
            return Err(MethodError::ServerFail(format!("no thread: {error}")));
        }
        tracing::info!(job = what, "begun");
        *slot = JobSlot { id, what, progress: JobStage::Begun {}, result: None };
        Ok(JobRef { job: id })
    }

    /// What a job says, or what came of it.
    ///
    /// # Errors
    /// `NotFound` for one that another followed; what it failed with.
    pub fn get(&self, job: JobRef) -> Result<JobGetAnswer, MethodError> {
        let slot = self.0.slot.lock();
        if job.job == 0 || slot.id != job.job {
            return Err(MethodError::NotFound("no such job: another has begun since".into()));
        }
        let result = slot.result.clone().transpose()?;
        let (done, progress) = (result.is_some(), slot.progress.clone());
        Ok(JobGetAnswer { what: slot.what.to_owned(), done, progress, result })
    }

    /// Has what is under way stop at its next step, and waits for that, `most` at most. What it did
    /// stays.
    pub fn stop(&self, most: Duration) {
        self.0.stop.store(true, Ordering::Relaxed);
        let mut slot = self.0.slot.lock();
        if slot.id > 0 && slot.result.is_none() {
            let _timed_out =
                self.0.ended.wait_while_for(&mut slot, |slot| slot.result.is_none(), most);
        }
    }

    /// Goes on with the repairs that an earlier run of the service did not finish; says of how many
    /// accounts.
    ///
    /// # Errors
    /// Those of reading.
    pub fn resume(&self, store: &Store) -> Result<usize, Error> {
        let unfinished = store.accounts_under_repair()?;
        let count = unfinished.len();
        if count > 0 {
            let store = store.clone();
            let begun = self.start("repair", move |progress| {
                let secrets = store.secrets().clone();
                let remake = |raw: &[u8]| crate::message::rows_or_bare(raw, &secrets);
                for (account, scope) in unfinished {
                    store.repair(scope, Some(&[account]), &remake, &mut |at| {
                        progress.report_store(at)
                    })?;
                }
                Ok(JobResult::Resumed {})
            });
            if begun.is_err() {
                tracing::error!("unfinished repairs wait: run `restante repair`");
            }
        }
        Ok(count)
    }
}
