//! Principal (RFC 9670 §2): whom the caller can share with. Each account is one, and its id is the
//! account's; they stand in the caller's own account.
//!
//! A user sees the accounts that have an address in one of the user's own domains, and those that
//! shared something with the user. An administrator sees all. No principal is changed here, and no
//! history of changes is kept: the state is a digest of what is visible.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::context::{Account, Context};
use super::method::{Call, Method};
use super::session::entry;
use super::standard::{
    ChangedObjects, GetObjects, NoArguments, ObjectChanges, ObjectQuery, ObjectType, QueryObjects,
    SetArguments, object_of,
};
use super::uploads::UploadSettings;
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
        VisiblePrincipals::of(call.context, account)
    }

    fn state(known: &VisiblePrincipals) -> Result<String, MethodError> {
        Ok(known.state())
    }
}

impl GetObjects for Principal {
    fn properties(_: &Call<'_>) -> Vec<PrincipalProperty> {
        PrincipalProperty::ALL.to_vec()
    }

    fn ids(known: &VisiblePrincipals) -> Result<Vec<AccountId>, MethodError> {
        Ok(known.all.iter().map(|one| one.id).collect())
    }

    fn object(
        known: &VisiblePrincipals,
        id: &AccountId,
        properties: &[PrincipalProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        let found = known.all.iter().find(|one| one.id == *id);
        Ok(found.map(|one| known.object(one, properties)))
    }
}

/// They are not kept (RFC 9670 §2.2): only that nothing changed can be told.
impl ObjectChanges for Principal {
    fn changes(
        known: &VisiblePrincipals,
        since: &str,
        _: usize,
    ) -> Result<Option<ChangedObjects<AccountId>>, MethodError> {
        let state = known.state();
        Ok((since == state).then(|| ChangedObjects {
            created: Vec::new(),
            updated: Vec::new(),
            destroyed: Vec::new(),
            state,
            more: false,
            updated_properties: UpdatedProperties::Untold,
        }))
    }
}

/// Principal/set: who there is, and how they are called, is the administrator's to say, so every
/// change is refused.
pub(super) struct PrincipalSet;

impl Method for PrincipalSet {
    type Args = SetArgs;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, args: SetArgs) -> Result<SetAnswer, MethodError> {
        let account = call.open(&args.account_id, Principal::GUESTS)?;
        let known = VisiblePrincipals::of(call.context, &account)?;
        let (set, state) = (SetArguments::of(call.created, args)?, known.state());
        if !set.allows_state(&state) {
            return Err(MethodError::StateMismatch);
        }
        let (mut done, no) =
            (set.done, SetError::Forbidden("principals are the administrator's to change".into()));
        let refusal = |id: &str| if known.has(id) { no.clone() } else { SetError::NotFound };
        set.create.iter().for_each(|(name, _)| done.not_created(name, &no));
        set.update.iter().for_each(|(id, _)| done.not_updated(id, &refusal(id)));
        set.destroy.iter().for_each(|id| done.not_destroyed(id, &refusal(id)));
        Ok(done.into_answer_between(&account, state.clone(), state))
    }
}

/// A condition (RFC 9670 §2.4.1).
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

/// RFC 9670 names no property to sort by.
#[derive(Deserialize)]
pub(super) enum PrincipalSort {}

impl QueryObjects for Principal {
    type Condition = PrincipalCondition;
    type Sort = PrincipalSort;
    type ExtraArgs = NoArguments;

    const CAN_CALCULATE_CHANGES: bool = false;

    fn results(
        known: &VisiblePrincipals,
        query: &ObjectQuery<Self>,
    ) -> Result<Vec<String>, MethodError> {
        let found = known.all.iter().filter(|one| query.filter.holds(&|is| known.holds(is, one)));
        Ok(found.map(|one| one.id.to_string()).collect())
    }

    fn changed_ids(
        _: &VisiblePrincipals,
        _: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError> {
        Ok(None)
    }
}

/// A principal.
pub(super) struct Principal {
    id: AccountId,
    row: AccountRow,
}

impl Principal {
    fn name(&self) -> &str {
        self.row.display_name.as_deref().unwrap_or(&self.row.name)
    }
}

/// The principals that the caller may know of, by id, and the accounts that the caller may reach.
pub(super) struct VisiblePrincipals {
    all: Vec<Principal>,
    reachable: Vec<Account>,
    uploads: Arc<UploadSettings>,
}

impl VisiblePrincipals {
    fn of(context: &Context, account: &Account) -> Result<Self, MethodError> {
        let reachable = context.accessible_accounts()?;
        let everyone = context.directory.list()?;
        let mine = everyone.iter().find(|(id, ..)| *id == account.id);
        let domains =
            mine.map(|(_, row, addresses)| domains(&row.primary, addresses)).unwrap_or_default();
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

    fn object(&self, one: &Principal, properties: &[PrincipalProperty]) -> JsonObject {
        object_of(properties, |property| match property {
            PrincipalProperty::Id => one.id.to_string().into(),
            PrincipalProperty::Type => "individual".into(),
            PrincipalProperty::Name => one.name().into(),
            PrincipalProperty::Description => Value::Null,
            PrincipalProperty::Email => one.row.primary.to_string().into(),
            PrincipalProperty::TimeZone => one.row.zone.clone().into(),
            PrincipalProperty::Capabilities => JsonObject::new().into(),
            PrincipalProperty::Accounts => {
                let known = self.account(one).into_iter();
                or_null(
                    known
                        .map(|account| {
                            (account.id.to_string(), entry(account, &self.uploads).json())
                        })
                        .collect(),
                )
            }
        })
    }

    fn state(&self) -> String {
        let all: Value =
            self.all.iter().map(|one| self.object(one, PrincipalProperty::ALL)).collect();
        blake3::hash(all.to_string().as_bytes()).to_hex().chars().take(16).collect()
    }

    fn holds(&self, is: &PrincipalCondition, one: &Principal) -> bool {
        let (name, email) = (one.name().to_lowercase(), one.row.primary.to_string().to_lowercase());
        match is {
            PrincipalCondition::AccountIds(ids) => {
                self.account(one).is_some_and(|account| ids.contains(&account.id.to_string()))
            }
            PrincipalCondition::Email(LowercaseText(part)) => email.contains(part),
            PrincipalCondition::Name(LowercaseText(part)) => name.contains(part),
            PrincipalCondition::Text(LowercaseText(part)) => {
                name.contains(part) || email.contains(part)
            }
            PrincipalCondition::Type(kind) => kind == "individual",
            PrincipalCondition::TimeZone(zone) => one.row.zone.as_ref() == Some(zone),
        }
    }
}

/// The domains of an account's addresses.
fn domains(primary: &Address, addresses: &[Address]) -> BTreeSet<String> {
    addresses.iter().chain([primary]).map(|address| address.folded().domain().to_owned()).collect()
}

/// Whether the owner of the account `own` may know of another account, and so share a mailbox with
/// it.
///
/// # Errors
/// Those of reading.
pub(in crate::jmap) fn may_share_with(
    context: &Context,
    own: AccountId,
    other: AccountId,
) -> Result<bool, Error> {
    let Ok(them) = context.directory.identity(other) else { return Ok(false) };
    let us = context.directory.identity(own)?;
    let of = |one: &Identity| domains(&one.primary, &one.addresses);
    Ok(context.caller.admin
        || of(&us).intersection(&of(&them)).next().is_some()
        || context.store.snapshot().is_shared_with(own, other)?)
}
