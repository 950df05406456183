//! The vendor methods for accounts, their addresses, passwords and tokens.

use super::{AdminMethod, charge_row};
use crate::account::{NewAccount, hash_password, new_token};
use crate::jmap::context::{Context, parse_address};
use crate::jmap::method::Call;
use crate::jmap::session;
use crate::model::address::domain_is_well_formed;
use crate::model::{AccessToken, AccountId, AccountRow, Address, UtcMillis, clock, limits};
use crate::store::Error;
use crate::wire::jmap::admin::accounts::{
    AccountAdd, AccountAddArguments, AccountAlias, AccountAliasDomain, AccountAliasDomains,
    AccountAnswer, AccountChanges, AccountGet, AccountList, AccountListAnswer, AccountPassword,
    AccountRemove, AccountSet, AccountTokenAdd, AccountTokenList, AccountTokenRemove,
    AliasArguments, AliasDomain, AliasDomainArguments, AliasDomainsAnswer, PasswordArguments,
    TokenAddAnswer, TokenAddArguments, TokenFacts, TokenListAnswer, TokenRemoveArguments,
};
use crate::wire::jmap::admin::{AccountRef, EmptyAnswer, EmptyArguments, OfAccount};
use crate::wire::jmap::arguments::Nullable;
use crate::wire::jmap::{MethodError, With};

impl AdminMethod for AccountAdd {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        args: AccountAddArguments,
    ) -> Result<AccountAnswer, MethodError> {
        let aliases: Result<Vec<Address>, MethodError> =
            args.aliases.iter().map(|text| parse_address(text)).collect();
        let new = NewAccount {
            address: parse_address(&args.address)?,
            name: args.name,
            display_name: args.display_name,
            quota_bytes: args.quota_octets,
            quota_emails: args.quota_emails,
            zone: checked_zone(args.zone)?,
            detail_files: args.detail_files,
            unix_user: args.unix_user,
            aliases: aliases?,
            standard_mailboxes: match args.mailboxes.as_deref() {
                // The site's setting decides.
                None => None,
                Some("roles") => Some(true),
                Some("inbox") => Some(false),
                Some(_) => {
                    return Err(MethodError::InvalidArguments(
                        "mailboxes: roles or inbox is expected".into(),
                    ));
                }
            },
        };
        let id = context.directory.add(&new)?;
        account_facts(context, id)
    }
}

impl AdminMethod for AccountList {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        _: EmptyArguments,
    ) -> Result<AccountListAnswer, MethodError> {
        let all = context.directory.list()?;
        let rows = all.iter().map(|(id, row, addresses)| {
            charge_row(context, describe(context, *id, row, addresses)?)
        });
        Ok(AccountListAnswer { list: rows.collect::<Result<_, MethodError>>()? })
    }
}

impl AdminMethod for AccountGet {
    fn call(
        &Call { context, .. }: &Call<'_>,
        account_ref: AccountRef,
    ) -> Result<AccountAnswer, MethodError> {
        let (id, _) = context.account_of(&account_ref)?;
        account_facts(context, id)
    }
}

fn account_facts(context: &Context, id: AccountId) -> Result<AccountAnswer, MethodError> {
    let row = context.store.snapshot().account(id)?.ok_or(MethodError::AccountNotFound)?;
    let identity = context.directory.identity(id)?;
    describe(context, id, &row, &identity.addresses)
}

fn describe(
    context: &Context,
    id: AccountId,
    row: &AccountRow,
    addresses: &[Address],
) -> Result<AccountAnswer, MethodError> {
    let snapshot = context.store.snapshot();
    let state = snapshot.account_state(id)?;
    let inbox = session::inbox_counts(&snapshot, id)?;
    Ok(AccountAnswer {
        id: id.to_string(),
        name: row.name.clone(),
        address: row.primary.to_string(),
        addresses: addresses.iter().map(ToString::to_string).collect(),
        catch_alls: context.directory.catch_alls(id)?,
        display_name: row.display_name.clone(),
        active: row.active,
        zone: row.zone.clone(),
        unix_user: row.unix_user.clone(),
        detail_files: row.detail_files,
        quota_octets: row.quota_bytes,
        quota_emails: row.quota_emails,
        octets: state.bytes,
        emails: state.emails,
        inbox_unread_emails: inbox.unread_emails,
        inbox_unread_threads: inbox.unread_threads,
        created: row.created.rfc3339(),
        passwords: row.passwords.iter().map(|(name, _)| name.clone()).collect(),
    })
}

impl AdminMethod for AccountSet {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, Nullable(changes)): OfAccount<Nullable<AccountChanges>>,
    ) -> Result<AccountAnswer, MethodError> {
        let (id, _) = context.account_of(&account_ref)?;
        let zone = changes.zone.map(checked_zone).transpose()?;
        // Null sets a flag to false.
        let flag = |given: Option<Option<bool>>| given.map(Option::unwrap_or_default);
        let edit = |row: &mut AccountRow| {
            set_if_given(&mut row.display_name, changes.display_name.clone());
            set_if_given(&mut row.unix_user, changes.unix_user.clone());
            set_if_given(&mut row.zone, zone.clone());
            set_if_given(&mut row.quota_bytes, changes.quota_octets);
            set_if_given(&mut row.quota_emails, changes.quota_emails);
            set_if_given(&mut row.active, flag(changes.active));
            set_if_given(&mut row.detail_files, flag(changes.detail_files));
        };
        context.directory.update(id, edit)?;
        account_facts(context, id)
    }
}

fn set_if_given<T>(field: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *field = value;
    }
}

/// Returns the name of a time zone. Refuses an unknown one.
fn checked_zone(zone: Option<String>) -> Result<Option<String>, MethodError> {
    match zone.as_deref().filter(|name| clock::zone(name).is_none()) {
        Some(name) => Err(MethodError::InvalidArguments(format!(
            "`{name}` is not a time zone: write an IANA name such as Europe/Berlin"
        ))),
        None => Ok(zone),
    }
}

impl AdminMethod for AccountRemove {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        account_ref: AccountRef,
    ) -> Result<EmptyAnswer, MethodError> {
        let (id, _) = context.account_of(&account_ref)?;
        context.directory.remove(id)?;
        Ok(EmptyAnswer {})
    }
}

impl AdminMethod for AccountAlias {
    const ADMIN_ONLY: bool = true;

    /// Adds an address to an account, or removes it. `@domain` is the catch-all of the domain.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<AliasArguments>,
    ) -> Result<EmptyAnswer, MethodError> {
        let (id, _) = context.account_of(&account_ref)?;
        let text = args.address;
        let directory = &context.directory;
        let result = match (args.remove, text.strip_prefix('@')) {
            (false, Some(name)) => directory.add_catch_all(id, checked_domain("address", name)?),
            (true, Some(name)) => directory.remove_catch_all(id, checked_domain("address", name)?),
            (false, None) => directory.add_alias(id, &parse_address(&text)?),
            (true, None) => directory.remove_alias(id, &parse_address(&text)?),
        };
        if matches!(result, Err(Error::NotFound("address"))) {
            return Err(MethodError::NotFound(format!("there is no address {text}")));
        }
        result?;
        Ok(EmptyAnswer {})
    }
}

/// Returns the text of a domain. Refuses other texts, and address literals such as `[192.0.2.1]`.
/// `key` is the argument that has the text.
fn checked_domain<'a>(key: &str, text: &'a str) -> Result<&'a str, MethodError> {
    if domain_is_well_formed(text) && !text.starts_with('[') {
        Ok(text)
    } else {
        Err(MethodError::InvalidArguments(format!("{key}: `{text}` is not a domain")))
    }
}

impl AdminMethod for AccountAliasDomain {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        args: AliasDomainArguments,
    ) -> Result<EmptyAnswer, MethodError> {
        let alias = checked_domain("domain", &args.domain)?;
        let result = if args.remove {
            context.directory.remove_alias_domain(alias)
        } else {
            let target = args
                .target
                .ok_or_else(|| MethodError::InvalidArguments("target is required".into()))?;
            context.directory.add_alias_domain(alias, checked_domain("target", &target)?)
        };
        result?;
        Ok(EmptyAnswer {})
    }
}

impl AdminMethod for AccountAliasDomains {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        _: EmptyArguments,
    ) -> Result<AliasDomainsAnswer, MethodError> {
        let all = context.directory.alias_domains()?;
        Ok(AliasDomainsAnswer {
            list: all.into_iter().map(|(domain, target)| AliasDomain { domain, target }).collect(),
        })
    }
}

/// Finds an account whose passwords and tokens the caller may change. Refuses a caller who logged
/// in with a password or token: a thief of one could create more.
fn account_of_secrets(
    context: &Context,
    account_ref: &AccountRef,
) -> Result<AccountId, MethodError> {
    if context.caller.account.is_some() {
        return Err(MethodError::Forbidden(
            "passwords and tokens are managed on the server's control socket".into(),
        ));
    }
    context.account_of(account_ref).map(|(id, _)| id)
}

/// Returns the name of a password or token. Refuses one that is empty, too long, or has control
/// characters.
fn secret_name(name: String) -> Result<String, MethodError> {
    if name.is_empty()
        || name.len() > limits::MAX_SECRET_NAME_BYTES
        || name.contains(char::is_control)
    {
        return Err(MethodError::InvalidArguments(
            "name: 1 to 128 bytes without control characters are expected".into(),
        ));
    }
    Ok(name)
}

impl AdminMethod for AccountPassword {
    /// Sets the password of a name, or removes it if the argument `password` is null. Without a
    /// name, the name is `default`.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<PasswordArguments>,
    ) -> Result<EmptyAnswer, MethodError> {
        let id = account_of_secrets(context, &account_ref)?;
        let name = secret_name(args.name.unwrap_or_else(|| "default".into()))?;
        let hash = args.password.as_deref().map(hash_password).transpose();
        let hash = hash.map_err(|error| MethodError::InvalidArguments(error.to_string()))?;
        let derive = |password: String| context.directory.scram_keys(id, &name, &password);
        let scram = args.password.map(derive).transpose()?;
        let edit = |row: &mut AccountRow| {
            let others = row.passwords.iter().filter(|(other, _)| *other != name).count();
            let fits = hash.is_none() || others < limits::MAX_PASSWORDS;
            if fits {
                row.set_password(&name, hash.clone(), scram.clone());
            }
            fits
        };
        if context.directory.update(id, edit)? {
            Ok(EmptyAnswer {})
        } else {
            Err(MethodError::Conflict("there are too many passwords: remove one".into()))
        }
    }
}

impl AdminMethod for AccountTokenAdd {
    /// Creates a token, which only this answer contains. Removes tokens that have expired.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<TokenAddArguments>,
    ) -> Result<TokenAddAnswer, MethodError> {
        let id = account_of_secrets(context, &account_ref)?;
        let name = secret_name(args.name)?;
        let now = context.store.clock().now();
        let invalid = || {
            MethodError::InvalidArguments(
                "expires: a date in the future, in the form of RFC 3339, is expected".into(),
            )
        };
        let date = |text: String| {
            UtcMillis::parse_rfc3339(&text).filter(|at| *at > now).ok_or_else(invalid)
        };
        let expires = args.expires.map(date).transpose()?;
        let (token, hash) = new_token()?;
        let edit = |row: &mut AccountRow| {
            row.tokens.retain(|token| token.expires.is_none_or(|at| now < at));
            if row.tokens.iter().any(|token| token.name == name) {
                return Some(format!(
                    "there is already a token named {name}: remove it, or choose another name"
                ));
            }
            if row.tokens.len() >= limits::MAX_TOKENS {
                return Some("there are too many tokens: remove one".into());
            }
            row.tokens.push(AccessToken { name: name.clone(), hash, created: now, expires });
            None
        };
        match context.directory.update(id, edit)? {
            Some(problem) => Err(MethodError::Conflict(problem)),
            None => Ok(TokenAddAnswer { name, token, expires: expires.map(UtcMillis::rfc3339) }),
        }
    }
}

impl AdminMethod for AccountTokenList {
    fn call(
        &Call { context, .. }: &Call<'_>,
        account_ref: AccountRef,
    ) -> Result<TokenListAnswer, MethodError> {
        let (_, row) = context.account_of(&account_ref)?;
        let list = row.tokens.into_iter().map(|token| TokenFacts {
            name: token.name,
            created: token.created.rfc3339(),
            expires: token.expires.map(UtcMillis::rfc3339),
        });
        Ok(TokenListAnswer { list: list.collect() })
    }
}

impl AdminMethod for AccountTokenRemove {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<TokenRemoveArguments>,
    ) -> Result<EmptyAnswer, MethodError> {
        let id = account_of_secrets(context, &account_ref)?;
        let edit = |row: &mut AccountRow| {
            let before = row.tokens.len();
            row.tokens.retain(|token| token.name != args.name);
            row.tokens.len() < before
        };
        if context.directory.update(id, edit)? {
            Ok(EmptyAnswer {})
        } else {
            Err(MethodError::NotFound(format!("there is no token named {}", args.name)))
        }
    }
}
