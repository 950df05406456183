//! Finds the account that a command is about.

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
    /// The account: its name or any of its addresses. Default: the account of your Unix user.
    #[arg(long, short, value_name = "ACCOUNT", default_value = "", hide_default_value = true)]
    pub account: String,
}

pub(in crate::cli) struct AccountInfo {
    pub(in crate::cli) id: String,
    /// The name by which commands find the account.
    pub(in crate::cli) name: String,
    /// The account's time zone, else the configuration's, else the machine's. A zone that is not
    /// known here counts as none.
    pub(in crate::cli) zone: TimeZone,
}

/// Finds an account by its name or any of its addresses; for "" the account of the Unix user.
///
/// # Errors
/// There is no such account, the caller has no right to it, or the service does not run.
pub(in crate::cli) async fn find_account(
    name: &str,
    context: &CommandContext,
) -> Result<AccountInfo, Failure> {
    let account = if name.is_empty() { AccountRef::default() } else { AccountRef::by_name(name) };
    let answer = context.client.call::<AccountGet>(account).await;
    let answer = answer.map_err(|failure| failure.naming_account(name))?;
    let zone = zone_of(answer.zone.as_deref(), context.config.directory.zone.as_deref());
    Ok(AccountInfo { id: answer.id, name: answer.name, zone })
}

/// Returns the first of the two zones that is known here, or else that of the machine.
fn zone_of(account: Option<&str>, configured: Option<&str>) -> TimeZone {
    let mut zones = [account, configured].into_iter().flatten();
    zones.find_map(clock::zone).unwrap_or_else(TimeZone::system)
}

/// Calls a vendor method of the account that the command names.
///
/// # Errors
/// As for `find_account`, and those of the method.
pub(in crate::cli) async fn call<M, A>(
    context: &CommandContext,
    selected: &AccountArgs,
    args: A,
) -> Result<M::Answer, Failure>
where
    M: VendorMethod<Args = OfAccount<A>>,
{
    let account = find_account(&selected.account, context).await?;
    context.client.call::<M>(With(AccountRef::by_id(&account.id), args)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_zone_of_an_account_counts_as_none() {
        let name = |account, configured| {
            zone_of(account, configured).iana_name().map(str::to_owned).unwrap_or_default()
        };
        // No machine of a test has this zone.
        let configured = Some("Pacific/Chatham");
        assert_eq!(name(Some("Europe/Berlin"), configured), "Europe/Berlin");
        assert_eq!(name(None, configured), "Pacific/Chatham");
        assert_eq!(name(Some("Mars/Olympus"), configured), "Pacific/Chatham");
        assert_ne!(name(Some("Mars/Olympus"), None), "Mars/Olympus");
    }
}
