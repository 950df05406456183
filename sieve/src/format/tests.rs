use proptest::prelude::*;

use super::*;

/// Formats a script. Panics if that changes the tokens, or if formatting once more changes
/// anything.
fn formatted(source: &str) -> String {
    let text = format(source.as_bytes()).unwrap_or_else(|errors| panic!("{source}\n{errors:?}"));
    assert_eq!(format(text.as_bytes()).as_ref(), Ok(&text), "{source}");
    assert_eq!(tokens(&text), tokens(source), "{text}");
    text
}

/// Returns the tokens other than blanks and comments, and the comments apart, since a comment may
/// move behind a comma.
fn tokens(source: &str) -> (Vec<String>, Vec<String>) {
    let all = Lexer::new(source.as_bytes()).filter(|token| token.kind != TokenKind::Blank);
    let (comments, others): (Vec<_>, Vec<_>) = all.partition(|token| token.is_trivia());
    let text = |token: &Token| {
        let text = String::from_utf8_lossy(token.span.of(source.as_bytes())).into_owned();
        match token.kind {
            TokenKind::Identifier | TokenKind::Tag => text.to_ascii_lowercase(),
            _ => text.trim_end().to_owned(),
        }
    };
    (others.iter().map(text).collect(), comments.iter().map(text).collect())
}

#[test]
fn a_script_is_laid_out() {
    let source = r#"
require ["fileinto","copy"];# extensions


# rule:[one]
IF ANYOF(header :Contains "Subject" ["a","b"],size :over 5M){fileinto:copy "A";stop ;}

elsif true{}else{keep;

}
/* two
   lines */ discard;
"#;
    insta::assert_snapshot!(formatted(source), @r#"
    require ["fileinto", "copy"]; # extensions

    # rule:[one]
    if anyof (header :contains "Subject" ["a", "b"], size :over 5M) {
        fileinto :copy "A";
        stop;
    } elsif true {
    } else {
        keep;
    }
    /* two
       lines */
    discard;
    "#);
}

#[test]
fn long_commands_break_at_lists_or_tags() {
    let words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"];
    let list = words.map(|word| format!("\"{word}@example.org\"")).join(",");
    let source = format!(
        "require [{list}];\nif allof (header \"From\" [{list}] \"x\",not anyof (true,false)) {{\n\
         vacation :days 7 :addresses [{list}] :subject \"Away\" \"I am away.\";}}"
    );
    insta::assert_snapshot!(formatted(&source));
}

#[test]
fn comments_and_texts_stay() {
    let source = "if false # anyof (true)\n{\nvacation :days 1 # a day\ntext:\nAway.\n..\n.\n; }\n\
        require [\"a\", # one\n\"b\" # two\n, # three\n# four\n\"c\"];\n\
        redirect /* who */ \"a@b\"; # end\n# last";
    insta::assert_snapshot!(formatted(source));
}

#[test]
fn line_ends_stay_and_errors_are_returned() {
    assert_eq!(formatted("keep;stop;\r\n"), "keep;\r\nstop;\r\n");
    assert_eq!(formatted("\r\nvacation text:\nA\n.\n;"), "vacation text:\nA\n.\r\n;\r\n");
    assert_eq!(formatted("# a\r\nkeep;"), "# a\r\nkeep;\r\n");
    assert_eq!(formatted(""), "");
    let errors = format(b"keep stop;").unwrap_err();
    assert_eq!(errors[0].code.as_str(), "S0102");
    assert_eq!(format(b"# \xff").unwrap_err().len(), 1);
}

proptest! {
    #[test]
    fn formatting_keeps_tokens_and_is_stable(words in proptest::collection::vec(
        proptest::sample::select(vec![
            "keep;", "if true {", "if anyof (true, not false) {", "}", "else {", "# c\n", "/* d */",
            "vacation :days 1 :subject \"x\" text:\nA\n.\n;", "\n\n", "redirect \"a\";", "\r\n",
            "if header [\"a\", # x\n \"b\"] \"c\" {", "x :y [\"a\n\", text:\n.\n] 5 /* e\n */;",
            "vacation :subject \"a long subject that fills the line\" :from \"me@example.org\" \
             :addresses [\"one@example.org\"] \"A long reason that fills the line\";",
        ]),
        0..12,
    )) {
        let source = words.concat();
        if format(source.as_bytes()).is_ok() {
            formatted(&source);
        }
    }
}
