//! `check`: through the service when it runs, else on the data directory itself. What must hold: it
//! changes nothing there, whoever calls it, and makes no store where there is none.

use std::sync::Arc;

use clap::Args;

use crate::cli::control::{CommandContext, job};
use crate::cli::exit::{self, Failure};
use crate::cli::service;
use crate::cli::terminal::meter::ProgressMeter;
use crate::cli::terminal::output;
use crate::jmap::admin;
use crate::message::rows_or_bare;
use crate::model::clock;
use crate::wire::jmap::admin::store::{JobStage, StoreCheck, StoreCheckArguments};

/// `check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Read every message, too: its hash must be its key, and what is listed and searched of it
    /// what it says.
    #[arg(long)]
    pub blobs: bool,
}

pub(in crate::cli) async fn run(args: &CheckArgs, context: &CommandContext) -> Result<(), Failure> {
    let mut meter = ProgressMeter::new("check");
    let found = if context.client.is_up().await {
        job::follow::<StoreCheck>(context, StoreCheckArguments { blobs: args.blobs }, &mut meter)
            .await?
    } else {
        let store = service::look_at_store(&context.config, Arc::new(clock::SystemClock))
            .map_err(|error| Failure::new(exit::TEMPORARY, error.to_string()))?
            .ok_or_else(|| {
                let path = context.config.store.path.display();
                Failure::new(exit::NO_INPUT, format!("{path}: no store there"))
            })?;
        let secrets = store.secrets().clone();
        let remake = |raw: &[u8]| rows_or_bare(raw, &secrets);
        let found = store.check_deep(args.blobs.then_some(&remake), &mut |at| {
            meter.show(&JobStage::Store(at.into()));
            true
        });
        admin::store::checked(
            &found.map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))?,
        )
    };
    drop(meter);
    let count = found.count;
    if context.json {
        output::json(&found);
    } else if count == 0 {
        output::line(&format!("in order: {} accounts, {} rows", found.accounts, found.rows));
    } else {
        found.breaches.iter().for_each(|breach| output::line(breach));
    }
    if count == 0 {
        Ok(())
    } else {
        let what = "`restante repair` mends what can be mended; report it, with this output";
        Err(Failure::new(exit::DATA, format!("{count} things are not in order: {what}")))
    }
}
