use proptest::prelude::*;

use super::*;
use crate::span::LineIndex;

/// Returns the tree of a script, and its errors as `LINE:COLUMN CODE`.
fn parsed(source: &str) -> (Vec<Node>, Vec<String>) {
    let mut diagnostics = Diagnostics::new(100);
    let nodes = parse(source.as_bytes(), &CompileLimits::default(), &mut diagnostics);
    let index = LineIndex::new(source.as_bytes());
    let lines = diagnostics.into_sorted(Span::at(0)).into_iter().map(|one| {
        let position = one.position(&index);
        format!("{}:{} {}", position.line, position.column, one.code)
    });
    (nodes, lines.collect())
}

fn errors(source: &str) -> Vec<String> {
    parsed(source).1
}

/// Renders the shape of a tree: the name of each command and test, a star for each argument, tests
/// in parentheses, blocks in braces, and `;` at the end of each.
fn shape(source: &str) -> String {
    fn push(out: &mut String, source: &str, node: &Node) {
        out.push_str(&String::from_utf8_lossy(node.name.of(source.as_bytes())));
        out.push_str(&"*".repeat(node.arguments.len()));
        if !node.tests.is_empty() {
            out.push('(');
            node.tests.iter().for_each(|test| push(out, source, test));
            out.push(')');
        }
        if let Some(block) = &node.block {
            out.push('{');
            block.commands.iter().for_each(|node| push(out, source, node));
            out.push('}');
        }
        out.push(';');
    }
    let mut out = String::new();
    parsed(source).0.iter().for_each(|node| push(&mut out, source, node));
    out
}

#[test]
fn commands_tests_and_blocks_make_a_tree() {
    let source = r#"
        require ["a", "b"];
        if allof (not header :is ["x"] "y", true) { keep; } elsif size :over 1K { } else { stop; }
    "#;
    assert_eq!(errors(source), [""; 0]);
    assert_eq!(
        shape(source),
        "require*;if(allof(not(header***;);true;);){keep;};elsif(size**;){};else{stop;};"
    );
}

#[test]
fn every_error_is_reported_at_its_place() {
    let cases: &[(&str, &[&str])] = &[
        ("keep\nstop;", &["1:5 S0102"]),
        ("keep", &["1:5 S0102"]),
        ("if true keep;", &["1:8 S0102"]),
        ("if true { keep;", &["1:9 S0103"]),
        ("keep; }\nstop", &["1:7 S0104", "2:5 S0102"]),
        ("if anyof (true, false { keep; }", &["1:10 S0105"]),
        ("if anyof (true false) {}", &["1:15 S0109"]),
        ("if anyof () {}", &["1:11 S0108"]),
        ("if anyof (true,) {}", &["1:16 S0108"]),
        ("if anyof (,true) {}", &["1:11 S0108"]),
        ("if anyof (true, \"x\", 5) {}", &["1:17 S0108", "1:22 S0108"]),
        ("redirect [\"a\", \"b\";\nkep;", &["1:10 S0106"]),
        ("redirect [\"a\" \"b\"];", &["1:14 S0109"]),
        ("redirect [\"a\",];", &["1:15 S0107"]),
        ("redirect [,\"a\"];", &["1:11 S0107"]),
        ("redirect [\"a\", 5, b];", &["1:16 S0107", "1:19 S0107"]),
        ("redirect [];", &["1:10 S0110"]),
        ("redirect \"a\", \"b\";", &["1:13 S0113"]),
        ("redirect \"a\"];", &["1:13 S0113"]),
        ("if true :is \"a\" { keep; }", &[]),
        ("if not true, :is \"a\" {}", &["1:12 S0113"]),
        ("if anyof (true) \"x\" {}", &["1:17 S0114"]),
        ("; keep;;", &["1:1 S0101", "1:8 S0101"]),
        ("\"a\" keep; { stop; } 5;", &["1:1 S0101", "1:11 S0101", "1:21 S0101"]),
        ("\"a\" { stop; } keep", &["1:1 S0101", "1:19 S0102"]),
        ("redirect \"a;\nkeep", &["1:10 S0005", "2:5 S0102"]),
        ("keep \u{201c}x\u{201d};", &["1:6 S0004", "1:8 S0004"]),
        ("keep 5X /* ;", &["1:6 S0010", "1:9 S0008"]),
    ];
    for (source, expected) in cases {
        assert_eq!(errors(source), *expected, "{source}");
    }
}

#[test]
fn nesting_and_commands_are_limited() {
    let deep = |levels: usize| format!("{}{}", "if true {".repeat(levels), "}".repeat(levels));
    assert_eq!(errors(&deep(32)), [""; 0]);
    // Two errors: the depth, and `keep` without `;`. So the rest is still read.
    assert_eq!(errors(&format!("{}keep", deep(33))).len(), 2);
    assert_eq!(errors(&format!("if {}true {{}} keep", "not ".repeat(40))).len(), 2);
    assert_eq!(errors(&format!("if {}true", "anyof (".repeat(100_000))).len(), 1);
    assert_eq!(errors(&deep(200_000)).len(), 1);
    assert_eq!(errors(&"keep;".repeat(10_000)), [""; 0]);
    // The command after the first 10,000, which have five characters each.
    assert_eq!(errors(&"keep;".repeat(20_000)), ["1:50001 S0112"]);
}

proptest! {
    #[test]
    fn any_tokens_are_each_read_once(source in soup()) {
        let limits = CompileLimits { nesting: 4, commands: 20, ..CompileLimits::default() };
        let mut diagnostics = Diagnostics::new(100);
        let mut parser = Parser::new(source.as_bytes(), &limits, &mut diagnostics);
        parser.commands(None);
        let tokens = Lexer::new(source.as_bytes()).filter(|token| !token.is_trivia()).count();
        // The first two moves fill `current` and `next`.
        prop_assert!(parser.advances <= tokens + 2, "{} of {tokens}", parser.advances);
        let end = parser.current.kind;
        prop_assert_eq!(end, TokenKind::End);
    }
}

/// Words of scripts in any order, separated by blanks.
fn soup() -> impl Strategy<Value = String> {
    let words = [
        "if",
        "not",
        "anyof",
        "allof",
        "keep",
        "header",
        "true",
        "x",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        ";",
        ":is",
        ":",
        "5",
        "9K",
        "\"a\"",
        "\"",
        "text:\na\n.\n",
        "#c\n",
        "/*c*/",
        "%",
    ];
    proptest::collection::vec(proptest::sample::select(words.to_vec()), 1..40)
        .prop_map(|words| words.join(" "))
}
