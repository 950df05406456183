//! Creations of Email/set (RFC 8621 §4.6): the properties that are returned, what Email/get and
//! Python read in the message, and the errors.

mod body;
mod header;

use serde_json::{Map, Value, json};

use crate::jmap::Context;
use crate::jmap::email::read::tests::filed;
use crate::jmap::tests::{account_of, call, context};

struct Fixture {
    context: Context,
    account: String,
    inbox: String,
}

impl Fixture {
    fn new() -> Self {
        let context = context();
        let account = account_of(&context);
        let (_, answer) = call(&context, "Mailbox/get", &json!({"accountId": account}));
        let inbox = answer["list"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["role"] == "inbox")
            .unwrap()["id"]
            .clone();
        Self { context, account, inbox: inbox.as_str().unwrap().to_owned() }
    }

    fn call(&self, name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.account.clone().into();
        let (kind, answer) = call(&self.context, name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    }

    /// Returns the object in `created`, or the error in `notCreated`.
    fn create(&self, mut email: Value) -> Result<Map<String, Value>, Value> {
        if email.get("mailboxIds").is_none() {
            email["mailboxIds"] = json!({&self.inbox: true});
        }
        let answer = self.call("Email/set", json!({"create": {"k": email}}));
        match answer["created"]["k"].as_object() {
            Some(created) => Ok(created.clone()),
            None => Err(answer["notCreated"]["k"].clone()),
        }
    }

    /// Creates an email, and returns it as Email/get with the arguments `ask` shows it.
    fn shown(&self, email: Value, ask: &Value) -> Value {
        let id = self.create(email).unwrap()["id"].clone();
        let mut arguments = json!({"ids": [id], "fetchAllBodyValues": true});
        arguments.as_object_mut().unwrap().extend(ask.as_object().unwrap().clone());
        self.call("Email/get", arguments)["list"][0].clone()
    }

    /// Returns the properties that the error names, sorted.
    fn refused(&self, email: &Value) -> String {
        let error = self.create(email.clone()).unwrap_err();
        assert_eq!(error["type"], "invalidProperties", "{email} {error}");
        let mut names: Vec<&str> = error["properties"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        names.sort_unstable();
        names.join(" ")
    }

    /// Creates an email, and returns its message.
    fn raw(&self, email: Value) -> String {
        let id = self.create(email).unwrap()["blobId"].as_str().unwrap().parse().unwrap();
        let account = self.context.accessible_account(self.account.parse().unwrap()).unwrap();
        String::from_utf8(self.context.blob_bytes(&account, &id, u64::MAX).unwrap().unwrap())
            .unwrap()
    }
}

#[test]
fn invalid_properties_of_a_new_email_are_named() {
    let bed = Fixture::new();
    let values = json!({"1": {"value": "x"}});
    let part = json!({"partId": "1", "type": "text/plain"});
    for (email, wanted) in [
        (json!({"headers": []}), "headers"),
        (json!({"from": [], "header:FROM": " x"}), "header:FROM"),
        (json!({"header:X:asText": "x", "header:x": " x"}), "header:x"),
        (json!({"header:From:asText": "x"}), "header:From:asText"),
        (json!({"header:Content-Type": "text/plain"}), "header:Content-Type"),
        (
            json!({"id": "x", "blobId": "x", "size": 1, "threadId": "x", "preview": "",
                "hasAttachment": false}),
            "blobId hasAttachment id preview size threadId",
        ),
        (json!({"nothing": 1}), "nothing"),
        (json!({"subject": "a\r\nBcc: x"}), "subject"),
        (json!({"subject": 1, "from": "x"}), "from subject"),
        (json!({"from": [{"email": "a@x\r\nBcc: y"}]}), "from"),
        (json!({"from": [{"email": "a@x", "more": 1}]}), "from"),
        (json!({"messageId": ["<a@x>"]}), "messageId"),
        (json!({"sentAt": "yesterday"}), "sentAt"),
        (json!({"header:X": "a\r\nBcc: x"}), "header:X"),
        (json!({"header:X:all": "a"}), "header:X:all"),
        (json!({"bodyStructure": part, "textBody": [part], "bodyValues": values}), "textBody"),
        (json!({"textBody": [part, part], "bodyValues": values}), "textBody"),
        (
            json!({"textBody": [], "htmlBody": [part], "bodyValues": values}),
            "htmlBody/0/type textBody",
        ),
        (json!({"textBody": [{"partId": "2"}], "bodyValues": values}), "textBody/0/partId"),
        (
            json!({"textBody": [{"partId": "1", "charset": "utf-8", "size": 1}],
                "bodyValues": values}),
            "textBody/0/charset textBody/0/size",
        ),
        (json!({"textBody": [{"partId": "1", "blobId": "b"}], "bodyValues": values}), "textBody/0"),
        (json!({"textBody": [{}]}), "textBody/0"),
        (
            json!({"textBody": [{"partId": "1", "headers": []}], "bodyValues": values}),
            "textBody/0/headers",
        ),
        (
            json!({"textBody": [{"partId": "1", "header:Content-Transfer-Encoding": " 7bit"}],
                "bodyValues": values}),
            "textBody/0/header:Content-Transfer-Encoding",
        ),
        (
            json!({"textBody": [{"partId": "1", "type": "text/plain",
                "header:Content-Type": "text/plain"}], "bodyValues": values}),
            "textBody/0/type",
        ),
        (
            json!({"textBody": [{"partId": "1", "cid": "a", "header:Content-ID": " <a>"}],
                "bodyValues": values}),
            "textBody/0/cid",
        ),
        (
            json!({"header:X-A": " a", "bodyStructure": {"partId": "1", "header:x-a": " b"},
                "bodyValues": values}),
            "bodyStructure/header:x-a",
        ),
        (json!({"bodyStructure": {"type": "text/plain", "subParts": []}}), "bodyStructure/type"),
        (
            json!({"bodyStructure": {"type": "multipart/mixed", "partId": "1"},
                "bodyValues": values}),
            "bodyStructure/type",
        ),
        (
            json!({"bodyStructure": {"partId": "1", "type": "text/plain; x=y"},
                "bodyValues": values}),
            "bodyStructure/type",
        ),
        (
            json!({"bodyStructure": {"partId": "1", "name": "a\nb", "cid": "a b"},
                "bodyValues": values}),
            "bodyStructure/name",
        ),
        (
            json!({"bodyValues": {"1": {"value": "x", "isTruncated": true},
                "2": {"value": "x", "isEncodingProblem": true}, "3": {}}}),
            "bodyValues/1/isTruncated bodyValues/2/isEncodingProblem bodyValues/3",
        ),
        (json!({"keywords": {"$seen": false}}), "keywords"),
        (json!({"keywords": {"a b": true}}), "keywords"),
        (json!({"mailboxIds": {}}), "mailboxIds"),
        (json!({"mailboxIds": null}), "mailboxIds"),
        (json!({"mailboxIds": {"m7vvvvvg": true}}), "mailboxIds"),
        (json!({"receivedAt": "2026-11-21T10:00:00+01:00"}), "receivedAt"),
    ] {
        assert_eq!(bed.refused(&email), wanted, "{email}");
    }
    let missing =
        json!({"attachments": [{"blobId": "o0000000000000"}, {"blobId": "x"}, {"blobId": "x"}]});
    let error = bed.create(missing.clone()).unwrap_err();
    assert_eq!(error, json!({"type": "blobNotFound", "notFound": ["o0000000000000", "x"]}));
    // `blobNotFound` takes precedence over invalid properties, of which all are named (RFC 8620
    // §5.3).
    let mut both = missing;
    both["subject"] = json!(1);
    assert_eq!(bed.create(both).unwrap_err(), error);
    let all =
        json!({"mailboxIds": {}, "receivedAt": 1, "subject": 1, "textBody": [{"partId": "2"}]});
    assert_eq!(bed.refused(&all), "mailboxIds receivedAt subject textBody/0/partId");
    let many: Map<String, Value> = (0..101).map(|n| (format!("k{n}"), json!(true))).collect();
    assert_eq!(bed.create(json!({"keywords": many})).unwrap_err()["type"], "tooManyKeywords");
    // This nesting is allowed: it is not deeper than `MAX_PART_DEPTH`.
    let mut deep = json!({"type": "multipart/mixed", "subParts": []});
    for _ in 0..25 {
        deep = json!({"type": "multipart/mixed", "subParts": [deep]});
    }
    assert!(bed.create(json!({"bodyStructure": deep})).is_ok());
    // The refused objects above created no email.
    assert_eq!(
        bed.call("Email/get", json!({"ids": null, "properties": ["id"]}))["list"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// RFC 8621 §1.3.1: attachments of maxSizeAttachmentsPerEmail fit in base64 into the largest
/// message, and larger ones are refused.
#[test]
fn largest_attachments_fit_into_the_largest_message() {
    use crate::model::limits::{MAX_ATTACHMENTS_BYTES, MAX_MESSAGE_BYTES};
    // A line of base64 has 57 bytes in 78 characters. 512 KiB are left for headers and texts.
    let lines = MAX_ATTACHMENTS_BYTES.div_ceil(57) * 78;
    assert!(lines + 512 * 1024 < MAX_MESSAGE_BYTES);
    let bed = Fixture::new();
    let account = bed.account.parse().unwrap();
    let bytes = vec![7; usize::try_from(MAX_ATTACHMENTS_BYTES / 2 + 1).unwrap()];
    let blob = bed.context.keep_upload(account, &bytes, "application/x").unwrap().to_string();
    let with = |count: usize| {
        let part = json!({"blobId": blob, "type": "application/x"});
        json!({"attachments": vec![part; count]})
    };
    assert_eq!(bed.create(with(2)).unwrap_err()["type"], "tooLarge");
    // A missing blob is reported even if the attachments are too large.
    let mut with_missing = with(2);
    with_missing["attachments"].as_array_mut().unwrap().push(json!({"blobId": "o0000000000000"}));
    assert_eq!(bed.create(with_missing).unwrap_err()["notFound"], json!(["o0000000000000"]));
}

#[test]
fn created_email_returns_the_properties_that_the_server_set() {
    let bed = Fixture::new();
    let email = json!({"subject": "x", "textBody": [{"partId": "1"}],
        "bodyValues": {"1": {"value": "Hello  there"}}});
    let created = bed.create(email).unwrap();
    let names: Vec<&str> = created.keys().map(String::as_str).collect();
    let wanted = [
        "blobId",
        "hasAttachment",
        "id",
        "keywords",
        "messageId",
        "preview",
        "receivedAt",
        "sentAt",
        "size",
        "threadId",
    ];
    assert_eq!(names, wanted);
    let mut ask: Vec<&str> = wanted.to_vec();
    ask.push("mailboxIds");
    let mut shown =
        bed.call("Email/get", json!({"ids": [created["id"]], "properties": ask}))["list"][0]
            .clone();
    assert_eq!(
        shown.as_object_mut().unwrap().remove("mailboxIds"),
        Some(json!({&bed.inbox: true}))
    );
    assert_eq!(shown, Value::Object(created));
    let email = json!({"keywords": {"$Draft": true}, "receivedAt": "2020-01-01T00:00:00Z",
        "sentAt": "2020-01-01T00:00:00Z"});
    let shown = bed.shown(email, &json!({"properties": ["keywords", "receivedAt", "sentAt"]}));
    assert_eq!(
        (&shown["keywords"], &shown["receivedAt"]),
        (&json!({"$draft": true}), &json!("2020-01-01T00:00:00Z"))
    );
}

const PYTHON: &str = r#"
import sys, json, email, email.policy
m = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
people = lambda name: [[a.display_name, a.addr_spec] for a in m[name].addresses]
parts, defects = [], [str(d) for f in m.values() for d in f.defects]
for p in m.walk():
    defects += [str(d) for d in p.defects]
    if not p.is_multipart():
        text = p.get_content_maintype() == "text"
        what = p.get_content().replace("\r\n", "\n") if text else p.get_content().hex()
        parts.append([p.get_content_type(), p.get_filename(), p.get_content_disposition(), what])
print(json.dumps({"subject": m["subject"], "from": people("from"), "to": people("to"),
    "date": m["date"].datetime.isoformat(),
    "parts": parts, "defects": defects, "kind": m.get_content_type()}))
"#;

/// Compares with the `email` package of Python.
#[test]
fn created_message_is_read_alike_by_python() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut child = match Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => return eprintln!("SKIPPED: no python3: {error}"),
    };
    let bed = Fixture::new();
    let other = filed(
        &bed.context,
        b"Subject: x\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n\
            AAECAw==\r\n",
    );
    let long = format!("Angebot f\u{fc}r alle {}.png", "und noch mehr \u{1f600} ".repeat(8));
    let email = json!({
        "from": [{"name": "J\u{fc}rgen \u{1f600}, \"B\"", "email": "j@x.example"}],
        "to": [{"name": null, "email": "a@x.example"}, {"name": "B, Bob", "email": "b@x.example"}],
        "subject": "Gr\u{fc}\u{df}e ".repeat(30).trim(), "sentAt": "2026-11-21T10:00:00+01:00",
        "textBody": [{"partId": "t", "type": "text/plain"}],
        "htmlBody": [{"partId": "h", "type": "text/html"}],
        "attachments": [{"blobId": format!("o{}-0", &other[1..]), "type": "image/png",
            "name": long}],
        "bodyValues": {"t": {"value": "Hello\n\u{fc}\n\nFrom here\n.\n"},
            "h": {"value": "<p>".repeat(500)}},
    });
    let id = bed.create(email.clone()).unwrap()["id"].as_str().unwrap().to_owned();
    let raw = bed
        .context
        .store
        .snapshot()
        .message(bed.account.parse().unwrap(), id.parse().unwrap())
        .unwrap()
        .unwrap();
    child.stdin.take().unwrap().write_all(&raw).unwrap();
    let read: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    let wanted = json!({
        "subject": email["subject"], "date": "2026-11-21T10:00:00+01:00",
        "kind": "multipart/mixed", "defects": [],
        "from": [["J\u{fc}rgen \u{1f600}, \"B\"", "j@x.example"]],
        "to": [["", "a@x.example"], ["B, Bob", "b@x.example"]],
        "parts": [
            ["text/plain", null, null, email["bodyValues"]["t"]["value"]],
            ["text/html", null, null, "<p>".repeat(500)],
            ["image/png", long, "attachment", "00010203"],
        ],
    });
    assert_eq!(read, wanted, "{}", String::from_utf8_lossy(&raw));
}

#[test]
fn dates_are_normalized_and_changes_returned() {
    let bed = Fixture::new();
    for at in ["2026-12-24T09:00:00Z", "2026-12-24T09:00:00.000Z", "2026-12-24T09:00:00.000+01:00"]
    {
        let created = bed.create(json!({"sentAt": at})).unwrap();
        assert!(!created.contains_key("sentAt"), "{at}: {created:?}");
    }
    assert!(
        !bed.create(json!({"receivedAt": "2026-12-24T09:00:00.000Z"}))
            .unwrap()
            .contains_key("receivedAt")
    );
    let cut = bed
        .create(json!({"sentAt": "2026-12-24T09:00:00.5Z", "receivedAt": "2026-12-24T09:00:00.5Z"}))
        .unwrap();
    assert_eq!(
        (&cut["sentAt"], &cut["receivedAt"]),
        (&json!("2026-12-24T09:00:00Z"), &json!("2026-12-24T09:00:00Z"))
    );
    let old = bed.create(json!({"receivedAt": "1969-07-20T20:17:40Z"})).unwrap();
    assert_eq!(old["receivedAt"], "1970-01-01T00:00:00Z");
    // RFC 5322 §3.3: the year in the time zone of the date is 1900 or later.
    for at in ["1899-12-31T23:59:59Z", "0099-01-01T00:00:00Z", "1900-01-01T00:30:00+01:00"] {
        let created = bed.create(json!({"sentAt": at}));
        assert_eq!(created.is_ok(), at.starts_with("1900"), "{at}");
    }
    for no_date in ["2026-12-24 09:00:00Z", "2026-12-24T09:00Z", "2026-12-24T09:00:00z"] {
        assert!(bed.create(json!({"sentAt": no_date})).is_err(), "{no_date}");
        assert!(bed.create(json!({"receivedAt": no_date})).is_err(), "{no_date}");
    }
    // Email/import does the same.
    let upload = bed
        .context
        .keep_upload(bed.account.parse().unwrap(), b"From: a@x\r\n\r\ny", "message/rfc822")
        .unwrap();
    let import = json!({"emails": {"k": {
        "blobId": upload.to_string(), "mailboxIds": {&bed.inbox: true},
        "receivedAt": "1969-07-20T20:17:40Z",
    }}});
    assert_eq!(
        bed.call("Email/import", import)["created"]["k"]["receivedAt"],
        "1970-01-01T00:00:00Z"
    );
}
