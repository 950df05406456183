//! Quota (RFC 9425): how much an account may hold, in octets and in emails, and how much it holds.
//!
//! A quota is there where a limit is. Both are made from the account's rows at the moment, so a state is what they are:
//! it tells by itself what changed since, however long ago that was.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::context::{Account, Args, Context};
use super::standard::value::text;
use super::standard::{GetArguments, Tree, query_changes as answer_changes, section, sort};
use crate::model::AccountRow;
use crate::query::Collation;
use crate::store::AccountStateRow;
use crate::wire::jmap::MethodError;
use crate::wire::jmap::json::members;

const PROPERTIES: [&str; 10] =
    ["id", "resourceType", "used", "hardLimit", "scope", "name", "types", "warnLimit", "softLimit", "description"];

/// One quota: what it counts, how much there is, how much there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quota {
    id: &'static str,
    resource: &'static str,
    name: &'static str,
    used: u64,
    most: u64,
}

impl Quota {
    fn object(self) -> Map<String, Value> {
        // Nine tenths: time to tidy up before mail is refused.
        let warn = self.most.saturating_sub(self.most / 10);
        members(json!({
            "id": self.id, "resourceType": self.resource, "used": self.used, "hardLimit": self.most,
            "scope": "account", "name": self.name, "types": ["Email"], "warnLimit": warn, "softLimit": null,
            "description": null,
        }))
    }
}

/// The quotas of an account at one moment.
struct AccountQuotas(Vec<Quota>);

impl AccountQuotas {
    fn of(context: &Context, account: &Account) -> Result<Self, MethodError> {
        let state = context.store.view().account_state(account.id)?;
        Ok(Self::with(&state, &account.row))
    }

    fn with(state: &AccountStateRow, row: &AccountRow) -> Self {
        let quota =
            |id, resource, name, used, most: Option<u64>| most.map(|most| Quota { id, resource, name, used, most });
        let all = [
            quota("emails", "count", "Emails", state.emails, row.quota_emails),
            quota("octets", "octets", "Storage", state.octets, row.quota_octets),
        ];
        Self(all.into_iter().flatten().collect())
    }

    /// `emails.used.most` of each.
    fn state(&self) -> String {
        self.0.iter().fold("q".to_owned(), |mut out, quota| {
            let _ = write!(out, "-{}.{:x}.{:x}", quota.id, quota.used, quota.most);
            out
        })
    }

    /// The quotas of a state.
    fn before(&self, state: &str) -> Option<Vec<Quota>> {
        let read = |one: &str| {
            let mut parts = one.split('.');
            let name = parts.next()?;
            let id = ["emails", "octets"].into_iter().find(|id| *id == name)?;
            let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
            let (used, most) = (number()?, number()?);
            parts.next().is_none().then_some(Quota { id, resource: "", name: "", used, most })
        };
        state.strip_prefix('q')?.split('-').skip(1).map(read).collect()
    }
}

/// The state of an account's quotas, where it has any: to be told of when its emails changed.
pub(super) fn state(state: &AccountStateRow, row: &AccountRow) -> Option<String> {
    let now = AccountQuotas::with(state, row);
    (!now.0.is_empty()).then(|| now.state())
}

pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let get = GetArguments::of(arguments, &PROPERTIES)?;
    let now = AccountQuotas::of(context, &account)?;
    let all = || now.0.iter().map(|quota| quota.id.to_owned()).collect();
    let one = |id: &str| Ok(now.0.iter().find(|quota| quota.id == id).map(|quota| quota.object()));
    get.answer(context, account.id, &now.state(), all, one)
}

/// What of the quotas was made, changed and removed since a state; and whether only `used` changed.
struct QuotaChanges {
    created: Vec<&'static str>,
    updated: Vec<&'static str>,
    destroyed: Vec<&'static str>,
    only_used: bool,
}

fn since(now: &AccountQuotas, state: &str) -> Result<QuotaChanges, MethodError> {
    let old = now.before(state).ok_or(MethodError::CannotCalculateChanges)?;
    let find = |all: &[Quota], id: &str| all.iter().find(|quota| quota.id == id).copied();
    let mut since = QuotaChanges { created: Vec::new(), updated: Vec::new(), destroyed: Vec::new(), only_used: true };
    for quota in &now.0 {
        match find(&old, quota.id) {
            None => since.created.push(quota.id),
            Some(was) if (was.used, was.most) != (quota.used, quota.most) => {
                since.updated.push(quota.id);
                since.only_used &= was.most == quota.most;
            }
            Some(_) => {}
        }
    }
    since.destroyed.extend(old.iter().map(|quota| quota.id).filter(|id| find(&now.0, id).is_none()));
    Ok(since)
}

pub(super) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let old = arguments.text("sinceState")?;
    let most = arguments.max_changes()?;
    let now = AccountQuotas::of(context, &account)?;
    let since = since(&now, &old)?;
    let many = since.created.len() + since.updated.len() + since.destroyed.len();
    if most.is_some_and(|most| many as u64 > most) {
        return Err(MethodError::CannotCalculateChanges);
    }
    let used = since.only_used && !since.updated.is_empty();
    Ok(json!({
        "accountId": account.id.to_string(), "oldState": old, "newState": now.state(), "hasMoreChanges": false,
        "updatedProperties": if used { json!(["used"]) } else { Value::Null },
        "created": since.created, "updated": since.updated, "destroyed": since.destroyed,
    }))
}

/// A condition (RFC 9425 §4.4).
enum QuotaCondition {
    Name(String),
    Scope(String),
    Resource(String),
    Type(String),
}

fn results(now: &AccountQuotas, arguments: &Args<'_>) -> Result<Vec<String>, MethodError> {
    let filter = Tree::read(arguments, |name, value| {
        let value = text(name, value)?.to_owned();
        Ok(match name {
            "name" => QuotaCondition::Name(Collation::UnicodeCasemap.key(&value).into()),
            "scope" => QuotaCondition::Scope(value),
            "resourceType" => QuotaCondition::Resource(value),
            "type" => QuotaCondition::Type(value),
            _ => return Err(MethodError::UnsupportedFilter("no such condition of quotas".into())),
        })
    })?;
    let order = sort(arguments, |name| match name {
        "name" => Some(true),
        "used" => Some(false),
        _ => None,
    })?;
    let holds = |quota: &Quota, is: &QuotaCondition| match is {
        QuotaCondition::Name(part) => Collation::UnicodeCasemap.key(quota.name).contains(part.as_str()),
        QuotaCondition::Scope(scope) => scope == "account",
        QuotaCondition::Resource(resource) => resource == quota.resource,
        QuotaCondition::Type(data) => data == "Email",
    };
    let mut found: Vec<&Quota> = now.0.iter().filter(|quota| filter.holds(&|is| holds(quota, is))).collect();
    found.sort_by(|one, two| {
        let by = |by_name: &bool, collation: Collation| match by_name {
            true => collation.key(one.name).cmp(&collation.key(two.name)),
            false => one.used.cmp(&two.used),
        };
        order.iter().map(|order| order.compare(by)).find(|order| order.is_ne()).unwrap_or_else(|| one.id.cmp(two.id))
    });
    Ok(found.iter().map(|quota| quota.id.to_owned()).collect())
}

pub(super) fn query(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let now = AccountQuotas::of(context, &account)?;
    section(arguments, account.id, &now.state(), &results(&now, arguments)?)
}

pub(super) fn query_changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let now = AccountQuotas::of(context, &account)?;
    let since = since(&now, &arguments.text("sinceQueryState")?)?;
    let moved = [since.created, since.updated, since.destroyed].concat();
    let moved: BTreeSet<String> = moved.iter().map(|id| (*id).to_owned()).collect();
    answer_changes(arguments, account.id, &now.state(), &results(&now, arguments)?, &moved)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::jmap::PushState;
    use crate::jmap::tests::{call, context, error, letters};

    /// RFC 9425 §4.
    #[test]
    fn quotas_are_there_where_limits_are_and_states_tell_what_changed() {
        let context = context();
        let account = letters(&context, 2);
        let get = || call(&context, "Quota/get", &json!({"accountId": account, "ids": null})).1;
        let none = get();
        assert_eq!(none["list"], json!([]));
        let (name, _) =
            call(&context, "Account/set", &json!({"account": account, "quotaOctets": 100_000, "quotaEmails": 10}));
        assert_eq!(name, "Account/set");
        let changes = |since: &serde_json::Value| {
            call(&context, "Quota/changes", &json!({"accountId": account, "sinceState": since})).1
        };
        assert_eq!(changes(&none["state"])["created"], json!(["emails", "octets"]));
        let two = get();
        let emails = &two["list"][0];
        assert_eq!((&emails["used"], &emails["hardLimit"], &emails["warnLimit"]), (&json!(2), &json!(10), &json!(9)));
        assert_eq!(two["list"][1]["resourceType"], "octets");
        letters(&context, 1);
        let found = changes(&two["state"]);
        assert_eq!((&found["updated"], &found["updatedProperties"]), (&json!(["emails", "octets"]), &json!(["used"])));
        call(&context, "Account/set", &json!({"account": account, "quotaOctets": null, "quotaEmails": 11}));
        let found = changes(&two["state"]);
        assert_eq!((&found["updated"], &found["updatedProperties"]), (&json!(["emails"]), &json!(null)));
        assert_eq!(found["destroyed"], json!(["octets"]));
        assert_eq!(changes(&found["newState"])["updated"], json!([]));

        let query = |more: serde_json::Value| {
            let mut arguments = json!({"accountId": account});
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            call(&context, "Quota/query", &arguments).1
        };
        assert_eq!(query(json!({}))["ids"], json!(["emails"]));
        assert_eq!(query(json!({"filter": {"resourceType": "octets"}}))["ids"], json!([]));
        assert_eq!(
            query(json!({"filter": {"name": "MAIL", "type": "Email"}, "sort": [{"property": "used"}]}))["ids"],
            json!(["emails"])
        );
        let asked = json!({"accountId": account, "sinceQueryState": two["state"]});
        let (_, moved) = call(&context, "Quota/queryChanges", &asked);
        assert_eq!(
            (&moved["removed"], &moved["added"]),
            (&json!(["emails", "octets"]), &json!([{"id": "emails", "index": 0}]))
        );
        for state in ["", "q-", "q-emails.1", "q-emails.1.2.3", "q-x.1.2", "1-2"] {
            let asked = json!({"accountId": account, "sinceState": state});
            assert_eq!(error(&context, "Quota/changes", &asked), "cannotCalculateChanges", "{state}");
        }
    }

    /// RFC 9425 §5.
    #[test]
    fn a_quota_is_told_of_when_it_fills() {
        let context = context();
        let account = letters(&context, 1);
        let mut known =
            PushState::now(&context.store, &[crate::jmap::ObservedAccount::own(account.parse().unwrap())]).unwrap();
        let mut told = || {
            letters(&context, 1);
            let change = known.catch_up(&context.store, Some(&["Quota".into()])).unwrap();
            change.map(|change| change["changed"][&account]["Quota"].clone())
        };
        assert_eq!(told(), None);
        call(&context, "Account/set", &json!({"account": account, "quotaOctets": 100_000}));
        let now = told().unwrap();
        assert_eq!(now, call(&context, "Quota/get", &json!({"accountId": account, "ids": null})).1["state"]);
    }
}
