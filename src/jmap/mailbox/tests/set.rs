//! Mailbox/set (RFC 8621 §2.5).

use serde_json::{Value, json};

use super::{context_and_account, get, set};
use crate::jmap::tests::{account_of, call, context, error, letters};

#[test]
fn tree_is_created_renamed_and_destroyed_in_one_call_each() {
    let (context, account) = context_and_account();
    // Children come before their parents: the order of a JSON object has no meaning.
    let answer = set(
        &context,
        &account,
        json!({"create": {
            "a": {"name": "Leaf", "parentId": "#b"}, "b": {"name": "Branch", "parentId": "#c",
                "sortOrder": 7},
            "c": {"name": "Cafe\u{301}", "isSubscribed": false},
        }}),
    );
    assert_eq!(answer["notCreated"], Value::Null, "{answer}");
    let id = |name: &str| answer["created"][name]["id"].as_str().unwrap().to_owned();
    // The answer has the properties that the client did not send, and the name in NFC.
    assert_eq!(answer["created"]["c"]["name"], "Caf\u{e9}");
    assert_eq!(answer["created"]["b"].get("sortOrder"), None);
    assert_eq!(answer["created"]["a"]["totalEmails"], 0);
    let all = get(&context, &account);
    assert_eq!(all["Leaf"]["parentId"], json!(id("b")));
    // The creator is subscribed by default (RFC 8621 §2).
    assert_eq!(
        (&all["Leaf"]["isSubscribed"], &all["Caf\u{e9}"]["isSubscribed"]),
        (&json!(true), &json!(false))
    );

    // A mailbox can take the name that another gives up, and a parent is destroyed after its child.
    let answer = set(
        &context,
        &account,
        json!({
            "update": {id("b"): {"name": "Caf\u{e9}", "parentId": null}, id("c"): {"name": "Old"}},
        }),
    );
    assert_eq!(
        (&answer["updated"][id("b")], &answer["notUpdated"]),
        (&Value::Null, &Value::Null),
        "{answer}"
    );
    let answer = set(&context, &account, json!({"destroy": [id("b"), id("a"), "none"]}));
    let mut gone: Vec<String> = answer["destroyed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap().to_owned())
        .collect();
    gone.sort();
    assert_eq!(
        gone,
        [id("a"), id("b")]
            .into_iter()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    assert_eq!(answer["notDestroyed"], json!({"none": {"type": "notFound"}}));
}

#[test]
fn invalid_mailbox_changes_are_refused() {
    let (context, account) = context_and_account();
    let all = get(&context, &account);
    let inbox = all["Inbox"]["id"].as_str().unwrap().to_owned();
    let answer = set(
        &context,
        &account,
        json!({"create": {"p": {"name": "P"}, "q": {"name": "Q", "parentId": "#p"}}}),
    );
    let (p, q) = (answer["created"]["p"]["id"].clone(), answer["created"]["q"]["id"].clone());
    for (object, property) in [
        (json!({}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": "a\u{7}"}), "name"),
        (json!({"name": "x".repeat(256)}), "name"),
        (json!({"name": "x", "role": "inbox"}), "role"),
        (json!({"name": "x", "role": "Inbox"}), "role"),
        (json!({"name": "x", "parentId": "m000"}), "parentId"),
        (json!({"name": "x", "parentId": "#none"}), "parentId"),
        (json!({"name": "x", "sortOrder": 2_147_483_648_u64}), "sortOrder"),
        (json!({"name": "x", "sortOrder": -1}), "sortOrder"),
        (json!({"name": "x", "totalEmails": 1}), "totalEmails"),
        (json!({"name": "x", "id": "m1"}), "id"),
        (json!({"name": "x", "colour": "red"}), "colour"),
    ] {
        let answer = set(&context, &account, json!({"create": {"x": object}}));
        let error = &answer["notCreated"]["x"];
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!("invalidProperties"), &json!([property])),
            "{object}: {error}"
        );
        assert_eq!(answer["oldState"], answer["newState"]);
    }
    for (id, patch, kind) in [
        (p.as_str().unwrap(), json!({"parentId": q}), "invalidProperties"),
        (p.as_str().unwrap(), json!({"parentId": p}), "invalidProperties"),
        (p.as_str().unwrap(), json!({"name/x": "y"}), "invalidPatch"),
        (p.as_str().unwrap(), json!({"myRights/mayDelete": false}), "invalidProperties"),
        (p.as_str().unwrap(), json!({"totalEmails": 5}), "invalidProperties"),
        (inbox.as_str(), json!({"role": null}), "invalidProperties"),
        ("mnone", json!({"name": "y"}), "notFound"),
    ] {
        let answer = set(&context, &account, json!({"update": {id: patch}}));
        assert_eq!(answer["notUpdated"][id]["type"], kind, "{patch}: {answer}");
    }
    // A client may send back the values that the server returned.
    let whole = all["Inbox"].clone();
    let answer = set(&context, &account, json!({"update": {&inbox: whole}}));
    assert_eq!(answer["updated"], json!({inbox.as_str(): null}), "{answer}");
    for (ids, kind) in [(json!([p]), "mailboxHasChild"), (json!([inbox]), "forbidden")] {
        let answer = set(&context, &account, json!({"destroy": ids}));
        assert_eq!(answer["notDestroyed"][ids[0].as_str().unwrap()]["type"], kind);
    }
    let both = set(
        &context,
        &account,
        json!({"update": {q.as_str().unwrap(): {"name": "R"}}, "destroy": [q]}),
    );
    assert_eq!(both["notUpdated"][q.as_str().unwrap()]["type"], "willDestroy");
    assert_eq!(both["destroyed"], json!([q]));
    assert_eq!(
        error(&context, "Mailbox/set", &json!({"accountId": account, "ifInState": "x"})),
        "stateMismatch"
    );
    assert_eq!(
        error(&context, "Mailbox/set", &json!({"accountId": account, "update": {"x": 1}})),
        "invalidArguments"
    );
}

#[test]
fn mailbox_with_emails_is_destroyed_only_on_request() {
    let context = context();
    let account = letters(&context, 3);
    let answer = set(&context, &account, json!({"create": {"x": {"name": "X"}}}));
    let x = answer["created"]["x"]["id"].as_str().unwrap().to_owned();
    let (_, found) = call(&context, "Email/query", &json!({"accountId": account}));
    let ids = found["ids"].clone();
    let (_, moved) = call(
        &context,
        "Mail/move",
        &json!({"accountId": account, "ids": [ids[0], ids[1]], "mailbox": "X"}),
    );
    assert_eq!(moved["notMoved"], json!({}), "{moved}");
    let (_, both) = call(
        &context,
        "Mail/move",
        &json!({"accountId": account, "ids": [ids[2]], "mailbox": "X", "also": true}),
    );
    assert_eq!(both["notMoved"], json!({}), "{both}");
    let answer = set(&context, &account, json!({"destroy": [x]}));
    assert_eq!(answer["notDestroyed"][&x]["type"], "mailboxHasEmail");

    let answer = set(&context, &account, json!({"destroy": [x], "onDestroyRemoveEmails": true}));
    assert_eq!(answer["destroyed"], json!([x]));
    let (_, found) =
        call(&context, "Email/query", &json!({"accountId": account, "calculateTotal": true}));
    assert_eq!((&found["ids"], &found["total"]), (&json!([ids[2]]), &json!(1)));
    // The counts of other mailboxes may have changed, too. So `newState` is a state before these
    // changes and the destruction, and /changes reports them all.
    let (_, changes) = call(
        &context,
        "Mailbox/changes",
        &json!({"accountId": account, "sinceState": answer["newState"]}),
    );
    assert!(changes["destroyed"].as_array().unwrap().contains(&json!(x)), "{answer} {changes}");
}

/// RFC 8620 §5.3: updates are allowed if the result is valid, even if no order of single steps is.
#[test]
fn names_and_roles_are_swapped_in_one_call() {
    let (context, account) = context_and_account();
    let answer = set(
        &context,
        &account,
        json!({"create": {"a": {"name": "A"}, "b": {"name": "B", "role": "important"},
            "c": {"name": "C"}, "x": {"name": "X"}}}),
    );
    let id = |name: &str| answer["created"][name]["id"].as_str().unwrap().to_owned();
    let all = get(&context, &account);
    let trash = all["Trash"]["id"].as_str().unwrap();
    let answer = set(
        &context,
        &account,
        json!({"update": {
            id("a"): {"name": "B"}, id("b"): {"name": "C", "role": "trash"}, id("c"): {"name": "A"},
            trash: {"role": "important"}, id("x"): {"name": "Inbox"},
        }}),
    );
    let updated = answer["updated"].as_object().unwrap();
    assert_eq!(
        (updated.len(), &answer["notUpdated"][id("x")]["type"]),
        (4, &json!("alreadyExists")),
        "{answer}"
    );
    let all = get(&context, &account);
    let at = |name: &str| all[name]["id"].as_str().unwrap().to_owned();
    assert_eq!([at("B"), at("C"), at("A"), at("X")], [id("a"), id("b"), id("c"), id("x")]);
    assert_eq!((&all["C"]["role"], &all["Trash"]["role"]), (&json!("trash"), &json!("important")));
    assert!(context.store.check().unwrap().is_empty());
}

/// RFC 8620 §5.3: an error lists all invalid properties, and null stands for the default value.
#[test]
fn all_invalid_properties_are_named_and_null_sets_the_default() {
    let (context, account) = context_and_account();
    let invalid = json!({"role": "none", "parentId": "#none", "sortOrder": -1, "myRights": {},
        "isSubscribed": 1});
    let answer = set(
        &context,
        &account,
        json!({"create": {"x": invalid, "y": {"name": "Y", "sortOrder": 7}}}),
    );
    let mut named: Vec<&str> = answer["notCreated"]["x"]["properties"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    named.sort_unstable();
    assert_eq!(named, ["isSubscribed", "myRights", "name", "parentId", "role", "sortOrder"]);
    let y = answer["created"]["y"]["id"].as_str().unwrap();
    let answer = set(&context, &account, json!({"update": {y: {"sortOrder": null, "role": null}}}));
    assert_eq!(answer["updated"], json!({y: null}), "{answer}");
    assert_eq!(get(&context, &account)["Y"]["sortOrder"], 0);
    let answer =
        set(&context, &account, json!({"update": {y: {"role": "none", "totalEmails": 5}}}));
    assert_eq!(answer["notUpdated"][y]["properties"], json!(["role", "totalEmails"]));
}

/// RFC 8621 §1.3.1 maxMailboxDepth, also when a whole branch is moved.
#[test]
fn tree_is_limited_to_max_mailbox_depth() {
    let (context, account) = context_and_account();
    let chain = |name: &str, length: usize| {
        let mut create = serde_json::Map::new();
        for n in 0..length {
            let parent = if n == 0 { Value::Null } else { format!("#{name}{}", n - 1).into() };
            create.insert(
                format!("{name}{n}"),
                json!({"name": format!("{name}{n}"), "parentId": parent}),
            );
        }
        set(&context, &account, json!({"create": create}))
    };
    // The 17th is one more than `limits::MAX_MAILBOX_DEPTH`. The branch of three fits under `l12`,
    // which is the 13th, and not under `l13`.
    let (long, short) = (chain("l", 17), chain("s", 3));
    assert_eq!(
        long["notCreated"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["l16"],
        "{long}"
    );
    let (top, at) =
        (&short["created"]["s0"]["id"], |n: usize| long["created"][format!("l{n}")]["id"].clone());
    let top = top.as_str().unwrap();
    let answer = set(&context, &account, json!({"update": {top: {"parentId": at(13)}}}));
    assert_eq!(answer["notUpdated"][top]["properties"], json!(["parentId"]));
    let answer = set(&context, &account, json!({"update": {top: {"parentId": at(12)}}}));
    assert_eq!(answer["updated"], json!({top: null}));
}

/// RFC 8621 §2.5.
#[test]
fn branch_is_destroyed_with_its_emails_and_other_mailboxes_keep_theirs() {
    let context = context();
    let account = letters(&context, 3);
    let made = set(
        &context,
        &account,
        json!({"create": {
            "a": {"name": "A"}, "b": {"name": "B", "parentId": "#a"},
            "c": {"name": "C", "parentId": "#b"},
            "k": {"name": "K"}, "l": {"name": "L", "parentId": "#k"},
        }}),
    );
    let id = |name: &str| made["created"][name]["id"].as_str().unwrap().to_owned();
    let (_, found) = call(&context, "Email/query", &json!({"accountId": account}));
    let ids = found["ids"].as_array().unwrap().clone();
    for (email, mailbox) in [(&ids[0], "a"), (&ids[1], "c"), (&ids[2], "k")] {
        let patch = json!({"accountId": account,
            "update": {email.as_str().unwrap(): {"mailboxIds": {id(mailbox): true}}}});
        assert!(call(&context, "Email/set", &patch).1["notUpdated"].is_null());
    }
    let all =
        json!({"destroy": [id("a"), id("b"), id("c"), id("k")], "onDestroyRemoveEmails": true});
    let answer = set(&context, &account, all);
    let gone: std::collections::BTreeSet<&str> =
        answer["destroyed"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(gone, [id("a"), id("b"), id("c")].iter().map(String::as_str).collect(), "{answer}");
    assert_eq!(answer["notDestroyed"][id("k")]["type"], "mailboxHasChild");
    let (_, left) = call(&context, "Email/query", &json!({"accountId": account}));
    assert_eq!(left["ids"], json!([ids[2]]));
    assert!(context.store.check().unwrap().is_empty());
}

/// Regression test: once its children were emptied, the Inbox lost its emails in steps of 64, and
/// then could not be destroyed.
#[test]
fn inbox_keeps_its_emails_if_its_children_are_destroyed_with_theirs() {
    let context = context();
    // More emails than one commit removes.
    let account = letters(&context, 70);
    let inbox = get(&context, &account)["Inbox"]["id"].as_str().unwrap().to_owned();
    let made = set(&context, &account, json!({"create": {"x": {"name": "X", "parentId": inbox}}}));
    let child = made["created"]["x"]["id"].as_str().unwrap().to_owned();
    let (_, found) = call(&context, "Email/query", &json!({"accountId": account, "limit": 1}));
    let email = found["ids"][0].as_str().unwrap();
    let patch = json!({"accountId": account, "update": {email: {"mailboxIds": {&child: true}}}});
    assert!(call(&context, "Email/set", &patch).1["notUpdated"].is_null());
    let both = json!({"destroy": [inbox, child], "onDestroyRemoveEmails": true});
    let answer = set(&context, &account, both);
    assert_eq!(answer["destroyed"], json!([child]), "{answer}");
    assert_eq!(answer["notDestroyed"][&inbox]["type"], "forbidden", "{answer}");
    assert_eq!(get(&context, &account)["Inbox"]["totalEmails"], 69);
}

/// RFC 8620 §5.4 defines `alreadyExists`. Cyrus, Stalwart and others return it also for a mailbox
/// whose name is taken, and clients read `existingId` then.
#[test]
fn duplicate_name_returns_the_existing_mailbox() {
    let context = context();
    let ann = account_of(&context);
    let (_, all) = call(&context, "Mailbox/get", &json!({"accountId": ann}));
    let inbox =
        all["list"].as_array().unwrap().iter().find(|one| one["role"] == "inbox").unwrap().clone();
    let again = json!({"accountId": ann, "create": {"x": {"name": inbox["name"]}}});
    let error = call(&context, "Mailbox/set", &again).1["notCreated"]["x"].clone();
    assert_eq!(error, json!({"type": "alreadyExists", "existingId": inbox["id"]}));
    let other = json!({"accountId": ann, "create": {"x": {"name": "Other"}}});
    let other =
        call(&context, "Mailbox/set", &other).1["created"]["x"]["id"].as_str().unwrap().to_owned();
    let renamed = json!({"accountId": ann, "update": {&other: {"name": inbox["name"]}}});
    let error = call(&context, "Mailbox/set", &renamed).1["notUpdated"][&other].clone();
    assert_eq!(error, json!({"type": "alreadyExists", "existingId": inbox["id"]}));
}

#[test]
fn mailboxes_that_exchange_the_trash_role_have_the_right_counts() {
    let (context, account) = context_and_account();
    let all = get(&context, &account);
    let [trash, archive] = ["Trash", "Archive"].map(|name| all[name]["id"].as_str().unwrap());
    let file = |mailbox: &str, seen: bool, id: &str, replied: Option<&str>| {
        let mut email = json!({
            "mailboxIds": {mailbox: true},
            "subject": "x",
            "messageId": [id],
            "references": replied.map(|replied| [replied]),
            "from": [{"email": "a@example.org"}],
            "bodyStructure": {"partId": "t", "type": "text/plain"},
            "bodyValues": {"t": {"value": "x"}},
        });
        if seen {
            email["keywords"] = json!({"$seen": true});
        }
        let arguments = json!({"accountId": account, "create": {"e": email}});
        let (_, answer) = call(&context, "Email/set", &arguments);
        assert!(answer["created"]["e"].is_object(), "{answer}");
    };
    // One thread has an unread email in the Trash and a read one in the Archive, the other has an
    // unread email in the Archive.
    file(trash, false, "1@x", None);
    file(archive, true, "2@x", Some("1@x"));
    file(archive, false, "3@x", None);
    let update = json!({trash: {"role": "archive"}, archive: {"role": "trash"}});
    let answer = set(&context, &account, json!({"update": update}));
    assert!(answer["notUpdated"].is_null(), "{answer}");
    assert_eq!(context.store.check().unwrap(), []);
}
