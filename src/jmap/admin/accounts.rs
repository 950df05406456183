//! Accounts, their addresses and passwords.

use serde_json::{Value, json};

use crate::account::{NewAccount, hash_password, new_token};
use crate::jmap::context::{Args, Context, address, date as date_of};
use crate::jmap::session;
use crate::model::address::domain_is_well_formed;
use crate::model::{AccessToken, AccountId, AccountRow, Address, UtcMillis, clock, limits};
use crate::wire::jmap::MethodError;

pub(super) fn add(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let aliases: Result<Vec<Address>, MethodError> =
        arguments.texts("aliases")?.iter().map(|text| address(text)).collect();
    let new = NewAccount {
        address: arguments.address("address")?,
        name: arguments.maybe_text("name")?,
        display_name: arguments.maybe_text("displayName")?,
        quota_octets: arguments.number("quotaOctets")?,
        quota_emails: arguments.number("quotaEmails")?,
        zone: zone(arguments)?,
        detail_files: arguments.flag("detailFiles")?,
        unix_user: arguments.maybe_text("unixUser")?,
        aliases: aliases?,
        all_mailboxes: match arguments.maybe_text("mailboxes")?.as_deref() {
            None => None,
            Some("roles") => Some(true),
            Some("inbox") => Some(false),
            Some(_) => return Err(MethodError::InvalidArguments("mailboxes: roles or inbox is wanted".into())),
        },
    };
    let id = context.directory.add(&new)?;
    one(context, id)
}

pub(super) fn list(context: &Context, _: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let all = context.directory.list()?;
    let told = |row: Result<Value, MethodError>| row.and_then(|row| context.budget.tell(&row).map(|()| row));
    let list: Result<Vec<Value>, MethodError> =
        all.iter().map(|(id, row, addresses)| describe(context, *id, row, addresses)).map(told).collect();
    Ok(json!({ "list": list? }))
}

pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (id, _) = context.account(arguments)?;
    one(context, id)
}

fn one(context: &Context, id: AccountId) -> Result<Value, MethodError> {
    let row = context.store.view().account(id)?.ok_or(MethodError::AccountNotFound)?;
    let identity = context.directory.identity(id)?;
    describe(context, id, &row, &identity.addresses)
}

fn describe(context: &Context, id: AccountId, row: &AccountRow, addresses: &[Address]) -> Result<Value, MethodError> {
    let state = context.store.view().account_state(id)?;
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let catch_alls = context.directory.catch_alls(id)?;
    let passwords: Vec<&String> = row.passwords.iter().map(|(name, _)| name).collect();
    let unread = session::unread(&context.store.view(), id)?;
    Ok(json!({
        "id": id.to_string(), "name": row.name, "address": row.primary.to_string(), "addresses": texts,
        "catchAlls": catch_alls, "displayName": row.display_name, "active": row.active, "zone": row.zone, "unixUser": row.unix_user,
        "detailFiles": row.detail_files, "quotaOctets": row.quota_octets, "quotaEmails": row.quota_emails,
        "octets": state.octets, "emails": state.emails, "inboxUnreadEmails": unread["inboxUnreadEmails"],
        "inboxUnreadThreads": unread["inboxUnreadThreads"], "created": row.created.rfc3339(), "passwords": passwords,
    }))
}

pub(super) fn set(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let (id, _) = context.account(arguments)?;
    // What is not given stays as it is; null takes it away.
    let given = |key: &str| arguments.0.contains_key(key);
    let text = |key: &str| given(key).then(|| arguments.maybe_text(key)).transpose();
    let number = |key: &str| given(key).then(|| arguments.number(key)).transpose();
    let flag = |key: &str| given(key).then(|| arguments.flag(key)).transpose();
    let (display_name, unix_user) = (text("displayName")?, text("unixUser")?);
    let zone = given("zone").then(|| zone(arguments)).transpose()?;
    let (quota_octets, quota_emails) = (number("quotaOctets")?, number("quotaEmails")?);
    let (active, detail_files) = (flag("active")?, flag("detailFiles")?);
    let edit = |row: &mut AccountRow| {
        put(&mut row.display_name, display_name.clone());
        put(&mut row.unix_user, unix_user.clone());
        put(&mut row.zone, zone.clone());
        put(&mut row.quota_octets, quota_octets);
        put(&mut row.quota_emails, quota_emails);
        put(&mut row.active, active);
        put(&mut row.detail_files, detail_files);
    };
    context.directory.update(id, edit)?;
    one(context, id)
}

fn put<T>(place: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *place = value;
    }
}

/// An IANA name that is known here: what depends on it must not fall back silently.
fn zone(arguments: &Args<'_>) -> Result<Option<String>, MethodError> {
    let zone = arguments.maybe_text("zone")?;
    match zone.as_deref().filter(|name| clock::zone(name).is_none()) {
        Some(name) => Err(MethodError::InvalidArguments(format!(
            "`{name}` is not a time zone: write an IANA name such as Europe/Berlin"
        ))),
        None => Ok(zone),
    }
}

pub(super) fn remove(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let (id, _) = context.account(arguments)?;
    context.directory.remove(id)?;
    Ok(json!({}))
}

pub(super) fn alias(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let (id, _) = context.account(arguments)?;
    let text = arguments.text("address")?;
    let directory = &context.directory;
    let done = match (arguments.flag("remove")?, text.strip_prefix('@')) {
        (false, Some(name)) => directory.add_catch_all(id, domain("address", name)?),
        (true, Some(name)) => directory.remove_catch_all(id, domain("address", name)?),
        (false, None) => directory.add_alias(id, &address(&text)?),
        (true, None) => directory.remove_alias(id, &address(&text)?),
    };
    done?;
    Ok(json!({}))
}

/// A domain that accounts may have addresses in.
fn domain<'a>(key: &str, text: &'a str) -> Result<&'a str, MethodError> {
    if domain_is_well_formed(text) && !text.starts_with('[') {
        Ok(text)
    } else {
        Err(MethodError::InvalidArguments(format!("{key}: `{text}` is not a domain")))
    }
}

pub(super) fn alias_domain(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let alias = arguments.text("domain")?;
    let alias = domain("domain", &alias)?;
    let done = if arguments.flag("remove")? {
        context.directory.remove_alias_domain(alias)
    } else {
        context.directory.add_alias_domain(alias, domain("target", &arguments.text("target")?)?)
    };
    done?;
    Ok(json!({}))
}

pub(super) fn alias_domains(context: &Context, _: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let all = context.directory.alias_domains()?;
    let list: Vec<Value> =
        all.into_iter().map(|(domain, target)| json!({"domain": domain, "target": target})).collect();
    Ok(json!({ "list": list }))
}

/// The account whose secrets are to be changed. Not by one who logged in with such a secret: who stole it would make himself
/// more of them.
fn whose(context: &Context, arguments: &Args<'_>) -> Result<AccountId, MethodError> {
    if context.caller.account.is_some() {
        return Err(MethodError::Forbidden("passwords and tokens are managed on the server's control socket".into()));
    }
    context.account(arguments).map(|(id, _)| id)
}

fn secret_name(name: String) -> Result<String, MethodError> {
    if name.is_empty() || name.len() > limits::SECRET_NAME_OCTETS || name.contains(char::is_control) {
        return Err(MethodError::InvalidArguments("name: 1 to 128 octets without control characters".into()));
    }
    Ok(name)
}

pub(super) fn password(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let id = whose(context, arguments)?;
    let name = secret_name(arguments.maybe_text("name")?.unwrap_or_else(|| "default".into()))?;
    let hash = match arguments.maybe_text("password")? {
        Some(password) => {
            Some(hash_password(&password).map_err(|error| MethodError::InvalidArguments(error.to_string()))?)
        }
        None => None,
    };
    let edit = |row: &mut AccountRow| {
        let others = row.passwords.iter().filter(|(known, _)| *known != name).count();
        let fits = hash.is_none() || others < limits::PASSWORDS;
        if fits {
            row.passwords.retain(|(known, _)| *known != name);
            row.passwords.extend(hash.clone().map(|hash| (name.clone(), hash)));
        }
        fits
    };
    if context.directory.update(id, edit)? {
        Ok(json!({}))
    } else {
        Err(MethodError::Conflict("too many passwords: remove one".into()))
    }
}

pub(super) fn token_add(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let id = whose(context, arguments)?;
    let name = secret_name(arguments.text("name")?)?;
    let now = context.store.clock().now();
    let expires = arguments.maybe_text("expires")?;
    let wrong = || MethodError::InvalidArguments("expires: a date of RFC 3339 that is to come is wanted".into());
    let date = |text: String| UtcMillis::parse_rfc3339(&text).filter(|at| *at > now).ok_or_else(wrong);
    let expires = expires.map(date).transpose()?;
    let (text, hash) = new_token()?;
    let edit = |row: &mut AccountRow| {
        row.tokens.retain(|token| token.expires.is_none_or(|at| now < at));
        if row.tokens.iter().any(|token| token.name == name) {
            return Some(format!("there is a token named {name}: remove it, or take another name"));
        }
        if row.tokens.len() >= limits::TOKENS {
            return Some("too many tokens: remove one".into());
        }
        row.tokens.push(AccessToken { name: name.clone(), hash, created: now, expires });
        None
    };
    match context.directory.update(id, edit)? {
        Some(why) => Err(MethodError::Conflict(why)),
        None => Ok(json!({"name": name, "token": text, "expires": date_of(expires)})),
    }
}

pub(super) fn token_list(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (_, row) = context.account(arguments)?;
    let list = row.tokens.iter().map(
        |token| json!({"name": token.name, "created": token.created.rfc3339(), "expires": date_of(token.expires)}),
    );
    Ok(json!({ "list": list.collect::<Vec<_>>() }))
}

pub(super) fn token_remove(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let id = whose(context, arguments)?;
    let name = arguments.text("name")?;
    let edit = |row: &mut AccountRow| {
        let before = row.tokens.len();
        row.tokens.retain(|token| token.name != name);
        row.tokens.len() < before
    };
    if context.directory.update(id, edit)? {
        Ok(json!({}))
    } else {
        Err(MethodError::NotFound(format!("no token is named {name}")))
    }
}
