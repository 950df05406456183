//! Tests what the checker makes of scripts: trees, and the codes of diagnostics, which
//! `src/diagnostic/code.rs` explains.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

use restante_sieve::ir::{
    Command, CommandKind, Comparison, Keyword, MatchType, Modifier, Relation, Scope, Segment,
    StringExpr, TestKind, Vacation,
};
use restante_sieve::{
    CompileOptions, Extension, ExtensionSet, Period, Script, VacationHandle, check,
};

/// The default options of a site that does not offer `body` and `fcc`.
fn options() -> CompileOptions {
    let allowed = ExtensionSet::all().without(Extension::Body).without(Extension::Fcc);
    CompileOptions { allowed, ..CompileOptions::default() }
}

/// Checks a script that has no errors. Warnings are allowed.
fn script(source: &str) -> Script {
    let checked = check(source.as_bytes(), &options());
    checked.script.unwrap_or_else(|| panic!("{source}\n{:#?}", checked.diagnostics))
}

fn commands(source: &str) -> Vec<Command> {
    script(source).commands().to_vec()
}

/// Returns the codes of all diagnostics of a script, in their order.
fn codes(source: &str) -> Vec<&'static str> {
    let checked = check(source.as_bytes(), &options());
    checked.diagnostics.iter().map(|one| one.code.as_str()).collect()
}

/// Returns the test of the first `if` of a script.
fn first_test(source: &str) -> TestKind {
    for command in commands(source) {
        if let CommandKind::If(condition) = command.kind {
            return condition.branches[0].test.kind.clone();
        }
    }
    panic!("no test in {source}");
}

/// Returns the value of the last `set` of a script.
fn last_value(source: &str) -> StringExpr {
    let mut values = commands(source).into_iter().filter_map(|command| match command.kind {
        CommandKind::Set { value, .. } => Some(value),
        _ => None,
    });
    values.next_back().unwrap()
}

/// Returns the last command of a script, which must be `vacation`.
fn vacation(source: &str) -> Vacation {
    match commands(source).pop().unwrap().kind {
        CommandKind::Vacation(vacation) => *vacation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_tags_and_keywords_ignore_case_and_extensions_do_not() {
    let test = first_test(
        "REQUIRE [\"relational\", \"comparator-i;ascii-numeric\"];
         IF Header :COUNT \"GE\" :Comparator \"i;ascii-numeric\" \"to\" \"2\" { Keep; }",
    );
    let TestKind::Header(header) = test else { panic!("{test:?}") };
    assert_eq!(header.comparison.match_type, MatchType::Count(Relation::Ge));
    assert_eq!(codes("require \"Fileinto\";"), ["S0201"]);
    assert_eq!(codes("if header :comparator \"I;OCTET\" \"a\" \"b\" { keep; }"), ["S0401"]);
}

#[test]
fn an_unsupported_branch_of_ihave_is_read_without_reports() {
    // `ihave "variables"` is false (RFC 5463 §4), so its branch is unsupported, too.
    let source = "require \"ihave\";
        if ihave \"body\" {
            if body :unheard \"x\" { nonsense; } elsif true { set \"a\" \"b\"; }
        } elsif not ihave [\"fileinto\", \"nonsense\"] {
            keep;
        } else { more_nonsense; }
        if allof (ihave \"fileinto\", ihave \"date\") { fileinto \"x\"; }
        if ihave \"variables\" { set \"a\" \"b\"; }
        fileinto \"y\";
        if anyof (ihave \"body\", true) { keep; }
        if allof (ihave \"body\", body \"x\") { keep; }";
    assert_eq!(codes(source), [""; 0]);
    let script = script(source);
    let names: Vec<_> = script.extensions().iter().map(Extension::name).collect();
    assert_eq!(names, ["fileinto", "date", "ihave"]);
    assert_eq!(script.variables().len(), 0);
    let CommandKind::If(first) = &script.commands()[0].kind else { panic!() };
    assert_eq!(first.branches.len(), 2);
    assert!(first.branches[0].block.is_empty() && first.otherwise.is_none());
    assert!(matches!(first.branches[0].test.kind, TestKind::IHave { available: false, .. }));
}

#[test]
fn what_never_runs_leaves_no_trace() {
    let source = "require [\"ihave\", \"variables\", \"include\", \"vacation\"];
        if ihave \"body\" { set \"a\" \"x\"; set \"b\" \"${c}\"; global \"d\"; vacation \"e\"; }
        global \"a\"; set \"d\" \"${a}\"; vacation \"f\";";
    assert_eq!(codes(source), [""; 0]);
    let scopes: Vec<_> = script(source).variables().iter().map(|one| one.scope).collect();
    assert_eq!(scopes, [Scope::Global, Scope::Local]);
}

#[test]
fn the_deepest_nesting_fits_the_stack_of_a_thread() {
    let mut options = options();
    options.limits.nesting = u8::MAX;
    let blocks = format!("{}{}", "if true {".repeat(255), "}".repeat(255));
    // 127 times two tests, and one in them.
    let tests = format!("if {}true{} {{}}", "anyof (not ".repeat(127), ")".repeat(127));
    for source in [blocks, tests] {
        let checked = check(source.as_bytes(), &options);
        assert_eq!(checked.diagnostics, []);
        assert!(checked.script.is_some());
    }
}

#[test]
fn ihave_holds_only_where_it_was_true() {
    let after = |body: &str| codes(&format!("require \"ihave\"; {body}"));
    assert_eq!(after("if allof (ihave \"fileinto\", true) {} fileinto \"x\";"), [""; 0]);
    let maybe = "if header \"a\" \"b\" { if ihave \"fileinto\" { keep; } } fileinto \"x\";";
    assert_eq!(after(maybe), ["S0203"]);
    assert_eq!(
        after("if allof (header \"a\" \"b\", ihave \"date\") {} if date \"a\" \"hour\" \"12\" {}"),
        ["S0203"]
    );
    assert_eq!(
        after("if anyof (header \"a\" \"b\", ihave \"fileinto\") { fileinto \"x\"; }"),
        ["S0203"]
    );
    assert_eq!(after("if not ihave \"body\" { stop; } nonsense;"), [""; 0]);
    assert_eq!(
        after("if not ihave \"body\" { error \"no body\"; } else { nonsense; } nonsense;"),
        [""; 0]
    );
    assert_eq!(after("if not ihave \"fileinto\" { nonsense; stop; } fileinto \"x\";"), [""; 0]);
    // One for `foreverypart`, and one for `fileinto`: the block may not have run.
    let looped = "foreverypart { if ihave \"fileinto\" {} } fileinto \"x\";";
    assert_eq!(after(looped), ["S0203", "S0203"]);
}

#[test]
fn variables_are_resolved() {
    let require = "require [\"variables\", \"include\"];";
    let of = |body: &str| script(&format!("{require} {body}"));
    let script = of("global \"G\"; set \"a\" \"x\"; set \"g\" \"${A}${global.g}${1}\";");
    let scopes: Vec<_> =
        script.variables().iter().map(|one| (one.scope, one.name.as_str())).collect();
    assert_eq!(scopes, [(Scope::Global, "g"), (Scope::Local, "a")]);
    let value = |text: &str| last_value(&format!("{require} set \"v\" \"{text}\";"));
    for text in ["$", "${", "${}", "${a", "${a-b}", "${1a}", "${a.}", "${.a}", "$ {a}", "${a b}"] {
        assert_eq!(value(text), StringExpr::from(text));
    }
    assert_eq!(
        value("a${00}${9}"),
        StringExpr::Template(vec![
            Segment::Literal("a".into()),
            Segment::Capture(0),
            Segment::Capture(9),
        ])
    );
    let StringExpr::Template(segments) = value("${a${b}}") else { panic!() };
    assert_eq!(segments[0], Segment::Literal("${a".into()));
    assert_eq!(segments[2], Segment::Literal("}".into()));
    assert_eq!(key_without_variables(), "${x}".into());
    let codes = |body: &str| codes(&format!("{require} {body}"));
    assert_eq!(codes("set \"global.a.b\" \"\"; set \"global.1\" \"\";"), ["S0415", "S0415"]);
    assert_eq!(codes("set \"env.x\" \"${env.name}\";"), ["S0416", "S0416"]);
    assert_eq!(codes("global \"a\"; set \"a\" \"\"; global \"a\";"), [""; 0]);
}

/// Returns the key `${x}` of a script that does not require `variables`.
fn key_without_variables() -> StringExpr {
    let TestKind::Header(header) = first_test("if header \"a\" \"${x}\" { keep; }") else {
        panic!()
    };
    header.comparison.keys[0].clone()
}

#[test]
fn encoded_characters_come_before_variables() {
    let value = |text: &str| {
        last_value(&format!(
            "require [\"variables\", \"encoded-character\"]; set \"v\" \"{text}\";"
        ))
    };
    for (text, expected) in [
        ("${hex:24 24}", "$$"),
        ("${unicode:40}", "@"),
        ("${ unicode:40}", "${ unicode:40}"),
        ("${UNICODE: 00000000000e4 }", "\u{e4}"),
        ("${HEX: c3\r\n A4}x${hex: 41}", "\u{e4}xA"),
        ("${hex: c3}${hex:a4}", "\u{e4}"),
        ("${hex:}", "${hex:}"),
        ("${hex:400}", "${hex:400}"),
        ("${hex:4${hex:41}", "${hex:4A"),
        ("${unicode:200000", "${unicode:200000"),
    ] {
        assert_eq!(value(text), expected.into(), "{text}");
    }
    let template = value("${hex:24}{x}");
    assert!(matches!(template, StringExpr::Template(segments) if segments.len() == 1));
    assert_eq!(
        value("${unicode:24 7b}${hex: 30 7d}"),
        StringExpr::Template(vec![Segment::Capture(0)])
    );
}

#[test]
fn modifiers_apply_by_precedence() {
    let source = "require [\"variables\", \"enotify\"];
        set :length :quotewildcard :encodeurl :upperfirst :lower \"a\" \"b\";";
    let CommandKind::Set { modifiers, .. } = &commands(source)[0].kind else { panic!() };
    assert_eq!(
        *modifiers,
        [
            Modifier::Lower,
            Modifier::UpperFirst,
            Modifier::QuoteWildcard,
            Modifier::EncodeUrl,
            Modifier::Length
        ]
    );
    let codes = |tags: &str| codes(&format!("require \"variables\"; set {tags} \"a\" \"b\";"));
    assert_eq!(codes(":lower :upper"), ["S0418"]);
    assert_eq!(codes(":lowerfirst :upperfirst"), ["S0418"]);
    assert_eq!(codes(":quoteregex"), ["S0203"]);
}

#[test]
fn the_handle_of_a_vacation_is_made_of_its_strings_before_variables_are_expanded() {
    let require = "require [\"vacation\", \"vacation-seconds\", \"variables\"];";
    let of = |arguments: &str| vacation(&format!("{require} vacation {arguments};"));
    let plain = of(":subject \"${s}\\\"\" :days 3 \"Away ${x}\"");
    let expected = VacationHandle::of_arguments(Some("${s}\""), None, false, "Away ${x}");
    assert_eq!((plain.handle, plain.handle_name, plain.period), (expected, None, Period::Days(3)));
    let named = of(":handle \"winter\" :seconds 0 \"Away\"");
    assert_eq!(named.handle, VacationHandle::named("winter"));
    assert_eq!((named.handle_name.as_deref(), named.period), (Some("winter"), Period::Seconds(0)));
    assert_eq!(of("\"Away\"").handle, of(":addresses \"a@b\" :days 9 \"Away\"").handle);
    assert_eq!(of("text:\na\n.\n").handle, of("\"a\r\n\"").handle);
}

#[test]
fn flags_have_a_variable_only_with_the_extension() {
    assert_eq!(codes("require \"imap4flags\"; addflag \"v\" \"\\\\Seen\";"), ["S0203"]);
    assert_eq!(codes("require \"imap4flags\"; if hasflag \"v\" \"a\" { stop; }"), ["S0203"]);
    let source = "require [\"imap4flags\", \"variables\"];
        setflag \"v\" [\"a\", \"b c\"]; removeflag \"x\";
        if hasflag [\"v\", \"w\"] \"a\" { stop; }";
    let commands = commands(source);
    let CommandKind::Flags { variable: Some(_), flags, .. } = &commands[0].kind else { panic!() };
    assert_eq!(flags.len(), 2);
    assert!(matches!(commands[1].kind, CommandKind::Flags { variable: None, .. }));
    let TestKind::HasFlag { variables, .. } = first_test(source) else { panic!() };
    assert_eq!(variables.len(), 2);
}

#[test]
fn break_counts_the_loops_it_leaves() {
    let source = "require \"foreverypart\";
        foreverypart :name \"a\" {
        foreverypart :name \"b\" { foreverypart { break :name \"a\"; } } }";
    let mut commands = commands(source);
    for _ in 0..3 {
        let CommandKind::ForEveryPart { block } = commands.remove(0).kind else { panic!() };
        commands = block;
    }
    assert_eq!(commands[0].kind, CommandKind::Break { loops: 3 });
}

#[test]
fn keywords_of_variables_are_resolved_at_run_time() {
    let source = "require [\"date\", \"variables\"]; set \"p\" \"hour\";
        if currentdate :zone \"${z}\" \"${p}\" \"12\" { stop; }";
    let TestKind::CurrentDate { zone, part, .. } = first_test(source) else { panic!() };
    assert!(matches!(zone, Some(Keyword::Dynamic(_))) && matches!(part, Keyword::Dynamic(_)));
}

#[test]
fn tags_of_mailboxes_and_of_fcc_need_their_extensions() {
    let require = |names: &str, body: &str| codes(&format!("require [{names}]; {body}"));
    let fileinto = "fileinto :create :specialuse \"\\\\Junk\" \"y\";";
    assert_eq!(require("\"fileinto\"", fileinto), ["S0203", "S0203"]);
    let fileinto = "fileinto :mailboxid \"x\" \"y\";";
    assert_eq!(require("\"fileinto\"", fileinto), ["S0203"]);
    assert_eq!(require("\"vacation\"", "vacation :create \"x\";"), ["S0203", "S0309"]);
    // `options` do not offer `fcc`.
    assert_eq!(require("\"vacation\"", "vacation :fcc \"Sent\" \"x\";"), ["S0202"]);
}

#[test]
fn a_part_of_the_envelope_and_global_need_a_second_extension() {
    let part = "require \"envelope\"; if envelope \"envid\" \"x\" { stop; }";
    assert_eq!(codes(part), ["S0203"]);
    assert_eq!(codes("require \"include\"; global \"x\";"), ["S0203"]);
}

#[test]
fn duplicate_and_address_have_their_defaults() {
    let source = "require \"duplicate\"; if duplicate { stop; }";
    let TestKind::Duplicate(test) = first_test(source) else { panic!() };
    assert!(test.handle.is_none() && test.seconds.is_none() && !test.last);
    let TestKind::Address(test) = first_test("if address \"to\" [\"a\", \"b\"] { stop; }") else {
        panic!()
    };
    let Comparison { match_type, keys, .. } = test.comparison;
    assert_eq!((match_type, keys.len()), (MatchType::Is, 2));
}

#[test]
fn one_missing_require_is_reported_once() {
    // One for `fileinto` and one for `copy`.
    let source = "fileinto \"a\"; fileinto \"b\"; if true { fileinto :copy \"c\"; }";
    assert_eq!(codes(source), ["S0203", "S0203"]);
}

#[test]
fn an_action_excludes_later_ones_only_if_it_always_runs() {
    let of = |body: &str| codes(&format!("require [\"vacation\", \"reject\"]; {body}"));
    let either = "if true { vacation \"a\"; } else { vacation \"b\"; }";
    assert_eq!(of(&format!("{either} if true {{ reject \"c\"; }}")), ["S0506"]);
    assert_eq!(of(&format!("{either} vacation \"c\";")), ["S0506"]);
    assert_eq!(of("if true { vacation \"a\"; } reject \"c\";"), [""; 0]);
    assert_eq!(of("if true { vacation \"a\"; stop; } reject \"c\";"), [""; 0]);
    assert_eq!(of("discard; reject \"c\"; if true { vacation \"a\"; }"), ["S0506"]);
}

#[test]
fn one_mistake_is_one_error() {
    assert_eq!(codes("redirect \"a@example.org\0\";"), ["S0003"]);
    assert_eq!(codes("if exists \"a b { keep; }\n"), ["S0005"]);
    assert_eq!(codes("require \"fileintoo"), ["S0005"]);
    let encoded = "require \"encoded-character\"; redirect \"${unicode:D800}\";";
    assert_eq!(codes(encoded), ["S0422"]);
    assert_eq!(codes("2keep;"), ["S0010"]);
    assert_eq!(codes("if size 5 { keep; }"), ["S0317"]);
}

#[test]
fn the_number_of_regular_expressions_is_bounded() {
    // One more than the checker compiles.
    let keys = vec!["\"a\""; 501].join(",");
    let source = format!("require \"regex\"; if header :regex \"Subject\" [{keys}] {{ keep; }}");
    assert_eq!(codes(&source), ["S0426"]);
}

#[test]
fn the_redirects_of_every_run_are_bounded() {
    let redirects = |count| "redirect \"a@example.org\";".repeat(count);
    let limit = usize::from(restante_sieve::MAX_REDIRECTS);
    assert_eq!(codes(&redirects(limit)), [""; 0]);
    assert_eq!(codes(&redirects(limit + 1)), ["S0508"]);
    // In every run only one of the branches redirects.
    let either = format!("if true {{ {0} }} else {{ {0} }}", redirects(limit));
    assert_eq!(codes(&either), [""; 0]);
}

#[test]
fn a_block_after_a_test_belongs_to_its_command() {
    assert_eq!(codes("if anyof (true { keep; }, false) { stop; }"), ["S0105", "S0101"]);
    assert_eq!(codes("if not exists \"a\" { keep; }"), [""; 0]);
}
