//! The command `sieve activate`.

use clap::Args;

use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::Failure;
use crate::cli::terminal::output;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::sieve::{SieveActivate, SieveActivateArguments};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("script").required(true))]
pub struct ActivateArgs {
    /// The account: its name or any of its addresses; "" is the account of your Unix user.
    pub account: String,
    /// The name of the script.
    #[arg(group = "script")]
    pub name: Option<String>,
    /// Let no script be active.
    #[arg(long, group = "script")]
    pub none: bool,
}

pub(super) async fn run(args: ActivateArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = find_account(&args.account, context).await?;
    let arguments =
        With(AccountRef::by_id(&account.id), SieveActivateArguments { name: args.name });
    let answer = context.client.call::<SieveActivate>(arguments).await?;
    if context.json {
        output::json(&answer);
        return Ok(());
    }
    output::line(&match (answer.active, answer.changed) {
        (Some(name), true) => format!("{name} is active"),
        (Some(name), false) => format!("{name} was active already"),
        (None, true) => "no script is active any more".to_owned(),
        (None, false) => "no script was active".to_owned(),
    });
    Ok(())
}
