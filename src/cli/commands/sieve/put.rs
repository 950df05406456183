//! The command `sieve put`.

use std::path::PathBuf;

use clap::Args;

use super::{ScriptArgs, counts};
use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input::read;
use crate::cli::terminal::output;
use crate::model::limits;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::sieve::{SievePut, SievePutArguments};
use crate::wire::jmap::{With, to_base64};

#[derive(Debug, Args)]
pub struct PutArgs {
    #[command(flatten)]
    pub script: ScriptArgs,
    /// The file with the script; "-" is standard input.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Make it the active script.
    #[arg(long)]
    pub activate: bool,
}

pub(super) async fn run(args: PutArgs, context: &CommandContext) -> Result<(), Failure> {
    let ScriptArgs { account, name } = args.script;
    let source = read(&args.file)?;
    if source.is_empty() {
        let text = format!("{name} was not stored: the script is empty");
        return Err(Failure::new(exit::DATA, text));
    }
    // No site allows more. A site may allow less, which the service checks.
    if source.len() > limits::MAX_SCRIPT_BYTES {
        let most = output::size(limits::MAX_SCRIPT_BYTES as u64);
        return Err(Failure::new(exit::DATA, format!("the script is larger than {most}")));
    }
    let account = find_account(&account, context).await?;
    let arguments = SievePutArguments {
        name: name.clone(),
        source: to_base64(&source),
        activate: args.activate,
    };
    let answer =
        context.client.call::<SievePut>(With(AccountRef::by_id(&account.id), arguments)).await?;
    let counts = counts(&answer.check);
    if context.json {
        output::json(&answer);
    } else if !counts.is_empty() {
        output::lines(answer.check.text.trim_end());
    }
    if !answer.is_stored {
        return Err(Failure::new(exit::DATA, format!("{name} was not stored: {counts}")));
    }
    if !context.json {
        let stored = if answer.is_new { "stored" } else { "replaced" };
        let active = if answer.is_active { "it is active" } else { "it is not active" };
        let counts = if counts.is_empty() { counts } else { format!(" ({counts})") };
        output::line(&format!("{name} {stored}{counts}; {active}"));
    }
    Ok(())
}
