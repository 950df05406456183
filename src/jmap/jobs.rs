//! Jobs: a check, a repair or a backup that an administrator starts, and asks about later; and the
//! repairs that the service resumes when it starts. One job runs at a time, on its own thread. The
//! result of a job can be fetched until the next job starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::store::check::Progress;
use crate::store::{Error, Store};
use crate::wire::jmap::MethodError;
use crate::wire::jmap::admin::store::{JobGetAnswer, JobRef, JobResult, JobStage, StoreProgress};

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
    /// The number of the last job; 0 before the first.
    id: u64,
    /// The kind of the job, such as `check`.
    what: &'static str,
    progress: JobStage,
    /// `None` while the job is running, and before the first job.
    result: Option<Result<JobResult, Error>>,
}

impl Default for JobSlot {
    fn default() -> Self {
        Self { id: 0, what: "", progress: JobStage::Begun {}, result: None }
    }
}

/// Records how far a job is, and tells the job when it is to stop.
#[derive(Debug, Clone)]
pub struct JobProgress(Arc<Inner>);

impl JobProgress {
    /// Records how far the job is. Returns whether the job is to go on.
    #[must_use]
    pub fn report(&self, progress: JobStage) -> bool {
        self.0.slot.lock().progress = progress;
        !self.0.stop.load(Ordering::Relaxed)
    }

    /// Does what `report` does, for a check or a repair.
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
    /// Starts a job on a thread of its own.
    ///
    /// # Errors
    /// `Conflict` while another job is running, `ServerUnavailable` after [`Self::stop`],
    /// `ServerFail` if no thread can be made.
    pub fn start(
        &self,
        what: &'static str,
        work: impl FnOnce(&JobProgress) -> Result<JobResult, Error> + Send + 'static,
    ) -> Result<JobRef, MethodError> {
        let inner = Arc::clone(&self.0);
        let mut slot = self.0.slot.lock();
        if slot.id > 0 && slot.result.is_none() {
            return Err(MethodError::Conflict(format!(
                "a {} is running: only one job runs at a time",
                slot.what
            )));
        }
        if self.0.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped.into());
        }
        let id = slot.id + 1;
        let thread = std::thread::Builder::new().name(what.into()).spawn(move || {
            let progress = JobProgress(Arc::clone(&inner));
            // Without a result, a job that panicked would seem to run forever.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&progress)));
            let result = result.unwrap_or_else(|_| {
                Err(Error::Io("the job ended because of a bug in the program: see the log".into()))
            });
            match &result {
                Ok(_) => tracing::info!(job = what, "job done"),
                Err(error) => tracing::warn!(job = what, %error, "job failed"),
            }
            inner.slot.lock().result = Some(result);
            inner.ended.notify_all();
        });
        if let Err(error) = thread {
            return Err(MethodError::ServerFail(format!("no thread: {error}")));
        }
        tracing::info!(job = what, "job started");
        *slot = JobSlot { id, what, progress: JobStage::Begun {}, result: None };
        Ok(JobRef { job: id })
    }

    /// Returns the progress of a job, and the result of one that has ended.
    ///
    /// # Errors
    /// `NotFound` if it is not the last job that was started; the error with which the job failed.
    pub fn get(&self, job: JobRef) -> Result<JobGetAnswer, MethodError> {
        let slot = self.0.slot.lock();
        if job.job == 0 || slot.id != job.job {
            return Err(MethodError::NotFound("this is not the last job that was started".into()));
        }
        let result = slot.result.clone().transpose()?;
        let (done, progress) = (result.is_some(), slot.progress.clone());
        Ok(JobGetAnswer { what: slot.what.to_owned(), done, progress, result })
    }

    /// Asks a running job to stop after its present step, and waits up to `timeout` for that. What
    /// the job has changed stays. No job can be started any more.
    pub fn stop(&self, timeout: Duration) {
        self.0.stop.store(true, Ordering::Relaxed);
        let mut slot = self.0.slot.lock();
        if slot.id > 0 && slot.result.is_none() {
            let _timed_out =
                self.0.ended.wait_while_for(&mut slot, |slot| slot.result.is_none(), timeout);
        }
    }

    /// Resumes the repairs that an earlier run of the service did not finish, in one job. Returns
    /// how many accounts they concern, even if the job cannot be started.
    ///
    /// # Errors
    /// Those of reading.
    pub fn resume(&self, store: &Store) -> Result<usize, Error> {
        let unfinished = store.accounts_under_repair()?;
        let count = unfinished.len();
        if count > 0 {
            let store = store.clone();
            let started = self.start("repair", move |progress| {
                let secrets = store.secrets().clone();
                let parse_again = |raw: &[u8]| crate::message::rows_of_any(raw, &secrets);
                for (account, scope) in unfinished {
                    store.repair(scope, Some(&[account]), &parse_again, &mut |at| {
                        progress.report_store(at)
                    })?;
                }
                Ok(JobResult::Resumed {})
            });
            if started.is_err() {
                tracing::error!("the unfinished repairs were not resumed: run `restante repair`");
            }
        }
        Ok(count)
    }
}
