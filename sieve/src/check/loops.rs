//! `foreverypart`, `break` and `extracttext` (RFC 5703 §3 and §7).

use super::Checker;
use super::bind::Bound;
use super::commands::modifiers;
use super::flow::{Exit, Flow};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Command, CommandKind, ExtractText, VariableId};
use crate::vocabulary::Tag;

impl Checker<'_> {
    /// Checks `foreverypart` with its block.
    pub(super) fn for_every_part(&mut self, bound: &Bound<'_>) -> (Option<Command>, Exit) {
        let node = bound.node;
        let name = self.constant_argument(bound.value(Tag::Name), "the name of a loop");
        let limit = usize::from(self.options.limits.loops);
        if self.loops.len() == limit {
            let message = format!("loops are nested more than {limit} levels deep");
            self.complain(Code::LoopsTooDeep, node.name, message);
        }
        let before = self.flow;
        self.loops.push(name.map(|(name, _)| name));
        let nodes = node.block.as_ref().map_or(&[][..], |block| block.commands.as_slice());
        let (block, _) = self.block(nodes, false);
        self.loops.pop();
        // A loop inside another may never run its block, so the actions of a block do not count.
        let extensions = self.flow.extensions.intersection(before.extensions);
        self.flow = Flow { extensions, ..before };
        let span = node.span;
        (Some(Command { span, kind: CommandKind::ForEveryPart { block } }), Exit::Continues)
    }

    /// Checks `break`, and counts the loops that it leaves.
    pub(super) fn break_loop(&mut self, bound: &Bound<'_>) -> CommandKind {
        let name = self.constant_argument(bound.value(Tag::Name), "the name of a loop");
        if self.loops.is_empty() {
            let message = "`break` must stand in `foreverypart`";
            self.complain(Code::BreakOutsideLoop, bound.node.name, message);
            return CommandKind::Break { loops: 1 };
        }
        let Some((name, span)) = name else { return CommandKind::Break { loops: 1 } };
        let found =
            self.loops.iter().rev().position(|other| other.as_deref() == Some(name.as_str()));
        let Some(found) = found else {
            let shown = super::excerpt(&name);
            let message = format!("no `foreverypart` around this has the name `{shown}`");
            let mut diagnostic = Diagnostic::new(Code::UnknownLoopName, span, message);
            let names: Vec<_> = self.loops.iter().flatten().cloned().collect();
            if let Some(meant) = self.closest(&name, names.iter().map(String::as_str)) {
                diagnostic = diagnostic.with_help(format!("did you mean `{meant}`?"));
            }
            self.report(diagnostic);
            return CommandKind::Break { loops: 1 };
        };
        CommandKind::Break { loops: u8::try_from(found + 1).unwrap_or(u8::MAX) }
    }

    /// Checks `extracttext`, which must stand in a loop. A variable that is absent was reported.
    pub(super) fn extract_text(&mut self, bound: &Bound<'_>) -> CommandKind {
        if self.loops.is_empty() {
            let message = "`extracttext` must stand in `foreverypart`";
            self.complain(Code::OutsideLoop, bound.node.name, message);
        }
        let variable = bound.strings(0).first().map(|&token| self.variable_to_set(token));
        let first = bound.number(Tag::First);
        if let Some((0, span)) = first {
            self.complain(Code::NoEffect, span, "with `:first 0` the variable is always empty");
        }
        let variable = variable.unwrap_or(VariableId(0));
        let modifiers = modifiers(bound);
        self.note_extracted(variable, &modifiers);
        CommandKind::ExtractText(Box::new(ExtractText {
            variable,
            modifiers,
            first: first.map(|(number, _)| number),
        }))
    }
}
