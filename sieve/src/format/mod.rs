//! Formats scripts.
//!
//! - Tokens stay in their order; only a comment may move behind a comma. Strings, numbers and
//!   comments stay as written, but for blanks at the end of a comment. Tags, and names of known
//!   commands and tests, become lower case.
//! - Each command begins a line, indented by its block; but `elsif` and `else` follow a closing
//!   brace on its line. A command that is longer than a line is broken at its lists, or, without a
//!   block, before its tags.
//! - Of several empty lines between commands one stays.
//! - Formatting a script again changes nothing.

mod statement;
#[cfg(test)]
mod tests;

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::options::CompileLimits;
use crate::parser;
use crate::span::Span;
use statement::{Element, Writer};

/// Formats a script. All line ends outside of strings and comments become like the first of them:
/// CR LF, or LF if there is none.
///
/// ```
/// use restante_sieve::format;
///
/// let source = b"IF header :Is \"Subject\" \"x\"{keep;# why\n}else{stop;}";
/// assert_eq!(
///     format(source).unwrap_or_default(),
///     "if header :is \"Subject\" \"x\" {\n    keep; # why\n} else {\n    stop;\n}\n"
/// );
/// ```
///
/// # Errors
/// Returns the errors of the script's bytes, tokens and grammar. A script that has some is not
/// formatted. Names without a meaning are no errors here. The limits of nesting and of commands are
/// the defaults of [`CompileLimits`]; there is no limit of bytes.
pub fn format(source: &[u8]) -> Result<String, Vec<Diagnostic>> {
    let limits = CompileLimits { script: u32::MAX, ..CompileLimits::default() };
    let mut diagnostics = Diagnostics::new(limits.diagnostics);
    crate::check::check_bytes(source, &limits, &mut diagnostics);
    if !diagnostics.has_errors() {
        parser::parse(source, &limits, &mut diagnostics);
    }
    if diagnostics.has_errors() {
        return Err(diagnostics.into_sorted(Span::of_range(source.len()..source.len())));
    }
    let tokens: Vec<_> = Lexer::new(source).collect();
    let mut formatter = Formatter {
        source,
        writer: Writer::new(line_end(source, &tokens)),
        tokens: tokens.into_iter().peekable(),
        lines: 0,
    };
    formatter.commands();
    Ok(formatter.writer.finish())
}

/// Returns the first line end between tokens, LF if there is none. Line ends in strings and
/// comments stay as they are, and do not count.
fn line_end(source: &[u8], tokens: &[Token]) -> &'static str {
    let mut blanks = tokens.iter().filter(|token| token.kind == TokenKind::Blank);
    let end = blanks.find_map(|token| {
        let found = memchr::memchr(b'\n', token.span.of(source))?;
        Some(token.span.start as usize + found)
    });
    match end.and_then(|end| source.get(end.checked_sub(1)?)) {
        Some(b'\r') => "\r\n",
        _ => "\n",
    }
}

struct Formatter<'a> {
    source: &'a [u8],
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    writer: Writer,
    /// How many line ends of the source stand right before the token that was read last.
    lines: usize,
}

impl Formatter<'_> {
    fn text(&self, token: Token) -> String {
        String::from_utf8_lossy(token.span.of(self.source)).into_owned()
    }

    /// Returns the next token that is not blank, and counts the line ends before it.
    fn next(&mut self) -> Option<Token> {
        self.lines = 0;
        loop {
            let token = self.tokens.next()?;
            if token.kind != TokenKind::Blank {
                return Some(token);
            }
            let bytes = token.span.of(self.source);
            self.lines += memchr::memchr_iter(b'\n', bytes).count();
        }
    }

    /// Formats all commands.
    fn commands(&mut self) {
        let mut level = 0_usize;
        // Whether the last thing written was the end of a block, which `else` may follow on its
        // line.
        let mut is_after_block = false;
        let mut is_at_start = true;
        while let Some(token) = self.next() {
            let lines = self.lines;
            match token.kind {
                TokenKind::LineComment | TokenKind::BlockComment => {
                    let text = self.text(token);
                    match lines == 0 && !is_at_start {
                        true => self.writer.push_word(text.trim_end()),
                        false => {
                            self.writer.start_line(level, lines > 1);
                            self.writer.push(text.trim_end());
                        }
                    }
                    self.writer.must_break(token.kind == TokenKind::LineComment);
                    is_after_block = false;
                }
                TokenKind::RightBrace => {
                    level = level.saturating_sub(1);
                    self.writer.start_line(level, false);
                    self.writer.push("}");
                    is_after_block = true;
                }
                _ => {
                    let name = self.text(token).to_ascii_lowercase();
                    let is_continued = is_after_block && (name == "else" || name == "elsif");
                    match is_continued {
                        true => self.writer.push(" "),
                        false => self.writer.start_line(level, lines > 1),
                    }
                    let (elements, opens_block) = self.statement(token);
                    self.writer.statement(&elements, level, opens_block);
                    level += usize::from(opens_block);
                    is_after_block = false;
                    if opens_block {
                        self.writer.forbid_empty_line();
                    }
                }
            }
            is_at_start = false;
        }
    }

    /// Reads a command up to its `;` or the start of its block. Returns its elements, and whether a
    /// block begins.
    fn statement(&mut self, first: Token) -> (Vec<Element>, bool) {
        let mut elements = vec![self.element(first)];
        while let Some(token) = self.next() {
            match token.kind {
                TokenKind::Semicolon => return (elements, false),
                TokenKind::LeftBrace => return (elements, true),
                _ => elements.push(self.element(token)),
            }
        }
        (elements, false)
    }

    /// Makes an element of a token. For an opening bracket or parenthesis it reads the whole list.
    fn element(&mut self, token: Token) -> Element {
        let text = self.text(token);
        match token.kind {
            TokenKind::LeftParen | TokenKind::LeftBracket => self.list(token.kind),
            TokenKind::LineComment | TokenKind::BlockComment => {
                Element::comment(text.trim_end(), token.kind == TokenKind::LineComment)
            }
            TokenKind::Tag => Element::tag(text.to_ascii_lowercase()),
            TokenKind::Identifier => {
                let is_known = crate::vocabulary::lookup(&text).is_known();
                Element::word(if is_known { text.to_ascii_lowercase() } else { text })
            }
            TokenKind::MultiLine => Element::multi_line(text),
            _ => Element::word(text),
        }
    }

    /// Reads a list after its opening bracket or parenthesis. The recursion is bounded, because the
    /// parser has refused tests that are nested too deeply.
    fn list(&mut self, open: TokenKind) -> Element {
        let mut items: Vec<Vec<Element>> = vec![Vec::new()];
        let mut is_after_comma = false;
        while let Some(token) = self.next() {
            match token.kind {
                TokenKind::RightParen | TokenKind::RightBracket => break,
                TokenKind::Comma => {
                    items.push(Vec::new());
                    is_after_comma = true;
                    continue;
                }
                TokenKind::LineComment if is_after_comma && self.lines == 0 => {
                    // The comment is about the item before the comma.
                    let comment = self.element(token);
                    let before = items.len().saturating_sub(2);
                    if let Some(item) = items.get_mut(before) {
                        item.push(comment);
                    }
                }
                _ => {
                    let element = self.element(token);
                    if let Some(item) = items.last_mut() {
                        item.push(element);
                    }
                }
            }
            is_after_comma = false;
        }
        Element::list(open == TokenKind::LeftParen, items)
    }
}
