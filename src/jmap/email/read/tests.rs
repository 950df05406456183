//! Email/get, Email/parse and SearchSnippet/get.

use serde_json::{Value, json};

use crate::jmap::Context;
use crate::jmap::tests::{account_of, call, context, error};
use crate::jmap::{CAPABILITIES, run};
use crate::message::rows;
use crate::model::UtcMillis;
use crate::store::{EncodedMessage, NewEmail};
use crate::wire::jmap::{Response, parse};

const PREFIX: &[u8] = b"Return-Path: <bob@example.net>\r\n";

/// Files a message into Ann's Inbox, with the trace prefix `PREFIX` and the keyword `$seen`.
/// Returns the id of the email.
pub(in crate::jmap) fn filed(context: &Context, raw: &[u8]) -> String {
    let (ann, _) = context.directory.find_account("ann@example.org").unwrap().unwrap();
    let message = EncodedMessage::new(&rows(raw, context.store.secrets()));
    let (mut made, ticket) = context.store.commit_message(&[ann], &message, raw, |txn| {
        txn.create_email(&NewEmail {
            message: &message,
            prefix: PREFIX,
            mailboxes: [txn.state().inbox].into(),
            keywords: ["$seen".to_owned()].into(),
            received_at: UtcMillis(1_795_000_000_000),
        })
    });
    ticket.wait_blocking().unwrap();
    made.pop().unwrap().1.unwrap().0.to_string()
}

const MIXED: &str = "From: \"B, Bob\" <bob@example.net>\r\nTo: Ann <ann@example.org>, \
    c@example.com\r\nCc: \r\n\
    Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=  two\r\nDate: Sat, 21 Nov 2026 10:00:00 +0100\r\n\
    Message-ID: <1@x>\r\n\
    References: <a@x> <b@x>\r\nX-A: one\r\nX-A: two\r\nList-Post: <mailto:l@x>\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: multipart/alternative; \
    boundary=c\r\n\r\n\
    --c\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nHello\r\nthere\r\n--c\r\n\
    Content-Type: text/html\r\n\r\n\
    <p>Hello <b>there</b></p>\r\n--c--\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n\
    Subject: inner\r\nContent-Type: \
    multipart/mixed; boundary=d\r\n\r\n--d\r\n\r\ninner text\r\n--d\r\n\
    Content-Type: text/x; name=y\r\nX-P: q\r\n\r\ny\r\n\
    --d--\r\n\r\n--b--\r\n";

/// Returns the size of the message within `MIXED`, in bytes.
fn inner_size() -> u32 {
    let (_, inner) = MIXED.split_once("message/rfc822\r\n\r\n").unwrap();
    u32::try_from(inner.split_once("\r\n--b--").unwrap().0.len()).unwrap()
}

fn get(context: &Context, account: &str, id: &str, more: &Value) -> Value {
    let mut arguments = json!({"accountId": account, "ids": [id]});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (name, answer) = call(context, "Email/get", &arguments);
    assert_eq!(name, "Email/get", "{answer}");
    answer["list"][0].clone()
}

#[test]
fn response_is_the_same_whether_a_later_call_refers_to_it_or_not() {
    let context = context();
    let ids = [MIXED, "Subject: \"\\\u{fdd0}\r\n\r\n\u{1}\r\n"];
    let ids = ids.map(|raw| filed(&context, raw.as_bytes()));
    let properties = ["headers", "bodyStructure", "bodyValues", "from", "subject", "keywords"];
    let arguments = json!({
        "accountId": account_of(&context), "ids": [ids[0], "x", ids[1], "y"],
        "fetchAllBodyValues": true, "properties": properties,
    });
    let written = |calls: Value| {
        let request = json!({"using": CAPABILITIES, "methodCalls": calls});
        let request = parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run(&context, request).unwrap()
    };
    let get = json!(["Email/get", arguments, "0"]);
    let of = |path: &str| json!({"resultOf": "0", "name": "Email/get", "path": path});
    let echo = json!(["Core/echo", {"#list": of("/list"), "#id": of("/list/1/id")}, "1"]);
    let (alone, referred) = (written(json!([get])), written(json!([get, echo])));
    assert!(alone.responses[0].arguments.text.is_some());
    assert!(referred.responses[0].arguments.text.is_none());
    let weight = |response: &Response| response.responses[0].arguments.weight();
    assert_eq!(weight(&alone), weight(&referred));
    let (alone, referred) = (alone.json(), referred.json());
    assert_eq!(alone["methodResponses"][0], referred["methodResponses"][0]);
    let (got, echoed) = (&alone["methodResponses"][0][1], &referred["methodResponses"][1][1]);
    assert_eq!((&got["list"], &got["list"][1]["id"]), (&echoed["list"], &echoed["id"]));
    assert_eq!(
        (got["list"][0]["id"].as_str(), &got["notFound"]),
        (Some(&*ids[0]), &json!(["x", "y"]))
    );
}

#[test]
fn email_get_returns_all_default_properties() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, MIXED.as_bytes()));
    let email = get(&context, &account, &id, &json!({"fetchTextBodyValues": true}));
    // The email `e…` is the blob `o…` with the same digits.
    let digits = &id[1..];
    let part = |number: u32, size: u32, kind: &str, charset: Option<&str>| {
        json!({
            "partId": number.to_string(), "blobId": format!("o{digits}-{number}"), "size": size,
            "name": null, "type": kind,
            "charset": charset, "disposition": null, "cid": null, "language": null,
            "location": null,
        })
    };
    let inbox = email["mailboxIds"].as_object().unwrap().keys().next().unwrap().clone();
    let thread = email["threadId"].clone();
    let wanted = json!({
        "id": id, "blobId": format!("o{digits}"), "threadId": thread, "mailboxIds": {inbox: true},
        "keywords": {"$seen": true}, "size": PREFIX.len() + MIXED.len(),
        "receivedAt": "2026-11-18T11:06:40Z",
        "messageId": ["1@x"], "inReplyTo": null, "references": ["a@x", "b@x"], "sender": null,
        "from": [{"name": "B, Bob", "email": "bob@example.net"}],
        "to": [{"name": "Ann", "email": "ann@example.org"},
            {"name": null, "email": "c@example.com"}],
        "cc": [], "bcc": null, "replyTo": null, "subject": "Gr\u{fc}\u{df}e  two",
        "sentAt": "2026-11-21T10:00:00+01:00",
        "hasAttachment": true, "preview": "Hello there",
        "bodyValues": {"2": {"value": "Hello\nthere", "isEncodingProblem": false,
            "isTruncated": false}},
        "textBody": [part(2, 12, "text/plain", Some("utf-8"))],
        "htmlBody": [part(3, 25, "text/html", Some("us-ascii"))],
        "attachments": [part(4, inner_size(), "message/rfc822", None)],
    });
    assert_eq!(email, wanted);
}

#[test]
fn header_property_is_returned_in_the_requested_form() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, MIXED.as_bytes()));
    let names = [
        "header:x-a",
        "header:X-A:asText:all",
        "header:From:asGroupedAddresses",
        "header:list-post:asURLs",
        "header:Date:asDate",
        "header:References:asMessageIds",
        "header:None",
        "header:None:all",
        "header:Return-Path",
    ];
    let email = get(&context, &account, &id, &json!({"properties": names}));
    let wanted = json!({
        "id": id, "header:x-a": " two", "header:X-A:asText:all": ["one", "two"],
        "header:From:asGroupedAddresses": [{"name": null,
            "addresses": [{"name": "B, Bob", "email": "bob@example.net"}]}],
        "header:list-post:asURLs": ["mailto:l@x"],
        "header:Date:asDate": "2026-11-21T10:00:00+01:00",
        "header:References:asMessageIds": ["a@x", "b@x"], "header:None": null,
        "header:None:all": [],
        "header:Return-Path": " <bob@example.net>",
    });
    assert_eq!(email, wanted);
    let headers =
        get(&context, &account, &id, &json!({"properties": ["headers"]}))["headers"].clone();
    assert_eq!(headers[0], json!({"name": "Return-Path", "value": " <bob@example.net>"}));
    // Return-Path, and the eleven fields of `MIXED`.
    assert_eq!(headers.as_array().unwrap().len(), 12);
    for bad in ["header:From:asText", "header:", "headers:", "nothing", "header:X:asText:asText"] {
        let ask = json!({"accountId": account, "ids": [id], "properties": [bad]});
        assert_eq!(error(&context, "Email/get", &ask), "invalidArguments", "{bad}");
    }
}

#[test]
fn body_structure_is_a_tree_with_the_requested_properties() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, MIXED.as_bytes()));
    let ask = json!({"properties": ["bodyStructure"], "bodyProperties": ["partId", "type",
        "header:X-A:asText", "subParts"]});
    let leaf = |number: &str, kind: &str| {
        let header = "header:X-A:asText";
        json!({"partId": number, "type": kind, header: null, "subParts": null})
    };
    let wanted = json!({
        "partId": null, "type": "multipart/mixed", "header:X-A:asText": "two", "subParts": [
            {"partId": null, "type": "multipart/alternative", "header:X-A:asText": null,
             "subParts": [leaf("2", "text/plain"), leaf("3", "text/html")]},
            leaf("4", "message/rfc822"),
        ],
    });
    assert_eq!(get(&context, &account, &id, &ask)["bodyStructure"], wanted);
    let ask = json!({"properties": ["bodyStructure"]});
    assert_eq!(
        get(&context, &account, &id, &ask)["bodyStructure"]["subParts"][0]["subParts"][1]["partId"],
        "3"
    );
    let ask = json!({"properties": ["bodyStructure"], "bodyProperties": ["headers"]});
    let root = get(&context, &account, &id, &ask)["bodyStructure"]["headers"].clone();
    assert_eq!(root.as_array().unwrap().len(), 12);
}

#[test]
fn body_values_are_returned_as_requested_and_truncated() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, MIXED.as_bytes()));
    let values = |more: Value| {
        let mut ask = json!({"properties": ["bodyValues"]});
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        get(&context, &account, &id, &ask)["bodyValues"].clone()
    };
    assert_eq!(values(json!({})), json!({}));
    let keys =
        |value: Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(values(json!({"fetchHTMLBodyValues": true}))), "3");
    assert_eq!(keys(values(json!({"fetchAllBodyValues": true}))), "2 3");
    let cut = values(json!({"fetchAllBodyValues": true, "maxBodyValueBytes": 11}));
    assert_eq!(
        cut["2"],
        json!({"value": "Hello\nthere", "isEncodingProblem": false, "isTruncated": false})
    );
    // HTML is not cut within a tag: 11 bytes would end in `<b`.
    assert_eq!(
        cut["3"],
        json!({"value": "<p>Hello ", "isEncodingProblem": false, "isTruncated": true})
    );
    for bad in [
        json!({"maxBodyValueBytes": -1}),
        json!({"fetchAllBodyValues": 1}),
        json!({"bodyProperties": ["x"]}),
        json!({"bodyProperties": ["header:From:asDate"]}),
        json!({"properties": "id"}),
        json!({"maxBodyValueBytes": 0.5}),
    ] {
        let mut ask = json!({"accountId": account, "ids": [id]});
        ask.as_object_mut().unwrap().extend(bad.as_object().unwrap().clone());
        assert_eq!(error(&context, "Email/get", &ask), "invalidArguments", "{bad}");
    }
}

#[test]
fn missing_ids_are_reported_and_repeated_ids_returned_once() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, b"Subject: x\r\n\r\ny"));
    let ask = json!({"accountId": account, "ids": [id, "e0000000000000", id, "nonsense"],
        "properties": ["id"]});
    let (_, answer) = call(&context, "Email/get", &ask);
    assert_eq!(
        (&answer["list"], &answer["notFound"]),
        (&json!([{"id": id}]), &json!(["e0000000000000", "nonsense"]))
    );
    let (_, all) = call(
        &context,
        "Email/get",
        &json!({"accountId": account, "ids": null, "properties": ["id"]}),
    );
    assert_eq!((&all["list"], &all["state"]), (&json!([{"id": id}]), &answer["state"]));
    let many: Vec<String> = (0..1001).map(|n| format!("x{n}")).collect();
    assert_eq!(
        error(&context, "Email/get", &json!({"accountId": account, "ids": many})),
        "requestTooLarge"
    );
    assert_eq!(
        error(&context, "Email/parse", &json!({"accountId": account, "blobIds": many})),
        "requestTooLarge"
    );
    let snippets = json!({"accountId": account, "filter": null, "emailIds": many});
    assert_eq!(error(&context, "SearchSnippet/get", &snippets), "requestTooLarge");
}

#[test]
fn embedded_message_and_its_parts_are_parsed() {
    let context = context();
    let (account, id) = (account_of(&context), filed(&context, MIXED.as_bytes()));
    let whole = format!("o{}", &id[1..]);
    let (inner, text) = (format!("{whole}-4"), format!("{whole}-2"));
    let ids = [
        inner.clone(),
        text.clone(),
        format!("{whole}-9"),
        format!("{inner}-1"),
        whole.clone(),
        "x".into(),
    ];
    let names = [
        "id",
        "threadId",
        "mailboxIds",
        "blobId",
        "size",
        "subject",
        "attachments",
        "header:X-P",
        "bodyValues",
    ];
    let ask = json!({"accountId": account, "blobIds": ids, "properties": names,
        "fetchTextBodyValues": true,
        "bodyProperties": ["blobId", "partId", "name", "header:X-P:asText"]});
    let (name, answer) = call(&context, "Email/parse", &ask);
    assert_eq!(name, "Email/parse", "{answer}");
    let wanted = json!({
        "id": null, "threadId": null, "mailboxIds": null, "blobId": inner, "size": inner_size(),
        "subject": "inner", "header:X-P": null,
        "attachments": [{"blobId": format!("{inner}-2"), "partId": "2", "name": "y",
            "header:X-P:asText": "q"}],
        "bodyValues": {"1": {"value": "inner text", "isEncodingProblem": false,
            "isTruncated": false}},
    });
    assert_eq!(answer["parsed"][&inner], wanted);
    assert_eq!(answer["parsed"][&whole]["subject"], "Gr\u{fc}\u{df}e  two");
    assert_eq!(answer["notFound"], json!([format!("{whole}-9"), "x"]));
    assert_eq!(answer["notParsable"], json!([text, format!("{inner}-1")]));
    // By default there are 13 properties of the content row and 4 of the message.
    let (_, usual) =
        call(&context, "Email/parse", &json!({"accountId": account, "blobIds": [inner]}));
    assert_eq!(
        (&usual["notFound"], usual["parsed"][&inner].as_object().unwrap().len()),
        (&Value::Null, 17)
    );
    assert_eq!(error(&context, "Email/parse", &json!({"accountId": account})), "invalidArguments");
}

#[test]
fn snippets_mark_the_search_terms() {
    let context = context();
    let (account, id) = (
        account_of(&context),
        filed(&context, b"Subject: Lunch & more\r\n\r\nlunch at <noon>\r\n"),
    );
    let other = filed(&context, b"Subject: other\r\n\r\nx\r\n");
    let ask = |filter: Value, ids: Value| {
        call(
            &context,
            "SearchSnippet/get",
            &json!({"accountId": account, "filter": filter, "emailIds": ids}),
        )
    };
    let (_, answer) = ask(json!({"text": "lunch"}), json!([id, other, "none", id]));
    let wanted = json!([
        {"emailId": id, "subject": "<mark>Lunch</mark> &amp; more",
            "preview": "<mark>lunch</mark> at &lt;noon&gt;\r\n"},
        {"emailId": other, "subject": null, "preview": null},
    ]);
    // It does not matter whether the line break at the end is shown, or a blank in its place.
    let trimmed: Value = serde_json::from_str(
        &answer["list"].to_string().replace("\\r\\n", "").replace("&gt; ", "&gt;"),
    )
    .unwrap();
    let wanted: Value = serde_json::from_str(&wanted.to_string().replace("\\r\\n", "")).unwrap();
    assert_eq!((trimmed, &answer["notFound"]), (wanted, &json!(["none"])));
    assert_eq!(
        ask(Value::Null, json!([id])).1["list"],
        json!([{"emailId": id, "subject": null, "preview": null}])
    );
    for (bad, wanted) in [
        (
            json!({"accountId": account, "filter": {"nonsense": 1}, "emailIds": []}),
            "unsupportedFilter",
        ),
        (json!({"accountId": account, "filter": null}), "invalidArguments"),
        (json!({"accountId": account, "filter": null, "emailIds": [1]}), "invalidArguments"),
    ] {
        assert_eq!(error(&context, "SearchSnippet/get", &bad), wanted, "{bad}");
    }
}
