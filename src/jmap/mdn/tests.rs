//! RFC 9007: what is sent, what is refused, and what comes back.

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

const ASKING: &str = "From: Bob <bob@example.net>
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

    /// A message in Ann's inbox, delivered from this envelope sender; its id.
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

    /// All answers to one call.
    fn run(&self, using: &[&str], name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.account.clone().into();
        let request = json!({"using": using, "methodCalls": [[name, arguments, "c"]]});
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run(&self.context, request).unwrap().json()["methodResponses"].clone()
    }

    /// All answers to one call, within a budget.
    fn within(&self, budget: Budget, call: &Value) -> Value {
        let request = json!({"using": CAPABILITIES, "methodCalls": [call]});
        let request =
            crate::wire::jmap::parse(request.to_string().as_bytes(), CAPABILITIES).unwrap();
        run_within(&self.context, budget, request).unwrap().json()["methodResponses"].clone()
    }

    /// What an MDN of this email is, with more said of it, or otherwise.
    fn wish(email: &str, more: &Value) -> Value {
        let disposition = json!({"actionMode": "manual-action", "sendingMode": "mdn-sent-manually", "type": "displayed"});
        let mut wish = json!({"forEmailId": email, "disposition": disposition});
        wish.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wish
    }

    fn send(&self, wish: &Value) -> Value {
        let arguments = json!({
            "identityId": self.identity, "send": {"k": wish},
            "onSuccessUpdateEmail": {"#k": {"keywords/$mdnsent": true}},
        });
        self.run(&[CORE, MAIL, MDN], "MDN/send", arguments)
    }

    fn refused(&self, wish: &Value) -> Value {
        let answers = self.send(wish);
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
fn the_capability_is_an_empty_object_twice() {
    let desk = Fixture::new();
    let mut context = desk.context.clone();
    context.caller.account = Some(desk.id());
    let session = crate::jmap::session(&context).unwrap().json();
    assert_eq!(session["capabilities"][MDN], json!({}), "{session}");
    assert_eq!(session["accounts"][&desk.account]["accountCapabilities"][MDN], json!({}));
}

/// RFC 9007 §3.1.
#[test]
fn a_notification_goes_to_who_asked_and_the_email_is_marked() {
    let desk = Fixture::new();
    let email = desk.deliver("bob@example.net", ASKING);
    let wish = Fixture::wish(
        &email,
        &json!({"reportingUA": "Foomail 97.1", "extensionFields": {"EXTENSION-EXAMPLE": "example.com"}}),
    );
    let answers = desk.send(&wish);
    let told = &answers[0][1]["sent"]["k"];
    assert_eq!(
        (&told["finalRecipient"], &told["originalMessageId"]),
        (&json!("rfc822; ann@example.org"), &json!("<1@example.net>"))
    );
    assert_eq!(
        (&told["subject"], &told["includeOriginalMessage"]),
        (&json!("Displayed: lunch"), &json!(false))
    );
    assert!(told.get("reportingUA").is_none() && told.get("forEmailId").is_none(), "{told}");
    assert_eq!(answers[0][1]["notSent"], Value::Null);
    assert_eq!((&answers[1][0], &answers[1][2]), (&json!("Email/set"), &json!("c")));
    assert_eq!(answers[1][1]["updated"], json!({email.as_str(): null}), "{answers}");
    assert_eq!(desk.keywords(&email), [keyword::MDN_SENT]);

    let (action, raw) = desk.queued().pop().unwrap();
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
    // At most one for a message (RFC 8098 §2.1).
    assert_eq!(desk.refused(&wish)["type"], "mdnAlreadySent");
    assert_eq!(desk.queued().len(), 1);
    assert!(desk.context.store.check().unwrap().is_empty());
}

#[test]
fn the_original_goes_back_where_that_is_wished() {
    let desk = Fixture::new();
    let email = desk.deliver("bob@example.net", ASKING);
    let answers = desk.send(&Fixture::wish(&email, &json!({
        "includeOriginalMessage": true, "subject": "Seen", "textBody": "Yes, I saw it.",
        "finalRecipient": "Ann+work@example.org",
        "disposition": {"actionMode": "automatic-action", "sendingMode": "mdn-sent-automatically", "type": "deleted"},
    })));
    // Bob's local part is written otherwise than in the envelope: that is somebody else, and Ann
    // must be asked.
    assert_eq!(answers[0][1]["notSent"]["k"]["type"], "forbidden", "{answers}");
    let email = desk.deliver("Bob@example.net", &ASKING.replace("<1@", "<2@"));
    let more = json!({
        "includeOriginalMessage": true, "subject": "Seen", "textBody": "Yes, I saw it.",
        "finalRecipient": "Ann+work@example.org",
        "disposition": {"actionMode": "automatic-action", "sendingMode": "mdn-sent-automatically", "type": "deleted"},
    });
    let answers = desk.send(&Fixture::wish(&email, &more));
    assert_eq!(
        answers[0][1]["sent"]["k"]["finalRecipient"], "rfc822; Ann+work@example.org",
        "{answers}"
    );
    let (_, raw) = desk.queued().pop().unwrap();
    let message = Message::parse(&raw);
    let found = report(&message).unwrap();
    assert_eq!(
        (found.text.as_deref().map(str::trim), found.has_original),
        (Some("Yes, I saw it."), true)
    );
    let ReportContent::Disposition(about) = found.content else { panic!() };
    assert_eq!(about.kind, DispositionType::Deleted);
    assert!(String::from_utf8(raw).unwrap().contains("At noon?"));
}

/// The notification is stored, with the original in it: that is charged once.
#[test]
fn original_is_charged_once() {
    let desk = Fixture::new();
    let long = ASKING.replace("At noon?", &"At noon?\n".repeat(2000));
    let email = desk.deliver("Bob@example.net", &long);
    let wish = Fixture::wish(&email, &json!({"includeOriginalMessage": true}));
    let mark = json!({"#k": {"keywords/$mdnsent": true}});
    let send = json!({
        "accountId": desk.account, "identityId": desk.identity, "send": {"k": wish}, "onSuccessUpdateEmail": mark,
    });
    let call = json!(["MDN/send", send, "c"]);
    let within = |filed: u64| {
        let budget =
            Budget::with(limits::MAX_READ_BYTES_PER_REQUEST, filed, limits::MAX_ANSWER_BYTES);
        desk.within(budget, &call)[0][1].clone()
    };
    assert_eq!(
        within(20_000)["notSent"]["k"]["type"],
        "rateLimit",
        "20,000 bytes and their wrapping"
    );
    let sent = within(30_000);
    assert!(sent["sent"]["k"].is_object(), "{sent}");
}

#[test]
fn what_is_not_sent_and_why() {
    let desk = Fixture::new();
    let email = desk.deliver("bob@example.net", ASKING);
    let plain =
        desk.deliver("bob@example.net", &ASKING.replace("Disposition-Notification-To", "X-To"));
    let nobody = desk.deliver("bob@example.net", &ASKING.replace("Bob <Bob@example.net>", "<>"));
    let report = ASKING.replace("Subject:", "Content-Type: multipart/report; boundary=b\nSubject:");
    let report = desk.deliver("", &report);
    let disposition = |name: &str, value: &str| {
        let mut wish = Fixture::wish(&email, &json!({}));
        wish["disposition"][name] = value.into();
        wish
    };
    let wish = |more: Value| Fixture::wish(&email, &more);
    for (wish, kind, properties) in [
        (Fixture::wish("e0", &json!({})), "notFound", Value::Null),
        (Fixture::wish("#none", &json!({})), "notFound", Value::Null),
        (Fixture::wish(&plain, &json!({})), "notFound", Value::Null),
        (Fixture::wish(&nobody, &json!({})), "notFound", Value::Null),
        (Fixture::wish(&report, &json!({})), "forbidden", Value::Null),
        (wish(json!({"finalRecipient": "rfc822; eve@example.org"})), "forbiddenFrom", Value::Null),
        (
            wish(json!({"finalRecipient": "x400; /C=de"})),
            "invalidProperties",
            json!(["finalRecipient"]),
        ),
        (wish(json!({"forEmailId": null})), "invalidProperties", json!(["forEmailId"])),
        (
            wish(json!({"originalMessageId": "<x@y>"})),
            "invalidProperties",
            json!(["originalMessageId"]),
        ),
        (wish(json!({"colour": "red"})), "invalidProperties", json!(["colour"])),
        (
            wish(
                json!({"disposition": {"type": "seen"}, "subject": 1, "forEmailId": 2, "extensionFields": []}),
            ),
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
        (wish(json!({"disposition": null})), "invalidProperties", json!(["disposition"])),
        (wish(json!({"subject": "a\r\nBcc: x@y"})), "invalidProperties", json!(["subject"])),
        (
            wish(json!({"includeOriginalMessage": "yes"})),
            "invalidProperties",
            json!(["includeOriginalMessage"]),
        ),
        (
            wish(json!({"extensionFields": {"Disposition": "x"}})),
            "invalidProperties",
            json!(["extensionFields"]),
        ),
        (
            wish(json!({"extensionFields": {"X Y": "x"}})),
            "invalidProperties",
            json!(["extensionFields"]),
        ),
        (
            wish(json!({"extensionFields": {"X": "x\n"}})),
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
        let error = desk.refused(&wish);
        assert_eq!(
            (&error["type"], &error["properties"]),
            (&json!(kind), &properties),
            "{wish}: {error}"
        );
    }
    assert!(desk.queued().is_empty() && desk.keywords(&email).is_empty());
}

/// RFC 9007 §2.1: whose arguments are wrong sends nothing, and so does who would not mark the
/// email.
#[test]
fn a_call_that_would_not_mark_the_email_is_refused() {
    let desk = Fixture::new();
    let email = desk.deliver("bob@example.net", ASKING);
    let send = json!({"k": Fixture::wish(&email, &json!({}))});
    let call = |identity: &str, update: Value| json!({"accountId": desk.account, "identityId": identity, "send": send, "onSuccessUpdateEmail": update});
    let good = json!({"#k": {"keywords/$mdnsent": true}});
    for wrong in [
        call("i0", good.clone()),
        call("#none", good.clone()),
        call(&desk.identity, Value::Null),
        call(&desk.identity, json!({})),
        call(&desk.identity, json!({"#k": {"keywords/$seen": true}})),
        call(&desk.identity, json!({"#k": {"keywords/$mdnsent": null}})),
        call(&desk.identity, json!({"#k": {"keywords": {"$seen": true}}})),
        call(&desk.identity, json!({email.as_str(): {"keywords/$mdnsent": true}})),
        call(
            &desk.identity,
            json!({"#k": {"keywords/$mdnsent": true}, "#other": {"keywords/$mdnsent": true}}),
        ),
        json!({"accountId": desk.account, "identityId": desk.identity}),
        json!({"accountId": "a0000000", "identityId": desk.identity, "send": send, "onSuccessUpdateEmail": good}),
    ] {
        assert_eq!(error(&desk.context, "MDN/send", &wrong), "invalidArguments", "{wrong}");
    }
    assert_eq!(
        error(&desk.context, "MDN/parse", &json!({"accountId": "a0000000", "blobIds": []})),
        "invalidArguments"
    );
    assert_eq!(
        error(&desk.context, "MDN/parse", &json!({"accountId": desk.account})),
        "invalidArguments"
    );
    // The implicit Email/set wants the capability of mail, too.
    for using in [&[CORE, MDN][..], &[CORE, MAIL]] {
        let answers = desk.run(using, "MDN/send", call(&desk.identity, good.clone()));
        assert_eq!(answers[0][1]["type"], "unknownMethod", "{using:?}");
    }
    assert!(desk.queued().is_empty());
    let whole = json!({"#k": {"keywords": {"$mdnsent": true, "$seen": true}}});
    let answers = desk.run(&[CORE, MAIL, MDN], "MDN/send", call(&desk.identity, whole));
    assert_eq!(answers[1][1]["updated"], json!({email.as_str(): null}), "{answers}");
    assert_eq!(desk.keywords(&email), [keyword::MDN_SENT, keyword::SEEN]);
}

/// RFC 9007 §3.3.
#[test]
fn what_came_is_parsed_and_leads_to_what_it_is_about() {
    let desk = Fixture::new();
    let email = desk.deliver("bob@example.net", ASKING);
    let wish = Fixture::wish(
        &email,
        &json!({"subject": "Gr\u{fc}\u{df}e", "textBody": "Seen.", "extensionFields": {"X-Y": "z"}}),
    );
    desk.send(&wish);
    let (_, raw) = desk.queued().pop().unwrap();
    let blob = desk.context.keep_upload(desk.id(), &raw, "message/rfc822").unwrap().to_string();
    let text = desk
        .context
        .keep_upload(desk.id(), b"Subject: x\r\n\r\nno", "message/rfc822")
        .unwrap()
        .to_string();
    let parse = |ids: Value| {
        desk.run(&[CORE, MDN, BLOB], "MDN/parse", json!({"blobIds": ids}))[0][1].clone()
    };
    let found = parse(json!([blob, text, "nonsense", "e0"]));
    let mdn = &found["parsed"][&blob];
    assert_eq!(
        *mdn,
        json!({
            "forEmailId": email, "subject": "Gr\u{fc}\u{df}e", "textBody": "Seen.\n", "includeOriginalMessage": false,
            "reportingUA": null,
            "disposition": {"actionMode": "manual-action", "sendingMode": "mdn-sent-manually", "type": "displayed"},
            "mdnGateway": null, "originalRecipient": null, "finalRecipient": "rfc822; ann@example.org",
            "originalMessageId": "<1@example.net>", "error": null, "extensionFields": {"X-Y": "z"},
        }),
        "{found}"
    );
    assert_eq!(
        (&found["notParsable"], &found["notFound"]),
        (&json!([text]), &json!(["e0", "nonsense"]))
    );
    // Where no message may be read any more, it is parsed, and not said which email it is about.
    let call = json!(["MDN/parse", {"accountId": desk.account, "blobIds": [blob]}, "c"]);
    let poor = &desk.within(Budget::with_searches(10, limits::MAX_WALKED_ROWS_PER_REQUEST), &call)
        [0][1]["parsed"][&blob];
    assert_eq!((&poor["forEmailId"], &poor["textBody"]), (&Value::Null, &json!("Seen.\n")));
    // Of several with that Message-ID none is meant more than the others.
    desk.deliver("eve@example.net", &ASKING.replace("noon", "one"));
    let found = parse(json!([blob]));
    assert_eq!(
        (&found["parsed"][&blob]["forEmailId"], &found["notFound"]),
        (&Value::Null, &Value::Null)
    );
    let many: Vec<String> = (0..1001).map(|n| format!("B{n}")).collect();
    assert_eq!(parse(json!(many))["type"], "requestTooLarge");
}
