//! The commands `repair`, `rebuild` and `reindex`: the same work in three scopes.

use clap::Args;

use crate::cli::control::{CommandContext, job};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::meter::ProgressMeter;
use crate::cli::terminal::output;
use crate::jmap::admin::store as admin;
use crate::message::rows_of_any;
use crate::model::AccountId;
use crate::store::repair::RepairScope;
use crate::wire::jmap::admin::store::{JobStage, RepairOutcome, StoreRepair, StoreRepairArguments};

/// The arguments of all three commands.
#[derive(Debug, Args)]
pub struct RepairArgs {
    /// Only these accounts: names, addresses or ids [default: all].
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
        let done = job::run::<StoreRepair>(context, arguments, &mut meter).await;
        done.map_err(|failure| match args.accounts.as_slice() {
            [only] => failure.naming_account(only),
            _ => failure,
        })?
    } else {
        repair_store(scope, args, context, &mut meter)?
    };
    drop(meter);
    if context.json {
        output::json(&done);
    } else {
        print(&done);
    }
    match done.unrepaired_count {
        0 => Ok(()),
        left => {
            let advice = "restore a backup to get the lost data back";
            Err(Failure::new(exit::DATA, format!("{left} faults could not be repaired: {advice}")))
        }
    }
}

/// Repairs the store in this process, for lack of a service.
fn repair_store(
    scope: RepairScope,
    args: &RepairArgs,
    context: &CommandContext,
    meter: &mut ProgressMeter,
) -> Result<RepairOutcome, Failure> {
    let store = job::open_store(context)?;
    let directory =
        crate::account::Directory::new(store.clone(), context.config.directory_settings());
    let mut accounts: Vec<AccountId> = Vec::new();
    for name in &args.accounts {
        let found =
            directory.find_damaged_account(name).map_err(|error| job::store_failure(&error))?;
        let unknown = || Failure::new(exit::NO_USER, format!("there is no account {name}"));
        accounts.push(found.ok_or_else(unknown)?);
    }
    let selected = (!accounts.is_empty()).then_some(accounts.as_slice());
    let secrets = store.secrets().clone();
    let make_rows = |raw: &[u8]| rows_of_any(raw, &secrets);
    let done = store.repair(scope, selected, &make_rows, &mut |at| {
        meter.show(&JobStage::Store(at.into()));
        true
    });
    Ok(admin::repair_outcome(&done.map_err(|error| job::store_failure(&error))?))
}

fn print(done: &RepairOutcome) {
    for breach in &done.unrepaired {
        output::line(&format!("not repaired: {breach}"));
    }
    for account in &done.repaired {
        let renewed = done.renewed.contains(account);
        let clients = if renewed { "; clients will load it anew" } else { "" };
        output::line(&format!("repaired: account {account}{clients}"));
    }
    let (accounts, repaired, written) = (done.accounts, done.repaired.len(), done.written);
    output::line(&format!(
        "{accounts} accounts checked, {repaired} repaired, {written} rows written"
    ));
}
