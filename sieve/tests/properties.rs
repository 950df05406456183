//! Laws of the checker, over generated scripts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

use proptest::prelude::*;
use restante_sieve::{
    CompileLimits, CompileOptions, Diagnostic, Extension, LineIndex, Script, check,
};

/// Words of which [`soup`] makes scripts. Braces and `;` stand here twice, so that they occur more
/// often.
const WORDS: &[&str] = &[
    "require",
    "if",
    "elsif",
    "else",
    "stop",
    "keep",
    "discard",
    "redirect",
    "fileinto",
    "reject",
    "ereject",
    "vacation",
    "set",
    "setflag",
    "addflag",
    "notify",
    "addheader",
    "deleteheader",
    "include",
    "return",
    "global",
    "foreverypart",
    "break",
    "extracttext",
    "replace",
    "enclose",
    "error",
    "true",
    "not",
    "allof",
    "anyof",
    "address",
    "header",
    "exists",
    "envelope",
    "size",
    "string",
    "hasflag",
    "body",
    "date",
    "currentdate",
    "duplicate",
    "spamtest",
    "ihave",
    "specialuse_exists",
    ":is",
    ":matches",
    ":regex",
    ":count",
    ":list",
    ":comparator",
    ":over",
    ":copy",
    ":flags",
    ":index",
    ":last",
    ":mime",
    ":fcc",
    ":handle",
    ":name",
    ":zone",
    "{",
    "{",
    "}",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ";",
    "7",
    "\"ge\"",
    "\"Subject\"",
    "\"${a}${1}\"",
    "\"me@example.org\"",
    "text:\nA: b\n\nc\n.\n",
];

/// Words in any order, separated by blanks.
fn soup() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..60)
        .prop_map(|words| words.join(" "))
}

/// Commands that are valid wherever they stand, if everything is required.
fn command() -> impl Strategy<Value = String> {
    let simple = prop_oneof![
        Just("keep :flags [\"\\\\Seen\", \"$x\"];".to_owned()),
        Just("set :lower :length \"a\" \"${b} ${1}\";".to_owned()),
        Just("fileinto :copy :create :specialuse \"\\\\Junk\" \"Lists/${a}\";".to_owned()),
        Just("addflag \"a\" \"\\\\Flagged\";".to_owned()),
        Just("notify :importance \"1\" :message \"${a}\" \"mailto:a@example.org\";".to_owned()),
        Just("addheader :last \"X-A\" \"b\";".to_owned()),
        Just("deleteheader :index 2 :last :contains \"X-A\" \"b\";".to_owned()),
        Just("include :global :once \"x\";".to_owned()),
        Just("replace :subject \"s\" :from \"a@example.org\" text:\nNew\n.\n;".to_owned()),
        Just("enclose :subject \"s\" :headers [\"From\"] \"text\";".to_owned()),
        Just("foreverypart :name \"l\" { extracttext :first 5 \"a\"; break :name \"l\"; }".into()),
    ];
    let test = prop_oneof![
        Just("header :index 1 :mime :anychild :param \"name\" \"Content-Type\" [\"a\", \"b\"]"),
        Just("address :detail :comparator \"i;unicode-casemap\" [\"To\", \"Cc\"] \"x\""),
        Just("not envelope :regex \"from\" \"^a.*b$\""),
        Just("anyof (true, size :under 5K, ihave \"body\", body :raw :contains \"x\")"),
        Just("date :zone \"+0200\" :value \"ge\" \"Date\" \"hour\" \"${a}\""),
        Just("allof (currentdate \"${part}\" \"1\", duplicate :seconds 60 :handle \"h\")"),
        Just("hasflag :count \"ge\" :comparator \"i;ascii-numeric\" \"a\" \"1\""),
        Just("string :list \"${a}\" \"tag:example.org,2026:x\""),
    ];
    simple.prop_recursive(4, 24, 4, move |inner| {
        let block = proptest::collection::vec(inner, 0..4).prop_map(|all| all.join("\n"));
        (test.clone(), block.clone(), block)
            .prop_map(|(test, one, other)| format!("if {test} {{ {one} }} else {{ {other} }}"))
    })
}

/// A script without errors, which requires every extension.
fn script() -> impl Strategy<Value = String> {
    let names = Extension::ALL.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>();
    let require = format!("require [{}];\n", names.join(", "));
    proptest::collection::vec(command(), 0..8)
        .prop_map(move |commands| format!("{require}{}", commands.join("\n")))
}

proptest! {
    #[test]
    fn check_takes_any_bytes(source in proptest::collection::vec(any::<u8>(), 0..200)) {
        let checked = check(&source, &CompileOptions::default());
        let index = LineIndex::new(&source);
        let texts = checked.diagnostics.iter().map(|one| one.text(&index, "x"));
        texts.for_each(|text| assert!(text.ends_with('\n')));
    }

    #[test]
    fn check_takes_any_tokens(source in soup()) {
        // Some of the scripts exceed these limits.
        let limits =
            CompileLimits { variables: 1, nesting: 5, diagnostics: 5, ..CompileLimits::default() };
        let options = CompileOptions { limits, ..CompileOptions::default() };
        let checked = check(source.as_bytes(), &options);
        let has_errors = checked.diagnostics.iter().any(Diagnostic::is_error);
        prop_assert_eq!(checked.script.is_none(), has_errors);
        // Five, and one that says that there are more.
        prop_assert!(checked.diagnostics.len() <= 6);
    }

    #[test]
    fn a_checked_script_survives_serialisation(source in script()) {
        let checked = check(source.as_bytes(), &CompileOptions::default());
        let Some(script) = checked.script else {
            panic!("{source}\n{:?}", checked.diagnostics);
        };
        let json = serde_json::to_string(&script).unwrap();
        prop_assert_eq!(serde_json::from_str::<Script>(&json).unwrap(), script);
    }
}
