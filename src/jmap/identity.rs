//! Identity (RFC 8621 §6): the addresses from which a user sends.
//!
//! - The service gives an account one identity for each of its addresses, up to a limit. Users can
//!   create more.
//! - Each call first brings the identities that the service gave up to date with the account
//!   (`model::sender`).
//! - A new identity must have an address from which the account may send, or `*@domain` if the
//!   account has the catch-all of the domain.

use serde_json::{Map, Value};

use super::context::{Account, Context};
use super::failure::TxnResult;
use super::method::Call;
use super::standard::{
    ChangedObjects, GetObjects, InvalidProperties, ObjectChanges, ObjectType, SetObjects,
    StoredReader, email_addresses, object_of,
};
use crate::account::OwnAddresses;
use crate::model::address::fold_domain;
use crate::model::sender::identity_changes;
use crate::model::{Address, DataType, EmailAddress, Identity, ObjectId, SenderIdentity, limits};
use crate::store::Txn;
use crate::wire::jmap::{JsonObject, MethodError, Patch, SetError, properties};

properties! {
    pub(super) enum IdentityProperty {
        Id = "id",
        Name = "name",
        Email = "email",
        ReplyTo = "replyTo",
        Bcc = "bcc",
        TextSignature = "textSignature",
        HtmlSignature = "htmlSignature",
        MayDelete = "mayDelete",
    }
}

const MAX_NAME_BYTES: usize = 1024;

impl ObjectType for SenderIdentity {
    type Id = ObjectId;
    type Property = IdentityProperty;
    type Reader<'a> = StoredReader<'a>;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<StoredReader<'a>, MethodError> {
        refresh(call.context, account)?;
        Ok(StoredReader::new(call, account))
    }

    fn state(reader: &StoredReader<'_>) -> Result<String, MethodError> {
        reader.state(DataType::Identity)
    }
}

impl GetObjects for SenderIdentity {
    fn properties(_: &Call<'_>) -> Vec<IdentityProperty> {
        IdentityProperty::ALL.to_vec()
    }

    fn ids(reader: &StoredReader<'_>) -> Result<Vec<ObjectId>, MethodError> {
        reader.ids::<SenderIdentity>()
    }

    fn object(
        reader: &StoredReader<'_>,
        id: &ObjectId,
        properties: &[IdentityProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        let found = reader.find::<SenderIdentity>(*id)?;
        Ok(found.map(|found| object(*id, &found, properties)))
    }
}

impl ObjectChanges for SenderIdentity {
    fn changes(
        reader: &StoredReader<'_>,
        since: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<ObjectId>>, MethodError> {
        reader.changes::<SenderIdentity>(since, max_changes)
    }
}

impl SetObjects for SenderIdentity {
    const DATA: DataType = DataType::Identity;
    type Prepared = SenderAddresses;

    fn prepare(call: &Call<'_>, account: &Account) -> Result<SenderAddresses, MethodError> {
        refresh(call.context, account)?;
        SenderAddresses::read(call.context, account)
    }

    fn create(
        txn: &mut Txn<'_>,
        senders: &SenderAddresses,
        given: &JsonObject,
    ) -> TxnResult<JsonObject> {
        let identity = read(senders, given)?;
        let mut created = object(txn.create_object(&identity)?, &identity, IdentityProperty::ALL);
        created.retain(|property, value| given.get(property) != Some(value));
        Ok(created)
    }

    fn update(
        txn: &mut Txn<'_>,
        _: &SenderAddresses,
        id: ObjectId,
        patch: &Value,
    ) -> TxnResult<JsonObject> {
        let old = txn.snapshot().object::<SenderIdentity>(txn.account(), id)?;
        let new = patched(id, &old.ok_or(SetError::NotFound)?, patch)?;
        txn.replace_object(id, new)?;
        Ok(JsonObject::new())
    }

    fn destroy(txn: &mut Txn<'_>, _: &SenderAddresses, id: ObjectId) -> TxnResult<()> {
        let found = txn.snapshot().object::<SenderIdentity>(txn.account(), id)?;
        if !found.ok_or(SetError::NotFound)?.may_delete() {
            let why = "the account has this identity for one of its addresses";
            return Err(SetError::Forbidden(why.into()).into());
        }
        txn.destroy_object::<SenderIdentity>(id)?;
        Ok(())
    }
}

/// Brings the identities that the service gives an account up to date with its addresses. An
/// identity whose address has a damaged or lost row stays: a repair may restore the address.
pub(super) fn refresh(context: &Context, account: &Account) -> Result<(), MethodError> {
    let identity = context.directory.identity(account.id)?;
    let own = context.directory.own_addresses(account.id)?;
    let name = identity.name.as_deref().unwrap_or_default();
    let stored = context.store.snapshot().objects::<SenderIdentity>(account.id)?;
    // Only identities that the service gave have a default name.
    let from_account = stored.iter().filter(|(_, identity)| identity.default_name.is_some());
    let from_account =
        from_account.filter_map(|(_, identity)| Address::parse(&identity.email).ok());
    // The damaged addresses come first, because the service gives a limited number of identities.
    let mut addresses: Vec<Address> =
        from_account.filter(|address| own.is_damaged(address)).collect();
    addresses.extend(identity.addresses);
    if identity_changes(&stored, &addresses, name).is_empty() {
        return Ok(());
    }
    let committed =
        context.store.commit(account.id, |txn| txn.update_own_identities(&addresses, name));
    let (_, ticket) = committed?;
    Ok(ticket.wait_blocking()?)
}

/// The addresses from which an account may send: those that resolve to it.
pub(super) struct SenderAddresses {
    identity: Identity,
    own: OwnAddresses,
}

impl SenderAddresses {
    pub(super) fn read(context: &Context, account: &Account) -> Result<Self, MethodError> {
        let directory = &context.directory;
        Ok(Self {
            identity: directory.identity(account.id)?,
            own: directory.own_addresses(account.id)?,
        })
    }

    /// Whether the account may send from an address.
    ///
    /// # Errors
    /// `ServerFail` if the row of the directory that decides is damaged or lost.
    pub(super) fn may_send_from(&self, address: &Address) -> Result<bool, SetError> {
        self.own.has(address).map_err(|error| SetError::ServerFail(error.to_string()))
    }

    /// Whether the account may still send from the address of an identity; for `*@domain`, whether
    /// it still has the catch-all of the domain.
    ///
    /// # Errors
    /// As for `may_send_from`.
    pub(super) fn may_use(&self, identity: &SenderIdentity) -> Result<bool, SetError> {
        self.may_have_identity(&identity.email)
    }

    /// Whether an address is that of an identity, with or without a detail or an alias domain. An
    /// identity for `*@domain` has all addresses of the domain (RFC 8621 §6).
    pub(super) fn belongs_to(&self, identity: &SenderIdentity, address: &Address) -> bool {
        let address = self.identity.canonical(address);
        if let Some(domain) = identity.email.strip_prefix("*@") {
            return address.domain() == fold_domain(domain);
        }
        let Ok(own) = Address::parse(&identity.email) else {
            return false;
        };
        let own = self.identity.canonical(&own);
        let base = |delimiter| address.split_detail(delimiter).0 == own;
        own == address || self.identity.delimiter.is_some_and(base)
    }

    /// Whether an identity may have an address; `*@domain` requires the catch-all of the domain.
    fn may_have_identity(&self, email: &str) -> Result<bool, SetError> {
        match email.strip_prefix("*@") {
            Some(domain) => self
                .own
                .has_catch_all(&fold_domain(domain))
                .map_err(|error| SetError::ServerFail(error.to_string())),
            None => Address::parse(email).map_or(Ok(false), |address| self.may_send_from(&address)),
        }
    }
}

fn object(id: ObjectId, identity: &SenderIdentity, properties: &[IdentityProperty]) -> JsonObject {
    let addresses = |addresses: &Option<Vec<EmailAddress>>| {
        addresses.as_deref().map_or(Value::Null, email_addresses::to_json)
    };
    object_of(properties, |property| match property {
        IdentityProperty::Id => id.to_string().into(),
        IdentityProperty::Name => identity.name.clone().into(),
        IdentityProperty::Email => identity.email.clone().into(),
        IdentityProperty::ReplyTo => addresses(&identity.reply_to),
        IdentityProperty::Bcc => addresses(&identity.bcc),
        IdentityProperty::TextSignature => identity.text_signature.clone().into(),
        IdentityProperty::HtmlSignature => identity.html_signature.clone().into(),
        IdentityProperty::MayDelete => identity.may_delete().into(),
    })
}

/// Reads a new identity. The error names all invalid properties. If the account may not send from
/// `email`, the error is `forbiddenFrom` alone, whatever else is invalid.
fn read(
    senders: &SenderAddresses,
    properties: &Map<String, Value>,
) -> Result<SenderIdentity, SetError> {
    let (mut identity, mut problems) = (SenderIdentity::default(), InvalidProperties::default());
    properties
        .get("email")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .clone_into(&mut identity.email);
    // RFC 8620 §5.3: a more specific error takes the place of `invalidProperties`.
    if !identity.email.is_empty() && !senders.may_have_identity(&identity.email)? {
        return Err(SetError::other("forbiddenFrom", "the account may not send from this address"));
    }
    if identity.email.is_empty() {
        problems.add("email", "an address is expected");
    }
    for (property, value) in properties.iter().filter(|(property, _)| *property != "email") {
        problems.note(apply(&mut identity, property, value))?;
    }
    problems.finish()?;
    Ok(identity)
}

fn patched(id: ObjectId, old: &SenderIdentity, patch: &Value) -> Result<SenderIdentity, SetError> {
    let before = object(id, old, IdentityProperty::ALL);
    let (mut new, mut problems) = (old.clone(), InvalidProperties::default());
    for (property, value) in Patch::new_values(patch, &before)? {
        if before.get(&property) != Some(&value) {
            problems.note(apply(&mut new, &property, &value))?;
        }
    }
    problems.finish()?;
    Ok(new)
}

/// Sets one property. Null stands for the default (RFC 8621 §6).
fn apply(identity: &mut SenderIdentity, property: &str, value: &Value) -> Result<(), SetError> {
    let invalid = |what: &str| SetError::property(property, what);
    let invalid_text = |what: String| invalid(&what);
    let text = || match value {
        Value::Null => Ok(String::new()),
        value => value.as_str().map(str::to_owned).ok_or_else(|| invalid("a text is expected")),
    };
    match IdentityProperty::from_name(property) {
        Some(IdentityProperty::Name) => {
            identity.name = text()?;
            if identity.name.len() > MAX_NAME_BYTES || identity.name.chars().any(char::is_control) {
                return Err(invalid("a name is one line of up to 1,024 bytes"));
            }
        }
        Some(IdentityProperty::TextSignature) => identity.text_signature = text()?,
        Some(IdentityProperty::HtmlSignature) => identity.html_signature = text()?,
        Some(IdentityProperty::ReplyTo) => {
            identity.reply_to =
                email_addresses::read(value, limits::MAX_FIELD_ADDRESSES).map_err(invalid_text)?;
        }
        Some(IdentityProperty::Bcc) => {
            identity.bcc =
                email_addresses::read(value, limits::MAX_FIELD_ADDRESSES).map_err(invalid_text)?;
        }
        Some(IdentityProperty::Id | IdentityProperty::Email | IdentityProperty::MayDelete)
        | None => {
            return Err(invalid("this property cannot be set"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::jmap::tests::{account_of, call, context};

    #[test]
    fn account_has_an_identity_for_each_address_and_may_create_more() {
        let context = context();
        let ann = account_of(&context);
        let ask = |name: &str, mut arguments: Value| {
            arguments["accountId"] = ann.clone().into();
            call(&context, name, &arguments).1
        };
        let first = ask("Identity/get", json!({}));
        let given = first["list"][0].clone();
        assert_eq!(
            (&given["email"], &given["mayDelete"]),
            (&json!("ann@example.org"), &json!(false))
        );
        assert_eq!(given.as_object().unwrap().len(), super::IdentityProperty::ALL.len());
        // A new address gets an identity, and the state changes.
        call(&context, "Account/alias", &json!({"account": ann, "address": "a.lee@example.org"}));
        let changes = ask("Identity/changes", json!({"sinceState": first["state"]}));
        assert_eq!(changes["created"].as_array().unwrap().len(), 1, "{changes}");

        let made = ask(
            "Identity/set",
            json!({"create": {
                "w": {
                    "email": "Ann+work@example.org",
                    "name": "Ann at work",
                    "bcc": [{"email": "log@example.org"}],
                    "replyTo": null,
                },
                "x": {"email": "eve@example.org"},
                "y": {"name": "nobody"},
                "z": {"email": "*@example.org"},
                "v": {"email": "ann@example.org", "mayDelete": true},
                "u": {"email": "ann@example.org", "replyTo": [{"name": "x"}]},
                "t": {"email": "eve@example.org", "colour": "red"},
                "s": {"name": "a\n", "bcc": 1},
            }}),
        );
        let mut named = made["notCreated"]["s"]["properties"].as_array().unwrap().clone();
        named.sort_by_key(ToString::to_string);
        assert_eq!(
            (named, &made["notCreated"]["t"]["type"]),
            (vec![json!("bcc"), json!("email"), json!("name")], &json!("forbiddenFrom"))
        );
        let w = made["created"]["w"]["id"].as_str().unwrap();
        assert_eq!(made["created"]["w"]["mayDelete"], true);
        for (name, kind) in [
            ("x", "forbiddenFrom"),
            ("y", "invalidProperties"),
            ("z", "forbiddenFrom"),
            ("v", "invalidProperties"),
            ("u", "invalidProperties"),
        ] {
            assert_eq!(made["notCreated"][name]["type"], kind, "{made}");
        }
        let given = given["id"].as_str().unwrap();
        let set = ask(
            "Identity/set",
            json!({
                "update": {
                    w: {"name": null, "htmlSignature": "<b>A</b>", "bcc": null},
                    given: {"email": "other@example.org"},
                    "i0": {},
                },
                "destroy": [given],
            }),
        );
        assert_eq!(set["updated"], json!({w: null}), "{set}");
        assert_eq!(
            (&set["notUpdated"][given]["type"], &set["notUpdated"]["i0"]["type"]),
            (&json!("willDestroy"), &json!("notFound"))
        );
        assert_eq!(set["notDestroyed"][given]["type"], "forbidden");
        let set = ask("Identity/set", json!({"update": {given: {"email": "other@example.org"}}}));
        assert_eq!(set["notUpdated"][given]["properties"], json!(["email"]));
        let now = ask("Identity/get", json!({"ids": [w]}));
        assert_eq!((&now["list"][0]["name"], &now["list"][0]["bcc"]), (&json!(""), &Value::Null));
        assert_eq!(ask("Identity/set", json!({"destroy": [w]}))["destroyed"], json!([w]));
        // An account that has a whole domain may send from every address of it.
        call(&context, "Account/alias", &json!({"account": ann, "address": "@example.com"}));
        let made = ask(
            "Identity/set",
            json!({"create": {"z": {"email": "*@example.com"}, "q": {"email": "q@example.com"}}}),
        );
        assert_eq!(made["created"].as_object().unwrap().len(), 2, "{made}");
        // Addresses that the directory gives to another account are excepted.
        let bob =
            call(&context, "Account/get", &json!({"account": "bob@example.org"})).1["id"].clone();
        call(&context, "Account/alias", &json!({"account": bob, "address": "boss@example.com"}));
        for email in ["boss@example.com", "Boss+x@Example.com", "bob@example.org"] {
            let made = ask("Identity/set", json!({"create": {"b": {"email": email}}}));
            assert_eq!(made["notCreated"]["b"]["type"], "forbiddenFrom", "{email}");
        }
    }
}
