//! `serve`: the service in the foreground, under systemd or by hand.
//!
//! READY=1 once every listener is bound; WATCHDOG=1 while the store takes writes; STOPPING=1 when
//! the drain begins. SIGTERM and SIGINT drain; SIGHUP reads the configuration again: all of it
//! holds from then on but the store, the listeners and where the log goes. A bad file leaves the
//! old in force, and the log has line and remedy.

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
    allow_open_files(&config);
    runtime()?.block_on(serve(config, path, log))
}

/// Open files that the service needs beside connections: the store's tables and logs, messages on
/// their way.
const BASE_OPEN_FILES: usize = 1024;

/// Lets the service have as many open files as the machine allows, and says where those are too few
/// for the connections that may be: LMTP would wait when others have taken them.
fn allow_open_files(config: &Config) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the number of open files stays as it is");
    }
    let http = config.http.listen.as_ref().map_or(0, |_| config.http.connections);
    let control = 2 * limits::MAX_CONTROL_CONNECTIONS + limits::MAX_METRICS_CONNECTIONS;
    let needed = [config.limits.connections, http, control, BASE_OPEN_FILES]
        .into_iter()
        .fold(0, usize::saturating_add);
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if u64::try_from(needed).unwrap_or(u64::MAX) > allowed {
        tracing::warn!(
            allowed,
            needed,
            "too few open files for all connections: raise LimitNOFILE or ulimit -n"
        );
    }
}

/// As many workers as cores.
pub(in crate::cli) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::SOFTWARE, format!("no runtime: {error}")))
}

async fn serve(
    config: Config,
    path: Option<PathBuf>,
    log: trace::LevelHandle,
) -> Result<(), Failure> {
    // Before anything else, so that a signal during the start is not lost.
    let (mut term, mut int, mut hup) = (
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
        listen(SignalKind::hangup())?,
    );
    let mut service = Service::start(config, Arc::new(clock::SystemClock)).await?;
    tell(&[NotifyState::Ready, NotifyState::Status("taking mail")]);
    let mut watchdog = tokio::time::interval(watchdog().unwrap_or(Duration::from_secs(10)));
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => reload(&mut service, path.as_deref(), &log),
            _ = watchdog.tick() => {
                // A poisoned store needs a new process: systemd starts one when the dog is not fed.
                match service.health() {
                    Ok(()) => tell(&[NotifyState::Watchdog]),
                    Err(error) => tracing::error!(%error, "the store takes no writes"),
                }
            }
        }
    }
    tell(&[NotifyState::Stopping, NotifyState::Status("finishing what is under way")]);
    tracing::info!("stopping");
    service.stop().await;
    tracing::info!("stopped");
    Ok(())
}

fn reload(service: &mut Service, path: Option<&Path>, log: &trace::LevelHandle) {
    tell(&[NotifyState::Status("reading the configuration again")]);
    match load(path) {
        Ok(new) => {
            let level = new.log.level.clone();
            match service.reload(new) {
                Ok(waiting) => {
                    if let Err(error) = log.set_level(&level) {
                        tracing::error!(%error, "the log level stays");
                    }
                    if !waiting.is_empty() {
                        tracing::warn!(
                            keys = waiting.join(", "),
                            "changed, and waits for a restart"
                        );
                    }
                    tracing::info!("configuration read again");
                }
                Err(problem) => {
                    tracing::error!(problem, "bad configuration: the old one stays in force")
                }
            }
        }
        Err(faults) => {
            for fault in &faults.0 {
                tracing::error!(%fault, "bad configuration: the old one stays in force");
            }
        }
    }
    tell(&[NotifyState::Status("taking mail")]);
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(exit::SOFTWARE, format!("no signals: {error}")))
}

/// Half of systemd's watchdog time, where it set one.
fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 2)
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd does not listen");
    }
}
