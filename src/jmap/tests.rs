use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::account::{Directory, NewAccount, Settings};
use crate::model::clock::Fixed;
use crate::model::{Address, UtcMillis};
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
