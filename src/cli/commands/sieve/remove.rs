//! The command `sieve remove`.

use clap::Args;

use super::ScriptArgs;
use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::Failure;
use crate::cli::terminal::output;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::sieve::{SieveNameArguments, SieveRemove};

#[derive(Debug, Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub script: ScriptArgs,
}

pub(super) async fn run(args: RemoveArgs, context: &CommandContext) -> Result<(), Failure> {
    let ScriptArgs { account, name } = args.script;
    let account = find_account(&account, context).await?;
    let arguments = With(AccountRef::by_id(&account.id), SieveNameArguments { name });
    let answer = context.client.call::<SieveRemove>(arguments).await?;
    if context.json {
        output::json(&answer);
    } else {
        output::line(&format!("{} removed", answer.removed));
    }
    Ok(())
}
