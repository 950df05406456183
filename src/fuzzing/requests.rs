//! The fuzz body of JMAP requests, which runs them against a small service in memory.
//!
//! - The response is well formed and answers every call.
//! - No call fails with `serverFail`, which is not for errors of the client (RFC 8620 §3.6.2).
//! - The store passes its check afterwards.
//! - A guest, who sends each request as well, can neither see nor change an email that is not
//!   shared with the guest.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{InputRng, bounded};
use crate::account::{Directory, NewAccount, Settings};
use crate::jmap::{
    Budget, CAPABILITIES, Caller, Context, Jobs, SubscriptionTimes, UploadRates, run,
};
use crate::message::rows;
use crate::model::clock::FixedClock;
use crate::model::mailbox::{ALL_RIGHTS, Right};
use crate::model::{
    AccountId, Address, EmailId, EmailMetadata, LiveValue, MailboxUid, UtcMillis, limits,
};
use crate::store::engine::memory::MemoryEngine;
use crate::store::{EncodedMessage, NewEmail, NewMailbox, Options, Store};
use crate::wire::jmap::{json as i_json, parse};
use crate::wire::smtp::Reply;

/// How many variants of a request are sent.
const VARIANTS: usize = 6;

/// Sends the input as a request, and variants of it with one to three other values.
pub fn request(data: &[u8]) {
    let data = bounded(data);
    let service = ServiceFixture::new();
    service.ask(data);
    let mut rng = InputRng::of(data);
    if let Ok(whole) = i_json::read(data) {
        for _ in 0..VARIANTS {
            let mut other = whole.clone();
            for _ in 0..=rng.upto(2) {
                let mut index = rng.upto(count(&other) - 1);
                replace_value(&mut other, &mut index, &mut rng);
            }
            service.ask(&i_json::write(&other));
        }
    }
    assert_eq!(service.ann.store.check().expect("a check"), []);
}

struct ServiceFixture {
    ann: Context,
    account: AccountId,
    /// A guest, with whom one mailbox of Ann's is shared.
    bob: Context,
    /// An email of Ann's that is not shared with Bob, until a request of Ann moves or shares it.
    hidden: EmailId,
}

impl ServiceFixture {
    /// Sends a request as Bob and as Ann, and checks that Bob neither sees nor changes the hidden
    /// email.
    fn ask(&self, data: &[u8]) {
        let hidden = || self.ann.store.snapshot().email(self.account, self.hidden).expect("a view");
        let before = hidden().filter(|email| !self.is_open(email));
        let answer = run_request(&self.bob, data);
        if let Some(before) = before {
            assert_eq!(hidden(), Some(before), "changed by a guest: {}", data.escape_ascii());
            for secret in [self.hidden.to_string(), SECRET.to_owned()] {
                // The answer may repeat what the request contains.
                let is_in_request =
                    data.windows(secret.len()).any(|part| part == secret.as_bytes());
                assert!(
                    is_in_request || !answer.contains(&secret),
                    "shown to a guest: {}",
                    data.escape_ascii()
                );
            }
        }
        run_request(&self.ann, data);
    }

    /// Whether Bob may read an email.
    fn is_open(&self, email: &EmailMetadata) -> bool {
        let snapshot = self.ann.store.snapshot();
        let bob = self.bob.caller.account.unwrap_or_default();
        email.mailboxes.iter().any(|uid| {
            let row = snapshot.mailbox(self.account, *uid).expect("a snapshot");
            row.is_some_and(|row| row.rights_of(self.account, bob) & Right::ReadItems.bit() != 0)
        })
    }
}

/// Returns the response as JSON, or for a malformed request an empty string.
fn run_request(context: &Context, data: &[u8]) -> String {
    let request = match parse(data, CAPABILITIES) {
        Ok(request) => request,
        Err(error) => {
            assert_eq!(error.problem().get("status").and_then(Value::as_u64), Some(400));
            return String::new();
        }
    };
    let ids: Vec<String> = request.calls.iter().map(|call| call.id.clone()).collect();
    let written = i_json::write(&run(context, request).unwrap().json());
    let answer: Value = serde_json::from_slice(&written).expect("JSON");
    let responses = answer.get("methodResponses").and_then(Value::as_array).expect("responses");
    let mut answered: Vec<&str> = responses.iter().filter_map(|one| one.get(2)?.as_str()).collect();
    assert_eq!(answered.len(), responses.len(), "{answer}");
    // An implicit call has a response with the same id.
    answered.dedup();
    let mut asked: Vec<&str> = ids.iter().map(String::as_str).collect();
    asked.dedup();
    assert_eq!(answered, asked);
    let failed = responses
        .iter()
        .find(|one| one.pointer("/1/type").is_some_and(|kind| kind == "serverFail"));
    assert_eq!(failed, None, "{}", data.escape_ascii());
    String::from_utf8(written).expect("a text")
}

/// Returns the number of values in a document, with the document itself.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Replaces the `n`-th value of a document. 0 is the document itself, and its inner values are
/// counted in the order in which they are written. Afterwards, `n` is `usize::MAX` if a value was
/// replaced, and else less by the number of values that were counted.
fn replace_value(value: &mut Value, n: &mut usize, rng: &mut InputRng) {
    if *n == 0 {
        *value = unusual_value(rng);
        *n = usize::MAX;
        return;
    }
    *n -= 1;
    let inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => Vec::new(),
    };
    for one in inner {
        if *n == usize::MAX {
            return;
        }
        replace_value(one, n, rng);
    }
}

fn unusual_value(rng: &mut InputRng) -> Value {
    let many: Vec<Value> = (0..rng.upto(40)).map(|n| format!("x{n}").into()).collect();
    let all = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(limits::MAX_OBJECTS_IN_GET + 1),
        json!(9_007_199_254_740_991_u64),
        json!(1.5),
        json!(""),
        json!("a0000008"),
        json!("m0000008"),
        json!("#k"),
        json!("singleton"),
        json!("2026-11-21T09:00:00Z"),
        json!("\u{0}\u{fffd}\r\nX: y"),
        json!([]),
        json!({}),
        json!([null, [], {}]),
        json!({"a/b": null, "": {}}),
        Value::Array(many),
        json!({"operator": "NOT", "conditions": [{}]}),
    ];
    all.get(rng.upto(all.len() - 1)).cloned().unwrap_or_default()
}

/// A service in memory with one account, that of Ann, who is logged in.
pub(super) fn empty_service() -> (Context, AccountId) {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let store = Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock)
        .expect("a store");
    let directory = Directory::new(store.clone(), Settings::default());
    let ann = NewAccount {
        quota_emails: Some(20),
        ..NewAccount::at(Address::from_parts("ann", "example.org"))
    };
    let account = directory.add(&ann).expect("an account");
    let context = Context {
        store,
        directory,
        vacation: crate::vacation::Settings::default(),
        filter: Arc::default(),
        hostname: "localhost".into(),
        restore_period: limits::DESTROYED_EMAIL_RETENTION,
        deliver: Arc::new(|_, recipients, _| {
            recipients.into_iter().map(|one| (one, Reply::new(250, [2, 0, 0], "filed"))).collect()
        }),
        jobs: Jobs::default(),
        subscription_times: SubscriptionTimes::default(),
        relay: LiveValue::default(),
        uploads: Arc::default(),
        upload_rates: UploadRates::default(),
        caller: Caller { account: Some(account), ..Caller::default() },
        base_url: "https://mail.example.org".into(),
        budget: Budget::default(),
    };
    (context, account)
}

/// A word of the email that Bob must not see.
const SECRET: &str = "Xyzzy";

impl ServiceFixture {
    /// Ann has three emails: one in the Inbox, which is the hidden one, one in a mailbox that is
    /// shared with Bob, and one in both.
    fn new() -> Self {
        let (ann, account) = empty_service();
        let bob = ann
            .directory
            .add(&NewAccount::at(Address::from_parts("bob", "example.org")))
            .expect("an account");
        let open = ann.store.commit(account, |txn| {
            let new = NewMailbox { name: "Open".into(), parent: None, role: None, sort_order: 0 };
            let uid = txn.create_mailbox(&new)?;
            txn.update_mailbox(uid, |row| row.shares = [(bob, ALL_RIGHTS)].into())?;
            Ok(uid)
        });
        let (open, ticket) = open.expect("a mailbox");
        ticket.wait_blocking().expect("a mailbox");
        let filed = [false, true, true].into_iter().zip([true, false, true]).zip(0..);
        let mut ids = filed.map(|((is_open, in_inbox), n)| {
            create_email(&ann, account, open, (is_open, in_inbox), n)
        });
        let hidden = ids.next().expect("an email");
        ids.for_each(drop);
        let bob =
            Context { caller: Caller { account: Some(bob), ..Caller::default() }, ..ann.clone() };
        Self { ann, account, bob, hidden }
    }
}

/// Creates the email `n`. `at` tells whether it is in the shared mailbox, and whether in the Inbox.
fn create_email(
    context: &Context,
    account: AccountId,
    open: MailboxUid,
    at: (bool, bool),
    n: i64,
) -> EmailId {
    let subject = if at.0 { "lunch" } else { SECRET };
    let raw = format!(
        "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: {subject} {n}\r\n\
             Message-ID: <{n}@example.org>\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\n\
             MIME-Version: 1.0\r\n\
             Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nAt noon?\r\n\
             --b\r\nContent-Type: text/html\r\n\
             Content-Disposition: attachment; filename=x.html\r\n\r\n<p>hi\r\n--b--\r\n"
    );
    let message = EncodedMessage::new(&rows(raw.as_bytes(), context.store.secrets()));
    let (mut made, ticket) =
        context.store.commit_message(&[account], &message, raw.as_bytes(), |txn| {
            let inbox = txn.state().inbox;
            let mailboxes = [(at.0, open), (at.1, inbox)].into_iter().filter(|(is_in, _)| *is_in);
            let (mailboxes, received_at) =
                (mailboxes.map(|(_, uid)| uid).collect(), UtcMillis(1_795_000_000_000 + n));
            txn.create_email(&NewEmail {
                message: &message,
                prefix: b"X: y\r\n",
                mailboxes,
                keywords: [].into(),
                received_at,
            })
        });
    ticket.wait_blocking().expect("an email");
    made.pop().expect("an email").1.expect("an email").0
}
