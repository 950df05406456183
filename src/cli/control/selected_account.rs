//! The account that a command is about.

use clap::Args;
use jiff::tz::TimeZone;

use crate::cli::control::CommandContext;
use crate::cli::exit::Failure;
use crate::model::clock;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::accounts::AccountGet;
use crate::wire::jmap::admin::{AccountRef, OfAccount, VendorMethod};

/// The argument that selects an account.
#[derive(Debug, Args)]
pub struct AccountArgs {
    /// The account: its name or any of its addresses; the one that is mapped to your Unix user if
    /// not given.
    #[arg(long, short, value_name = "ACCOUNT", default_value = "", hide_default_value = true)]
    pub account: String,
}

/// An account, by what the commands need of it.
pub(in crate::cli) struct AccountInfo {
    pub(in crate::cli) id: String,
    /// What commands call it.
    pub(in crate::cli) name: String,
    /// Its time zone: its own, else the configuration's, else the machine's.
    pub(in crate::cli) zone: TimeZone,
}

/// Finds an account by its name or any of its addresses; for "" the one that is mapped to the Unix
/// user.
///
/// # Errors
/// There is none, it is somebody else's, or no service.
pub(in crate::cli) async fn find_account(
    name: &str,
    context: &CommandContext,
) -> Result<AccountInfo, Failure> {
    let named = if name.is_empty() { AccountRef::default() } else { AccountRef::by_name(name) };
    let answer = context.client.call::<AccountGet>(named).await?;
    let zone =
        answer.zone.as_deref().or(context.config.directory.zone.as_deref()).and_then(clock::zone);
    Ok(AccountInfo {
        id: answer.id,
        name: answer.name,
        zone: zone.unwrap_or_else(TimeZone::system),
    })
}

/// Calls a method for the account that a command is about.
///
/// # Errors
/// As for `find_account`, and what the method refuses.
pub(in crate::cli) async fn call<M, A>(
    context: &CommandContext,
    who: &AccountArgs,
    args: A,
) -> Result<M::Answer, Failure>
where
    M: VendorMethod<Args = OfAccount<A>>,
{
    let account = find_account(&who.account, context).await?;
    context.client.call::<M>(With(AccountRef::by_id(&account.id), args)).await
}
