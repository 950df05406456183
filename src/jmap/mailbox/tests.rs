//! Mailboxes over JMAP (RFC 8621 §2), and with them what the standard methods have in common (RFC 8620 §5).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::jmap::tests::{account_of, call, context, error, letters};
use crate::jmap::{CAPABILITIES, run};
use crate::wire::jmap::{ADMIN, CORE, MAIL, parse};

/// A made account with an Inbox and nothing else by name.
fn made() -> (crate::jmap::Context, String) {
    let context = context();
    let id = account_of(&context);
    (context, id)
}

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
fn a_mailbox_has_all_its_properties() {
    let (context, account) = made();
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
    assert_eq!((&inbox["myRights"]["mayDelete"], &inbox["myRights"]["mayReadItems"]), (&json!(false), &json!(true)));
    assert_eq!(inbox["myRights"].as_object().unwrap().len(), 9);

    let id = inbox["id"].clone();
    let some = json!({"accountId": account, "ids": [id, "none", id], "properties": ["name"]});
    let (_, answer) = call(&context, "Mailbox/get", &some);
    assert_eq!(answer["list"], json!([{"id": id, "name": "Inbox"}]));
    assert_eq!(answer["notFound"], json!(["none"]));

    for (arguments, wanted) in [
        (json!({"ids": []}), "invalidArguments"),
        (json!({"accountId": 3}), "invalidArguments"),
        (json!({"accountId": "nobody"}), "accountNotFound"),
        (json!({"accountId": "a7vvvvvg"}), "accountNotFound"),
        (json!({"accountId": account, "properties": ["name", "size"]}), "invalidArguments"),
        (json!({"accountId": account, "ids": "x"}), "invalidArguments"),
        (
            json!({"accountId": account, "ids": vec!["x".to_owned(); 1001].iter().enumerate().map(|(n, x)| format!("{x}{n}")).collect::<Vec<_>>()}),
            "requestTooLarge",
        ),
    ] {
        assert_eq!(error(&context, "Mailbox/get", &arguments), wanted, "{arguments}");
    }
}

#[test]
fn a_whole_tree_is_made_renamed_and_destroyed_in_one_call() {
    let (context, account) = made();
    // Children before parents, by their names: the order of a JSON object says nothing.
    let answer = set(
        &context,
        &account,
        json!({"create": {
            "a": {"name": "Leaf", "parentId": "#b"}, "b": {"name": "Branch", "parentId": "#c", "sortOrder": 7},
            "c": {"name": "Cafe\u{301}", "isSubscribed": false},
        }}),
    );
    assert_eq!(answer["notCreated"], Value::Null, "{answer}");
    let id = |name: &str| answer["created"][name]["id"].as_str().unwrap().to_owned();
    // What the client did not say is told; a name that is not in NFC comes back as it is.
    assert_eq!(answer["created"]["c"]["name"], "Caf\u{e9}");
    assert_eq!(answer["created"]["b"].get("sortOrder"), None);
    assert_eq!(answer["created"]["a"]["totalEmails"], 0);
    let all = get(&context, &account);
    assert_eq!(all["Leaf"]["parentId"], json!(id("b")));
    // Who makes a mailbox is subscribed to it, unless he says otherwise (RFC 8621 §2).
    assert_eq!((&all["Leaf"]["isSubscribed"], &all["Caf\u{e9}"]["isSubscribed"]), (&json!(true), &json!(false)));

    // The parent's destruction waits for its child's; a name that one gives up another takes.
    let answer = set(
        &context,
        &account,
        json!({
            "update": {id("b"): {"name": "Caf\u{e9}", "parentId": null}, id("c"): {"name": "Old"}},
        }),
    );
    assert_eq!((&answer["updated"][id("b")], &answer["notUpdated"]), (&Value::Null, &Value::Null), "{answer}");
    let answer = set(&context, &account, json!({"destroy": [id("b"), id("a"), "none"]}));
    let mut gone: Vec<String> =
        answer["destroyed"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    gone.sort();
    assert_eq!(
        gone,
        [id("a"), id("b")].into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    );
    assert_eq!(answer["notDestroyed"], json!({"none": {"type": "notFound"}}));
}

#[test]
fn what_a_mailbox_cannot_be() {
    let (context, account) = made();
    let all = get(&context, &account);
    let inbox = all["Inbox"]["id"].as_str().unwrap().to_owned();
    let answer = set(&context, &account, json!({"create": {"p": {"name": "P"}, "q": {"name": "Q", "parentId": "#p"}}}));
    let (p, q) = (answer["created"]["p"]["id"].clone(), answer["created"]["q"]["id"].clone());
    for (object, kind, property) in [
        (json!({}), "invalidProperties", "name"),
        (json!({"name": ""}), "invalidProperties", "name"),
        (json!({"name": "a\u{7}"}), "invalidProperties", "name"),
        (json!({"name": "x".repeat(256)}), "invalidProperties", "name"),
        (json!({"name": "x", "role": "inbox"}), "invalidProperties", "role"),
        (json!({"name": "x", "role": "Inbox"}), "invalidProperties", "role"),
        (json!({"name": "x", "parentId": "m000"}), "invalidProperties", "parentId"),
        (json!({"name": "x", "parentId": "#none"}), "invalidProperties", "parentId"),
        (json!({"name": "x", "sortOrder": 2_147_483_648_u64}), "invalidProperties", "sortOrder"),
        (json!({"name": "x", "sortOrder": -1}), "invalidProperties", "sortOrder"),
        (json!({"name": "x", "totalEmails": 1}), "invalidProperties", "totalEmails"),
        (json!({"name": "x", "id": "m1"}), "invalidProperties", "id"),
        (json!({"name": "x", "colour": "red"}), "invalidProperties", "colour"),
    ] {
        let answer = set(&context, &account, json!({"create": {"x": object}}));
        let error = &answer["notCreated"]["x"];
        assert_eq!((&error["type"], &error["properties"]), (&json!(kind), &json!([property])), "{object}: {error}");
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
    // What the server says may be said again.
    let whole = all["Inbox"].clone();
    let answer = set(&context, &account, json!({"update": {&inbox: whole}}));
    assert_eq!(answer["updated"], json!({inbox.as_str(): null}), "{answer}");
    for (ids, kind) in [(json!([p]), "mailboxHasChild"), (json!([inbox]), "forbidden")] {
        let answer = set(&context, &account, json!({"destroy": ids}));
        assert_eq!(answer["notDestroyed"][ids[0].as_str().unwrap()]["type"], kind);
    }
    let both = set(&context, &account, json!({"update": {q.as_str().unwrap(): {"name": "R"}}, "destroy": [q]}));
    assert_eq!(both["notUpdated"][q.as_str().unwrap()]["type"], "willDestroy");
    assert_eq!(both["destroyed"], json!([q]));
    assert_eq!(error(&context, "Mailbox/set", &json!({"accountId": account, "ifInState": "x"})), "stateMismatch");
    assert_eq!(error(&context, "Mailbox/set", &json!({"accountId": account, "update": {"x": 1}})), "invalidArguments");
}

#[test]
fn a_mailbox_goes_with_its_emails_only_when_told() {
    let context = context();
    let account = letters(&context, 3);
    let answer = set(&context, &account, json!({"create": {"x": {"name": "X"}}}));
    let x = answer["created"]["x"]["id"].as_str().unwrap().to_owned();
    let (_, found) = call(&context, "Email/query", &json!({"accountId": account}));
    let ids = found["ids"].clone();
    let (_, moved) =
        call(&context, "Mail/move", &json!({"accountId": account, "ids": [ids[0], ids[1]], "mailbox": "X"}));
    assert_eq!(moved["notMoved"], json!({}), "{moved}");
    let (_, both) =
        call(&context, "Mail/move", &json!({"accountId": account, "ids": [ids[2]], "mailbox": "X", "also": true}));
    assert_eq!(both["notMoved"], json!({}), "{both}");
    let answer = set(&context, &account, json!({"destroy": [x]}));
    assert_eq!(answer["notDestroyed"][&x]["type"], "mailboxHasEmail");

    let (_, before) = call(&context, "Mailbox/get", &json!({"accountId": account, "ids": []}));
    let answer = set(&context, &account, json!({"destroy": [x], "onDestroyRemoveEmails": true}));
    assert_eq!(answer["destroyed"], json!([x]));
    let (_, found) = call(&context, "Email/query", &json!({"accountId": account, "calculateTotal": true}));
    assert_eq!((&found["ids"], &found["total"]), (&json!([ids[2]]), &json!(1)));
    // The counts of others may have changed with it: the new state is one from which these are still told.
    let (_, changes) =
        call(&context, "Mailbox/changes", &json!({"accountId": account, "sinceState": answer["newState"]}));
    assert!(changes["destroyed"].as_array().unwrap().contains(&json!(x)), "{before} {answer} {changes}");
}

#[test]
fn changes_say_whether_only_counts_changed() {
    let context = context();
    let account = letters(&context, 1);
    let state =
        |context: &_| call(context, "Mailbox/get", &json!({"accountId": account, "ids": []})).1["state"].clone();
    let changes =
        |since: &Value| call(&context, "Mailbox/changes", &json!({"accountId": account, "sinceState": since})).1;
    let before = state(&context);
    assert_eq!(changes(&before)["updated"], json!([]));
    letters(&context, 1);
    let found = changes(&before);
    assert_eq!(found["updatedProperties"], json!(["totalEmails", "unreadEmails", "totalThreads", "unreadThreads"]));
    assert_eq!((&found["oldState"], &found["newState"]), (&before, &state(&context)));
    set(&context, &account, json!({"create": {"x": {"name": "X"}}}));
    let found = changes(&before);
    assert_eq!(found["created"].as_array().unwrap().len(), 1);
    let inbox = get(&context, &account)["Inbox"]["id"].as_str().unwrap().to_owned();
    let middle = state(&context);
    set(&context, &account, json!({"update": {inbox: {"name": "Eingang"}}}));
    assert_eq!(changes(&before)["updatedProperties"], Value::Null);
    // A set that nobody came between is told in full by its states.
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

/// RFC 8620 §5.2: an intermediate state where there are more changes than `maxChanges`.
#[test]
fn mailbox_changes_come_in_steps_of_max_changes() {
    let context = context();
    let account = letters(&context, 2);
    let state = |name: &str| call(&context, name, &json!({"accountId": account, "ids": []})).1["state"].clone();
    let made = set(&context, &account, json!({"create": {"x": {"name": "X"}, "y": {"name": "Y"}}}));
    let id = |name: &str| made["created"][name]["id"].as_str().unwrap().to_owned();
    let (x, y) = (id("x"), id("y"));
    let before = state("Mailbox/get");
    // One change of an email changes three mailboxes at once.
    let emails = call(&context, "Email/query", &json!({"accountId": account})).1["ids"].clone();
    let update = json!({emails[0].as_str().unwrap(): {"mailboxIds": {&x: true, &y: true}}});
    call(&context, "Email/set", &json!({"accountId": account, "update": update}));
    let (mut at, mut told, mut steps) = (before.clone(), Vec::new(), 0);
    loop {
        let asked = json!({"accountId": account, "sinceState": at, "maxChanges": 1});
        let (name, step) = call(&context, "Mailbox/changes", &asked);
        assert_eq!(name, "Mailbox/changes", "{step}");
        assert_eq!(step["updated"].as_array().unwrap().len(), 1, "{step}");
        assert_eq!(step["updatedProperties"].as_array().unwrap().len(), 4);
        assert_ne!(step["newState"], step["oldState"]);
        told.extend(step["updated"].as_array().unwrap().clone());
        (at, steps) = (step["newState"].clone(), steps + 1);
        if step["hasMoreChanges"] == false {
            break;
        }
        // A state between is one that a client may hold: what changes meanwhile is told after it.
        if steps == 1 {
            set(&context, &account, json!({"update": {&y: {"sortOrder": 3}}}));
            set(&context, &account, json!({"update": {&y: {"sortOrder": 0}}}));
        }
        if steps > 1 {
            break;
        }
    }
    let rest = call(&context, "Mailbox/changes", &json!({"accountId": account, "sinceState": at})).1;
    told.extend(rest["updated"].as_array().unwrap().clone());
    let told: Vec<&str> = told.iter().map(|id| id.as_str().unwrap()).collect();
    assert!(told.contains(&x.as_str()) && told.contains(&y.as_str()), "{told:?}");
    assert_eq!((told.len(), &rest["updatedProperties"]), (3, &Value::Null), "more than counts changed of one of them");
    assert_eq!(rest["newState"], state("Mailbox/get"));
    for wrong in ["-1", "-1-1-1-1", "-1-1-x", "-1-1-100000000"] {
        let epoch = before.as_str().unwrap().split('-').next().unwrap();
        let asked = json!({"accountId": account, "sinceState": format!("{epoch}{wrong}")});
        if wrong != "-1" {
            assert_eq!(error(&context, "Mailbox/changes", &asked), "cannotCalculateChanges", "{wrong}");
        }
    }
}

#[test]
fn attributes_of_mailboxes_belong_to_our_capability() {
    let (context, account) = made();
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
    assert_eq!(ask(ours, "Mailbox/set", json!({"update": color}))["updated"], json!({&inbox: null}));
    let patch = json!({&inbox: {"attributes/note": "first"}});
    assert_eq!(ask(ours, "Mailbox/set", json!({"update": patch}))["updated"], json!({&inbox: null}));
    let told = ask(ours, "Mailbox/get", json!({"ids": [inbox]}))["list"][0]["attributes"].clone();
    assert_eq!(told, json!({"color": "#ff0000", "note": "first"}));
    assert!(ask(plain, "Mailbox/get", json!({"ids": [inbox]}))["list"][0].get("attributes").is_none());
    let named = json!({"ids": [inbox], "properties": ["attributes"]});
    assert_eq!(ask(plain, "Mailbox/get", named.clone())["type"], "invalidArguments");
    assert_eq!(ask(ours, "Mailbox/get", named)["list"][0], json!({"id": inbox, "attributes": told}));
    for wrong in [json!({"color": "red"}), json!({"Color": "#ff0000"}), json!({"note": 1}), json!([]), json!({"n": ""})]
    {
        let create = json!({"c": {"name": "C", "attributes": wrong}});
        let update = json!({&inbox: {"attributes": wrong}});
        let refused = ask(ours, "Mailbox/set", json!({"create": create, "update": update}));
        for refused in [&refused["notCreated"]["c"], &refused["notUpdated"][&inbox]] {
            assert_eq!(refused["properties"], json!(["attributes"]), "{wrong}: {refused}");
        }
    }
    let made = ask(ours, "Mailbox/set", json!({"create": {"c": {"name": "C", "attributes": {"color": "#00ff00"}}}}));
    let id = made["created"]["c"]["id"].clone();
    assert!(made["created"]["c"].get("attributes").is_none(), "the client knows what it said: {made}");
    assert_eq!(ask(ours, "Mailbox/get", json!({"ids": [id]}))["list"][0]["attributes"]["color"], "#00ff00");
    assert!(
        ask(plain, "Mailbox/set", json!({"create": {"d": {"name": "D"}}}))["created"]["d"].get("attributes").is_none()
    );
}

#[test]
fn mailboxes_are_sorted_and_filtered_as_lists_and_as_trees() {
    let (context, account) = made();
    let answer = set(
        &context,
        &account,
        json!({"create": {
            "b": {"name": "b", "sortOrder": 2}, "a": {"name": "a", "sortOrder": 3}, "ax": {"name": "x", "parentId": "#a", "sortOrder": 1},
            "bx": {"name": "X", "parentId": "#b", "sortOrder": 9, "isSubscribed": false}, "bxy": {"name": "by", "parentId": "#bx"},
        }}),
    );
    let names: BTreeMap<String, String> = ["a", "b", "ax", "bx", "bxy"]
        .into_iter()
        .map(|name| (answer["created"][name]["id"].as_str().unwrap().to_owned(), name.to_owned()))
        .collect();
    let query = |mut arguments: Value| {
        arguments["accountId"] = account.clone().into();
        let (name, answer) = call(&context, "Mailbox/query", &arguments);
        assert_eq!(name, "Mailbox/query", "{answer}");
        let ids = answer["ids"].as_array().unwrap().iter();
        ids.filter_map(|id| names.get(id.as_str().unwrap()).cloned()).collect::<Vec<_>>().join(" ")
    };
    let by = |property: &str| json!([{"property": property}]);
    assert_eq!(query(json!({"sort": by("name")})), "a b bxy ax bx");
    assert_eq!(query(json!({"sort": by("name"), "sortAsTree": true})), "a ax b bx bxy");
    assert_eq!(
        query(json!({"sort": [{"property": "sortOrder", "isAscending": false}], "sortAsTree": true})),
        "a ax b bx bxy"
    );
    assert_eq!(query(json!({"sort": by("sortOrder"), "sortAsTree": true})), "b bx bxy a ax");
    assert_eq!(query(json!({"sort": by("name"), "filter": {"name": "x"}})), "ax bx");
    assert_eq!(query(json!({"sort": by("name"), "filter": {"name": "B"}})), "b bxy");
    assert_eq!(query(json!({"sort": by("name"), "filter": {"name": "b"}, "filterAsTree": true})), "b");
    assert_eq!(query(json!({"filter": {"isSubscribed": false, "hasAnyRole": false}})), "bx");
    assert_eq!(query(json!({"sort": by("name"), "filter": {"parentId": null, "role": null}})), "a b");
    let not = json!({"operator": "NOT", "conditions": [{"parentId": null}, {"name": "y"}]});
    assert_eq!(query(json!({"sort": by("name"), "filter": not})), "ax bx");
    for (arguments, wanted) in [
        (json!({"filter": {"colour": "red"}}), "unsupportedFilter"),
        (json!({"filter": []}), "invalidArguments"),
        (json!({"filter": {"operator": "XOR", "conditions": []}}), "invalidArguments"),
        (json!({"sort": by("colour")}), "unsupportedSort"),
        (json!({"sort": [{"property": "name", "collation": "i;none"}]}), "unsupportedSort"),
        (json!({"anchor": "none"}), "anchorNotFound"),
        (json!({"limit": -1}), "invalidArguments"),
        (json!({"position": "1"}), "invalidArguments"),
    ] {
        let mut arguments = arguments;
        arguments["accountId"] = account.clone().into();
        assert_eq!(error(&context, "Mailbox/query", &arguments), wanted, "{arguments}");
    }
    // Sections of a list (RFC 8620 §5.5).
    let names_of = |mut arguments: Value| {
        arguments["sort"] = by("name");
        arguments["filter"] = json!({"role": null});
        query(arguments)
    };
    let ax = names.iter().find(|(_, name)| *name == "ax").unwrap().0;
    assert_eq!(names_of(json!({"position": 1, "limit": 2})), "b bxy");
    assert_eq!(names_of(json!({"position": -2})), "ax bx");
    assert_eq!(names_of(json!({"position": -20, "limit": 1})), "a");
    assert_eq!(names_of(json!({"position": 9})), "");
    assert_eq!(names_of(json!({"anchor": ax, "anchorOffset": -1, "limit": 2, "position": 7})), "bxy ax");
    assert_eq!(names_of(json!({"anchor": ax, "anchorOffset": -9, "limit": 1})), "a");
    assert_eq!(names_of(json!({"limit": 0})), "");
    // What the server limits by itself it says; the total where it is asked for.
    let said = |mut arguments: Value| {
        arguments["accountId"] = account.clone().into();
        let (_, answer) = call(&context, "Mailbox/query", &arguments);
        (answer.get("limit").cloned(), answer.get("total").is_some())
    };
    assert_eq!(said(json!({})), (Some(json!(10_000)), false));
    assert_eq!(said(json!({"limit": 10_001, "calculateTotal": true})), (Some(json!(10_000)), true));
    assert_eq!(said(json!({"limit": 5, "calculateTotal": false})), (None, false));
    let asked = json!({"accountId": account, "limit": 10_001});
    assert_eq!(call(&context, "Email/query", &asked).1["limit"], 10_000);
}

/// Applies /queryChanges to an old list (RFC 8620 §5.6) and compares with a new one, over changes of every kind.
#[test]
fn query_changes_lead_from_the_old_list_to_the_new() {
    let (context, account) = made();
    let answer = set(
        &context,
        &account,
        json!({"create": {
            "a": {"name": "a"}, "b": {"name": "b"}, "ax": {"name": "x", "parentId": "#a"}, "axy": {"name": "y", "parentId": "#ax"},
        }}),
    );
    let id = |name: &str| answer["created"][name]["id"].as_str().unwrap().to_owned();
    let steps = [
        json!({"update": {id("a"): {"name": "z"}}}),
        json!({"update": {id("ax"): {"parentId": id("b")}}}),
        json!({"create": {"n": {"name": "n", "parentId": id("ax")}}}),
        json!({"update": {id("b"): {"name": "y", "sortOrder": 5}}}),
        json!({"destroy": [id("axy")]}),
        json!({"update": {id("a"): {"parentId": id("ax"), "name": "b"}}}),
    ];
    let questions = [
        json!({"sort": [{"property": "name"}], "sortAsTree": true}),
        json!({"sort": [{"property": "sortOrder", "isAscending": false}]}),
        json!({"filter": {"name": "b"}, "filterAsTree": true}),
        json!({}),
    ];
    let with = |question: &Value, more: Value| {
        let mut arguments = question.clone();
        arguments["accountId"] = account.clone().into();
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    for step in steps {
        let old: Vec<Value> =
            questions.iter().map(|q| call(&context, "Mailbox/query", &with(q, json!({}))).1).collect();
        let done = set(&context, &account, step.clone());
        assert!(done["notUpdated"].is_null() && done["notCreated"].is_null(), "{done}");
        for (question, old) in questions.iter().zip(&old) {
            let since = json!({"sinceQueryState": old["queryState"], "calculateTotal": true});
            let (_, changes) = call(&context, "Mailbox/queryChanges", &with(question, since));
            let mut list = old["ids"].as_array().unwrap().clone();
            list.retain(|id| !changes["removed"].as_array().unwrap().contains(id));
            for added in changes["added"].as_array().unwrap() {
                list.insert(usize::try_from(added["index"].as_u64().unwrap()).unwrap(), added["id"].clone());
            }
            let (_, new) = call(&context, "Mailbox/query", &with(question, json!({})));
            assert_eq!(new["ids"], json!(list), "{step} {question} {changes}");
            assert_eq!((&changes["total"], &changes["newQueryState"]), (&json!(list.len()), &new["queryState"]));
        }
    }
    let late = with(&questions[0], json!({"sinceQueryState": "no-state"}));
    assert_eq!(error(&context, "Mailbox/queryChanges", &late), "cannotCalculateChanges");
    let first =
        with(&questions[0], json!({"sinceQueryState": format!("{:x}-0", context.store.epoch()), "maxChanges": 1}));
    assert_eq!(error(&context, "Mailbox/queryChanges", &first), "tooManyChanges");
    // None at all may be all that a client takes.
    let (_, now) = call(&context, "Mailbox/query", &with(&questions[0], json!({})));
    let none = with(&questions[0], json!({"sinceQueryState": now["queryState"], "maxChanges": 0}));
    assert_eq!(call(&context, "Mailbox/queryChanges", &none).1["removed"], json!([]));
}

/// RFC 8620 §5.3: what is valid in the end is allowed, though no order of steps is.
#[test]
fn names_and_roles_are_exchanged_in_one_call() {
    let (context, account) = made();
    let answer = set(
        &context,
        &account,
        json!({"create": {"a": {"name": "A"}, "b": {"name": "B", "role": "important"}, "c": {"name": "C"}, "x": {"name": "X"}}}),
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
    assert_eq!((updated.len(), &answer["notUpdated"][id("x")]["type"]), (4, &json!("alreadyExists")), "{answer}");
    let all = get(&context, &account);
    let at = |name: &str| all[name]["id"].as_str().unwrap().to_owned();
    assert_eq!([at("B"), at("C"), at("A"), at("X")], [id("a"), id("b"), id("c"), id("x")]);
    assert_eq!((&all["C"]["role"], &all["Trash"]["role"]), (&json!("trash"), &json!("important")));
    assert!(context.store.check().unwrap().is_empty());
}

/// RFC 8620 §5.3: an error lists all the properties that are wrong; null is the default of a property.
#[test]
fn all_that_is_wrong_is_told_and_null_is_the_default() {
    let (context, account) = made();
    let wrong = json!({"role": "none", "parentId": "#none", "sortOrder": -1, "myRights": {}, "isSubscribed": 1});
    let answer = set(&context, &account, json!({"create": {"x": wrong, "y": {"name": "Y", "sortOrder": 7}}}));
    let mut named: Vec<&str> =
        answer["notCreated"]["x"]["properties"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, ["isSubscribed", "myRights", "name", "parentId", "role", "sortOrder"]);
    let y = answer["created"]["y"]["id"].as_str().unwrap();
    let answer = set(&context, &account, json!({"update": {y: {"sortOrder": null, "role": null}}}));
    assert_eq!(answer["updated"], json!({y: null}), "{answer}");
    assert_eq!(get(&context, &account)["Y"]["sortOrder"], 0);
    let answer = set(&context, &account, json!({"update": {y: {"role": "none", "totalEmails": 5}}}));
    assert_eq!(answer["notUpdated"][y]["properties"], json!(["role", "totalEmails"]));
}

/// RFC 8621 §1.3.1: no deeper than maxMailboxDepth, by moving a whole branch either.
#[test]
fn a_tree_is_no_deeper_than_may_be() {
    let (context, account) = made();
    let chain = |name: &str, length: usize| {
        let mut create = serde_json::Map::new();
        for n in 0..length {
            let parent = if n == 0 { Value::Null } else { format!("#{name}{}", n - 1).into() };
            create.insert(format!("{name}{n}"), json!({"name": format!("{name}{n}"), "parentId": parent}));
        }
        set(&context, &account, json!({"create": create}))
    };
    let (long, short) = (chain("l", 17), chain("s", 3));
    assert_eq!(long["notCreated"].as_object().unwrap().keys().collect::<Vec<_>>(), ["l16"], "{long}");
    let (top, at) = (&short["created"]["s0"]["id"], |n: usize| long["created"][format!("l{n}")]["id"].clone());
    let top = top.as_str().unwrap();
    let answer = set(&context, &account, json!({"update": {top: {"parentId": at(13)}}}));
    assert_eq!(answer["notUpdated"][top]["properties"], json!(["parentId"]));
    let answer = set(&context, &account, json!({"update": {top: {"parentId": at(12)}}}));
    assert_eq!(answer["updated"], json!({top: null}));
}

/// RFC 8621 §2.5: a whole branch goes with its emails; what stays loses none.
#[test]
fn a_branch_goes_with_its_emails_and_what_stays_keeps_them() {
    let context = context();
    let account = letters(&context, 3);
    let made = set(
        &context,
        &account,
        json!({"create": {
            "a": {"name": "A"}, "b": {"name": "B", "parentId": "#a"}, "c": {"name": "C", "parentId": "#b"},
            "k": {"name": "K"}, "l": {"name": "L", "parentId": "#k"},
        }}),
    );
    let id = |name: &str| made["created"][name]["id"].as_str().unwrap().to_owned();
    let (_, found) = call(&context, "Email/query", &json!({"accountId": account}));
    let ids = found["ids"].as_array().unwrap().clone();
    for (email, mailbox) in [(&ids[0], "a"), (&ids[1], "c"), (&ids[2], "k")] {
        let patch =
            json!({"accountId": account, "update": {email.as_str().unwrap(): {"mailboxIds": {id(mailbox): true}}}});
        assert!(call(&context, "Email/set", &patch).1["notUpdated"].is_null());
    }
    let all = json!({"destroy": [id("a"), id("b"), id("c"), id("k")], "onDestroyRemoveEmails": true});
    let answer = set(&context, &account, all);
    let gone: std::collections::BTreeSet<&str> =
        answer["destroyed"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(gone, [id("a"), id("b"), id("c")].iter().map(String::as_str).collect(), "{answer}");
    assert_eq!(answer["notDestroyed"][id("k")]["type"], "mailboxHasChild");
    let (_, left) = call(&context, "Email/query", &json!({"accountId": account}));
    assert_eq!(left["ids"], json!([ids[2]]));
    assert!(context.store.check().unwrap().is_empty());
}

/// RFC 8620 §5.4 knows the error; Cyrus, Stalwart and others give it for a name, and clients look
/// for the id.
#[test]
fn duplicate_name_tells_the_mailbox_that_has_it() {
    let context = context();
    let ann = account_of(&context);
    let (_, all) = call(&context, "Mailbox/get", &json!({"accountId": ann}));
    let inbox = all["list"].as_array().unwrap().iter().find(|one| one["role"] == "inbox").unwrap().clone();
    let again = json!({"accountId": ann, "create": {"x": {"name": inbox["name"]}}});
    let error = call(&context, "Mailbox/set", &again).1["notCreated"]["x"].clone();
    assert_eq!(error, json!({"type": "alreadyExists", "existingId": inbox["id"]}));
    let other = json!({"accountId": ann, "create": {"x": {"name": "Other"}}});
    let other = call(&context, "Mailbox/set", &other).1["created"]["x"]["id"].as_str().unwrap().to_owned();
    let renamed = json!({"accountId": ann, "update": {&other: {"name": inbox["name"]}}});
    let error = call(&context, "Mailbox/set", &renamed).1["notUpdated"][&other].clone();
    assert_eq!(error, json!({"type": "alreadyExists", "existingId": inbox["id"]}));
}
