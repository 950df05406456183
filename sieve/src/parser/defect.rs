//! Makes diagnostics of the defects of tokens.

use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::Token;
use crate::span::Span;

/// Describes what is wrong with a token. `code` is its defect.
pub(super) fn describe(source: &[u8], token: Token, code: Code) -> Diagnostic {
    let span = token.span;
    // The token up to the end of its first line.
    let first_line = {
        let length = memchr::memchr2(b'\r', b'\n', span.of(source)).unwrap_or(span.len() as usize);
        Span::new(span.start, span.start.saturating_add(u32::try_from(length).unwrap_or(u32::MAX)))
    };
    let text = String::from_utf8_lossy(span.of(source));
    let (span, message, help) = match code {
        Code::UnterminatedString => (
            first_line,
            "this string has no closing quotation mark".to_owned(),
            Some("a string on an earlier line may lack its closing quotation mark"),
        ),
        Code::UnterminatedText => (
            first_line,
            "this `text:` has no line with a single dot".to_owned(),
            Some("end the text with a line that contains only `.`"),
        ),
        Code::TextNotAtLineEnd => {
            (first_line, "the text must begin on the line after `text:`".to_owned(), None)
        }
        Code::UnterminatedComment => {
            (Span::new(span.start, span.start + 2), "this comment has no `*/`".to_owned(), None)
        }
        Code::NumberTooLarge => (span, "this number exceeds 64 bits".to_owned(), None),
        Code::BadNumber => (
            span,
            "only `K`, `M` or `G` may follow the digits of a number".to_owned(),
            Some("a text must stand in quotation marks"),
        ),
        Code::EmptyTag => (span, "a colon must be followed by a name".to_owned(), None),
        // Characters that begin no token.
        _ if span.start == 0 && text.starts_with('\u{feff}') => (
            span,
            "the script begins with a byte order mark".to_owned(),
            Some("save the script as UTF-8 without a byte order mark"),
        ),
        _ => {
            let is_quote = text.chars().any(|c| {
                matches!(c, '\u{201c}' | '\u{201d}' | '\u{201e}' | '\'' | '\u{ab}' | '\u{bb}')
            });
            let text: String = text.chars().take(20).collect();
            let help = is_quote.then_some("strings stand between two `\"`");
            (span, format!("`{text}` cannot stand here"), help)
        }
    };
    let diagnostic = Diagnostic::new(code, span, message);
    match help {
        Some(help) => diagnostic.with_help(help),
        None => diagnostic,
    }
}
