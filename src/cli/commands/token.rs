//! `account token add|list|remove`: what programs log in with in the place of a password.

use clap::Subcommand;
use serde_json::json;

use crate::cli::control::selected_account::find_account;
use crate::cli::control::{CommandContext, methods};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::dates::{self, Edge};
use crate::cli::terminal::output::{self, text};
use crate::model::clock::{self, Clock as _};

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
        /// Which.
        #[arg(default_value = "default")]
        name: String,
    },
}

pub(in crate::cli) async fn run(command: TokenCommand, context: &CommandContext) -> Result<(), Failure> {
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
            let arguments = json!({"account": whose, "name": name, "expires": expires});
            let answer = client.call(methods::TOKEN_ADD, arguments).await?;
            if context.json {
                output::json(&answer);
            } else {
                output::line(&text(&answer["token"]));
            }
        }
        TokenCommand::List { account } => {
            let answer = client.call(methods::TOKEN_LIST, json!({"account": account})).await?;
            if context.json {
                output::json(&answer["list"]);
                return Ok(());
            }
            let list = answer["list"].as_array().into_iter().flatten();
            let rows = list.map(|row| vec![text(&row["name"]), text(&row["created"]), text(&row["expires"])]).collect();
            output::table(&["NAME", "MADE", "UNTIL"], rows);
        }
        TokenCommand::Remove { account, name } => {
            client.call(methods::TOKEN_REMOVE, json!({"account": account, "name": name})).await?;
            output::line(&format!("token `{name}` of {account} removed"));
        }
    }
    Ok(())
}
