//! What queries ask of listings, and what they leave to upkeep.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{call, context, context_over, letters, serve_listing_requests};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::{Error, NewMailbox};

#[test]
fn listing_that_a_query_asked_for_serves_once_upkeep_made_it() {
    let context = context();
    let id = letters(&context, 300);
    let unseen = json!({"accountId": id, "mailbox": "inbox", "filter": {"notKeyword": "$seen"}, "calculateTotal": true});
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
    // Explaining makes nothing.
    assert_eq!(explained(), before);
    let (_, first) = call(&context, "Mail/query", &unseen);
    assert_eq!(explained(), before, "the query itself makes nothing either");
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
    // The committer may be behind: one change of our own, and the engine has refused that alone.
    let inbox = NewMailbox { name: "Later".into(), parent: None, role: None, sort_order: 0 };
    let done = context.store.commit(id.parse().unwrap(), |txn| txn.create_mailbox(&inbox));
    assert_eq!(done.and_then(|(_, ticket)| ticket.wait_blocking()), Err(Error::Full));
    assert_eq!(engine.refused(), 1);
    assert!(context.store.take_listing_request(id.parse().unwrap()).is_some(), "upkeep was asked");
}
