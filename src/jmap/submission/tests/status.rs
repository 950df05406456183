//! Tests of submissions that wait, are canceled or are held.

use std::sync::Arc;

use super::*;
use crate::jmap::tests::context_over;
use crate::model::{ActionId, ActionState, RecipientState};
use crate::outbox::HELD;
use crate::store::QueueMark;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{DueKey, WakeCondition};

/// RFC 8621 §7.5: destroying the email or the submission does not stop the message.
#[test]
fn message_stays_queued_although_email_and_submission_are_destroyed() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let made = fixture.send(&email, &json!({}))["created"]["s"].clone();
    let id = made["id"].as_str().unwrap();
    fixture.ask("Email/set", json!({"destroy": [email]}));
    assert_eq!(fixture.ask("Email/get", json!({"ids": [email]}))["notFound"], json!([email]));
    let got = fixture.ask("EmailSubmission/get", json!({"ids": [id]}))["list"][0].clone();
    assert_eq!(
        (&got["emailId"], &got["threadId"], &got["undoStatus"]),
        (&json!(email), &made["threadId"], &json!("pending"))
    );
    assert_eq!(
        fixture.ask("EmailSubmission/set", json!({"destroy": [id]}))["destroyed"],
        json!([id])
    );
    assert_eq!(fixture.ask("EmailSubmission/get", json!({"ids": [id]}))["notFound"], json!([id]));
    let snapshot = fixture.context.store.snapshot();
    let action = snapshot.outbox(fixture.id()).unwrap().pop().unwrap();
    assert_eq!((action.state, action.recipients.len()), (ActionState::Waiting, 4));
    let sent = String::from_utf8(snapshot.action_message(fixture.id(), &action).unwrap()).unwrap();
    assert!(sent.ends_with("Subject: lunch\r\n\r\nAt noon?\r\n"), "{sent}");
    assert!(fixture.context.store.check().unwrap().is_empty());
}

#[test]
fn submission_stays_pending_if_a_damaged_queue_prevents_canceling() {
    let engine = Arc::new(MemoryEngine::new());
    let fixture = Fixture::over(context_over(engine.clone()));
    let email = fixture.file(DRAFT);
    let made = fixture.send(&email, &json!({}))["created"]["s"].clone();
    let id = made["id"].as_str().unwrap();
    let carrier = fixture.context.store.snapshot().outbox(fixture.id()).unwrap().pop().unwrap().id;
    // A row says that an action waits for the submission, but there is no such action.
    let lost = DueKey {
        wake: WakeCondition::After(carrier),
        account: fixture.id(),
        action: ActionId(u64::MAX),
    };
    let puts = vec![Put { table: Table::OutboxDue, key: lost.encode(), value: Some(Vec::new()) }];
    engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    let undo = json!({"accountId": fixture.account, "update": {id: {"undoStatus": "canceled"}}});
    assert_eq!(call(&fixture.context, "EmailSubmission/set", &undo).0, "error");
    let got = fixture.ask("EmailSubmission/get", json!({"ids": [id]}))["list"][0].clone();
    assert_eq!(got["undoStatus"], "pending");
    assert_eq!(fixture.context.store.snapshot().outbox(fixture.id()).unwrap().len(), 1);
}

#[test]
fn waiting_submission_can_be_canceled_and_sent_one_cannot() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let held = json!({"email": "ann@example.org", "parameters": {"HOLDFOR": "3600"}});
    let envelope = json!({"envelope": {
        "mailFrom": held,
        "rcptTo": [{"email": "bob@example.net", "parameters": null}],
    }});
    let before = fixture.ask("EmailSubmission/get", json!({"ids": []}))["state"].clone();
    let made = fixture.send(&email, &envelope.clone())["created"]["s"].clone();
    assert_eq!(made["sendAt"], "2026-11-21T10:00:00Z");
    let id = made["id"].as_str().unwrap();
    let set = |patch: Value| fixture.ask("EmailSubmission/set", json!({"update": {id: patch}}));
    for (patch, kind) in [
        (json!({"undoStatus": "final"}), "invalidProperties"),
        (json!({"sendAt": "2027-01-01T00:00:00Z"}), "invalidProperties"),
        (json!({"undoStatus/x": "final"}), "invalidPatch"),
        // A refused update does not cancel, whichever of its properties is wrong.
        (json!({"undoStatus": "canceled", "x": 1}), "invalidProperties"),
        (json!({"undoStatus": "canceled", "sendAt": null}), "invalidProperties"),
    ] {
        assert_eq!(set(patch.clone())["notUpdated"][id]["type"], kind, "{patch}");
    }
    assert_eq!(fixture.context.store.snapshot().outbox(fixture.id()).unwrap().len(), 1);
    assert_eq!(set(json!({"undoStatus": "pending"}))["updated"], json!({id: null}));
    assert_eq!(set(json!({"undoStatus": "canceled"}))["updated"], json!({id: null}));
    assert!(fixture.context.store.snapshot().outbox(fixture.id()).unwrap().is_empty());
    let changes = fixture.ask("EmailSubmission/changes", json!({"sinceState": before}));
    assert_eq!(changes["created"], json!([id]));

    let made = fixture.send(&email, &json!({}))["created"]["s"].clone();
    let second = made["id"].as_str().unwrap();
    let (_, ticket) = fixture
        .context
        .store
        .commit(fixture.id(), |txn| {
            let read = txn.snapshot().outbox(fixture.id())?.pop().unwrap();
            let mut action = read.clone();
            for target in &mut action.recipients {
                target.state = RecipientState::Sent("250 2.0.0 Ok: queued as 4X".into());
            }
            action.state = ActionState::Sent;
            txn.update_action(&read, &action)
        })
        .unwrap();
    ticket.wait_blocking().unwrap();
    let undo =
        fixture.ask("EmailSubmission/set", json!({"update": {second: {"undoStatus": "canceled"}}}));
    assert_eq!(undo["notUpdated"][second]["type"], "cannotUnsend");
    let got = fixture.ask("EmailSubmission/get", json!({"ids": [second]}))["list"][0].clone();
    assert_eq!(got["undoStatus"], "final");
    let status = json!({
        "smtpReply": "250 2.0.0 Ok: queued as 4X",
        "delivered": "unknown",
        "displayed": "unknown",
    });
    assert_eq!(got["deliveryStatus"]["cy@example.com"], status);

    // The two submissions, with their different times and statuses, also serve to test queries.
    let query = |more: Value| fixture.ask("EmailSubmission/query", more)["ids"].clone();
    assert_eq!(
        query(json!({"sort": [{"property": "sentAt", "isAscending": false}]})),
        json!([id, second])
    );
    assert_eq!(
        query(json!({"filter": {"undoStatus": "final", "emailIds": [email]}})),
        json!([second])
    );
    assert_eq!(query(json!({"filter": {"after": "2026-11-21T09:30:00Z"}})), json!([id]));
    assert_eq!(query(json!({"filter": {"identityIds": ["i0"]}})), json!([]));
    let state = fixture.ask("EmailSubmission/query", json!({}))["queryState"].clone();
    let gone = fixture.ask("EmailSubmission/set", json!({"destroy": [id, "i0"]}));
    assert_eq!(
        (&gone["destroyed"], &gone["notDestroyed"]["i0"]["type"]),
        (&json!([id]), &json!("notFound"))
    );
    let moved = fixture.ask("EmailSubmission/queryChanges", json!({"sinceQueryState": state}));
    assert_eq!((&moved["removed"], &moved["added"]), (&json!([id]), &json!([])));
    assert!(
        fixture.context.store.snapshot().objects::<EmailSubmission>(fixture.id()).unwrap().len()
            == 1
    );
}

/// While the whole queue is held, a new submission, the status and the list say so. Once the loss
/// is accepted, the submission is an ordinary one.
#[test]
fn held_queue_is_reported_in_submission_status_and_list() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let mark = |held: Option<&str>| {
        let mark =
            QueueMark { epoch: fixture.context.store.epoch(), held: held.map(str::to_owned) };
        let done = fixture.context.store.commit(AccountId::SITE, |txn| {
            txn.mark_queue(&mark);
            Ok(())
        });
        done.unwrap().1.wait_blocking().unwrap();
    };
    mark(Some("account a1 should have 2 actions, and has 1"));
    let made = fixture.send(&email, &json!({}))["created"]["s"].clone();
    let said = |object: &Value| object["deliveryStatus"]["cy@example.com"]["smtpReply"].clone();
    assert_eq!((&made["undoStatus"], said(&made)), (&json!("pending"), json!(HELD)));
    let (_, status) = call(&fixture.context, "Service/status", &json!({}));
    assert_eq!(status["queue"]["held"], "account a1 should have 2 actions, and has 1");
    assert_eq!(call(&fixture.context, "Queue/list", &json!({})).1["held"], status["queue"]["held"]);
    let accepted = call(&fixture.context, "Queue/acceptLoss", &json!({}));
    assert_eq!(
        (accepted.0.as_str(), &accepted.1["kept"]),
        ("Queue/acceptLoss", &json!(1)),
        "{accepted:?}"
    );
    let got = fixture.ask("EmailSubmission/get", json!({"ids": [made["id"]]}));
    assert_eq!(said(&got["list"][0]), "250 2.0.0 queued");
    assert_eq!(
        call(&fixture.context, "Service/status", &json!({})).1["queue"],
        json!({"held": null, "relay": null})
    );
    assert!(fixture.context.store.check().unwrap().is_empty());
}
