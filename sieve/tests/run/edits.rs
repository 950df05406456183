//! Tests of `addheader` and `deleteheader` (RFC 5293), and of `replace` and `enclose` (RFC 5703).

use restante_sieve::ir::{
    CommandKind, DeleteHeader, Enclose, FieldIndex, MatchType, MimeOption, MimeScope, Replace,
    TestKind,
};
use restante_sieve::{
    Action, HeaderEdits, HeaderField, ImplicitKeep, MessageEdits, Outcome, PartReplacement, Plan,
    RuntimeErrorKind, Version, WarningKind,
};

use crate::build::{
    add_header, comparison, create, header, keep, mime_header, not, redirect, script, text, texts,
    when,
};
use crate::messages::NESTED;
use crate::support::{TestInput, TestWorld};

/// The fields have the indices 0 (Received) to 6 (Content-Type), by which edits name them.
const MESSAGE: &str = "Received: by x; Thu, 24 Dec 2026 10:00:00 +0000\r\n\
    From: You <you@example.com>\r\n\
    Subject: =?utf-8?q?H=C3=A9?=\r\n llo\r\n\
    X-Hello: one\r\n\
    X-Hello: two\r\n\
    X-Hello: three\r\n\
    Content-Type: text/plain\r\n\
    \r\n\
    Text\r\n";

/// Runs commands on a message, in a world without mailboxes but the Inbox.
fn run_on(message: &str, commands: Vec<CommandKind>) -> Outcome {
    let outcome = TestInput::new(message).run(&script(commands), &TestWorld::default());
    assert_eq!(outcome.plan.violations(), Vec::<&str>::new());
    outcome
}

/// Returns the plan of a run on [`MESSAGE`] without errors.
fn plan(commands: Vec<CommandKind>) -> Plan {
    let outcome = run_on(MESSAGE, commands);
    assert_eq!(outcome.error, None);
    outcome.plan
}

/// Returns the edits of the version that the implicit keep of [`MESSAGE`] stores.
fn kept(commands: Vec<CommandKind>) -> MessageEdits {
    let plan = plan(commands);
    match plan.implicit_keep.unwrap().message {
        Version::Original => MessageEdits::default(),
        Version::Edited(index) => plan.versions[usize::from(index)].clone(),
    }
}

fn field(name: &str, value: &str) -> HeaderField {
    HeaderField { name: name.into(), value: value.into() }
}

/// Makes a `deleteheader`, with `:index` and with a value for `:contains` if they are given.
fn delete(name: &str, index: Option<u32>, key: Option<&str>) -> CommandKind {
    CommandKind::DeleteHeader(Box::new(DeleteHeader {
        name: text(name),
        index: index.map(|number| FieldIndex { number, from_end: false }),
        comparison: key.map(|key| comparison(MatchType::Contains, &[key])),
    }))
}

/// Makes an `addheader :last`.
fn last(name: &str, value: &str) -> CommandKind {
    CommandKind::AddHeader { last: true, name: text(name), value: text(value) }
}

/// Makes a command that files the message into `failed` if no field of the name has this value.
fn has(name: &str, value: &str) -> CommandKind {
    when(not(header(name, MatchType::Is, value)), vec![create("failed")])
}

fn replace(replacement: &str) -> Replace {
    Replace { mime: false, subject: None, from: None, replacement: text(replacement) }
}

#[test]
fn fields_are_added_at_both_ends() {
    let commands =
        vec![add_header("X-A", "1"), add_header("X-B", "2"), last("X-C", "3"), has("x-c", "3")];
    let expected = HeaderEdits {
        prepended: vec![field("X-B", "2"), field("X-A", "1")],
        deleted: vec![],
        appended: vec![field("X-C", "3")],
    };
    assert_eq!(kept(commands).header, expected);
}

#[test]
fn a_value_is_one_line() {
    let edits = kept(vec![add_header("X-A", "a\r\nBcc: b\0")]);
    assert_eq!(edits.header.prepended, [field("X-A", "a  Bcc: b")]);
}

#[test]
fn deletions_count_the_fields_as_they_are() {
    // Positions count from 0 in `MESSAGE`. After the first command, the second `X-Hello` that is
    // left is the third of the message (RFC 5293 §7).
    let commands = vec![delete("X-Hello", Some(1), None), delete("x-hello", Some(2), None)];
    assert_eq!(kept(commands).header.deleted, [3, 5]);
    let commands = vec![add_header("X-Hello", "World"), delete("X-Hello", Some(1), None)];
    assert_eq!(plan(commands), Plan::keep_only());
    assert_eq!(kept(vec![delete("X-Hello", None, None)]).header.deleted, [3, 4, 5]);
    assert_eq!(kept(vec![delete("X-Hello", None, Some("t"))]).header.deleted, [4, 5]);
    assert_eq!(kept(vec![delete("X-Hello", Some(1), Some("t"))]).header.deleted, [0; 0]);
    assert_eq!(kept(vec![delete("X-Hello", Some(9), None)]).header.deleted, [0; 0]);
}

#[test]
fn later_tests_see_the_edited_header() {
    let commands = vec![
        delete("Subject", None, None),
        add_header("Subject", "=?utf-8?q?=C3=A9?="),
        has("Subject", "\u{e9}"),
    ];
    assert!(plan(commands).actions.is_empty());
}

#[test]
fn protected_fields_stay() {
    let commands = vec![delete("received", None, None), add_header("Auto-Submitted", "no")];
    let outcome = run_on(MESSAGE, commands);
    assert_eq!(outcome.plan, Plan::keep_only());
    assert_eq!(outcome.warnings[0].kind, WarningKind::FieldProtected { name: "received".into() });
    assert_eq!(outcome.warnings.len(), 2);
    let world = TestWorld { protected_fields: vec!["X-Hello".into()], ..TestWorld::default() };
    let commands = script(vec![delete("x-hello", None, None)]);
    assert_eq!(TestInput::new(MESSAGE).run(&commands, &world).plan, Plan::keep_only());
}

#[test]
fn a_malformed_name_of_a_field_is_an_error() {
    let outcome = run_on(MESSAGE, vec![add_header("a b", "x")]);
    let kind = RuntimeErrorKind::BadFieldName { name: "a b".into() };
    assert_eq!(outcome.error.unwrap().kind, kind);
}

#[test]
fn actions_carry_the_version_of_their_time() {
    let plan = plan(vec![
        redirect("a@example.org"),
        add_header("X-A", "1"),
        redirect("b@example.org"),
        add_header("X-B", "2"),
        create("x"),
        keep(),
        delete("X-B", None, None),
        create("y"),
    ]);
    let versions: Vec<_> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::Store { message, .. } => *message,
            Action::Redirect(redirect) => redirect.message,
            other => panic!("{other:?}"),
        })
        .collect();
    let [one, two] = [0, 1].map(Version::Edited);
    assert_eq!(versions, [Version::Original, one, two, two, one]);
    assert_eq!(plan.versions.len(), 2);
}

#[test]
fn the_message_can_be_replaced() {
    let command = Replace { subject: Some(text("New")), ..replace("Gone") };
    let edits = kept(vec![
        CommandKind::Replace(Box::new(command)),
        has("Subject", "New"),
        has("Original-Subject", "H\u{e9} llo"),
        has("Content-Type", "text/plain; charset=utf-8"),
    ]);
    assert_eq!(edits.parts, [PartReplacement { part: 0, mime: false, content: "Gone".into() }]);
    assert_eq!(edits.header.deleted, [2, 6]);
    let fields = [field("Original-Subject", "=?utf-8?q?H=C3=A9?= llo"), field("Subject", "New")];
    assert_eq!(edits.header.appended, fields);
}

#[test]
fn original_subject_and_from_cannot_be_removed() {
    let command = Replace {
        subject: Some(text("New")),
        from: Some(text("Me <me@example.org>")),
        ..replace("Gone")
    };
    let commands = vec![
        CommandKind::Replace(Box::new(command)),
        delete("Original-Subject", None, None),
        delete("Original-From", None, None),
        delete("Subject", None, None),
    ];
    let outcome = run_on(MESSAGE, commands);
    assert_eq!(outcome.warnings.len(), 2);
    let names: Vec<_> =
        outcome.plan.versions[0].header.appended.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["Original-Subject", "Original-From", "From"]);
}

#[test]
fn the_from_of_a_replacement_is_an_address() {
    let bad = Replace { from: Some(text("nobody")), ..replace("Gone") };
    let error = run_on(MESSAGE, vec![CommandKind::Replace(Box::new(bad))]).error.unwrap();
    assert_eq!(error.kind, RuntimeErrorKind::BadAddress("nobody".into()));
}

#[test]
fn parts_are_replaced_in_a_loop() {
    let is_alternative =
        mime_header("Content-Type", MimeOption::Subtype, MimeScope::Part, "alternative");
    let looped = CommandKind::ForEveryPart {
        block: crate::build::commands(vec![when(
            is_alternative,
            vec![CommandKind::Replace(Box::new(replace("Gone")))],
        )]),
    };
    let body =
        crate::build::body(restante_sieve::ir::BodyTransform::Text, MatchType::Contains, "gone");
    // The HTML part was in the part that was replaced.
    let is_html = mime_header("Content-Type", MimeOption::Subtype, MimeScope::AnyChild, "html");
    let commands = vec![
        looped,
        when(not(body), vec![create("failed")]),
        when(is_html, vec![create("failed")]),
    ];
    let outcome = run_on(NESTED, commands);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.plan.actions, []);
    let expected = PartReplacement { part: 1, mime: false, content: "Gone".into() };
    assert_eq!(outcome.plan.versions[0].parts, [expected]);
    assert!(outcome.plan.versions[0].header.is_empty());
}

#[test]
fn an_entity_replaces_a_part_with_its_type() {
    let command = Replace { mime: true, ..replace("Content-Type: text/html\r\n\r\n<p>Gone") };
    let commands = vec![CommandKind::Replace(Box::new(command)), has("content-type", "text/html")];
    let edits = kept(commands);
    assert!(edits.parts[0].mime);
    assert_eq!(edits.header.deleted, [6]);
    let bad = Replace { mime: true, ..replace("Gone") };
    let error = run_on(MESSAGE, vec![CommandKind::Replace(Box::new(bad))]).error.unwrap();
    assert_eq!(error.kind, RuntimeErrorKind::BadMimeEntity);
}

fn enclose(subject: Option<&str>, headers: &[&str]) -> CommandKind {
    CommandKind::Enclose(Box::new(Enclose {
        subject: subject.map(text),
        headers: texts(headers),
        text: text("Careful!"),
    }))
}

#[test]
fn an_enclosed_message_is_an_attachment_of_a_new_one() {
    let child = |option, key| mime_header("Content-Type", option, MimeScope::AnyChild, key);
    let commands = vec![
        add_header("X-Inner", "1"),
        enclose(Some("Warning"), &["From", "X-Hello"]),
        add_header("X-Outer", "2"),
        redirect("a@example.org"),
        keep(),
        has("Subject", "Warning"),
        has("From", "You <you@example.com>"),
        has("X-Hello", "three"),
        // The time of `TestWorld`.
        has("Date", "Thu, 24 Dec 2026 12:00:00 +0000"),
        when(header("X-Inner", MatchType::Is, "1"), vec![create("failed")]),
        when(not(child(MimeOption::ContentType, "message/rfc822")), vec![create("failed")]),
    ];
    let plan = plan(commands);
    let Action::Redirect(redirect) = &plan.actions[0] else { panic!() };
    let Action::Store { message: Version::Edited(index), .. } = plan.actions[1] else { panic!() };
    assert_eq!(plan.actions.len(), 2);
    let kept = &plan.versions[usize::from(index)];
    assert_eq!(kept.header.prepended, [field("X-Inner", "1")]);
    let enclosure = kept.enclosure.as_ref().unwrap();
    assert_eq!(enclosure.text, "Careful!");
    assert_eq!(enclosure.then.header.prepended, [field("X-Outer", "2")]);
    let names = ["Subject", "From", "X-Hello", "X-Hello", "X-Hello"];
    let added = enclosure.then.header.appended.iter().map(|field| field.name.as_str());
    assert_eq!(added.collect::<Vec<_>>(), names);
    assert!(enclosure.then.header.deleted.is_empty());
    // A redirect sends the message without the enclosure (RFC 5703 §6).
    let Version::Edited(sent) = redirect.message else { panic!() };
    let sent = &plan.versions[usize::from(sent)];
    assert_eq!((sent.header.prepended.len(), &sent.enclosure), (1, &None));
}

#[test]
fn an_enclosure_takes_the_subject_and_can_lose_it() {
    let edits = kept(vec![enclose(None, &[]), has("Subject", "H\u{e9} llo")]);
    let header = edits.enclosure.unwrap().then.header;
    assert_eq!(header.appended, [field("Subject", "=?utf-8?q?H=C3=A9?= llo")]);
    let edits = kept(vec![enclose(None, &[]), delete("Subject", None, None)]);
    assert!(edits.enclosure.unwrap().then.header.is_empty());
    let outcome = run_on(MESSAGE, vec![enclose(None, &[]), delete("Content-Type", None, None)]);
    assert_eq!(outcome.warnings.len(), 1);
}

#[test]
fn an_enclosed_part_cannot_be_replaced() {
    let looped = CommandKind::ForEveryPart {
        block: crate::build::commands(vec![
            enclose(None, &[]),
            CommandKind::Replace(Box::new(replace("x"))),
        ]),
    };
    let outcome = run_on(MESSAGE, vec![looped]);
    assert_eq!(outcome.error.unwrap().kind, RuntimeErrorKind::EditOfEnclosure);
    let commands = vec![enclose(None, &[]), CommandKind::Replace(Box::new(replace("x")))];
    let then = kept(commands).enclosure.unwrap().then;
    assert_eq!(then.parts, [PartReplacement { part: 0, mime: false, content: "x".into() }]);
}

#[test]
fn an_error_keeps_the_message_as_it_was_received() {
    let error = CommandKind::Error { message: text("no") };
    let outcome = run_on(MESSAGE, vec![add_header("X-A", "1"), error]);
    assert_eq!(outcome.plan.implicit_keep, Some(ImplicitKeep::default()));
    assert!(outcome.plan.versions.is_empty());
}

#[test]
fn size_is_that_of_the_message_as_received() {
    let size = TestKind::Size(restante_sieve::ir::SizeLimit::Over(MESSAGE.len() as u64));
    assert!(plan(vec![add_header("X-A", "1"), when(size, vec![create("x")])]).actions.is_empty());
}
