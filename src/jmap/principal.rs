//! Principal (RFC 9670 §2): the users with whom the caller can share mailboxes.
//!
//! - Each account is a principal, with the id of the account.
//! - A user sees the user's own account, the accounts that have an address in one of the user's
//!   domains, and those that share a mailbox with the user. An administrator sees all.
//! - Principal/set refuses every change. No history is stored: the state is a digest of all visible
//!   principals.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::context::{Account, Context};
use super::method::{Call, Method};
use super::session::{CapabilitySettings, entry};
use super::standard::{
    ChangedObjects, GetObjects, NoArguments, ObjectChanges, ObjectQuery, ObjectType, QueryObjects,
    SetArguments, object_of,
};
use crate::model::{AccountId, AccountRow, Address, Identity};
use crate::store::Error;
use crate::wire::jmap::json::or_null;
use crate::wire::jmap::standard::{SetAnswer, SetArgs, UpdatedProperties};
use crate::wire::jmap::{JsonObject, MethodError, SetError, properties};

properties! {
    pub(super) enum PrincipalProperty {
        Id = "id",
        Type = "type",
        Name = "name",
        Description = "description",
        Email = "email",
        TimeZone = "timeZone",
        Capabilities = "capabilities",
        Accounts = "accounts",
    }
}

impl ObjectType for Principal {
    type Id = AccountId;
    type Property = PrincipalProperty;
    type Reader<'a> = VisiblePrincipals;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<VisiblePrincipals, MethodError> {
        VisiblePrincipals::read(call.context, account)
    }

    fn state(principals: &VisiblePrincipals) -> Result<String, MethodError> {
        Ok(principals.state())
    }
}

impl GetObjects for Principal {
    fn properties(_: &Call<'_>) -> Vec<PrincipalProperty> {
        PrincipalProperty::ALL.to_vec()
    }

    fn ids(principals: &VisiblePrincipals) -> Result<Vec<AccountId>, MethodError> {
        Ok(principals.all.iter().map(|principal| principal.id).collect())
    }

    fn object(
        principals: &VisiblePrincipals,
        id: &AccountId,
        properties: &[PrincipalProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        let found = principals.all.iter().find(|principal| principal.id == *id);
        Ok(found.map(|principal| principals.object(principal, properties)))
    }
}

/// The history of principals is not stored (RFC 9670 §2.2): only an unchanged state is answered.
impl ObjectChanges for Principal {
    fn changes(
        principals: &VisiblePrincipals,
        since: &str,
        _: usize,
    ) -> Result<Option<ChangedObjects<AccountId>>, MethodError> {
        let state = principals.state();
        Ok((since == state).then(|| ChangedObjects {
            created: Vec::new(),
            updated: Vec::new(),
            destroyed: Vec::new(),
            state,
            more: false,
            updated_properties: UpdatedProperties::NotReported,
        }))
    }
}

/// Principal/set. Refuses every change.
pub(super) struct PrincipalSet;

impl Method for PrincipalSet {
    type Args = SetArgs;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, args: SetArgs) -> Result<SetAnswer, MethodError> {
        let account = Principal::account(call, &args.account_id)?;
        let principals = VisiblePrincipals::read(call.context, &account)?;
        let (set, state) = (SetArguments::read(call.created, args)?, principals.state());
        if !set.allows_state(&state) {
            return Err(MethodError::StateMismatch);
        }
        let mut done = set.done;
        let forbidden = SetError::Forbidden("this method cannot change principals".into());
        let refusal =
            |id: &str| if principals.has(id) { forbidden.clone() } else { SetError::NotFound };
        set.create.iter().for_each(|(name, _)| done.not_created(name, &forbidden));
        set.update.iter().for_each(|(id, _)| done.not_updated(id, &refusal(id)));
        set.destroy.iter().for_each(|id| done.not_destroyed(id, &refusal(id)));
        Ok(done.into_answer_between(&account, state.clone(), state))
    }
}

/// A condition of Principal/query (RFC 9670 §2.4.1).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PrincipalCondition {
    AccountIds(Vec<String>),
    Email(LowercaseText),
    Name(LowercaseText),
    Text(LowercaseText),
    Type(String),
    TimeZone(String),
}

#[derive(Deserialize)]
#[serde(from = "String")]
pub(super) struct LowercaseText(String);

impl From<String> for LowercaseText {
    fn from(text: String) -> Self {
        Self(text.to_lowercase())
    }
}

/// RFC 9670 defines no property to sort by.
#[derive(Deserialize)]
pub(super) enum PrincipalSort {}

impl QueryObjects for Principal {
    type Condition = PrincipalCondition;
    type Sort = PrincipalSort;
    type ExtraArgs = NoArguments;

    const CAN_CALCULATE_CHANGES: bool = false;

    fn results(
        principals: &VisiblePrincipals,
        query: &ObjectQuery<Self>,
    ) -> Result<Vec<String>, MethodError> {
        let found = principals.all.iter().filter(|principal| {
            query.filter.holds(&|condition| principals.matches(condition, principal))
        });
        Ok(found.map(|principal| principal.id.to_string()).collect())
    }

    fn changed_ids(
        _: &VisiblePrincipals,
        _: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError> {
        Ok(None)
    }
}

pub(super) struct Principal {
    id: AccountId,
    row: AccountRow,
}

impl Principal {
    fn name(&self) -> &str {
        self.row.display_name.as_deref().unwrap_or(&self.row.name)
    }
}

/// The principals that the caller may see, in the order of their ids, and the accounts that the
/// caller may use.
pub(super) struct VisiblePrincipals {
    all: Vec<Principal>,
    accessible: Vec<Account>,
    settings: CapabilitySettings,
}

impl VisiblePrincipals {
    fn read(context: &Context, account: &Account) -> Result<Self, MethodError> {
        let accessible = context.accessible_accounts()?;
        let accounts = context.directory.list()?;
        let own = accounts.iter().find(|(id, ..)| *id == account.id);
        let domains =
            own.map(|(_, row, addresses)| domains(&row.primary, addresses)).unwrap_or_default();
        let is_visible = |id: AccountId, row: &AccountRow, addresses: &[Address]| {
            context.caller.admin
                || accessible.iter().any(|account| account.id == id)
                || self::domains(&row.primary, addresses).intersection(&domains).next().is_some()
        };
        let all =
            accounts.into_iter().filter(|(id, row, addresses)| is_visible(*id, row, addresses));
        Ok(Self {
            all: all.map(|(id, row, _)| Principal { id, row }).collect(),
            accessible,
            settings: context.into(),
        })
    }

    fn has(&self, id: &str) -> bool {
        self.all.iter().any(|principal| principal.id.to_string() == id)
    }

    fn account(&self, principal: &Principal) -> Option<&Account> {
        self.accessible.iter().find(|account| account.id == principal.id)
    }

    fn object(&self, principal: &Principal, properties: &[PrincipalProperty]) -> JsonObject {
        object_of(properties, |property| match property {
            PrincipalProperty::Id => principal.id.to_string().into(),
            PrincipalProperty::Type => "individual".into(),
            PrincipalProperty::Name => principal.name().into(),
            PrincipalProperty::Description => Value::Null,
            PrincipalProperty::Email => principal.row.primary.to_string().into(),
            PrincipalProperty::TimeZone => principal.row.zone.clone().into(),
            PrincipalProperty::Capabilities => JsonObject::new().into(),
            PrincipalProperty::Accounts => {
                let account = self.account(principal).into_iter();
                or_null(
                    account
                        .map(|account| {
                            (account.id.to_string(), entry(account, &self.settings).json())
                        })
                        .collect(),
                )
            }
        })
    }

    fn state(&self) -> String {
        let all: Value = self
            .all
            .iter()
            .map(|principal| self.object(principal, PrincipalProperty::ALL))
            .collect();
        blake3::hash(all.to_string().as_bytes()).to_hex().chars().take(16).collect()
    }

    fn matches(&self, condition: &PrincipalCondition, principal: &Principal) -> bool {
        let (name, email) =
            (principal.name().to_lowercase(), principal.row.primary.to_string().to_lowercase());
        match condition {
            PrincipalCondition::AccountIds(ids) => {
                self.account(principal).is_some_and(|account| ids.contains(&account.id.to_string()))
            }
            PrincipalCondition::Email(LowercaseText(part)) => email.contains(part),
            PrincipalCondition::Name(LowercaseText(part)) => name.contains(part),
            PrincipalCondition::Text(LowercaseText(part)) => {
                name.contains(part) || email.contains(part)
            }
            PrincipalCondition::Type(kind) => kind == "individual",
            PrincipalCondition::TimeZone(zone) => principal.row.zone.as_ref() == Some(zone),
        }
    }
}

fn domains(primary: &Address, addresses: &[Address]) -> BTreeSet<String> {
    addresses.iter().chain([primary]).map(|address| address.folded().domain().to_owned()).collect()
}

/// Whether the owner of the account `own` may see the account `other`, and so share a mailbox with
/// it: if they have a domain in common, or `other` shares a mailbox with `own`. False if `other`
/// does not exist; otherwise always true for an administrator.
pub(in crate::jmap) fn may_share_with(
    context: &Context,
    own: AccountId,
    other: AccountId,
) -> Result<bool, Error> {
    let other_identity = match context.directory.identity(other) {
        Err(Error::NotFound(_)) => return Ok(false),
        other_identity => other_identity?,
    };
    let own_identity = context.directory.identity(own)?;
    let domains_of = |identity: &Identity| domains(&identity.primary, &identity.addresses);
    Ok(context.caller.admin
        || domains_of(&own_identity).intersection(&domains_of(&other_identity)).next().is_some()
        || context.store.snapshot().is_shared_with(own, other)?)
}
