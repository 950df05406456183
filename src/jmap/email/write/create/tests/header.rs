//! The header fields of a created email.

use serde_json::{Value, json};

use super::Fixture;
use crate::jmap::email::read::tests::filed;

#[test]
fn every_header_property_reads_back_as_it_was_set() {
    let bed = Fixture::new();
    let person = |name: Value, email: &str| json!({"name": name, "email": email});
    let email = json!({
        "messageId": ["m1@x.example"], "inReplyTo": ["a@x"], "references": ["a@x", "b@x"],
        "sender": [person(json!("J\u{fc}rgen"), "j@x.example")],
        "from": [person(json!("B, \"Bob\""), "b@x.example")],
        "to": [person(Value::Null, "a@x.example"), person(json!("Long name ".repeat(20).trim()),
            "l@x.example")],
        "cc": [person(json!("c"), "c@x.example")],
        "bcc": [person(json!("x"), "x@x.example")], "replyTo": [person(Value::Null, "r@x.example")],
        "subject": "Gr\u{fc}\u{df}e  an \u{1f600} alle", "sentAt": "2026-11-21T10:00:00+01:00",
        "header:X-Raw": " raw  value\r\n folded", "header:X-Text:asText": "=?utf-8?q?no?= \u{fc}",
        "header:X-Many:asText:all": ["one", "two"], "header:List-Post:asURLs": ["mailto:l@x",
            "https://x/y"],
        "header:X-Date:asDate": "2026-11-21T10:00:00Z",
        "header:Resent-Message-ID:asMessageIds": ["r@x"],
        "header:Resent-To:asGroupedAddresses": [
            {"name": "Team", "addresses": [person(Value::Null, "t@x.example")]},
            {"name": null, "addresses": [person(json!("y"), "y@x.example")]},
        ],
    });
    let names: Vec<&String> = email.as_object().unwrap().keys().collect();
    let mut shown = bed.shown(email.clone(), &json!({"properties": names}));
    shown.as_object_mut().unwrap().remove("id");
    assert_eq!(shown, email);
    // The server adds Message-ID, Date and MIME-Version if they are missing.
    let shown = bed.shown(
        json!({"to": null}),
        &json!({"properties": ["messageId", "sentAt", "to", "header:MIME-Version:asText:all"]}),
    );
    assert!(shown["messageId"][0].as_str().unwrap().ends_with("@example.org"), "{shown}");
    assert_eq!((&shown["sentAt"], &shown["to"]), (&json!("2026-11-21T09:00:00Z"), &Value::Null));
    assert_eq!(shown["header:MIME-Version:asText:all"], json!(["1.0"]));
}

/// RFC 5322 §3.6.
#[test]
fn empty_address_lists_make_no_header_fields() {
    let bed = Fixture::new();
    let email = json!({
        "from": [{"email": "ann@example.org"}], "to": [], "cc": [], "bcc": [], "replyTo": [],
        "sender": [],
        "references": [], "inReplyTo": [], "subject": "", "header:X-A:asAddresses": [],
        "keywords": {},
        "header:X-B:asGroupedAddresses": [{"name": null, "addresses": []}],
        "header:X-C:asAddresses:all": [[]],
        "header:Resent-To": " ", "header:X-D": "",
    });
    let raw = bed.raw(email);
    let names: Vec<&str> = raw
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    let mut own: Vec<&str> =
        names.into_iter().filter(|name| !name.starts_with("Content-")).collect();
    own.sort_unstable();
    assert_eq!(own, ["Date", "From", "MIME-Version", "Message-ID", "Subject", "X-D"]);
}

/// RFC 8621 §4.1.2.3: a draft may have an incomplete address.
#[test]
fn incomplete_address_is_kept_unchanged() {
    let bed = Fixture::new();
    for one in [
        json!({"name": "N", "email": ""}),
        json!({"name": "Two Words", "email": ""}),
        json!({"name": "J\u{fc}, x", "email": ""}),
        json!({"name": null, "email": "ann"}),
        json!({"name": "Ann", "email": "ann"}),
        json!({"name": null, "email": "ann@"}),
    ] {
        let to = json!([one, {"name": null, "email": "bob@example.net"}]);
        let shown = bed.shown(json!({"to": to}), &json!({"properties": ["to"]}));
        assert_eq!(shown["to"], to);
    }
    let id = filed(&bed.context, b"To: Ann, bob@example.net, A B, N <>\r\nSubject: x\r\n\r\n");
    let read =
        bed.call("Email/get", json!({"ids": [id], "properties": ["to"]}))["list"][0]["to"].clone();
    assert_eq!(read[0], json!({"name": null, "email": "Ann"}));
    assert_eq!(bed.shown(json!({"to": read}), &json!({"properties": ["to"]}))["to"], read);
    assert_eq!(bed.refused(&json!({"to": [{"name": null, "email": ""}]})), "to");
}
