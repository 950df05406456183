//! The command `check`. It changes nothing in the store, and does not create one.

use std::sync::Arc;

use clap::Args;

use crate::cli::control::{CommandContext, job};
use crate::cli::exit::{self, Failure};
use crate::cli::service;
use crate::cli::terminal::meter::ProgressMeter;
use crate::cli::terminal::output;
use crate::jmap::admin;
use crate::message::rows_of_any;
use crate::model::clock;
use crate::wire::jmap::admin::store::{CheckFindings, JobStage, StoreCheck, StoreCheckArguments};

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Also read every message, and compare its hash, its stored properties and its search tokens.
    #[arg(long)]
    pub blobs: bool,
}

pub(in crate::cli) async fn run(args: &CheckArgs, context: &CommandContext) -> Result<(), Failure> {
    let mut meter = ProgressMeter::new("check");
    let found = if context.client.is_up().await {
        job::run::<StoreCheck>(context, StoreCheckArguments { blobs: args.blobs }, &mut meter)
            .await?
    } else {
        let store = service::open_store_read_only(&context.config, Arc::new(clock::SystemClock))
            .map_err(|error| Failure::new(exit::TEMPORARY, error.to_string()))?
            .ok_or_else(|| {
                let path = context.config.store.path.display();
                Failure::new(exit::NO_INPUT, format!("{path}: there is no store"))
            })?;
        let secrets = store.secrets().clone();
        let make_rows = |raw: &[u8]| rows_of_any(raw, &secrets);
        let found = store.check_deep(args.blobs.then_some(&make_rows), &mut |at| {
            meter.show(&JobStage::Store(at.into()));
            true
        });
        admin::store::check_findings(
            &found.map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))?,
        )
    };
    drop(meter);
    let count = found.count;
    if context.json {
        output::json(&found);
    } else if count == 0 {
        output::line(&result(&found));
    } else {
        found.breaches.iter().for_each(|breach| output::line(breach));
    }
    if count == 0 {
        Ok(())
    } else {
        let advice = "run `restante repair`, and report this output as a fault of Restante";
        Err(Failure::new(exit::DATA, format!("{}: {advice}", result(&found))))
    }
}

/// Returns the result as one line, without the faults themselves. `restore` prints it, too.
pub(super) fn result(found: &CheckFindings) -> String {
    match found.count {
        0 => format!("in order: {} accounts, {} rows", found.accounts, found.rows),
        1 => "1 fault in the store".to_owned(),
        count => format!("{count} faults in the store"),
    }
}
