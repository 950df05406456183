//! Tests of actions and their conflicts.

use restante_sieve::ir::{
    CommandKind, FileInto, FlagOperation, MailboxArgument, RejectKind, TestKind,
};
use restante_sieve::{
    Action, FlagSet, ImplicitKeep, Outcome, Plan, RedirectTarget, RuntimeErrorKind, Target,
    VacationBody, Version, WarningKind,
};

use crate::build::{
    add_header, answer, copy_to, create, fileinto, keep, mailbox, redirect, redirect_with, reject,
    script, text, texts, vacation, when,
};
use crate::support::{TestInput, TestWorld};

const MESSAGE: &str = "Subject: Hello\r\n\r\nText\r\n";

/// Runs commands on [`MESSAGE`], with the mailboxes Lists and Work.
fn run(commands: Vec<CommandKind>) -> Outcome {
    run_in(&TestWorld::with_mailboxes(&["Lists", "Work"]), commands)
}

fn run_in(world: &TestWorld, commands: Vec<CommandKind>) -> Outcome {
    let outcome = TestInput::new(MESSAGE).run(&script(commands), world);
    assert_eq!(outcome.plan.violations(), Vec::<&str>::new());
    outcome
}

/// Returns the plan of a run without errors and warnings.
fn plan(commands: Vec<CommandKind>) -> Plan {
    let outcome = run(commands);
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.warnings, []);
    outcome.plan
}

/// Returns the names of the two actions in conflict that make a run fail.
fn conflict(commands: Vec<CommandKind>) -> (&'static str, &'static str) {
    let outcome = run(commands);
    assert_eq!(outcome.plan, Plan::keep_only());
    match outcome.error.unwrap().kind {
        RuntimeErrorKind::IncompatibleActions { first, second, .. } => (first, second),
        other => panic!("{other}"),
    }
}

fn store(to: Target, flags: &[&str]) -> Action {
    Action::Store { to, flags: flags.iter().collect(), message: Version::Original }
}

/// A mailbox of the world: `TestWorld` gives it an id of `id-` and its name.
fn mailbox_target(name: &str) -> Target {
    Target::Mailbox { id: format!("id-{name}"), name: name.to_owned() }
}

fn create_target(name: &str) -> Target {
    Target::Create { name: name.to_owned(), special_use: None }
}

fn change_flags(operation: FlagOperation, flags: &[&str]) -> CommandKind {
    CommandKind::Flags { operation, variable: None, flags: texts(flags) }
}

fn fileinto_with_flags(name: &str, flags: &[&str]) -> CommandKind {
    let flags = Some(texts(flags));
    CommandKind::FileInto(Box::new(FileInto { to: mailbox(name), copy: false, flags }))
}

#[test]
fn explicit_keep_and_fileinto_inbox_are_one_copy() {
    let expected = vec![store(Target::Inbox, &[])];
    for commands in [
        vec![keep()],
        vec![fileinto("INBOX")],
        vec![keep(), fileinto("inbox")],
        vec![fileinto("INBOX"), keep(), keep()],
    ] {
        let plan = plan(commands);
        assert_eq!(plan.actions, expected);
        assert_eq!(plan.implicit_keep, None);
    }
}

#[test]
fn a_copy_leaves_the_implicit_keep() {
    let plan = plan(vec![copy_to("Lists")]);
    assert_eq!(plan.actions, [store(mailbox_target("Lists"), &[])]);
    assert_eq!(plan.implicit_keep, Some(ImplicitKeep::default()));
}

#[test]
fn a_copy_to_the_inbox_is_the_implicit_keep() {
    let plan = plan(vec![copy_to("INBOX"), change_flags(FlagOperation::Add, &["\\Seen"])]);
    assert_eq!(plan.actions, [store(Target::Inbox, &["\\Seen"])]);
    assert_eq!(plan.implicit_keep, None);
}

#[test]
fn of_two_stores_in_one_mailbox_the_last_flags_count() {
    let commands = vec![
        fileinto_with_flags("Lists", &["\\Seen a"]),
        fileinto("Work"),
        fileinto_with_flags("Lists", &["b"]),
    ];
    let expected = [store(mailbox_target("Lists"), &["b"]), store(mailbox_target("Work"), &[])];
    assert_eq!(plan(commands).actions, expected);
    let plan = plan(vec![create("New"), create("New")]);
    assert_eq!(plan.actions, [store(create_target("New"), &[])]);
}

#[test]
fn discard_cancels_only_the_implicit_keep() {
    assert_eq!(plan(vec![CommandKind::Discard]).actions, [Action::Discard]);
    assert_eq!(plan(vec![CommandKind::Discard]).implicit_keep, None);
    let both = plan(vec![CommandKind::Discard, fileinto("Lists"), CommandKind::Discard]);
    assert_eq!(both.actions, [Action::Discard, store(mailbox_target("Lists"), &[])]);
}

#[test]
fn a_message_for_a_missing_or_refusing_mailbox_is_stored_in_the_inbox() {
    let outcome = run(vec![fileinto("Nowhere")]);
    assert_eq!(outcome.plan.actions, [store(Target::Inbox, &[])]);
    let kind = WarningKind::MailboxNotFound { name: "Nowhere".into() };
    assert_eq!(outcome.warnings[0].kind, kind);
    let mut world = TestWorld::default();
    world.add_mailbox("Full").accepts_mail = false;
    let outcome = run_in(&world, vec![fileinto("Full")]);
    assert_eq!(outcome.warnings[0].kind, WarningKind::MailboxRefused { name: "Full".into() });
    assert_eq!(outcome.plan.actions, [store(Target::Inbox, &[])]);
}

#[test]
fn a_malformed_name_of_a_mailbox_is_an_error() {
    for name in ["", "a\nb"] {
        let error = run(vec![fileinto(name)]).error.unwrap();
        assert_eq!(error.kind, RuntimeErrorKind::BadMailboxName(name.into()));
    }
}

#[test]
fn id_and_special_use_come_before_the_name() {
    let mut world = TestWorld::with_mailboxes(&["Lists"]);
    world.add_mailbox("Spam").special_uses.push("\\Junk".into());
    let to = |id: Option<&str>, special_use: Option<&str>, name: &str| {
        let argument = MailboxArgument {
            id: id.map(text),
            special_use: special_use.map(text),
            create: true,
            ..mailbox(name)
        };
        let file = FileInto { to: argument, copy: false, flags: None };
        let plan = run_in(&world, vec![CommandKind::FileInto(Box::new(file))]).plan;
        match &plan.actions[0] {
            Action::Store { to, .. } => to.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(to(Some("id-Spam"), None, "Lists"), mailbox_target("Spam"));
    assert_eq!(to(Some("id-None"), None, "Lists"), mailbox_target("Lists"));
    assert_eq!(to(None, Some("\\junk"), "Lists"), mailbox_target("Spam"));
    assert_eq!(to(None, Some("\\Archive"), "Lists"), mailbox_target("Lists"));
    let special_use = Some("\\Archive".to_owned());
    let expected = Target::Create { name: "Old".into(), special_use };
    assert_eq!(to(None, Some("\\Archive"), "Old"), expected);
}

#[test]
fn flags_are_those_of_the_time_of_the_action() {
    let commands = vec![
        change_flags(FlagOperation::Set, &["a b", "\\Recent"]),
        copy_to("Lists"),
        change_flags(FlagOperation::Add, &["c"]),
        change_flags(FlagOperation::Remove, &["A"]),
    ];
    let outcome = run(commands);
    assert_eq!(outcome.plan.actions, [store(mailbox_target("Lists"), &["a", "b"])]);
    let flags: FlagSet = ["b", "c"].iter().collect();
    assert_eq!(outcome.plan.implicit_keep.unwrap().flags, flags);
    assert_eq!(outcome.warnings[0].kind, WarningKind::FlagIgnored("\\Recent".into()));
}

#[test]
fn redirects_go_to_each_address_once() {
    let outcome = run(vec![redirect("a@example.org"), redirect("a@Example.org")]);
    assert_eq!(outcome.plan.actions.len(), 1);
    assert_eq!(outcome.plan.implicit_keep, None);
    let Action::Redirect(intent) = &outcome.plan.actions[0] else { panic!() };
    assert!(matches!(&intent.to, RedirectTarget::Address(to) if to.local_part() == "a"));
    assert_eq!(outcome.warnings[0].kind, WarningKind::RedirectRepeated("a@Example.org".into()));
}

#[test]
fn a_redirect_with_copy_leaves_the_implicit_keep() {
    let copy = plan(vec![redirect_with("a@example.org", true)]);
    assert!(copy.implicit_keep.is_some());
}

#[test]
fn the_address_of_a_redirect_may_have_a_display_name() {
    let named = plan(vec![redirect("Me <a@example.org>")]);
    assert_eq!(named.actions, plan(vec![redirect("a@example.org")]).actions);
    let bad = run(vec![redirect("Me a@example.org")]);
    assert!(matches!(bad.error.unwrap().kind, RuntimeErrorKind::BadAddress(_)));
}

#[test]
fn a_message_that_loops_is_kept() {
    // One field more than the default of `RunLimits::received`. A redirect that is left out for it
    // stores the message even after `discard`, unless another action does.
    let message = format!("{}\r\nText", "Received: x\r\n".repeat(51));
    for (first, is_stored) in [(CommandKind::Discard, false), (fileinto("Lists"), true)] {
        let commands = script(vec![first, redirect("a@example.org")]);
        let world = TestWorld::with_mailboxes(&["Lists"]);
        let outcome = TestInput::new(message.as_str()).run(&commands, &world);
        assert_eq!(outcome.warnings[0].kind, WarningKind::RedirectLoop);
        assert_eq!(outcome.plan.implicit_keep.is_some(), !is_stored);
        assert_eq!(outcome.plan.actions.len(), 1);
    }
}

#[test]
fn actions_in_conflict_fail_when_they_are_executed() {
    assert_eq!(conflict(vec![answer("a"), answer("b")]), ("vacation", "vacation"));
    assert_eq!(conflict(vec![reject("a"), reject("b")]), ("reject", "reject"));
    assert_eq!(conflict(vec![reject("a"), answer("b")]), ("reject", "vacation"));
    assert_eq!(conflict(vec![answer("a"), reject("b")]), ("vacation", "reject"));
    assert_eq!(conflict(vec![keep(), reject("b")]), ("keep", "reject"));
    assert_eq!(conflict(vec![reject("a"), fileinto("Lists")]), ("reject", "fileinto"));
    assert_eq!(conflict(vec![redirect("a@b.example"), reject("b")]), ("redirect", "reject"));
    // Commands that do not run are in no conflict.
    let error = run(vec![keep(), CommandKind::Stop, reject("a")]).error;
    assert_eq!(error, None);
    let exclusive =
        vec![when(TestKind::False, vec![answer("a")]), when(TestKind::True, vec![answer("b")])];
    assert_eq!(plan(exclusive).actions.len(), 1);
}

#[test]
fn an_error_has_the_places_of_both_actions_in_conflict() {
    let error = run(vec![keep(), CommandKind::Discard, reject("a")]).error.unwrap();
    // The span of a command begins at its index.
    assert_eq!(error.place.span.start, 2);
    let RuntimeErrorKind::IncompatibleActions { first_place, .. } = error.kind else { panic!() };
    assert_eq!(first_place.span.start, 0);
}

#[test]
fn a_refusal_cancels_the_implicit_keep() {
    let plan = plan(vec![CommandKind::Reject { kind: RejectKind::EReject, reason: text("no") }]);
    let reason = "no".to_owned();
    assert_eq!(plan.actions, [Action::Reject { kind: RejectKind::EReject, reason }]);
    assert_eq!(plan.implicit_keep, None);
}

#[test]
fn vacation_is_an_intent_and_leaves_the_implicit_keep() {
    let mut command = vacation("away");
    command.subject = Some(text("a\r\nBcc: x"));
    command.from = Some(text("Me <me@example.org>"));
    command.addresses = texts(&["nobody", "Also me <too@example.org>"]);
    let outcome = run(vec![CommandKind::Vacation(Box::new(command.clone()))]);
    assert_eq!(outcome.plan.implicit_keep, Some(ImplicitKeep::default()));
    let Action::Vacation(intent) = &outcome.plan.actions[0] else { panic!() };
    assert_eq!(intent.subject.as_deref(), Some("a  Bcc: x"));
    assert_eq!(intent.from.as_deref(), Some("Me <me@example.org>"));
    assert_eq!(intent.addresses, ["Also me <too@example.org>"]);
    assert_eq!(intent.body, VacationBody::Text("away".into()));
    assert_eq!(outcome.warnings[0].kind, WarningKind::AddressIgnored("nobody".into()));
    command.mime = true;
    let outcome = run(vec![CommandKind::Vacation(Box::new(command.clone()))]);
    assert_eq!(outcome.error.unwrap().kind, RuntimeErrorKind::BadMimeEntity);
    command.reason = text("Content-Type: text/html\r\n\r\n<p>");
    let outcome = run(vec![CommandKind::Vacation(Box::new(command))]);
    assert!(matches!(&outcome.plan.actions[0], Action::Vacation(intent)
        if matches!(intent.body, VacationBody::Mime(_))));
}

#[test]
fn a_store_after_an_edit_is_one_store_of_the_edited_message() {
    let plan = plan(vec![keep(), add_header("X-Flavor", "vanilla"), keep()]);
    assert_eq!(plan.actions.len(), 1);
    assert!(matches!(plan.actions[0], Action::Store { message: Version::Edited(0), .. }));
    assert_eq!(plan.versions.len(), 1);
}

#[test]
fn a_host_that_fails_is_a_temporary_error() {
    let world = TestWorld { is_broken: true, ..TestWorld::default() };
    let outcome = run_in(&world, vec![fileinto("Lists")]);
    assert!(outcome.error.unwrap().kind.is_temporary());
    assert_eq!(outcome.plan, Plan::keep_only());
}
