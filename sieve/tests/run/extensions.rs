//! Tests of extensions, most of which ask the host or read the clock. By default the clock of
//! `TestWorld` is at noon of 24 December 2026, UTC.

use restante_sieve::ir::{
    AddressPart, CommandKind, DatePart, DateTest, DateZone, Deadline, DeliverBy, DeliverByMode,
    DsnNotify, DsnReturn, DuplicateId, DuplicateTest, EnvelopePart, EnvelopeTest, Fcc, FieldIndex,
    Importance, Keyword, MatchType, Notify, Redirect, RedirectTo, Relation, TestKind, UtcOffset,
};
use restante_sieve::{
    Action, DeliverByParameter, DsnParameters, DupKey, Outcome, Plan, RedirectTarget,
    RuntimeErrorKind, Scan, Target,
};

use crate::build::{
    A, comparison, create, known, mailbox, numeric, probe, reject, script, set, text, texts, when,
};
use crate::support::{TestInput, TestWorld};

const MESSAGE: &str = "Received: from a by b; Thu, 24 Dec 2026 23:30:00 -0500\r\n\
    Received: from c by d; Thu, 24 Dec 2026 04:00:00 +0000\r\n\
    Message-ID: <1@example.com>\r\n\
    X-Bad: yesterday\r\n\
    \r\n\
    Text\r\n";

/// Returns whether a test is true for [`MESSAGE`] in a world.
fn holds_in(world: &TestWorld, kind: TestKind) -> bool {
    let outcome = TestInput::new(MESSAGE).run(&probe(kind), world);
    assert_eq!(outcome.error, None);
    outcome.plan.implicit_keep.is_none()
}

fn holds(kind: TestKind) -> bool {
    holds_in(&TestWorld::default(), kind)
}

fn run(commands: Vec<CommandKind>) -> Outcome {
    TestInput::new(MESSAGE).run(&script(commands), &TestWorld::default())
}

/// Returns whether a part of the date in a field of [`MESSAGE`] is `key`.
fn date(field: &str, index: Option<FieldIndex>, zone: DateZone, part: DatePart, key: &str) -> bool {
    holds(TestKind::Date(Box::new(DateTest {
        field: text(field),
        index,
        zone,
        part: known(part),
        comparison: comparison(MatchType::Is, &[key]),
    })))
}

#[test]
fn dates_of_fields_are_shifted_to_a_zone() {
    let east = || DateZone::Offset(known(UtcOffset::parse("+0100").unwrap()));
    // The zone of the account is UTC.
    assert!(date("Received", None, DateZone::Local, DatePart::Date, "2026-12-25"));
    assert!(date("Received", None, DateZone::Original, DatePart::Date, "2026-12-24"));
    assert!(date("received", None, DateZone::Original, DatePart::Zone, "-0500"));
    assert!(date("Received", None, east(), DatePart::Time, "05:30:00"));
    let index = Some(FieldIndex { number: 1, from_end: true });
    assert!(date("Received", index, DateZone::Local, DatePart::Hour, "04"));
    let past = Some(FieldIndex { number: 3, from_end: false });
    assert!(!date("Received", past, DateZone::Local, DatePart::Hour, "04"));
}

#[test]
fn what_is_no_date_has_no_value() {
    let count = |field: &str, number| {
        holds(TestKind::Date(Box::new(DateTest {
            field: text(field),
            index: None,
            zone: DateZone::Local,
            part: known(DatePart::Year),
            comparison: numeric(MatchType::Count(Relation::Eq), &[number]),
        })))
    };
    assert!(count("X-Bad", "0") && count("Date", "0") && count("Received", "1"));
}

fn current_date(part: &str, match_type: MatchType, key: &str) -> TestKind {
    TestKind::CurrentDate {
        zone: None,
        part: Keyword::Dynamic(text(part)),
        comparison: comparison(match_type, &[key]),
    }
}

#[test]
fn the_current_date_is_that_of_the_run() {
    let ge = MatchType::Value(Relation::Ge);
    assert!(holds(current_date("iso8601", ge, "2026-12-24T12:00:00Z")));
    assert!(!holds(current_date("ISO8601", ge, "2026-12-24T12:00:01Z")));
    let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(3));
    let world = TestWorld { zone, ..TestWorld::default() };
    assert!(holds_in(&world, current_date("hour", MatchType::Is, "15")));
    assert!(holds_in(&world, current_date("zone", MatchType::Is, "+0300")));
    let outcome = run(vec![when(current_date("week", MatchType::Is, ""), vec![])]);
    let kind = RuntimeErrorKind::UnknownWord { word: "week".into(), expected: "part of a date" };
    assert_eq!(outcome.error.unwrap().kind, kind);
}

fn duplicate(id: DuplicateId, seconds: Option<u64>, last: bool) -> TestKind {
    TestKind::Duplicate(Box::new(DuplicateTest { handle: None, id, seconds, last }))
}

#[test]
fn duplicates_are_marked_after_a_successful_run() {
    let message_id = || DuplicateId::Field(text("Message-ID"));
    let key = DupKey::new(None, "<1@example.com>");
    // The test is evaluated twice, and then `end` runs.
    let twice = |end: Vec<CommandKind>| {
        let test = || when(duplicate(message_id(), Some(60), false), vec![create("seen")]);
        let mut commands = vec![test(), test()];
        commands.extend(end);
        run(commands).plan
    };
    // A minute after the time of the run. A failed run records nothing.
    let until = "2026-12-24T12:01:00Z".parse().unwrap();
    assert_eq!(twice(vec![]).actions, [Action::MarkDuplicate { key: key.clone(), until }]);
    assert_eq!(twice(vec![CommandKind::Error { message: text("") }]), Plan::keep_only());
    let world = TestWorld { seen: vec![key], ..TestWorld::default() };
    assert!(holds_in(&world, duplicate(message_id(), None, false)));
    assert!(holds_in(&world, duplicate(DuplicateId::Value(text("<1@example.com>")), None, false)));
    // With `:seconds 0` the test is always false (RFC 7352 §3.3).
    assert!(!holds_in(&world, duplicate(message_id(), Some(0), false)));
    // A message that was seen before is recorded again only with `:last`.
    let marks = |last| {
        let probe = probe(duplicate(message_id(), None, last));
        let plan = TestInput::new(MESSAGE).run(&probe, &world).plan;
        plan.actions.iter().filter(|one| matches!(one, Action::MarkDuplicate { .. })).count()
    };
    assert_eq!((marks(false), marks(true)), (0, 1));
}

#[test]
fn a_message_without_the_field_is_no_duplicate() {
    for name in ["X-None", "a b"] {
        let test = duplicate(DuplicateId::Field(text(name)), None, false);
        let plan = run(vec![when(test, vec![create("seen")])]).plan;
        assert_eq!(plan, Plan::keep_only());
    }
}

#[test]
fn spam_and_viruses_have_scales() {
    let world = |spam_percent, virus| TestWorld {
        scan: Scan { spam_percent, virus },
        ..TestWorld::default()
    };
    let spam = |percent, number| TestKind::SpamTest {
        percent,
        comparison: numeric(MatchType::Value(Relation::Eq), &[number]),
    };
    let count = |number| TestKind::SpamTest {
        percent: false,
        comparison: numeric(MatchType::Count(Relation::Eq), &[number]),
    };
    let virus = |number| TestKind::VirusTest { comparison: comparison(MatchType::Is, &[number]) };
    assert!(holds_in(&world(None, None), spam(false, "0")));
    assert!(holds_in(&world(None, None), spam(true, "0")));
    assert!(holds_in(&world(None, None), count("0")));
    assert!(holds_in(&world(None, None), virus("0")));
    assert!(holds_in(&world(Some(0), None), spam(false, "1")));
    assert!(holds_in(&world(Some(0), None), count("1")));
    assert!(holds_in(&world(Some(100), None), spam(false, "10")));
    assert!(holds_in(&world(Some(37), None), spam(true, "37")));
    assert!(holds_in(&world(None, Some(5)), virus("5")));
}

#[test]
fn mailboxes_and_metadata_are_tested() {
    let mut world = TestWorld::with_mailboxes(&["Lists"]);
    world.add_mailbox("Full").accepts_mail = false;
    world.add_mailbox("Spam").special_uses.push("\\Junk".into());
    world.metadata.insert(("Lists".into(), "/private/comment".into()), "Hi".into());
    world.metadata.insert((String::new(), "/shared/admin".into()), "root".into());
    let exists =
        |names: &[&str]| holds_in(&world, TestKind::MailboxExists { mailboxes: texts(names) });
    // Nothing can be filed into a mailbox that refuses mail, so it counts as missing (RFC 5490
    // §3.1).
    assert!(exists(&["Lists", "inbox"]) && !exists(&["Lists", "None"]) && !exists(&["Full"]));
    assert!(holds_in(&world, TestKind::MailboxIdExists { ids: texts(&["id-Lists"]) }));
    assert!(!holds_in(&world, TestKind::MailboxIdExists { ids: texts(&["Lists"]) }));
    let special = |mailbox: Option<&str>, attribute| {
        let attributes = texts(&[attribute]);
        holds_in(&world, TestKind::SpecialUseExists { mailbox: mailbox.map(text), attributes })
    };
    assert!(special(None, "\\junk") && special(Some("Spam"), "\\Junk"));
    assert!(!special(None, "\\Sent") && !special(Some("Lists"), "\\Junk"));
    let metadata = |mailbox, entry, key| {
        let comparison = comparison(MatchType::Is, &[key]);
        let (mailbox, entry) = (text(mailbox), text(entry));
        holds_in(&world, TestKind::Metadata { mailbox, entry, comparison })
    };
    assert!(metadata("Lists", "/private/comment", "hi"));
    assert!(!metadata("Spam", "/private/comment", "") && !metadata("None", "/x", ""));
    let entries = || texts(&["/private/comment"]);
    let of = |mailbox| TestKind::MetadataExists { mailbox: text(mailbox), entries: entries() };
    assert!(holds_in(&world, of("Lists")) && !holds_in(&world, of("Spam")));
    let server = |entry| TestKind::ServerMetadataExists { entries: texts(&[entry]) };
    assert!(holds_in(&world, server("/shared/admin")) && !holds_in(&world, server("/x")));
    let comparison = comparison(MatchType::Is, &["root"]);
    let value = TestKind::ServerMetadata { entry: text("/shared/admin"), comparison };
    assert!(holds_in(&world, value));
}

#[test]
fn the_environment_is_the_hosts() {
    let mut world = TestWorld::default();
    world.environment.insert("phase".into(), "during".into());
    let has_value = |item| TestKind::Environment {
        item: text(item),
        comparison: comparison(MatchType::Contains, &[""]),
    };
    assert!(holds_in(&world, has_value("Phase")) && !holds_in(&world, has_value("domain")));
    // With `:count`, an empty value is none, and an item that is not known makes the test false.
    world.environment.insert("remote-host".into(), String::new());
    let count = |item| TestKind::Environment {
        item: text(item),
        comparison: numeric(MatchType::Count(Relation::Eq), &["0"]),
    };
    assert!(holds_in(&world, count("remote-host")) && !holds_in(&world, count("domain")));
    assert!(!holds_in(&world, count("phase")));
}

#[test]
fn lists_are_the_hosts() {
    let mut world = TestWorld::default();
    world.lists.insert("tag:friends".into(), vec!["you@example.com".into()]);
    let envelope = TestKind::Envelope(Box::new(EnvelopeTest {
        parts: vec![known(EnvelopePart::From)],
        zone: None,
        address_part: AddressPart::All,
        comparison: comparison(MatchType::List, &["tag:other", "tag:friends"]),
    }));
    let file = when(envelope, vec![create("$0")]);
    let plan = TestInput::new(MESSAGE).run(&script(vec![file]), &world).plan;
    let name = "you@example.com".to_owned();
    let to = Target::Create { name, special_use: None };
    assert!(matches!(&plan.actions[0], Action::Store { to: other, .. } if *other == to));
    let valid = |list| TestKind::ValidExtList { lists: texts(&[list]) };
    assert!(holds_in(&world, valid("tag:friends")) && !holds_in(&world, valid("tag:other")));
    let redirect = |list| {
        let to = RedirectTo::List(text(list));
        let redirect = Redirect { to, copy: false, notify: None, ret: None, deliver_by: None };
        let commands = vec![CommandKind::Redirect(Box::new(redirect))];
        TestInput::new(MESSAGE).run(&script(commands), &world)
    };
    assert!(redirect("tag:other").error.is_some());
    let Action::Redirect(intent) = &redirect("tag:friends").plan.actions[0] else { panic!() };
    assert_eq!(intent.to, RedirectTarget::List("tag:friends".into()));
}

fn notify(method: &str) -> Notify {
    Notify {
        method: text(method),
        from: None,
        importance: None,
        options: Vec::new(),
        message: None,
        fcc: None,
    }
}

#[test]
fn notifications_are_compatible_with_refusals() {
    let notify = Notify {
        importance: Some(Keyword::Dynamic(text("1"))),
        options: texts(&["a=b=c", "odd"]),
        message: Some(text("Mail!")),
        ..notify("mailto:me@example.org")
    };
    let command = || CommandKind::Notify(Box::new(notify.clone()));
    // The second notification is equal to the first, and is left out.
    let outcome = run(vec![command(), reject("no"), command()]);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.plan.violations(), Vec::<&str>::new());
    assert_eq!(outcome.plan.actions.len(), 2);
    let Action::Notify(intent) = &outcome.plan.actions[0] else { panic!() };
    assert_eq!(intent.importance, Importance::High);
    assert_eq!(intent.options, [("a".to_owned(), "b=c".to_owned())]);
    assert_eq!(intent.message.as_deref(), Some("Mail!"));
}

#[test]
fn a_notification_has_a_possible_method() {
    let outcome = run(vec![CommandKind::Notify(Box::new(notify("tel:1")))]);
    assert_eq!(outcome.error.unwrap().kind, RuntimeErrorKind::BadNotifyMethod("tel:1".into()));
    let valid = |uris: &[&str]| holds(TestKind::ValidNotifyMethod { uris: texts(uris) });
    assert!(valid(&["mailto:a@b.example"]) && !valid(&["mailto:a@b.example", "tel:1"]));
    let capability = |capability| TestKind::NotifyMethodCapability {
        uri: text("mailto:a@b.example"),
        capability: text(capability),
        comparison: comparison(MatchType::Is, &["maybe"]),
    };
    // The host of the tests answers `maybe` for `online`.
    assert!(holds(capability("Online")) && !holds(capability("other")));
}

#[test]
fn copies_of_sent_messages_have_their_own_flags() {
    let fcc = Fcc { to: mailbox("Sent"), flags: Some(texts(&["\\Seen"])) };
    let world = TestWorld::with_mailboxes(&["Sent"]);
    let command = Notify { fcc: Some(fcc), ..notify("mailto:a@b.example") };
    let commands = vec![CommandKind::Notify(Box::new(command))];
    let plan = TestInput::new(MESSAGE).run(&script(commands), &world).plan;
    let Action::Notify(intent) = &plan.actions[0] else { panic!() };
    let fcc = intent.fcc.as_ref().unwrap();
    assert_eq!(fcc.to, Target::Mailbox { id: "id-Sent".into(), name: "Sent".into() });
    assert!(fcc.flags.contains("\\Seen"));
    assert!(plan.implicit_keep.is_some());
}

#[test]
fn parameters_of_the_envelope_are_compared() {
    let mut input = TestInput::new(MESSAGE);
    input.envelope.dsn = DsnParameters {
        notify: Some("SUCCESS,DELAY"),
        original_recipient: Some("rfc822;me+x@example.org"),
        ret: Some("HDRS"),
        envelope_id: Some("id 1"),
    };
    input.envelope.deliver_by =
        Some(DeliverByParameter { seconds: 120, mode: DeliverByMode::Return, trace: true });
    let value = |part: &str, key| {
        let test = TestKind::Envelope(Box::new(EnvelopeTest {
            parts: vec![Keyword::Dynamic(text(part))],
            zone: None,
            address_part: AddressPart::All,
            comparison: comparison(MatchType::Is, &[key]),
        }));
        input.run(&probe(test), &TestWorld::default()).plan.implicit_keep.is_none()
    };
    assert!(value("notify", "delay") && value("ret", "HDRS"));
    assert!(value("orcpt", "rfc822;me+x@example.org"));
    assert!(value("envid", "id 1"));
    assert!(value("bytimerelative", "120") && value("bymode", "return"));
    assert!(value("bytimeabsolute", "2026-12-24T12:02:00Z"));
    assert!(value("bytrace", "trace"));
}

#[test]
fn redirects_have_parameters() {
    let redirect = |deadline| {
        let command = Redirect {
            to: RedirectTo::Address(text("a@example.org")),
            copy: false,
            notify: Some(Keyword::Dynamic(text("$a"))),
            ret: Some(known(DsnReturn::Headers)),
            deliver_by: Some(DeliverBy {
                deadline,
                mode: known(DeliverByMode::Notify),
                trace: true,
            }),
        };
        run(vec![set(A, "never"), CommandKind::Redirect(Box::new(command))])
    };
    let outcome = redirect(Deadline::After(60));
    let Action::Redirect(intent) = &outcome.plan.actions[0] else { panic!() };
    assert_eq!(intent.notify, Some(DsnNotify::Never));
    assert_eq!(intent.ret, Some(DsnReturn::Headers));
    let deadline = intent.deliver_by.unwrap().deadline;
    assert_eq!(deadline.to_string(), "2026-12-24T12:01:00Z");
    let outcome = redirect(Deadline::At(text("2026-12-25T12:00:00+01:00")));
    assert_eq!(outcome.error, None);
    let outcome = redirect(Deadline::At(text("tomorrow")));
    assert!(matches!(outcome.error.unwrap().kind, RuntimeErrorKind::UnknownWord { .. }));
}

#[test]
fn ihave_says_what_the_checker_found() {
    let ihave = |available| TestKind::IHave { names: vec!["x".into()], available };
    assert!(holds(ihave(true)) && !holds(ihave(false)));
}
