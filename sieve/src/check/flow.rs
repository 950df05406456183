//! Checks blocks and `if`, and keeps track of what is certain at a place of the script.

use super::Checker;
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::ExtensionSet;
use crate::ir::{Branch, Command, CommandKind, If};
use crate::parser::Node;
use crate::span::Span;
use crate::vocabulary::{COMMANDS, CommandId, lookup};

/// What holds whenever a run comes to a place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    /// The extensions in effect.
    pub(super) extensions: ExtensionSet,
    /// The last refusal that has run for certain: `reject` or `ereject`. `None` if it is not
    /// certain that one has run.
    pub(super) refusal: Option<Span>,
    /// The last response that has run for certain: `vacation`. `None` as for `refusal`.
    pub(super) response: Option<Span>,
    /// The last delivery that has run for certain: `keep`, `fileinto` or `redirect`. `None` as for
    /// `refusal`.
    pub(super) store: Option<Span>,
    /// The least number of redirects that have run.
    pub(super) redirects: u32,
}

impl Flow {
    /// Returns what holds where two ways of a run meet: `self` holds on one, `other` on the other.
    fn join(self, other: Self) -> Self {
        Self {
            extensions: self.extensions.intersection(other.extensions),
            refusal: self.refusal.and(other.refusal),
            response: self.response.and(other.response),
            store: self.store.and(other.store),
            redirects: self.redirects.min(other.redirects),
        }
    }
}

/// Whether a run comes to the end of a block, or of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// A run may come to the end.
    Continues,
    /// A run never comes to the end.
    Stops,
    /// A run never comes to the end, and only because of the result of an `ihave`. The commands
    /// after the end are no fault of the script, and are not reported.
    StopsByIHave,
}

impl Checker<'_> {
    /// Checks the commands of a block. After a command with [`Exit::Stops`] the others are still
    /// checked, and the first of them gets a warning. After [`Exit::StopsByIHave`] the others are
    /// read without reports, and are not in the tree.
    pub(super) fn block(&mut self, nodes: &[Node], is_top: bool) -> (Vec<Command>, Exit) {
        let mut commands: Vec<Command> = Vec::new();
        let mut exit = Exit::Continues;
        let mut is_warned = false;
        let mut nodes = nodes.iter().peekable();
        while let Some(node) = nodes.next() {
            let is_dead = exit == Exit::StopsByIHave;
            if exit == Exit::Stops && !is_warned {
                is_warned = true;
                let message = "this command can never run";
                self.complain(Code::UnreachableCommand, node.span, message);
            }
            let known = self.mute_if(is_dead);
            let word = lookup(&self.excerpt(node.name)).command;
            let (command, now) = match word.map(|word| word.id) {
                Some(CommandId::If) => {
                    let mut chain = vec![node];
                    while let Some(next) = nodes.next_if(|next| self.is_continuation(next)) {
                        chain.push(next);
                    }
                    self.conditional(&chain)
                }
                Some(CommandId::ElsIf | CommandId::Else) => {
                    let name = self.excerpt(node.name);
                    let message = format!("`{name}` must follow `if` or `elsif`");
                    self.complain(Code::ElseWithoutIf, node.name, message);
                    self.conditional(&[node])
                }
                _ => self.command(node, word, is_top),
            };
            self.unmute(is_dead, known);
            commands.extend(command.filter(|_| !is_dead));
            if exit == Exit::Continues && now != Exit::Continues {
                exit = now;
                // The later commands never run, so none of them is reported as incompatible with
                // one that runs.
                self.flow = Flow { extensions: self.flow.extensions, ..Flow::default() };
            }
        }
        (commands, exit)
    }

    /// Stops reports if what follows never runs because of an `ihave`, or because it follows an
    /// `else`. Returns the number of variables so far, which [`Self::unmute`] needs.
    pub(super) fn mute_if(&mut self, is_dead: bool) -> usize {
        self.muted += u32::from(is_dead);
        self.variables.len()
    }

    /// Ends what [`Self::mute_if`] began with the same `is_dead`. If reports are possible again, it
    /// forgets the variables that were named in between: `known` is their number before.
    pub(super) fn unmute(&mut self, is_dead: bool, known: usize) {
        if is_dead {
            self.muted -= 1;
            if self.muted == 0 {
                self.variables.truncate(known);
            }
        }
    }

    /// Returns whether a node is an `elsif` or `else`.
    fn is_continuation(&self, node: &Node) -> bool {
        let word = lookup(&self.excerpt(node.name)).command;
        word.is_some_and(|word| matches!(word.id, CommandId::ElsIf | CommandId::Else))
    }

    /// Checks `if` with the `elsif` and `else` that follow it. The command is `None` if no test is
    /// known.
    fn conditional(&mut self, chain: &[&Node]) -> (Option<Command>, Exit) {
        self.is_past_require = true;
        let mut branches = Vec::new();
        let mut otherwise = None;
        // What holds where no test was true so far. `None` if that is not possible.
        let mut pending = Some(self.flow);
        // What holds at the end of each block so far, joined. `None` if no end can be reached.
        let mut ends: Option<Flow> = None;
        let mut has_else = false;
        // Whether the result of an `ihave` decides which block runs, or ends one.
        let mut is_by_ihave = false;
        let mut span: Option<Span> = None;
        for node in chain {
            let Some(word) = COMMANDS
                .iter()
                .find(|word| word.name.eq_ignore_ascii_case(&self.excerpt(node.name)))
            else {
                continue;
            };
            if has_else {
                let message = format!("`{}` cannot follow `else`", word.name);
                self.complain(Code::ElseWithoutIf, node.name, message);
            }
            let end = node.block.as_ref().map_or(node.span.end, |block| block.open.start);
            let covered = Span::new(node.name.start, node.span.end.min(end));
            span = Some(span.map_or(covered, |span| span.join(covered)));
            let is_dead = pending.is_none();
            let known = self.mute_if(is_dead);
            if let Some(flow) = pending {
                self.flow = flow;
            }
            self.bind(node, word);
            self.check_block_of(node, word.name, true);
            let block = node.block.as_ref().map(|block| block.commands.as_slice());
            if word.id == CommandId::Else {
                has_else = true;
                let (commands, exit) = self.block(block.unwrap_or_default(), false);
                self.merge_end(&mut ends, exit, is_dead);
                is_by_ihave |= exit == Exit::StopsByIHave;
                otherwise = (!is_dead).then_some(commands);
                pending = None;
            } else if let Some(test) = node.tests.first() {
                let outcome = self.test(test);
                // `bind` has reported the further tests, which are only checked.
                for extra in node.tests.iter().skip(1) {
                    self.test(extra);
                }
                let never = outcome.if_true.is_none();
                is_by_ihave |= never || outcome.if_false.is_none();
                if let Some(extensions) = outcome.if_true {
                    self.flow.extensions = extensions;
                }
                let before = self.flow;
                let inner = self.mute_if(never);
                let (commands, exit) = self.block(block.unwrap_or_default(), false);
                self.unmute(never, inner);
                self.merge_end(&mut ends, exit, is_dead || never);
                is_by_ihave |= exit == Exit::StopsByIHave;
                let block = if never { Vec::new() } else { commands };
                if let (Some(test), false) = (outcome.test, is_dead) {
                    branches.push(Branch { test, block });
                }
                pending = match (is_dead, outcome.if_false) {
                    (false, Some(extensions)) => Some(Flow { extensions, ..before }),
                    _ => None,
                };
            } else {
                // The test is missing, which was reported.
                let (_, exit) = self.block(block.unwrap_or_default(), false);
                self.merge_end(&mut ends, exit, is_dead);
            }
            self.unmute(is_dead, known);
        }
        if let (Some(flow), false) = (pending, has_else) {
            ends = Some(ends.map_or(flow, |ends| ends.join(flow)));
        }
        let exit = match ends {
            Some(flow) => {
                self.flow = flow;
                Exit::Continues
            }
            None if is_by_ihave => Exit::StopsByIHave,
            None => Exit::Stops,
        };
        let command = span.filter(|_| !branches.is_empty()).map(|span| Command {
            span,
            kind: CommandKind::If(Box::new(If { branches, otherwise })),
        });
        (command, exit)
    }

    /// Joins what holds at the end of a block to the other ends, if the end can be reached.
    fn merge_end(&self, ends: &mut Option<Flow>, exit: Exit, is_dead: bool) {
        if exit == Exit::Continues && !is_dead {
            *ends = Some(ends.map_or(self.flow, |ends| ends.join(self.flow)));
        }
    }

    /// Reports a block that is missing, or that must not be there.
    pub(super) fn check_block_of(&mut self, node: &Node, name: &str, needs_block: bool) {
        match &node.block {
            None if needs_block && !node.is_damaged => {
                let message = format!("`{name}` needs a block in braces");
                self.complain(Code::MissingBlock, Span::at(node.span.end), message);
            }
            Some(block) if !needs_block => {
                let message = format!("`{name}` takes no block");
                let diagnostic = Diagnostic::new(Code::UnexpectedBlock, block.open, message);
                self.report(diagnostic.with_help("end the command with `;`"));
            }
            _ => {}
        }
    }
}
