//! Long work: on the running service, followed until it is done; or on the data directory itself,
//! while no service runs.

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

/// How often the service is asked how far it is: soon at first, for most work is short.
const POLL_INTERVALS_MS: [u64; 8] = [20, 20, 50, 50, 100, 100, 200, 500];

/// Begins a job on the service, and gives what came of it.
///
/// # Errors
/// Those of calls; a result of another kind of job.
pub(in crate::cli) async fn follow<M: JobMethod>(
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
        let now = context.client.call::<JobGet>(job).await?;
        meter.show(&now.progress);
        if now.done {
            let strange =
                || Failure::new(exit::SOFTWARE, format!("the result of {} is strange", M::NAME));
            return now.result.and_then(M::outcome).ok_or_else(strange);
        }
    }
}

/// The store on the disk, to write in it.
///
/// # Errors
/// Where there is none, where another has it open, and where it belongs to another user: files of
/// ours would keep the service out.
pub(in crate::cli) fn open(context: &CommandContext) -> Result<Store, Failure> {
    let dir = service::store_dir(&context.config);
    let about = std::fs::metadata(&dir)
        .map_err(|_| Failure::new(exit::NO_INPUT, format!("{}: no store there", dir.display())))?;
    if about.uid() != rustix::process::geteuid().as_raw() {
        let what =
            "it belongs to another user: start the service, or run this as that user (runuser -u)";
        return Err(Failure::new(exit::NO_PERMISSION, format!("{}: {what}", dir.display())));
    }
    // A look first: it makes no store where there is none.
    let looked = service::look_at_store(&context.config, Arc::new(clock::SystemClock));
    drop(looked.map_err(Failure::from)?.ok_or_else(|| {
        Failure::new(exit::NO_INPUT, format!("{}: no store there", dir.display()))
    })?);
    Ok(service::open_store(&context.config, Arc::new(clock::SystemClock))?)
}

/// An error of the store as a command's.
pub(in crate::cli) fn failed(error: &Error) -> Failure {
    let code = match error {
        Error::NotFound("account") => exit::NO_USER,
        Error::NotFound(_) => exit::NO_INPUT,
        Error::Conflict(_) => exit::USAGE,
        Error::Open(_) | Error::Full => exit::TEMPORARY,
        _ => exit::SOFTWARE,
    };
    Failure::new(code, error.to_string())
}
