//! Principals, share notifications, and push for guests.

use serde_json::{Value, json};

use super::{SharingFixture, ids};
use crate::jmap::tests::{call, error, filed};
use crate::jmap::{CAPABILITIES, ObservedAccount, PushState, run};
use crate::model::AccountId;
use crate::wire::jmap::parse;

#[test]
fn owner_shares_only_with_known_principals() {
    let bed = SharingFixture::new();
    let far =
        crate::account::NewAccount::at(crate::model::Address::parse("far@example.net").unwrap());
    let far = bed.context.directory.add(&far).unwrap().to_string();
    let ann = bed.asks(&bed.ann);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = bed.ann.clone().into();
        call(&ann, name, &arguments)
    };
    let all = ask("Principal/get", json!({})).1;
    assert_eq!(ids(&all), [bed.ann.clone(), bed.bob.clone()], "not those of other domains");
    let (me, other) = (&all["list"][0], &all["list"][1]);
    assert_eq!(
        (&other["type"], &other["email"], &other["accounts"]),
        (&json!("individual"), &json!("bob@example.org"), &Value::Null)
    );
    assert_eq!(me["accounts"][&bed.ann]["isPersonal"], true);
    assert_eq!(ask("Principal/get", json!({"ids": [far]})).1["notFound"], json!([far]));
    for (filter, count) in [
        (json!({"email": "BOB@"}), 1),
        (json!({"text": "example.org"}), 2),
        (json!({"name": "ann"}), 1),
        (json!({"type": "group"}), 0),
        (json!({"accountIds": [bed.ann]}), 1),
        (json!({"accountIds": [bed.bob]}), 0),
        (json!({"timeZone": "Europe/Vienna"}), 0),
    ] {
        let found = ask("Principal/query", json!({"filter": filter})).1;
        assert_eq!(found["ids"].as_array().unwrap().len(), count, "{filter}");
        assert_eq!(found["canCalculateChanges"], false);
    }
    let set = json!({"create": {"x": {"name": "x"}}, "update": {&bed.bob: {"name": "x"}, &far: {}},
        "destroy": [bed.ann]});
    let refused = ask("Principal/set", set).1;
    assert_eq!(
        (&refused["notCreated"]["x"]["type"], &refused["notUpdated"][&bed.bob]["type"]),
        (&json!("forbidden"), &json!("forbidden"))
    );
    assert_eq!(
        (&refused["notUpdated"][&far]["type"], &refused["notDestroyed"][&bed.ann]["type"]),
        (&json!("notFound"), &json!("forbidden"))
    );
    let state = &all["state"];
    assert_eq!(ask("Principal/changes", json!({"sinceState": state})).1["updated"], json!([]));
    bed.context
        .directory
        .update(bed.bob.parse().unwrap(), |row| row.display_name = Some("Robert".into()))
        .unwrap();
    assert_eq!(
        ask("Principal/changes", json!({"sinceState": state})).1["type"],
        "cannotCalculateChanges"
    );

    let share =
        |with: Value| ask("Mailbox/set", json!({"update": {&bed.plans: {"shareWith": with}}})).1;
    for invalid in [
        json!({&bed.ann: {"mayReadItems": true}}),
        json!({&far: {"mayReadItems": true}}),
        json!({"nobody": {"mayReadItems": true}}),
        json!({&bed.bob: {"mayFly": true}}),
        json!({&bed.bob: {"mayReadItems": 1}}),
        json!({&bed.bob: true}),
        json!([]),
    ] {
        let refused = &share(invalid.clone())["notUpdated"][&bed.plans];
        assert_eq!(
            (&refused["type"], &refused["properties"]),
            (&json!("invalidProperties"), &json!(["shareWith"])),
            "{invalid}"
        );
    }
    // A principal without rights is left out, and the answer shows the value if it differs from the
    // one that was sent.
    let answer = share(json!({&bed.bob: {"mayReadItems": false}}));
    assert_eq!(answer["updated"], json!({&bed.plans: {"shareWith": null}}));
    let answer = share(json!({&bed.bob: {"mayReadItems": true}}));
    assert_eq!(answer["updated"][&bed.plans]["shareWith"][&bed.bob]["maySubmit"], false);
    let patch = json!({format!("shareWith/{}/maySetSeen", bed.bob): true});
    assert_eq!(
        ask("Mailbox/set", json!({"update": {&bed.plans: patch}})).1["updated"],
        json!({&bed.plans: null})
    );
    assert_eq!(
        bed.bob("Mailbox/get", json!({"ids": [bed.plans]}))["list"][0]["myRights"]["maySetSeen"],
        true
    );
    assert!(
        ask("Principal/get", json!({})).1["list"][1]["accounts"].is_null(),
        "Bob shares nothing with Ann"
    );
    // A request that does not use the capability gets none of its properties (RFC 8620 §3.3).
    let using = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"];
    let request = json!({"using": using, "methodCalls": [
        ["Mailbox/get", {"accountId": bed.ann}, "0"],
        ["Mailbox/get", {"accountId": bed.ann, "properties": ["shareWith"]}, "1"],
        ["Mailbox/set", {"accountId": bed.ann, "update": {&bed.plans: {"shareWith": null}},
            "create": {"c": {"name": "c"}}}, "2"],
    ]});
    let answer =
        run(&ann, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).unwrap().json();
    let answer = &answer["methodResponses"];
    assert!(
        answer[0][1]["list"][0].get("shareWith").is_none()
            && answer[0][1]["list"][0].get("name").is_some()
    );
    assert_eq!(answer[1][1]["type"], "invalidArguments");
    assert_eq!(answer[2][1]["notUpdated"][&bed.plans]["type"], "invalidProperties");
    assert!(answer[2][1]["created"]["c"].get("shareWith").is_none());
}

#[test]
fn share_notification_is_kept_once_per_mailbox() {
    let bed = SharingFixture::new();
    let bob = bed.asks(&bed.bob);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = bed.bob.clone().into();
        let (kind, answer) = call(&bob, name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    };
    let notifications = || ask("ShareNotification/get", json!({}));
    let state = notifications()["state"].clone();
    bed.open(&bed.plans, &["mayReadItems"]);
    let all = notifications();
    let one = &all["list"][0];
    assert_eq!(
        one["changedBy"],
        json!({"name": "ann@example.org", "email": "ann@example.org", "principalId": bed.ann})
    );
    assert_eq!(
        (&one["objectType"], &one["objectAccountId"], &one["objectId"]),
        (&json!("Mailbox"), &json!(bed.ann), &json!(bed.plans))
    );
    assert_eq!(
        (&one["name"], &one["oldRights"], &one["newRights"]["mayReadItems"]),
        (&json!("Plans"), &Value::Null, &json!(true))
    );
    assert_eq!(one["created"], "2026-11-21T09:00:00Z");
    assert_eq!(
        ask("ShareNotification/changes", json!({"sinceState": state}))["created"],
        json!(ids(&all))
    );
    // A later change of the same mailbox is merged into the notification, and removes it if the
    // rights are as before.
    bed.open(&bed.plans, &["mayReadItems", "maySetSeen"]);
    let next = notifications();
    let next = next["list"].as_array().unwrap();
    assert_eq!(
        (next.len(), &next[0]["oldRights"], &next[0]["newRights"]["maySetSeen"]),
        (1, &Value::Null, &json!(true))
    );
    bed.close(&bed.plans);
    assert_eq!(notifications()["list"], json!([]));
    // A notification that the user destroyed is not merged with later ones.
    bed.open(&bed.work, &["mayReadItems", "mayDelete"]);
    let first = ids(&notifications())[0].clone();
    let refused = ask(
        "ShareNotification/set",
        json!({"create": {"c": {}}, "update": {&first: {"name": "x"}, "o1": {}}}),
    );
    assert_eq!(refused["notCreated"]["c"]["type"], "forbidden");
    assert_eq!(
        (&refused["notUpdated"][&first]["type"], &refused["notUpdated"]["o1"]["type"]),
        (&json!("forbidden"), &json!("notFound"))
    );
    let query = ask("ShareNotification/query", json!({"sort": [{"property": "created"}]}));
    assert_eq!(query["ids"], json!([first]));
    assert_eq!(
        ask("ShareNotification/set", json!({"destroy": [first, "o1"]}))["destroyed"],
        json!([first])
    );
    let moved =
        ask("ShareNotification/queryChanges", json!({"sinceQueryState": query["queryState"]}));
    assert_eq!(moved["removed"], json!([first]));
    // A change by the command line, whose user has no account.
    let change = json!({"account": bed.ann, "mailbox": "Work",
        "shareWith": {"bob@example.org": "mayReadItems,maySetSeen"}});
    let done = call(&bed.context, "Mailbox/change", &change).1;
    assert_eq!(
        done["shareWith"],
        json!({"bob@example.org": ["mayReadItems", "maySetSeen"]}),
        "{done}"
    );
    let last = notifications()["list"][0].clone();
    assert_eq!(last["changedBy"], json!({"name": "root", "email": null, "principalId": null}));
    assert_eq!(
        (&last["oldRights"]["mayDelete"], &last["newRights"]["mayDelete"]),
        (&json!(true), &json!(false))
    );
    for (filter, count) in [
        (json!({"objectType": "Mailbox", "objectAccountId": bed.ann}), 1),
        (json!({"objectAccountId": bed.bob}), 0),
        (json!({"objectType": "Calendar"}), 0),
        (json!({"after": "2026-11-21T09:00:00Z", "before": null}), 1),
        (json!({"before": "2026-11-21T09:00:00Z"}), 0),
    ] {
        let found = ask("ShareNotification/query", json!({"filter": filter}));
        assert_eq!(found["ids"].as_array().unwrap().len(), count, "{filter}");
    }
    for invalid in [
        json!({"nobody": "mayReadItems"}),
        json!({"bob@example.org": "mayFly"}),
        json!({"ann@example.org": "mayReadItems"}),
    ] {
        let change = json!({"account": bed.ann, "mailbox": "Work", "shareWith": invalid});
        assert_eq!(error(&bed.context, "Mailbox/change", &change), "invalidArguments", "{invalid}");
    }
    // Destroying a mailbox ends its shares.
    call(
        &bed.context,
        "Mailbox/set",
        &json!({"accountId": bed.ann, "destroy": [bed.plans], "onDestroyRemoveEmails": true}),
    );
    let gone =
        call(&bed.context, "Mailbox/set", &json!({"accountId": bed.ann, "destroy": [bed.work]})).1;
    assert_eq!(gone["destroyed"], json!([bed.work]), "{gone}");
    let last = notifications()["list"][0].clone();
    assert_eq!(
        (&last["name"], &last["newRights"], &last["oldRights"]["mayDelete"]),
        (&json!("Work"), &Value::Null, &json!(true))
    );
    // The number of notifications is bounded to 500: the oldest are dropped.
    let account: AccountId = bed.bob.parse().unwrap();
    let made: Vec<String> = (0..510)
        .map(|n| {
            let notification = crate::model::ShareNotification {
                mailbox: crate::model::MailboxUid(1000 + n),
                new: 1,
                ..Default::default()
            };
            bed.context
                .store
                .commit(account, |txn| txn.add_share_notification(&notification))
                .unwrap()
                .1
                .wait_blocking()
                .unwrap();
            crate::model::MailboxUid(1000 + n).to_string()
        })
        .collect();
    let all = notifications();
    let all: Vec<&str> = all["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["objectId"].as_str().unwrap())
        .collect();
    assert_eq!((all.len(), all.last()), (500, made.last().map(String::as_str).as_ref()));
    assert!(!all.contains(&made[0].as_str()) && all.contains(&made[10].as_str()));
    assert_eq!(bed.context.store.check().unwrap(), []);
}

#[test]
fn guest_is_notified_of_all_mail_but_not_of_the_vacation() {
    let bed = SharingFixture::new();
    let followed = || -> Vec<ObservedAccount> {
        bed.asks(&bed.bob)
            .accessible_accounts()
            .unwrap()
            .iter()
            .map(ObservedAccount::from)
            .collect()
    };
    let store = &bed.context.store;
    let mut known = PushState::now(store, &followed()).unwrap();
    bed.open(&bed.plans, &["mayReadItems"]);
    known.set_accounts(&followed());
    let change = known.catch_up(store, None).unwrap().unwrap();
    let names = |change: &Value, account: &str| -> Vec<String> {
        change["changed"][account]
            .as_object()
            .map(|all| all.keys().cloned().collect())
            .unwrap_or_default()
    };
    assert_eq!(names(&change, &bed.bob), ["ShareNotification"]);
    assert_eq!(
        names(&change, &bed.ann),
        ["Email", "Mailbox", "Thread"],
        "the types that the guest sees now"
    );
    let vacation = json!({"accountId": bed.ann, "update": {"singleton": {"isEnabled": true}}});
    call(&bed.context, "VacationResponse/set", &vacation);
    assert_eq!(
        known.catch_up(store, None).unwrap(),
        None,
        "a guest is not notified of the owner's vacation"
    );
    // The Inbox is not shared, but the guest is notified of new mail in it.
    filed(&bed.context, &["more"]);
    let change = known.catch_up(store, None).unwrap().unwrap();
    for (name, method) in
        [("Email", "Email/get"), ("Thread", "Thread/get"), ("Mailbox", "Mailbox/get")]
    {
        let now = bed.bob(method, json!({"ids": []}))["state"].clone();
        assert_eq!(change["changed"][&bed.ann][name], now, "{name}");
    }
    bed.close(&bed.plans);
    known.set_accounts(&followed());
    let change = known.catch_up(store, None).unwrap().unwrap();
    assert_eq!((names(&change, &bed.ann).len(), names(&change, &bed.bob).len()), (0, 1));
}
