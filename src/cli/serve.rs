//! `serve`: the service in the foreground, under systemd or by hand.
//!
//! READY=1 once every listener is bound; WATCHDOG=1 while the store takes writes; STOPPING=1 when the drain begins.
//! SIGTERM and SIGINT drain; SIGHUP reads the configuration again, and a bad file leaves the old in force and says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Failure, Service, exit};
use crate::config::{Config, load};
use crate::model::clock;
use crate::trace;

pub(super) fn run(path: Option<PathBuf>) -> Result<(), Failure> {
    let config = load(path.as_deref()).map_err(|faults| Failure::new(exit::CONFIG, faults.to_string()))?;
    let log = trace::init(&config.trace_settings()).map_err(|error| Failure::new(exit::CONFIG, error.to_string()))?;
    runtime()?.block_on(serve(config, path, log))
}

/// As many workers as cores.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::SOFTWARE, format!("no runtime: {error}")))
}

async fn serve(config: Config, path: Option<PathBuf>, log: trace::Handle) -> Result<(), Failure> {
    // Before anything else, so that a signal during the start is not lost.
    let (mut term, mut int, mut hup) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?, listen(SignalKind::hangup())?);
    let service = Service::start(config.clone(), Arc::new(clock::System)).await?;
    tell(&[NotifyState::Ready, NotifyState::Status("taking mail")]);
    let mut watchdog = tokio::time::interval(watchdog().unwrap_or(Duration::from_secs(10)));
    let mut config = config;
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => reload(&mut config, path.as_deref(), &log),
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

fn reload(config: &mut Config, path: Option<&Path>, log: &trace::Handle) {
    tell(&[NotifyState::Status("reading the configuration again")]);
    match load(path) {
        Ok(new) => {
            if let Err(error) = log.set_level(&new.log.level) {
                tracing::error!(%error, "the log level stays");
            }
            let rest = Config { log: config.log.clone(), ..new.clone() };
            if rest != *config {
                tracing::warn!("more than the log level has changed: the rest holds after a restart");
            }
            config.log = new.log;
            tracing::info!("configuration read again");
        }
        Err(faults) => {
            tracing::error!(%faults, "bad configuration: the old one stays in force");
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
