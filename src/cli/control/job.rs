//! Runs long jobs: `run` in the service. If no service runs, the command opens the store with
//! `open_store` (`check` opens it only for reading) and runs the job itself.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::control::CommandContext;
use crate::cli::exit::{self, Failure};
use crate::cli::service;
use crate::cli::terminal::meter::ProgressMeter;
use crate::model::clock;
use crate::store::{Error, Store};
use crate::wire::jmap::admin::store::{JobGet, JobMethod};

/// The pauses before the polls of a job; the last one repeats. Most jobs are short, so the first
/// polls come soon.
const POLL_INTERVALS_MS: [u64; 8] = [20, 20, 50, 50, 100, 100, 200, 500];

/// Starts a job in the service, shows its progress, and returns its result.
///
/// # Errors
/// As for `ControlClient::call`; the job failed; or the result is that of another kind of job.
pub(in crate::cli) async fn run<M: JobMethod>(
    context: &CommandContext,
    args: M::Args,
    meter: &mut ProgressMeter,
) -> Result<M::Outcome, Failure> {
    let job = context.client.call::<M>(args).await?;
    let mut pauses = POLL_INTERVALS_MS.iter();
    let mut pause = Duration::ZERO;
    loop {
        pause = pauses.next().map_or(pause, |pause| Duration::from_millis(*pause));
        tokio::time::sleep(pause).await;
        let state = context.client.call::<JobGet>(job).await?;
        meter.show(&state.progress);
        if state.done {
            return state.result.and_then(M::outcome).ok_or_else(|| {
                let text = format!("the job has another result than {} returns", M::NAME);
                Failure::new(exit::SOFTWARE, text)
            });
        }
    }
}

/// Opens the store that the configuration names, for a job that runs without the service.
///
/// # Errors
/// There is no store, it cannot be opened (another process has it open), or it belongs to another
/// Unix user: the service could not open files that this user creates in it.
pub(in crate::cli) fn open_store(context: &CommandContext) -> Result<Store, Failure> {
    let dir = service::store_dir(&context.config);
    let about = std::fs::metadata(&dir)
        .map_err(|_| Failure::new(exit::NO_INPUT, format!("{}: no store there", dir.display())))?;
    if about.uid() != rustix::process::geteuid().as_raw() {
        let text =
            "it belongs to another user: start the service, or run this as that user (runuser -u)";
        return Err(Failure::new(exit::NO_PERMISSION, format!("{}: {text}", dir.display())));
    }
    // Opening for reading does not create a store.
    let existing = service::open_store_read_only(&context.config, Arc::new(clock::SystemClock));
    drop(existing.map_err(Failure::from)?.ok_or_else(|| {
        Failure::new(exit::NO_INPUT, format!("{}: no store there", dir.display()))
    })?);
    Ok(service::open_store(&context.config, Arc::new(clock::SystemClock))?)
}

/// Converts an error of the store to a failure of a command.
pub(in crate::cli) fn store_failure(error: &Error) -> Failure {
    let code = match error {
        Error::NotFound("account") => exit::NO_USER,
        Error::NotFound(_) => exit::NO_INPUT,
        Error::Conflict(_) => exit::USAGE,
        Error::Open(_) | Error::Full => exit::TEMPORARY,
        _ => exit::SOFTWARE,
    };
    Failure::new(code, error.to_string())
}
