//! Queries read maintained listings and request missing ones; only upkeep makes them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{call, context, context_over, letters, serve_listing_requests};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::{Error, NewMailbox};

#[test]
fn query_uses_the_requested_listing_once_upkeep_made_it() {
    let context = context();
    // For fewer emails than `query::plan::MIN_MAINTAINED_EMAILS` no listing is requested.
    let id = letters(&context, 300);
    let unseen = json!({"accountId": id, "mailbox": "inbox", "filter": {"notKeyword": "$seen"},
        "calculateTotal": true});
    let explained = || {
        let mut arguments = unseen.clone();
        arguments["explain"] = true.into();
        call(&context, "Mail/query", &arguments).1["plan"].clone()
    };
    let before = explained();
    assert_eq!(
        (&before["strategy"], &before["wanted"]["view"]),
        (&json!("generic"), &json!("unseen"))
    );
    assert!(before["text"].as_str().unwrap().contains("\nwanted: mailbox "), "{before}");
    // Explaining a query requests no listing.
    assert_eq!(explained(), before);
    let (_, first) = call(&context, "Mail/query", &unseen);
    assert_eq!(explained(), before, "the query itself makes no listing");
    serve_listing_requests(&context, &id);
    let after = explained();
    assert_eq!(
        (&after["strategy"], &after["wanted"]),
        (&json!("listing"), &Value::Null),
        "{after}"
    );
    let (_, second) = call(&context, "Mail/query", &unseen);
    assert_eq!((&first["ids"], &first["total"]), (&second["ids"], &second["total"]));
    assert_eq!(first["queryState"], second["queryState"]);
}

/// A read must neither wait for the disk nor fail when it is full.
#[test]
fn queries_write_nothing() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let context = context_over(engine.clone());
    let (id, filter) = (letters(&context, 300), json!({"notKeyword": "$seen"}));
    let query = json!({"accountId": id, "filter": filter});
    let state = call(&context, "Email/query", &query).1["queryState"].clone();
    serve_listing_requests(&context, &id);
    engine.fail_after(0, Error::Full);
    let flagged = json!({"accountId": id, "filter": {"hasKeyword": "$flagged"}});
    let changes = json!({"accountId": id, "filter": filter, "sinceQueryState": state});
    for (method, arguments) in [
        ("Email/query", &flagged),
        ("Email/query", &query),
        ("Email/queryChanges", &changes),
        (
            "Mail/query",
            &json!({"accountId": id, "mailbox": "inbox", "filter": {"notKeyword": "$seen"}}),
        ),
        ("Mailbox/get", &json!({"accountId": id})),
    ] {
        let (kind, answer) = call(&context, method, arguments);
        assert_eq!(kind, method, "{answer}");
    }
    // A commit that fails shows that the committer has caught up, and that the queries above made
    // no commit.
    let later = NewMailbox { name: "Later".into(), parent: None, role: None, sort_order: 0 };
    let done = context.store.commit(id.parse().unwrap(), |txn| txn.create_mailbox(&later));
    assert_eq!(done.and_then(|(_, ticket)| ticket.wait_blocking()), Err(Error::Full));
    assert_eq!(engine.refused(), 1);
    assert!(
        context.store.take_listing_request(id.parse().unwrap()).is_some(),
        "a listing was requested"
    );
}
