//! The store's upkeep by hand: check, repair, backup. Each is a job; `Job/get` says how far it is.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::jmap::context::{Args, Context};
use crate::message::rows_or_bare;
use crate::model::AccountId;
use crate::store::check::{Breach, CheckReport, Progress};
use crate::store::repair::{RepairReport, RepairScope};
use crate::wire::jmap::MethodError;

pub(super) fn check(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let deep = arguments.flag("blobs")?;
    let store = context.store.clone();
    let job = context.jobs.start("check", move |pace| {
        let secrets = store.secrets().clone();
        let remake = |raw: &[u8]| rows_or_bare(raw, &secrets);
        let found = store.check_deep(deep.then_some(&remake), &mut |at| pace.tell_store(at))?;
        Ok(checked(&found))
    })?;
    Ok(json!({ "job": job }))
}

/// How far a check or a repair is.
#[must_use]
pub fn progress(at: &Progress) -> Value {
    json!({
        "number": at.number, "accounts": at.accounts, "account": at.account.to_string(), "table": at.table,
        "rows": at.rows, "written": at.written,
    })
}

/// What a check found.
#[must_use]
pub fn checked(found: &CheckReport) -> Value {
    json!({
        "breaches": lines(&found.breaches), "count": found.count, "accounts": found.accounts, "rows": found.rows,
    })
}

fn lines(breaches: &[Breach]) -> Vec<String> {
    breaches.iter().map(ToString::to_string).collect()
}

pub(super) fn repair(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let scope = arguments.text("scope")?;
    let scope = scope_of(&scope).ok_or_else(|| MethodError::InvalidArguments(format!("scope: no \"{scope}\"")))?;
    let mut accounts: Vec<AccountId> = Vec::new();
    for name in arguments.texts("accounts")? {
        let found = context.directory.find_damaged_account(&name)?;
        accounts.push(found.ok_or(MethodError::AccountNotFound)?);
    }
    let store = context.store.clone();
    let job = context.jobs.start("repair", move |pace| {
        let secrets = store.secrets().clone();
        let remake = |raw: &[u8]| rows_or_bare(raw, &secrets);
        let some = (!accounts.is_empty()).then_some(accounts.as_slice());
        let done = store.repair(scope, some, &remake, &mut |at| pace.tell_store(at))?;
        Ok(repaired(&done))
    })?;
    Ok(json!({ "job": job }))
}

/// The scope of that name.
#[must_use]
pub fn scope_of(name: &str) -> Option<RepairScope> {
    match name {
        "repair" => Some(RepairScope::Repair),
        "reindex" => Some(RepairScope::Reindex),
        "rebuild" => Some(RepairScope::Rebuild),
        _ => None,
    }
}

/// What a repair did.
#[must_use]
pub fn repaired(done: &RepairReport) -> Value {
    let names = |accounts: &[AccountId]| accounts.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "accounts": done.accounts, "mended": names(&done.mended), "renewed": names(&done.renewed),
        "written": done.written, "left": lines(&done.left), "leftCount": done.left_count,
    })
}

pub(super) fn backup(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let dir = PathBuf::from(arguments.text("dir")?);
    if !dir.is_absolute() {
        return Err(MethodError::InvalidArguments("dir: an absolute path is wanted".into()));
    }
    let keep = arguments.number("keep")?.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX));
    let store = context.store.clone();
    let job = context.jobs.start("backup", move |pace| {
        let made = store.backup(&dir, keep, &mut |octets| pace.tell(json!({ "octets": octets })))?;
        Ok(backed_up(&made))
    })?;
    Ok(json!({ "job": job }))
}

/// A backup that was made.
#[must_use]
pub fn backed_up(made: &crate::store::backup::Backup) -> Value {
    json!({
        "id": made.id, "at": made.at.rfc3339(), "octets": made.octets, "files": made.files, "written": made.written,
    })
}

pub(super) fn job(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    context.jobs.get(arguments.number("job")?.unwrap_or(0))
}
