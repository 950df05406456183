//! What is sent by JMAP (RFC 8621 §7).

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

    /// A message in the inbox of Ann's; its id.
    fn write(&self, raw: &str) -> String {
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
fn the_envelope_is_taken_from_the_message_and_bcc_from_what_is_sent() {
    let desk = Fixture::new();
    let email = desk.write(DRAFT);
    let made = desk.send(&email, &json!({}))["created"]["s"].clone();
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

    let snapshot = desk.context.store.snapshot();
    let action = snapshot.outbox(desk.id()).unwrap().pop().unwrap();
    let sent = String::from_utf8(snapshot.action_message(desk.id(), &action).unwrap()).unwrap();
    assert!(
        !sent.contains("dee@") && !sent.contains("ed@") && !sent.to_lowercase().contains("bcc"),
        "{sent}"
    );
    assert!(sent.ends_with("Subject: lunch\r\n\r\nAt noon?\r\n"), "{sent}");
    // The owner's copy keeps it.
    let own = snapshot.message(desk.id(), email.parse().unwrap()).unwrap().unwrap();
    assert!(String::from_utf8(own).unwrap().contains("Bcc: dee@"));
    assert!(desk.context.store.check().unwrap().is_empty());

    let id = made["id"].as_str().unwrap();
    let got = desk.ask("EmailSubmission/get", json!({"ids": [id, "i0"]}));
    assert_eq!(got["list"][0].as_object().unwrap().len(), super::SubmissionProperty::ALL.len());
    assert_eq!((&got["list"][0]["emailId"], &got["notFound"]), (&json!(email), &json!(["i0"])));
}

#[test]
fn who_may_send_what() {
    let desk = Fixture::new();
    let email = desk.write(DRAFT);
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
        let error = desk.refused(&email, &more);
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!(kind), &properties),
            "{more}: {error}"
        );
    }
    let many: Vec<Value> = (0..1001).map(|n| path(&format!("{n}@example.net"))).collect();
    let error = desk.refused(&email, &with(path("ann@example.org"), &json!(many)));
    assert_eq!(
        (&error["type"], &error["maxRecipients"]),
        (&json!("tooManyRecipients"), &json!(1000))
    );
    let other = desk.write(&DRAFT.replace("ann@example.org", "eve@example.net"));
    assert_eq!(desk.refused(&other, &json!({}))["type"], "forbiddenFrom");
    let undated = desk.write("From: ann@example.org\nTo: bob@example.net\n\nhi\n");
    let error = desk.refused(&undated, &json!({}));
    assert_eq!(
        (&error["type"], &error["properties"]),
        (&json!("invalidEmail"), &json!(["sentAt"]))
    );
    // What stands twice, and who is to be named beside several.
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
        let error = desk.refused(&desk.write(&raw), &json!({}));
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!("invalidEmail"), &wanted),
            "{error}"
        );
    }
    let odd = desk.write(&DRAFT.replace("To: bob@example.net", "To: <bob>"));
    let error = desk.refused(&odd, &json!({}));
    assert_eq!(
        (&error["type"], &error["invalidRecipients"]),
        (&json!("invalidRecipients"), &json!(["bob"]))
    );
    let error = desk.refused(&odd, &with(path("ann@example.org"), &to_bob));
    assert_eq!((&error["type"], &error["properties"]), (&json!("invalidEmail"), &json!(["to"])));
    let nobody = desk.write("From: ann@example.org\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\nhi\n");
    assert_eq!(desk.refused(&nobody, &json!({}))["type"], "noRecipients");
    assert!(desk.context.store.snapshot().outbox(desk.id()).unwrap().is_empty());
}

/// RFC 8621 §7, §9.6: the From is the identity's; so is the sender of an envelope that nobody gave.
#[test]
fn the_identity_says_from_whom_it_is() {
    let desk = Fixture::new();
    let ann = &desk.account;
    call(&desk.context, "Account/alias", &json!({"account": ann, "address": "desk@example.org"}));
    call(&desk.context, "Account/alias", &json!({"account": ann, "address": "@example.com"}));
    let made = desk.ask("Identity/set", json!({"create": {"all": {"email": "*@example.com"}}}));
    let all = made["created"]["all"]["id"].clone();
    let list = desk.ask("Identity/get", json!({}))["list"].as_array().unwrap().clone();
    let of = |email: &str| list.iter().find(|one| one["email"] == email).unwrap()["id"].clone();
    let (own, other) = (of("ann@example.org"), of("desk@example.org"));
    let sender = |from: &str, more: &str, identity: &Value| {
        let raw =
            DRAFT.replace("From: Ann <ann@example.org>", &format!("From: {from}\n{more}X-More: 1"));
        let answer = desk.send(&desk.write(&raw), &json!({"identityId": identity}));
        let made =
            answer["created"]["s"]["envelope"]["mailFrom"]["email"].as_str().map(str::to_owned);
        made.unwrap_or_else(|| answer["notCreated"]["s"]["type"].as_str().unwrap().to_owned())
    };
    assert_eq!(sender("ANN@example.org", "", &own), "ANN@example.org");
    assert_eq!(sender("ann@example.org", "Sender: desk@example.org\n", &own), "ann@example.org");
    assert_eq!(sender("desk@example.org", "", &own), "forbiddenFrom");
    assert_eq!(sender("desk@example.org", "", &other), "desk@example.org");
    assert_eq!(sender("any@example.com", "", &all), "any@example.com");
    assert_eq!(sender("any@example.com", "Sender: desk@example.org\n", &all), "any@example.com");
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

/// What an account takes whole has addresses of other accounts in it, and gets more of them after
/// an identity was made.
#[test]
fn nobody_sends_from_an_address_that_the_directory_gives_to_somebody_else() {
    let desk = Fixture::new();
    let alias = |account: &Value, address: &str, remove: bool| {
        call(
            &desk.context,
            "Account/alias",
            &json!({"account": account, "address": address, "remove": remove}),
        )
    };
    let (ann, bob) = (json!(desk.account), json!("bob@example.org"));
    alias(&ann, "@example.com", false);
    let create =
        json!({"all": {"email": "*@example.com"}, "sales": {"email": "sales@example.com"}});
    let made = desk.ask("Identity/set", json!({ "create": create }))["created"].clone();
    let outcome = |identity: &Value, from: &str, more: &str, envelope: Option<&str>| {
        let raw =
            DRAFT.replace("From: Ann <ann@example.org>", &format!("From: {from}\n{more}X-More: 1"));
        let mut object = json!({ "identityId": identity });
        if let Some(sender) = envelope {
            object["envelope"] =
                json!({"mailFrom": {"email": sender}, "rcptTo": [{"email": "x@example.net"}]});
        }
        let answer = desk.send(&desk.write(&raw), &object);
        let refused = answer["notCreated"]["s"]["type"].as_str().map(str::to_owned);
        refused.unwrap_or_else(|| {
            answer["created"]["s"]["envelope"]["mailFrom"]["email"].as_str().unwrap().to_owned()
        })
    };
    let (own, all, sales) = (&json!(desk.identity), &made["all"]["id"], &made["sales"]["id"]);
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
    // The identity was made when the address was still the account's.
    assert_eq!(outcome(sales, "sales@example.com", "", None), "forbiddenFrom");
    assert_eq!(outcome(sales, "any@example.com", "", None), "forbiddenFrom");
    alias(&ann, "@example.com", true);
    assert_eq!(outcome(all, "any@example.com", "", None), "forbiddenFrom");
    assert_eq!(outcome(own, "ann@example.org", "", None), "ann@example.org");
}

/// RFC 8621 §7.5.
#[test]
fn a_message_that_is_too_large_is_refused_with_the_largest() {
    assert_eq!(super::envelope::check_size(10, 10), Ok(()));
    let error = super::envelope::check_size(11, 10).unwrap_err().object();
    assert_eq!((&error["type"], &error["maxSize"]), (&json!("tooLarge"), &json!(10)));
}

/// RFC 8621 §7.5: neither the email's destruction nor that of the submission keeps the message from
/// going.
#[test]
fn what_is_on_its_way_goes_on_whatever_is_destroyed() {
    let desk = Fixture::new();
    let email = desk.write(DRAFT);
    let made = desk.send(&email, &json!({}))["created"]["s"].clone();
    let id = made["id"].as_str().unwrap();
    desk.ask("Email/set", json!({"destroy": [email]}));
    assert_eq!(desk.ask("Email/get", json!({"ids": [email]}))["notFound"], json!([email]));
    let got = desk.ask("EmailSubmission/get", json!({"ids": [id]}))["list"][0].clone();
    assert_eq!(
        (&got["emailId"], &got["threadId"], &got["undoStatus"]),
        (&json!(email), &made["threadId"], &json!("pending"))
    );
    assert_eq!(desk.ask("EmailSubmission/set", json!({"destroy": [id]}))["destroyed"], json!([id]));
    assert_eq!(desk.ask("EmailSubmission/get", json!({"ids": [id]}))["notFound"], json!([id]));
    let snapshot = desk.context.store.snapshot();
    let action = snapshot.outbox(desk.id()).unwrap().pop().unwrap();
    assert_eq!((action.state, action.recipients.len()), (ActionState::Waiting, 4));
    let sent = String::from_utf8(snapshot.action_message(desk.id(), &action).unwrap()).unwrap();
    assert!(sent.ends_with("Subject: lunch\r\n\r\nAt noon?\r\n"), "{sent}");
    assert!(desk.context.store.check().unwrap().is_empty());
}

#[test]
fn submission_is_not_half_canceled_where_the_queue_is_damaged() {
    let engine = Arc::new(MemoryEngine::new());
    let desk = Fixture::over(context_over(engine.clone()));
    let email = desk.write(DRAFT);
    let made = desk.send(&email, &json!({}))["created"]["s"].clone();
    let id = made["id"].as_str().unwrap();
    let carrier = desk.context.store.snapshot().outbox(desk.id()).unwrap().pop().unwrap().id;
    // Something waits for the submission that is not there.
    let lost = DueKey {
        wake: WakeCondition::After(carrier),
        account: desk.id(),
        action: ActionId(u64::MAX),
    };
    let puts = vec![Put { table: Table::OutboxDue, key: lost.encode(), value: Some(Vec::new()) }];
    engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    let undo = json!({"accountId": desk.account, "update": {id: {"undoStatus": "canceled"}}});
    assert_eq!(call(&desk.context, "EmailSubmission/set", &undo).0, "error");
    let got = desk.ask("EmailSubmission/get", json!({"ids": [id]}))["list"][0].clone();
    assert_eq!(got["undoStatus"], "pending");
    assert_eq!(desk.context.store.snapshot().outbox(desk.id()).unwrap().len(), 1);
}

#[test]
fn what_waits_can_be_taken_back_and_what_is_gone_cannot() {
    let desk = Fixture::new();
    let email = desk.write(DRAFT);
    let held = json!({"email": "ann@example.org", "parameters": {"HOLDFOR": "3600"}});
    let envelope = json!({"envelope": {"mailFrom": held, "rcptTo": [{"email": "bob@example.net", "parameters": null}]}});
    let before = desk.ask("EmailSubmission/get", json!({"ids": []}))["state"].clone();
    let made = desk.send(&email, &envelope.clone())["created"]["s"].clone();
    assert_eq!(made["sendAt"], "2026-11-21T10:00:00Z");
    let id = made["id"].as_str().unwrap();
    let set = |patch: Value| desk.ask("EmailSubmission/set", json!({"update": {id: patch}}));
    for (patch, kind) in [
        (json!({"undoStatus": "final"}), "invalidProperties"),
        (json!({"sendAt": "2027-01-01T00:00:00Z"}), "invalidProperties"),
        (json!({"undoStatus/x": "final"}), "invalidPatch"),
    ] {
        assert_eq!(set(patch.clone())["notUpdated"][id]["type"], kind, "{patch}");
    }
    assert_eq!(set(json!({"undoStatus": "pending"}))["updated"], json!({id: null}));
    assert_eq!(set(json!({"undoStatus": "canceled"}))["updated"], json!({id: null}));
    assert!(desk.context.store.snapshot().outbox(desk.id()).unwrap().is_empty());
    let changes = desk.ask("EmailSubmission/changes", json!({"sinceState": before}));
    assert_eq!(changes["created"], json!([id]));

    let made = desk.send(&email, &json!({}))["created"]["s"].clone();
    let second = made["id"].as_str().unwrap();
    let (_, ticket) = desk
        .context
        .store
        .commit(desk.id(), |txn| {
            let read = txn.snapshot().outbox(desk.id())?.pop().unwrap();
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
        desk.ask("EmailSubmission/set", json!({"update": {second: {"undoStatus": "canceled"}}}));
    assert_eq!(undo["notUpdated"][second]["type"], "cannotUnsend");
    let got = desk.ask("EmailSubmission/get", json!({"ids": [second]}))["list"][0].clone();
    assert_eq!(got["undoStatus"], "final");
    let status = json!({"smtpReply": "250 2.0.0 Ok: queued as 4X", "delivered": "unknown", "displayed": "unknown"});
    assert_eq!(got["deliveryStatus"]["cy@example.com"], status);

    let query = |more: Value| desk.ask("EmailSubmission/query", more)["ids"].clone();
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
    let state = desk.ask("EmailSubmission/query", json!({}))["queryState"].clone();
    let gone = desk.ask("EmailSubmission/set", json!({"destroy": [id, "i0"]}));
    assert_eq!(
        (&gone["destroyed"], &gone["notDestroyed"]["i0"]["type"]),
        (&json!([id]), &json!("notFound"))
    );
    let moved = desk.ask("EmailSubmission/queryChanges", json!({"sinceQueryState": state}));
    assert_eq!((&moved["removed"], &moved["added"]), (&json!([id]), &json!([])));
    assert!(
        desk.context.store.snapshot().objects::<EmailSubmission>(desk.id()).unwrap().len() == 1
    );
}

/// One request writes, sends and files (RFC 8621 §7.5.1); where it is not sent, nothing follows.
#[test]
fn what_was_sent_is_filed_by_the_same_call() {
    let desk = Fixture::new();
    let email = desk.write(DRAFT);
    let run = |identity: &str| {
        let call = json!(["EmailSubmission/set", {
            "accountId": desk.account, "create": {"s": {"identityId": identity, "emailId": email}},
            "onSuccessUpdateEmail": {"#s": {"keywords/$seen": true}, "#other": {"keywords/$draft": true}},
        }, "c"]);
        // The implicit call needs no capability of its own.
        let request = json!({"using": ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:submission"], "methodCalls": [call]});
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), crate::jmap::CAPABILITIES)
                .unwrap();
        crate::jmap::run(&desk.context, request).unwrap().json()["methodResponses"].clone()
    };
    let failed = run("i0");
    assert_eq!(failed.as_array().unwrap().len(), 1);
    let done = run(&desk.identity);
    assert_eq!((&done[1][0], &done[1][2]), (&json!("Email/set"), &json!("c")));
    assert_eq!(done[1][1]["updated"], json!({email.as_str(): null}), "{done}");
}

#[test]
fn submissions_are_taken_as_meli_and_aerc_write_them() {
    let desk = Fixture::new();
    let email = desk.write(DRAFT);
    let meli = desk.send(&email, &json!({"undoStatus": "final", "envelope": null}));
    assert_eq!(meli["created"]["s"]["undoStatus"], "pending", "{meli}");
    let rcpt_to = json!([{"email": "bob@example.net", "parameters": null}]);
    let envelope = json!({"mailfrom": {"email": "ann@example.org"}, "rcptTo": rcpt_to});
    // Go writes a time where none was set.
    let aerc = json!({"envelope": envelope, "sendAt": "0001-01-01T00:00:00Z"});
    let aerc = desk.send(&desk.write(&DRAFT.replace("1@", "2@")), &aerc);
    assert_eq!(aerc["created"]["s"]["envelope"]["mailFrom"]["email"], "ann@example.org", "{aerc}");
    let address = json!({"email": "ann@example.org"});
    let both = json!({"envelope": {"mailfrom": address, "mailFrom": address, "rcptTo": rcpt_to}});
    assert_eq!(desk.refused(&email, &both)["type"], "invalidProperties");
    let later = desk.refused(&email, &json!({"sendAt": "2030-01-01T00:00:00Z"}));
    assert_eq!(later["properties"], json!(["sendAt"]), "the envelope says when");
}

/// While the queue is held as a whole, a submission says so when it is made, and so do the status
/// and the list; once the loss is accepted it is an ordinary one.
#[test]
fn a_held_queue_is_told_to_who_sends_and_to_who_manages() {
    let desk = Fixture::new();
    let email = desk.write(DRAFT);
    let mark = |held: Option<&str>| {
        let mark = QueueMark { epoch: desk.context.store.epoch(), held: held.map(str::to_owned) };
        let done = desk.context.store.commit(AccountId::SITE, |txn| {
            txn.mark_queue(&mark);
            Ok(())
        });
        done.unwrap().1.wait_blocking().unwrap();
    };
    mark(Some("account a1 should have 2 actions, and has 1"));
    let made = desk.send(&email, &json!({}))["created"]["s"].clone();
    let said = |object: &Value| object["deliveryStatus"]["cy@example.com"]["smtpReply"].clone();
    assert_eq!((&made["undoStatus"], said(&made)), (&json!("pending"), json!(HELD)));
    let (_, status) = call(&desk.context, "Service/status", &json!({}));
    assert_eq!(status["queue"]["held"], "account a1 should have 2 actions, and has 1");
    assert_eq!(call(&desk.context, "Queue/list", &json!({})).1["held"], status["queue"]["held"]);
    let accepted = call(&desk.context, "Queue/acceptLoss", &json!({}));
    assert_eq!(
        (accepted.0.as_str(), &accepted.1["kept"]),
        ("Queue/acceptLoss", &json!(1)),
        "{accepted:?}"
    );
    let got = desk.ask("EmailSubmission/get", json!({"ids": [made["id"]]}));
    assert_eq!(said(&got["list"][0]), "250 2.0.0 queued");
    assert_eq!(
        call(&desk.context, "Service/status", &json!({})).1["queue"],
        json!({"held": null, "relay": null})
    );
    assert!(desk.context.store.check().unwrap().is_empty());
}

/// Where local parts differ by case, an account sends from its addresses as they are written.
#[test]
fn an_account_sends_from_an_address_with_capitals() {
    let desk = Fixture::new();
    let settings =
        crate::account::Settings { case_sensitive: true, ..crate::account::Settings::default() };
    desk.context.directory.settings().set(settings);
    let alias = |account: &str, address: &str| {
        call(&desk.context, "Account/alias", &json!({"account": account, "address": address}));
    };
    alias(&desk.account, "Boss@example.org");
    alias("bob@example.org", "boss@example.org");
    let list = desk.ask("Identity/get", json!({}))["list"].as_array().unwrap().clone();
    let boss = list.iter().find(|one| one["email"] == "Boss@example.org").unwrap()["id"].clone();
    for (from, kind) in
        [("Boss@Example.org", Value::Null), ("boss@example.org", json!("forbiddenFrom"))]
    {
        let email = desk.write(&DRAFT.replace("ann@example.org", from));
        let answer = desk.send(&email, &json!({"identityId": boss}));
        assert_eq!(answer["notCreated"]["s"]["type"], kind, "{answer}");
    }
}

/// Another From behind as many lines as are looked at, or beside one that is read.
#[test]
fn no_other_author_is_hidden() {
    let desk = Fixture::new();
    let junk = "junk\n".repeat(crate::model::limits::MAX_HEADER_FIELDS);
    for field in ["From: eve@example.net", "Bcc: eve@example.net", "X-Other: x"] {
        let raw = DRAFT.replace("Subject: lunch\n", &format!("{junk}{field}\n"));
        let error = desk.refused(&desk.write(&raw), &json!({}));
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!("invalidEmail"), &json!(["headers"])),
            "{field}"
        );
    }
    let with = |from: &str| desk.write(&DRAFT.replace("Ann <ann@example.org>", from));
    for from in [
        "Ann <ann@example.org> <eve@example.net>",
        "<ann@example.org><eve@example.net>",
        "<ann@example.org> \"eve\"@example.net",
        "ann@example.org eve@example.net",
        "<ann@example.org> eve@[192.0.2.1]",
        "<ann@example.org> \"x <eve@example.net>",
    ] {
        let error = desk.refused(&with(from), &json!({}));
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
        let answer = desk.send(&with(from), &json!({}));
        assert_eq!(answer["notCreated"]["s"], Value::Null, "{from}");
    }
    let long =
        format!("{}ann@example.org", "(x) ".repeat(crate::model::limits::MAX_FIELD_BYTES / 4));
    assert_eq!(desk.refused(&with(&long), &json!({}))["type"], "invalidEmail");
}
