use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::account::{Directory, NewAccount, Settings};
use crate::model::clock::Fixed;
use crate::model::{Address, UtcMillis, VacationResponse};
use crate::store::engine::memory::Memory;
use crate::store::{Options, Store};
use crate::wire::jmap::{octets, parse};
use crate::wire::smtp::Reply;

fn context() -> Context {
    let clock = Arc::new(Fixed::at(UtcMillis(1_795_251_600_000)));
    let store = Store::over(Arc::new(Memory::new()), &Options::small(), clock).unwrap();
    let directory = Directory::new(store.clone(), Settings::default());
    let ann =
        NewAccount { unix_user: Some("ann".into()), ..NewAccount::at(Address::parse("ann@example.org").unwrap()) };
    directory.add(&ann).unwrap();
    directory.add(&NewAccount::at(Address::parse("bob@example.org").unwrap())).unwrap();
    Context {
        store,
        directory,
        vacation: crate::vacation::Settings::default(),
        deliver: Arc::new(|_, recipients, _| {
            recipients.into_iter().map(|one| (one, Reply::new(250, [2, 0, 0], "filed"))).collect()
        }),
        caller: Caller { user: Some("root".into()), admin: true },
    }
}

fn call(context: &Context, name: &str, arguments: &Value) -> (String, Value) {
    let request = json!({"using": CAPABILITIES, "methodCalls": [[name, arguments, "c"]]});
    let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
    let answer = run(context, request).json()["methodResponses"][0].clone();
    assert_eq!(answer[2], "c");
    (answer[0].as_str().unwrap().to_owned(), answer[1].clone())
}

fn error(context: &Context, name: &str, arguments: &Value) -> String {
    let (kind, answer) = call(context, name, arguments);
    assert_eq!(kind, "error", "{answer}");
    answer["type"].as_str().unwrap().to_owned()
}

#[test]
fn a_vacation_is_set_by_patch_and_read_back() {
    let context = context();
    let (_, account) = call(&context, "Account/get", &json!({"account": "ann@example.org"}));
    let id = account["id"].as_str().unwrap();
    let (_, before) = call(&context, "VacationResponse/get", &json!({"accountId": id}));
    assert_eq!(before["list"][0]["isEnabled"], false);
    let patch = json!({"isEnabled": true, "textBody": "Away", "toDate": "2027-01-01T00:00:00Z", "addresses": ["a@example.org"]});
    let set = |patch: &Value| {
        call(&context, "VacationResponse/set", &json!({"accountId": id, "update": {"singleton": patch}})).1
    };
    let done = set(&patch);
    assert_eq!((&done["updated"], &done["oldState"]), (&json!({"singleton": null}), &before["state"]));
    assert_ne!(done["newState"], done["oldState"]);
    // A mere re-save changes nothing.
    assert_eq!(set(&patch)["newState"], done["newState"]);
    let (_, after) = call(
        &context,
        "VacationResponse/get",
        &json!({"accountId": id, "ids": ["singleton", "x"], "properties": ["textBody"]}),
    );
    assert_eq!(after["list"], json!([{"id": "singleton", "textBody": "Away"}]));
    assert_eq!(after["notFound"], json!(["x"]));
    for (patch, property) in [
        (json!({"isEnabled": 1}), "isEnabled"),
        (json!({"fromDate": "2026-01-01"}), "fromDate"),
        (json!({"fromDate": "2028-01-01T00:00:00Z"}), "fromDate"),
        (json!({"colour": "red"}), "colour"),
        (json!({"from": {"email": "x"}}), "from"),
    ] {
        let refused = &set(&patch)["notUpdated"]["singleton"];
        assert_eq!(
            (&refused["type"], &refused["properties"][0]),
            (&json!("invalidProperties"), &json!(property)),
            "{patch}"
        );
    }
    let wrong = call(
        &context,
        "VacationResponse/set",
        &json!({"accountId": id, "create": {"k": {}}, "destroy": ["singleton"]}),
    )
    .1;
    assert_eq!(
        (&wrong["notCreated"]["k"]["type"], &wrong["notDestroyed"]["singleton"]["type"]),
        (&json!("singleton"), &json!("singleton"))
    );
    let message = octets(b"From: x@example.net\r\nTo: ann@example.org\r\nSubject: hi\r\n\r\nhi\r\n");
    let (_, would) = call(&context, "VacationResponse/test", &json!({"accountId": id, "message": message}));
    assert!(would["reply"].as_str().unwrap().contains("Subject: Auto: hi"), "{would}");
    let (_, none) =
        call(&context, "VacationResponse/test", &json!({"accountId": id, "message": message, "sender": ""}));
    assert_eq!(none["reason"], "null-sender");
}

#[test]
fn who_may_do_what() {
    let mut context = context();
    context.caller = Caller { user: Some("ann".into()), admin: false };
    assert_eq!(call(&context, "Account/get", &json!({"account": "ann@example.org"})).1["unixUser"], "ann");
    assert_eq!(error(&context, "Account/get", &json!({"account": "bob@example.org"})), "forbidden");
    assert_eq!(error(&context, "Account/get", &json!({"account": "nobody@example.org"})), "forbidden");
    for method in ["Account/list", "Account/add", "Store/check", "Service/status", "Queue/list"] {
        assert_eq!(error(&context, method, &json!({"address": "x@example.org"})), "forbidden", "{method}");
    }
    context.caller = Caller { user: None, admin: false };
    assert_eq!(error(&context, "Account/get", &json!({"account": "bob@example.org"})), "forbidden");
}

#[test]
fn errors_of_methods() {
    let context = context();
    assert_eq!(error(&context, "No/such", &json!({})), "unknownMethod");
    assert_eq!(error(&context, "Mail/list", &json!({})), "invalidArguments");
    assert_eq!(error(&context, "Mail/list", &json!({"accountId": "zzz"})), "accountNotFound");
    for method in ["Mail/list", "Decision/list"] {
        let too_many = json!({"account": "ann@example.org", "limit": 10_001});
        assert_eq!(error(&context, method, &too_many), "invalidArguments");
    }
    assert_eq!(error(&context, "Mail/list", &json!({"account": "ann@example.org", "mailbox": "nowhere"})), "notFound");
    assert_eq!(error(&context, "Account/add", &json!({"address": "ann@example.org"})), "conflict");
    assert_eq!(error(&context, "Account/add", &json!({"address": "x y"})), "invalidArguments");
    assert_eq!(error(&context, "Queue/remove", &json!({"account": "ann@example.org", "id": "q0"})), "notFound");
    let stale = json!({"account": "ann@example.org", "ifInState": "0-0", "update": {"singleton": {"isEnabled": true}}});
    assert_eq!(error(&context, "VacationResponse/set", &stale), "stateMismatch");
    let (_, now) = call(&context, "VacationResponse/get", &json!({"account": "ann@example.org"}));
    assert_eq!(now["list"][0]["isEnabled"], false);
    // A method whose capability the request does not use is not known.
    let request = json!({"using": ["urn:ietf:params:jmap:core"], "methodCalls": [["Store/check", {}, "0"]]});
    let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
    assert_eq!(run(&context, request).json()["methodResponses"][0][1]["type"], "unknownMethod");
    assert_eq!(call(&context, "Store/check", &json!({})).1["breaches"], json!([]));
    assert_eq!(call(&context, "Mail/list", &json!({"account": "ann@example.org"})).1["list"], json!([]));
}

#[test]
fn calls_may_refer_to_earlier_answers() {
    let context = context();
    let request = json!({"using": CAPABILITIES, "methodCalls": [
        ["Account/get", {"account": "bob@example.org"}, "0"],
        ["VacationResponse/get", {"#accountId": {"resultOf": "0", "name": "Account/get", "path": "/id"}}, "1"],
        ["VacationResponse/get", {"#accountId": {"resultOf": "9", "name": "Account/get", "path": "/id"}}, "2"],
    ]});
    let answer = run(&context, parse(request.to_string().as_bytes(), CAPABILITIES).unwrap()).json();
    assert_eq!(answer["methodResponses"][1][1]["list"][0]["id"], "singleton");
    assert_eq!(answer["methodResponses"][2][1]["type"], "invalidResultReference");
}

/// Mail of ann's, oldest first: its subjects are the numbers.
fn letters(context: &Context, count: u32) -> String {
    use crate::message::rows;
    use crate::store::{EncodedMessage, NewEmail};
    let (_, account) = call(context, "Account/get", &json!({"account": "ann@example.org"}));
    let id = account["id"].as_str().unwrap().to_owned();
    let account = id.parse().unwrap();
    for n in 0..count {
        let raw =
            format!("From: bob@example.org\r\nSubject: no. {n} <b>\r\nMessage-ID: <{n}@x>\r\n\r\nlunch {n} & more\r\n");
        let message = EncodedMessage::new(&rows(raw.as_bytes(), context.store.secrets()));
        let (mut results, ticket) = context.store.commit_message(&[account], &message, raw.as_bytes(), |txn| {
            let (mailboxes, keywords) = ([txn.state().inbox].into(), ["work".to_owned()].into());
            let received_at = UtcMillis(1_795_000_000_000 + i64::from(n) * 1000);
            txn.create_email(&NewEmail { message: &message, prefix: b"", mailboxes, keywords, received_at })
        });
        results.pop().unwrap().1.unwrap();
        ticket.wait_blocking().unwrap();
    }
    id
}

#[test]
fn mail_is_found_with_what_was_found_in_it_and_how() {
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
    let anchored = ask(json!({"mailbox": "Inbox", "anchor": all["ids"][1], "anchorOffset": -1, "limit": 3}));
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
fn what_is_asked_is_made_and_then_serves() {
    let context = context();
    let id = letters(&context, 300);
    let unseen =
        json!({"accountId": id, "mailbox": "inbox", "filter": {"notKeyword": "$seen"}, "calculateTotal": true});
    let explained = || {
        let mut arguments = unseen.clone();
        arguments["explain"] = true.into();
        call(&context, "Mail/query", &arguments).1["plan"].clone()
    };
    let before = explained();
    assert_eq!((&before["strategy"], &before["wanted"]["view"]), (&json!("generic"), &json!("unseen")));
    assert!(before["text"].as_str().unwrap().contains("\nwanted: mailbox "), "{before}");
    // Explaining makes nothing.
    assert_eq!(explained(), before);
    let (_, first) = call(&context, "Mail/query", &unseen);
    // What the answer began is written by and by, and before whatever changes after it.
    let other = VacationResponse { enabled: true, ..VacationResponse::default() };
    let change = context.store.commit(id.parse().unwrap(), |txn| txn.set_vacation(&other));
    change.unwrap().1.wait_blocking().unwrap();
    let after = explained();
    assert_eq!((&after["strategy"], &after["wanted"]), (&json!("listing"), &Value::Null), "{after}");
    let (_, second) = call(&context, "Mail/query", &unseen);
    assert_eq!((&first["ids"], &first["total"]), (&second["ids"], &second["total"]));
    assert_eq!(first["queryState"], second["queryState"]);
}

#[test]
fn questions_that_are_none_are_refused_by_their_names() {
    let context = context();
    let id = letters(&context, 1);
    for (wrong, kind) in [
        (json!({"filter": {"colour": "red"}}), "unsupportedFilter"),
        (json!({"filter": {"text": 5}}), "invalidArguments"),
        (json!({"sort": [{"property": "colour"}]}), "unsupportedSort"),
        (json!({"anchor": "e0000000000000"}), "anchorNotFound"),
        (json!({"position": "first"}), "invalidArguments"),
        (json!({"limit": -1}), "invalidArguments"),
        (json!({"mailbox": "nowhere"}), "notFound"),
    ] {
        let mut arguments = json!({"accountId": id});
        arguments.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        assert_eq!(error(&context, "Mail/query", &arguments), kind, "{wrong}");
    }
    assert_eq!(error(&context, "Mail/query", &json!({"accountId": "a0000000"})), "accountNotFound");
}
