//! Tests of whole requests, in `tests/`, and helpers that the tests of the modules share.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::account::{Directory, NewAccount, Settings};
use crate::message::rows;
use crate::model::clock::FixedClock;
use crate::model::{Address, UtcMillis};
use crate::store::engine::Engine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::{EncodedMessage, Error, NewEmail, Options, Store};
use crate::wire::jmap::parse;
use crate::wire::smtp::Reply;

mod arguments;
mod budget;
mod client;
mod damage;
mod edges;
mod listings;
mod requests;
mod session;
mod sharing;
mod sieve;
mod vacation;
mod vendor;

/// Returns the context of an administrator over a store in memory. It has the accounts
/// `ann@example.org`, which belongs to the Unix user `ann`, and `bob@example.org`, in this order.
/// The time is always 2026-11-21T09:00:00Z.
pub(super) fn context() -> Context {
    context_over(Arc::new(MemoryEngine::new()))
}

pub(super) fn context_over(engine: Arc<dyn Engine>) -> Context {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let store = Store::open_engine(engine, &Options::small(), clock).unwrap();
    let directory = Directory::new(store.clone(), Settings::default());
    let ann = NewAccount {
        unix_user: Some("ann".into()),
        ..NewAccount::at(Address::parse("ann@example.org").unwrap())
    };
    directory.add(&ann).unwrap();
    directory.add(&NewAccount::at(Address::parse("bob@example.org").unwrap())).unwrap();
    Context {
        store,
        directory,
        vacation: crate::vacation::Settings::default(),
        filter: Arc::default(),
        hostname: "localhost".into(),
        restore_period: crate::model::limits::DESTROYED_EMAIL_RETENTION,
        deliver: Arc::new(|_, recipients, _| {
            recipients.into_iter().map(|one| (one, Reply::new(250, [2, 0, 0], "filed"))).collect()
        }),
        jobs: Jobs::default(),
        subscription_times: SubscriptionTimes::default(),
        relay: crate::model::LiveValue::default(),
        uploads: Arc::default(),
        upload_rates: UploadRates::default(),
        caller: Caller { user: Some("root".into()), admin: true, ..Caller::default() },
        base_url: "https://mail.example.org".into(),
        budget: Budget::default(),
    }
}

/// Calls a method with all capabilities. Returns the name of the answer, which is `error` if the
/// call failed, and the arguments of the answer.
pub(super) fn call(context: &Context, name: &str, arguments: &Value) -> (String, Value) {
    let request = json!({"using": CAPABILITIES, "methodCalls": [[name, arguments, "c"]]});
    let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
    let answer = run(context, request).unwrap().json()["methodResponses"][0].clone();
    assert_eq!(answer[2], "c");
    (answer[0].as_str().unwrap().to_owned(), answer[1].clone())
}

/// Returns the type of the error of a call that must fail.
pub(super) fn error(context: &Context, name: &str, arguments: &Value) -> String {
    let (kind, answer) = call(context, name, arguments);
    assert_eq!(kind, "error", "{answer}");
    answer["type"].as_str().unwrap().to_owned()
}

/// Returns the id of Ann's account.
pub(super) fn account_of(context: &Context) -> String {
    context.directory.find_account("ann@example.org").unwrap().unwrap().0.to_string()
}

/// Makes the listings that queries of an account requested, as upkeep does.
pub(super) fn serve_listing_requests(context: &Context, account: &str) {
    let account = account.parse().unwrap();
    while let Some(request) = context.store.take_listing_request(account) {
        let served = context.store.commit(account, |txn| txn.serve_listing_request(request, 1000));
        served.unwrap().1.wait_blocking().unwrap();
    }
}

/// Files `count` messages into Ann's Inbox, oldest first, with the keyword `work` and their number
/// in the subject. Returns the id of the account.
pub(super) fn letters(context: &Context, count: u32) -> String {
    let (_, account) = call(context, "Account/get", &json!({"account": "ann@example.org"}));
    let id = account["id"].as_str().unwrap().to_owned();
    let account = id.parse().unwrap();
    for n in 0..count {
        let raw = format!(
            "From: bob@example.org\r\nSubject: no. {n} <b>\r\nMessage-ID: <{n}@x>\r\n\r\n\
                lunch {n} & more\r\n"
        );
        let message = EncodedMessage::new(&rows(raw.as_bytes(), context.store.secrets()));
        let (mut results, ticket) =
            context.store.commit_message(&[account], &message, raw.as_bytes(), |txn| {
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: b"",
                    mailboxes: [txn.state().inbox].into(),
                    keywords: ["work".to_owned()].into(),
                    received_at: UtcMillis(1_795_000_000_000 + i64::from(n) * 1000),
                })
            });
        results.pop().unwrap().1.unwrap();
        ticket.wait_blocking().unwrap();
    }
    id
}

/// Files a message for each subject into Ann's Inbox, as if it was delivered to ann@example.org.
/// Returns the account's id and the emails' ids.
pub(super) fn filed(context: &Context, subjects: &[&str]) -> (String, Vec<String>) {
    let (ann, _) = context.directory.find_account("ann@example.org").unwrap().unwrap();
    let ids = subjects.iter().map(|subject| {
        let raw = format!("From: x@example.net\r\nSubject: {subject}\r\n\r\nhi\r\n").into_bytes();
        let message = EncodedMessage::new(&rows(&raw, context.store.secrets()));
        let (mut made, ticket) = context.store.commit_message(&[ann], &message, &raw, |txn| {
            txn.create_email(&NewEmail {
                message: &message,
                prefix: b"Delivered-To: ann@example.org\r\n",
                mailboxes: [txn.state().inbox].into(),
                keywords: [].into(),
                received_at: txn.now(),
            })
        });
        ticket.wait_blocking().unwrap();
        made.pop().unwrap().1.unwrap().0.to_string()
    });
    let ids = ids.collect();
    (ann.to_string(), ids)
}
