//! Tests of MDN/send and MDN/parse (RFC 9007).

use serde_json::{Value, json};

use crate::jmap::budget::Budget;
use crate::jmap::dispatch::run_within;
use crate::jmap::tests::{account_of, call, context, error};
use crate::jmap::{CAPABILITIES, Context, run};
use crate::message::report::{DispositionType, ReportContent, report};
use crate::message::{Message, rows};
use crate::model::{AccountId, Action, ActionKind, keyword, limits};
use crate::store::{EncodedMessage, NewEmail};
use crate::wire::jmap::{BLOB, CORE, MAIL, MDN};

struct Fixture {
    context: Context,
    account: String,
    identity: String,
}

const REQUESTING: &str = "From: Bob <bob@example.net>
To: Ann+work@example.org
Disposition-Notification-To: Bob <Bob@example.net>
Date: Sat, 21 Nov 2026 10:00:00 +0000
Message-ID: <1@example.net>
Subject: lunch

At noon?
";

impl Fixture {
    fn new() -> Self {
        let context = context();
        let account = account_of(&context);
        let (_, identities) = call(&context, "Identity/get", &json!({"accountId": account}));
        let identity = identities["list"][0]["id"].as_str().unwrap().to_owned();
        Self { context, account, identity }
    }

    fn id(&self) -> AccountId {
        self.account.parse().unwrap()
    }

    /// Files a message into Ann's inbox, as if it was delivered from this envelope sender.
    fn deliver(&self, from: &str, raw: &str) -> String {
        let raw = raw.replace('\n', "\r\n").into_bytes();
        let prefix = format!("Return-Path: <{from}>\r\n");
        let message = EncodedMessage::new(&rows(&raw, self.context.store.secrets()));
        let (mut made, ticket) =
            self.context.store.commit_message(&[self.id()], &message, &raw, |txn| {
                let (mailboxes, received_at) = ([txn.state().inbox].into(), txn.now());
                let prefix = prefix.as_bytes();
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix,
                    mailboxes,
                    keywords: [].into(),
                    received_at,
                })
            });
        ticket.wait_blocking().unwrap();
        made.pop().unwrap().1.unwrap().0.to_string()
    }

    /// Returns all answers of one call.
    fn run(&self, using: &[&str], name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.account.clone().into();
        let request = json!({"using": using, "methodCalls": [[name, arguments, "c"]]});
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run(&self.context, request).unwrap().json()["methodResponses"].clone()
    }

    /// Returns all answers of one call, which has this budget.
    fn within(&self, budget: Budget, call: &Value) -> Value {
        let request = json!({"using": CAPABILITIES, "methodCalls": [call]});
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run_within(&self.context, budget, request).unwrap().json()["methodResponses"].clone()
    }

    /// Returns an MDN object for an email, with these properties added or replaced.
    fn mdn(email: &str, more: &Value) -> Value {
        let disposition = json!({
            "actionMode": "manual-action",
            "sendingMode": "mdn-sent-manually",
            "type": "displayed",
        });
        let mut mdn = json!({"forEmailId": email, "disposition": disposition});
        mdn.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        mdn
    }

    fn send(&self, mdn: &Value) -> Value {
        let arguments = json!({
            "identityId": self.identity, "send": {"k": mdn},
            "onSuccessUpdateEmail": {"#k": {"keywords/$mdnsent": true}},
        });
        self.run(&[CORE, MAIL, MDN], "MDN/send", arguments)
    }

    fn refused(&self, mdn: &Value) -> Value {
        let answers = self.send(mdn);
        assert_eq!(
            (answers.as_array().unwrap().len(), &answers[0][1]["sent"]),
            (1, &Value::Null),
            "{answers}"
        );
        answers[0][1]["notSent"]["k"].clone()
    }

    fn queued(&self) -> Vec<(Action, Vec<u8>)> {
        let snapshot = self.context.store.snapshot();
        let actions = snapshot.outbox(self.id()).unwrap().into_iter();
        actions
            .map(|action| (action.clone(), snapshot.action_message(self.id(), &action).unwrap()))
            .collect()
    }

    fn keywords(&self, email: &str) -> Vec<String> {
        let found = self
            .context
            .store
            .snapshot()
            .email(self.id(), email.parse().unwrap())
            .unwrap()
            .unwrap();
        found.keywords.into_iter().collect()
    }
}

#[test]
fn mdn_capability_is_an_empty_object_in_session_and_account() {
    let fixture = Fixture::new();
    let mut context = fixture.context.clone();
    // The session lists the caller's own accounts, and the administrator of `context` has none.
    context.caller.account = Some(fixture.id());
    let session = crate::jmap::session(&context).unwrap().json();
    assert_eq!(session["capabilities"][MDN], json!({}), "{session}");
    assert_eq!(session["accounts"][&fixture.account]["accountCapabilities"][MDN], json!({}));
}

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

/// The original is a part of the notification, so its bytes are charged only with those of the
/// notification.
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
