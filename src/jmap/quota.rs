//! Quota (RFC 9425): how many bytes and emails an account may hold, and how many it holds. For each
//! of the two limits that is set, there is a quota. The state string has all values, so the changes
//! since any state are known, however old it is.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use super::context::{Account, Context};
use super::method::Call;
use super::standard::{
    ChangedObjects, GetObjects, NoArguments, ObjectChanges, ObjectQuery, ObjectType, QueryObjects,
    object_of,
};
use crate::model::AccountRow;
use crate::query::Collation;
use crate::store::AccountStateRow;
use crate::wire::jmap::standard::UpdatedProperties;
use crate::wire::jmap::{JsonObject, MethodError, Property as _, properties};

properties! {
    pub(super) enum QuotaProperty {
        Id = "id",
        ResourceType = "resourceType",
        Used = "used",
        HardLimit = "hardLimit",
        Scope = "scope",
        Name = "name",
        Types = "types",
        WarnLimit = "warnLimit",
        SoftLimit = "softLimit",
        Description = "description",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quota {
    id: &'static str,
    resource: &'static str,
    name: &'static str,
    /// `used` and `limit` are bytes for the quota `octets`, and numbers of emails for `emails`.
    used: u64,
    limit: u64,
}

impl Quota {
    fn object(self, properties: &[QuotaProperty]) -> JsonObject {
        object_of(properties, |property| match property {
            QuotaProperty::Id => self.id.into(),
            QuotaProperty::ResourceType => self.resource.into(),
            QuotaProperty::Used => self.used.into(),
            QuotaProperty::HardLimit => self.limit.into(),
            QuotaProperty::Scope => "account".into(),
            QuotaProperty::Name => self.name.into(),
            QuotaProperty::Types => ["Email"].into_iter().collect(),
            // Nine tenths of the limit, rounded up.
            QuotaProperty::WarnLimit => self.limit.saturating_sub(self.limit / 10).into(),
            QuotaProperty::SoftLimit | QuotaProperty::Description => Value::Null,
        })
    }
}

pub(super) struct AccountQuotas(Vec<Quota>);

impl AccountQuotas {
    fn read(context: &Context, account: &Account) -> Result<Self, MethodError> {
        let state = context.store.snapshot().account_state(account.id)?;
        Ok(Self::from_rows(&state, &account.row))
    }

    fn from_rows(state: &AccountStateRow, row: &AccountRow) -> Self {
        let quota = |id, resource, name, used, limit: Option<u64>| {
            limit.map(|limit| Quota { id, resource, name, used, limit })
        };
        let all = [
            quota("emails", "count", "Emails", state.emails, row.quota_emails),
            quota("octets", "octets", "Storage", state.bytes, row.quota_bytes),
        ];
        Self(all.into_iter().flatten().collect())
    }

    /// Returns `q`, then `-id.used.limit` for each quota, with the numbers in hexadecimal.
    fn state(&self) -> String {
        self.0.iter().fold("q".to_owned(), |mut out, quota| {
            let _ = write!(out, "-{}.{:x}.{:x}", quota.id, quota.used, quota.limit);
            out
        })
    }

    /// Parses a text that `state` returned; `None` if it is malformed. `resource` and `name` of the
    /// quotas are left empty.
    fn parse_state(state: &str) -> Option<Vec<Quota>> {
        let read = |one: &str| {
            let mut parts = one.split('.');
            let name = parts.next()?;
            let id = ["emails", "octets"].into_iter().find(|id| *id == name)?;
            let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
            let (used, limit) = (number()?, number()?);
            parts.next().is_none().then_some(Quota { id, resource: "", name: "", used, limit })
        };
        state.strip_prefix('q')?.split('-').skip(1).map(read).collect()
    }
}

/// Returns the state string of an account's quotas; `None` if it has none.
pub(super) fn state(state: &AccountStateRow, row: &AccountRow) -> Option<String> {
    let now = AccountQuotas::from_rows(state, row);
    (!now.0.is_empty()).then(|| now.state())
}

impl ObjectType for Quota {
    type Id = String;
    type Property = QuotaProperty;
    type Reader<'a> = AccountQuotas;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<AccountQuotas, MethodError> {
        AccountQuotas::read(call.context, account)
    }

    fn state(now: &AccountQuotas) -> Result<String, MethodError> {
        Ok(now.state())
    }
}

impl GetObjects for Quota {
    fn properties(_: &Call<'_>) -> Vec<QuotaProperty> {
        QuotaProperty::ALL.to_vec()
    }

    fn ids(now: &AccountQuotas) -> Result<Vec<String>, MethodError> {
        Ok(now.0.iter().map(|quota| quota.id.to_owned()).collect())
    }

    fn object(
        now: &AccountQuotas,
        id: &String,
        properties: &[QuotaProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        Ok(now.0.iter().find(|quota| quota.id == id).map(|quota| quota.object(properties)))
    }
}

struct QuotaChanges {
    created: Vec<&'static str>,
    updated: Vec<&'static str>,
    destroyed: Vec<&'static str>,
    /// Whether the updated quotas changed only in `used`. Also true if none was updated.
    only_used: bool,
}

/// Compares the quotas of a state string with those of now.
///
/// # Errors
/// `CannotCalculateChanges` if the state is malformed.
fn changes_since(now: &AccountQuotas, state: &str) -> Result<QuotaChanges, MethodError> {
    let old = AccountQuotas::parse_state(state).ok_or(MethodError::CannotCalculateChanges)?;
    let find = |all: &[Quota], id: &str| all.iter().find(|quota| quota.id == id).copied();
    let mut changes = QuotaChanges {
        created: Vec::new(),
        updated: Vec::new(),
        destroyed: Vec::new(),
        only_used: true,
    };
    for quota in &now.0 {
        match find(&old, quota.id) {
            None => changes.created.push(quota.id),
            Some(old) if (old.used, old.limit) != (quota.used, quota.limit) => {
                changes.updated.push(quota.id);
                changes.only_used &= old.limit == quota.limit;
            }
            Some(_) => {}
        }
    }
    changes
        .destroyed
        .extend(old.iter().map(|quota| quota.id).filter(|id| find(&now.0, id).is_none()));
    Ok(changes)
}

impl ObjectChanges for Quota {
    fn changes(
        now: &AccountQuotas,
        old: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<String>>, MethodError> {
        let since = changes_since(now, old)?;
        let owned = |ids: Vec<&str>| ids.into_iter().map(str::to_owned).collect::<Vec<String>>();
        let only_used = since.only_used && !since.updated.is_empty();
        let changes = ChangedObjects {
            created: owned(since.created),
            updated: owned(since.updated),
            destroyed: owned(since.destroyed),
            state: now.state(),
            more: false,
            updated_properties: if only_used {
                UpdatedProperties::Only(vec![QuotaProperty::Used.name().to_owned()])
            } else {
                UpdatedProperties::Any(())
            },
        };
        let count = changes.created.len() + changes.updated.len() + changes.destroyed.len();
        Ok((count <= max_changes).then_some(changes))
    }
}

/// A condition of Quota/query (RFC 9425 §4.4).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum QuotaCondition {
    Name(String),
    Scope(String),
    ResourceType(String),
    Type(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum QuotaSort {
    Name,
    Used,
}

impl QuotaCondition {
    fn matches(&self, quota: &Quota) -> bool {
        let key = |text: &str| Collation::UnicodeCasemap.key(text);
        match self {
            Self::Name(part) => String::from(key(quota.name)).contains(&*String::from(key(part))),
            Self::Scope(scope) => scope == "account",
            Self::ResourceType(resource) => resource == quota.resource,
            Self::Type(data) => data == "Email",
        }
    }
}

impl QueryObjects for Quota {
    type Condition = QuotaCondition;
    type Sort = QuotaSort;
    type ExtraArgs = NoArguments;

    fn results(now: &AccountQuotas, query: &ObjectQuery<Self>) -> Result<Vec<String>, MethodError> {
        let mut found: Vec<&Quota> = now
            .0
            .iter()
            .filter(|quota| query.filter.holds(&|condition| condition.matches(quota)))
            .collect();
        found.sort_by(|one, two| {
            let order = query.compare(|property, collation| match property {
                QuotaSort::Name => collation.key(one.name).cmp(&collation.key(two.name)),
                QuotaSort::Used => one.used.cmp(&two.used),
            });
            order.then_with(|| one.id.cmp(two.id))
        });
        Ok(found.iter().map(|quota| quota.id.to_owned()).collect())
    }

    fn changed_ids(
        now: &AccountQuotas,
        old: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError> {
        let since = changes_since(now, old)?;
        let changed = [since.created, since.updated, since.destroyed].concat();
        Ok(Some(changed.into_iter().map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::jmap::PushState;
    use crate::jmap::tests::{call, context, error, letters};

    /// RFC 9425 §4.
    #[test]
    fn quota_exists_for_each_limit_and_changes_follow_from_the_state() {
        let context = context();
        let account = letters(&context, 2);
        let get = || call(&context, "Quota/get", &json!({"accountId": account, "ids": null})).1;
        let none = get();
        assert_eq!(none["list"], json!([]));
        let (name, _) = call(
            &context,
            "Account/set",
            &json!({"account": account, "quotaOctets": 100_000, "quotaEmails": 10}),
        );
        assert_eq!(name, "Account/set");
        let changes = |since: &serde_json::Value| {
            call(&context, "Quota/changes", &json!({"accountId": account, "sinceState": since})).1
        };
        assert_eq!(changes(&none["state"])["created"], json!(["emails", "octets"]));
        let two = get();
        let emails = &two["list"][0];
        assert_eq!(
            (&emails["used"], &emails["hardLimit"], &emails["warnLimit"]),
            (&json!(2), &json!(10), &json!(9))
        );
        assert_eq!(two["list"][1]["resourceType"], "octets");
        letters(&context, 1);
        let found = changes(&two["state"]);
        assert_eq!(
            (&found["updated"], &found["updatedProperties"]),
            (&json!(["emails", "octets"]), &json!(["used"]))
        );
        call(
            &context,
            "Account/set",
            &json!({"account": account, "quotaOctets": null, "quotaEmails": 11}),
        );
        let found = changes(&two["state"]);
        assert_eq!(
            (&found["updated"], &found["updatedProperties"]),
            (&json!(["emails"]), &json!(null))
        );
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
            query(
                json!({"filter": {"name": "MAIL", "type": "Email"}, "sort": [{"property": "used"}]})
            )["ids"],
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
            assert_eq!(
                error(&context, "Quota/changes", &asked),
                "cannotCalculateChanges",
                "{state}"
            );
        }
    }

    /// RFC 9425 §5.
    #[test]
    fn quota_is_pushed_when_emails_change() {
        let context = context();
        let account = letters(&context, 1);
        let mut known = PushState::now(
            &context.store,
            &[crate::jmap::ObservedAccount::of_owner(account.parse().unwrap())],
        )
        .unwrap();
        let mut pushed = || {
            letters(&context, 1);
            let change = known.catch_up(&context.store, Some(&["Quota".into()])).unwrap();
            change.map(|change| change["changed"][&account]["Quota"].clone())
        };
        assert_eq!(pushed(), None);
        call(&context, "Account/set", &json!({"account": account, "quotaOctets": 100_000}));
        let now = pushed().unwrap();
        assert_eq!(
            now,
            call(&context, "Quota/get", &json!({"accountId": account, "ids": null})).1["state"]
        );
    }
}
