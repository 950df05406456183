//! Makes a generic tree of the tokens of a script (RFC 5228 §8.2): commands, tests, arguments and
//! blocks, without what their names mean.
//!
//! - Every error is reported, and reading goes on at the next `;`, `{`, `}`, `,`, `)`, `]` or
//!   command. Only too many commands end the reading.
//! - Each token is read once; errors do not make the parser go back.
//! - Its recursion is bounded by the nesting limit: what is deeper is skipped without recursion.
//! - It asks the vocabulary only whether a name is known, whether tests may follow it and whether
//!   it is a command, to find a missing `;`; and for a message, whether a command has a block.

mod arguments;
mod defect;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use tree::{Argument, ArgumentKind, Block, Node};

use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostics::Diagnostics;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::options::CompileLimits;
use crate::span::Span;
use crate::vocabulary::{self, Vocable};

/// Parses a script, and reports its errors to `diagnostics`. The source must have at most
/// `u32::MAX` bytes.
pub(crate) fn parse(
    source: &[u8],
    limits: &CompileLimits,
    diagnostics: &mut Diagnostics,
) -> Vec<Node> {
    let mut parser = Parser::new(source, limits, diagnostics);
    parser.commands(None)
}

struct Parser<'a> {
    source: &'a [u8],
    limits: &'a CompileLimits,
    diagnostics: &'a mut Diagnostics,
    tokens: Lexer<'a>,
    /// The token that is looked at. Blanks and comments are passed over.
    current: Token,
    /// The token after `current`.
    next: Token,
    /// The token before `current`. A blank before the first token.
    last: Token,
    /// How many blocks and tests are around the current token.
    depth: u8,
    /// How many lists of tests are around the current token.
    lists: u16,
    /// How many commands and tests were found so far.
    commands: u32,
    /// Whether the nesting was reported as too deep.
    is_too_deep: bool,
    /// Whether reading has ended early: nothing more is read or reported.
    is_aborted: bool,
    /// How often the parser moved to the next token.
    #[cfg(test)]
    advances: usize,
}

impl<'a> Parser<'a> {
    fn new(source: &'a [u8], limits: &'a CompileLimits, diagnostics: &'a mut Diagnostics) -> Self {
        let start = Token { kind: TokenKind::Blank, span: Span::at(0), defect: None };
        let mut parser = Self {
            source,
            limits,
            diagnostics,
            tokens: Lexer::new(source),
            current: start,
            next: start,
            last: start,
            depth: 0,
            lists: 0,
            commands: 0,
            is_too_deep: false,
            is_aborted: false,
            #[cfg(test)]
            advances: 0,
        };
        parser.advance();
        parser.advance();
        parser.last = start;
        parser
    }

    /// Passes over the current token, and returns it.
    fn advance(&mut self) -> Token {
        #[cfg(test)]
        {
            self.advances += 1;
        }
        let passed = self.current;
        self.last = passed;
        self.current = self.next;
        self.next = self.read();
        passed
    }

    /// Reads the next token that is no blank or comment, and reports the defects of tokens. At the
    /// end of the source, or after an abort, it returns the end again and again.
    fn read(&mut self) -> Token {
        if !self.is_aborted {
            for token in self.tokens.by_ref() {
                if let Some(code) = token.defect {
                    let diagnostic = defect::describe(self.source, token, code);
                    self.diagnostics.push(diagnostic);
                }
                if !token.is_trivia() {
                    return token;
                }
            }
        }
        let end = Span::of_range(self.source.len()..self.source.len());
        Token { kind: TokenKind::End, span: end, defect: None }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if !self.is_aborted {
            self.diagnostics.push(diagnostic);
        }
    }

    fn error(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::new(code, span, message));
    }

    /// Ends the reading of the script: the current token is now the end.
    fn abort(&mut self) {
        self.is_aborted = true;
        self.next = self.read();
        self.current = self.next;
    }

    /// Returns the text of a span for a message, cut after 40 characters.
    fn text(&self, span: Span) -> String {
        let text = String::from_utf8_lossy(span.of(self.source));
        match text.char_indices().nth(40) {
            Some((end, _)) => format!("{}\u{2026}", text.get(..end).unwrap_or_default()),
            None => text.into_owned(),
        }
    }

    fn vocable(&self, name: Span) -> Vocable {
        vocabulary::lookup(&String::from_utf8_lossy(name.of(self.source)))
    }

    /// Returns whether the current token is the name of a command. No test has such a name.
    fn is_at_command(&self) -> bool {
        self.current.kind == TokenKind::Identifier
            && self.vocable(self.current.span).command.is_some()
    }

    /// Reads commands up to the end of the source, or of the block that `open` began.
    fn commands(&mut self, open: Option<Span>) -> Vec<Node> {
        let mut nodes = Vec::new();
        loop {
            match self.current.kind {
                TokenKind::End => {
                    if let Some(open) = open {
                        let message = "this block has no closing brace";
                        self.error(Code::UnclosedBlock, open, message);
                    }
                    return nodes;
                }
                TokenKind::RightBrace if open.is_some() => {
                    self.advance();
                    return nodes;
                }
                TokenKind::RightBrace => {
                    let brace = self.advance();
                    let message = "this closing brace ends no block";
                    self.error(Code::UnexpectedClosingBrace, brace.span, message);
                }
                TokenKind::Identifier => {
                    if let Some(node) = self.command() {
                        nodes.push(node);
                    }
                }
                TokenKind::Unknown => {
                    self.advance();
                    self.skip_to_command();
                }
                TokenKind::Semicolon => {
                    let semicolon = self.advance();
                    let message = "there is no command before this `;`";
                    self.report(
                        Diagnostic::new(Code::ExpectedCommand, semicolon.span, message)
                            .with_help("remove it"),
                    );
                }
                TokenKind::LeftBrace => {
                    let span = self.current.span;
                    self.error(Code::ExpectedCommand, span, "this block belongs to no command");
                    self.block();
                }
                _ => {
                    let Token { span, defect, .. } = self.current;
                    if defect.is_none() {
                        let message =
                            format!("a command must begin here, not `{}`", self.text(span));
                        self.error(Code::ExpectedCommand, span, message);
                    }
                    self.skip_to_command();
                    if self.current.kind == TokenKind::LeftBrace {
                        self.block();
                    }
                }
            }
        }
    }

    /// Reads a command with its `;` or its block. `None` if there are too many commands.
    fn command(&mut self) -> Option<Node> {
        if !self.count() {
            return None;
        }
        let mut node = self.node();
        if self.current.kind == TokenKind::LeftBrace {
            node.block = Some(self.block());
            return Some(node);
        }
        if self.current.kind == TokenKind::Semicolon {
            self.advance();
            return Some(node);
        }
        // The end of the command is missing. That is not reported after a token with a defect, nor
        // after another error unless the next command follows.
        let was_damaged = node.is_damaged;
        node.is_damaged = true;
        if self.last.defect.is_none() && !self.is_aborted {
            let end = Span::at(self.last.span.end);
            let needs_block = self.vocable(node.name).command.is_some_and(|word| word.has_block);
            let wanted = if needs_block { "a block in braces" } else { "`;`" };
            let message = format!("`{}` must end with {wanted}", self.text(node.name));
            if !was_damaged || self.is_at_command() {
                self.error(Code::ExpectedSemicolon, end, message);
            }
        }
        self.skip_to_command();
        if self.current.kind == TokenKind::LeftBrace {
            node.block = Some(self.block());
        }
        Some(node)
    }

    /// Counts a command or test. Returns false if there are too many.
    fn count(&mut self) -> bool {
        self.commands = self.commands.saturating_add(1);
        if self.commands <= self.limits.commands {
            return true;
        }
        let limit = self.limits.commands;
        let message = format!("the script has more than {limit} commands and tests");
        self.error(Code::TooManyCommands, self.current.span, message);
        self.abort();
        false
    }

    /// Reads a name, arguments and tests, up to a token that can be neither.
    fn node(&mut self) -> Node {
        let name = self.advance().span;
        let mut node = Node {
            name,
            span: name,
            arguments: Vec::new(),
            tests: Vec::new(),
            is_test_list: false,
            block: None,
            is_damaged: false,
        };
        self.arguments(&mut node);
        self.tests(&mut node);
        if !node.tests.is_empty() {
            let before = node.arguments.len();
            self.arguments(&mut node);
            if let Some(argument) = node.arguments.get(before) {
                let message = "arguments must stand before the tests";
                self.error(Code::ArgumentAfterTest, argument.span, message);
                node.is_damaged = true;
                node.arguments.truncate(before);
            }
        }
        node.span = Span::new(name.start, self.last.span.end.max(name.end));
        node
    }

    /// Reads the tests of a command or test: none, one, or a list in parentheses.
    fn tests(&mut self, node: &mut Node) {
        match self.current.kind {
            TokenKind::LeftParen => {
                node.is_test_list = true;
                self.lists += 1;
                self.test_list(node);
                self.lists -= 1;
            }
            TokenKind::Identifier => {
                let vocable = self.vocable(node.name);
                // The current name begins no test: the `;` before the next command is missing, or
                // the name is a stray word.
                if !vocable.takes_tests() && (vocable.is_known() || self.is_at_command()) {
                    return;
                }
                match self.test() {
                    Some(test) => {
                        node.is_damaged |= test.is_damaged;
                        node.tests.push(test);
                    }
                    None => node.is_damaged = true,
                }
            }
            _ => {}
        }
    }

    /// Reads a test. `None` if there are too many commands and tests, or if it is nested too
    /// deeply; then it is skipped.
    fn test(&mut self) -> Option<Node> {
        if !self.count() {
            return None;
        }
        if self.depth >= self.limits.nesting {
            self.too_deep();
            self.skip_test();
            return None;
        }
        self.depth += 1;
        let node = self.node();
        self.depth -= 1;
        Some(node)
    }

    /// Reads a list of tests in parentheses.
    fn test_list(&mut self, node: &mut Node) {
        let open = self.advance().span;
        let mut needs_comma = false;
        let mut is_empty = true;
        loop {
            match self.current.kind {
                TokenKind::RightParen => {
                    if is_empty || !needs_comma {
                        let span = self.current.span;
                        self.error(Code::ExpectedTest, span, "a test must stand before this");
                        node.is_damaged = true;
                    }
                    self.advance();
                    return;
                }
                TokenKind::Identifier => {
                    if needs_comma {
                        let end = Span::at(self.last.span.end);
                        let message = "tests in parentheses are separated by commas";
                        self.error(Code::MissingComma, end, message);
                    }
                    match self.test() {
                        Some(test) => {
                            node.is_damaged |= test.is_damaged;
                            node.tests.push(test);
                        }
                        None => node.is_damaged = true,
                    }
                    needs_comma = true;
                }
                TokenKind::Comma => {
                    let comma = self.advance().span;
                    if !needs_comma {
                        let message = "a test must stand before this comma";
                        self.error(Code::ExpectedTest, comma, message);
                        node.is_damaged = true;
                    }
                    needs_comma = false;
                }
                TokenKind::End
                | TokenKind::Semicolon
                | TokenKind::LeftBrace
                | TokenKind::RightBrace => {
                    if !self.is_too_deep {
                        let message = "this list of tests has no closing parenthesis";
                        self.error(Code::UnclosedTestList, open, message);
                    }
                    node.is_damaged = true;
                    return;
                }
                TokenKind::Unknown => {
                    self.advance();
                    node.is_damaged = true;
                }
                _ => {
                    let span = self.current.span;
                    let message = format!("a test must stand here, not `{}`", self.text(span));
                    self.error(Code::ExpectedTest, span, message);
                    node.is_damaged = true;
                    needs_comma = true;
                    self.skip_test();
                }
            }
            is_empty = false;
        }
    }

    /// Reads a block in braces. One that is nested too deeply is skipped, and is empty in the tree.
    fn block(&mut self) -> Block {
        let open = self.advance().span;
        if self.depth >= self.limits.nesting {
            self.too_deep();
            self.skip_block();
            return Block { open, commands: Vec::new() };
        }
        self.depth += 1;
        let commands = self.commands(Some(open));
        self.depth -= 1;
        Block { open, commands }
    }

    /// Reports the nesting as too deep, once in a script.
    fn too_deep(&mut self) {
        if !self.is_too_deep {
            self.is_too_deep = true;
            let limit = self.limits.nesting;
            let message = format!("blocks and tests are nested more than {limit} levels deep");
            self.error(Code::TooDeeplyNested, self.last.span, message);
        }
    }

    /// Skips to where a command may begin: after the next `;`, or before the next `{`, `}` or name
    /// of a command.
    fn skip_to_command(&mut self) {
        loop {
            match self.current.kind {
                TokenKind::End | TokenKind::RightBrace | TokenKind::LeftBrace => break,
                TokenKind::Semicolon => {
                    self.advance();
                    return;
                }
                TokenKind::Identifier if self.is_at_command() => return,
                _ => {
                    self.advance();
                }
            }
        }
    }

    /// Skips a test with the tests in it, without recursion. Stops before the token that ends it.
    fn skip_test(&mut self) {
        let mut open = 0_usize;
        loop {
            match self.current.kind {
                TokenKind::LeftParen => open += 1,
                TokenKind::RightParen | TokenKind::Comma if open == 0 => return,
                TokenKind::RightParen => open -= 1,
                TokenKind::End
                | TokenKind::Semicolon
                | TokenKind::LeftBrace
                | TokenKind::RightBrace => return,
                _ => {}
            }
            self.advance();
        }
    }

    /// Skips the rest of a block with the blocks in it and its closing brace, without recursion.
    fn skip_block(&mut self) {
        let mut open = 1_usize;
        while open > 0 && self.current.kind != TokenKind::End {
            match self.advance().kind {
                TokenKind::LeftBrace => open += 1,
                TokenKind::RightBrace => open -= 1,
                _ => {}
            }
        }
    }
}
