//! Mailbox/query and Mailbox/queryChanges (RFC 8621 §2.3, §2.4).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{context_and_account, set};
use crate::jmap::tests::{call, error};

#[test]
fn mailboxes_are_sorted_and_filtered_as_lists_and_as_trees() {
    let (context, account) = context_and_account();
    let answer = set(
        &context,
        &account,
        json!({"create": {
            "b": {"name": "b", "sortOrder": 2}, "a": {"name": "a", "sortOrder": 3},
            "ax": {"name": "x", "parentId": "#a", "sortOrder": 1},
            "bx": {"name": "X", "parentId": "#b", "sortOrder": 9, "isSubscribed": false},
            "bxy": {"name": "by", "parentId": "#bx"},
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
        query(
            json!({"sort": [{"property": "sortOrder", "isAscending": false}], "sortAsTree": true})
        ),
        "a ax b bx bxy"
    );
    assert_eq!(query(json!({"sort": by("sortOrder"), "sortAsTree": true})), "b bx bxy a ax");
    assert_eq!(query(json!({"sort": by("name"), "filter": {"name": "x"}})), "ax bx");
    assert_eq!(query(json!({"sort": by("name"), "filter": {"name": "B"}})), "b bxy");
    // The name of `bxy` matches, but that of its parent `bx` does not.
    assert_eq!(
        query(json!({"sort": by("name"), "filter": {"name": "b"}, "filterAsTree": true})),
        "b"
    );
    assert_eq!(query(json!({"filter": {"isSubscribed": false, "hasAnyRole": false}})), "bx");
    assert_eq!(
        query(json!({"sort": by("name"), "filter": {"parentId": null, "role": null}})),
        "a b"
    );
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
    assert_eq!(
        names_of(json!({"anchor": ax, "anchorOffset": -1, "limit": 2, "position": 7})),
        "bxy ax"
    );
    assert_eq!(names_of(json!({"anchor": ax, "anchorOffset": -9, "limit": 1})), "a");
    assert_eq!(names_of(json!({"limit": 0})), "");
    // The answer has the limit if the server set it, and the total if the client requested it.
    let limit_and_total = |mut arguments: Value| {
        arguments["accountId"] = account.clone().into();
        let (_, answer) = call(&context, "Mailbox/query", &arguments);
        (answer.get("limit").cloned(), answer.get("total").is_some())
    };
    assert_eq!(limit_and_total(json!({})), (Some(json!(10_000)), false));
    assert_eq!(
        limit_and_total(json!({"limit": 10_001, "calculateTotal": true})),
        (Some(json!(10_000)), true)
    );
    assert_eq!(limit_and_total(json!({"limit": 5, "calculateTotal": false})), (None, false));
    let arguments = json!({"accountId": account, "limit": 10_001});
    assert_eq!(call(&context, "Email/query", &arguments).1["limit"], 10_000);
}

/// Applies /queryChanges to an old list (RFC 8620 §5.6) after each of several changes, and compares
/// the result with a new list.
#[test]
fn query_changes_turn_the_old_list_into_the_new_one() {
    let (context, account) = context_and_account();
    let answer = set(
        &context,
        &account,
        json!({"create": {
            "a": {"name": "a"}, "b": {"name": "b"}, "ax": {"name": "x", "parentId": "#a"},
            "axy": {"name": "y", "parentId": "#ax"},
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
    let queries = [
        json!({"sort": [{"property": "name"}], "sortAsTree": true}),
        json!({"sort": [{"property": "sortOrder", "isAscending": false}]}),
        json!({"filter": {"name": "b"}, "filterAsTree": true}),
        json!({}),
    ];
    let with = |query: &Value, more: Value| {
        let mut arguments = query.clone();
        arguments["accountId"] = account.clone().into();
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        arguments
    };
    for step in steps {
        let old: Vec<Value> = queries
            .iter()
            .map(|q| call(&context, "Mailbox/query", &with(q, json!({}))).1)
            .collect();
        let done = set(&context, &account, step.clone());
        assert!(done["notUpdated"].is_null() && done["notCreated"].is_null(), "{done}");
        for (query, old) in queries.iter().zip(&old) {
            let since = json!({"sinceQueryState": old["queryState"], "calculateTotal": true});
            let (_, changes) = call(&context, "Mailbox/queryChanges", &with(query, since));
            let mut list = old["ids"].as_array().unwrap().clone();
            list.retain(|id| !changes["removed"].as_array().unwrap().contains(id));
            for added in changes["added"].as_array().unwrap() {
                list.insert(
                    usize::try_from(added["index"].as_u64().unwrap()).unwrap(),
                    added["id"].clone(),
                );
            }
            let (_, new) = call(&context, "Mailbox/query", &with(query, json!({})));
            assert_eq!(new["ids"], json!(list), "{step} {query} {changes}");
            assert_eq!(
                (&changes["total"], &changes["newQueryState"]),
                (&json!(list.len()), &new["queryState"])
            );
        }
    }
    let late = with(&queries[0], json!({"sinceQueryState": "no-state"}));
    assert_eq!(error(&context, "Mailbox/queryChanges", &late), "cannotCalculateChanges");
    // The state with modseq 0, before the first change.
    let first = with(
        &queries[0],
        json!({"sinceQueryState": format!("{:x}-0", context.store.epoch()), "maxChanges": 1}),
    );
    assert_eq!(error(&context, "Mailbox/queryChanges", &first), "tooManyChanges");
    // `maxChanges` may be 0.
    let (_, now) = call(&context, "Mailbox/query", &with(&queries[0], json!({})));
    let none = with(&queries[0], json!({"sinceQueryState": now["queryState"], "maxChanges": 0}));
    assert_eq!(call(&context, "Mailbox/queryChanges", &none).1["removed"], json!([]));
}
