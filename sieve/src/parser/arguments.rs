//! Reads the arguments of a command or test.

use super::{Argument, ArgumentKind, Node, Parser};
use crate::diagnostic::Code;
use crate::lexer::TokenKind;
use crate::span::Span;

impl Parser<'_> {
    /// Reads arguments up to a token that cannot begin one. A comma or a closing parenthesis ends
    /// them in a list of tests; elsewhere it is reported and passed over, as a closing bracket is.
    pub(super) fn arguments(&mut self, node: &mut Node) {
        loop {
            let kind = self.current.kind;
            let argument = match kind {
                TokenKind::Tag => ArgumentKind::Tag,
                TokenKind::Number(value) => ArgumentKind::Number(value),
                TokenKind::Quoted | TokenKind::MultiLine => {
                    ArgumentKind::Strings { items: vec![self.current], is_list: false }
                }
                TokenKind::LeftBracket => {
                    let argument = self.string_list(node);
                    node.arguments.push(argument);
                    continue;
                }
                TokenKind::Unknown => {
                    self.advance();
                    node.is_damaged = true;
                    continue;
                }
                TokenKind::RightBracket => {
                    self.unexpected(node);
                    continue;
                }
                TokenKind::Comma | TokenKind::RightParen if self.lists == 0 => {
                    self.unexpected(node);
                    continue;
                }
                _ => return,
            };
            let token = self.advance();
            node.is_damaged |= token.defect.is_some();
            node.arguments.push(Argument { span: token.span, kind: argument });
        }
    }

    /// Reports the current token, which cannot stand here, and passes over it.
    fn unexpected(&mut self, node: &mut Node) {
        let token = self.advance();
        let message = format!("`{}` cannot stand here", self.text(token.span));
        self.error(Code::UnexpectedToken, token.span, message);
        node.is_damaged = true;
    }

    /// Reads a list of strings in brackets. If it has errors, the node is damaged, and the list has
    /// the strings that were found.
    fn string_list(&mut self, node: &mut Node) -> Argument {
        let open = self.advance().span;
        let mut items = Vec::new();
        let mut needs_comma = false;
        let mut is_complete = true;
        loop {
            let token = self.current;
            match token.kind {
                TokenKind::RightBracket => {
                    if items.is_empty() && is_complete && !needs_comma {
                        let span = open.join(token.span);
                        let message = "a list of strings must not be empty";
                        self.error(Code::EmptyStringList, span, message);
                        is_complete = false;
                    } else if !needs_comma {
                        let message = "a string must follow the comma";
                        self.error(Code::ExpectedString, token.span, message);
                        is_complete = false;
                    }
                    self.advance();
                    break;
                }
                TokenKind::Quoted | TokenKind::MultiLine => {
                    if needs_comma {
                        let end = Span::at(self.last.span.end);
                        let message = "strings in brackets are separated by commas";
                        self.error(Code::MissingComma, end, message);
                    }
                    is_complete &= token.defect.is_none();
                    items.push(self.advance());
                    needs_comma = true;
                }
                TokenKind::Comma => {
                    if !needs_comma {
                        let message = "a string must stand before this comma";
                        self.error(Code::ExpectedString, token.span, message);
                        is_complete = false;
                    }
                    self.advance();
                    needs_comma = false;
                }
                TokenKind::Unknown => {
                    self.advance();
                    is_complete = false;
                    needs_comma = true;
                }
                // What follows such a token shows that it was meant as an item. Otherwise the list
                // was probably not closed before it.
                TokenKind::Number(_) | TokenKind::Identifier | TokenKind::Tag
                    if matches!(self.next.kind, TokenKind::Comma | TokenKind::RightBracket) =>
                {
                    let message =
                        format!("a list may contain only strings, not `{}`", self.text(token.span));
                    self.error(Code::ExpectedString, token.span, message);
                    self.advance();
                    is_complete = false;
                    needs_comma = true;
                }
                _ => {
                    let message = "this list of strings has no closing bracket";
                    self.error(Code::UnclosedStringList, open, message);
                    is_complete = false;
                    break;
                }
            }
        }
        node.is_damaged |= !is_complete;
        let span = Span::new(open.start, self.last.span.end);
        Argument { span, kind: ArgumentKind::Strings { items, is_list: true } }
    }
}
