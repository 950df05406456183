//! The command `sieve get`.

use clap::Args;

use super::ScriptArgs;
use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::sieve::{SieveGet, SieveNameArguments};
use crate::wire::jmap::{With, from_base64};

#[derive(Debug, Args)]
pub struct SieveGetArgs {
    #[command(flatten)]
    pub script: ScriptArgs,
}

pub(super) async fn run(args: SieveGetArgs, context: &CommandContext) -> Result<(), Failure> {
    let ScriptArgs { account, name } = args.script;
    let account = find_account(&account, context).await?;
    let arguments = With(AccountRef::by_id(&account.id), SieveNameArguments { name });
    let answer = context.client.call::<SieveGet>(arguments).await?;
    if context.json {
        output::json(&answer);
        return Ok(());
    }
    let source = from_base64(&answer.source)
        .map_err(|_| Failure::new(exit::SOFTWARE, "the service's answer is not base64"))?;
    output::bytes(&source)
}
