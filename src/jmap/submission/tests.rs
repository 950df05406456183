//! Tests of `EmailSubmission` (RFC 8621 §7).

use serde_json::{Value, json};

use crate::jmap::Context;
use crate::jmap::tests::{account_of, call, context};
use crate::message::rows;
use crate::model::{AccountId, EmailSubmission};
use crate::store::{EncodedMessage, NewEmail};

mod create;
mod senders;
mod status;

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
