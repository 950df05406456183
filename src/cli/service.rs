//! Starts, reloads and stops all parts of the service, for `serve`, `demo` and tests.
//!
//! - The store is opened before the listeners are bound, so that no mail is accepted before it can
//!   be stored.
//! - At a stop all parts learn at once to begin nothing new, and the store is closed last.

pub(super) mod serve;
#[cfg(test)]
mod tests;

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::account::{Directory, Logins};
use crate::cli::exit::{self, Failure};
use crate::config::{Config, RoomSettings};
use crate::deliver::Deliverer;
use crate::jmap::Jobs;
use crate::model::{Clock, LiveValue};
use crate::net::ceiling::Ceiling;
use crate::net::http::{self, ControlSettings, HttpSettings};
use crate::net::listen::{BoundListener, ListenAddress};
use crate::net::lmtp::{self as driver, LmtpSettings};
use crate::net::managesieve::{self, ManageSieveSettings};
use crate::net::stop::{StopSignal, Switch, switch};
use crate::net::{push, reports};
use crate::queue::{self, QueueWaker, QueueWorker};
use crate::store::{self, Store};
use crate::upkeep::{self, Upkeep};
use crate::{account, deliver};

/// The directory of the store within `[store] path`.
pub(super) const STORE: &str = "store";

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("the store in {path}: {error}")]
    Store { path: String, error: store::Error },
    /// A listener cannot be bound, or a directory cannot be created.
    #[error("{place}: {error}{}", hint(place, error))]
    Listen { place: String, error: std::io::Error },
    /// A setting is wrong, such as a key that cannot be read; or a part of the service, such as the
    /// thread for upkeep, cannot start.
    #[error("{0}")]
    Setting(String),
}

/// Says what a TCP port below 1024 needs, if it could not be bound for lack of permission.
fn hint(place: &str, error: &std::io::Error) -> &'static str {
    let is_path = place.contains('/');
    if error.kind() == std::io::ErrorKind::PermissionDenied && !is_path {
        "; ports below 1024 need the capability CAP_NET_BIND_SERVICE"
    } else {
        ""
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        let code = match &error {
            ServiceError::Store { .. } => exit::TEMPORARY,
            ServiceError::Listen { .. } => exit::UNAVAILABLE,
            ServiceError::Setting(_) => exit::CONFIG,
        };
        Self::new(code, error.to_string())
    }
}

pub(super) fn store_dir(config: &Config) -> std::path::PathBuf {
    config.store.path.join(STORE)
}

/// Opens the store, and creates it if it does not exist.
pub(super) fn open_store(config: &Config, clock: Arc<dyn Clock>) -> Result<Store, ServiceError> {
    let path = store_dir(config);
    let options = config.store_options();
    #[cfg(feature = "rocksdb")]
    let store = Store::open(&path, &options, clock);
    #[cfg(not(feature = "rocksdb"))]
    let store =
        Store::open_engine(Arc::new(store::engine::memory::MemoryEngine::new()), &options, clock);
    store.map_err(|error| ServiceError::Store { path: path.display().to_string(), error })
}

/// Opens the store for reading only. Returns `None` if there is no store; nothing is created.
pub(super) fn open_store_read_only(
    config: &Config,
    clock: Arc<dyn Clock>,
) -> Result<Option<Store>, ServiceError> {
    #[cfg(feature = "rocksdb")]
    {
        let path = store_dir(config);
        let failed = |error| ServiceError::Store { path: path.display().to_string(), error };
        if path.try_exists().map_err(|error| failed(store::Error::Open(error.to_string())))? {
            Store::open_read_only(&path, &config.store_options(), clock).map(Some).map_err(failed)
        } else {
            Ok(None)
        }
    }
    // The engine in memory has nothing of an earlier process.
    #[cfg(not(feature = "rocksdb"))]
    if config.store.path.is_dir() { open_store(config, clock).map(Some) } else { Ok(None) }
}

/// The running service.
#[derive(Debug)]
pub struct Service {
    store: Store,
    /// As `lmtp_addresses` returns them.
    lmtp: Vec<String>,
    tasks: Vec<JoinHandle<()>>,
    switch: Switch,
    config: Config,
    rooms: LiveSettings,
    upkeep: upkeep::UpkeepHandle,
    jobs: Jobs,
}

/// The settings of the rooms, which a reload replaces while the rooms run.
#[derive(Debug)]
struct LiveSettings {
    lmtp: LiveValue<LmtpSettings>,
    ceiling: Ceiling,
    deliver: LiveValue<deliver::Settings>,
    directory: LiveValue<account::Settings>,
    control: LiveValue<ControlSettings>,
    http: LiveValue<HttpSettings>,
    http_ceiling: Ceiling,
    managesieve: LiveValue<ManageSieveSettings>,
    managesieve_ceiling: Ceiling,
    queue: LiveValue<queue::Settings>,
    queue_waker: QueueWaker,
    upkeep: LiveValue<upkeep::Settings>,
}

/// Creates a directory that only the service's user can enter. Warns if it exists and others can
/// enter it.
fn private_directory(dir: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mode = std::fs::metadata(dir)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let (dir, mode) = (dir.display(), format!("{mode:04o}"));
        tracing::warn!(
            %dir,
            mode,
            "other users may enter this directory, which contains mail: set its mode to 0700"
        );
    }
    Ok(())
}

/// Opens the directory of accounts, and completes account rows of an earlier version, which lack
/// the account's addresses. If that fails, the rows stay as they are until the next start.
async fn open_directory(store: &Store, config: &Config) -> Result<Directory, ServiceError> {
    let directory = Directory::new(store.clone(), config.directory_settings());
    let clone = directory.clone();
    let completed = tokio::task::spawn_blocking(move || clone.complete_address_lists()).await;
    match completed.map_err(|error| ServiceError::Setting(error.to_string()))? {
        Ok(0) => {}
        Ok(accounts) => {
            tracing::info!(accounts, "account rows of an earlier version were completed");
        }
        Err(error) => {
            tracing::warn!(%error, "account rows are not completed: retried at the next start");
        }
    }
    Ok(directory)
}

struct Listeners {
    lmtp: Vec<BoundListener>,
    /// Such as `127.0.0.1:24`, the path of a Unix socket, or `fd:NAME`.
    lmtp_addresses: Vec<String>,
    control: BoundListener,
    metrics: Vec<BoundListener>,
    public: Vec<BoundListener>,
    managesieve: Vec<BoundListener>,
}

impl Listeners {
    /// Binds all configured addresses, or takes the sockets that systemd passed for them.
    async fn bind(config: &Config) -> Result<Self, ServiceError> {
        // The names of the sockets that systemd passes.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let (mut lmtp, mut lmtp_addresses) = (Vec::new(), Vec::new());
        for place in &config.lmtp_addresses(|name| names.split(':').any(|known| known == name)) {
            let failed =
                |error| ServiceError::Listen { place: format!("[lmtp] listen {place}"), error };
            for listener in
                BoundListener::bind(place, &config.lmtp_access()).await.map_err(failed)?
            {
                lmtp_addresses.push(match (place, listener.port()) {
                    (ListenAddress::Tcp(host, _), Some(port)) => format!("{host}:{port}"),
                    (ListenAddress::Unix(path), _) => path.display().to_string(),
                    (place, _) => place.to_string(),
                });
                lmtp.push(listener);
            }
        }
        let socket = &config.control.socket;
        let control = http::bind(socket).await.map_err(|error| ServiceError::Listen {
            place: format!("[control] socket {}", socket.display()),
            error,
        })?;
        let mut metrics = Vec::new();
        if let Some(place) = config.metrics_address() {
            let failed =
                |error| ServiceError::Listen { place: format!("[metrics] listen {place}"), error };
            metrics =
                BoundListener::bind(&place, &config.metrics_access()).await.map_err(failed)?;
        }
        let mut public = Vec::new();
        for place in config.http_addresses() {
            let failed =
                |error| ServiceError::Listen { place: format!("[http] listen {place}"), error };
            public
                .extend(BoundListener::bind(&place, &config.http_access()).await.map_err(failed)?);
        }
        let mut managesieve = Vec::new();
        for place in config.managesieve_addresses() {
            let failed = |error| ServiceError::Listen {
                place: format!("[managesieve] listen {place}"),
                error,
            };
            let access = config.managesieve_access();
            managesieve.extend(BoundListener::bind(&place, &access).await.map_err(failed)?);
        }
        Ok(Self { lmtp, lmtp_addresses, control, metrics, public, managesieve })
    }

    /// Starts a task for each listener.
    fn serve(
        self,
        store: &Store,
        rooms: &LiveSettings,
        deliver: &Arc<Deliverer>,
        backend: &Arc<http::Backend>,
        stop: &StopSignal,
    ) -> Vec<JoinHandle<()>> {
        let mut tasks = Vec::new();
        for listener in self.lmtp {
            let (settings, ceiling) = (rooms.lmtp.clone(), rooms.ceiling.clone());
            tasks.push(tokio::spawn(driver::serve(
                listener,
                settings,
                ceiling,
                Arc::clone(deliver),
                stop.clone(),
            )));
        }
        for listener in self.metrics {
            tasks.push(tokio::spawn(http::serve_metrics(listener, store.clone(), stop.clone())));
        }
        let http_limits = http::HttpLimits::new(rooms.http_ceiling.clone());
        for listener in self.public {
            tasks.push(tokio::spawn(http::serve_public(
                listener,
                Arc::clone(backend),
                http_limits.clone(),
                stop.clone(),
            )));
        }
        let shared = Arc::new(managesieve::Shared {
            settings: rooms.managesieve.clone(),
            deliver: rooms.deliver.clone(),
            store: store.clone(),
            directory: backend.directory.clone(),
            passwords: backend.passwords(),
            ceiling: rooms.managesieve_ceiling.clone(),
            bounds: managesieve::ManageSieveBounds::default(),
        });
        for listener in self.managesieve {
            let shared = Arc::clone(&shared);
            tasks.push(tokio::spawn(managesieve::serve(listener, shared, stop.clone())));
        }
        tasks.push(tokio::spawn(http::serve(self.control, Arc::clone(backend), stop.clone())));
        tasks
    }
}

impl Service {
    /// Opens the store, binds the listeners and starts all tasks.
    ///
    /// # Errors
    /// One of these fails, or a setting is wrong. Tasks that were already started end then.
    pub async fn start(config: Config, clock: Arc<dyn Clock>) -> Result<Self, ServiceError> {
        let settings = config.room_settings().map_err(ServiceError::Setting)?;
        for dir in [&config.store.path, &config.spill_dir()] {
            private_directory(dir).map_err(|error| ServiceError::Listen {
                place: dir.display().to_string(),
                error,
            })?;
        }
        let opening = config.clone();
        let store = tokio::task::spawn_blocking(move || open_store(&opening, clock))
            .await
            .map_err(|error| ServiceError::Setting(error.to_string()))??;
        let directory = open_directory(&store, &config).await?;
        let queue_settings = LiveValue::new(settings.queue);
        let queue = QueueWorker::new(store.clone(), directory.clone(), queue_settings.clone());
        let rooms = LiveSettings {
            lmtp: LiveValue::new(settings.lmtp),
            ceiling: config.lmtp_ceiling(),
            control: LiveValue::new(config.control_settings(&settings.deliver)),
            deliver: LiveValue::new(settings.deliver),
            directory: directory.settings().clone(),
            http: LiveValue::new(settings.http),
            http_ceiling: config.http_ceiling(),
            managesieve: LiveValue::new(settings.managesieve),
            managesieve_ceiling: config.managesieve_ceiling(),
            queue: queue_settings,
            queue_waker: queue.waker(),
            upkeep: LiveValue::new(config.upkeep_settings()),
        };
        let deliver =
            Arc::new(Deliverer::new(store.clone(), directory.clone(), rooms.deliver.clone()));
        let (switch, stop) = switch();
        let deliver_fn = http::deliver_fn(Arc::clone(&deliver), rooms.lmtp.clone());
        let pusher = push::run(store.clone(), directory.clone(), rooms.http.clone(), stop.clone());
        let logins = Logins::new(directory.clone(), Arc::clone(store.clock()))
            .map_err(|error| ServiceError::Setting(error.to_string()))?;
        let mut backend = http::Backend::new(
            store.clone(),
            directory,
            deliver_fn,
            rooms.control.clone(),
            rooms.http.clone(),
            logins,
            stop.clone(),
        );
        backend.relay = queue.trouble();
        let backend = Arc::new(backend);

        let listeners = Listeners::bind(&config).await?;
        let (lmtp, jobs) = (listeners.lmtp_addresses.clone(), backend.jobs.clone());
        let mut tasks = listeners.serve(&store, &rooms, &deliver, &backend, &stop);
        let mut queue_stop = stop.clone();
        tasks.push(tokio::spawn(queue.run(async move { queue_stop.wait().await })));
        tasks.push(tokio::spawn(pusher));
        tasks.push(tokio::spawn(reports::run(store.clone(), deliver, stop)));
        let upkeep = Upkeep::new(store.clone(), rooms.upkeep.clone()).start();
        let upkeep = upkeep
            .map_err(|error| ServiceError::Setting(format!("no thread for upkeep: {error}")))?;
        let control = config.control.socket.display();
        tracing::info!(lmtp = lmtp.join(" "), %control, "the service is up");
        match jobs.resume(&store) {
            Ok(0) => {}
            Ok(accounts) => tracing::warn!(accounts, "continuing unfinished repairs"),
            Err(error) => {
                tracing::error!(%error, "cannot read whether there are unfinished repairs");
            }
        }
        Ok(Self { store, lmtp, tasks, switch, config, rooms, upkeep, jobs })
    }

    /// Applies another configuration. Returns the names of changed settings that need a restart.
    ///
    /// A running LMTP connection keeps its `LmtpSettings`. Everything else uses the new settings
    /// from its next connection, transaction, request, look-up or round on.
    ///
    /// # Errors
    /// Why a file that the configuration names cannot be used; then nothing is changed.
    pub fn reload(&mut self, new: Config) -> Result<Vec<&'static str>, String> {
        let need_restart = self.config.changes_for_restart(&new);
        let config = self.config.after_reload(new);
        let RoomSettings { lmtp, http, managesieve, queue, deliver } = config.room_settings()?;
        self.rooms.lmtp.set(lmtp);
        self.rooms.ceiling.set(config.limits.connections, config.limits.in_flight.0);
        self.rooms.control.set(config.control_settings(&deliver));
        self.rooms.deliver.set(deliver);
        self.rooms.directory.set(config.directory_settings());
        self.rooms.http.set(http);
        self.rooms.http_ceiling.set(config.http.connections, u64::MAX);
        self.rooms.managesieve.set(managesieve);
        self.rooms.managesieve_ceiling.set(config.managesieve.connections, u64::MAX);
        self.rooms.queue.set(queue);
        self.rooms.queue_waker.wake();
        self.rooms.upkeep.set(config.upkeep_settings());
        self.upkeep.wake();
        self.config = config;
        Ok(need_restart)
    }

    /// Checks that the store still accepts writes.
    ///
    /// # Errors
    /// `Poisoned`, after a write failed.
    pub fn health(&self) -> Result<(), store::Error> {
        self.store.health()
    }

    /// Returns the bound LMTP addresses: `127.0.0.1:24`, the path of a Unix socket, or `fd:NAME`.
    #[must_use]
    pub fn lmtp_addresses(&self) -> &[String] {
        &self.lmtp
    }

    /// Accepts no new work, waits up to `limits.drain` for what is running, and closes the store. A
    /// job has up to 20 seconds, even if `limits.drain` is shorter.
    pub async fn stop(self) {
        let until = tokio::time::Instant::now() + self.config.limits.drain.0;
        self.switch.stop();
        let jobs = self.jobs.clone();
        // A job stops after its current step; the next start continues a repair. 20 s are the
        // default of `limits.drain`.
        let stopped = tokio::task::spawn_blocking(move || jobs.stop(Duration::from_secs(20)));
        let upkeep = tokio::task::spawn_blocking(move || self.upkeep.stop());
        for mut task in self.tasks.into_iter().chain([upkeep]) {
            match tokio::time::timeout_at(until, &mut task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a task panicked"),
                Err(_) => task.abort(),
            }
        }
        if stopped.await.is_err() {
            tracing::error!("stopping the jobs panicked");
        }
        if !self.switch.wait_until_drained(until).await {
            tracing::warn!(
                "sessions were ended when the time for the drain was over; \
                 messages that they were receiving were not acknowledged"
            );
        }
    }
}
