//! The command `account token`. Programs log in with a token in place of a password.

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

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it. It cannot be printed again, because only its hash is stored.
    ///
    /// A JMAP client sends it as `Authorization: Bearer TOKEN`.
    Add {
        /// The account: its name or any of its addresses.
        account: String,
        /// The name of the token, such as that of the program.
        #[arg(long, default_value = "default")]
        name: String,
        /// The last day of the token, such as 2027-01-01 or +90d [default: never].
        #[arg(long, value_name = "WHEN")]
        until: Option<String>,
    },
    /// List the tokens of an account.
    List {
        /// The account: its name or any of its addresses.
        account: String,
    },
    /// Remove a token: the next request with it is refused.
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
        TokenCommand::Add { account, name, until } => {
            let expires = match until {
                Some(until) => {
                    let zone = find_account(&account, context).await?.zone;
                    let at = dates::parse(&until, clock::SystemClock.now(), &zone, Edge::Until);
                    let at = at.map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
                    Some(at.rfc3339())
                }
                None => None,
            };
            let args = With(AccountRef::by_name(&account), TokenAddArguments { name, expires });
            let answer = client.call::<AccountTokenAdd>(args).await;
            let answer = answer.map_err(|failure| failure.naming_account(&account))?;
            if context.json {
                output::json(&answer);
            } else {
                output::line(&answer.token);
            }
        }
        TokenCommand::List { account } => {
            let answer = client.call::<AccountTokenList>(AccountRef::by_name(&account)).await;
            let answer = answer.map_err(|failure| failure.naming_account(&account))?;
            if context.json {
                output::json(&answer.list);
                return Ok(());
            }
            let zone = find_account(&account, context).await?.zone;
            let time = |at: &str| output::local(at, &zone);
            let rows = answer.list.into_iter().map(|row| {
                let expires = row.expires.as_deref().map(time);
                vec![row.name, time(&row.created), expires.unwrap_or_default()]
            });
            let rows = rows.collect();
            output::table(&["NAME", "CREATED", "EXPIRES"], rows);
        }
        TokenCommand::Remove { account, name } => {
            let args = TokenRemoveArguments { name: name.clone() };
            let args = With(AccountRef::by_name(&account), args);
            let answer = client.call::<AccountTokenRemove>(args).await;
            answer.map_err(|failure| failure.naming_account(&account))?;
            let done = format!("token `{name}` of {account} removed");
            output::removed(context.json, &name, &done);
        }
    }
    Ok(())
}
