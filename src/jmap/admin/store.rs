//! The vendor methods that check, repair and back up the store. Each starts a job, whose progress
//! and result Job/get returns. The commands that work on a stopped store use only the public
//! functions, such as `check_findings`.

use std::path::PathBuf;

use super::AdminMethod;
use crate::jmap::method::Call;
use crate::message::rows_of_any;
use crate::model::AccountId;
use crate::store::backup::Backup;
use crate::store::check::{Breach, CheckReport};
use crate::store::repair::{RepairReport, RepairScope};
use crate::wire::jmap::MethodError;
use crate::wire::jmap::admin::store::{
    BackupFacts, CheckFindings, JobGet, JobGetAnswer, JobRef, JobResult, JobStage, RepairOutcome,
    StoreBackup, StoreBackupArguments, StoreCheck, StoreCheckArguments, StoreRepair,
    StoreRepairArguments,
};

impl AdminMethod for StoreCheck {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        args: StoreCheckArguments,
    ) -> Result<JobRef, MethodError> {
        let store = context.store.clone();
        context.jobs.start("check", move |progress| {
            let secrets = store.secrets().clone();
            let parse_again = |raw: &[u8]| rows_of_any(raw, &secrets);
            let found = store.check_deep(args.blobs.then_some(&parse_again), &mut |at| {
                progress.report_store(at)
            })?;
            Ok(JobResult::Check(check_findings(&found)))
        })
    }
}

#[must_use]
pub fn check_findings(found: &CheckReport) -> CheckFindings {
    CheckFindings {
        breaches: lines(&found.breaches),
        count: found.count,
        accounts: found.accounts as u64,
        rows: found.rows,
    }
}

fn lines(breaches: &[Breach]) -> Vec<String> {
    breaches.iter().map(ToString::to_string).collect()
}

impl AdminMethod for StoreRepair {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        args: StoreRepairArguments,
    ) -> Result<JobRef, MethodError> {
        let scope = scope_of(&args.scope).ok_or_else(|| {
            MethodError::InvalidArguments(format!("scope: there is no scope \"{}\"", args.scope))
        })?;
        let mut accounts: Vec<AccountId> = Vec::new();
        for name in &args.accounts {
            let found = context.directory.find_damaged_account(name)?;
            accounts.push(found.ok_or(MethodError::AccountNotFound)?);
        }
        let store = context.store.clone();
        context.jobs.start("repair", move |progress| {
            let secrets = store.secrets().clone();
            let parse_again = |raw: &[u8]| rows_of_any(raw, &secrets);
            // Without names, all accounts are repaired.
            let selected = (!accounts.is_empty()).then_some(accounts.as_slice());
            let done =
                store.repair(scope, selected, &parse_again, &mut |at| progress.report_store(at))?;
            Ok(JobResult::Repair(repair_outcome(&done)))
        })
    }
}

#[must_use]
pub fn scope_of(name: &str) -> Option<RepairScope> {
    match name {
        "repair" => Some(RepairScope::Repair),
        "reindex" => Some(RepairScope::Reindex),
        "rebuild" => Some(RepairScope::Rebuild),
        _ => None,
    }
}

#[must_use]
pub fn repair_outcome(done: &RepairReport) -> RepairOutcome {
    let ids = |accounts: &[AccountId]| accounts.iter().map(ToString::to_string).collect();
    RepairOutcome {
        accounts: done.accounts as u64,
        repaired: ids(&done.repaired),
        renewed: ids(&done.history_restarted),
        written: done.written,
        unrepaired: lines(&done.unrepaired),
        unrepaired_count: done.unrepaired_count,
    }
}

impl AdminMethod for StoreBackup {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        args: StoreBackupArguments,
    ) -> Result<JobRef, MethodError> {
        let dir = PathBuf::from(args.dir);
        if !dir.is_absolute() {
            return Err(MethodError::InvalidArguments("dir: an absolute path is expected".into()));
        }
        let keep = args.keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX));
        let store = context.store.clone();
        context.jobs.start("backup", move |progress| {
            let made = store.backup(&dir, keep, &mut |bytes| {
                progress.report(JobStage::Backup { octets: bytes })
            })?;
            Ok(JobResult::Backup(backup_facts(&made)))
        })
    }
}

#[must_use]
pub fn backup_facts(made: &Backup) -> BackupFacts {
    let Backup { id, at, bytes, files, written } = *made;
    BackupFacts { id, at: at.rfc3339(), octets: bytes, files, written }
}

impl AdminMethod for JobGet {
    const ADMIN_ONLY: bool = true;

    fn call(&Call { context, .. }: &Call<'_>, job: JobRef) -> Result<JobGetAnswer, MethodError> {
        context.jobs.get(job)
    }
}
