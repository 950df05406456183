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

/// Regression test: a message that was created with an empty list of ids had no Message-ID, and one
/// with a blank Date no date (RFC 8621 §4.6).
#[test]
fn empty_ids_and_a_blank_date_are_replaced_by_those_of_the_server() {
    let bed = Fixture::new();
    for email in [
        json!({"messageId": [], "header:Date": " "}),
        json!({"header:Message-ID": " ", "header:Date": ""}),
        json!({"bodyStructure": {"partId": "1", "header:Message-ID": " ", "header:Date": " "},
            "bodyValues": {"1": {"value": "x"}}}),
    ] {
        let created = bed.create(email.clone()).unwrap();
        let ask = json!({"ids": [created["id"]], "properties": ["messageId", "sentAt"]});
        let shown = bed.call("Email/get", ask)["list"][0].clone();
        assert!(shown["messageId"][0].as_str().unwrap().ends_with("@example.org"), "{shown}");
        assert_eq!(shown["sentAt"], "2026-11-21T09:00:00Z", "{email}");
        assert_eq!(
            (&created["messageId"], &created["sentAt"]),
            (&shown["messageId"], &shown["sentAt"])
        );
    }
}

/// RFC 8621 §4.1.3: a client gives a reply the ids that the properties of the other message have.
#[test]
fn ids_that_cannot_be_written_are_left_out_of_replies() {
    let bed = Fixture::new();
    let many: String = (0..1100).map(|n| format!("<{n}@x>\r\n ")).collect();
    let raw = format!("Message-ID: <\"a b\"@x>\r\nReferences: <j\u{fc}rgen@x> {many}\r\n\r\n");
    let id = filed(&bed.context, raw.as_bytes());
    let ask = json!({"ids": [id], "properties": ["messageId", "references"]});
    let other = bed.call("Email/get", ask)["list"][0].clone();
    assert_eq!(other["messageId"], json!(["\"a b\"@x"]));
    let mut references = other["references"].as_array().unwrap().clone();
    assert_eq!(references[0], "j\u{fc}rgen@x");
    references.extend([other["messageId"][0].clone(), json!("last@x")]);
    let reply = json!({"inReplyTo": other["messageId"], "references": references});
    let created = bed.create(reply).unwrap();
    let ask = json!({"ids": [created["id"]], "properties": ["inReplyTo", "references"]});
    let shown = bed.call("Email/get", ask)["list"][0].clone();
    let kept = shown["references"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[0], &kept[999]), (1000, &json!("0@x"), &json!("last@x")));
    assert_eq!(shown["inReplyTo"], Value::Null);
    // The client is told what is otherwise than it asked for.
    assert_eq!(
        (&created["inReplyTo"], &created["references"]),
        (&shown["inReplyTo"], &shown["references"])
    );
    let same = bed.create(json!({"inReplyTo": ["a@x"], "references": ["a@x"]})).unwrap();
    assert!(!same.contains_key("inReplyTo") && !same.contains_key("references"), "{same:?}");
    // What no message has is refused, and so is an own Message-ID that cannot be written.
    for (property, id) in [
        ("references", "a b"),
        ("inReplyTo", "<a@x>"),
        ("references", ""),
        ("messageId", "\u{fc}@x"),
    ] {
        let mut email = json!({});
        email[property] = json!([id]);
        assert_eq!(bed.refused(&email), property, "{id}");
    }
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
