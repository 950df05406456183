//! `config check|example`.

use std::path::Path;

use super::args::ConfigCommand;
use super::{Failure, exit, output};
use crate::config::{DEFAULT_PATH, example, load};

pub(super) fn run(command: &ConfigCommand, path: Option<&Path>) -> Result<(), Failure> {
    match command {
        ConfigCommand::Example => {
            output::raw(example());
            Ok(())
        }
        ConfigCommand::Check => {
            load(path).map_err(|faults| Failure::new(exit::CONFIG, faults.to_string()))?;
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
