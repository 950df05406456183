//! The account that a command is about.

use clap::Args;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::cli::control::{CommandContext, methods};
use crate::cli::exit::Failure;
use crate::cli::terminal::output::text;
use crate::model::clock;

/// Whose.
#[derive(Debug, Args)]
pub struct AccountArgs {
    /// The account: its name or any of its addresses; the one that is mapped to your Unix user if not given.
    #[arg(long, short, value_name = "ACCOUNT", default_value = "", hide_default_value = true)]
    pub account: String,
}

/// An account, by what the commands need of it.
pub(in crate::cli) struct AccountInfo {
    /// Its id.
    pub(in crate::cli) id: String,
    /// What commands call it.
    pub(in crate::cli) name: String,
    /// Its time zone: its own, else the configuration's, else the machine's.
    pub(in crate::cli) zone: TimeZone,
}

/// Finds an account by its name or any of its addresses; for "" the one that is mapped to who asks.
///
/// # Errors
/// There is none, it is somebody else's, or no service.
pub(in crate::cli) async fn find_account(name: &str, context: &CommandContext) -> Result<AccountInfo, Failure> {
    let named = if name.is_empty() { Value::Null } else { name.into() };
    let answer = context.client.call(methods::ACCOUNT_GET, json!({"account": named})).await?;
    let zone = answer["zone"].as_str().or(context.config.directory.zone.as_deref()).and_then(clock::zone);
    Ok(AccountInfo {
        id: text(&answer["id"]),
        name: text(&answer["name"]),
        zone: zone.unwrap_or_else(TimeZone::system),
    })
}

/// Calls a method for the account that a command is about.
///
/// # Errors
/// As for `account`, and what the method refuses.
pub(in crate::cli) async fn call(
    context: &CommandContext,
    who: &AccountArgs,
    method: &str,
    mut arguments: Value,
) -> Result<Value, Failure> {
    let account = find_account(&who.account, context).await?;
    if let Some(members) = arguments.as_object_mut() {
        members.insert("accountId".into(), account.id.into());
    }
    context.client.call(method, arguments).await
}
