//! Edges of the standard methods that no type has a file of tests for.

use serde_json::{Value, json};

use super::{account_of, call, context, error, letters};

/// RFC 8621 §3.
#[test]
fn threads_run_oldest_first() {
    let context = context();
    let account = letters(&context, 3);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = account.clone().into();
        call(&context, name, &arguments).1
    };
    let newest = ask("Email/query", json!({}))["ids"].clone();
    let threads = ask("Thread/get", json!({"ids": null}))["list"].as_array().unwrap().clone();
    let oldest: Vec<&Value> = newest.as_array().unwrap().iter().rev().collect();
    let in_threads: Vec<&Value> = threads.iter().flat_map(|one| one["emailIds"].as_array().unwrap()).collect();
    assert_eq!(in_threads.len(), oldest.len());
    for thread in &threads {
        let ids = thread["emailIds"].as_array().unwrap();
        let places: Vec<usize> = ids.iter().map(|id| oldest.iter().position(|known| known == &id).unwrap()).collect();
        assert!(places.is_sorted(), "{thread}");
    }
    let got = ask("Thread/get", json!({"ids": ["t0", threads[0]["id"]], "properties": ["emailIds"]}));
    assert_eq!((&got["list"][0]["emailIds"], &got["notFound"]), (&threads[0]["emailIds"], &json!(["t0"])));
}

/// RFC 8620 §5.3, `overQuota`: nothing is made, and what is there stays.
#[test]
fn an_account_that_is_full_takes_no_more() {
    let context = context();
    let account = letters(&context, 2);
    call(&context, "Account/set", &json!({"account": account, "quotaEmails": 2}));
    let (_, boxes) = call(&context, "Mailbox/query", &json!({"accountId": account, "filter": {"role": "drafts"}}));
    let drafts = boxes["ids"][0].as_str().unwrap();
    let email = json!({"mailboxIds": {drafts: true}, "subject": "one too many"});
    let set = |email: &Value| call(&context, "Email/set", &json!({"accountId": account, "create": {"k": email}})).1;
    let refused = set(&email);
    assert_eq!((&refused["created"], &refused["notCreated"]["k"]["type"]), (&Value::Null, &json!("overQuota")));
    assert_eq!(refused["oldState"], refused["newState"]);
    let (_, found) = call(&context, "Email/query", &json!({"accountId": account, "calculateTotal": true}));
    assert_eq!(found["total"], 2);
    let (_, gone) = call(&context, "Email/set", &json!({"accountId": account, "destroy": [found["ids"][0]]}));
    assert_eq!(gone["destroyed"], json!([found["ids"][0]]));
    assert_eq!(set(&email)["notCreated"], Value::Null);
}

/// RFC 8620 §3.6.2: whose account it is, and whether there is one, nobody else is told.
#[test]
fn the_accounts_of_others_are_not_there() {
    let mut context = context();
    let ann = account_of(&context);
    let (_, bob) = call(&context, "Account/get", &json!({"account": "bob@example.org"}));
    context.caller = crate::jmap::Caller { account: Some(ann.parse().unwrap()), ..crate::jmap::Caller::default() };
    for method in
        ["Mailbox/get", "Email/query", "Identity/get", "VacationResponse/get", "Quota/get", "EmailSubmission/get"]
    {
        for account in [bob["id"].clone(), json!("a7vvvvvg")] {
            assert_eq!(error(&context, method, &json!({"accountId": account})), "accountNotFound", "{method}");
        }
        assert_eq!(call(&context, method, &json!({"accountId": ann})).0, method);
    }
    for method in ["Account/list", "Account/add", "Store/check", "Service/status"] {
        assert_eq!(error(&context, method, &json!({"address": "x@example.org"})), "forbidden", "{method}");
    }
}
