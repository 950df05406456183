//! Tests of MDN/send (RFC 9007 §2.1).

use super::*;
use crate::jmap::tests::error;
use crate::message::report::{DispositionType, ReportContent, report};
use crate::model::{ActionKind, keyword, limits};

/// RFC 9007 §3.1.
#[test]
fn notification_is_queued_once_and_marks_the_email() {
    let fixture = Fixture::new();
    let email = fixture.deliver("bob@example.net", REQUESTING);
    let mdn = Fixture::mdn(
        &email,
        &json!({
            "reportingUA": "Foomail 97.1",
            "extensionFields": {"EXTENSION-EXAMPLE": "example.com"},
        }),
    );
    let answers = fixture.send(&mdn);
    let sent = &answers[0][1]["sent"]["k"];
    assert_eq!(
        (&sent["finalRecipient"], &sent["originalMessageId"]),
        (&json!("rfc822; ann@example.org"), &json!("<1@example.net>"))
    );
    assert_eq!(
        (&sent["subject"], &sent["includeOriginalMessage"]),
        (&json!("Displayed: lunch"), &json!(false))
    );
    assert!(sent.get("reportingUA").is_none() && sent.get("forEmailId").is_none(), "{sent}");
    assert_eq!(answers[0][1]["notSent"], Value::Null);
    assert_eq!((&answers[1][0], &answers[1][2]), (&json!("Email/set"), &json!("c")));
    assert_eq!(answers[1][1]["updated"], json!({email.as_str(): null}), "{answers}");
    assert_eq!(fixture.keywords(&email), [keyword::MDN_SENT]);

    let (action, raw) = fixture.queued().pop().unwrap();
    assert_eq!((action.kind, &action.sender), (ActionKind::Report, &None), "from <> (RFC 8098 §3)");
    assert_eq!(action.recipient_summary(), "Bob@example.net");
    assert!(action.recipients.iter().all(|to| to.notify.is_some_and(|notify| notify.never)));
    let text = String::from_utf8(raw.clone()).unwrap();
    for line in [
        "To: \"Bob\" <Bob@example.net>",
        "Reporting-UA: Foomail 97.1",
        "Final-Recipient: rfc822; ann@example.org",
        "Original-Message-ID: <1@example.net>",
        "Disposition: manual-action/MDN-sent-manually; displayed",
        "EXTENSION-EXAMPLE: example.com",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n---\n{text}");
    }
    assert!(!text.contains("At noon"), "{text}");
    // At most one notification is sent for a message (RFC 8098 §2.1).
    assert_eq!(fixture.refused(&mdn)["type"], "mdnAlreadySent");
    assert_eq!(fixture.queued().len(), 1);
    assert!(fixture.context.store.check().unwrap().is_empty());
}

#[test]
fn notification_includes_the_original_on_request() {
    let fixture = Fixture::new();
    let email = fixture.deliver("bob@example.net", REQUESTING);
    let more = json!({
        "includeOriginalMessage": true, "subject": "Seen", "textBody": "Yes, I saw it.",
        "finalRecipient": "Ann+work@example.org",
    });
    let answers = fixture.send(&Fixture::mdn(&email, &more));
    assert_eq!(
        answers[0][1]["sent"]["k"]["finalRecipient"], "rfc822; Ann+work@example.org",
        "{answers}"
    );
    let (_, raw) = fixture.queued().pop().unwrap();
    let message = Message::parse(&raw);
    let found = report(&message).unwrap();
    assert_eq!(
        (found.text.as_deref().map(str::trim), found.has_original),
        (Some("Yes, I saw it."), true)
    );
    assert!(String::from_utf8(raw).unwrap().contains("At noon?"));
}

/// Local parts that differ in case may belong to two people.
#[test]
fn automatic_notification_goes_only_to_the_envelope_sender_in_the_same_case() {
    let fixture = Fixture::new();
    let automatic = json!({"disposition": {
        "actionMode": "automatic-action",
        "sendingMode": "mdn-sent-automatically",
        "type": "deleted",
    }});
    let email = fixture.deliver("bob@example.net", REQUESTING);
    assert_eq!(fixture.refused(&Fixture::mdn(&email, &automatic))["type"], "forbidden");
    let email = fixture.deliver("Bob@example.net", &REQUESTING.replace("<1@", "<2@"));
    let answers = fixture.send(&Fixture::mdn(&email, &automatic));
    assert!(answers[0][1]["sent"]["k"].is_object(), "{answers}");
    let (_, raw) = fixture.queued().pop().unwrap();
    let message = Message::parse(&raw);
    let ReportContent::Disposition(about) = report(&message).unwrap().content else { panic!() };
    assert_eq!(about.kind, DispositionType::Deleted);
}

/// The original is a part of the notification, so its bytes are charged as stored only with those
/// of the notification.
#[test]
fn included_original_is_charged_once() {
    let fixture = Fixture::new();
    let long = REQUESTING.replace("At noon?", &"At noon?\n".repeat(2000));
    let email = fixture.deliver("Bob@example.net", &long);
    let mdn = Fixture::mdn(&email, &json!({"includeOriginalMessage": true}));
    let mark = json!({"#k": {"keywords/$mdnsent": true}});
    let send = json!({
        "accountId": fixture.account,
        "identityId": fixture.identity,
        "send": {"k": mdn},
        "onSuccessUpdateEmail": mark,
    });
    let call = json!(["MDN/send", send, "c"]);
    let within = |filed: u64| {
        let budget =
            Budget::with(limits::MAX_READ_BYTES_PER_REQUEST, filed, limits::MAX_ANSWER_BYTES);
        fixture.within(budget, &call)[0][1].clone()
    };
    assert_eq!(
        within(20_000)["notSent"]["k"]["type"],
        "rateLimit",
        "the text alone has 20,000 bytes"
    );
    let sent = within(30_000);
    assert!(sent["sent"]["k"].is_object(), "{sent}");
}

#[test]
fn invalid_or_forbidden_notification_is_refused_with_its_reason() {
    let fixture = Fixture::new();
    let email = fixture.deliver("bob@example.net", REQUESTING);
    let plain = fixture
        .deliver("bob@example.net", &REQUESTING.replace("Disposition-Notification-To", "X-To"));
    let nobody =
        fixture.deliver("bob@example.net", &REQUESTING.replace("Bob <Bob@example.net>", "<>"));
    let report =
        REQUESTING.replace("Subject:", "Content-Type: multipart/report; boundary=b\nSubject:");
    let report = fixture.deliver("", &report);
    let disposition = |name: &str, value: &str| {
        let mut mdn = Fixture::mdn(&email, &json!({}));
        mdn["disposition"][name] = value.into();
        mdn
    };
    let mdn = |more: Value| Fixture::mdn(&email, &more);
    for (mdn, kind, properties) in [
        (Fixture::mdn("e0", &json!({})), "notFound", Value::Null),
        (Fixture::mdn("#none", &json!({})), "notFound", Value::Null),
        (Fixture::mdn(&plain, &json!({})), "notFound", Value::Null),
        (Fixture::mdn(&nobody, &json!({})), "notFound", Value::Null),
        (Fixture::mdn(&report, &json!({})), "forbidden", Value::Null),
        (mdn(json!({"finalRecipient": "rfc822; eve@example.org"})), "forbiddenFrom", Value::Null),
        (
            mdn(json!({"finalRecipient": "x400; /C=de"})),
            "invalidProperties",
            json!(["finalRecipient"]),
        ),
        (mdn(json!({"forEmailId": null})), "invalidProperties", json!(["forEmailId"])),
        (
            mdn(json!({"originalMessageId": "<x@y>"})),
            "invalidProperties",
            json!(["originalMessageId"]),
        ),
        (mdn(json!({"colour": "red"})), "invalidProperties", json!(["colour"])),
        (
            mdn(json!({
                "disposition": {"type": "seen"},
                "subject": 1,
                "forEmailId": 2,
                "extensionFields": [],
            })),
            "invalidProperties",
            json!([
                "forEmailId",
                "disposition/actionMode",
                "disposition/sendingMode",
                "disposition/type",
                "subject",
                "extensionFields"
            ]),
        ),
        (mdn(json!({"disposition": null})), "invalidProperties", json!(["disposition"])),
        (mdn(json!({"subject": "a\r\nBcc: x@y"})), "invalidProperties", json!(["subject"])),
        (
            mdn(json!({"includeOriginalMessage": "yes"})),
            "invalidProperties",
            json!(["includeOriginalMessage"]),
        ),
        (
            mdn(json!({"extensionFields": {"Disposition": "x"}})),
            "invalidProperties",
            json!(["extensionFields"]),
        ),
        (
            mdn(json!({"extensionFields": {"X Y": "x"}})),
            "invalidProperties",
            json!(["extensionFields"]),
        ),
        (
            mdn(json!({"extensionFields": {"X": "x\n"}})),
            "invalidProperties",
            json!(["extensionFields"]),
        ),
        (disposition("type", "Displayed"), "invalidProperties", json!(["disposition/type"])),
        (
            disposition("actionMode", "manual"),
            "invalidProperties",
            json!(["disposition/actionMode"]),
        ),
        (
            disposition("sendingMode", "MDN-sent-manually"),
            "invalidProperties",
            json!(["disposition/sendingMode"]),
        ),
        (disposition("mood", "good"), "invalidProperties", json!(["disposition/mood"])),
    ] {
        let error = fixture.refused(&mdn);
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!(kind), &properties),
            "{mdn}: {error}"
        );
    }
    assert!(fixture.queued().is_empty() && fixture.keywords(&email).is_empty());
}

/// RFC 9007 §2.1.
#[test]
fn mdn_send_with_wrong_arguments_or_without_the_keyword_is_refused() {
    let fixture = Fixture::new();
    let email = fixture.deliver("bob@example.net", REQUESTING);
    let send = json!({"k": Fixture::mdn(&email, &json!({}))});
    let call = |identity: &str, update: Value| {
        json!({
            "accountId": fixture.account,
            "identityId": identity,
            "send": send,
            "onSuccessUpdateEmail": update,
        })
    };
    let good = json!({"#k": {"keywords/$mdnsent": true}});
    for arguments in [
        call("i0", good.clone()),
        call("#none", good.clone()),
        call(&fixture.identity, Value::Null),
        call(&fixture.identity, json!({})),
        call(&fixture.identity, json!({"#k": {"keywords/$seen": true}})),
        call(&fixture.identity, json!({"#k": {"keywords/$mdnsent": null}})),
        call(&fixture.identity, json!({"#k": {"keywords": {"$seen": true}}})),
        call(&fixture.identity, json!({email.as_str(): {"keywords/$mdnsent": true}})),
        call(
            &fixture.identity,
            json!({"#k": {"keywords/$mdnsent": true}, "#other": {"keywords/$mdnsent": true}}),
        ),
        json!({"accountId": fixture.account, "identityId": fixture.identity}),
        json!({
            "accountId": "a0000000",
            "identityId": fixture.identity,
            "send": send,
            "onSuccessUpdateEmail": good,
        }),
    ] {
        assert_eq!(
            error(&fixture.context, "MDN/send", &arguments),
            "invalidArguments",
            "{arguments}"
        );
    }
    assert_eq!(
        error(&fixture.context, "MDN/parse", &json!({"accountId": "a0000000", "blobIds": []})),
        "invalidArguments"
    );
    assert_eq!(
        error(&fixture.context, "MDN/parse", &json!({"accountId": fixture.account})),
        "invalidArguments"
    );
    // MDN/send requires its own capability and, for the implicit Email/set, the mail capability.
    for using in [&[CORE, MDN][..], &[CORE, MAIL]] {
        let answers = fixture.run(using, "MDN/send", call(&fixture.identity, good.clone()));
        assert_eq!(answers[0][1]["type"], "unknownMethod", "{using:?}");
    }
    assert!(fixture.queued().is_empty());
    let whole = json!({"#k": {"keywords": {"$mdnsent": true, "$seen": true}}});
    let answers = fixture.run(&[CORE, MAIL, MDN], "MDN/send", call(&fixture.identity, whole));
    assert_eq!(answers[1][1]["updated"], json!({email.as_str(): null}), "{answers}");
    assert_eq!(fixture.keywords(&email), [keyword::MDN_SENT, keyword::SEEN]);
}

/// RFC 8621 §4.1.1: keywords are the same in any case.
#[test]
fn patch_sets_the_keyword_in_any_case() {
    let fixture = Fixture::new();
    for patch in
        [json!({"keywords/$MDNSent": true}), json!({"keywords": {"$MdnSent": true, "a": true}})]
    {
        let email = fixture.deliver("bob@example.net", REQUESTING);
        let arguments = json!({
            "identityId": fixture.identity,
            "send": {"k": Fixture::mdn(&email, &json!({}))},
            "onSuccessUpdateEmail": {"#k": patch},
        });
        let answers = fixture.run(&[CORE, MAIL, MDN], "MDN/send", arguments);
        assert_eq!(answers[0][0], "MDN/send", "{answers}");
        assert!(answers[0][1]["sent"]["k"].is_object(), "{answers}");
        assert!(fixture.keywords(&email).contains(&keyword::MDN_SENT.to_owned()), "{answers}");
    }
}
