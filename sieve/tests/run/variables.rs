//! Tests of variables (RFC 5229), of flags in variables (RFC 5232), and of included scripts and
//! global variables (RFC 6609).

use std::sync::Arc;

use restante_sieve::ir::{
    CommandKind, FlagOperation, Include, Location, MatchType, Modifier, Relation, TestKind,
    VariableId,
};
use restante_sieve::{Outcome, Place, RuntimeErrorKind, Trace, WarningKind};

use crate::build::{
    A, B, ENVIRONMENT, FLAGS, SHARED, comparison, create, header, include, numeric, script, set,
    string, texts, when,
};
use crate::support::{TestInput, TestWorld};

const MESSAGE: &str = "List-Id: Acme <users.acme.example>\r\nTo: a@b.example\r\n\r\nText\r\n";

/// Collects the names of variables that were set, and their values, in order.
#[derive(Default)]
struct Assignments(Vec<(String, String)>);

impl Trace for Assignments {
    fn assignment(&mut self, _: &Place, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }
}

/// Runs commands on [`MESSAGE`]. Returns the outcome, and what was assigned.
fn run_in(world: &TestWorld, commands: Vec<CommandKind>) -> (Outcome, Vec<(String, String)>) {
    let mut trace = Assignments::default();
    let outcome = TestInput::new(MESSAGE).run_traced(&script(commands), world, Some(&mut trace));
    (outcome, trace.0)
}

/// Runs commands and returns the value to which a variable was set last.
fn last(name: &str, commands: Vec<CommandKind>) -> String {
    let (outcome, assignments) = run_in(&TestWorld::default(), commands);
    assert_eq!(outcome.error, None);
    let value = assignments.into_iter().rev().find(|(other, _)| other == name);
    value.map(|(_, value)| value).unwrap_or_default()
}

/// Returns a value after modifiers.
fn modified(modifiers: &[Modifier], value: &str) -> String {
    let value = crate::build::text(value);
    last("a", vec![CommandKind::Set { variable: A, modifiers: modifiers.to_vec(), value }])
}

#[test]
fn values_are_expanded_once() {
    assert_eq!(last("b", vec![set(A, "x"), set(B, "<$a$a$9>")]), "<xx>");
    // The text `${b}` that two values make is not expanded again.
    assert_eq!(last("b", vec![set(A, "$"), set(A, "$a{b}"), set(B, "$a")]), "${b}");
}

#[test]
fn modifiers_are_applied_in_order() {
    assert_eq!(modified(&[Modifier::Lower, Modifier::UpperFirst], "juMBlEd"), "Jumbled");
    assert_eq!(modified(&[Modifier::QuoteWildcard, Modifier::Length], "a*"), "3");
}

#[test]
fn captures_stay_until_the_next_match() {
    let list = || header("List-Id", MatchType::Matches, "*<*.*>*");
    let failed = || header("List-Id", MatchType::Matches, "nothing*");
    let is = || header("List-Id", MatchType::Contains, "acme");
    let commands = vec![when(list(), vec![]), when(failed(), vec![]), when(is(), vec![])];
    let with = |value| {
        let mut commands = commands.clone();
        commands.push(set(A, value));
        last("a", commands)
    };
    assert_eq!(with("$2"), "users");
    assert_eq!(with("$0"), "Acme <users.acme.example>");
    assert_eq!(with("$1|$3|$4|$5"), "Acme |acme.example||");
}

#[test]
fn a_long_value_is_cut_at_a_character() {
    // 40,000 bytes. The limit is 16 KiB.
    let value = "\u{e4}".repeat(20_000);
    let (outcome, assignments) = run_in(&TestWorld::default(), vec![set(A, &value)]);
    assert_eq!(assignments[0].1.len(), 16 << 10);
    let kind = WarningKind::VariableCut { name: "a".into(), limit: 16 << 10 };
    assert_eq!(outcome.warnings[0].kind, kind);
    assert_eq!(outcome.error, None);
}

#[test]
fn string_does_not_trim_and_counts_what_is_not_empty() {
    let holds = |kind: TestKind| last("b", vec![when(kind, vec![set(B, "yes")])]) == "yes";
    assert!(holds(string(" a ", MatchType::Is, " A ")));
    assert!(!holds(string(" a", MatchType::Is, "a")));
    let count = |sources: &[&str], number| TestKind::String {
        sources: texts(sources),
        comparison: numeric(MatchType::Count(Relation::Eq), &[number]),
    };
    assert!(holds(count(&["a", "", "b"], "2")));
    assert!(holds(count(&[""], "0")));
}

/// Makes a command that changes the flags in a variable.
fn flags(operation: FlagOperation, variable: VariableId, flags: &[&str]) -> CommandKind {
    CommandKind::Flags { operation, variable: Some(variable), flags: texts(flags) }
}

#[test]
fn variables_hold_flags() {
    let commands = vec![
        flags(FlagOperation::Add, FLAGS, &["\\deleted", "x X"]),
        flags(FlagOperation::Add, FLAGS, &["y"]),
        flags(FlagOperation::Remove, FLAGS, &["X"]),
    ];
    assert_eq!(last("flags", commands.clone()), "\\Deleted y");
    let has_flag = |match_type, key| {
        let comparison = match match_type {
            MatchType::Count(_) => numeric(match_type, &[key]),
            _ => comparison(match_type, &[key]),
        };
        let mut commands = commands.clone();
        let test = TestKind::HasFlag { variables: vec![FLAGS], comparison };
        commands.push(when(test, vec![set(B, "yes")]));
        last("b", commands) == "yes"
    };
    // A key of two words is a list of two flags.
    assert!(has_flag(MatchType::Is, "z Y"));
    assert!(has_flag(MatchType::Contains, "delete"));
    assert!(!has_flag(MatchType::Is, "x"));
    assert!(has_flag(MatchType::Count(Relation::Eq), "2"));
}

#[test]
fn the_environment_can_be_a_variable() {
    let mut world = TestWorld::default();
    world.environment.insert("name".into(), "Restante".into());
    // The checker refuses to set it. In a tree without a source, setting it has no effect.
    let commands = vec![set(ENVIRONMENT, "x"), set(A, "$env")];
    let (outcome, assignments) = run_in(&world, commands);
    assert_eq!(outcome.error, None);
    assert_eq!(assignments.last().unwrap().1, "Restante");
}

/// Makes a world with scripts to include.
fn world_with(scripts: Vec<(&str, Vec<CommandKind>)>) -> TestWorld {
    let mut world = TestWorld::default();
    for (name, commands) in scripts {
        world.scripts.insert((Location::Personal, name.into()), Arc::new(script(commands)));
    }
    world
}

/// Makes an `include` of a script of the owner.
fn included(name: &str) -> CommandKind {
    CommandKind::Include(include(name))
}

#[test]
fn only_global_variables_are_shared() {
    let inner = vec![set(B, "<$a$shared>"), set(SHARED, "inner"), set(A, "lost")];
    let world = world_with(vec![("x", inner)]);
    let commands = vec![set(A, "1"), set(SHARED, "2"), included("x"), set(B, "<$a$shared>")];
    let (outcome, assignments) = run_in(&world, commands);
    assert_eq!(outcome.error, None);
    let values: Vec<_> = assignments.iter().filter(|(name, _)| name == "b").collect();
    assert_eq!((values[0].1.as_str(), values[1].1.as_str()), ("<2>", "<1inner>"));
}

#[test]
fn return_ends_the_script_and_stop_the_run() {
    for (end, expected) in [(CommandKind::Return, "after"), (CommandKind::Stop, "inner")] {
        let world = world_with(vec![("x", vec![set(SHARED, "inner"), end, set(SHARED, "no")])]);
        let (outcome, assignments) = run_in(&world, vec![included("x"), set(SHARED, "after")]);
        assert_eq!(outcome.error, None);
        assert_eq!(assignments.last().unwrap().1, expected);
    }
    let (outcome, assignments) =
        run_in(&TestWorld::default(), vec![CommandKind::Return, set(A, "no")]);
    assert_eq!((outcome.error, assignments.len()), (None, 0));
}

#[test]
fn includes_are_executed_once_if_they_say_so() {
    let once = || CommandKind::Include(Include { once: true, ..include("x") });
    let world = world_with(vec![("x", vec![set(SHARED, "$shared+")])]);
    let (_, assignments) = run_in(&world, vec![included("x"), once(), included("x")]);
    assert_eq!(assignments.last().unwrap().1, "++");
}

#[test]
fn what_is_included_once_is_no_recursion() {
    // `x` includes itself and the main script, both with `:once`: both run already, and neither
    // runs a second time.
    let once = |name| CommandKind::Include(Include { once: true, ..include(name) });
    let main = vec![included("x"), set(SHARED, "$shared-main")];
    let inner = vec![once("x"), once("main"), set(SHARED, "x")];
    let world = world_with(vec![("x", inner), ("main", main.clone())]);
    let (outcome, assignments) = run_in(&world, main);
    assert_eq!(outcome.error, None);
    assert_eq!(assignments.last().unwrap().1, "x-main");
    // Without `:once` it is an error.
    let main = vec![included("main")];
    let (outcome, _) = run_in(&world_with(vec![("main", main.clone())]), main);
    assert_eq!(outcome.error.unwrap().kind, RuntimeErrorKind::IncludeLoop("main".into()));
}

#[test]
fn missing_and_recursive_includes_are_errors() {
    let (outcome, _) = run_in(&TestWorld::default(), vec![included("x")]);
    assert_eq!(outcome.error.unwrap().kind, RuntimeErrorKind::IncludeNotFound("x".into()));
    let optional = CommandKind::Include(Include { optional: true, ..include("x") });
    let (outcome, _) = run_in(&TestWorld::default(), vec![optional]);
    assert_eq!(outcome.error, None);
    let world = world_with(vec![("x", vec![included("y")]), ("y", vec![included("x")])]);
    let (outcome, _) = run_in(&world, vec![create("lost"), included("x")]);
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, RuntimeErrorKind::IncludeLoop("x".into()));
    assert_eq!(error.place.script.as_deref(), Some("y"));
    assert_eq!(outcome.plan, restante_sieve::Plan::keep_only());
}
