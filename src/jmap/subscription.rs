//! `PushSubscription` (RFC 8620 §7.2): where a client wants to hear of changes. It is no account's and has no state: it is the
//! user's, and of the very password or token that he made it with; it is gone when that is.
//!
//! Nothing but a code is sent to a URL before the client gave that code back, and few are made in an hour: so nobody can
//! have others flooded (§8.6).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::context::{Args, Context};
use super::failure::{SetFailure, TxnResult};
use super::standard::value::utc_date;
use super::standard::{GetArguments, InvalidProperties, SetResponse};
use crate::model::{AccountId, MonotonicMillis, ObjectId, PushKeys, PushSubscription, UtcMillis, limits};
use crate::store::{Error, Txn};
use crate::wire::jmap::json::members;
use crate::wire::jmap::{MethodError, Patch, SetError};

/// What /get gives; `url` and `keys` are never given back (RFC 8620 §7.2.1).
const PROPERTIES: [&str; 5] = ["id", "deviceClientId", "verificationCode", "expires", "types"];
/// The longest that a subscription lives without being renewed (§7.2: at least 48 hours, and better a week). One that was
/// made by a token that ends lives as long as that.
const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many a user makes in an hour.
const MAX_CREATED_PER_HOUR: usize = 60;
const HOUR: Duration = Duration::from_secs(3600);
/// Octets of a URL, of an id of a device, and types that are named.
const MAX_URL_BYTES: usize = 2048;
const MAX_DEVICE_ID_BYTES: usize = 255;
const MAX_TYPES: usize = 64;

/// When each user's subscriptions of the last hour were made, those that are gone too. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SubscriptionTimes(Arc<Mutex<BTreeMap<AccountId, VecDeque<MonotonicMillis>>>>);

impl SubscriptionTimes {
    /// Takes note of one more.
    ///
    /// # Errors
    /// `rateLimit` where there are as many as may be.
    fn take(&self, account: AccountId, now: MonotonicMillis) -> Result<(), SetError> {
        let mut all = self.0.lock();
        let of_late = |at: &MonotonicMillis| now.since(*at) < HOUR;
        all.retain(|_, made| made.back().is_some_and(of_late));
        let made = all.entry(account).or_default();
        while made.front().is_some_and(|at| !of_late(at)) {
            made.pop_front();
        }
        if made.len() >= MAX_CREATED_PER_HOUR {
            return Err(SetError::RateLimit(format!("{MAX_CREATED_PER_HOUR} subscriptions may be made in an hour")));
        }
        made.push_back(now);
        Ok(())
    }
}

/// Whose subscriptions they are: the account that logged in, or the first that is mapped to who asks; and by what.
fn mine(context: &Context) -> Result<(AccountId, Option<String>), MethodError> {
    let own = context.accounts()?.into_iter().next();
    let (account, _) = own.ok_or_else(|| MethodError::Forbidden("subscriptions belong to an account".into()))?;
    Ok((account, context.caller.credential.clone()))
}

/// PushSubscription/get (§7.2.1).
pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, credential) = mine(context)?;
    let get = GetArguments::read(arguments)?;
    if get.properties.iter().flatten().any(|name| ["url", "keys"].contains(&name.as_str())) {
        return Err(MethodError::Forbidden("url and keys are not given back".into()));
    }
    let get = GetArguments::of(arguments, &PROPERTIES)?;
    let all = context.store.view().objects::<PushSubscription>(account)?;
    let now = context.store.clock().now();
    let all: Vec<_> = all.into_iter().filter(|(_, one)| one.credential == credential && now < one.expires).collect();
    let ids = || all.iter().map(|(id, _)| id.to_string()).collect();
    let answer = get.answer(context, account, "", ids, |id| {
        Ok(all.iter().find(|(known, _)| known.to_string() == id).map(|(id, one)| object(*id, one)))
    })?;
    // It is neither an account's nor has it a state.
    Ok(json!({"list": answer["list"], "notFound": answer["notFound"]}))
}

fn object(id: ObjectId, one: &PushSubscription) -> Map<String, Value> {
    let code = one.is_verified.then_some(&one.code);
    members(json!({
        "id": id.to_string(), "deviceClientId": one.device_client_id, "verificationCode": code,
        "expires": one.expires.rfc3339(), "types": one.types,
    }))
}

/// PushSubscription/set (§7.2.2).
pub(super) fn set(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, credential) = mine(context)?;
    let (create, update) = (arguments.objects("create")?, arguments.objects("update")?);
    let destroy = arguments.texts("destroy")?;
    if create.len() + update.len() + destroy.len() > limits::OBJECTS_IN_SET {
        return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
    }
    let resolve = |id: &str| arguments.created().resolve(id).and_then(|id| id.parse::<ObjectId>().ok());
    let now = context.store.clock().now();
    let expires = credential.as_ref().map(|credential| context.directory.expires(account, credential)).transpose();
    let most = expires?.flatten().unwrap_or_else(|| now.after(MAX_LIFETIME));
    let codes: Result<Vec<String>, MethodError> = create.iter().map(|_| Ok(code()?)).collect();
    let codes = codes?;
    let wished: Vec<Result<PushSubscription, SetError>> = create
        .iter()
        .zip(codes)
        .map(|((_, properties), code)| {
            let one = made(properties, now, most)?;
            context.pushes.take(account, context.store.clock().steady())?;
            Ok(PushSubscription { code, credential: credential.clone(), ..one })
        })
        .collect();
    let known = arguments.created().known();
    let committed = context.store.commit(account, |txn| {
        arguments.created().reset(&known);
        let mut done = SetResponse::default();
        for ((name, properties), wished) in create.iter().zip(&wished) {
            let mut create = || {
                let one = wished.as_ref().map_err(Clone::clone)?;
                Ok::<_, SetFailure<Error>>(told(txn.create_object(one)?, one, properties))
            };
            let created = create();
            done.create(arguments.created(), name, created)?;
        }
        for (name, patch) in &update {
            let patch = Value::Object(patch.clone());
            let found = found(txn, account, resolve(name), credential.as_ref(), now)?;
            done.update(name, changed(txn, found, &patch, (now, most)))?;
        }
        for name in &destroy {
            let gone = match found(txn, account, resolve(name), credential.as_ref(), now)? {
                Some((id, _)) => txn.destroy_object::<PushSubscription>(id).map(drop).map_err(SetFailure::Call),
                None => Err(SetError::NotFound.into()),
            };
            done.destroy(name, gone)?;
        }
        Ok(done)
    });
    let (done, ticket) = committed?;
    ticket.wait_blocking()?;
    Ok(Value::Object(done.outcomes()))
}

/// What the client does not know of one that it made.
fn told(id: ObjectId, one: &PushSubscription, given: &Map<String, Value>) -> Map<String, Value> {
    let mut told = members(json!({"id": id.to_string(), "expires": one.expires.rfc3339()}));
    for name in ["keys", "types"].into_iter().filter(|name| !given.contains_key(*name)) {
        told.insert(name.into(), Value::Null);
    }
    told
}

/// What nobody can guess.
fn code() -> Result<String, Error> {
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(|error| Error::Io(format!("no randomness for a code: {error}")))?;
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
    let one = txn.view().object::<PushSubscription>(account, id)?;
    Ok(one.filter(|one| one.credential.as_ref() == credential && now < one.expires).map(|one| (id, one)))
}

fn made(properties: &Map<String, Value>, now: UtcMillis, most: UtcMillis) -> Result<PushSubscription, SetError> {
    let (mut one, mut wrong) =
        (PushSubscription { expires: most, ..PushSubscription::default() }, InvalidProperties::default());
    for (name, value) in properties {
        match name.as_str() {
            "deviceClientId" => {
                let text = value.as_str().filter(|text| !text.is_empty() && text.len() <= MAX_DEVICE_ID_BYTES);
                match text {
                    Some(text) => text.clone_into(&mut one.device_client_id),
                    None => wrong.add(name, "a text of 1 to 255 octets is wanted"),
                }
            }
            "url" => one.url = wrong.note(url(value))?.unwrap_or_default(),
            "keys" => one.keys = wrong.note(keys(value))?.flatten(),
            "verificationCode" if value.is_null() => {}
            "verificationCode" => wrong.add(name, "it is sent to the URL first"),
            "expires" => one.expires = wrong.note(expires(value, now, most))?.unwrap_or_default(),
            "types" => one.types = wrong.note(types(value))?.flatten(),
            _ => wrong.add(name, "no such property"),
        }
    }
    for name in ["deviceClientId", "url"].into_iter().filter(|name| !properties.contains_key(*name)) {
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
) -> TxnResult<Map<String, Value>> {
    let (id, old) = found.ok_or(SetError::NotFound)?;
    let new = patched(id, &old, patch, times)?;
    let asked = patch.get("expires").and_then(Value::as_str).and_then(UtcMillis::parse_rfc3339);
    let mut also = Map::new();
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
    let before = object(id, old);
    let (mut one, mut wrong) = (old.clone(), InvalidProperties::default());
    for (name, value) in Patch::wishes(patch, &before)? {
        match name.as_str() {
            "expires" => one.expires = wrong.note(expires(&value, now, most))?.unwrap_or_default(),
            // The whole may be sent back as it is (RFC 8620 §5.3).
            _ if before.get(&name) == Some(&value) => {}
            "verificationCode" if value.as_str() == Some(&old.code) => one.is_verified = true,
            "verificationCode" => wrong.add(name, "not the code that was sent"),
            "types" => one.types = wrong.note(types(&value))?.flatten(),
            "id" | "deviceClientId" | "url" | "keys" => wrong.add(name, "it cannot be changed"),
            _ => wrong.add(name, "no such property"),
        }
    }
    wrong.finish()?;
    Ok(one)
}

/// `https:` and a host (§7.2: MUST begin with "https://").
fn url(value: &Value) -> Result<String, SetError> {
    let text = value.as_str().filter(|text| text.len() <= MAX_URL_BYTES).unwrap_or_default();
    let host = text.strip_prefix("https://").map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let good = host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
        && text.bytes().all(|octet| octet.is_ascii_graphic());
    if good { Ok(text.to_owned()) } else { Err(SetError::property("url", "a URL that begins with https:// is wanted")) }
}

/// `p256dh`: an uncompressed point of P-256; `auth`: 16 octets; both in base64url (RFC 8291 §2.1, §3.2).
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
        _ => {
            Err(SetError::property("keys", "p256dh (a point of P-256) and auth (16 octets), in base64url, are wanted"))
        }
    }
}

/// A date to come; one that is too far away is brought nearer (§7.2).
fn expires(value: &Value, now: UtcMillis, most: UtcMillis) -> Result<UtcMillis, SetError> {
    if value.is_null() {
        return Ok(most);
    }
    let at = utc_date("expires", value).ok().filter(|at| *at > now);
    let at = at.ok_or_else(|| SetError::property("expires", "a UTC date that is to come is wanted"))?;
    Ok(at.min(most))
}

fn types(value: &Value) -> Result<Option<Vec<String>>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let all = value.as_array().filter(|all| all.len() <= MAX_TYPES);
    let names: Option<Vec<String>> = all.and_then(|all| {
        all.iter().map(|one| one.as_str().filter(|name| name.len() <= MAX_DEVICE_ID_BYTES).map(str::to_owned)).collect()
    });
    names.map(Some).ok_or_else(|| SetError::property("types", "an array of names of types, or null, is wanted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jmap::Caller;
    use crate::jmap::tests::{call, context, error};

    #[test]
    fn a_subscription_is_made_verified_and_its_credentials_alone() {
        let mut context = context();
        let ann = context.directory.find_account("ann@example.org").unwrap().unwrap().0;
        let caller = |name: &str| Caller { account: Some(ann), credential: Some(name.into()), ..Caller::default() };
        context.caller = caller("one");
        let set = |context: &Context, arguments: Value| call(context, "PushSubscription/set", &arguments).1;
        let get = |context: &Context, arguments: Value| call(context, "PushSubscription/get", &arguments).1;
        let p256dh = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";
        let keys = json!({"p256dh": p256dh, "auth": "BTBZMqHH6r4Tts7J_aSIgg"});
        let good =
            json!({"deviceClientId": "a", "url": "https://push.example.com/x", "keys": keys, "types": ["Email"]});
        let with = |name: &str, value: Value| {
            let mut one = good.clone();
            one[name] = value;
            one
        };
        let made = set(
            &context,
            json!({"create": {
                "good": good, "far": with("expires", json!("2100-01-01T00:00:00Z")),
                "http": with("url", json!("http://push.example.com/")), "user": with("url", json!("https://a@b/")),
                "code": with("verificationCode", json!("x")), "past": with("expires", json!("2020-01-01T00:00:00Z")),
                "keys": with("keys", json!({"p256dh": "AAAA", "auth": "AAAA"})), "none": {"url": "https://x/"},
            }}),
        );
        for name in ["http", "user", "code", "past", "keys", "none"] {
            assert_eq!(made["notCreated"][name]["type"], "invalidProperties", "{name}: {made}");
        }
        assert_eq!(made["notCreated"]["none"]["properties"], json!(["deviceClientId"]), "{made}");
        assert_eq!(made["created"]["far"]["expires"], "2026-11-28T09:00:00Z");
        let id = made["created"]["good"]["id"].as_str().unwrap().to_owned();
        assert_eq!(
            get(&context, json!({"ids": [id]})),
            json!({"notFound": [], "list": [{
                "id": id, "deviceClientId": "a", "verificationCode": null, "expires": "2026-11-28T09:00:00Z", "types": ["Email"],
            }]})
        );
        assert_eq!(error(&context, "PushSubscription/get", &json!({"properties": ["url"]})), "forbidden");
        assert_eq!(error(&context, "PushSubscription/get", &json!({"properties": ["nothing"]})), "invalidArguments");

        // The whole may be sent back, before it is verified too.
        let whole = get(&context, json!({"ids": [id]}))["list"][0].clone();
        assert_eq!(set(&context, json!({"update": {id.clone(): whole}}))["updated"], json!({id.clone(): null}));

        // The code that was sent, and no other.
        let key: ObjectId = id.parse().unwrap();
        let row = || context.store.view().object::<PushSubscription>(ann, key).unwrap().unwrap();
        let code = row().code;
        let update = |patch: Value| set(&context, json!({"update": {id.clone(): patch}}));
        assert_eq!(update(json!({"verificationCode": "wrong"}))["notUpdated"][&id]["type"], "invalidProperties");
        assert!(!row().is_verified);
        assert_eq!(update(json!({"verificationCode": code}))["updated"], json!({id.clone(): null}));
        assert!(row().is_verified);
        assert_eq!(update(json!({"expires": null}))["updated"][&id]["expires"], "2026-11-28T09:00:00Z");
        for patch in [json!({"url": "https://other.example/"}), json!({"keys": null}), json!({"deviceClientId": "b"})] {
            assert_eq!(update(patch)["notUpdated"][&id]["type"], "invalidProperties");
        }

        // Another credential of the same account has none of it.
        let other = Context { caller: caller("two"), ..context.clone() };
        assert_eq!(get(&other, json!({"ids": null}))["list"], json!([]));
        assert_eq!(set(&other, json!({"destroy": [id]}))["notDestroyed"][&id]["type"], "notFound");
        assert_eq!(set(&context, json!({"destroy": [id]}))["destroyed"], json!([id]));
        assert_eq!(get(&context, json!({"ids": null}))["list"].as_array().unwrap().len(), 1);
    }

    /// RFC 8620 §8.6: how many there are is bounded, and how many are made in a time.
    #[test]
    fn subscriptions_are_few_and_are_not_made_fast() {
        let mut context = context();
        let ann = context.directory.find_account("ann@example.org").unwrap().unwrap().0;
        context.caller = Caller { account: Some(ann), credential: Some("one".into()), ..Caller::default() };
        let one = json!({"deviceClientId": "a", "url": "https://push.example.com/x"});
        let create = |count: usize| {
            let all: Map<String, Value> = (0..count).map(|n| (format!("s{n:02}"), one.clone())).collect();
            call(&context, "PushSubscription/set", &json!({"create": all})).1
        };
        let made = create(limits::PUSH_SUBSCRIPTIONS + 1);
        assert_eq!(made["created"]["s00"]["types"], Value::Null);
        let kinds = |answer: &Value| -> Vec<String> {
            let refused = answer["notCreated"].as_object().into_iter().flatten();
            refused.map(|(_, error)| error["type"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(kinds(&made), ["overQuota"]);
        let ids: Vec<Value> = made["created"].as_object().unwrap().values().map(|one| one["id"].clone()).collect();
        call(&context, "PushSubscription/set", &json!({"destroy": ids}));
        let again = create(MAX_CREATED_PER_HOUR - limits::PUSH_SUBSCRIPTIONS);
        assert_eq!(kinds(&again), ["rateLimit"]);
        let (made, now) = (SubscriptionTimes::default(), MonotonicMillis(1_000_000_000));
        assert!((0..MAX_CREATED_PER_HOUR).all(|_| made.take(ann, now).is_ok()) && made.take(ann, now).is_err());
        assert!(made.take(AccountId(99), now).is_ok());
        assert!(made.take(ann, now.after(HOUR)).is_ok());
    }

    /// RFC 8620 §7.2: of credentials that end by themselves the subscription lives as long, and no shorter.
    #[test]
    fn a_subscription_lives_as_long_as_the_token_that_made_it() {
        let mut context = context();
        let ann = context.directory.find_account("ann@example.org").unwrap().unwrap().0;
        let (_, added) = call(
            &context,
            "Account/tokenAdd",
            &json!({"account": "ann@example.org", "name": "phone", "expires": "2027-06-01T00:00:00Z"}),
        );
        let login = crate::account::Logins::new(context.directory.clone(), Arc::clone(context.store.clock())).unwrap();
        let login =
            login.log_in_with_token(added["token"].as_str().unwrap_or_else(|| panic!("{added}"))).unwrap().unwrap();
        context.caller = Caller { account: Some(ann), credential: Some(login.credential), ..Caller::default() };
        let of = |expires: Value| {
            let one = json!({"deviceClientId": "a", "url": "https://push.example.com/x", "expires": expires});
            let (_, made) = call(&context, "PushSubscription/set", &json!({"create": {"s": one}}));
            made["created"]["s"]["expires"].clone()
        };
        assert_eq!(of(Value::Null), "2027-06-01T00:00:00Z");
        assert_eq!(of(json!("2027-01-01T00:00:00Z")), "2027-01-01T00:00:00Z");
        assert_eq!(of(json!("2028-01-01T00:00:00Z")), "2027-06-01T00:00:00Z");
    }
}
