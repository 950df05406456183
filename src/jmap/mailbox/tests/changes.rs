//! Mailbox/changes (RFC 8621 §2.2).

use serde_json::{Value, json};

use super::{get, set};
use crate::jmap::tests::{call, context, error, letters};

#[test]
fn changes_say_whether_only_counts_changed() {
    let context = context();
    let account = letters(&context, 1);
    let state = |context: &_| {
        call(context, "Mailbox/get", &json!({"accountId": account, "ids": []})).1["state"].clone()
    };
    let changes = |since: &Value| {
        call(&context, "Mailbox/changes", &json!({"accountId": account, "sinceState": since})).1
    };
    let before = state(&context);
    assert_eq!(changes(&before)["updated"], json!([]));
    letters(&context, 1);
    let found = changes(&before);
    assert_eq!(
        found["updatedProperties"],
        json!(["totalEmails", "unreadEmails", "totalThreads", "unreadThreads"])
    );
    assert_eq!((&found["oldState"], &found["newState"]), (&before, &state(&context)));
    set(&context, &account, json!({"create": {"x": {"name": "X"}}}));
    let found = changes(&before);
    assert_eq!(found["created"].as_array().unwrap().len(), 1);
    let inbox = get(&context, &account)["Inbox"]["id"].as_str().unwrap().to_owned();
    let middle = state(&context);
    set(&context, &account, json!({"update": {inbox: {"name": "Eingang"}}}));
    assert_eq!(changes(&before)["updatedProperties"], Value::Null);
    // `oldState` repeats `sinceState`.
    assert_eq!(changes(&middle)["oldState"], middle);
    for (since, most, wanted) in [
        (json!("x"), json!(null), "cannotCalculateChanges"),
        (json!("ffff-0"), json!(null), "cannotCalculateChanges"),
        (before.clone(), json!(0), "invalidArguments"),
        (json!(1), json!(null), "invalidArguments"),
    ] {
        let arguments = json!({"accountId": account, "sinceState": since, "maxChanges": most});
        assert_eq!(error(&context, "Mailbox/changes", &arguments), wanted, "{arguments}");
    }
}

/// RFC 8620 §5.2: with more changes than `maxChanges` the answer has an intermediate state.
#[test]
fn mailbox_changes_come_in_steps_of_max_changes() {
    let context = context();
    let account = letters(&context, 2);
    let state = |name: &str| {
        call(&context, name, &json!({"accountId": account, "ids": []})).1["state"].clone()
    };
    let made = set(&context, &account, json!({"create": {"x": {"name": "X"}, "y": {"name": "Y"}}}));
    let id = |name: &str| made["created"][name]["id"].as_str().unwrap().to_owned();
    let (x, y) = (id("x"), id("y"));
    let before = state("Mailbox/get");
    // One change of an email changes three mailboxes at once.
    let emails = call(&context, "Email/query", &json!({"accountId": account})).1["ids"].clone();
    let update = json!({emails[0].as_str().unwrap(): {"mailboxIds": {&x: true, &y: true}}});
    call(&context, "Email/set", &json!({"accountId": account, "update": update}));
    let (mut at, mut updated, mut steps) = (before.clone(), Vec::new(), 0);
    loop {
        let arguments = json!({"accountId": account, "sinceState": at, "maxChanges": 1});
        let (name, step) = call(&context, "Mailbox/changes", &arguments);
        assert_eq!(name, "Mailbox/changes", "{step}");
        assert_eq!(step["updated"].as_array().unwrap().len(), 1, "{step}");
        assert_eq!(step["updatedProperties"].as_array().unwrap().len(), 4);
        assert_ne!(step["newState"], step["oldState"]);
        updated.extend(step["updated"].as_array().unwrap().clone());
        (at, steps) = (step["newState"].clone(), steps + 1);
        if step["hasMoreChanges"] == false {
            break;
        }
        // An intermediate state is a valid state: changes made meanwhile are reported after it. Y
        // has the highest number of the three mailboxes, so it is not reported yet.
        if steps == 1 {
            set(&context, &account, json!({"update": {&y: {"sortOrder": 3}}}));
        }
        // After two steps, the rest is read at once.
        if steps > 1 {
            break;
        }
    }
    let rest =
        call(&context, "Mailbox/changes", &json!({"accountId": account, "sinceState": at})).1;
    updated.extend(rest["updated"].as_array().unwrap().clone());
    let updated: Vec<&str> = updated.iter().map(|id| id.as_str().unwrap()).collect();
    assert!(updated.contains(&x.as_str()) && updated.contains(&y.as_str()), "{updated:?}");
    assert_eq!(
        (updated.len(), &rest["updatedProperties"]),
        (3, &Value::Null),
        "the last change of one mailbox was not only of its counts"
    );
    assert_eq!(rest["newState"], state("Mailbox/get"));
    // A state begins with the epoch. An intermediate state has three more numbers, in hexadecimal.
    // These states have a number too many, a last number that is none, and one of more than 32
    // bits.
    for suffix in ["-1-1-1-1", "-1-1-x", "-1-1-100000000"] {
        let epoch = before.as_str().unwrap().split('-').next().unwrap();
        let arguments = json!({"accountId": account, "sinceState": format!("{epoch}{suffix}")});
        assert_eq!(
            error(&context, "Mailbox/changes", &arguments),
            "cannotCalculateChanges",
            "{suffix}"
        );
    }
}
