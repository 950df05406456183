//! `PushSubscription` (RFC 8620 §7.2): where a client wants to hear of changes. It is no account's
//! and has no state: it is the user's, and of the very password or token that he made it with; it
//! is gone when that is.
//!
//! Nothing but a code is sent to a URL before the client gave that code back, and few are made in
//! an hour: so nobody can have others flooded (§8.6).

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::{Account, Context};
use super::failure::{SetFailure, TxnResult};
use super::method::{Call, Method};
use super::standard::value::utc_date;
use super::standard::{
    GetObjects, InvalidProperties, ObjectType, SetResponse, get_from, object_of,
};
use crate::model::{AccountId, ObjectId, PushKeys, PushSubscription, UtcMillis, limits};
use crate::store::{Error, Txn};
use crate::wire::jmap::standard::GetAnswer;
use crate::wire::jmap::{
    Answer, JsonObject, MethodError, Patch, Property as _, SetError, properties,
};

properties! {
    pub(super) enum PushSubscriptionProperty {
        Id = "id",
        DeviceClientId = "deviceClientId",
        VerificationCode = "verificationCode",
        Expires = "expires",
        Types = "types",
        Url = "url",
        Keys = "keys",
    }
}

impl PushSubscriptionProperty {
    /// Whether a client is never given it back (RFC 8620 §7.2.1).
    fn is_secret(self) -> bool {
        matches!(self, Self::Url | Self::Keys)
    }

    fn readable() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|property| !property.is_secret()).collect()
    }
}

/// The longest that a subscription lives without being renewed (§7.2: at least 48 hours, and better
/// a week). One that was made by a token that ends lives as long as that.
const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Octets of a URL, of an id of a device, and types that are named.
const MAX_URL_BYTES: usize = 2048;
const MAX_DEVICE_ID_BYTES: usize = 255;
const MAX_TYPES: usize = 64;

/// Whose the caller's subscriptions are: the account that logged in, or the first that is mapped to
/// who asks.
fn owner(context: &Context) -> Result<Account, MethodError> {
    let own = context.own_accounts()?.into_iter().next();
    let (id, row) =
        own.ok_or_else(|| MethodError::Forbidden("subscriptions belong to an account".into()))?;
    Ok(Account { id, row, guest: None })
}

/// The subscriptions that the caller made with the password or token of this call.
pub(super) struct OwnSubscriptions(Vec<(ObjectId, PushSubscription)>);

impl ObjectType for PushSubscription {
    type Id = ObjectId;
    type Property = PushSubscriptionProperty;
    type Reader<'a> = OwnSubscriptions;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<OwnSubscriptions, MethodError> {
        let (store, credential) = (&call.context.store, &call.context.caller.credential);
        let now = store.clock().now();
        let mut all = store.snapshot().objects::<PushSubscription>(account.id)?;
        all.retain(|(_, one)| one.credential == *credential && now < one.expires);
        Ok(OwnSubscriptions(all))
    }

    /// They have none.
    fn state(_: &OwnSubscriptions) -> Result<String, MethodError> {
        Ok(String::new())
    }
}

impl GetObjects for PushSubscription {
    fn properties(_: &Call<'_>) -> Vec<PushSubscriptionProperty> {
        PushSubscriptionProperty::readable()
    }

    fn ids(own: &OwnSubscriptions) -> Result<Vec<ObjectId>, MethodError> {
        Ok(own.0.iter().map(|(id, _)| *id).collect())
    }

    fn object(
        own: &OwnSubscriptions,
        id: &ObjectId,
        properties: &[PushSubscriptionProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        Ok(own
            .0
            .iter()
            .find(|(known, _)| known == id)
            .map(|(id, one)| object(*id, one, properties)))
    }
}

/// PushSubscription/get (§7.2.1).
pub(super) struct PushSubscriptionGet;

#[derive(Debug, Deserialize)]
pub(super) struct PushGetArgs {
    ids: Option<Vec<String>>,
    properties: Option<Vec<PushSubscriptionProperty>>,
}

/// Of neither an account nor a state.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PushGetAnswer {
    list: Vec<Value>,
    not_found: Vec<String>,
}

impl Answer for PushGetAnswer {}

impl Method for PushSubscriptionGet {
    type Args = PushGetArgs;
    type Answer = PushGetAnswer;

    fn call(call: &Call<'_>, args: PushGetArgs) -> Result<PushGetAnswer, MethodError> {
        let account = owner(call.context)?;
        if args.properties.iter().flatten().any(|property| property.is_secret()) {
            return Err(MethodError::Forbidden("url and keys are not given back".into()));
        }
        let GetAnswer { list, not_found, .. } =
            get_from::<PushSubscription>(call, &account, args.ids, args.properties)?;
        Ok(PushGetAnswer { list, not_found })
    }
}

fn object(
    id: ObjectId,
    one: &PushSubscription,
    properties: &[PushSubscriptionProperty],
) -> JsonObject {
    object_of(properties, |property| match property {
        PushSubscriptionProperty::Id => id.to_string().into(),
        PushSubscriptionProperty::DeviceClientId => one.device_client_id.clone().into(),
        PushSubscriptionProperty::VerificationCode => {
            one.is_verified.then(|| one.code.clone()).into()
        }
        PushSubscriptionProperty::Expires => one.expires.rfc3339().into(),
        PushSubscriptionProperty::Types => one.types.clone().into(),
        PushSubscriptionProperty::Url | PushSubscriptionProperty::Keys => Value::Null,
    })
}

/// PushSubscription/set (§7.2.2).
pub(super) struct PushSubscriptionSet;

#[derive(Debug, Deserialize)]
pub(super) struct PushSetArgs {
    /// Objects by creation id.
    #[serde(default)]
    create: BTreeMap<String, JsonObject>,
    /// Patches by id.
    #[serde(default)]
    update: BTreeMap<String, JsonObject>,
    #[serde(default)]
    destroy: Vec<String>,
}

impl Method for PushSubscriptionSet {
    type Args = PushSetArgs;
    type Answer = JsonObject;

    fn call(call: &Call<'_>, args: PushSetArgs) -> Result<JsonObject, MethodError> {
        set(call, args)
    }
}

fn set(
    call: &Call<'_>,
    PushSetArgs { create, update, destroy }: PushSetArgs,
) -> Result<JsonObject, MethodError> {
    let context = call.context;
    let (account, credential) = (owner(context)?.id, context.caller.credential.clone());
    if create.len() + update.len() + destroy.len() > limits::MAX_OBJECTS_IN_SET {
        return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
    }
    let resolve = |id: &str| call.created.resolve(id).and_then(|id| id.parse::<ObjectId>().ok());
    let now = context.store.clock().now();
    let expires = credential
        .as_ref()
        .map(|credential| context.directory.expires(account, credential))
        .transpose();
    let most = expires?.flatten().unwrap_or_else(|| now.after(MAX_LIFETIME));
    let codes: Result<Vec<String>, MethodError> = create.iter().map(|_| Ok(code()?)).collect();
    let codes = codes?;
    let wished: Vec<Result<PushSubscription, SetError>> = create
        .iter()
        .zip(codes)
        .map(|((_, properties), code)| {
            let one = made(properties, now, most)?;
            context.subscription_times.take(account, context.store.clock().steady())?;
            Ok(PushSubscription { code, credential: credential.clone(), ..one })
        })
        .collect();
    let known = call.created.checkpoint();
    let committed = context.store.commit(account, |txn| {
        call.created.restore(&known);
        let mut done = SetResponse::default();
        for ((name, properties), wished) in create.iter().zip(&wished) {
            let mut create = || {
                let one = wished.as_ref().map_err(Clone::clone)?;
                Ok::<_, SetFailure<Error>>(told(txn.create_object(one)?, one, properties))
            };
            let created = create();
            done.create(call.created, name, created)?;
        }
        for (name, patch) in &update {
            let patch = Value::Object(patch.clone());
            let found = found(txn, account, resolve(name), credential.as_ref(), now)?;
            done.update(name, changed(txn, found, &patch, (now, most)))?;
        }
        for name in &destroy {
            let gone = match found(txn, account, resolve(name), credential.as_ref(), now)? {
                Some((id, _)) => {
                    txn.destroy_object::<PushSubscription>(id).map(drop).map_err(SetFailure::Call)
                }
                None => Err(SetError::NotFound.into()),
            };
            done.destroy(name, gone)?;
        }
        Ok(done)
    });
    let (done, ticket) = committed?;
    ticket.wait_blocking()?;
    Ok(done.into_members())
}

/// What the client does not know of one that it made.
fn told(id: ObjectId, one: &PushSubscription, given: &JsonObject) -> JsonObject {
    let defaults = [PushSubscriptionProperty::Keys, PushSubscriptionProperty::Types];
    let mut properties = vec![PushSubscriptionProperty::Id, PushSubscriptionProperty::Expires];
    properties.extend(defaults.into_iter().filter(|property| !given.contains_key(property.name())));
    object(id, one, &properties)
}

/// What nobody can guess.
fn code() -> Result<String, Error> {
    let mut random = [0; 24];
    getrandom::fill(&mut random)
        .map_err(|error| Error::Io(format!("no randomness for a code: {error}")))?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// A subscription that is this caller's.
fn found(
    txn: &Txn<'_>,
    account: AccountId,
    id: Option<ObjectId>,
    credential: Option<&String>,
    now: UtcMillis,
) -> Result<Option<(ObjectId, PushSubscription)>, Error> {
    let Some(id) = id else { return Ok(None) };
    let one = txn.snapshot().object::<PushSubscription>(account, id)?;
    Ok(one
        .filter(|one| one.credential.as_ref() == credential && now < one.expires)
        .map(|one| (id, one)))
}

fn made(
    properties: &JsonObject,
    now: UtcMillis,
    most: UtcMillis,
) -> Result<PushSubscription, SetError> {
    let (mut one, mut wrong) = (
        PushSubscription { expires: most, ..PushSubscription::default() },
        InvalidProperties::default(),
    );
    for (name, value) in properties {
        match PushSubscriptionProperty::from_name(name) {
            Some(PushSubscriptionProperty::DeviceClientId) => {
                let text = value
                    .as_str()
                    .filter(|text| !text.is_empty() && text.len() <= MAX_DEVICE_ID_BYTES);
                match text {
                    Some(text) => text.clone_into(&mut one.device_client_id),
                    None => wrong.add(name, "a text of 1 to 255 octets is wanted"),
                }
            }
            Some(PushSubscriptionProperty::Url) => {
                one.url = wrong.note(url(value))?.unwrap_or_default()
            }
            Some(PushSubscriptionProperty::Keys) => one.keys = wrong.note(keys(value))?.flatten(),
            Some(PushSubscriptionProperty::VerificationCode) => {
                if !value.is_null() {
                    wrong.add(name, "it is sent to the URL first");
                }
            }
            Some(PushSubscriptionProperty::Expires) => {
                one.expires = wrong.note(expires(value, now, most))?.unwrap_or_default();
            }
            Some(PushSubscriptionProperty::Types) => {
                one.types = wrong.note(types(value))?.flatten()
            }
            Some(PushSubscriptionProperty::Id) | None => wrong.add(name, "no such property"),
        }
    }
    for name in ["deviceClientId", "url"].into_iter().filter(|name| !properties.contains_key(*name))
    {
        wrong.add(name, "it is wanted");
    }
    wrong.finish()?;
    Ok(one)
}

fn changed(
    txn: &mut Txn<'_>,
    found: Option<(ObjectId, PushSubscription)>,
    patch: &Value,
    times: (UtcMillis, UtcMillis),
) -> TxnResult<JsonObject> {
    let (id, old) = found.ok_or(SetError::NotFound)?;
    let new = patched(id, &old, patch, times)?;
    let asked = patch.get("expires").and_then(Value::as_str).and_then(UtcMillis::parse_rfc3339);
    let mut also = JsonObject::new();
    if patch.get("expires").is_some() && asked != Some(new.expires) {
        also.insert("expires".into(), new.expires.rfc3339().into());
    }
    txn.update_object::<PushSubscription>(id, |one| *one = new).map_err(SetFailure::Call)?;
    Ok(also)
}

fn patched(
    id: ObjectId,
    old: &PushSubscription,
    patch: &Value,
    (now, most): (UtcMillis, UtcMillis),
) -> Result<PushSubscription, SetError> {
    let before = object(id, old, &PushSubscriptionProperty::readable());
    let (mut one, mut wrong) = (old.clone(), InvalidProperties::default());
    for (name, value) in Patch::wishes(patch, &before)? {
        let property = PushSubscriptionProperty::from_name(&name);
        // The whole may be sent back as it is (RFC 8620 §5.3).
        if property != Some(PushSubscriptionProperty::Expires) && before.get(&name) == Some(&value)
        {
            continue;
        }
        match property {
            Some(PushSubscriptionProperty::Expires) => {
                one.expires = wrong.note(expires(&value, now, most))?.unwrap_or_default();
            }
            Some(PushSubscriptionProperty::VerificationCode)
                if value.as_str() == Some(&old.code) =>
            {
                one.is_verified = true;
            }
            Some(PushSubscriptionProperty::VerificationCode) => {
                wrong.add(name, "not the code that was sent")
            }
            Some(PushSubscriptionProperty::Types) => {
                one.types = wrong.note(types(&value))?.flatten()
            }
            Some(
                PushSubscriptionProperty::Id
                | PushSubscriptionProperty::DeviceClientId
                | PushSubscriptionProperty::Url
                | PushSubscriptionProperty::Keys,
            ) => wrong.add(name, "it cannot be changed"),
            None => wrong.add(name, "no such property"),
        }
    }
    wrong.finish()?;
    Ok(one)
}

/// `https:` and a host (§7.2: MUST begin with "https://").
fn url(value: &Value) -> Result<String, SetError> {
    let text = value.as_str().filter(|text| text.len() <= MAX_URL_BYTES).unwrap_or_default();
    let host = text
        .strip_prefix("https://")
        .map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let good = host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
        && text.bytes().all(|octet| octet.is_ascii_graphic());
    if good {
        Ok(text.to_owned())
    } else {
        Err(SetError::property("url", "a URL that begins with https:// is wanted"))
    }
}

/// `p256dh`: an uncompressed point of P-256; `auth`: 16 octets; both in base64url (RFC 8291 §2.1,
/// §3.2).
fn keys(value: &Value) -> Result<Option<PushKeys>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let part = |name: &str, length: usize| {
        let text = value.get(name).and_then(Value::as_str)?;
        let octets = URL_SAFE_NO_PAD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()?;
        (octets.len() == length).then_some(octets)
    };
    match (part("p256dh", 65).filter(|point| point.first() == Some(&4)), part("auth", 16)) {
        (Some(p256dh), Some(auth)) => Ok(Some(PushKeys { p256dh, auth })),
        _ => Err(SetError::property(
            "keys",
            "p256dh (a point of P-256) and auth (16 octets), in base64url, are wanted",
        )),
    }
}

/// A date to come; one that is too far away is brought nearer (§7.2).
fn expires(value: &Value, now: UtcMillis, most: UtcMillis) -> Result<UtcMillis, SetError> {
    if value.is_null() {
        return Ok(most);
    }
    let at = utc_date("expires", value).ok().filter(|at| *at > now);
    let at =
        at.ok_or_else(|| SetError::property("expires", "a UTC date that is to come is wanted"))?;
    Ok(at.min(most))
}

fn types(value: &Value) -> Result<Option<Vec<String>>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let all = value.as_array().filter(|all| all.len() <= MAX_TYPES);
    let names: Option<Vec<String>> = all.and_then(|all| {
        all.iter()
            .map(|one| {
                one.as_str().filter(|name| name.len() <= MAX_DEVICE_ID_BYTES).map(str::to_owned)
            })
            .collect()
    });
    names.map(Some).ok_or_else(|| {
        SetError::property("types", "an array of names of types, or null, is wanted")
    })
}

#[cfg(test)]
mod tests;
