//! Tests of creating, verifying and bounding push subscriptions, of who sees them, and of when they
//! expire.

use std::sync::Arc;

use serde_json::{Map, json};

use super::*;
use crate::jmap::Caller;
use crate::jmap::subscription_times::{HOUR, MAX_CREATED_PER_HOUR, SubscriptionTimes};
use crate::jmap::tests::{call, context, error};
use crate::model::MonotonicMillis;

#[test]
fn only_the_credential_that_created_a_subscription_sees_verifies_and_destroys_it() {
    let mut context = context();
    let ann = context.directory.find_account("ann@example.org").unwrap().unwrap().0;
    let caller = |name: &str| Caller {
        account: Some(ann),
        credential: Some(name.into()),
        ..Caller::default()
    };
    context.caller = caller("one");
    let set =
        |context: &Context, arguments: Value| call(context, "PushSubscription/set", &arguments).1;
    let get =
        |context: &Context, arguments: Value| call(context, "PushSubscription/get", &arguments).1;
    let p256dh =
        "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";
    let keys = json!({"p256dh": p256dh, "auth": "BTBZMqHH6r4Tts7J_aSIgg"});
    let good = json!({
        "deviceClientId": "a",
        "url": "https://push.example.com/x",
        "keys": keys,
        "types": ["Email"],
    });
    let with = |name: &str, value: Value| {
        let mut one = good.clone();
        one[name] = value;
        one
    };
    let made = set(
        &context,
        json!({"create": {
            "good": good,
            "far": with("expires", json!("2100-01-01T00:00:00Z")),
            "http": with("url", json!("http://push.example.com/")),
            "user": with("url", json!("https://a@b/")),
            "port": with("url", json!("https://:443/x")),
            "code": with("verificationCode", json!("x")),
            "past": with("expires", json!("2020-01-01T00:00:00Z")),
            "keys": with("keys", json!({"p256dh": "AAAA", "auth": "AAAA"})),
            "none": {"url": "https://x/"},
        }}),
    );
    for name in ["http", "user", "port", "code", "past", "keys", "none"] {
        assert_eq!(made["notCreated"][name]["type"], "invalidProperties", "{name}: {made}");
    }
    assert_eq!(made["notCreated"]["none"]["properties"], json!(["deviceClientId"]), "{made}");
    // 7 days (`MAX_LIFETIME`) after the time of `context`.
    assert_eq!(made["created"]["far"]["expires"], "2026-11-28T09:00:00Z");
    let id = made["created"]["good"]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        get(&context, json!({"ids": [id]})),
        json!({"notFound": [], "list": [{
            "id": id,
            "deviceClientId": "a",
            "verificationCode": null,
            "expires": "2026-11-28T09:00:00Z",
            "types": ["Email"],
        }]})
    );
    assert_eq!(
        error(&context, "PushSubscription/get", &json!({"properties": ["url"]})),
        "forbidden"
    );
    assert_eq!(
        error(&context, "PushSubscription/get", &json!({"properties": ["nothing"]})),
        "invalidArguments"
    );

    // A client may send back all properties unchanged, also before it verified the subscription.
    let whole = get(&context, json!({"ids": [id]}))["list"][0].clone();
    assert_eq!(
        set(&context, json!({"update": {id.clone(): whole}}))["updated"],
        json!({id.clone(): null})
    );

    // Only the code that was sent verifies the subscription.
    let key: ObjectId = id.parse().unwrap();
    let row = || context.store.snapshot().object::<PushSubscription>(ann, key).unwrap().unwrap();
    let code = row().code;
    let update = |patch: Value| set(&context, json!({"update": {id.clone(): patch}}));
    assert_eq!(
        update(json!({"verificationCode": "wrong"}))["notUpdated"][&id]["type"],
        "invalidProperties"
    );
    assert!(!row().is_verified);
    assert_eq!(update(json!({"verificationCode": code}))["updated"], json!({id.clone(): null}));
    assert!(row().is_verified);
    assert_eq!(update(json!({"expires": null}))["updated"][&id]["expires"], "2026-11-28T09:00:00Z");
    for patch in [
        json!({"url": "https://other.example/"}),
        json!({"keys": null}),
        json!({"deviceClientId": "b"}),
    ] {
        assert_eq!(update(patch)["notUpdated"][&id]["type"], "invalidProperties");
    }

    // Another credential of the same account does not see the subscription.
    let other = Context { caller: caller("two"), ..context.clone() };
    assert_eq!(get(&other, json!({"ids": null}))["list"], json!([]));
    let verify = json!({"update": {id.clone(): {"verificationCode": code}}});
    assert_eq!(set(&other, verify)["notUpdated"][&id]["type"], "notFound");
    assert_eq!(set(&other, json!({"destroy": [id]}))["notDestroyed"][&id]["type"], "notFound");
    // An id that is given twice is destroyed once, and not updated before.
    let destroyed = set(&context, json!({"update": {&id: {}}, "destroy": [id, id]}));
    assert_eq!(destroyed["destroyed"], json!([id]));
    assert_eq!((&destroyed["notDestroyed"], &destroyed["updated"]), (&Value::Null, &Value::Null));
    assert_eq!(destroyed["notUpdated"][&id]["type"], "willDestroy");
    assert_eq!(get(&context, json!({"ids": null}))["list"].as_array().unwrap().len(), 1);
}

/// RFC 8620 §8.6.
#[test]
fn subscriptions_of_a_user_are_bounded_in_number_and_rate() {
    let mut context = context();
    let ann = context.directory.find_account("ann@example.org").unwrap().unwrap().0;
    context.caller =
        Caller { account: Some(ann), credential: Some("one".into()), ..Caller::default() };
    let one = json!({"deviceClientId": "a", "url": "https://push.example.com/x"});
    let create = |count: usize| {
        let all: Map<String, Value> =
            (0..count).map(|n| (format!("s{n:02}"), one.clone())).collect();
        call(&context, "PushSubscription/set", &json!({"create": all})).1
    };
    let made = create(limits::MAX_PUSH_SUBSCRIPTIONS + 1);
    assert_eq!(made["created"]["s00"]["types"], Value::Null);
    let kinds = |answer: &Value| -> Vec<String> {
        let refused = answer["notCreated"].as_object().into_iter().flatten();
        refused.map(|(_, error)| error["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&made), ["overQuota"]);
    let ids: Vec<Value> =
        made["created"].as_object().unwrap().values().map(|one| one["id"].clone()).collect();
    call(&context, "PushSubscription/set", &json!({"destroy": ids}));
    // One too many, because the subscription that was over quota counts, too.
    let again = create(MAX_CREATED_PER_HOUR - limits::MAX_PUSH_SUBSCRIPTIONS);
    assert_eq!(kinds(&again), ["rateLimit"]);
    let (times, now) = (SubscriptionTimes::default(), MonotonicMillis(1_000_000_000));
    assert!(
        (0..MAX_CREATED_PER_HOUR).all(|_| times.record(ann, now).is_ok())
            && times.record(ann, now).is_err()
    );
    assert!(times.record(AccountId(99), now).is_ok());
    assert!(times.record(ann, now.after(HOUR)).is_ok());
}

/// RFC 8620 §7.2.
#[test]
fn subscription_expires_with_the_token_that_created_it() {
    let mut context = context();
    let ann = context.directory.find_account("ann@example.org").unwrap().unwrap().0;
    let (_, added) = call(
        &context,
        "Account/tokenAdd",
        &json!({"account": "ann@example.org", "name": "phone", "expires": "2027-06-01T00:00:00Z"}),
    );
    let login =
        crate::account::Logins::new(context.directory.clone(), Arc::clone(context.store.clock()))
            .unwrap();
    let login = login
        .log_in_with_token(added["token"].as_str().unwrap_or_else(|| panic!("{added}")))
        .unwrap()
        .unwrap();
    context.caller =
        Caller { account: Some(ann), credential: Some(login.credential), ..Caller::default() };
    let of = |expires: Value| {
        let one =
            json!({"deviceClientId": "a", "url": "https://push.example.com/x", "expires": expires});
        let (_, made) = call(&context, "PushSubscription/set", &json!({"create": {"s": one}}));
        made["created"]["s"]["expires"].clone()
    };
    assert_eq!(of(Value::Null), "2027-06-01T00:00:00Z");
    assert_eq!(of(json!("2027-01-01T00:00:00Z")), "2027-01-01T00:00:00Z");
    assert_eq!(of(json!("2028-01-01T00:00:00Z")), "2027-06-01T00:00:00Z");
}
