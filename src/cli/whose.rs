//! The account that a command is about.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::args::AccountArgs;
use super::output::text;
use super::{CommandContext, Failure, methods};
use crate::model::clock;

/// An account, by what the commands need of it.
pub(super) struct AccountInfo {
    /// Its id.
    pub(super) id: String,
    /// What commands call it.
    pub(super) name: String,
    /// Its time zone: its own, else the configuration's, else the machine's.
    pub(super) zone: TimeZone,
}

/// Finds an account by its name or any of its addresses; for "" the one that is mapped to who asks.
///
/// # Errors
/// There is none, it is somebody else's, or no service.
pub(super) async fn account(name: &str, context: &CommandContext) -> Result<AccountInfo, Failure> {
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
pub(super) async fn call(
    context: &CommandContext,
    who: &AccountArgs,
    method: &str,
    mut arguments: Value,
) -> Result<Value, Failure> {
    let account = account(&who.account, context).await?;
    if let Some(members) = arguments.as_object_mut() {
        members.insert("accountId".into(), account.id.into());
    }
    context.client.call(method, arguments).await
}
