//! Identity (RFC 8621 §6). An account has one for each of its addresses by itself; whoever reads
//! them first brings them up to date with the account (`model::sender`), so that a change of the
//! account moves their state as any other.

use serde_json::{Map, Value};

use super::context::{Account, Context};
use super::failure::TxnResult;
use super::method::Call;
use super::standard::{
    ChangedObjects, GetObjects, InvalidProperties, ObjectChanges, ObjectType, SetObjects,
    StoredReader, object_of, people,
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

/// Octets of a name.
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
        most: usize,
    ) -> Result<Option<ChangedObjects<ObjectId>>, MethodError> {
        reader.changes::<SenderIdentity>(since, most)
    }
}

impl SetObjects for SenderIdentity {
    const DATA: DataType = DataType::Identity;
    type Prepared = SenderAddresses;

    fn prepare(call: &Call<'_>, account: &Account) -> Result<SenderAddresses, MethodError> {
        refresh(call.context, account)?;
        SenderAddresses::of(call.context, account)
    }

    fn create(
        txn: &mut Txn<'_>,
        me: &SenderAddresses,
        given: &JsonObject,
    ) -> TxnResult<JsonObject> {
        let identity = read(me, given)?;
        let mut told = object(txn.create_object(&identity)?, &identity, IdentityProperty::ALL);
        told.retain(|property, value| given.get(property) != Some(value));
        Ok(told)
    }

    fn update(
        txn: &mut Txn<'_>,
        _: &SenderAddresses,
        id: ObjectId,
        patch: &Value,
    ) -> TxnResult<JsonObject> {
        let old = txn.snapshot().object::<SenderIdentity>(txn.account(), id)?;
        let new = patched(id, &old.ok_or(SetError::NotFound)?, patch)?;
        txn.update_object(id, |identity: &mut SenderIdentity| *identity = new)?;
        Ok(JsonObject::new())
    }

    fn destroy(txn: &mut Txn<'_>, _: &SenderAddresses, id: ObjectId) -> TxnResult<()> {
        let found = txn.snapshot().object::<SenderIdentity>(txn.account(), id)?;
        if !found.ok_or(SetError::NotFound)?.may_delete() {
            let why = "it stands for an address of the account";
            return Err(SetError::Forbidden(why.into()).into());
        }
        txn.destroy_object::<SenderIdentity>(id)?;
        Ok(())
    }
}

/// Brings the identities that the account has by itself up to date. One whose address has a row
/// that is damaged or lost stays: the repair may give the address back.
pub(super) fn refresh(context: &Context, account: &Account) -> Result<(), MethodError> {
    let me = context.directory.identity(account.id)?;
    let own = context.directory.own_addresses(account.id)?;
    let name = me.name.as_deref().unwrap_or_default();
    let known = context.store.snapshot().objects::<SenderIdentity>(account.id)?;
    let given = known.iter().filter(|(_, identity)| identity.default_name.is_some());
    let given = given.filter_map(|(_, identity)| Address::parse(&identity.email).ok());
    // First, so that they are within the number of addresses that have an identity.
    let mut addresses: Vec<Address> = given.filter(|address| own.is_damaged(address)).collect();
    addresses.extend(me.addresses);
    if identity_changes(&known, &addresses, name).is_empty() {
        return Ok(());
    }
    let done = context.store.commit(account.id, |txn| txn.update_own_identities(&addresses, name));
    let (_, ticket) = done?;
    Ok(ticket.wait_blocking()?)
}

/// As whom an account may send: any address that the directory leads to it, and no other.
pub(super) struct SenderAddresses {
    identity: Identity,
    own: OwnAddresses,
}

impl SenderAddresses {
    pub(super) fn of(context: &Context, account: &Account) -> Result<Self, MethodError> {
        let directory = &context.directory;
        Ok(Self {
            identity: directory.identity(account.id)?,
            own: directory.own_addresses(account.id)?,
        })
    }

    /// Whether mail may come from an address. In a domain that the account takes whole, an address
    /// that the directory gives to another account is not among them.
    ///
    /// # Errors
    /// `serverFail` where a row of the directory that would tell is damaged or lost.
    pub(super) fn may_be(&self, address: &Address) -> Result<bool, SetError> {
        self.own.has(address).map_err(|error| SetError::ServerFail(error.to_string()))
    }

    /// Whether an identity still stands for addresses of the account: those may have changed since
    /// it was made.
    ///
    /// # Errors
    /// As `may_be`.
    pub(super) fn may_use(&self, identity: &SenderIdentity) -> Result<bool, SetError> {
        self.may_have(&identity.email)
    }

    /// Whether an address is the one that an identity stands for, its sub-addresses and those in an
    /// alias domain included; of `*@domain` any in that domain (RFC 8621 §6).
    pub(super) fn is_of(&self, identity: &SenderIdentity, address: &Address) -> bool {
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

    /// Whether an identity may have this address: `*@domain` where the whole domain is the
    /// account's.
    fn may_have(&self, email: &str) -> Result<bool, SetError> {
        match email.strip_prefix("*@") {
            Some(domain) => self
                .own
                .has_domain(&fold_domain(domain))
                .map_err(|error| SetError::ServerFail(error.to_string())),
            None => Address::parse(email).map_or(Ok(false), |address| self.may_be(&address)),
        }
    }
}

fn object(id: ObjectId, identity: &SenderIdentity, properties: &[IdentityProperty]) -> JsonObject {
    let people =
        |people: &Option<Vec<EmailAddress>>| people.as_deref().map_or(Value::Null, people::object);
    object_of(properties, |property| match property {
        IdentityProperty::Id => id.to_string().into(),
        IdentityProperty::Name => identity.name.clone().into(),
        IdentityProperty::Email => identity.email.clone().into(),
        IdentityProperty::ReplyTo => people(&identity.reply_to),
        IdentityProperty::Bcc => people(&identity.bcc),
        IdentityProperty::TextSignature => identity.text_signature.clone().into(),
        IdentityProperty::HtmlSignature => identity.html_signature.clone().into(),
        IdentityProperty::MayDelete => identity.may_delete().into(),
    })
}

/// An identity that the account may have.
fn read(me: &SenderAddresses, properties: &Map<String, Value>) -> Result<SenderIdentity, SetError> {
    let (mut identity, mut wrong) = (SenderIdentity::default(), InvalidProperties::default());
    properties
        .get("email")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .clone_into(&mut identity.email);
    // Where there is an error of its own for it, it is that and not `invalidProperties` (RFC 8620
    // §5.3).
    if !identity.email.is_empty() && !me.may_have(&identity.email)? {
        return Err(SetError::of("forbiddenFrom", "the address is none of the account's"));
    }
    if identity.email.is_empty() {
        wrong.add("email", "an identity has an address");
    }
    for (property, value) in properties.iter().filter(|(property, _)| *property != "email") {
        wrong.note(apply(&mut identity, property, value))?;
    }
    wrong.finish()?;
    Ok(identity)
}

fn patched(id: ObjectId, old: &SenderIdentity, patch: &Value) -> Result<SenderIdentity, SetError> {
    let before = object(id, old, IdentityProperty::ALL);
    let (mut new, mut wrong) = (old.clone(), InvalidProperties::default());
    for (property, value) in Patch::wishes(patch, &before)? {
        if before.get(&property) != Some(&value) {
            wrong.note(apply(&mut new, &property, &value))?;
        }
    }
    wrong.finish()?;
    Ok(new)
}

/// Sets one property that may be changed; null is its default (RFC 8621 §6).
fn apply(identity: &mut SenderIdentity, property: &str, value: &Value) -> Result<(), SetError> {
    let bad = |what: &str| SetError::property(property, what);
    let words = || match value {
        Value::Null => Ok(String::new()),
        value => value.as_str().map(str::to_owned).ok_or_else(|| bad("a text is wanted")),
    };
    match IdentityProperty::from_name(property) {
        Some(IdentityProperty::Name) => {
            identity.name = words()?;
            if identity.name.len() > MAX_NAME_BYTES || identity.name.chars().any(char::is_control) {
                return Err(bad("a name is one line of up to 1,024 octets"));
            }
        }
        Some(IdentityProperty::TextSignature) => identity.text_signature = words()?,
        Some(IdentityProperty::HtmlSignature) => identity.html_signature = words()?,
        Some(IdentityProperty::ReplyTo) => {
            identity.reply_to = people::read(value, limits::MAX_FIELD_ADDRESSES).map_err(bad)?;
        }
        Some(IdentityProperty::Bcc) => {
            identity.bcc = people::read(value, limits::MAX_FIELD_ADDRESSES).map_err(bad)?
        }
        Some(IdentityProperty::Id | IdentityProperty::Email | IdentityProperty::MayDelete)
        | None => {
            return Err(bad("it cannot be set"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::jmap::tests::{account_of, call, context};

    #[test]
    fn an_account_has_an_identity_for_each_address_and_may_make_more() {
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
        // A new address has one, too, and the state says so.
        call(&context, "Account/alias", &json!({"account": ann, "address": "a.lee@example.org"}));
        let changes = ask("Identity/changes", json!({"sinceState": first["state"]}));
        assert_eq!(changes["created"].as_array().unwrap().len(), 1, "{changes}");

        let made = ask(
            "Identity/set",
            json!({"create": {
                "w": {"email": "Ann+work@example.org", "name": "Ann at work", "bcc": [{"email": "log@example.org"}], "replyTo": null},
                "x": {"email": "eve@example.org"}, "y": {"name": "nobody"}, "z": {"email": "*@example.org"},
                "v": {"email": "ann@example.org", "mayDelete": true}, "u": {"email": "ann@example.org", "replyTo": [{"name": "x"}]},
                "t": {"email": "eve@example.org", "colour": "red"}, "s": {"name": "a\n", "bcc": 1},
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
            json!({"update": {
            w: {"name": null, "htmlSignature": "<b>A</b>", "bcc": null}, given: {"email": "other@example.org"}, "i0": {},
        }, "destroy": [given]}),
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
        // With all of a domain comes every address in it.
        call(&context, "Account/alias", &json!({"account": ann, "address": "@example.com"}));
        let made = ask(
            "Identity/set",
            json!({"create": {"z": {"email": "*@example.com"}, "q": {"email": "q@example.com"}}}),
        );
        assert_eq!(made["created"].as_object().unwrap().len(), 2, "{made}");
        // But not the addresses in it that the directory gives to somebody else.
        let bob =
            call(&context, "Account/get", &json!({"account": "bob@example.org"})).1["id"].clone();
        call(&context, "Account/alias", &json!({"account": bob, "address": "boss@example.com"}));
        for email in ["boss@example.com", "Boss+x@Example.com", "bob@example.org"] {
            let made = ask("Identity/set", json!({"create": {"b": {"email": email}}}));
            assert_eq!(made["notCreated"]["b"]["type"], "forbiddenFrom", "{email}");
        }
    }
}
