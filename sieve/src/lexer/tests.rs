use proptest::prelude::*;

use super::*;

/// Returns the tokens other than blanks.
fn tokens(source: &[u8]) -> Vec<Token> {
    Lexer::new(source).filter(|token| token.kind != TokenKind::Blank).collect()
}

fn kinds(source: &str) -> Vec<TokenKind> {
    tokens(source.as_bytes()).iter().map(|token| token.kind).collect()
}

/// Returns the only token of a source.
fn only(source: &str) -> Token {
    let all = tokens(source.as_bytes());
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

fn value(source: &str) -> String {
    string_value(source.as_bytes(), only(source))
}

#[test]
fn numbers_have_a_unit_and_a_limit() {
    let number = |text| (only(text).kind, only(text).defect);
    assert_eq!(number("0"), (TokenKind::Number(0), None));
    assert_eq!(number("100k"), (TokenKind::Number(102_400), None));
    assert_eq!(number("3M"), (TokenKind::Number(3 << 20), None));
    assert_eq!(number("2G"), (TokenKind::Number(2 << 30), None));
    assert_eq!(number("18446744073709551615"), (TokenKind::Number(u64::MAX), None));
    for text in ["18446744073709551616", "18014398509481984K", "99999999999G"] {
        assert_eq!(number(text), (TokenKind::Number(0), Some(Code::NumberTooLarge)), "{text}");
    }
    for text in ["1KB", "1T", "1_0", "12abc"] {
        assert_eq!(number(text), (TokenKind::Number(0), Some(Code::BadNumber)), "{text}");
    }
}

#[test]
fn escapes_of_quoted_strings_lose_their_backslash() {
    assert_eq!(value(r#""a\"b\\c\d""#), r#"a"b\cd"#);
    assert_eq!(value(r#""""#), "");
    assert_eq!(value("\"a\nb\r\nc\""), "a\r\nb\r\nc");
    assert_eq!(value("\"\u{e4}\\\u{e4}\""), "\u{e4}\u{e4}");
}

#[test]
fn multi_line_strings_are_unstuffed() {
    assert_eq!(value("text:\nHi\n.\n"), "Hi\r\n");
    assert_eq!(value("TEXT: \t# why\r\n..a\r\n.b\r\n...\r\n\r\n.\r\n"), ".a\r\n.b\r\n..\r\n\r\n");
    assert_eq!(value("text:\n."), "");
    assert_eq!(only("text: x\na\n.\n").defect, Some(Code::TextNotAtLineEnd));
    assert_eq!(value("text: x\na\n.\n"), "a\r\n");
    for text in ["text:", "text:\nabc\n", "text:\n..\n", "text:\n. \n"] {
        assert_eq!(only(text).defect, Some(Code::UnterminatedText), "{text}");
    }
}

#[test]
fn a_string_without_an_end_ends_with_its_line() {
    assert_eq!(string_value(b"\"b\\c", tokens(b"\"b\\c")[0]), "bc");
    let all = tokens(b"\"a\\\"\n\"b\\\"\n;");
    assert_eq!(all.last().map(|token| token.kind), Some(TokenKind::Semicolon));
}

#[test]
fn comments_and_tags_are_tokens() {
    use TokenKind::*;
    assert_eq!(kinds("# a\n/* ; \n */:is"), [LineComment, BlockComment, Tag]);
    assert_eq!(only("/* x").defect, Some(Code::UnterminatedComment));
    assert_eq!(only("/*/").defect, Some(Code::UnterminatedComment));
    assert_eq!(only(": ").defect, Some(Code::EmptyTag));
    assert_eq!(kinds(":1"), [Tag, Number(1)]);
    assert_eq!(
        kinds("{}()[],;"),
        [LeftBrace, RightBrace, LeftParen, RightParen, LeftBracket, RightBracket, Comma, Semicolon]
    );
    assert_eq!(kinds("a/-b"), [Identifier, Unknown, Unknown, Identifier]);
    assert_eq!(only("\u{201c}\u{201d}").defect, Some(Code::UnexpectedCharacter));
}

#[test]
fn an_offset_in_a_value_is_found_in_the_source() {
    let source = b"  \"a\\\"b\nc\"";
    let token = tokens(source)[0];
    assert_eq!(string_value(source, token), "a\"b\r\nc");
    let map = StringMap::new(source, token);
    for (offset, expected) in [(0, 3), (1, 5), (2, 6), (3, 7), (5, 8)] {
        assert_eq!(map.span(offset..offset + 1).start, expected, "{offset}");
    }
    assert_eq!(map.span(0..2), Span::new(3, 6));
    let source = b"text:\n..x\n.\n";
    assert_eq!(StringMap::new(source, tokens(source)[0]).span(1..2), Span::new(8, 9));
}

proptest! {
    #[test]
    fn tokens_cover_the_source(source in proptest::collection::vec(
        prop_oneof![
            any::<u8>().prop_map(|byte| vec![byte]),
            "[a-z:;{}()\\[\\]\",#/*\\\\. \n\r0-9KMG]".prop_map(String::into_bytes),
            Just(b"text:\n".to_vec()),
            Just(b"\n.\n".to_vec()),
        ],
        0..60,
    )) {
        let source = source.concat();
        let mut end = 0;
        for token in Lexer::new(&source) {
            prop_assert_eq!(token.span.start, end);
            prop_assert!(token.span.end > end);
            end = token.span.end;
            if matches!(token.kind, TokenKind::Quoted | TokenKind::MultiLine) {
                let value = string_value(&source, token);
                let map = StringMap::new(&source, token);
                for offset in 0..=value.len() {
                    let found = map.span(offset..offset);
                    prop_assert!(token.span.start <= found.start && found.end <= token.span.end);
                }
            }
        }
        prop_assert_eq!(end as usize, source.len());
    }
}
