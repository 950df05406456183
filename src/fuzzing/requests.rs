//! Requests of JMAP against a whole small service: whatever is asked, the answer is well-formed, it is one to each call at
//! least, and the store is in order afterwards. What the client did wrong is never a `serverFail` (RFC 8620 §3.6.2).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Dice, bounded};
use crate::account::{Directory, NewAccount, Settings};
use crate::jmap::{CAPABILITIES, Caller, Context, Jobs, Made, run};
use crate::message::rows;
use crate::model::clock::Fixed;
use crate::model::{AccountId, Address, Live, UtcMillis, limits};
use crate::store::engine::memory::Memory;
use crate::store::{EncodedMessage, NewEmail, Options, Store};
use crate::wire::jmap::{json as i_json, parse};
use crate::wire::smtp::Reply;

/// How many requests are made of one.
const VARIANTS: usize = 6;

/// A request, and others that differ from it in a value or two.
pub fn request(data: &[u8]) {
    let data = bounded(data);
    let context = service();
    answered(&context, data);
    let mut dice = Dice::of(data);
    if let Ok(whole) = i_json::read(data) {
        for _ in 0..VARIANTS {
            let mut other = whole.clone();
            for _ in 0..=dice.upto(2) {
                let mut which = dice.upto(count(&other) - 1);
                alter(&mut other, &mut which, &mut dice);
            }
            answered(&context, &i_json::write(&other));
        }
    }
    assert_eq!(context.store.check().expect("a check"), []);
}

fn answered(context: &Context, data: &[u8]) {
    let request = match parse(data, CAPABILITIES) {
        Ok(request) => request,
        Err(error) => {
            assert_eq!(error.problem().get("status").and_then(Value::as_u64), Some(400));
            return;
        }
    };
    let ids: Vec<String> = request.calls.iter().map(|call| call.id.clone()).collect();
    let written = i_json::write(&run(context, request).json());
    let answer: Value = serde_json::from_slice(&written).expect("JSON");
    let responses = answer.get("methodResponses").and_then(Value::as_array).expect("responses");
    let mut answered: Vec<&str> = responses.iter().filter_map(|one| one.get(2)?.as_str()).collect();
    assert_eq!(answered.len(), responses.len(), "{answer}");
    // A call may be followed by one of its own, which has its id.
    answered.dedup();
    let mut asked: Vec<&str> = ids.iter().map(String::as_str).collect();
    asked.dedup();
    assert_eq!(answered, asked);
    let failed = responses.iter().find(|one| one.pointer("/1/type").is_some_and(|kind| kind == "serverFail"));
    assert_eq!(failed, None, "{}", data.escape_ascii());
}

/// Values of a document, those within others too.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Puts another value in the place of the n-th.
fn alter(value: &mut Value, n: &mut usize, dice: &mut Dice) {
    if *n == 0 {
        *value = strange(dice);
    }
    let Some(left) = n.checked_sub(1) else {
        *n = usize::MAX;
        return;
    };
    *n = left;
    let inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        _ => Vec::new(),
    };
    for one in inner {
        if *n == usize::MAX {
            return;
        }
        alter(one, n, dice);
    }
}

fn strange(dice: &mut Dice) -> Value {
    let many: Vec<Value> = (0..dice.upto(40)).map(|n| format!("x{n}").into()).collect();
    let all = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(limits::OBJECTS_IN_GET + 1),
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
    all.get(dice.upto(all.len() - 1)).cloned().unwrap_or_default()
}

/// A service in memory with Ann's account, who logged in.
pub(super) fn empty() -> (Context, AccountId) {
    let clock = Arc::new(Fixed::at(UtcMillis(1_795_251_600_000)));
    let store = Store::over(Arc::new(Memory::new()), &Options::small(), clock).expect("a store");
    let directory = Directory::new(store.clone(), Settings::default());
    let ann = NewAccount { quota_emails: Some(20), ..NewAccount::at(Address::from_parts("ann", "example.org")) };
    let account = directory.add(&ann).expect("an account");
    let context = Context {
        store,
        directory,
        vacation: crate::vacation::Settings::default(),
        restore: limits::RESTORE_KEPT,
        deliver: Arc::new(|_, recipients, _| {
            recipients.into_iter().map(|one| (one, Reply::new(250, [2, 0, 0], "filed"))).collect()
        }),
        jobs: Jobs::default(),
        pushes: Made::default(),
        relay: Live::default(),
        caller: Caller { account: Some(account), ..Caller::default() },
    };
    (context, account)
}

/// The same with three emails.
fn service() -> Context {
    let (context, account) = empty();
    for n in 0..3 {
        let raw = format!(
            "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: lunch {n}\r\nMessage-ID: <{n}@example.org>\r\n\
             Date: Sat, 21 Nov 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nAt noon?\r\n\
             --b\r\nContent-Type: text/html\r\nContent-Disposition: attachment; filename=x.html\r\n\r\n<p>hi\r\n--b--\r\n"
        );
        let message = EncodedMessage::new(&rows(raw.as_bytes(), context.store.secrets()));
        let (mut made, ticket) = context.store.commit_message(&[account], &message, raw.as_bytes(), |txn| {
            let (mailboxes, received_at) = ([txn.state().inbox].into(), UtcMillis(1_795_000_000_000 + n));
            txn.create_email(&NewEmail {
                message: &message,
                prefix: b"X: y\r\n",
                mailboxes,
                keywords: [].into(),
                received_at,
            })
        });
        ticket.wait_blocking().expect("an email");
        made.pop().expect("an email").1.expect("an email");
    }
    context
}
