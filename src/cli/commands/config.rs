//! `config check|example`.

use std::path::Path;

use clap::Subcommand;

use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;
use crate::config::{DEFAULT_PATH, example, load};

/// `config`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say what is wrong with the configuration file: a line for each fault, with its remedy.
    Check,
    /// Print every key with its default and what it means.
    Example,
}

pub(in crate::cli) fn run(command: &ConfigCommand, path: Option<&Path>) -> Result<(), Failure> {
    match command {
        ConfigCommand::Example => {
            output::raw(example());
            Ok(())
        }
        ConfigCommand::Check => {
            let config =
                load(path).map_err(|faults| Failure::new(exit::CONFIG, faults.to_string()))?;
            // Reads the certificates, keys and passwords that `serve` reads, so that their faults
            // are reported here.
            config.lmtp_settings().map_err(|problem| Failure::new(exit::CONFIG, problem))?;
            config.http_settings().map_err(|problem| Failure::new(exit::CONFIG, problem))?;
            config.queue_settings().map_err(|problem| Failure::new(exit::CONFIG, problem))?;
            let file = path.unwrap_or(Path::new(DEFAULT_PATH));
            if file.exists() {
                output::line(&format!("{}: in order", file.display()));
            } else {
                output::line(&format!("{}: not there; the defaults hold", file.display()));
            }
            Ok(())
        }
    }
}
