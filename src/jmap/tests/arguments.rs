//! The arguments that methods refuse.

use serde_json::json;

use super::{account_of, call, context, error};

/// RFC 8620 §3.9.
#[test]
fn unknown_argument_is_invalid() {
    let context = context();
    let ann = account_of(&context);
    for method in [
        "Mailbox/get",
        "Mailbox/changes",
        "Mailbox/query",
        "Mailbox/queryChanges",
        "Mailbox/set",
        "Thread/get",
        "Email/get",
        "Email/query",
        "Email/set",
        "Email/import",
        "Email/parse",
        "Email/copy",
        "SearchSnippet/get",
        "Identity/set",
        "EmailSubmission/set",
        "VacationResponse/set",
        "Quota/get",
        "SieveScript/get",
        "SieveScript/set",
        "SieveScript/query",
        "SieveScript/validate",
        "Blob/get",
        "Blob/copy",
        "Blob/upload",
        "MDN/send",
    ] {
        let unknown = json!({"accountId": ann, "colour": "red"});
        let (_, refused) = call(&context, method, &unknown);
        assert_eq!(refused["type"], "invalidArguments", "{method}");
        assert!(
            refused["description"].as_str().unwrap().ends_with(" has no argument colour"),
            "{refused}"
        );
    }
    let set = json!({"accountId": ann, "create": {"x": {"name": "Colours"}}, "ifInstate": "y"});
    assert_eq!(error(&context, "Mailbox/set", &set), "invalidArguments");
    assert_eq!(
        call(&context, "Mailbox/query", &json!({"accountId": ann, "filter": {"name": "Colours"}}))
            .1["ids"],
        json!([])
    );
    // Core/echo takes any argument. An argument of one method is unknown to another.
    assert_eq!(call(&context, "Core/echo", &json!({"colour": "red"})).1, json!({"colour": "red"}));
    assert_eq!(
        error(&context, "PushSubscription/set", &json!({"ifInState": "x"})),
        "invalidArguments"
    );
    let arguments =
        json!({"accountId": ann, "collapseThreads": true, "sort": null, "calculateTotal": false});
    assert_eq!(call(&context, "Email/query", &arguments).0, "Email/query");
    assert_eq!(error(&context, "Mailbox/query", &arguments), "invalidArguments");
}

#[test]
fn queued_messages_are_named_by_an_id_or_selected_with_all() {
    let context = context();
    let ann = account_of(&context);
    for method in ["Queue/retry", "Queue/hold", "Queue/release", "Queue/remove"] {
        let of = |more: serde_json::Value| {
            let mut arguments = json!({"accountId": ann});
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            arguments
        };
        for (more, expected) in [
            (json!({}), "invalidArguments"),
            (json!({"id": "q1", "all": true}), "invalidArguments"),
            (json!({"id": "q1", "kind": "reply"}), "invalidArguments"),
            (json!({"id": "q1", "queuedBefore": "2026-11-21T09:00:00Z"}), "invalidArguments"),
            (json!({"id": "q1", "kind": null, "all": false}), "notFound"),
        ] {
            assert_eq!(error(&context, method, &of(more.clone())), expected, "{method} {more}");
        }
        let all = of(json!({"all": true, "kind": "reply"}));
        assert_eq!(call(&context, method, &all).1["changed"], 0);
    }
}
