//! Tests of messages that are submitted, or refused.

use super::*;
use crate::jmap::submission::{SubmissionProperty, envelope};
use crate::model::limits;

#[test]
fn envelope_is_derived_from_the_header_and_bcc_is_not_sent() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let made = fixture.send(&email, &json!({}))["created"]["s"].clone();
    let to: Vec<&str> = made["envelope"]["rcptTo"]
        .as_array()
        .unwrap()
        .iter()
        .map(|to| to["email"].as_str().unwrap())
        .collect();
    assert_eq!(to, ["bob@example.net", "cy@example.com", "dee@example.com", "ed@example.com"]);
    assert_eq!(
        made["envelope"]["mailFrom"],
        json!({"email": "ann@example.org", "parameters": null})
    );
    assert_eq!(
        (&made["undoStatus"], &made["sendAt"]),
        (&json!("pending"), &json!("2026-11-21T09:00:00Z"))
    );
    assert_eq!(made["deliveryStatus"]["cy@example.com"]["delivered"], "queued");

    let snapshot = fixture.context.store.snapshot();
    let action = snapshot.outbox(fixture.id()).unwrap().pop().unwrap();
    let sent = String::from_utf8(snapshot.action_message(fixture.id(), &action).unwrap()).unwrap();
    assert!(
        !sent.contains("dee@") && !sent.contains("ed@") && !sent.to_lowercase().contains("bcc"),
        "{sent}"
    );
    assert!(sent.ends_with("Subject: lunch\r\n\r\nAt noon?\r\n"), "{sent}");
    // The owner's copy keeps Bcc.
    let own = snapshot.message(fixture.id(), email.parse().unwrap()).unwrap().unwrap();
    assert!(String::from_utf8(own).unwrap().contains("Bcc: dee@"));
    assert!(fixture.context.store.check().unwrap().is_empty());

    let id = made["id"].as_str().unwrap();
    let got = fixture.ask("EmailSubmission/get", json!({"ids": [id, "i0"]}));
    assert_eq!(got["list"][0].as_object().unwrap().len(), SubmissionProperty::ALL.len());
    assert_eq!((&got["list"][0]["emailId"], &got["notFound"]), (&json!(email), &json!(["i0"])));
}

/// Regression test: what the parser leaves out of a long field got no message, and nobody was told
/// (RFC 8621 §7: the envelope has all addresses).
#[test]
fn submission_goes_to_all_addresses_of_a_field_or_is_refused() {
    let fixture = Fixture::new();
    let with_bcc = |bcc: &str| {
        let to = "To: bob@example.net, Bob <BOB@example.net>\nCc: cy@example.com\n";
        let draft = DRAFT.replace(to, "").replace("dee@example.com,\n ed@example.com", bcc);
        fixture.file(&draft)
    };
    let list = |count: usize| {
        (0..count).map(|n| format!("a{n}@example.net")).collect::<Vec<_>>().join(",\n ")
    };
    let made = fixture.send(&with_bcc(&list(1000)), &json!({}))["created"]["s"].clone();
    assert_eq!(made["envelope"]["rcptTo"].as_array().unwrap().len(), 1000);
    let long = format!("a@example.net ({}), b@example.net", "x".repeat(limits::MAX_FIELD_BYTES));
    for bcc in [list(1001), list(1500), long] {
        let refused = fixture.refused(&with_bcc(&bcc), &json!({}));
        assert_eq!(
            (&refused["type"], &refused["maxRecipients"]),
            (&json!("tooManyRecipients"), &json!(1000)),
            "{refused}"
        );
    }
}

#[test]
fn invalid_or_forbidden_submission_is_refused_with_its_reason() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let path = |email: &str| json!({"email": email});
    let to_bob = json!([path("bob@example.net")]);
    let with = |from: Value, to: &Value| json!({"envelope": {"mailFrom": from, "rcptTo": to}});
    for (more, kind, properties) in [
        (json!({"identityId": "i0"}), "invalidProperties", json!(["identityId"])),
        (json!({"identityId": null}), "invalidProperties", json!(["identityId"])),
        (json!({"emailId": "e0000000000000"}), "invalidProperties", json!(["emailId"])),
        (json!({"emailId": "#none"}), "invalidProperties", json!(["emailId"])),
        (json!({"sendAt": "2027-01-01T00:00:00Z"}), "invalidProperties", json!(["sendAt"])),
        (json!({"undoStatus": "canceled"}), "invalidProperties", json!(["undoStatus"])),
        (json!({"envelope": {"rcptTo": []}}), "invalidProperties", json!(["envelope/mailFrom"])),
        (with(path("eve@example.org"), &to_bob), "forbiddenMailFrom", Value::Null),
        (with(path("x y"), &to_bob), "forbiddenMailFrom", Value::Null),
        (with(path("ann@example.org"), &json!([])), "noRecipients", Value::Null),
        (with(path("ann@example.org"), &json!([path("nobody")])), "invalidRecipients", Value::Null),
        (
            with(
                json!({"email": "ann@example.org", "parameters": {"HOLDFOR": "99999999999"}}),
                &to_bob,
            ),
            "invalidProperties",
            json!(["envelope/mailFrom/parameters/HOLDFOR"]),
        ),
    ] {
        let error = fixture.refused(&email, &more);
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!(kind), &properties),
            "{more}: {error}"
        );
    }
    let many: Vec<Value> = (0..1001).map(|n| path(&format!("{n}@example.net"))).collect();
    let error = fixture.refused(&email, &with(path("ann@example.org"), &json!(many)));
    assert_eq!(
        (&error["type"], &error["maxRecipients"]),
        (&json!("tooManyRecipients"), &json!(1000))
    );
    let other = fixture.file(&DRAFT.replace("ann@example.org", "eve@example.net"));
    assert_eq!(fixture.refused(&other, &json!({}))["type"], "forbiddenFrom");
    let undated = fixture.file("From: ann@example.org\nTo: bob@example.net\n\nhi\n");
    let error = fixture.refused(&undated, &json!({}));
    assert_eq!(
        (&error["type"], &error["properties"]),
        (&json!("invalidEmail"), &json!(["sentAt"]))
    );
    // A field that occurs twice, and a missing or invalid Sender or Reply-To.
    for (raw, wanted) in [
        (DRAFT.replace("Subject: lunch", "Subject: lunch\nSUBJECT: dinner"), json!(["subject"])),
        (
            DRAFT.replace("From: Ann <ann@example.org>", "From: ann@example.org, a@example.org"),
            json!(["sender"]),
        ),
        (
            DRAFT
                .replace("To: bob", "Sender: ann@example.org, a@example.org\nReply-To: x\nTo: bob"),
            json!(["replyTo", "sender"]),
        ),
        (DRAFT.replace("Date: ", "Date: yesterday\nDate: "), json!(["sentAt"])),
    ] {
        let error = fixture.refused(&fixture.file(&raw), &json!({}));
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!("invalidEmail"), &wanted),
            "{error}"
        );
    }
    let odd = fixture.file(&DRAFT.replace("To: bob@example.net", "To: <bob>"));
    let error = fixture.refused(&odd, &json!({}));
    assert_eq!(
        (&error["type"], &error["invalidRecipients"]),
        (&json!("invalidRecipients"), &json!(["bob"]))
    );
    let error = fixture.refused(&odd, &with(path("ann@example.org"), &to_bob));
    assert_eq!((&error["type"], &error["properties"]), (&json!("invalidEmail"), &json!(["to"])));
    let nobody =
        fixture.file("From: ann@example.org\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\nhi\n");
    assert_eq!(fixture.refused(&nobody, &json!({}))["type"], "noRecipients");
    assert!(fixture.context.store.snapshot().outbox(fixture.id()).unwrap().is_empty());
}

/// RFC 8621 §7.5.
#[test]
fn too_large_message_is_refused_with_max_size() {
    assert_eq!(envelope::check_size(10, 10), Ok(()));
    let error = envelope::check_size(11, 10).unwrap_err().object();
    assert_eq!((&error["type"], &error["maxSize"]), (&json!("tooLarge"), &json!(10)));
}

/// RFC 8621 §7.5.1: the Email/set follows only if the submission succeeds.
#[test]
fn email_of_a_successful_submission_is_updated_by_the_same_call() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let run = |identity: &str| {
        let call = json!(["EmailSubmission/set", {
            "accountId": fixture.account,
            "create": {"s": {"identityId": identity, "emailId": email}},
            "onSuccessUpdateEmail": {
                "#s": {"keywords/$seen": true},
                "#other": {"keywords/$draft": true},
            },
        }, "c"]);
        // The implicit call needs no further capability.
        let request = json!({
            "using": ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:submission"],
            "methodCalls": [call],
        });
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), crate::jmap::CAPABILITIES)
                .unwrap();
        crate::jmap::run(&fixture.context, request).unwrap().json()["methodResponses"].clone()
    };
    let failed = run("i0");
    assert_eq!(failed.as_array().unwrap().len(), 1);
    let done = run(&fixture.identity);
    assert_eq!((&done[1][0], &done[1][2]), (&json!("Email/set"), &json!("c")));
    assert_eq!(done[1][1]["updated"], json!({email.as_str(): null}), "{done}");
}

#[test]
fn submissions_of_meli_and_aerc_are_accepted() {
    let fixture = Fixture::new();
    let email = fixture.file(DRAFT);
    let meli = fixture.send(&email, &json!({"undoStatus": "final", "envelope": null}));
    assert_eq!(meli["created"]["s"]["undoStatus"], "pending", "{meli}");
    let rcpt_to = json!([{"email": "bob@example.net", "parameters": null}]);
    let envelope = json!({"mailfrom": {"email": "ann@example.org"}, "rcptTo": rcpt_to});
    // Go writes its zero time if none was set.
    let aerc = json!({"envelope": envelope, "sendAt": "0001-01-01T00:00:00Z"});
    let aerc = fixture.send(&fixture.file(&DRAFT.replace("1@", "2@")), &aerc);
    assert_eq!(aerc["created"]["s"]["envelope"]["mailFrom"]["email"], "ann@example.org", "{aerc}");
    let address = json!({"email": "ann@example.org"});
    let both = json!({"envelope": {"mailfrom": address, "mailFrom": address, "rcptTo": rcpt_to}});
    assert_eq!(fixture.refused(&email, &both)["type"], "invalidProperties");
    let later = fixture.refused(&email, &json!({"sendAt": "2030-01-01T00:00:00Z"}));
    assert_eq!(later["properties"], json!(["sendAt"]), "the envelope says when");
}
