//! `repair`, `rebuild`, `reindex`: the same work in three scopes, on the running service or on the
//! data directory.

use clap::Args;

use crate::cli::control::{CommandContext, job};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::meter::ProgressMeter;
use crate::cli::terminal::output;
use crate::jmap::admin::store as words;
use crate::message::rows_or_bare;
use crate::model::AccountId;
use crate::store::repair::RepairScope;
use crate::wire::jmap::admin::store::{JobStage, RepairOutcome, StoreRepair, StoreRepairArguments};

/// `repair`, `rebuild`, `reindex`
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Of these accounts alone: names, addresses or ids.
    #[arg(value_name = "ACCOUNT")]
    pub accounts: Vec<String>,
}

pub(in crate::cli) async fn run(
    scope: RepairScope,
    args: &RepairArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let name = match scope {
        RepairScope::Repair => "repair",
        RepairScope::Reindex => "reindex",
        RepairScope::Rebuild => "rebuild",
    };
    let mut meter = ProgressMeter::new(name);
    let done = if context.client.is_up().await {
        let arguments =
            StoreRepairArguments { scope: name.to_owned(), accounts: args.accounts.clone() };
        job::follow::<StoreRepair>(context, arguments, &mut meter).await?
    } else {
        here(scope, args, context, &mut meter)?
    };
    drop(meter);
    if context.json {
        output::json(&done);
    } else {
        say(&done);
    }
    match done.left_count {
        0 => Ok(()),
        left => {
            let what = "what they said is in a backup alone";
            Err(Failure::new(exit::DATA, format!("{left} things could not be mended: {what}")))
        }
    }
}

fn here(
    scope: RepairScope,
    args: &RepairArgs,
    context: &CommandContext,
    meter: &mut ProgressMeter,
) -> Result<RepairOutcome, Failure> {
    let store = job::open(context)?;
    let directory =
        crate::account::Directory::new(store.clone(), context.config.directory_settings());
    let mut accounts: Vec<AccountId> = Vec::new();
    for name in &args.accounts {
        let found = directory.find_damaged_account(name).map_err(|error| job::failed(&error))?;
        let none = || Failure::new(exit::NO_USER, format!("{name}: no such account"));
        accounts.push(found.ok_or_else(none)?);
    }
    let some = (!accounts.is_empty()).then_some(accounts.as_slice());
    let secrets = store.secrets().clone();
    let remake = |raw: &[u8]| rows_or_bare(raw, &secrets);
    let done = store.repair(scope, some, &remake, &mut |at| {
        meter.show(&JobStage::Store(at.into()));
        true
    });
    Ok(words::repaired(&done.map_err(|error| job::failed(&error))?))
}

fn say(done: &RepairOutcome) {
    for breach in &done.left {
        output::line(&format!("left: {breach}"));
    }
    for account in &done.mended {
        let states = if done.renewed.contains(account) { "; clients read it anew" } else { "" };
        output::line(&format!("mended: account {account}{states}"));
    }
    let (accounts, mended, written) = (done.accounts, done.mended.len(), done.written);
    output::line(&format!(
        "{accounts} accounts looked at, {mended} mended, {written} rows written"
    ));
}
