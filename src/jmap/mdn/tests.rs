//! Tests of MDN/send and MDN/parse (RFC 9007).

use serde_json::{Value, json};

use crate::jmap::budget::Budget;
use crate::jmap::dispatch::run_within;
use crate::jmap::tests::{account_of, call, context};
use crate::jmap::{CAPABILITIES, Context, run};
use crate::message::{Message, rows};
use crate::model::{AccountId, Action};
use crate::store::{EncodedMessage, NewEmail};
use crate::wire::jmap::{CORE, MAIL, MDN};

mod parse;
mod send;

struct Fixture {
    context: Context,
    account: String,
    identity: String,
}

const REQUESTING: &str = "From: Bob <bob@example.net>
To: Ann+work@example.org
Disposition-Notification-To: Bob <Bob@example.net>
Date: Sat, 21 Nov 2026 10:00:00 +0000
Message-ID: <1@example.net>
Subject: lunch

At noon?
";

impl Fixture {
    fn new() -> Self {
        let context = context();
        let account = account_of(&context);
        let (_, identities) = call(&context, "Identity/get", &json!({"accountId": account}));
        let identity = identities["list"][0]["id"].as_str().unwrap().to_owned();
        Self { context, account, identity }
    }

    fn id(&self) -> AccountId {
        self.account.parse().unwrap()
    }

    /// Files a message into Ann's inbox, as if it was delivered from this envelope sender.
    fn deliver(&self, from: &str, raw: &str) -> String {
        let raw = raw.replace('\n', "\r\n").into_bytes();
        let prefix = format!("Return-Path: <{from}>\r\n");
        let message = EncodedMessage::new(&rows(&raw, self.context.store.secrets()));
        let (mut made, ticket) =
            self.context.store.commit_message(&[self.id()], &message, &raw, |txn| {
                let (mailboxes, received_at) = ([txn.state().inbox].into(), txn.now());
                let prefix = prefix.as_bytes();
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix,
                    mailboxes,
                    keywords: [].into(),
                    received_at,
                })
            });
        ticket.wait_blocking().unwrap();
        made.pop().unwrap().1.unwrap().0.to_string()
    }

    /// Returns all answers of one call.
    fn run(&self, using: &[&str], name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.account.clone().into();
        let request = json!({"using": using, "methodCalls": [[name, arguments, "c"]]});
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run(&self.context, request).unwrap().json()["methodResponses"].clone()
    }

    /// Returns all answers of one call, which has this budget.
    fn within(&self, budget: Budget, call: &Value) -> Value {
        let request = json!({"using": CAPABILITIES, "methodCalls": [call]});
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run_within(&self.context, budget, request).unwrap().json()["methodResponses"].clone()
    }

    /// Returns an MDN object for an email, with these properties added or replaced.
    fn mdn(email: &str, more: &Value) -> Value {
        let disposition = json!({
            "actionMode": "manual-action",
            "sendingMode": "mdn-sent-manually",
            "type": "displayed",
        });
        let mut mdn = json!({"forEmailId": email, "disposition": disposition});
        mdn.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        mdn
    }

    fn send(&self, mdn: &Value) -> Value {
        let arguments = json!({
            "identityId": self.identity, "send": {"k": mdn},
            "onSuccessUpdateEmail": {"#k": {"keywords/$mdnsent": true}},
        });
        self.run(&[CORE, MAIL, MDN], "MDN/send", arguments)
    }

    fn refused(&self, mdn: &Value) -> Value {
        let answers = self.send(mdn);
        assert_eq!(
            (answers.as_array().unwrap().len(), &answers[0][1]["sent"]),
            (1, &Value::Null),
            "{answers}"
        );
        answers[0][1]["notSent"]["k"].clone()
    }

    fn queued(&self) -> Vec<(Action, Vec<u8>)> {
        let snapshot = self.context.store.snapshot();
        let actions = snapshot.outbox(self.id()).unwrap().into_iter();
        actions
            .map(|action| (action.clone(), snapshot.action_message(self.id(), &action).unwrap()))
            .collect()
    }

    fn keywords(&self, email: &str) -> Vec<String> {
        let found = self
            .context
            .store
            .snapshot()
            .email(self.id(), email.parse().unwrap())
            .unwrap()
            .unwrap();
        found.keywords.into_iter().collect()
    }
}

#[test]
fn mdn_capability_is_an_empty_object_in_session_and_account() {
    let fixture = Fixture::new();
    let mut context = fixture.context.clone();
    // The session lists the caller's own accounts, and the administrator of `context` has none.
    context.caller.account = Some(fixture.id());
    let session = crate::jmap::session(&context).unwrap().json();
    assert_eq!(session["capabilities"][MDN], json!({}), "{session}");
    assert_eq!(session["accounts"][&fixture.account]["accountCapabilities"][MDN], json!({}));
}
