//! Rules of the standard methods that concern several types, and the methods of Thread.

use serde_json::{Value, json};

use super::{account_of, call, context, error, letters};
use crate::jmap::{CAPABILITIES, Caller, run};
use crate::wire::jmap::{ADMIN, CORE, MAIL, parse};

/// RFC 8621 §3.
#[test]
fn thread_lists_its_emails_oldest_first() {
    let context = context();
    // The two letters of a number have the same Message-ID, so they are one thread.
    let account = letters(&context, 3);
    letters(&context, 3);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = account.clone().into();
        call(&context, name, &arguments).1
    };
    let newest = ask("Email/query", json!({}))["ids"].clone();
    let threads = ask("Thread/get", json!({"ids": null}))["list"].as_array().unwrap().clone();
    let oldest: Vec<&Value> = newest.as_array().unwrap().iter().rev().collect();
    let in_threads: Vec<&Value> =
        threads.iter().flat_map(|one| one["emailIds"].as_array().unwrap()).collect();
    assert_eq!(in_threads.len(), oldest.len());
    for thread in &threads {
        let ids = thread["emailIds"].as_array().unwrap();
        let positions: Vec<usize> =
            ids.iter().map(|id| oldest.iter().position(|other| other == &id).unwrap()).collect();
        assert!(positions.len() == 2 && positions.is_sorted(), "{thread}");
    }
    let got =
        ask("Thread/get", json!({"ids": ["t0", threads[0]["id"]], "properties": ["emailIds"]}));
    assert_eq!(
        (&got["list"][0]["emailIds"], &got["notFound"]),
        (&threads[0]["emailIds"], &json!(["t0"]))
    );
}

/// RFC 8620 §5.3 `overQuota`.
#[test]
fn full_account_refuses_new_emails_with_over_quota() {
    let context = context();
    let account = letters(&context, 2);
    call(&context, "Account/set", &json!({"account": account, "quotaEmails": 2}));
    let (_, boxes) = call(
        &context,
        "Mailbox/query",
        &json!({"accountId": account, "filter": {"role": "drafts"}}),
    );
    let drafts = boxes["ids"][0].as_str().unwrap();
    let email = json!({"mailboxIds": {drafts: true}, "subject": "one too many"});
    let set = |email: &Value| {
        call(&context, "Email/set", &json!({"accountId": account, "create": {"k": email}})).1
    };
    let refused = set(&email);
    assert_eq!(
        (&refused["created"], &refused["notCreated"]["k"]["type"]),
        (&Value::Null, &json!("overQuota"))
    );
    assert_eq!(refused["oldState"], refused["newState"]);
    let (_, found) =
        call(&context, "Email/query", &json!({"accountId": account, "calculateTotal": true}));
    assert_eq!(found["total"], 2);
    let (_, gone) =
        call(&context, "Email/set", &json!({"accountId": account, "destroy": [found["ids"][0]]}));
    assert_eq!(gone["destroyed"], json!([found["ids"][0]]));
    assert_eq!(set(&email)["notCreated"], Value::Null);
}

/// RFC 8620 §3.6.2: the error does not reveal whether the account exists.
#[test]
fn account_of_another_user_is_reported_as_not_found() {
    let mut context = context();
    let ann = account_of(&context);
    let (_, bob) = call(&context, "Account/get", &json!({"account": "bob@example.org"}));
    context.caller = Caller { account: Some(ann.parse().unwrap()), ..Caller::default() };
    for method in [
        "Mailbox/get",
        "Email/query",
        "Identity/get",
        "VacationResponse/get",
        "Quota/get",
        "EmailSubmission/get",
    ] {
        // The second one is the id of no account.
        for account in [bob["id"].clone(), json!("a7vvvvvg")] {
            assert_eq!(
                error(&context, method, &json!({"accountId": account})),
                "accountNotFound",
                "{method}"
            );
        }
        assert_eq!(call(&context, method, &json!({"accountId": ann})).0, method);
    }
    for method in ["Account/list", "Account/add", "Store/check", "Service/status"] {
        assert_eq!(
            error(&context, method, &json!({"address": "x@example.org"})),
            "forbidden",
            "{method}"
        );
    }
}

/// RFC 8620 §5.3: `maxObjectsInSet` counts creations, updates and destructions together.
#[test]
fn set_with_too_many_objects_is_too_large() {
    let context = context();
    let account = account_of(&context);
    let ids = |from: usize, to: usize| (from..to).map(|n| format!("x{n}")).collect::<Vec<String>>();
    let patches = |count: usize| {
        ids(0, count).into_iter().map(|id| (id, json!({}))).collect::<serde_json::Map<_, _>>()
    };
    for method in
        ["Mailbox/set", "Email/set", "Identity/set", "EmailSubmission/set", "VacationResponse/set"]
    {
        let set = |create: usize, update: usize, destroy: usize| {
            json!({
                "accountId": account, "create": patches(create), "update": patches(update),
                "destroy": ids(update, update + destroy),
            })
        };
        // `limits::MAX_OBJECTS_IN_SET` is 1000.
        assert_eq!(error(&context, method, &set(1, 500, 500)), "requestTooLarge", "{method}");
        assert_eq!(call(&context, method, &set(0, 500, 500)).0, method);
    }
}

/// RFC 8621 §1.5: the state of `EmailDelivery` changes when an email is added, and only then.
#[test]
fn added_emails_move_the_delivery_state() {
    let context = context();
    let account = letters(&context, 1);
    let (ann, store) = (account.parse().unwrap(), &context.store);
    let state = || store.snapshot().state(ann, crate::model::DataType::EmailDelivery).unwrap();
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = account.clone().into();
        let (kind, answer) = call(&context, name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    };
    let inbox = ask("Mailbox/query", json!({"filter": {"role": "inbox"}}))["ids"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let first = ask("Email/query", json!({}))["ids"][0].as_str().unwrap().to_owned();
    let mut last = state();
    let mut assert_moved = |what: &str, is_expected: bool| {
        let now = state();
        assert_eq!(now != std::mem::replace(&mut last, now), is_expected, "{what}");
    };
    let made =
        ask("Email/set", json!({"create": {"k": {"mailboxIds": {&inbox: true}, "subject": "x"}}}));
    assert_moved("made", true);
    let made = made["created"]["k"]["id"].as_str().unwrap();
    ask("Email/set", json!({"update": {made: {"keywords/$seen": true}}}));
    assert_moved("read", false);
    ask("Email/set", json!({"destroy": [first]}));
    assert_moved("destroyed", false);
    let blob =
        context.keep_upload(ann, b"Subject: y\r\n\r\nz", "message/rfc822").unwrap().to_string();
    assert_moved("uploaded", false);
    ask("Email/import", json!({"emails": {"k": {"blobId": blob, "mailboxIds": {&inbox: true}}}}));
    assert_moved("imported", true);
    ask("Mailbox/set", json!({"update": {&inbox: {"sortOrder": 3}}}));
    assert_moved("a mailbox changed", false);
    letters(&context, 1);
    assert_moved("delivered", true);
}

/// RFC 8620 §1.8: a request that does not use our capability cannot use our conditions.
#[test]
fn extension_conditions_require_the_vendor_capability() {
    let context = context();
    let account = letters(&context, 1);
    for (method, condition, more) in [
        ("Email/query", "attachmentName", json!({})),
        ("Email/query", "attachmentType", json!({})),
        ("SearchSnippet/get", "attachmentName", json!({"emailIds": []})),
    ] {
        for (using, wanted) in [(CAPABILITIES, method), (&[CORE, MAIL][..], "error")] {
            let mut arguments = json!({"accountId": account,
                "filter": {"operator": "NOT", "conditions": [{condition: "x"}]}});
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let request = json!({"using": using, "methodCalls": [[method, arguments, "0"]]});
            let answer =
                run(&context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap())
                    .unwrap()
                    .json();
            assert_eq!(answer["methodResponses"][0][0], wanted, "{answer}");
        }
    }
}

#[test]
fn thread_list_shows_unread_count_and_latest_email() {
    let context = context();
    let account = letters(&context, 2);
    let newest = call(&context, "Email/query", &json!({"accountId": account, "limit": 1})).1["ids"]
        [0]
    .clone();
    for method in ["Mail/list", "Mail/query"] {
        let list = |collapse: bool| {
            let arguments =
                json!({"accountId": account, "mailbox": "inbox", "collapseThreads": collapse});
            call(&context, method, &arguments).1["list"].clone()
        };
        let thread = list(true)[0]["thread"].clone();
        let wanted = json!({
            "emails": 1, "unreadEmails": 1, "latestEmailId": newest,
            "latestReceivedAt": list(true)[0]["receivedAt"],
        });
        assert_eq!(thread, wanted, "{method}");
        assert!(list(false)[0].get("thread").is_none());
    }
    // In Thread/get these properties require our capability.
    let ask = |using: &[&str], arguments: Value| {
        let request = json!({"using": using, "methodCalls": [["Thread/get", arguments, "0"]]});
        run(&context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).unwrap().json()
            ["methodResponses"][0][1]
            .clone()
    };
    let plain = ask(&[CORE, MAIL], json!({"accountId": account, "ids": null}));
    assert_eq!(plain["list"][1].as_object().unwrap().len(), 2, "id and emailIds: {plain}");
    let named = json!({"accountId": account, "ids": null, "properties": ["unreadEmails"]});
    assert_eq!(ask(&[CORE, MAIL], named.clone())["type"], "invalidArguments");
    assert_eq!(ask(&[CORE, MAIL, ADMIN], named)["list"][1]["unreadEmails"], 1);
    let ours = ask(&[CORE, MAIL, ADMIN], json!({"accountId": account, "ids": null}));
    assert_eq!(ours["list"][1]["latestEmailId"], newest, "{ours}");
}
