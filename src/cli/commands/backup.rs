//! `backup` and `restore`. A backup is made by the process that has the store open: the service
//! when it runs. A restore makes a data directory of its own, and never touches the one in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::control::{CommandContext, job};
use crate::cli::exit::{self, Failure};
use crate::cli::service;
use crate::cli::terminal::meter::ProgressMeter;
use crate::cli::terminal::output::{self, local, size};
use crate::jmap::admin::store as words;
use crate::message::rows_or_bare;
use crate::model::clock;
use crate::store::{self, Store, backup};
use crate::wire::jmap::admin::store::{BackupFacts, JobStage, StoreBackup, StoreBackupArguments};

/// `backup`
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The directory that the backups are in; made if it is not there.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Keep only this many, the newest; all if not given.
    #[arg(long, value_name = "NUMBER")]
    pub keep: Option<usize>,
    /// Make none: list those that there are.
    #[arg(long, conflicts_with = "keep")]
    pub list: bool,
    /// Make none: read all that there are, and compare every octet with its checksum.
    #[arg(long, conflicts_with_all = ["keep", "list"])]
    pub verify: bool,
}

/// `restore`
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The directory that the backups are in.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Which; the newest if not given.
    #[arg(long = "backup", value_name = "ID")]
    pub id: Option<u32>,
    /// The data directory to make; it must be empty or not there.
    #[arg(long, value_name = "NEW-DIR")]
    pub to: PathBuf,
}

pub(in crate::cli) async fn back_up(
    args: &BackupArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let dir = std::path::absolute(&args.dir).map_err(|error| bad(&args.dir, &error.to_string()))?;
    if args.list || args.verify {
        return list(&dir, args.verify, context);
    }
    let mut meter = ProgressMeter::new("backup");
    let made = if context.client.is_up().await {
        let Some(path) = dir.to_str() else {
            return Err(bad(&dir, "a path that is text is wanted"));
        };
        let keep = args.keep.map(|keep| keep as u64);
        let arguments = StoreBackupArguments { dir: path.to_owned(), keep };
        job::follow::<StoreBackup>(context, arguments, &mut meter).await?
    } else {
        let store = job::open(context)?;
        let made = store.backup(&dir, args.keep, &mut |octets| {
            meter.show(&JobStage::Backup { octets });
            true
        });
        words::backed_up(&made.map_err(|error| job::failed(&error))?)
    };
    drop(meter);
    if context.json {
        output::json(&made);
    } else {
        let (id, written, octets) = (made.id, size(made.written), size(made.octets));
        output::line(&format!(
            "backup {id} in {}: {written} written, {octets} in all",
            dir.display()
        ));
    }
    Ok(())
}

/// A line of the list of backups.
#[derive(Serialize)]
struct ListedBackup {
    #[serde(flatten)]
    backup: BackupFacts,
    /// What reading it found, where it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

fn list(dir: &Path, verify: bool, context: &CommandContext) -> Result<(), Failure> {
    let all = backup::list(dir).map_err(|error| job::failed(&error))?;
    let mut broken = 0;
    let mut rows: Vec<ListedBackup> = Vec::new();
    for one in &all {
        let mut state = None;
        if verify {
            let wrong = backup::verify(dir, one.id).err();
            broken += usize::from(wrong.is_some());
            state = Some(wrong.map_or_else(|| "whole".to_owned(), |error| error.to_string()));
        }
        rows.push(ListedBackup { backup: words::backed_up(one), state });
    }
    if context.json {
        output::json(&rows);
    } else {
        let zone = jiff::tz::TimeZone::system();
        let cells = rows.into_iter().map(|ListedBackup { backup, state }| {
            let (id, at, files) =
                (backup.id.to_string(), local(&backup.at, &zone), backup.files.to_string());
            vec![id, at, size(backup.octets), files, state.unwrap_or_default()]
        });
        output::table(
            &["BACKUP", "MADE", "SIZE", "FILES", if verify { "STATE" } else { "" }],
            cells.collect(),
        );
    }
    if broken == 0 {
        Ok(())
    } else {
        Err(Failure::new(exit::DATA, format!("{broken} of {} are damaged", all.len())))
    }
}

pub(in crate::cli) fn restore(args: &RestoreArgs, context: &CommandContext) -> Result<(), Failure> {
    let mut meter = ProgressMeter::new("restore");
    let to = args.to.join(service::STORE);
    // What a restore that was killed left behind is made anew.
    let half = backup::partial_restore(&to);
    let in_use = |mut all: std::fs::ReadDir| {
        all.any(|entry| entry.map_or(true, |entry| entry.path() != half))
    };
    if std::fs::read_dir(&args.to).is_ok_and(in_use) {
        return Err(bad(&args.to, "it is not empty: name a directory of its own"));
    }
    let made = backup::restore(&args.dir, args.id, &to).map_err(|error| job::failed(&error))?;
    let store = open(&to)?;
    let secrets = store.secrets().clone();
    let remake = |raw: &[u8]| rows_or_bare(raw, &secrets);
    let found = store.check_deep(Some(&remake), &mut |at| {
        meter.show(&JobStage::Store(at.into()));
        true
    });
    let found = words::checked(&found.map_err(|error| job::failed(&error))?);
    drop(meter);
    if context.json {
        output::json(&json!({"backup": words::backed_up(&made), "check": found}));
    } else {
        let at = made.at.local(&jiff::tz::TimeZone::system());
        output::line(&format!("backup {} of {at} is in {}", made.id, args.to.display()));
        found.breaches.iter().for_each(|breach| output::line(breach));
        let (accounts, rows, count) = (found.accounts, found.rows, found.count);
        output::line(&format!("checked: {accounts} accounts, {rows} rows, {count} breaches"));
        output::line(
            "to go on with it: stop the service, put it in the place of the data directory, and start",
        );
    }
    if found.count == 0 {
        Ok(())
    } else {
        Err(Failure::new(
            exit::DATA,
            "it is there, and not in order: `restante repair` it, or take another backup",
        ))
    }
}

#[cfg(feature = "rocksdb")]
fn open(dir: &Path) -> Result<Store, Failure> {
    let opened =
        Store::open_read_only(dir, &store::Options::default(), Arc::new(clock::SystemClock));
    opened.map_err(|error| job::failed(&error))
}

#[cfg(not(feature = "rocksdb"))]
fn open(_: &Path) -> Result<Store, Failure> {
    let opened = Store::open_engine(
        Arc::new(store::engine::memory::MemoryEngine::new()),
        &store::Options::default(),
        Arc::new(clock::SystemClock),
    );
    opened.map_err(|error| job::failed(&error))
}

fn bad(path: &Path, what: &str) -> Failure {
    Failure::new(exit::USAGE, format!("{}: {what}", path.display()))
}
