//! Tests of `EmailSubmission` (RFC 8621 §7).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::jmap::Context;
use crate::jmap::tests::{account_of, call, context, context_over};
use crate::message::rows;
use crate::model::{AccountId, ActionId, ActionState, EmailSubmission, RecipientState};
use crate::outbox::HELD;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{DueKey, WakeCondition};
use crate::store::{EncodedMessage, NewEmail, QueueMark};

struct Fixture {
    context: Context,
    account: String,
    identity: String,
}

impl Fixture {
    fn new() -> Self {
        Self::over(context())
    }

    fn over(context: Context) -> Self {
        let account = account_of(&context);
        let (_, identities) = call(&context, "Identity/get", &json!({"accountId": account}));
        let identity = identities["list"][0]["id"].as_str().unwrap().to_owned();
        Self { context, account, identity }
    }

    fn id(&self) -> AccountId {
        self.account.parse().unwrap()
    }

    fn file(&self, raw: &str) -> String {
        let raw = raw.replace('\n', "\r\n").into_bytes();
        let message = EncodedMessage::new(&rows(&raw, self.context.store.secrets()));
        let (mut made, ticket) =
            self.context.store.commit_message(&[self.id()], &message, &raw, |txn| {
                let (mailboxes, received_at) = ([txn.state().inbox].into(), txn.now());
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: b"",
                    mailboxes,
                    keywords: [].into(),
                    received_at,
                })
            });
        ticket.wait_blocking().unwrap();
        made.pop().unwrap().1.unwrap().0.to_string()
    }

    fn ask(&self, name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.account.clone().into();
        let (kind, answer) = call(&self.context, name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    }

    fn send(&self, email: &str, more: &Value) -> Value {
        let mut object = json!({"identityId": self.identity, "emailId": email});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask("EmailSubmission/set", json!({"create": {"s": object}}))
    }

    fn refused(&self, email: &str, more: &Value) -> Value {
        let answer = self.send(email, more);
        assert_eq!(answer["created"], Value::Null, "{answer}");
        answer["notCreated"]["s"].clone()
    }
}

const DRAFT: &str = "From: Ann <ann@example.org>
To: bob@example.net, Bob <BOB@example.net>
Cc: cy@example.com
Bcc: dee@example.com,
 ed@example.com
Date: Sat, 21 Nov 2026 10:00:00 +0000
Message-ID: <1@example.org>
Subject: lunch

At noon?
";

#[test]
fn envelope_is_derived_from_the_header_and_bcc_is_not_sent() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let made = fixture.send(&email, &json!({}))["created"]["s"].clone();
    let to: Vec<&str> = made["envelope"]["rcptTo"]
        .as_array()
        .unwrap()
        .iter()
        .map(|to| to["email"].as_str().unwrap())
        .collect();
    assert_eq!(to, ["bob@example.net", "cy@example.com", "dee@example.com", "ed@example.com"]);
    assert_eq!(
        made["envelope"]["mailFrom"],
        json!({"email": "ann@example.org", "parameters": null})
    );
    assert_eq!(
        (&made["undoStatus"], &made["sendAt"]),
        (&json!("pending"), &json!("2026-11-21T09:00:00Z"))
    );
    assert_eq!(made["deliveryStatus"]["cy@example.com"]["delivered"], "queued");

    let snapshot = fixture.context.store.snapshot();
    let action = snapshot.outbox(fixture.id()).unwrap().pop().unwrap();
    let sent = String::from_utf8(snapshot.action_message(fixture.id(), &action).unwrap()).unwrap();
    assert!(
        !sent.contains("dee@") && !sent.contains("ed@") && !sent.to_lowercase().contains("bcc"),
        "{sent}"
    );
    assert!(sent.ends_with("Subject: lunch\r\n\r\nAt noon?\r\n"), "{sent}");
    // The owner's copy keeps Bcc.
    let own = snapshot.message(fixture.id(), email.parse().unwrap()).unwrap().unwrap();
    assert!(String::from_utf8(own).unwrap().contains("Bcc: dee@"));
    assert!(fixture.context.store.check().unwrap().is_empty());

    let id = made["id"].as_str().unwrap();
    let got = fixture.ask("EmailSubmission/get", json!({"ids": [id, "i0"]}));
    assert_eq!(got["list"][0].as_object().unwrap().len(), super::SubmissionProperty::ALL.len());
    assert_eq!((&got["list"][0]["emailId"], &got["notFound"]), (&json!(email), &json!(["i0"])));
}

#[test]
fn invalid_or_forbidden_submission_is_refused_with_its_reason() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let path = |email: &str| json!({"email": email});
    let to_bob = json!([path("bob@example.net")]);
    let with = |from: Value, to: &Value| json!({"envelope": {"mailFrom": from, "rcptTo": to}});
    for (more, kind, properties) in [
        (json!({"identityId": "i0"}), "invalidProperties", json!(["identityId"])),
        (json!({"identityId": null}), "invalidProperties", json!(["identityId"])),
        (json!({"emailId": "e0000000000000"}), "invalidProperties", json!(["emailId"])),
        (json!({"emailId": "#none"}), "invalidProperties", json!(["emailId"])),
        (json!({"sendAt": "2027-01-01T00:00:00Z"}), "invalidProperties", json!(["sendAt"])),
        (json!({"undoStatus": "canceled"}), "invalidProperties", json!(["undoStatus"])),
        (json!({"envelope": {"rcptTo": []}}), "invalidProperties", json!(["envelope/mailFrom"])),
        (with(path("eve@example.org"), &to_bob), "forbiddenMailFrom", Value::Null),
        (with(path("x y"), &to_bob), "forbiddenMailFrom", Value::Null),
        (with(path("ann@example.org"), &json!([])), "noRecipients", Value::Null),
        (with(path("ann@example.org"), &json!([path("nobody")])), "invalidRecipients", Value::Null),
        (
            with(
                json!({"email": "ann@example.org", "parameters": {"HOLDFOR": "99999999999"}}),
                &to_bob,
            ),
            "invalidProperties",
            json!(["envelope/mailFrom/parameters/HOLDFOR"]),
        ),
    ] {
        let error = fixture.refused(&email, &more);
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!(kind), &properties),
            "{more}: {error}"
        );
    }
    let many: Vec<Value> = (0..1001).map(|n| path(&format!("{n}@example.net"))).collect();
    let error = fixture.refused(&email, &with(path("ann@example.org"), &json!(many)));
    assert_eq!(
        (&error["type"], &error["maxRecipients"]),
        (&json!("tooManyRecipients"), &json!(1000))
    );
    let other = fixture.file(&DRAFT.replace("ann@example.org", "eve@example.net"));
    assert_eq!(fixture.refused(&other, &json!({}))["type"], "forbiddenFrom");
    let undated = fixture.file("From: ann@example.org\nTo: bob@example.net\n\nhi\n");
    let error = fixture.refused(&undated, &json!({}));
    assert_eq!(
        (&error["type"], &error["properties"]),
        (&json!("invalidEmail"), &json!(["sentAt"]))
    );
    // A field that occurs twice, and a missing or invalid Sender or Reply-To.
    for (raw, wanted) in [
        (DRAFT.replace("Subject: lunch", "Subject: lunch\nSUBJECT: dinner"), json!(["subject"])),
        (
            DRAFT.replace("From: Ann <ann@example.org>", "From: ann@example.org, a@example.org"),
            json!(["sender"]),
        ),
        (
            DRAFT
                .replace("To: bob", "Sender: ann@example.org, a@example.org\nReply-To: x\nTo: bob"),
            json!(["replyTo", "sender"]),
        ),
        (DRAFT.replace("Date: ", "Date: yesterday\nDate: "), json!(["sentAt"])),
    ] {
        let error = fixture.refused(&fixture.file(&raw), &json!({}));
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!("invalidEmail"), &wanted),
            "{error}"
        );
    }
    let odd = fixture.file(&DRAFT.replace("To: bob@example.net", "To: <bob>"));
    let error = fixture.refused(&odd, &json!({}));
    assert_eq!(
        (&error["type"], &error["invalidRecipients"]),
        (&json!("invalidRecipients"), &json!(["bob"]))
    );
    let error = fixture.refused(&odd, &with(path("ann@example.org"), &to_bob));
    assert_eq!((&error["type"], &error["properties"]), (&json!("invalidEmail"), &json!(["to"])));
    let nobody =
        fixture.file("From: ann@example.org\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\nhi\n");
    assert_eq!(fixture.refused(&nobody, &json!({}))["type"], "noRecipients");
    assert!(fixture.context.store.snapshot().outbox(fixture.id()).unwrap().is_empty());
}

/// RFC 8621 §7, §9.6: one address of From is of the identity, the others are of the account, and
/// the sender of a derived envelope is of the identity.
#[test]
fn message_must_be_from_an_address_of_the_identity() {
    let fixture = Fixture::new();
    let ann = &fixture.account;
    call(
        &fixture.context,
        "Account/alias",
        &json!({"account": ann, "address": "fixture@example.org"}),
    );
    call(&fixture.context, "Account/alias", &json!({"account": ann, "address": "@example.com"}));
    let made = fixture.ask("Identity/set", json!({"create": {"all": {"email": "*@example.com"}}}));
    let all = made["created"]["all"]["id"].clone();
    let list = fixture.ask("Identity/get", json!({}))["list"].as_array().unwrap().clone();
    let of = |email: &str| list.iter().find(|one| one["email"] == email).unwrap()["id"].clone();
    let (own, other) = (of("ann@example.org"), of("fixture@example.org"));
    let sender = |from: &str, more: &str, identity: &Value| {
        let raw = DRAFT.replace("From: Ann <ann@example.org>\n", &format!("From: {from}\n{more}"));
        let answer = fixture.send(&fixture.file(&raw), &json!({"identityId": identity}));
        let made =
            answer["created"]["s"]["envelope"]["mailFrom"]["email"].as_str().map(str::to_owned);
        made.unwrap_or_else(|| answer["notCreated"]["s"]["type"].as_str().unwrap().to_owned())
    };
    assert_eq!(sender("ANN@example.org", "", &own), "ANN@example.org");
    assert_eq!(sender("ann@example.org", "Sender: fixture@example.org\n", &own), "ann@example.org");
    assert_eq!(sender("fixture@example.org", "", &own), "forbiddenFrom");
    assert_eq!(sender("fixture@example.org", "", &other), "fixture@example.org");
    assert_eq!(sender("any@example.com", "", &all), "any@example.com");
    assert_eq!(sender("any@example.com", "Sender: fixture@example.org\n", &all), "any@example.com");
    assert_eq!(sender("ann@example.org", "", &all), "forbiddenFrom");
    assert_eq!(
        sender("ann@example.org, any@example.com", "Sender: any@example.com\n", &all),
        "any@example.com"
    );
    assert_eq!(
        sender("ann@example.org, eve@example.net", "Sender: ann@example.org\n", &own),
        "forbiddenFrom"
    );
}

/// A domain that leads to one account may have addresses of other accounts in it. Such an address
/// may be added even after an identity was created for it.
#[test]
fn account_cannot_send_from_an_address_of_another_account() {
    let fixture = Fixture::new();
    let alias = |account: &Value, address: &str, remove: bool| {
        call(
            &fixture.context,
            "Account/alias",
            &json!({"account": account, "address": address, "remove": remove}),
        )
    };
    let (ann, bob) = (json!(fixture.account), json!("bob@example.org"));
    alias(&ann, "@example.com", false);
    let create =
        json!({"all": {"email": "*@example.com"}, "sales": {"email": "sales@example.com"}});
    let made = fixture.ask("Identity/set", json!({ "create": create }))["created"].clone();
    let outcome = |identity: &Value, from: &str, more: &str, envelope: Option<&str>| {
        let raw = DRAFT.replace("From: Ann <ann@example.org>\n", &format!("From: {from}\n{more}"));
        let mut object = json!({ "identityId": identity });
        if let Some(sender) = envelope {
            object["envelope"] =
                json!({"mailFrom": {"email": sender}, "rcptTo": [{"email": "x@example.net"}]});
        }
        let answer = fixture.send(&fixture.file(&raw), &object);
        let refused = answer["notCreated"]["s"]["type"].as_str().map(str::to_owned);
        refused.unwrap_or_else(|| {
            answer["created"]["s"]["envelope"]["mailFrom"]["email"].as_str().unwrap().to_owned()
        })
    };
    let (own, all, sales) = (&json!(fixture.identity), &made["all"]["id"], &made["sales"]["id"]);
    assert_eq!(outcome(all, "boss@example.com", "", None), "boss@example.com");
    assert_eq!(outcome(sales, "sales@example.com", "", None), "sales@example.com");
    alias(&bob, "boss@example.com", false);
    alias(&bob, "sales@example.com", false);
    assert_eq!(outcome(all, "boss@example.com", "", None), "forbiddenFrom");
    assert_eq!(outcome(all, "boss+x@example.com", "", None), "forbiddenFrom");
    assert_eq!(
        outcome(all, "any@example.com", "Sender: boss@example.com\n", None),
        "forbiddenFrom"
    );
    assert_eq!(
        outcome(all, "any@example.com, boss@example.com", "Sender: any@example.com\n", None),
        "forbiddenFrom"
    );
    assert_eq!(outcome(all, "any@example.com", "", Some("boss@example.com")), "forbiddenMailFrom");
    assert_eq!(outcome(own, "ann@example.org", "", Some("boss@example.com")), "forbiddenMailFrom");
    assert_eq!(outcome(all, "any@example.com", "", Some("any@example.com")), "any@example.com");
    // The identity was created while the address was still the account's.
    assert_eq!(outcome(sales, "sales@example.com", "", None), "forbiddenFrom");
    assert_eq!(outcome(sales, "any@example.com", "", None), "forbiddenFrom");
    alias(&ann, "@example.com", true);
    assert_eq!(outcome(all, "any@example.com", "", None), "forbiddenFrom");
    assert_eq!(outcome(own, "ann@example.org", "", None), "ann@example.org");
}

/// RFC 8621 §7.5.
#[test]
fn too_large_message_is_refused_with_max_size() {
    assert_eq!(super::envelope::check_size(10, 10), Ok(()));
    let error = super::envelope::check_size(11, 10).unwrap_err().object();
    assert_eq!((&error["type"], &error["maxSize"]), (&json!("tooLarge"), &json!(10)));
}

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

/// RFC 8621 §7.5.1: the Email/set follows only if the submission succeeds.
#[test]
fn email_of_a_successful_submission_is_updated_by_the_same_call() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let run = |identity: &str| {
        let call = json!(["EmailSubmission/set", {
            "accountId": fixture.account,
            "create": {"s": {"identityId": identity, "emailId": email}},
            "onSuccessUpdateEmail": {
                "#s": {"keywords/$seen": true},
                "#other": {"keywords/$draft": true},
            },
        }, "c"]);
        // The implicit call needs no further capability.
        let request = json!({
            "using": ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:submission"],
            "methodCalls": [call],
        });
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), crate::jmap::CAPABILITIES)
                .unwrap();
        crate::jmap::run(&fixture.context, request).unwrap().json()["methodResponses"].clone()
    };
    let failed = run("i0");
    assert_eq!(failed.as_array().unwrap().len(), 1);
    let done = run(&fixture.identity);
    assert_eq!((&done[1][0], &done[1][2]), (&json!("Email/set"), &json!("c")));
    assert_eq!(done[1][1]["updated"], json!({email.as_str(): null}), "{done}");
}

#[test]
fn submissions_of_meli_and_aerc_are_accepted() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let meli = fixture.send(&email, &json!({"undoStatus": "final", "envelope": null}));
    assert_eq!(meli["created"]["s"]["undoStatus"], "pending", "{meli}");
    let rcpt_to = json!([{"email": "bob@example.net", "parameters": null}]);
    let envelope = json!({"mailfrom": {"email": "ann@example.org"}, "rcptTo": rcpt_to});
    // Go writes its zero time if none was set.
    let aerc = json!({"envelope": envelope, "sendAt": "0001-01-01T00:00:00Z"});
    let aerc = fixture.send(&fixture.file(&DRAFT.replace("1@", "2@")), &aerc);
    assert_eq!(aerc["created"]["s"]["envelope"]["mailFrom"]["email"], "ann@example.org", "{aerc}");
    let address = json!({"email": "ann@example.org"});
    let both = json!({"envelope": {"mailfrom": address, "mailFrom": address, "rcptTo": rcpt_to}});
    assert_eq!(fixture.refused(&email, &both)["type"], "invalidProperties");
    let later = fixture.refused(&email, &json!({"sendAt": "2030-01-01T00:00:00Z"}));
    assert_eq!(later["properties"], json!(["sendAt"]), "the envelope says when");
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

/// If local parts are case-sensitive, an account sends only from its addresses as they are written.
#[test]
fn account_sends_from_case_sensitive_address_as_written() {
    let fixture = Fixture::new();
    let settings =
        crate::account::Settings { case_sensitive: true, ..crate::account::Settings::default() };
    fixture.context.directory.settings().set(settings);
    let alias = |account: &str, address: &str| {
        call(&fixture.context, "Account/alias", &json!({"account": account, "address": address}));
    };
    alias(&fixture.account, "Boss@example.org");
    alias("bob@example.org", "boss@example.org");
    let list = fixture.ask("Identity/get", json!({}))["list"].as_array().unwrap().clone();
    let boss = list.iter().find(|one| one["email"] == "Boss@example.org").unwrap()["id"].clone();
    for (from, kind) in
        [("Boss@Example.org", Value::Null), ("boss@example.org", json!("forbiddenFrom"))]
    {
        let email = fixture.file(&DRAFT.replace("ann@example.org", from));
        let answer = fixture.send(&email, &json!({"identityId": boss}));
        assert_eq!(answer["notCreated"]["s"]["type"], kind, "{answer}");
    }
}

/// A second author may stand within a From field, or after the last field that is examined. So a
/// message with more fields than are examined is refused, whatever the further ones are.
#[test]
fn message_with_a_hidden_author_is_refused() {
    let fixture = Fixture::new();
    let junk = "junk\n".repeat(crate::model::limits::MAX_HEADER_FIELDS);
    for field in ["From: eve@example.net", "Bcc: eve@example.net", "X-Other: x"] {
        let raw = DRAFT.replace("Subject: lunch\n", &format!("{junk}{field}\n"));
        let error = fixture.refused(&fixture.file(&raw), &json!({}));
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!("invalidEmail"), &json!(["headers"])),
            "{field}"
        );
    }
    let with = |from: &str| fixture.file(&DRAFT.replace("Ann <ann@example.org>", from));
    for from in [
        "Ann <ann@example.org> <eve@example.net>",
        "<ann@example.org><eve@example.net>",
        "<ann@example.org> \"eve\"@example.net",
        "ann@example.org eve@example.net",
        "<ann@example.org> eve@[192.0.2.1]",
        "<ann@example.org> \"x <eve@example.net>",
    ] {
        let error = fixture.refused(&with(from), &json!({}));
        assert!(
            ["invalidEmail", "forbiddenFrom"].map(Value::from).contains(&error["type"]),
            "{from}: {error}"
        );
    }
    for from in [
        "\"eve@example.net\" <Ann@example.org>",
        "ann@example.org (eve@example.net)",
        "=?utf-8?q?eve@example.net?= <ann+x@example.org>",
        "\"a \\\" <eve@example.net>\" <ann@example.org>",
        "ann@example.org <ann@example.org>",
    ] {
        let answer = fixture.send(&with(from), &json!({}));
        assert_eq!(answer["notCreated"]["s"], Value::Null, "{from}");
    }
    let long =
        format!("{}ann@example.org", "(x) ".repeat(crate::model::limits::MAX_FIELD_BYTES / 4));
    assert_eq!(fixture.refused(&with(&long), &json!({}))["type"], "invalidEmail");
}
