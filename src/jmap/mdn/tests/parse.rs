//! Tests of MDN/parse (RFC 9007 §2.2).

use super::*;
use crate::model::limits;
use crate::wire::jmap::BLOB;

/// RFC 9007 §3.3.
#[test]
fn received_notification_is_parsed_and_names_its_email() {
    let fixture = Fixture::new();
    let email = fixture.deliver("bob@example.net", REQUESTING);
    let mdn = Fixture::mdn(
        &email,
        &json!({
            "subject": "Gr\u{fc}\u{df}e",
            "textBody": "Seen.",
            "extensionFields": {"X-Y": "z"},
        }),
    );
    fixture.send(&mdn);
    let (_, raw) = fixture.queued().pop().unwrap();
    let blob =
        fixture.context.keep_upload(fixture.id(), &raw, "message/rfc822").unwrap().to_string();
    let text = fixture
        .context
        .keep_upload(fixture.id(), b"Subject: x\r\n\r\nno", "message/rfc822")
        .unwrap()
        .to_string();
    let parse = |ids: Value| {
        fixture.run(&[CORE, MDN, BLOB], "MDN/parse", json!({"blobIds": ids}))[0][1].clone()
    };
    let found = parse(json!([blob, text, "nonsense", "e0"]));
    let mdn = &found["parsed"][&blob];
    assert_eq!(
        *mdn,
        json!({
            "forEmailId": email,
            "subject": "Gr\u{fc}\u{df}e",
            "textBody": "Seen.\n",
            "includeOriginalMessage": false,
            "reportingUA": null,
            "disposition": {
                "actionMode": "manual-action",
                "sendingMode": "mdn-sent-manually",
                "type": "displayed",
            },
            "mdnGateway": null,
            "originalRecipient": null,
            "finalRecipient": "rfc822; ann@example.org",
            "originalMessageId": "<1@example.net>",
            "error": null,
            "extensionFields": {"X-Y": "z"},
        }),
        "{found}"
    );
    assert_eq!(
        (&found["notParsable"], &found["notFound"]),
        (&json!([text]), &json!(["e0", "nonsense"]))
    );
    // If the request may search no more, the MDN is parsed without the email that it is about.
    let call = json!(["MDN/parse", {"accountId": fixture.account, "blobIds": [blob]}, "c"]);
    let budget = Budget::with_searches(10, limits::MAX_WALKED_ROWS_PER_REQUEST);
    let answers = fixture.within(budget, &call);
    let unsearched = &answers[0][1]["parsed"][&blob];
    assert_eq!(
        (&unsearched["forEmailId"], &unsearched["textBody"]),
        (&Value::Null, &json!("Seen.\n"))
    );
    // If several emails have the Message-ID, no email is named.
    fixture.deliver("eve@example.net", &REQUESTING.replace("noon", "one"));
    let found = parse(json!([blob]));
    assert_eq!(
        (&found["parsed"][&blob]["forEmailId"], &found["notFound"]),
        (&Value::Null, &Value::Null)
    );
    let many: Vec<String> = (0..1001).map(|n| format!("B{n}")).collect();
    assert_eq!(parse(json!(many))["type"], "requestTooLarge");
}

/// RFC 8621 §6: the identity `*@domain` has all addresses of the domain, however that is written.
#[test]
fn recipient_of_an_identity_for_a_domain_is_found_in_either_form_of_the_domain() {
    let mut fixture = Fixture::new();
    let account = fixture.account.clone();
    let catch_all = json!({"account": account, "address": "@bücher.example"});
    assert_eq!(call(&fixture.context, "Account/alias", &catch_all).0, "Account/alias");
    for (email, to) in [
        ("*@bücher.example", "Sales@xn--bcher-kva.example"),
        ("*@xn--bcher-kva.example", "Sales@BÜCHER.example"),
    ] {
        let create = json!({"accountId": account, "create": {"all": {"email": email}}});
        let made = call(&fixture.context, "Identity/set", &create).1;
        let id = made["created"]["all"]["id"].as_str().unwrap_or_else(|| panic!("{made}"));
        id.clone_into(&mut fixture.identity);
        let email =
            fixture.deliver("bob@example.net", &REQUESTING.replace("Ann+work@example.org", to));
        let answers = fixture.send(&Fixture::mdn(&email, &json!({})));
        let recipient = answers[0][1]["sent"]["k"]["finalRecipient"].as_str();
        assert!(recipient.is_some_and(|one| one.contains("Sales@")), "{answers}");
    }
}
