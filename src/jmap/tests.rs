//! Tests of whole requests, and helpers that the tests of the modules share.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::account::{Directory, NewAccount, Settings};
use crate::message::rows;
use crate::model::clock::FixedClock;
use crate::model::{Address, UtcMillis};
use crate::store::engine::Engine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::{EncodedMessage, Error, NewEmail, NewMailbox, Options, Store};
use crate::wire::jmap::admin::store::{JobStage, StoreProgress};
use crate::wire::jmap::parse;
use crate::wire::smtp::Reply;

mod arguments;
mod budget;
mod client;
mod damage;
mod edges;
mod listings;
mod session;
mod sharing;
mod sieve;
mod vacation;

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

#[test]
fn method_without_account_uses_the_account_of_the_caller() {
    let mut context = context();
    assert_eq!(error(&context, "Account/get", &json!({})), "invalidArguments");
    context.caller = Caller { user: Some("ann".into()), ..Caller::default() };
    assert_eq!(call(&context, "Account/get", &json!({})).1["address"], "ann@example.org");
    let both = json!({"account": "ann@example.org", "accountId": "a1"});
    assert_eq!(error(&context, "Account/get", &both), "invalidArguments");
    let second = NewAccount {
        unix_user: Some("ann".into()),
        ..NewAccount::at(Address::parse("desk@example.org").unwrap())
    };
    context.directory.add(&second).unwrap();
    assert_eq!(error(&context, "Vacation/get", &json!({})), "invalidArguments");
    for user in [None, Some("eve".to_owned())] {
        context.caller = Caller { user, ..Caller::default() };
        assert_eq!(error(&context, "Vacation/get", &json!({})), "invalidArguments");
    }
}

#[test]
fn unix_user_manages_only_the_own_account() {
    let mut context = context();
    context.caller = Caller { user: Some("ann".into()), ..Caller::default() };
    assert_eq!(
        call(&context, "Account/get", &json!({"account": "ann@example.org"})).1["unixUser"],
        "ann"
    );
    assert_eq!(error(&context, "Account/get", &json!({"account": "bob@example.org"})), "forbidden");
    assert_eq!(
        error(&context, "Account/get", &json!({"account": "nobody@example.org"})),
        "forbidden"
    );
    for method in [
        "Account/list",
        "Account/add",
        "Store/check",
        "Store/repair",
        "Store/backup",
        "Job/get",
        "Queue/list",
    ] {
        assert_eq!(
            error(&context, method, &json!({"address": "x@example.org"})),
            "forbidden",
            "{method}"
        );
    }
    // A caller of whom nothing is known.
    context.caller = Caller::default();
    assert_eq!(error(&context, "Account/get", &json!({"account": "bob@example.org"})), "forbidden");
}

#[test]
fn logged_in_account_reaches_only_itself_and_is_no_administrator() {
    let mut context = context();
    let ann = context.directory.find_account("ann@example.org").unwrap().unwrap().0;
    context.caller = Caller { account: Some(ann), ..Caller::default() };
    for arguments in
        [json!({}), json!({"account": "ann@example.org"}), json!({"accountId": ann.to_string()})]
    {
        assert_eq!(call(&context, "Account/get", &arguments).1["id"], ann.to_string());
    }
    // The error does not reveal whether another account exists.
    for other in ["bob@example.org", "nobody@example.org", "0"] {
        assert_eq!(
            error(&context, "Account/get", &json!({"account": other})),
            "accountNotFound",
            "{other}"
        );
    }
    for method in ["Account/list", "Account/add", "Store/check", "Job/get", "Queue/list"] {
        assert_eq!(
            error(&context, method, &json!({"address": "x@example.org"})),
            "forbidden",
            "{method}"
        );
    }
}

#[test]
fn invalid_call_gets_its_error_type() {
    let context = context();
    assert_eq!(error(&context, "No/such", &json!({})), "unknownMethod");
    assert_eq!(error(&context, "Mail/list", &json!({})), "invalidArguments");
    assert_eq!(error(&context, "Mail/list", &json!({"accountId": "zzz"})), "accountNotFound");
    for method in ["Mail/list", "Decision/list"] {
        let too_many = json!({"account": "ann@example.org", "limit": 10_001});
        assert_eq!(error(&context, method, &too_many), "invalidArguments");
    }
    assert_eq!(
        error(&context, "Mail/list", &json!({"account": "ann@example.org", "mailbox": "nowhere"})),
        "notFound"
    );
    assert_eq!(error(&context, "Account/add", &json!({"address": "ann@example.org"})), "conflict");
    assert_eq!(error(&context, "Account/add", &json!({"address": "x y"})), "invalidArguments");
    assert_eq!(
        error(&context, "Queue/remove", &json!({"account": "ann@example.org", "id": "q0"})),
        "notFound"
    );
    let ann = account_of(&context);
    let stale =
        json!({"accountId": ann, "ifInState": "0-0", "update": {"singleton": {"isEnabled": true}}});
    assert_eq!(error(&context, "VacationResponse/set", &stale), "stateMismatch");
    let (_, now) = call(&context, "VacationResponse/get", &json!({"accountId": ann}));
    assert_eq!(now["list"][0]["isEnabled"], false);
    // A method of a capability that the request does not use is unknown.
    let request =
        json!({"using": ["urn:ietf:params:jmap:core"], "methodCalls": [["Store/check", {}, "0"]]});
    let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
    assert_eq!(
        run(&context, request).unwrap().json()["methodResponses"][0][1]["type"],
        "unknownMethod"
    );
    assert_eq!(
        call(&context, "Mail/list", &json!({"account": "ann@example.org"})).1["list"],
        json!([])
    );
}

#[test]
fn creation_id_resolves_in_later_calls_and_requests() {
    let context = context();
    let ann = account_of(&context);
    let ask = |calls: Value, known: Value| {
        let request = json!({"using": CAPABILITIES, "methodCalls": calls, "createdIds": known});
        run(&context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).unwrap().json()
    };
    let made = ask(
        json!([
            ["Mailbox/set", {"accountId": ann, "create": {"a": {"name": "A"}}}, "0"],
            ["Mailbox/set", {"accountId": ann, "create": {"b": {"name": "B", "parentId": "#a"}}},
                "1"],
            ["Mailbox/get", {"accountId": ann, "ids": ["#a", "#none", "#b"],
                "properties": ["parentId"]}, "2"],
            ["Mailbox/set", {"accountId": ann, "update": {"#b": {"name": "C"}},
                "destroy": ["#none"]}, "3"],
        ]),
        json!({}),
    );
    let (a, b) = (made["createdIds"]["a"].clone(), made["createdIds"]["b"].clone());
    assert_eq!(
        made["methodResponses"][2][1]["list"],
        json!([{"id": a, "parentId": null}, {"id": b, "parentId": a}])
    );
    assert_eq!(made["methodResponses"][2][1]["notFound"], json!(["#none"]));
    assert_eq!(made["methodResponses"][3][1]["updated"], json!({b.as_str().unwrap(): null}));
    assert_eq!(
        made["methodResponses"][3][1]["notDestroyed"],
        json!({"#none": {"type": "notFound"}})
    );
    // A name in `createdIds` of the request stands for its id, too. The child `b` is destroyed
    // before its parent.
    let known = json!({"x": a});
    let gone = ask(
        json!([["Mailbox/set", {"accountId": ann, "destroy": ["#x", b, "#x"]}, "0"]]),
        known.clone(),
    );
    assert_eq!(gone["methodResponses"][0][1]["destroyed"], json!([b, a]));
    assert_eq!(gone["createdIds"], known);
}

#[test]
fn result_reference_reads_an_earlier_answer() {
    let context = context();
    let request = json!({"using": CAPABILITIES, "methodCalls": [
        ["Account/get", {"account": "bob@example.org"}, "0"],
        ["VacationResponse/get",
            {"#accountId": {"resultOf": "0", "name": "Account/get", "path": "/id"}}, "1"],
        ["VacationResponse/get",
            {"#accountId": {"resultOf": "9", "name": "Account/get", "path": "/id"}}, "2"],
    ]});
    let answer =
        run(&context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).unwrap().json();
    assert_eq!(answer["methodResponses"][1][1]["list"][0]["id"], "singleton");
    assert_eq!(answer["methodResponses"][2][1]["type"], "invalidResultReference");
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

#[test]
fn mail_query_returns_rows_snippets_and_the_plan() {
    let context = context();
    let id = letters(&context, 300);
    let ask = |more: Value| {
        let mut arguments = json!({"accountId": id});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&context, "Mail/query", &arguments).1
    };
    let subjects = |answer: &Value| -> Vec<String> {
        let list = answer["list"].as_array().unwrap();
        list.iter().map(|row| row["subject"].as_str().unwrap().to_owned()).collect()
    };
    let all = ask(json!({"limit": 2, "calculateTotal": true}));
    assert_eq!(subjects(&all), ["no. 299 <b>", "no. 298 <b>"]);
    assert_eq!(
        (&all["total"], &all["position"], &all["plan"]["strategy"]),
        (&json!(300), &json!(0), &json!("all mail"))
    );
    assert_eq!(all["ids"][1], all["list"][1]["id"]);
    let inbox = ask(json!({"mailbox": "inbox", "position": -1, "collapseThreads": true}));
    assert_eq!(subjects(&inbox), ["no. 0 <b>"]);
    assert_eq!((&inbox["plan"]["strategy"], &inbox["position"]), (&json!("listing"), &json!(299)));
    assert_eq!(inbox["plan"]["listing"]["collapsed"], true);
    let anchored =
        ask(json!({"mailbox": "Inbox", "anchor": all["ids"][1], "anchorOffset": -1, "limit": 3}));
    assert_eq!(subjects(&anchored), ["no. 299 <b>", "no. 298 <b>", "no. 297 <b>"]);
    assert_eq!(ask(json!({})).as_object().unwrap()["list"].as_array().unwrap().len(), 50);

    let sorted = json!({
        "filter": {"operator": "AND", "conditions": [{"body": "7"}, {"hasKeyword": "Work"}]},
        "sort": [{"property": "receivedAt"}], "snippets": true,
    });
    let found = ask(sorted);
    assert_eq!(subjects(&found), ["no. 7 <b>"]);
    let snippet = json!({"subject": null, "preview": "lunch <mark>7</mark> &amp; more"});
    assert_eq!(found["list"][0]["snippet"], snippet);
    let both = ask(json!({"filter": {"text": "no. 7"}, "snippets": true}));
    assert_eq!(both["list"][0]["snippet"]["subject"], "<mark>no</mark>. <mark>7</mark> &lt;b&gt;");
}

#[test]
fn invalid_mail_query_gets_its_error_type() {
    let context = context();
    let id = letters(&context, 1);
    for (invalid, kind) in [
        (json!({"filter": {"colour": "red"}}), "unsupportedFilter"),
        (json!({"filter": {"text": 5}}), "invalidArguments"),
        (json!({"sort": [{"property": "colour"}]}), "unsupportedSort"),
        (json!({"anchor": "e0000000000000"}), "anchorNotFound"),
        (json!({"position": "first"}), "invalidArguments"),
        (json!({"limit": -1}), "invalidArguments"),
        (json!({"mailbox": "nowhere"}), "notFound"),
    ] {
        let mut arguments = json!({"accountId": id});
        arguments.as_object_mut().unwrap().extend(invalid.as_object().unwrap().clone());
        assert_eq!(error(&context, "Mail/query", &arguments), kind, "{invalid}");
    }
    assert_eq!(error(&context, "Mail/query", &json!({"accountId": "a0000000"})), "accountNotFound");
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

#[test]
fn mail_methods_report_the_outcome_of_each_email() {
    let context = context();
    let (ann, ids) = filed(&context, &["one", "two", "three"]);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = ann.clone().into();
        call(&context, name, &arguments).1
    };
    let count = |mailbox: &str| {
        ask("Mail/list", json!({"mailbox": mailbox}))["list"].as_array().unwrap().len()
    };
    let moved = ask("Mail/move", json!({"ids": [ids[0], "nonsense"], "mailbox": "archive"}));
    assert_eq!(
        (&moved["moved"], &moved["notMoved"]["nonsense"]["type"]),
        (&json!({&ids[0]: null}), &json!("notFound"))
    );
    ask("Mail/move", json!({"ids": [ids[1]], "mailbox": "Archive", "also": true}));
    assert_eq!((count("inbox"), count("archive")), (2, 2));
    let flagged = ask(
        "Mail/flag",
        json!({"ids": [ids[1]], "add": ["$Seen", "work"], "remove": ["$flagged"]}),
    );
    assert_eq!(flagged["flagged"][&ids[1]], json!(["$seen", "work"]));
    assert_eq!(
        ask("Mail/flag", json!({"ids": [ids[1]], "add": ["a b"]}))["type"],
        "invalidArguments"
    );
    let gone = ask("Mail/destroy", json!({"ids": [ids[0], ids[1], "e0"]}));
    assert_eq!(
        (gone["destroyed"].as_object().unwrap().len(), &gone["notDestroyed"]["e0"]["type"]),
        (2, &json!("notFound"))
    );
    let listed = ask("Mail/destroyed", json!({}));
    assert_eq!(listed["list"].as_array().unwrap().len(), 2);
    // 60 days (`DESTROYED_EMAIL_RETENTION`) after the time of `context`.
    assert_eq!(listed["list"][0]["restorableUntil"], "2027-01-20T09:00:00Z");
    let back = ask("Mail/restore", json!({"ids": [ids[1], ids[2]]}));
    let new = back["restored"][&ids[1]].as_str().unwrap();
    assert_eq!(back["notRestored"][&ids[2]]["type"], "conflict");
    let shown = ask("Mail/show", json!({"id": new}));
    assert_eq!((&shown["subject"], &shown["keywords"]), (&json!("two"), &json!(["$seen", "work"])));
    assert_eq!((count("inbox"), count("archive")), (2, 1));
    assert_eq!(
        ask("Mail/restore", json!({"ids": [ids[1]]}))["notRestored"][&ids[1]]["type"],
        "conflict"
    );
    // Purge by ids, and purge everything.
    assert_eq!(ask("Mail/purge", json!({}))["type"], "invalidArguments");
    let purged = ask("Mail/purge", json!({"ids": [ids[0], ids[2]]}));
    assert_eq!(
        (&purged["purged"], &purged["notPurged"][&ids[2]]["type"]),
        (&json!({&ids[0]: null}), &json!("notFound"))
    );
    ask("Mail/destroy", json!({"ids": [new]}));
    assert_eq!(
        ask("Mail/purge", json!({"all": true})),
        json!({"count": 2}),
        "the restored email left a tombstone under its old id"
    );
    assert_eq!(ask("Mail/destroyed", json!({}))["list"], json!([]));
    let too_many: Vec<String> = (0..10_001).map(|n| n.to_string()).collect();
    assert_eq!(ask("Mail/destroy", json!({"ids": too_many}))["type"], "invalidArguments");
}

#[test]
fn mailboxes_are_added_changed_and_removed_by_path() {
    let context = context();
    let (ann, _) = filed(&context, &["one"]);
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = ann.clone().into();
        call(&context, name, &arguments).1
    };
    let paths = || {
        let answer = ask("Mailbox/list", json!({}));
        answer["list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let default_paths = paths();
    assert_eq!(default_paths, ["Archive", "Drafts", "Inbox", "Junk", "Sent", "Trash"]);
    assert_eq!(ask("Mailbox/add", json!({"path": "Work/2026"}))["type"], "notFound");
    // RFC 8621 §2.
    let large = ask("Mailbox/add", json!({"path": "Work", "sortOrder": 1u32 << 31}));
    assert_eq!(large["type"], "invalidArguments");
    ask("Mailbox/add", json!({"path": "Work", "sortOrder": 7}));
    let made = ask("Mailbox/add", json!({"path": "Work/2026"}));
    assert_eq!(
        (&made["path"], &made["name"], &made["totalEmails"]),
        (&json!("Work/2026"), &json!("2026"), &json!(0))
    );
    assert_eq!(ask("Mailbox/add", json!({"path": "Work/2026"}))["type"], "conflict");
    let change = |arguments: Value| ask("Mailbox/change", arguments);
    assert_eq!(change(json!({"mailbox": "work/2026", "name": "2027"}))["path"], "Work/2027");
    assert_eq!(change(json!({"mailbox": made["id"], "name": "a/b"}))["type"], "invalidArguments");
    assert_eq!(change(json!({"mailbox": made["id"], "parent": ""}))["path"], "2027");
    assert_eq!(change(json!({"mailbox": "2027", "parent": "Work"}))["path"], "Work/2027");
    assert_eq!(change(json!({"mailbox": "Work", "parent": "Work/2027"}))["type"], "conflict");
    assert_eq!(change(json!({"mailbox": "Work/2027", "role": "important"}))["role"], "important");
    assert_eq!(change(json!({"mailbox": "important", "role": ""}))["role"], json!(null));
    assert_eq!(change(json!({"mailbox": "Work", "role": "boss"}))["type"], "invalidArguments");
    assert_eq!(
        change(json!({"mailbox": "Work", "isSubscribed": false, "sortOrder": 9}))["isSubscribed"],
        false
    );
    let attributes = |patch: Value| change(json!({"mailbox": "Work", "attributes": patch}));
    assert_eq!(
        attributes(json!({"color": "#1e90ff", "note": "x"}))["attributes"],
        json!({"color": "#1e90ff", "note": "x"})
    );
    assert_eq!(attributes(json!({"note": null}))["attributes"], json!({"color": "#1e90ff"}));
    assert_eq!(attributes(json!({"color": "blue"}))["type"], "conflict");
    assert_eq!(attributes(json!({"color": 1}))["type"], "invalidArguments");
    assert_eq!(
        ask("Mailbox/add", json!({"path": "Play", "attributes": {"A": "x"}}))["type"],
        "conflict"
    );
    assert!(
        !paths().contains(&"Play".to_owned()),
        "a mailbox with invalid attributes is not created"
    );
    // A mailbox with emails is removed only with `emails`, one with children and the Inbox never.
    let inbox = ask("Mail/list", json!({}))["list"][0]["id"].clone();
    ask("Mail/move", json!({"ids": [inbox], "mailbox": "Work/2027"}));
    let remove = |arguments: Value| ask("Mailbox/remove", arguments);
    assert_eq!(remove(json!({"mailbox": "Work", "emails": true}))["type"], "conflict");
    assert_eq!(remove(json!({"mailbox": "Work/2027"}))["type"], "conflict");
    assert_eq!(remove(json!({"mailbox": "Inbox", "emails": true}))["type"], "conflict");
    assert_eq!(remove(json!({"mailbox": "Work/2027", "emails": true})), json!({"emails": 1}));
    assert_eq!(remove(json!({"mailbox": "Work"})), json!({"emails": 0}));
    assert_eq!(paths(), default_paths);
    // The email of a removed mailbox can be restored, into the Inbox.
    let destroyed = ask("Mail/destroyed", json!({}))["list"][0]["id"].clone();
    ask("Mail/restore", json!({"ids": [destroyed]}));
    assert_eq!(ask("Mail/list", json!({"mailbox": "inbox"}))["list"].as_array().unwrap().len(), 1);
}

/// The first step removes 64 emails. The child is made before the second.
#[test]
fn mailbox_that_gets_a_child_while_it_is_emptied_keeps_its_other_emails() {
    let context = context();
    let subjects: Vec<String> = (0..70).map(|n| n.to_string()).collect();
    let (ann, ids) = filed(&context, &subjects.iter().map(String::as_str).collect::<Vec<_>>());
    let ask = |name: &str, mut arguments: Value| {
        arguments["accountId"] = ann.clone().into();
        call(&context, name, &arguments).1
    };
    let work = ask("Mailbox/add", json!({"path": "Work"}))["id"].clone();
    ask("Mail/move", json!({"ids": ids, "mailbox": "Work"}));
    let child = NewMailbox {
        name: "child".into(),
        parent: Some(work.as_str().unwrap().parse().unwrap()),
        role: None,
        sort_order: 0,
    };
    let store = parking_lot::Mutex::new(Some(context.store.clone()));
    context.store.on_change(move |change| {
        if let Some(store) = store.lock().take() {
            drop(store.commit(change.account, |txn| txn.create_mailbox(&child)).unwrap());
        }
    });
    let removed = ask("Mailbox/remove", json!({"mailbox": "Work", "emails": true}));
    assert_eq!(removed["type"], "conflict", "{removed}");
    let listed = ask("Mail/list", json!({"mailbox": "Work"}));
    assert_eq!(listed["list"].as_array().unwrap().len(), 6);
}

#[test]
fn index_without_emails_has_the_mailboxes() {
    let context = context();
    let (ann, _) = filed(&context, &["one"]);
    let index = |limit: u64| {
        let (_, answer) = call(&context, "Mail/index", &json!({"accountId": ann, "limit": limit}));
        ["list", "mailboxes"].map(|rows| answer[rows].as_array().unwrap().len())
    };
    assert_eq!((index(0), index(1)), ([0, 6], [1, 6]));
}

#[test]
fn jobs_report_progress_and_run_one_at_a_time() {
    let context = context();
    let result = |job: &Value| loop {
        let (_, now) = call(&context, "Job/get", &json!({"job": job["job"]}));
        if now["done"] == true {
            break now["result"].clone();
        }
        std::thread::yield_now();
    };
    assert_eq!(error(&context, "Job/get", &json!({"job": 1})), "notFound");
    let first = call(&context, "Store/check", &json!({"blobs": true})).1;
    assert_eq!(result(&first)["breaches"], json!([]));
    let second = call(
        &context,
        "Store/repair",
        &json!({"scope": "rebuild", "accounts": ["bob@example.org"]}),
    )
    .1;
    let done = result(&second);
    assert_eq!(
        (&done["accounts"], done["renewed"].as_array().map(Vec::len)),
        (&json!(1), Some(1)),
        "{done}"
    );
    assert_eq!(error(&context, "Job/get", &first), "notFound", "only the last job is known");
    assert_eq!(
        error(&context, "Store/repair", &json!({"scope": "everything"})),
        "invalidArguments"
    );
    assert_eq!(
        error(&context, "Store/repair", &json!({"scope": "repair", "accounts": ["x@y"]})),
        "accountNotFound"
    );
    assert_eq!(error(&context, "Store/backup", &json!({"dir": "here"})), "invalidArguments");
    // A store in memory cannot be backed up.
    let dir = tempfile::tempdir().unwrap();
    let backup = call(&context, "Store/backup", &json!({"dir": dir.path().join("b")})).1;
    while call(&context, "Job/get", &backup).1["done"] == false {}
    assert_eq!(error(&context, "Job/get", &backup), "conflict");
    // While a job runs, no other can start. `stop` ends the job.
    let (begun, wait) = std::sync::mpsc::channel();
    let slow = context.jobs.start("test", move |progress| {
        begun.send(()).unwrap();
        while progress
            .report(JobStage::Store(StoreProgress { rows: 7, ..StoreProgress::default() }))
        {
            std::thread::yield_now();
        }
        Err(Error::Stopped)
    });
    wait.recv().unwrap();
    assert_eq!(error(&context, "Store/check", &json!({})), "conflict");
    let slow = json!(slow.unwrap());
    while call(&context, "Job/get", &slow).1["progress"]["rows"] != 7 {}
    context.jobs.stop(std::time::Duration::from_secs(20));
    assert_eq!(error(&context, "Job/get", &slow), "serverUnavailable");
    assert_eq!(error(&context, "Store/check", &json!({})), "serverUnavailable");
}
