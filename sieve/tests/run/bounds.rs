//! Tests of the limits of a run.

use std::sync::Arc;

use restante_sieve::ir::{
    BodyTransform, CommandKind, Enclose, FlagOperation, Include, Location, MatchType, Replace,
    TestKind,
};
use restante_sieve::{Outcome, Plan, RunLimits, RuntimeErrorKind, Script};

use crate::build::{
    A, SHARED, add_header, body, commands, create, header, include, keep, redirect, script, set,
    string, test, text, when,
};
use crate::support::{TestInput, TestWorld};

const MESSAGE: &str = "Subject: Hello\r\n\r\nText\r\n";

/// Runs a script on [`MESSAGE`]. Panics if it uses more fuel than it has, or if a failed run does
/// more than keep the message.
fn run_with(limits: RunLimits, script: &Script, world: &TestWorld) -> Outcome {
    let input = TestInput { limits, ..TestInput::new(MESSAGE) };
    let outcome = input.run(script, world);
    assert!(outcome.fuel_used <= limits.fuel);
    if outcome.error.is_some() {
        assert_eq!(outcome.plan, Plan::keep_only());
    }
    outcome
}

/// Returns what there was too much of, `None` if the run had no error.
fn exceeded(limits: RunLimits, commands: Vec<CommandKind>) -> Option<&'static str> {
    let outcome = run_with(limits, &script(commands), &TestWorld::default());
    match outcome.error?.kind {
        RuntimeErrorKind::LimitExceeded { what, .. } => Some(what),
        other => panic!("{other}"),
    }
}

#[test]
fn numbers_of_actions_are_limited() {
    let limits = RunLimits { actions: 2, ..RunLimits::default() };
    let stores = |count| (0..count).map(|index| create(&index.to_string())).collect::<Vec<_>>();
    assert_eq!(exceeded(limits, stores(2)), None);
    assert_eq!(exceeded(limits, stores(3)), Some("actions"));
    let redirects = |count| {
        (0..count).map(|index| redirect(&format!("a{index}@example.org"))).collect::<Vec<_>>()
    };
    let limits = RunLimits { redirects: 2, ..RunLimits::default() };
    assert_eq!(exceeded(limits, redirects(2)), None);
    assert_eq!(exceeded(limits, redirects(3)), Some("redirects"));
    let limits = RunLimits { sent_messages: 1, ..RunLimits::default() };
    assert_eq!(exceeded(limits, redirects(2)), Some("sent messages"));
}

#[test]
fn edits_are_limited() {
    // `X-A: 1234567` with its line end has 14 bytes.
    let limits = RunLimits { added_header: 20, ..RunLimits::default() };
    let add = || add_header("X-A", "1234567");
    assert_eq!(exceeded(limits, vec![add()]), None);
    assert_eq!(exceeded(limits, vec![add(), add()]), Some("bytes of added header fields"));
    let limits = RunLimits { versions: 1, ..RunLimits::default() };
    let edit = || vec![add(), create("x")];
    assert_eq!(exceeded(limits, edit()), None);
    let twice = [edit(), edit()].concat();
    assert_eq!(exceeded(limits, twice), Some("versions of the message"));
    let limits = RunLimits { replaced_body: 5, ..RunLimits::default() };
    let replace = || {
        let replacement = text("12345");
        let replace = Replace { mime: false, subject: None, from: None, replacement };
        CommandKind::Replace(Box::new(replace))
    };
    assert_eq!(exceeded(limits, vec![replace()]), None);
    assert_eq!(exceeded(limits, vec![replace(), replace()]), Some("bytes of replaced text"));
    let enclose = Enclose { subject: None, headers: Vec::new(), text: text("") };
    let enclose = CommandKind::Enclose(Box::new(enclose));
    // The number of enclosures has the same limit as that of versions.
    let limits = RunLimits { versions: 2, ..RunLimits::default() };
    assert_eq!(exceeded(limits, vec![enclose; 3]), Some("enclosures"));
}

#[test]
fn loops_and_includes_are_limited() {
    let limits = RunLimits { parts: 1, ..RunLimits::default() };
    let looped = || CommandKind::ForEveryPart { block: commands(vec![set(A, "x")]) };
    assert_eq!(exceeded(limits, vec![looped()]), None);
    assert_eq!(exceeded(limits, vec![looped(), looped()]), Some("parts"));
    // Each script includes the one with the next number, up to 20, which does not exist.
    let mut world = TestWorld::default();
    for index in 0..20 {
        let inner = vec![CommandKind::Include(Include {
            optional: true,
            ..include(&format!("{}", index + 1))
        })];
        let name = (Location::Personal, index.to_string());
        world.scripts.insert(name, Arc::new(script(inner)));
    }
    let error = |limits, names: &[&str]| {
        let commands = names.iter().map(|name| CommandKind::Include(include(name))).collect();
        run_with(limits, &script(commands), &world).error.map(|error| error.to_string())
    };
    // From 12 to 19 there are 8 scripts inside one another, from 5 there are 15.
    assert_eq!(error(RunLimits::default(), &["12"]), None);
    let depth = error(RunLimits::default(), &["5"]).unwrap();
    assert_eq!(depth, "more than 10 included scripts inside one another");
    // A script that does not exist counts, too: 18 includes 19, which includes 20.
    let limits = RunLimits { includes: 3, ..RunLimits::default() };
    assert_eq!(error(limits, &["18"]), None);
    assert_eq!(error(limits, &["17"]).unwrap(), "more than 3 included scripts");
    assert_eq!(error(limits, &["19", "19", "19"]).unwrap(), "more than 3 included scripts");
}

#[test]
fn variables_are_limited() {
    // The list of every script of these tests has 5 variables. Setting a global one makes one more.
    let limits = RunLimits { variables: 5, ..RunLimits::default() };
    assert_eq!(exceeded(limits, vec![set(SHARED, "x")]), Some("variables"));
}

#[test]
fn a_value_cannot_grow_without_end() {
    let double = vec![set(A, "$a$a"); 100];
    let commands = [vec![set(A, "x")], double].concat();
    let outcome = run_with(RunLimits::default(), &script(commands), &TestWorld::default());
    assert_eq!(outcome.error, None);
    assert!(!outcome.warnings.is_empty());
    // Each flag is compared with all before it, and every comparison is charged.
    let flags = CommandKind::Flags {
        operation: FlagOperation::Add,
        variable: None,
        flags: vec![text(&(0..9000).map(|index| format!(" f{index}")).collect::<String>())],
    };
    let outcome = run_with(RunLimits::default(), &script(vec![flags]), &TestWorld::default());
    assert_eq!(outcome.error.unwrap().kind, RuntimeErrorKind::OutOfFuel);
}

#[test]
fn matching_is_charged() {
    // The fuel suffices for reading the body 30 times.
    let message = format!("Subject: Hello\r\n\r\n{}", "a".repeat(100_000));
    let limits = RunLimits { fuel: 12_000, ..RunLimits::default() };
    let input = TestInput { limits, ..TestInput::new(message) };
    let cases = [
        (MatchType::Contains, "b".to_owned(), false),
        (MatchType::Matches, "*b".to_owned(), false),
        // A long text after the wildcard is looked for at each place of the body.
        (MatchType::Matches, format!("*{}b", "a".repeat(1000)), true),
        (MatchType::Regex, "a+b".to_owned(), false),
        (MatchType::Regex, "(\\w+)b".to_owned(), false),
        // The size of its program is charged, too.
        (MatchType::Regex, "(\\w+){20}b".to_owned(), true),
    ];
    for (match_type, key, is_out) in cases {
        let test = body(BodyTransform::Raw, match_type, &key);
        let outcome = input.run(&script(vec![when(test, vec![])]), &TestWorld::default());
        let kind = outcome.error.map(|error| error.kind);
        assert_eq!(kind, is_out.then_some(RuntimeErrorKind::OutOfFuel), "{match_type:?}");
        // The body is at least copied, folded and searched, at a unit for 256 bytes each time.
        assert!(outcome.fuel_used >= 3 * 100_000 / 256 && outcome.fuel_used <= 12_000);
    }
}

#[test]
fn a_regex_of_variables_is_limited_in_size() {
    let regex = header("Subject", MatchType::Regex, "(\\w{100}){100}");
    let outcome =
        run_with(RunLimits::default(), &script(vec![when(regex, vec![])]), &TestWorld::default());
    let RuntimeErrorKind::BadRegex { reason, .. } = outcome.error.unwrap().kind else { panic!() };
    assert_eq!(reason, "it needs more than 1048576 bytes of memory, the most that one may have");
}

#[test]
fn nesting_is_limited_and_needs_little_stack() {
    // The limit of blocks and tests in one another is 400.
    let nested =
        |depth: usize| (0..depth).fold(vec![keep()], |block, _| vec![when(TestKind::True, block)]);
    let outcome = run_with(RunLimits::default(), &script(nested(350)), &TestWorld::default());
    assert_eq!(outcome.error, None);
    assert_eq!(exceeded(RunLimits::default(), nested(500)), Some("nested blocks and tests"));
    let tests = (0..350).fold(TestKind::True, |inner, _| TestKind::AnyOf(vec![test(inner)]));
    assert_eq!(exceeded(RunLimits::default(), vec![when(tests, vec![])]), None);
}

#[test]
fn fuel_is_the_same_in_every_run() {
    let commands = vec![
        when(header("Subject", MatchType::Matches, "*l*"), vec![set(A, "$1$2")]),
        when(string("$a", MatchType::Regex, "h.*"), vec![create("$a")]),
    ];
    let script = script(commands);
    let run = || run_with(RunLimits::default(), &script, &TestWorld::default());
    assert_eq!(run(), run());
    let used = run().fuel_used;
    let limits = RunLimits { fuel: used, ..RunLimits::default() };
    assert_eq!(run_with(limits, &script, &TestWorld::default()), run());
    let limits = RunLimits { fuel: used - 1, ..RunLimits::default() };
    let outcome = run_with(limits, &script, &TestWorld::default());
    assert_eq!(outcome.error.unwrap().kind, RuntimeErrorKind::OutOfFuel);
}

#[test]
fn a_test_of_the_body_of_the_largest_message_is_affordable() {
    let line = "It was a bright cold day in April, and the clocks were striking thirteen.\r\n";
    let message = |size: usize| {
        let head = "Subject: Hello\r\nContent-Type: text/plain\r\n\r\n";
        TestInput::new(format!("{head}{}", line.repeat(size / line.len())))
    };
    let error = |input: &TestInput, tests: &[(BodyTransform, MatchType, &str)]| {
        let tests = tests.iter().map(|(transform, match_type, key)| {
            when(body(transform.clone(), *match_type, key), vec![])
        });
        let outcome = input.run(&script(tests.collect()), &TestWorld::default());
        outcome.error.map(|error| error.kind)
    };
    // The tests of an ordinary script, on a message of 20 MiB for which they are false.
    let ordinary = message(20 << 20);
    let keys = ["lottery", "casino", "viagra", "prince"];
    let contains: Vec<_> =
        keys.iter().map(|key| (BodyTransform::Text, MatchType::Contains, *key)).collect();
    assert_eq!(error(&ordinary, &contains), None);
    // One test of each kind, on a message of 50 MiB.
    let largest = message(50 << 20);
    for transform in
        [BodyTransform::Raw, BodyTransform::Text, BodyTransform::Content(vec![text("")])]
    {
        for (match_type, key) in [
            (MatchType::Is, "zzz"),
            (MatchType::Contains, "zzz"),
            (MatchType::Matches, "*zzz*"),
            (MatchType::Regex, "zzz"),
        ] {
            let test = (transform.clone(), match_type, key);
            assert_eq!(error(&largest, &[test]), None, "{transform:?} {match_type:?}");
        }
    }
    // A run with too many of these tests ends without fuel.
    let many = vec![(BodyTransform::Text, MatchType::Contains, "zzz"); 20];
    assert_eq!(error(&largest, &many), Some(RuntimeErrorKind::OutOfFuel));
}
