//! The command `config`.

use std::path::Path;

use clap::Subcommand;

use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;
use crate::config::{DEFAULT_PATH, example, load};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check the configuration file: print what is wrong, and what to do about it.
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
            let refused = |problem| Failure::new(exit::CONFIG, problem);
            // Reads the certificates, keys, passwords and scripts that `serve` reads.
            config.room_settings().map_err(refused)?;
            config.check_groups().map_err(refused)?;
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
