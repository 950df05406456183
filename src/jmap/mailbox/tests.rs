//! Tests of the methods of Mailbox (RFC 8621 §2), and with them of the standard methods in general
//! (RFC 8620 §5).

mod changes;
mod query;
mod set;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::jmap::tests::{account_of, call, context, error};
use crate::jmap::{CAPABILITIES, run};
use crate::wire::jmap::{ADMIN, CORE, MAIL, parse};

/// A context, and the id of Ann's account.
fn context_and_account() -> (crate::jmap::Context, String) {
    let context = context();
    let id = account_of(&context);
    (context, id)
}

/// Returns the mailboxes of an account, by name.
fn get(context: &crate::jmap::Context, account: &str) -> BTreeMap<String, Value> {
    let (_, answer) = call(context, "Mailbox/get", &json!({"accountId": account, "ids": null}));
    let list = answer["list"].as_array().unwrap().clone();
    list.into_iter().map(|one| (one["name"].as_str().unwrap().to_owned(), one)).collect()
}

fn set(context: &crate::jmap::Context, account: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = account.into();
    let (name, answer) = call(context, "Mailbox/set", &arguments);
    assert_eq!(name, "Mailbox/set", "{answer}");
    answer
}

#[test]
fn mailbox_get_returns_all_properties() {
    let (context, account) = context_and_account();
    let all = get(&context, &account);
    let inbox = &all["Inbox"];
    let mut names: Vec<&String> = inbox.as_object().unwrap().keys().collect();
    names.sort();
    let wanted = [
        "attributes",
        "id",
        "isSubscribed",
        "myRights",
        "name",
        "parentId",
        "role",
        "shareWith",
        "sortOrder",
        "totalEmails",
        "totalThreads",
        "unreadEmails",
        "unreadThreads",
    ];
    assert_eq!(names, wanted);
    assert_eq!((&inbox["role"], &inbox["parentId"]), (&json!("inbox"), &Value::Null));
    assert_eq!(
        (&inbox["myRights"]["mayDelete"], &inbox["myRights"]["mayReadItems"]),
        (&json!(false), &json!(true))
    );
    // RFC 8621 §2 defines nine rights.
    assert_eq!(inbox["myRights"].as_object().unwrap().len(), 9);

    let id = inbox["id"].clone();
    let some = json!({"accountId": account, "ids": [id, "none", id], "properties": ["name"]});
    let (_, answer) = call(&context, "Mailbox/get", &some);
    assert_eq!(answer["list"], json!([{"id": id, "name": "Inbox"}]));
    assert_eq!(answer["notFound"], json!(["none"]));

    // One more than `limits::MAX_OBJECTS_IN_GET`.
    let too_many: Vec<String> = (0..1001).map(|n| format!("x{n}")).collect();
    // `a7vvvvvg` is the id of no account, and `nobody` is no id.
    for (arguments, wanted) in [
        (json!({"ids": []}), "invalidArguments"),
        (json!({"accountId": 3}), "invalidArguments"),
        (json!({"accountId": "nobody"}), "accountNotFound"),
        (json!({"accountId": "a7vvvvvg"}), "accountNotFound"),
        (json!({"accountId": account, "properties": ["name", "size"]}), "invalidArguments"),
        (json!({"accountId": account, "ids": "x"}), "invalidArguments"),
        (json!({"accountId": account, "ids": too_many}), "requestTooLarge"),
    ] {
        assert_eq!(error(&context, "Mailbox/get", &arguments), wanted, "{arguments}");
    }
}

#[test]
fn mailbox_attributes_require_the_vendor_capability() {
    let (context, account) = context_and_account();
    let ask = |using: &[&str], name: &str, mut arguments: Value| {
        arguments["accountId"] = account.clone().into();
        let request = json!({"using": using, "methodCalls": [[name, arguments, "0"]]});
        let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run(&context, request).unwrap().json()["methodResponses"][0][1].clone()
    };
    let (plain, ours) = (&[CORE, MAIL][..], &[CORE, MAIL, ADMIN][..]);
    let inbox = get(&context, &account)["Inbox"]["id"].as_str().unwrap().to_owned();
    let color = json!({&inbox: {"attributes": {"color": "#ff0000"}}});
    let refused = ask(plain, "Mailbox/set", json!({"update": color}));
    assert_eq!(refused["notUpdated"][&inbox]["properties"], json!(["attributes"]), "{refused}");
    assert_eq!(
        ask(ours, "Mailbox/set", json!({"update": color}))["updated"],
        json!({&inbox: null})
    );
    let patch = json!({&inbox: {"attributes/note": "first"}});
    assert_eq!(
        ask(ours, "Mailbox/set", json!({"update": patch}))["updated"],
        json!({&inbox: null})
    );
    let stored = ask(ours, "Mailbox/get", json!({"ids": [inbox]}))["list"][0]["attributes"].clone();
    assert_eq!(stored, json!({"color": "#ff0000", "note": "first"}));
    assert!(
        ask(plain, "Mailbox/get", json!({"ids": [inbox]}))["list"][0].get("attributes").is_none()
    );
    let named = json!({"ids": [inbox], "properties": ["attributes"]});
    assert_eq!(ask(plain, "Mailbox/get", named.clone())["type"], "invalidArguments");
    assert_eq!(
        ask(ours, "Mailbox/get", named)["list"][0],
        json!({"id": inbox, "attributes": stored})
    );
    for invalid in [
        json!({"color": "red"}),
        json!({"Color": "#ff0000"}),
        json!({"note": 1}),
        json!([]),
        json!({"n": ""}),
    ] {
        let create = json!({"c": {"name": "C", "attributes": invalid}});
        let update = json!({&inbox: {"attributes": invalid}});
        let refused = ask(ours, "Mailbox/set", json!({"create": create, "update": update}));
        for refused in [&refused["notCreated"]["c"], &refused["notUpdated"][&inbox]] {
            assert_eq!(refused["properties"], json!(["attributes"]), "{invalid}: {refused}");
        }
    }
    let made = ask(
        ours,
        "Mailbox/set",
        json!({"create": {"c": {"name": "C", "attributes": {"color": "#00ff00"}}}}),
    );
    let id = made["created"]["c"]["id"].clone();
    assert!(
        made["created"]["c"].get("attributes").is_none(),
        "a value that the client sent is not returned: {made}"
    );
    assert_eq!(
        ask(ours, "Mailbox/get", json!({"ids": [id]}))["list"][0]["attributes"]["color"],
        "#00ff00"
    );
    assert!(
        ask(plain, "Mailbox/set", json!({"create": {"d": {"name": "D"}}}))["created"]["d"]
            .get("attributes")
            .is_none()
    );
}
