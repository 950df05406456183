//! The generic tree of a script (RFC 5228 §8.2): its commands, tests and arguments, without what
//! their names mean.

use crate::lexer::Token;
use crate::span::Span;

/// A command or a test.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: Span,
    /// From the name to the last argument or test, without a block.
    pub(crate) span: Span,
    pub(crate) arguments: Vec<Argument>,
    /// The tests right inside it.
    pub(crate) tests: Vec<Self>,
    /// Whether the tests stand in parentheses.
    pub(crate) is_test_list: bool,
    /// `None` without a block, as in every test.
    pub(crate) block: Option<Block>,
    /// Whether something may be missing in the tree because of an error inside, other than in the
    /// block. The error is reported, and what is missing needs no further report.
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
    /// A single string, or a list in brackets (`is_list`).
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
