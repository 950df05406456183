//! The generic tree of a script (RFC 5228 §8.2): what its tokens say without what names mean.

use crate::lexer::Token;
use crate::span::Span;

/// A command or a test.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: Span,
    /// From the name to the last argument or test.
    pub(crate) span: Span,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) tests: Vec<Self>,
    /// The tests stand in parentheses.
    pub(crate) is_test_list: bool,
    pub(crate) block: Option<Block>,
    /// The parser reported an error inside: what is missing needs no further report.
    pub(crate) is_damaged: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The opening brace.
    pub(crate) open: Span,
    pub(crate) commands: Vec<Node>,
}

#[derive(Debug, Clone)]
pub(crate) struct Argument {
    pub(crate) span: Span,
    pub(crate) kind: ArgumentKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ArgumentKind {
    /// The span includes the colon.
    Tag,
    Number(u64),
    /// A single string, or a list in brackets.
    Strings {
        items: Vec<Token>,
        is_list: bool,
    },
}

impl Argument {
    /// Returns the string tokens of the argument, none if it is a number or a tag.
    pub(crate) fn strings(&self) -> &[Token] {
        match &self.kind {
            ArgumentKind::Strings { items, .. } => items,
            ArgumentKind::Tag | ArgumentKind::Number(_) => &[],
        }
    }
}
