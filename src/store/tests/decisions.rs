//! Decisions on one email at one time.

use super::fixture::fixture;
use super::*;
use crate::model::{Decision, Verdict};

/// Two transactions bring one message for two addresses of an account, in one millisecond.
#[test]
fn later_decision_on_an_email_does_not_replace_the_first_of_the_same_time() {
    let fixture = fixture();
    let email = fixture.deliver(1, &[]);
    let at = email.received_at();
    let decide = |verdict: &Verdict| {
        fixture
            .done(|txn| {
                txn.add_decision(&Decision {
                    at,
                    email: Some(email),
                    sender: None,
                    recipient: Address::from_parts("ann", "example.org"),
                    verdict: verdict.clone(),
                    steps: Vec::new(),
                })
            })
            .unwrap();
    };
    let reply = fixture
        .done(|txn| {
            let reply = Action {
                kind: ActionKind::Reply,
                email: Some(email),
                created: txn.now(),
                ..action()
            };
            let id = txn.queue_action(reply, b"Subject: x\r\n\r\n")?;
            txn.action(id)
        })
        .unwrap();
    let silent = Verdict::Silent { reason: "told".into(), detail: String::new() };
    for verdict in [Verdict::Answered(reply.id), silent.clone(), silent] {
        decide(&verdict);
    }
    let snapshot = fixture.store.snapshot();
    assert_eq!(snapshot.decisions(ACCOUNT, 9).unwrap().len(), 3);
    let first = snapshot.decision(ACCOUNT, email).unwrap().unwrap();
    assert_eq!(first.verdict, Verdict::Answered(reply.id));
    fixture.done(|txn| txn.take_back_answer(&reply, "not-sent", "refused")).unwrap();
    let first = fixture.store.snapshot().decision(ACCOUNT, email).unwrap().unwrap();
    assert_eq!(
        first.verdict,
        Verdict::Silent { reason: "not-sent".into(), detail: "refused".into() }
    );
    assert_clean(&fixture.store);
}
