//! The command `sieve fmt`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::cli::control::CommandContext;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input::read;
use crate::cli::terminal::{complain, output};
use crate::filter::format_script;
use crate::jmap::admin::sieve::check_facts;
use crate::wire::jmap::admin::sieve::{CheckFacts, DiagnosticFacts};

#[derive(Debug, Args)]
pub struct FmtArgs {
    /// The files, which are written in place; "-" formats standard input to standard output, with
    /// --json as the property `formatted`.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Write nothing, and print the names of the files that are not formatted.
    #[arg(long)]
    pub check: bool,
}

/// What `--json` prints of a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FormattedFile {
    file: String,
    /// Whether the file was formatted before the command ran. False if it has errors.
    is_formatted: bool,
    /// The formatted script; only of standard input without `--check`, and not if it has errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    formatted: Option<String>,
    /// Errors of grammar, which keep the script from being formatted; empty if it has none.
    diagnostics: Vec<DiagnosticFacts>,
}

/// Formats the files in their order. A file that cannot be read or written ends the command; those
/// before it have been formatted then, unless with `--check`.
pub(super) fn run(args: &FmtArgs, context: &CommandContext) -> Result<(), Failure> {
    let mut files = Vec::with_capacity(args.files.len());
    for path in &args.files {
        files.push(format_file(path, args.check, context)?);
    }
    if context.json {
        output::json(&files);
    }
    let refused = files.iter().filter(|file| !file.diagnostics.is_empty()).count();
    // `is_formatted` is false for files with errors, too, which are reported on their own.
    let unformatted = files.iter().filter(|file| !file.is_formatted).count() - refused;
    let plural =
        |count: usize| if count == 1 { "1 script".into() } else { format!("{count} scripts") };
    if refused > 0 {
        let text = format!("{} with errors cannot be formatted", plural(refused));
        return Err(Failure::new(exit::DATA, text));
    }
    if args.check && unformatted > 0 {
        let text = format!("{} not formatted", plural(unformatted));
        return Err(Failure::new(exit::DATA, text));
    }
    Ok(())
}

/// Formats one file. With `only_check`, writes nothing, and prints the name of the file if it is
/// not formatted.
fn format_file(
    path: &Path,
    only_check: bool,
    context: &CommandContext,
) -> Result<FormattedFile, Failure> {
    let source = read(path)?;
    let file = path.display().to_string();
    let formatted = match format_script(&source) {
        Ok(formatted) => formatted,
        Err(errors) => {
            let CheckFacts { text, diagnostics } = check_facts(&errors, &file)
                .map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))?;
            if !context.json {
                complain(&text);
            }
            return Ok(FormattedFile { file, is_formatted: false, formatted: None, diagnostics });
        }
    };
    let is_formatted = formatted.as_bytes() == source;
    let is_stdin = path == Path::new("-");
    let mut printed = None;
    if only_check {
        if !is_formatted && !context.json {
            output::line(&file);
        }
    } else if is_stdin {
        if context.json {
            printed = Some(formatted);
        } else {
            output::bytes(formatted.as_bytes())?;
        }
    } else if !is_formatted {
        replace(path, formatted.as_bytes())?;
    }
    Ok(FormattedFile { file, is_formatted, formatted: printed, diagnostics: Vec::new() })
}

/// Replaces a file by a new one with the same owner, group and permissions. If that fails, the old
/// file stays. A symbolic link stays, and the file to which it leads is replaced. The new file has
/// the name `NAME.PID.new` until it is complete; a file that has this name already stays.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed_with = |path: &Path, error: std::io::Error| {
        Failure::new(exit::NO_INPUT, format!("{}: {error}", path.display()))
    };
    let failed = |error| failed_with(path, error);
    let path = fs::canonicalize(path).map_err(failed)?;
    let about = fs::metadata(&path).map_err(failed)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&new)
        .map_err(|error| failed_with(&new, error))?;
    let mut write = || {
        let new_about = file.metadata()?;
        if (about.uid(), about.gid()) != (new_about.uid(), new_about.gid()) {
            fchown(&file, Some(about.uid()), Some(about.gid()))?;
        }
        file.set_permissions(about.permissions())?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(|error| {
        drop(fs::remove_file(&new));
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_with_the_name_of_the_new_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) =
            (dir.path().join("a"), dir.path().join(format!("a.{}.new", std::process::id())));
        fs::write(&file, "old").unwrap();
        fs::write(&other, "of somebody else").unwrap();
        let failure = replace(&file, b"new").unwrap_err();
        assert!(failure.message.contains(&other.display().to_string()), "{failure}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody else");
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        fs::remove_file(&other).unwrap();
        replace(&file, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(!other.exists());
    }
}
