//! `PushSubscription` (RFC 8620 §7.2): a URL to which a client wants changes to be sent.
//!
//! - A subscription belongs to a user, and to the password or token with which it was created: no
//!   other credential sees it, and it ends when the credential does. It has no account id and no
//!   state.
//! - Only a verification code is sent to a URL until the client gives the code back (RFC 8620
//!   §8.6).

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::{Account, Context, distinct};
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
    /// Whether clients never get the property (RFC 8620 §7.2.1).
    fn is_secret(self) -> bool {
        matches!(self, Self::Url | Self::Keys)
    }

    fn readable() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|property| !property.is_secret()).collect()
    }
}

/// How long a subscription lives without being renewed (RFC 8620 §7.2). If the client logs in with
/// a token that expires, this does not apply: the subscription may live as long as the token.
const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
const MAX_URL_BYTES: usize = 2048;
/// The longest device id, and the longest name of a type.
const MAX_NAME_BYTES: usize = 255;
/// The most types that one subscription names.
const MAX_TYPES: usize = 64;

/// Returns the account to which the caller's subscriptions belong: the first of the caller's own.
///
/// # Errors
/// `Forbidden` if the caller has no account; those of reading.
fn owner(context: &Context) -> Result<Account, MethodError> {
    let own = context.own_accounts()?.into_iter().next();
    let (id, row) =
        own.ok_or_else(|| MethodError::Forbidden("subscriptions belong to an account".into()))?;
    Ok(Account { id, row, guest: None })
}

/// The subscriptions that the caller made with the password or token of this call, without those
/// that have expired.
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
            .find(|(other, _)| other == id)
            .map(|(id, one)| object(*id, one, properties)))
    }
}

/// PushSubscription/get (RFC 8620 §7.2.1).
pub(super) struct PushSubscriptionGet;

#[derive(Debug, Deserialize)]
pub(super) struct PushGetArgs {
    ids: Option<Vec<String>>,
    properties: Option<Vec<PushSubscriptionProperty>>,
}

/// Has no account id and no state, because subscriptions have none.
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
            return Err(MethodError::Forbidden("url and keys are never returned".into()));
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

/// PushSubscription/set (RFC 8620 §7.2.2).
pub(super) struct PushSubscriptionSet;

#[derive(Debug, Deserialize)]
pub(super) struct PushSetArgs {
    /// Objects by creation id.
    #[serde(default)]
    create: BTreeMap<String, JsonObject>,
    /// Patches by id, or by `#` and a creation id.
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
    let destroy = distinct(destroy);
    if create.len() + update.len() + destroy.len() > limits::MAX_OBJECTS_IN_SET {
        return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
    }
    let resolve = |id: &str| call.created.resolve(id).and_then(|id| id.parse::<ObjectId>().ok());
    let now = context.store.clock().now();
    // When the token expires; `None` for a password, and for a token that never expires.
    let expires = credential
        .as_ref()
        .map(|credential| context.directory.expires(account, credential))
        .transpose();
    // The latest time at which a subscription of this credential may expire.
    let latest = expires?.flatten().unwrap_or_else(|| now.after(MAX_LIFETIME));
    let codes: Result<Vec<String>, MethodError> = create.iter().map(|_| Ok(new_code()?)).collect();
    let codes = codes?;
    // Made before the commit, which may run again: each new subscription counts once.
    let new: Vec<Result<PushSubscription, SetError>> = create
        .iter()
        .zip(codes)
        .map(|((_, properties), code)| {
            let subscription = read_new(properties, now, latest)?;
            context.subscription_times.record(account, context.store.clock().steady())?;
            Ok(PushSubscription { code, credential: credential.clone(), ..subscription })
        })
        .collect();
    let checkpoint = call.created.checkpoint();
    let committed = context.store.commit(account, |txn| {
        call.created.restore(&checkpoint);
        let mut done = SetResponse::default();
        for ((name, properties), new) in create.iter().zip(&new) {
            let mut create = || {
                let new = new.as_ref().map_err(Clone::clone)?;
                let id = txn.create_object(new)?;
                Ok::<_, SetFailure<Error>>(properties_not_given(id, new, properties))
            };
            let created = create();
            done.create(call.created, name, created)?;
        }
        for (name, patch) in &update {
            if destroy.contains(name) {
                done.not_updated(name, &SetError::WillDestroy);
                continue;
            }
            let patch = Value::Object(patch.clone());
            let found = find_own(txn, account, resolve(name), credential.as_ref(), now)?;
            done.update(name, update_one(txn, found, &patch, (now, latest)))?;
        }
        for name in &destroy {
            let destroyed = match find_own(txn, account, resolve(name), credential.as_ref(), now)? {
                Some((id, _)) => {
                    txn.destroy_object::<PushSubscription>(id).map(drop).map_err(SetFailure::Call)
                }
                None => Err(SetError::NotFound.into()),
            };
            done.destroy(name, destroyed)?;
        }
        Ok(done)
    });
    let (done, ticket) = committed?;
    ticket.wait_blocking()?;
    Ok(done.into_members())
}

/// Returns `id` and `expires`, and of `keys` and `types` those that the client did not give.
fn properties_not_given(id: ObjectId, one: &PushSubscription, given: &JsonObject) -> JsonObject {
    let defaults = [PushSubscriptionProperty::Keys, PushSubscriptionProperty::Types];
    let mut properties = vec![PushSubscriptionProperty::Id, PushSubscriptionProperty::Expires];
    properties.extend(defaults.into_iter().filter(|property| !given.contains_key(property.name())));
    object(id, one, &properties)
}

/// Returns a new random verification code.
fn new_code() -> Result<String, Error> {
    let mut random = [0; 24];
    getrandom::fill(&mut random)
        .map_err(|error| Error::Io(format!("no randomness for a code: {error}")))?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// Finds a subscription of this credential that has not expired; `None` if there is none.
fn find_own(
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

/// Reads a new subscription, which expires at `latest` if the client names no earlier time.
fn read_new(
    properties: &JsonObject,
    now: UtcMillis,
    latest: UtcMillis,
) -> Result<PushSubscription, SetError> {
    let (mut one, mut problems) = (
        PushSubscription { expires: latest, ..PushSubscription::default() },
        InvalidProperties::default(),
    );
    for (name, value) in properties {
        match PushSubscriptionProperty::from_name(name) {
            Some(PushSubscriptionProperty::DeviceClientId) => {
                let text =
                    value.as_str().filter(|text| !text.is_empty() && text.len() <= MAX_NAME_BYTES);
                match text {
                    Some(text) => text.clone_into(&mut one.device_client_id),
                    None => problems.add(name, "a text of 1 to 255 bytes is expected"),
                }
            }
            Some(PushSubscriptionProperty::Url) => {
                one.url = problems.note(url(value))?.unwrap_or_default();
            }
            Some(PushSubscriptionProperty::Keys) => {
                one.keys = problems.note(keys(value))?.flatten();
            }
            Some(PushSubscriptionProperty::VerificationCode) => {
                if !value.is_null() {
                    problems.add(name, "the code is first sent to the URL");
                }
            }
            Some(PushSubscriptionProperty::Expires) => {
                one.expires = problems.note(expires(value, now, latest))?.unwrap_or_default();
            }
            Some(PushSubscriptionProperty::Types) => {
                one.types = problems.note(types(value))?.flatten();
            }
            Some(PushSubscriptionProperty::Id) | None => {
                problems.add(name, "there is no such property");
            }
        }
    }
    for name in ["deviceClientId", "url"].into_iter().filter(|name| !properties.contains_key(*name))
    {
        problems.add(name, "this property is required");
    }
    problems.finish()?;
    Ok(one)
}

/// Updates a subscription. `times` are the present time, and the latest time at which it may
/// expire. Returns `expires` if the client sent it and the stored one differs.
fn update_one(
    txn: &mut Txn<'_>,
    found: Option<(ObjectId, PushSubscription)>,
    patch: &Value,
    times: (UtcMillis, UtcMillis),
) -> TxnResult<JsonObject> {
    let (id, old) = found.ok_or(SetError::NotFound)?;
    let new = patched(id, &old, patch, times)?;
    let requested = patch.get("expires").and_then(Value::as_str).and_then(UtcMillis::parse_rfc3339);
    let mut other_changes = JsonObject::new();
    if patch.get("expires").is_some() && requested != Some(new.expires) {
        other_changes.insert("expires".into(), new.expires.rfc3339().into());
    }
    txn.replace_object(id, new).map_err(SetFailure::Call)?;
    Ok(other_changes)
}

/// Returns the subscription `old` after a patch. The times are those of `update_one`.
fn patched(
    id: ObjectId,
    old: &PushSubscription,
    patch: &Value,
    (now, latest): (UtcMillis, UtcMillis),
) -> Result<PushSubscription, SetError> {
    let before = object(id, old, &PushSubscriptionProperty::readable());
    let (mut one, mut problems) = (old.clone(), InvalidProperties::default());
    for (name, value) in Patch::new_values(patch, &before)? {
        let property = PushSubscriptionProperty::from_name(&name);
        // A client may send back properties unchanged (RFC 8620 §5.3). `expires` is read even then:
        // it must be in the future, and is at most `latest`.
        if property != Some(PushSubscriptionProperty::Expires) && before.get(&name) == Some(&value)
        {
            continue;
        }
        match property {
            Some(PushSubscriptionProperty::Expires) => {
                one.expires = problems.note(expires(&value, now, latest))?.unwrap_or_default();
            }
            Some(PushSubscriptionProperty::VerificationCode)
                if value.as_str() == Some(&old.code) =>
            {
                one.is_verified = true;
            }
            Some(PushSubscriptionProperty::VerificationCode) => {
                problems.add(name, "this is not the code that was sent");
            }
            Some(PushSubscriptionProperty::Types) => {
                one.types = problems.note(types(&value))?.flatten();
            }
            Some(
                PushSubscriptionProperty::Id
                | PushSubscriptionProperty::DeviceClientId
                | PushSubscriptionProperty::Url
                | PushSubscriptionProperty::Keys,
            ) => problems.add(name, "this property cannot be changed"),
            None => problems.add(name, "there is no such property"),
        }
    }
    problems.finish()?;
    Ok(one)
}

/// Reads a URL of up to `MAX_URL_BYTES` of printable ASCII that begins with `https://` (RFC 8620
/// §7.2) and has a host and no user name.
fn url(value: &Value) -> Result<String, SetError> {
    let text = value.as_str().filter(|text| text.len() <= MAX_URL_BYTES).unwrap_or_default();
    let host = text
        .strip_prefix("https://")
        .map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    // A port may follow the host.
    let has_host = |host: &str| !host.is_empty() && !host.starts_with(':');
    let good = host.is_some_and(|host| has_host(host) && !host.contains('@'))
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if good {
        Ok(text.to_owned())
    } else {
        let what = "an https:// URL of up to 2,048 printable ASCII characters, with a host and no \
                    user name, is expected";
        Err(SetError::property("url", what))
    }
}

/// Reads `p256dh`, an uncompressed point of P-256, and `auth`, 16 bytes, both in base64url (RFC
/// 8291 §2.1, §3.2). Null stands for no keys.
fn keys(value: &Value) -> Result<Option<PushKeys>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let part = |name: &str, length: usize| {
        let text = value.get(name).and_then(Value::as_str)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()?;
        (bytes.len() == length).then_some(bytes)
    };
    // An uncompressed point is the byte 4 and two numbers of 32 bytes.
    match (part("p256dh", 65).filter(|point| point.first() == Some(&4)), part("auth", 16)) {
        (Some(p256dh), Some(auth)) => Ok(Some(PushKeys { p256dh, auth })),
        _ => Err(SetError::property(
            "keys",
            "p256dh (a point of P-256) and auth (16 bytes), in base64url, are expected",
        )),
    }
}

/// Reads a date in the future. Null and a date after `latest` are replaced by `latest` (RFC 8620
/// §7.2).
fn expires(value: &Value, now: UtcMillis, latest: UtcMillis) -> Result<UtcMillis, SetError> {
    if value.is_null() {
        return Ok(latest);
    }
    let at = utc_date("expires", value).ok().filter(|at| *at > now);
    let at =
        at.ok_or_else(|| SetError::property("expires", "a UTCDate in the future is expected"))?;
    Ok(at.min(latest))
}

/// Reads the names of the types whose changes are pushed, which need not be known. Null stands for
/// all types.
fn types(value: &Value) -> Result<Option<Vec<String>>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let all = value.as_array().filter(|all| all.len() <= MAX_TYPES);
    let names: Option<Vec<String>> = all.and_then(|all| {
        all.iter()
            .map(|one| one.as_str().filter(|name| name.len() <= MAX_NAME_BYTES).map(str::to_owned))
            .collect()
    });
    names.map(Some).ok_or_else(|| {
        SetError::property("types", "an array of up to 64 names of types, or null, is expected")
    })
}

#[cfg(test)]
mod tests;
