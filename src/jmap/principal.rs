//! Principal (RFC 9670 §2): whom the caller can share with. Each account is one, and its id is the account's; they stand in
//! the caller's own account.
//!
//! A user learns of those who have an address in a domain in which he has one, and of those who opened something to him; an
//! administrator of all. Nothing of them is changed here, and what changed is not kept: the state is a digest of what is
//! there.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::blob::UploadSettings;
use super::context::{Account, Args, Context};
use super::session::entry;
use super::standard::value::text;
use super::standard::{GetArguments, SetArguments, SetResponse, Tree, section, sort};
use crate::model::{AccountId, AccountRow, Address, Identity};
use crate::store::Error;
use crate::wire::jmap::json::{members, or_null};
use crate::wire::jmap::{MethodError, SetError};

const PROPERTIES: [&str; 8] = ["id", "type", "name", "description", "email", "timeZone", "capabilities", "accounts"];

pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let get = GetArguments::of(arguments, &PROPERTIES)?;
    let known = VisiblePrincipals::of(context, &account)?;
    get.prove_all(known.all.len() as u64)?;
    let ids = || known.all.iter().map(|one| one.id.to_string()).collect();
    get.answer(context, account.id, &known.state(), ids, |id| {
        Ok(known.all.iter().find(|one| one.id.to_string() == id).map(|one| known.object(one)))
    })
}

/// They are not kept (RFC 9670 §2.2).
pub(super) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let known = VisiblePrincipals::of(context, &account)?;
    let (old, now) = (arguments.text("sinceState")?, known.state());
    arguments.max_changes()?;
    if old != now {
        return Err(MethodError::CannotCalculateChanges);
    }
    Ok(json!({
        "accountId": account.id.to_string(), "oldState": old, "newState": now, "hasMoreChanges": false,
        "created": [], "updated": [], "destroyed": [],
    }))
}

/// Who there is, and how they are called, is the administrator's to say: every change is refused.
pub(super) fn set(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let known = VisiblePrincipals::of(context, &account)?;
    let (set, state) = (SetArguments::read(arguments)?, known.state());
    if !set.is_in(&state) {
        return Err(MethodError::StateMismatch);
    }
    let (mut done, no) = (set.done, SetError::Forbidden("principals are the administrator's to change".into()));
    let refusal = |id: &str| if known.has(id) { no.clone() } else { SetError::NotFound };
    set.create.iter().for_each(|(name, _)| done.not_created(name, &no));
    set.update.iter().for_each(|(id, _)| done.not_updated(id, &refusal(id)));
    set.destroy.iter().for_each(|id| done.not_destroyed(id, &refusal(id)));
    Ok(unchanged(done, &account, &state))
}

/// The answer of a /set that changed nothing.
fn unchanged(done: SetResponse, account: &Account, state: &str) -> Value {
    let mut answer = done.outcomes();
    answer.insert("accountId".into(), account.id.to_string().into());
    answer.insert("oldState".into(), state.into());
    answer.insert("newState".into(), state.into());
    Value::Object(answer)
}

/// A condition (RFC 9670 §2.4.1).
enum PrincipalCondition {
    Accounts(Vec<String>),
    Email(String),
    Name(String),
    Text(String),
    Type(String),
    Zone(String),
}

pub(super) fn query(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let known = VisiblePrincipals::of(context, &account)?;
    let filter = Tree::read(arguments, condition)?;
    // RFC 9670 names no property to sort by.
    sort(arguments, |_| None::<()>)?;
    let found = known.all.iter().filter(|one| filter.holds(&|is| known.holds(is, one)));
    let ids: Vec<String> = found.map(|one| one.id.to_string()).collect();
    let mut answer = section(arguments, account.id, &known.state(), &ids)?;
    answer["canCalculateChanges"] = false.into();
    Ok(answer)
}

pub(super) fn query_changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    context.open(arguments)?;
    arguments.text("sinceQueryState")?;
    Err(MethodError::CannotCalculateChanges)
}

fn condition(name: &str, value: &Value) -> Result<PrincipalCondition, MethodError> {
    let lower = || text(name, value).map(str::to_lowercase);
    Ok(match name {
        "accountIds" => {
            let ids = value.as_array().map(|all| all.iter().map(|id| id.as_str().map(str::to_owned)).collect());
            let wanted = || MethodError::InvalidArguments("accountIds: an array of ids is wanted".into());
            PrincipalCondition::Accounts(ids.flatten().ok_or_else(wanted)?)
        }
        "email" => PrincipalCondition::Email(lower()?),
        "name" => PrincipalCondition::Name(lower()?),
        "text" => PrincipalCondition::Text(lower()?),
        "type" => PrincipalCondition::Type(text(name, value)?.to_owned()),
        "timeZone" => PrincipalCondition::Zone(text(name, value)?.to_owned()),
        _ => return Err(MethodError::UnsupportedFilter("no such condition of principals".into())),
    })
}

/// A principal.
struct Principal {
    id: AccountId,
    row: AccountRow,
}

impl Principal {
    fn name(&self) -> &str {
        self.row.display_name.as_deref().unwrap_or(&self.row.name)
    }
}

/// The principals that the caller may know of, by id, and the accounts that he may reach.
struct VisiblePrincipals {
    all: Vec<Principal>,
    reachable: Vec<Account>,
    uploads: Arc<UploadSettings>,
}

impl VisiblePrincipals {
    fn of(context: &Context, account: &Account) -> Result<Self, MethodError> {
        let reachable = context.reachable()?;
        let everyone = context.directory.list()?;
        let mine = everyone.iter().find(|(id, ..)| *id == account.id);
        let domains = mine.map(|(_, row, addresses)| domains(&row.primary, addresses)).unwrap_or_default();
        let known = |id: AccountId, row: &AccountRow, addresses: &[Address]| {
            context.caller.admin
                || reachable.iter().any(|account| account.id == id)
                || self::domains(&row.primary, addresses).intersection(&domains).next().is_some()
        };
        let all = everyone.into_iter().filter(|(id, row, addresses)| known(*id, row, addresses));
        Ok(Self {
            all: all.map(|(id, row, _)| Principal { id, row }).collect(),
            reachable,
            uploads: Arc::clone(&context.uploads),
        })
    }

    fn has(&self, id: &str) -> bool {
        self.all.iter().any(|one| one.id.to_string() == id)
    }

    /// The account with a principal's data, if the caller may reach it.
    fn account(&self, one: &Principal) -> Option<&Account> {
        self.reachable.iter().find(|account| account.id == one.id)
    }

    fn object(&self, one: &Principal) -> Map<String, Value> {
        let accounts = self.account(one).map(|account| (account.id.to_string(), entry(account, &self.uploads).json()));
        members(json!({
            "id": one.id.to_string(), "type": "individual", "name": one.name(), "description": null,
            "email": one.row.primary.to_string(), "timeZone": one.row.zone, "capabilities": {},
            "accounts": or_null(accounts.into_iter().collect()),
        }))
    }

    fn state(&self) -> String {
        let all: Vec<Map<String, Value>> = self.all.iter().map(|one| self.object(one)).collect();
        blake3::hash(json!(all).to_string().as_bytes()).to_hex().chars().take(16).collect()
    }

    fn holds(&self, is: &PrincipalCondition, one: &Principal) -> bool {
        let (name, email) = (one.name().to_lowercase(), one.row.primary.to_string().to_lowercase());
        match is {
            PrincipalCondition::Accounts(ids) => {
                self.account(one).is_some_and(|account| ids.contains(&account.id.to_string()))
            }
            PrincipalCondition::Email(part) => email.contains(part),
            PrincipalCondition::Name(part) => name.contains(part),
            PrincipalCondition::Text(part) => name.contains(part) || email.contains(part),
            PrincipalCondition::Type(kind) => kind == "individual",
            PrincipalCondition::Zone(zone) => one.row.zone.as_ref() == Some(zone),
        }
    }
}

/// The domains of an account's addresses.
fn domains(primary: &Address, addresses: &[Address]) -> BTreeSet<String> {
    addresses.iter().chain([primary]).map(|address| address.folded().domain().to_owned()).collect()
}

/// Whether the caller, for an account of his, may know of another: so that he can share with it.
///
/// # Errors
/// Those of reading.
pub(in crate::jmap) fn may_know(context: &Context, own: AccountId, other: AccountId) -> Result<bool, Error> {
    let Ok(them) = context.directory.identity(other) else { return Ok(false) };
    let us = context.directory.identity(own)?;
    let of = |one: &Identity| domains(&one.primary, &one.addresses);
    Ok(context.caller.admin
        || of(&us).intersection(&of(&them)).next().is_some()
        || context.store.view().is_shared(own, other)?)
}
