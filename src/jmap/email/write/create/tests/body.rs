//! The body parts of a created email, and the header fields of each part.

use serde_json::{Value, json};

use super::super::HeaderFields;
use super::super::part::PartBuilder;
use super::Fixture;
use crate::jmap::email::read::tests::filed;
use crate::jmap::standard::InvalidProperties;
use crate::message::build::{PartContent, PartDraft};
use crate::model::limits;

#[test]
fn body_lists_are_arranged_into_multiparts() {
    let bed = Fixture::new();
    let other = filed(
        &bed.context,
        b"Subject: x\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n\
            AAECAw==\r\n",
    );
    let blob = format!("o{}-0", &other[1..]);
    let whole = format!("o{}", &other[1..]);
    let email = json!({
        "textBody": [{"partId": "t", "type": "text/plain"}],
        "htmlBody": [{"partId": "h", "type": "text/html", "language": ["de"],
            "header:X-Part": " p"}],
        "attachments": [
            {"blobId": blob, "type": "image/png", "cid": "1@x", "name": "inline.png",
                "disposition": "inline"},
            {"blobId": blob, "type": "image/png", "name": "Gr\u{fc}\u{df}e \u{1f600}.png",
                "size": 7},
            {"blobId": whole, "type": "message/rfc822", "disposition": null},
        ],
        "bodyValues": {"t": {"value": "Hello\n\u{fc}\n"}, "h": {"value": "<img src='cid:1@x'>",
            "isTruncated": false}},
    });
    let ask = json!({"properties": ["bodyStructure", "bodyValues", "textBody", "htmlBody",
        "attachments", "hasAttachment"],
        "bodyProperties": ["type", "name", "size", "cid", "disposition", "charset", "language",
            "header:X-Part", "partId"]});
    let shown = bed.shown(email, &ask);
    let kinds = |parts: &Value| -> String {
        parts
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        kinds(&shown["bodyStructure"]["subParts"]),
        "multipart/alternative image/png message/rfc822"
    );
    assert_eq!(
        kinds(&shown["bodyStructure"]["subParts"][0]["subParts"]),
        "text/plain multipart/related"
    );
    assert_eq!(kinds(&shown["textBody"]), "text/plain");
    assert_eq!(kinds(&shown["htmlBody"]), "text/html");
    assert_eq!(kinds(&shown["attachments"]), "image/png image/png message/rfc822");
    let html = &shown["htmlBody"][0];
    assert_eq!(
        (&html["charset"], &html["language"], &html["header:X-Part"]),
        (&json!("utf-8"), &json!(["de"]), &json!(" p"))
    );
    assert_eq!(
        shown["bodyValues"][html["partId"].as_str().unwrap()]["value"],
        "<img src='cid:1@x'>"
    );
    assert_eq!(
        shown["bodyValues"][shown["textBody"][0]["partId"].as_str().unwrap()]["value"],
        "Hello\n\u{fc}\n"
    );
    let file = |at: usize| shown["attachments"][at].clone();
    assert_eq!(
        (&file(0)["cid"], &file(0)["disposition"], &file(0)["size"]),
        (&json!("1@x"), &json!("inline"), &json!(4))
    );
    assert_eq!(
        (&file(1)["name"], &file(1)["disposition"]),
        (&json!("Gr\u{fc}\u{df}e \u{1f600}.png"), &json!("attachment"))
    );
    assert_eq!((&file(2)["disposition"], &shown["hasAttachment"]), (&Value::Null, &json!(true)));
    // With fewer parts the structure is simpler.
    let kind = |email: Value| {
        bed.shown(email, &json!({"properties": ["bodyStructure"]}))["bodyStructure"]["type"].clone()
    };
    let values = json!({"t": {"value": "x"}});
    assert_eq!(kind(json!({})), "text/plain");
    assert_eq!(kind(json!({"textBody": [{"partId": "t"}], "bodyValues": values})), "text/plain");
    assert_eq!(kind(json!({"htmlBody": [{"partId": "t"}], "bodyValues": values})), "text/html");
    assert_eq!(
        kind(json!({"htmlBody": [{"partId": "t", "type": "Text/HTML"}], "bodyValues": values,
        "attachments": [{"blobId": blob, "type": "image/png", "cid": "a@b"}]})),
        "multipart/related"
    );
}

#[test]
fn body_structure_is_built_as_given() {
    let bed = Fixture::new();
    let email = json!({
        "bodyStructure": {"type": "multipart/mixed", "header:X-Root:asText": "r", "subParts": [
            {"partId": "1", "type": "text/plain", "name": "a.txt", "disposition": "inline",
                "location": "http://x/", "cid": "c@d"},
            {"partId": "2", "header:Content-Type": "text/calendar; method=REQUEST; \
                charset=us-ascii; name=cal.ics"},
            {"type": "multipart/alternative", "subParts": [{"partId": "1", "type": "text/html"}]},
            {"partId": "1", "header:Content-Disposition:asText": "attachment; filename=\"f g\"; \
                size=9", "language": ["en"]},
        ]},
        "bodyValues": {"1": {"value": "one\n"}, "2": {"value": "two"}},
    });
    let names = [
        "type",
        "name",
        "disposition",
        "cid",
        "location",
        "charset",
        "language",
        "header:Content-Type:asText",
        "header:Content-Disposition:asText",
    ];
    let shown = bed.shown(
        email,
        &json!({"properties": ["bodyStructure", "header:X-Root:asText", "bodyValues"],
            "bodyProperties": names}),
    );
    assert_eq!(shown["header:X-Root:asText"], "r");
    let part = |at: usize| shown["bodyStructure"]["subParts"][at].clone();
    assert_eq!(part(0)["header:Content-Type:asText"], "text/plain; charset=utf-8; name=\"a.txt\"");
    assert_eq!(
        (&part(0)["name"], &part(0)["location"], &part(0)["cid"]),
        (&json!("a.txt"), &json!("http://x/"), &json!("c@d"))
    );
    assert_eq!(
        (&part(1)["type"], &part(1)["charset"], &part(1)["name"]),
        (&json!("text/calendar"), &json!("utf-8"), &json!("cal.ics"))
    );
    assert!(part(1)["header:Content-Type:asText"].as_str().unwrap().contains("method=REQUEST"));
    assert_eq!(part(2)["subParts"][0]["type"], "text/html");
    assert_eq!(
        (&part(3)["disposition"], &part(3)["name"], &part(3)["language"]),
        (&json!("attachment"), &json!("f g"), &json!(["en"]))
    );
    assert!(part(3)["header:Content-Disposition:asText"].as_str().unwrap().contains("size=9"));
}

/// The root part shares the header of the email, so no field may be set twice.
#[test]
fn root_part_may_set_header_fields_that_have_defaults() {
    let bed = Fixture::new();
    let email = json!({
        "bodyStructure": {"partId": "1", "header:Message-ID:asMessageIds": ["own@x"],
            "header:Date:asDate": "2020-01-01T00:00:00Z",
            "header:MIME-Version": " 1.0", "header:Subject:asText": "s"},
        "bodyValues": {"1": {"value": "x"}},
    });
    let names = [
        "header:Message-ID:asMessageIds:all",
        "header:Date:all",
        "header:MIME-Version:all",
        "subject",
        "sentAt",
    ];
    let shown = bed.shown(email, &json!({"properties": names}));
    assert_eq!(shown["header:Message-ID:asMessageIds:all"], json!([["own@x"]]));
    assert_eq!(
        (&shown["subject"], &shown["sentAt"]),
        (&json!("s"), &json!("2020-01-01T00:00:00Z"))
    );
    assert_eq!(shown["header:Date:all"].as_array().unwrap().len(), 1);
    assert_eq!(shown["header:MIME-Version:all"].as_array().unwrap().len(), 1);
}

/// RFC 2045 §6.4: an embedded message is not encoded, and only text types have a charset.
#[test]
fn only_text_types_get_a_charset_and_messages_are_not_encoded() {
    let bed = Fixture::new();
    let made = |kind: &str, value: &str| {
        let part = json!({"partId": "1", "type": kind});
        bed.raw(json!({"bodyStructure": {"type": "multipart/mixed", "subParts": [part]},
            "bodyValues": {"1": {"value": value}}}))
    };
    let embedded = "Subject: Gr\u{fc}\u{df}e\n\nGr\u{fc}\u{df}e\n";
    for (kind, value, encoding) in [
        ("message/rfc822", embedded, "8bit"),
        ("message/rfc822", "Subject: x\n\ny\n", "7bit"),
        ("message/delivery-status", "Reporting-MTA: dns; x\n", "7bit"),
        ("image/svg+xml", "<svg/>", "7bit"),
        ("image/svg+xml", "<svg>\u{fc}</svg>", "base64"),
        ("application/json", "{\n}", "base64"),
        ("text/x-diff", "Gr\u{fc}\u{df}e: some plain text\n", "quoted-printable"),
    ] {
        let raw = made(kind, value);
        let (_, part) = raw.split_once(&format!("Content-Type: {kind}")).unwrap();
        let (head, rest) = part.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Transfer-Encoding: {encoding}")), "{kind}: {head}");
        assert_eq!(head.contains("charset"), kind.starts_with("text/"), "{kind}: {head}");
        let eight =
            raw.split_once("\r\n\r\n").unwrap().0.contains("Content-Transfer-Encoding: 8bit");
        assert_eq!(eight, encoding == "8bit", "{raw}");
        if kind.starts_with("message/") {
            assert!(rest.starts_with(&value.replace('\n', "\r\n")), "{rest}");
        }
    }
    let long = format!("Subject: x\n\n{}\n", "y".repeat(1000));
    let part = json!({"partId": "1", "type": "message/rfc822"});
    let refused = json!({"attachments": [part], "bodyValues": {"1": {"value": long}}});
    assert_eq!(bed.refused(&refused), "attachments/0/partId");
}

/// A reader that follows RFC 2183 finds the name only in Content-Disposition.
#[test]
fn named_part_without_disposition_gets_the_one_that_fits_its_place() {
    let bed = Fixture::new();
    let part = |kind: &str, name: &str| json!({"partId": "1", "type": kind, "name": name});
    let structure = json!({"type": "multipart/mixed", "subParts": [
        part("text/plain", "a.txt"), part("text/plain", "b.txt"), part("image/png", "c.png"),
        part("application/pdf", "d.pdf"),
    ]});
    let email = json!({"bodyStructure": structure, "bodyValues": {"1": {"value": "x"}}});
    let raw = bed.raw(email.clone());
    for (kind, name) in
        [("inline", "a.txt"), ("attachment", "b.txt"), ("inline", "c.png"), ("attachment", "d.pdf")]
    {
        assert!(
            raw.contains(&format!("Content-Disposition: {kind};\r\n filename={name}\r\n")),
            "{name}: {raw}"
        );
    }
    let shown = bed.shown(
        email,
        &json!({"properties": ["textBody", "attachments"], "bodyProperties": ["name"]}),
    );
    assert_eq!(shown["textBody"], json!([{"name": "a.txt"}, {"name": "c.png"}]));
    assert_eq!(shown["attachments"], json!([{"name": "b.txt"}, {"name": "d.pdf"}]));
    let text =
        json!({"textBody": [part("text/plain", "a.txt")], "bodyValues": {"1": {"value": "x"}}});
    assert!(bed.raw(text).contains("Content-Disposition: inline;\r\n filename=a.txt\r\n"));
}

#[test]
fn content_fields_of_a_part_are_set_or_refused() {
    let bed = Fixture::new();
    let with = |name: &str, value: &str| {
        let part = json!({"partId": "1", "type": "application/x", name: value});
        json!({"attachments": [part], "bodyValues": {"1": {"value": "x"}}})
    };
    for name in [
        "header:Content-Disposition",
        "header:content-disposition:asRaw",
        "header:Content-Disposition:asText",
    ] {
        let raw = bed.raw(with(name, " inline; filename=a.txt; size=1"));
        assert!(
            raw.contains("-Disposition: inline;\r\n size=1;\r\n filename=a.txt\r\n"),
            "{name}: {raw}"
        );
        assert_eq!(raw.matches("-Disposition:").count(), 1, "{raw}");
    }
    assert!(
        bed.raw(with("header:Content-Description", " what it is"))
            .contains("Content-Description: what it is\r\n")
    );
    assert_eq!(
        bed.refused(&with("header:Content-Disposition", "")),
        "attachments/0/header:Content-Disposition"
    );
    let transfer = bed.refused(&with("header:Content-Transfer-Encoding", " base64"));
    assert_eq!(transfer, "attachments/0/header:Content-Transfer-Encoding");
    let text = |charset: &str| {
        let part = json!({"partId": "1", "header:Content-Type": format!(" text/plain; \
            charset={charset}")});
        json!({"textBody": [part], "bodyValues": {"1": {"value": "x"}}})
    };
    assert_eq!(bed.refused(&text("iso-8859-1")), "textBody/0/header:Content-Type");
    assert!(bed.raw(text("utf-8")).contains("Content-Type: text/plain;\r\n charset=utf-8\r\n"));
}

/// Regression test: a text was copied for each part that shows it, before the size was checked.
#[test]
fn text_of_many_parts_is_copied_up_to_the_largest_message() {
    let bed = Fixture::new();
    let account = bed.context.accessible_account(bed.account.parse().unwrap()).unwrap();
    let parts = vec![json!({"partId": "a"}); 100];
    let email = json!({"bodyStructure": {"type": "multipart/mixed", "subParts": parts},
        "bodyValues": {"a": {"value": "x".repeat(1 << 20)}}});
    let (header, mut problems) = (HeaderFields::default(), InvalidProperties::default());
    let object = email.as_object().unwrap();
    let mut builder = PartBuilder::new(&bed.context, &account, object, &header, &mut problems);
    let PartContent::Parts(parts) = builder.body().unwrap().content else { panic!("no multipart") };
    let length = |part: &PartDraft| match &part.content {
        PartContent::Text(text) => text.len() as u64,
        _ => 0,
    };
    let copied: u64 = parts.iter().map(length).sum();
    assert!((1..=limits::MAX_MESSAGE_BYTES).contains(&copied), "{copied}");
    assert_eq!(bed.create(email).unwrap_err()["type"], "tooLarge");
}
