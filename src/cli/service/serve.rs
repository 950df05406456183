//! The command `serve`: runs the service in the foreground, under systemd or by hand.
//!
//! - systemd is sent READY=1 when every listener is bound, WATCHDOG=1 while the store accepts
//!   writes, and STOPPING=1 when the drain begins.
//! - SIGTERM and SIGINT stop the service after a drain.
//! - SIGHUP applies the configuration anew, except for the store, the listeners and the format of
//!   the log (`[log] format`). If the file is faulty, the old configuration stays in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::exit::{self, Failure};
use crate::cli::service::Service;
use crate::config::{Config, load};
use crate::model::{clock, limits};
use crate::trace;

pub(in crate::cli) fn run(path: Option<PathBuf>) -> Result<(), Failure> {
    let config =
        load(path.as_deref()).map_err(|faults| Failure::new(exit::CONFIG, faults.to_string()))?;
    let log = trace::init(&config.trace_settings())
        .map_err(|error| Failure::new(exit::CONFIG, error.to_string()))?;
    raise_open_files_limit(&config);
    runtime()?.block_on(serve(config, path, log))
}

/// An estimate of the open files besides connections: the files of the store, and messages that are
/// being received.
const BASE_OPEN_FILES: usize = 1024;

/// Raises the limit on open files to the hard limit. Warns if that is too low for the configured
/// numbers of connections.
fn raise_open_files_limit(config: &Config) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit on open files could not be raised");
    }
    let http = config.http.listen.as_ref().map_or(0, |_| config.http.connections);
    // Root and the service's user have as many control connections as all other users together.
    let control = 2 * limits::MAX_CONTROL_CONNECTIONS + limits::MAX_METRICS_CONNECTIONS;
    let managesieve =
        config.managesieve.listen.as_ref().map_or(0, |_| config.managesieve.connections);
    let needed = [config.limits.connections, http, managesieve, control, BASE_OPEN_FILES]
        .into_iter()
        .fold(0, usize::saturating_add);
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if u64::try_from(needed).unwrap_or(u64::MAX) > allowed {
        tracing::warn!(
            allowed,
            needed,
            "the limit on open files is too low for all connections: raise LimitNOFILE or ulimit -n"
        );
    }
}

pub(in crate::cli) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::SOFTWARE, format!("cannot start a runtime: {error}")))
}

async fn serve(
    config: Config,
    path: Option<PathBuf>,
    log: trace::LevelHandle,
) -> Result<(), Failure> {
    // Before the start, so that a signal during the start is not lost.
    let (mut term, mut int, mut hup) = (
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
        listen(SignalKind::hangup())?,
    );
    let mut service = Service::start(config, Arc::new(clock::SystemClock)).await?;
    notify(&[NotifyState::Ready, NotifyState::Status("accepting mail")]);
    // Without a watchdog, a store that refuses writes is only reported in the log.
    let interval = watchdog_interval().unwrap_or(Duration::from_secs(10));
    let mut watchdog = tokio::time::interval(interval);
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => reload(&mut service, path.as_deref(), &log),
            _ = watchdog.tick() => {
                // A store whose write failed needs a new process, which systemd starts when the
                // notifications stop.
                match service.health() {
                    Ok(()) => notify(&[NotifyState::Watchdog]),
                    Err(error) => tracing::error!(%error, "the store refuses writes"),
                }
            }
        }
    }
    notify(&[NotifyState::Stopping, NotifyState::Status("waiting for running sessions")]);
    tracing::info!("stopping");
    service.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Reads the configuration again, and applies it unless it is faulty. Logs what became of it.
fn reload(service: &mut Service, path: Option<&Path>, log: &trace::LevelHandle) {
    notify(&[NotifyState::Status("reading the configuration again")]);
    match load(path) {
        Ok(new) => {
            let level = new.log.level.clone();
            match service.reload(new) {
                Ok(need_restart) => {
                    if let Err(error) = log.set_level(&level) {
                        tracing::error!(%error, "the log level is unchanged");
                    }
                    if !need_restart.is_empty() {
                        let keys = need_restart.join(", ");
                        tracing::warn!(keys, "changed settings need a restart");
                    }
                    tracing::info!("configuration read again");
                }
                Err(problem) => {
                    tracing::error!(problem, "bad configuration: the old one stays in force");
                }
            }
        }
        Err(faults) => {
            for fault in &faults.0 {
                tracing::error!(%fault, "bad configuration: the old one stays in force");
            }
        }
    }
    notify(&[NotifyState::Status("accepting mail")]);
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| {
        Failure::new(exit::SOFTWARE, format!("cannot listen for signals: {error}"))
    })
}

/// Returns half of systemd's watchdog time; `None` if systemd expects no notifications.
fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 2)
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be notified");
    }
}
