//! `account token add|list|remove`: what programs log in with in the place of a password.

use clap::Subcommand;

use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::dates::{self, Edge};
use crate::cli::terminal::output;
use crate::model::clock::{self, Clock as _};
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::accounts::{
    AccountTokenAdd, AccountTokenList, AccountTokenRemove, TokenAddArguments, TokenRemoveArguments,
};

/// `account token`
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token, and show it: this once, for it is kept as a hash alone.
    ///
    /// A JMAP client sends it as `Authorization: Bearer TOKEN`.
    Add {
        /// The account: its name or any of its addresses.
        account: String,
        /// What the token is for.
        #[arg(long, default_value = "default")]
        name: String,
        /// When it ends, such as 2027-01-01 or +90d; never if not given.
        #[arg(long, value_name = "WHEN")]
        until: Option<String>,
    },
    /// List the tokens of an account.
    List {
        /// The account: its name or any of its addresses.
        account: String,
    },
    /// Take a token away: from the next request on it opens nothing.
    Remove {
        /// The account: its name or any of its addresses.
        account: String,
        /// The name of the token.
        #[arg(default_value = "default")]
        name: String,
    },
}

pub(in crate::cli) async fn run(
    command: TokenCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    let client = &context.client;
    match command {
        TokenCommand::Add { account: whose, name, until } => {
            let expires = match until {
                Some(until) => {
                    let zone = find_account(&whose, context).await?.zone;
                    let at = dates::parse(&until, clock::SystemClock.now(), &zone, Edge::Until);
                    Some(at.map_err(|bad| Failure::new(exit::USAGE, bad.to_string()))?.rfc3339())
                }
                None => None,
            };
            let args = With(AccountRef::by_name(&whose), TokenAddArguments { name, expires });
            let answer = client.call::<AccountTokenAdd>(args).await?;
            if context.json {
                output::json(&answer);
            } else {
                output::line(&answer.token);
            }
        }
        TokenCommand::List { account } => {
            let answer = client.call::<AccountTokenList>(AccountRef::by_name(&account)).await?;
            if context.json {
                output::json(&answer.list);
                return Ok(());
            }
            let rows = answer.list.into_iter();
            let rows = rows
                .map(|row| vec![row.name, row.created, row.expires.unwrap_or_default()])
                .collect();
            output::table(&["NAME", "MADE", "UNTIL"], rows);
        }
        TokenCommand::Remove { account, name } => {
            let args = TokenRemoveArguments { name: name.clone() };
            client.call::<AccountTokenRemove>(With(AccountRef::by_name(&account), args)).await?;
            output::line(&format!("token `{name}` of {account} removed"));
        }
    }
    Ok(())
}
