//! The commands `backup` and `restore`.
//!
//! A restore creates a new data directory and never changes the one that is in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::check;
use crate::cli::control::{CommandContext, job};
use crate::cli::exit::{self, Failure};
use crate::cli::service;
use crate::cli::terminal::meter::ProgressMeter;
use crate::cli::terminal::output::{self, local, size};
use crate::jmap::admin::store as admin;
use crate::message::rows_of_any;
use crate::model::clock;
use crate::store::{self, Store, backup};
use crate::wire::jmap::admin::store::{BackupFacts, JobStage, StoreBackup, StoreBackupArguments};

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The directory of the backups; created if it does not exist.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Keep only this number of backups, the newest ones [default: all].
    #[arg(long, value_name = "NUMBER")]
    pub keep: Option<usize>,
    /// List the backups instead of making one.
    #[arg(long, conflicts_with = "keep")]
    pub list: bool,
    /// Read all backups and compare them with their checksums instead of making one.
    #[arg(long, conflicts_with_all = ["keep", "list"])]
    pub verify: bool,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The directory of the backups.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The backup to restore [default: the newest].
    #[arg(long = "backup", value_name = "ID")]
    pub id: Option<u32>,
    /// The data directory to create; if it exists, it must be empty or left by an interrupted
    /// restore.
    #[arg(long, value_name = "NEW-DIR")]
    pub to: PathBuf,
}

pub(in crate::cli) async fn back_up(
    args: &BackupArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let dir = std::path::absolute(&args.dir)
        .map_err(|error| usage_failure(&args.dir, &error.to_string()))?;
    if args.list || args.verify {
        return list(&dir, args.verify, context);
    }
    let mut meter = ProgressMeter::new("backup");
    let made = if context.client.is_up().await {
        let Some(path) = dir.to_str() else {
            return Err(usage_failure(&dir, "the path is not UTF-8"));
        };
        let keep = args.keep.map(|keep| keep as u64);
        let arguments = StoreBackupArguments { dir: path.to_owned(), keep };
        job::run::<StoreBackup>(context, arguments, &mut meter).await?
    } else {
        let store = job::open_store(context)?;
        let made = store.backup(&dir, args.keep, &mut |octets| {
            meter.show(&JobStage::Backup { octets });
            true
        });
        admin::backup_facts(&made.map_err(|error| job::store_failure(&error))?)
    };
    drop(meter);
    if context.json {
        output::json(&made);
    } else {
        let (id, written, total) = (made.id, size(made.written), size(made.octets));
        output::line(&format!(
            "backup {id} in {}: {written} written, {total} in all",
            dir.display()
        ));
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(untagged)]
enum ListedBackup {
    Listed {
        #[serde(flatten)]
        backup: BackupFacts,
        /// `whole`, or what is damaged; `None` if the backup was not read.
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<String>,
    },
    /// One that cannot be restored.
    Incomplete { id: u32, state: &'static str },
}

impl ListedBackup {
    fn row(self, zone: &jiff::tz::TimeZone) -> Vec<String> {
        match self {
            Self::Listed { backup, state } => {
                let (id, at, files) =
                    (backup.id.to_string(), local(&backup.at, zone), backup.files.to_string());
                vec![id, at, size(backup.octets), files, state.unwrap_or_default()]
            }
            Self::Incomplete { id, state } => {
                let unknown = String::new;
                vec![id.to_string(), unknown(), unknown(), unknown(), state.to_owned()]
            }
        }
    }
}

/// Lists the backups in a directory. With `verify`, it also reads each of them, and fails with
/// `DATA` after the list if one is damaged. The newest may be one that is being made: if it is
/// incomplete, it does not count as damaged.
fn list(dir: &Path, verify: bool, context: &CommandContext) -> Result<(), Failure> {
    let all = backup::list(dir).map_err(|error| job::store_failure(&error))?;
    let incomplete = backup::list_incomplete(dir).map_err(|error| job::store_failure(&error))?;
    let count = all.len() + incomplete.len();
    let newest_listed = all.last().map_or(0, |backup| backup.id);
    let old = |id: &&u32| **id < newest_listed;
    let mut damaged = if verify { incomplete.iter().filter(old).count() } else { 0 };
    let mut rows: Vec<ListedBackup> = Vec::new();
    for backup in &all {
        let mut state = None;
        if verify {
            let damage = backup::verify(dir, backup.id).err();
            damaged += usize::from(damage.is_some());
            state = Some(damage.map_or_else(|| "whole".to_owned(), |error| error.to_string()));
        }
        rows.push(ListedBackup::Listed { backup: admin::backup_facts(backup), state });
    }
    let has_state = verify || !incomplete.is_empty();
    let state = "incomplete: it lacks a file, was interrupted or is being made";
    rows.extend(incomplete.into_iter().map(|id| ListedBackup::Incomplete { id, state }));
    if context.json {
        output::json(&rows);
    } else {
        let zone = jiff::tz::TimeZone::system();
        output::table(
            &["BACKUP", "CREATED", "SIZE", "FILES", if has_state { "STATE" } else { "" }],
            rows.into_iter().map(|row| row.row(&zone)).collect(),
        );
    }
    if damaged == 0 {
        Ok(())
    } else {
        let text = format!("{damaged} of {count} backups are damaged");
        Err(Failure::new(exit::DATA, text))
    }
}

pub(in crate::cli) fn restore(args: &RestoreArgs, context: &CommandContext) -> Result<(), Failure> {
    let mut meter = ProgressMeter::new("restore");
    let to = args.to.join(service::STORE);
    // What an interrupted restore left behind is replaced.
    let partial = backup::partial_restore(&to);
    let has_other_files = |mut all: std::fs::ReadDir| {
        all.any(|entry| entry.map_or(true, |entry| entry.path() != partial))
    };
    if std::fs::read_dir(&args.to).is_ok_and(has_other_files) {
        return Err(usage_failure(&args.to, "it is not empty: name a new directory"));
    }
    let restored = backup::restore(&args.dir, args.id, &to);
    let restored = restored.map_err(|error| restore_failure(args, &error))?;
    let store = open(&to)?;
    let secrets = store.secrets().clone();
    let make_rows = |raw: &[u8]| rows_of_any(raw, &secrets);
    let found = store.check_deep(Some(&make_rows), &mut |at| {
        meter.show(&JobStage::Store(at.into()));
        true
    });
    let found = admin::check_findings(&found.map_err(|error| job::store_failure(&error))?);
    drop(meter);
    if context.json {
        output::json(&json!({"backup": admin::backup_facts(&restored), "check": found}));
    } else {
        let at = restored.at.local(&jiff::tz::TimeZone::system());
        output::line(&format!("backup {} of {at} is in {}", restored.id, args.to.display()));
        let newer = backup::list_incomplete(&args.dir).unwrap_or_default();
        for id in newer.into_iter().filter(|id| *id > restored.id) {
            output::line(&format!("backup {id} is newer, but incomplete"));
        }
        found.breaches.iter().for_each(|breach| output::line(breach));
        output::line(&format!("checked: {}", check::result(&found)));
        output::line(
            "to use it: stop restante.service and restante.socket, move this directory to the \
             place of the data directory, chown it to the service's user, start both units, and \
             see `restante queue accept-loss --help`",
        );
    }
    if found.count == 0 {
        Ok(())
    } else {
        Err(Failure::new(
            exit::DATA,
            "the restored store is not in order: run `restante repair` on it, or restore another \
             backup",
        ))
    }
}

/// Names what the error leaves out: the backup that is missing, or the store that does not open.
fn restore_failure(args: &RestoreArgs, error: &store::Error) -> Failure {
    let Failure { code, message } = job::store_failure(error);
    let dir = args.dir.display();
    let message = match (error, args.id) {
        (store::Error::NotFound(_), Some(id)) => {
            format!("there is no backup {id} in {dir}: see `restante backup {dir} --list`")
        }
        (store::Error::NotFound(_), None) => format!("there is no backup in {dir}"),
        (store::Error::Open(_), _) => format!("the store in {}: {message}", args.to.display()),
        _ => message,
    };
    Failure::new(code, message)
}

/// Opens the restored store for reading only.
#[cfg(feature = "rocksdb")]
fn open(dir: &Path) -> Result<Store, Failure> {
    let opened =
        Store::open_read_only(dir, &store::Options::default(), Arc::new(clock::SystemClock));
    opened.map_err(|error| {
        let Failure { code, message } = job::store_failure(&error);
        Failure::new(code, format!("the store in {}: {message}", dir.display()))
    })
}

/// Never called: without RocksDB, `backup::restore` fails before.
#[cfg(not(feature = "rocksdb"))]
fn open(_: &Path) -> Result<Store, Failure> {
    let opened = Store::open_engine(
        Arc::new(store::engine::memory::MemoryEngine::new()),
        &store::Options::default(),
        Arc::new(clock::SystemClock),
    );
    opened.map_err(|error| job::store_failure(&error))
}

fn usage_failure(path: &Path, problem: &str) -> Failure {
    Failure::new(exit::USAGE, format!("{}: {problem}", path.display()))
}
