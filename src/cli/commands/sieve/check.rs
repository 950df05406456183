//! The command `sieve check`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::counts;
use crate::cli::control::CommandContext;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input::read;
use crate::cli::terminal::output;
use crate::jmap::admin::sieve::check_facts;
use crate::wire::jmap::admin::sieve::{CheckFacts, DiagnosticFacts};

#[derive(Debug, Args)]
pub struct SieveCheckArgs {
    /// The files; "-" is standard input.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// What `--json` prints of a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckedFile {
    file: String,
    /// Whether the script has no errors. It may have warnings.
    is_valid: bool,
    diagnostics: Vec<DiagnosticFacts>,
}

pub(super) fn run(args: &SieveCheckArgs, context: &CommandContext) -> Result<(), Failure> {
    let settings = context.config.script_settings();
    let mut files = Vec::with_capacity(args.files.len());
    for path in &args.files {
        let source = read(path)?;
        let file = path.display().to_string();
        let checked = settings.check_script(&source);
        let check = check_facts(&checked, &file)
            .map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))?;
        if !context.json {
            print(&file, &check);
        }
        let (is_valid, diagnostics) = (checked.is_valid(), check.diagnostics);
        files.push(CheckedFile { file, is_valid, diagnostics });
    }
    if context.json {
        output::json(&files);
    }
    let refused = files.iter().filter(|file| !file.is_valid).count();
    match (refused, files.len()) {
        (0, _) => Ok(()),
        (1, 1) => Err(Failure::new(exit::DATA, "the script has errors")),
        (refused, all) => {
            Err(Failure::new(exit::DATA, format!("{refused} of {all} scripts have errors")))
        }
    }
}

fn print(file: &str, check: &CheckFacts) {
    if check.diagnostics.is_empty() {
        output::line(&format!("{file}: no errors"));
        return;
    }
    output::lines(&check.text);
    output::line(&format!("{file}: {}", counts(check)));
}
