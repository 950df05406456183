//! One request has one budget, however many calls it holds.

use serde_json::{Value, json};

use super::{account_of, call, context};
use crate::jmap::budget::Budget;
use crate::jmap::dispatch::run_within;
use crate::jmap::email::read_tests::filed;
use crate::jmap::{CAPABILITIES, Context, run};
use crate::model::limits;
use crate::wire::jmap::parse;

/// The answers to the calls of one request, within a budget or the usual one.
fn ask(context: &Context, budget: Option<Budget>, calls: &Value) -> Vec<Value> {
    let request = json!({"using": CAPABILITIES, "methodCalls": calls});
    let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
    let response = match budget {
        Some(budget) => run_within(context, budget, request),
        None => run(context, request),
    };
    response.json()["methodResponses"].as_array().unwrap().clone()
}

fn message(text: usize) -> String {
    let lines = "Sphinx of black quartz, judge my vow.\r\n".repeat(text / 39);
    format!("From: bob@example.net\r\nTo: ann@example.org\r\nSubject: s\r\nMessage-ID: <1@x>\r\n\r\n{lines}")
}

#[test]
fn texts_of_all_calls_together_are_bounded() {
    let context = context();
    let (ann, id) = (account_of(&context), filed(&context, message(4_000_000).as_bytes()));
    let get = |n: usize| {
        json!(["Email/get", {
            "accountId": ann, "ids": [id], "properties": ["bodyValues"], "fetchAllBodyValues": true,
        }, n.to_string()])
    };
    let answers = ask(&context, None, &(0..24).map(get).collect());
    let text = |answer: &Value| answer[1]["list"][0]["bodyValues"]["0"]["value"].as_str().map_or(0, str::len);
    let given: usize = answers.iter().map(text).sum();
    assert!(given > limits::ANSWER_BYTES / 2 && given < limits::ANSWER_BYTES, "{given}");
    assert_eq!((&answers[0][0], &answers[23][0]), (&json!("Email/get"), &json!("error")));
    assert_eq!(answers[23][1]["type"], "requestTooLarge");
}

#[test]
fn header_fields_and_parts_count_as_texts_do() {
    let context = context();
    let ann = account_of(&context);
    let fields = "X-Long: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(2000);
    let parts = "--b\r\nContent-Type: text/x\r\n\r\nx\r\n".repeat(500);
    let raw = format!(
        "{fields}Subject: s\r\nFrom: bob@example.net\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{parts}--b--\r\n"
    );
    let id = filed(&context, raw.as_bytes());
    let headers: Vec<String> = (0..200).map(|n| format!("header:X-{n}")).collect();
    for (what, fits) in [
        (json!({"properties": ["headers"]}), 3_000_000),
        (json!({"properties": ["header:X-Long:asText:all"]}), 1_000_000),
        (json!({"properties": ["bodyStructure"]}), 2_000_000),
        (json!({"properties": ["bodyStructure"], "bodyProperties": headers}), 50_000_000),
    ] {
        let mut arguments = json!({"accountId": ann, "ids": [id]});
        arguments.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        let kind = |answer: usize| {
            let budget = Budget::with(limits::READ_BYTES, 0, answer);
            ask(&context, Some(budget), &json!([["Email/get", arguments, "c"]]))[0][0].clone()
        };
        assert_eq!((kind(100_000), kind(fits)), (json!("error"), json!("Email/get")), "{what}");
    }
    let many: Vec<String> = (0..251).map(|n| format!("header:X-{n}")).collect();
    for what in [json!({"properties": many}), json!({"bodyProperties": many, "properties": ["bodyStructure"]})] {
        let mut arguments = json!({"accountId": ann, "ids": [id]});
        arguments.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        assert_eq!(call(&context, "Email/get", &arguments).1["type"], "requestTooLarge");
    }
}

/// Whatever reads messages or uploads is charged for it.
#[test]
fn every_method_that_reads_messages_is_charged() {
    let context = context();
    let (ann, id) = (account_of(&context), filed(&context, message(300_000).as_bytes()));
    let bob = context.directory.find("bob@example.org").unwrap().unwrap().0.to_string();
    let blob = format!("o{}", &id[1..]);
    let upload = |n: usize| {
        let raw = format!("X-N: {n}\r\n{}", message(300_000)).into_bytes();
        context.keep_upload(ann.parse().unwrap(), &raw, "message/rfc822").unwrap().to_string()
    };
    let uploads: Vec<String> = (0..6).map(upload).collect();
    let inbox = call(&context, "Mailbox/query", &json!({"accountId": ann, "filter": {"role": "inbox"}})).1["ids"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let others = call(&context, "Mailbox/query", &json!({"accountId": bob, "filter": {"role": "inbox"}})).1["ids"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let of = |account: &str, more: Value| {
        let mut arguments = json!({"accountId": account});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let calls = [
        ("Email/get", of(&ann, json!({"ids": [id], "properties": ["bodyStructure"]}))),
        ("Email/parse", of(&ann, json!({"blobIds": [uploads[0]]}))),
        ("SearchSnippet/get", of(&ann, json!({"emailIds": [id], "filter": {"body": "quartz"}}))),
        ("Blob/get", of(&ann, json!({"ids": [blob], "properties": ["data"]}))),
        ("Blob/get", of(&ann, json!({"ids": [format!("{}-0", uploads[1])], "properties": ["size"]}))),
        ("Blob/lookup", of(&ann, json!({"ids": [format!("{}-0", uploads[1])], "typeNames": ["Email"]}))),
        ("Blob/upload", of(&ann, json!({"create": {"k": {"data": [{"blobId": blob}]}}}))),
        ("Blob/copy", of(&bob, json!({"fromAccountId": ann, "blobIds": [blob]}))),
        ("MDN/parse", of(&ann, json!({"blobIds": [uploads[2]]}))),
        ("Email/import", of(&ann, json!({"emails": {"k": {"blobId": uploads[3], "mailboxIds": {&inbox: true}}}}))),
        (
            "Email/copy",
            of(&bob, json!({"fromAccountId": ann, "create": {"k": {"id": id, "mailboxIds": {&others: true}}}})),
        ),
        (
            "Email/set",
            of(&ann, json!({"create": {"k": {"mailboxIds": {&inbox: true}, "attachments": [{"blobId": uploads[4]}]}}})),
        ),
        ("Email/set", of(&ann, json!({"update": {&id: {"htmlBody": []}}}))),
    ];
    for (method, arguments) in calls {
        let told = |read: u64| {
            let budget = Budget::with(read, limits::FILED_BYTES, limits::ANSWER_BYTES);
            ask(&context, Some(budget), &json!([[method, arguments, "c"]]))[0][1].to_string()
        };
        let (poor, rich) = (told(1000), told(limits::READ_BYTES));
        let is_refused = |told: &str| told.contains("requestTooLarge") || told.contains("rateLimit");
        assert!(is_refused(&poor) && !is_refused(&rich), "{method} {arguments}: {poor}");
    }
}

#[test]
fn what_all_calls_store_is_bounded() {
    let context = context();
    let ann = account_of(&context);
    let upload = |n: usize| {
        json!(["Blob/upload", {
            "accountId": ann, "create": {"k": {"data": [{"data:asText": n.to_string().repeat(400)}]}},
        }, n.to_string()])
    };
    let budget = Budget::with(limits::READ_BYTES, 1000, limits::ANSWER_BYTES);
    let answers = ask(&context, Some(budget), &(0..4).map(upload).collect());
    let made: Vec<bool> = answers.iter().map(|answer| answer[1]["created"]["k"].is_object()).collect();
    assert_eq!(made, [true, true, false, false]);
    assert_eq!(answers[3][1]["notCreated"]["k"]["type"], "rateLimit");
}

/// An answer that tells of changes is given, and takes what room there is; nothing of what can be
/// asked again has any then.
#[test]
fn answers_about_changes_are_given_whatever_their_size() {
    let context = context();
    let ann = account_of(&context);
    let create: Value = (0..50).map(|n| (format!("k{n}"), json!({"name": format!("Box {n}")}))).collect();
    let calls = json!([
        ["Mailbox/set", {"accountId": ann, "create": create}, "0"],
        ["Mailbox/get", {"accountId": ann}, "1"],
        ["Mailbox/set", {"accountId": ann, "create": {"z": {"name": "One more"}}}, "2"],
    ]);
    let answers = ask(&context, Some(Budget::with(0, 0, 2000)), &calls);
    let kinds: Vec<&str> = answers.iter().map(|answer| answer[0].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Mailbox/set", "error", "Mailbox/set"]);
    assert_eq!(answers[0][1]["created"].as_object().unwrap().len(), 50);
}

/// What is asked for many times is looked at once.
#[test]
fn repeated_properties_are_one() {
    let context = context();
    let (ann, id) = (account_of(&context), filed(&context, message(1000).as_bytes()));
    let names = |name: &str| Value::from(vec![name; 20_000]);
    let get = json!({"accountId": ann, "ids": [id], "properties": names("subject"), "bodyProperties": names("size")});
    assert_eq!(call(&context, "Email/get", &get).1["list"][0], json!({"id": id, "subject": "s"}));
    let blob = format!("o{}", &id[1..]);
    let digests = json!({"accountId": ann, "ids": [blob], "properties": names("digest:sha-512")});
    assert!(call(&context, "Blob/get", &digests).1["list"][0]["digest:sha-512"].is_string());
    let destroy: Vec<String> = (0..20_000).map(|n| format!("m{}", n % 3)).collect();
    assert_eq!(call(&context, "Email/set", &json!({"accountId": ann, "destroy": destroy})).0, "Email/set");
}

/// Header fields are read without the rest of the message, whatever the length of the header.
#[test]
fn header_properties_read_the_header_alone() {
    let context = context();
    let ann = account_of(&context);
    let long = format!("X-Long: {}\r\n{}", "y".repeat(900), format!(" {}\r\n", "z".repeat(900)).repeat(400));
    let body = "Sphinx of black quartz, judge my vow.\r\n".repeat(40_000);
    let mut ids = Vec::new();
    for header in ["", &long] {
        let raw = format!("{header}X-Last: seen\r\nSubject: s\r\nFrom: bob@example.net\r\n\r\n{body}");
        ids.push(filed(&context, raw.as_bytes()));
    }
    let properties = json!(["header:X-Last", "header:Subject:asText"]);
    let ask = |id: &str, properties: &Value, read: u64| {
        let budget = Budget::with(read, 0, limits::ANSWER_BYTES);
        let get = json!([["Email/get", {"accountId": ann, "ids": [id], "properties": properties}, "c"]]);
        ask(&context, Some(budget), &get)[0].clone()
    };
    for (id, read) in [(&ids[0], 140_000), (&ids[1], 540_000)] {
        let shown = ask(id, &properties, read);
        assert_eq!(shown[1]["list"][0]["header:X-Last"], " seen", "{shown}");
        assert_eq!(shown[1]["list"][0]["header:Subject:asText"], "s");
        assert_eq!(ask(id, &json!(["headers"]), read)[0], "Email/get");
        // The body is far beyond that.
        assert_eq!(ask(id, &json!(["header:X-Last", "textBody"]), read)[1]["type"], "requestTooLarge");
    }
    assert_eq!(ask(&ids[1], &properties, 1000)[1]["type"], "requestTooLarge");
}
