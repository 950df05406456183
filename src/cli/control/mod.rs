//! The client of the control socket, and jobs.

pub(super) mod client;
pub(super) mod job;
pub(super) mod pool;
pub(super) mod selected_account;

use std::path::Path;

use super::exit::{self, Failure};
use crate::config::{Config, load};
use client::ControlClient;

/// What a command needs. `json` is the option `--json`.
#[derive(Debug)]
pub(super) struct CommandContext {
    pub(super) config: Config,
    pub(super) client: ControlClient,
    pub(super) json: bool,
}

impl CommandContext {
    pub(super) fn new(path: Option<&Path>, json: bool) -> Result<Self, Failure> {
        let config = load(path).map_err(|faults| Failure::new(exit::CONFIG, faults.to_string()))?;
        let client = ControlClient::new(&config.control.socket);
        Ok(Self { config, client, json })
    }
}

pub(super) fn single_threaded_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::SOFTWARE, format!("cannot start a runtime: {error}")))
}
