//! The command `config`.

use std::path::Path;

use clap::Subcommand;

use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;
use crate::config::{DEFAULT_PATH, example, load};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check the configuration file: print one line for each fault, with what to do about it.
    Check,
    /// Print every setting with its default and its meaning.
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
            // Reads the certificates, keys, passwords and scripts that `serve` reads, but not those
            // of `[managesieve]`.
            config.lmtp_settings().map_err(|problem| Failure::new(exit::CONFIG, problem))?;
            config.http_settings().map_err(|problem| Failure::new(exit::CONFIG, problem))?;
            config.queue_settings().map_err(|problem| Failure::new(exit::CONFIG, problem))?;
            config.deliver_settings().map_err(|problem| Failure::new(exit::CONFIG, problem))?;
            let file = path.unwrap_or(Path::new(DEFAULT_PATH));
            if file.exists() {
                output::line(&format!("{}: in order", file.display()));
            } else {
                let text = "the file does not exist, so the defaults apply";
                output::line(&format!("{}: {text}", file.display()));
            }
            Ok(())
        }
    }
}
