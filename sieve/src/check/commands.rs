//! Checks commands other than `if`.

use super::Checker;
use super::bind::Bound;
use super::flow::Exit;
use super::strings::{expr, exprs};
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::Extension;
use crate::ir::{
    Command, CommandKind, FileInto, FlagOperation, Include, Location, Modifier, RejectKind,
};
use crate::parser::Node;
use crate::span::Span;
use crate::vocabulary::{COMMANDS, CommandId, Tag, Word, lookup};

/// Classes of actions. An action of one class may exclude one of another, or a second one of its
/// own (RFC 5230 §4.7, RFC 5429 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionClass {
    /// `reject` or `ereject`.
    Refusal,
    /// The command `vacation`.
    Response,
    /// `keep`, `fileinto` or `redirect`.
    Store,
}

impl Checker<'_> {
    /// Checks a command other than `if`, `elsif` and `else`. `word` is `None` if no command has its
    /// name; `is_top` says that no block is around it. `require` and an unknown command give no
    /// command of the tree.
    pub(super) fn command(
        &mut self,
        node: &Node,
        word: Option<&'static Word<CommandId>>,
        is_top: bool,
    ) -> (Option<Command>, Exit) {
        let Some(word) = word else {
            self.is_past_require = true;
            self.unknown_command(node);
            for test in &node.tests {
                self.test(test);
            }
            if let Some(block) = &node.block {
                let before = self.flow;
                self.block(&block.commands, false);
                self.flow = before;
            }
            return (None, Exit::Continues);
        };
        if word.id != CommandId::Require || !is_top {
            self.is_past_require = true;
        }
        let bound = self.bind(node, word);
        self.check_block_of(node, word.name, word.has_block);
        for test in &node.tests {
            self.test(test);
        }
        if word.id == CommandId::Require {
            self.require(node, bound.strings(0));
            return (None, Exit::Continues);
        }
        if word.id == CommandId::ForEveryPart {
            return self.for_every_part(&bound);
        }
        let kind = self.kind(word.id, &bound);
        if let Some(block) = &node.block {
            self.block(&block.commands, false);
        }
        let exit = match word.id {
            CommandId::Stop | CommandId::Return | CommandId::Error => Exit::Stops,
            CommandId::Break if !self.loops.is_empty() => Exit::Stops,
            _ => Exit::Continues,
        };
        (Some(Command { span: node.span, kind }), exit)
    }

    /// Reports a name that is that of a test, or of nothing.
    fn unknown_command(&mut self, node: &Node) {
        let name = self.excerpt(node.name);
        if lookup(&name).test.is_some() {
            let message = format!("`{name}` is a test, and a command must stand here");
            let diagnostic = Diagnostic::new(Code::TestAsCommand, node.name, message);
            self.report(match node.block.is_some() {
                true => diagnostic.with_help(format!("write `if {name}`")),
                false => diagnostic,
            });
            return;
        }
        let message = format!("there is no command `{name}`");
        let mut diagnostic = Diagnostic::new(Code::UnknownCommand, node.name, message);
        if let Some(meant) = self.closest(&name, COMMANDS.iter().map(|word| word.name)) {
            diagnostic = diagnostic.with_help(format!("did you mean `{meant}`?"));
        }
        self.report(diagnostic);
    }

    /// Checks the arguments of a command, and returns the command of the tree.
    fn kind(&mut self, id: CommandId, bound: &Bound<'_>) -> CommandKind {
        match id {
            // All but `stop` are checked elsewhere, and do not come here.
            CommandId::Require
            | CommandId::If
            | CommandId::ElsIf
            | CommandId::Else
            | CommandId::ForEveryPart
            | CommandId::Stop => CommandKind::Stop,
            CommandId::Keep => {
                self.note_action(ActionClass::Store, bound.node.name);
                CommandKind::Keep { flags: self.flags_of_tag(bound) }
            }
            CommandId::Discard => CommandKind::Discard,
            CommandId::Redirect => self.redirect(bound),
            CommandId::FileInto => {
                self.note_action(ActionClass::Store, bound.node.name);
                let name = self.argument(bound.positional(0));
                CommandKind::FileInto(Box::new(FileInto {
                    to: self.mailbox(bound, name),
                    copy: bound.has(Tag::Copy),
                    flags: self.flags_of_tag(bound),
                }))
            }
            CommandId::Reject => self.reject(bound, RejectKind::Reject),
            CommandId::EReject => self.reject(bound, RejectKind::EReject),
            CommandId::Vacation => self.vacation(bound),
            CommandId::Set => self.set(bound),
            CommandId::SetFlag => self.flag_command(bound, FlagOperation::Set),
            CommandId::AddFlag => self.flag_command(bound, FlagOperation::Add),
            CommandId::RemoveFlag => self.flag_command(bound, FlagOperation::Remove),
            CommandId::Notify => self.notify(bound),
            CommandId::AddHeader => self.add_header(bound),
            CommandId::DeleteHeader => self.delete_header(bound),
            CommandId::Include => self.include(bound),
            CommandId::Return => CommandKind::Return,
            CommandId::Global => {
                CommandKind::Global { variables: self.declare_globals(bound.strings(0)) }
            }
            CommandId::Break => self.break_loop(bound),
            CommandId::ExtractText => self.extract_text(bound),
            CommandId::Replace => self.replace(bound),
            CommandId::Enclose => self.enclose(bound),
            CommandId::Error => {
                CommandKind::Error { message: expr(self.argument(bound.positional(0))) }
            }
        }
    }

    /// Notes an action at this place of the script. Reports the action if another one, which cannot
    /// be used together with it, has always run before.
    pub(super) fn note_action(&mut self, class: ActionClass, span: Span) {
        let flow = self.flow;
        let rival = match class {
            ActionClass::Refusal => flow.refusal.or(flow.response).or(flow.store),
            ActionClass::Response => flow.response.or(flow.refusal),
            ActionClass::Store => flow.refusal,
        };
        if let Some(rival) = rival {
            let (name, other) = (self.excerpt(span), self.excerpt(rival));
            let message = match name.eq_ignore_ascii_case(&other) {
                true => format!("`{name}` runs twice"),
                false => format!("`{name}` cannot be used together with `{other}`"),
            };
            let diagnostic = Diagnostic::new(Code::IncompatibleActions, span, message)
                .with_related(rival, "this command has always run before");
            self.report(diagnostic);
        }
        match class {
            ActionClass::Refusal => self.flow.refusal = Some(span),
            ActionClass::Response => self.flow.response = Some(span),
            ActionClass::Store => self.flow.store = Some(span),
        }
    }

    /// Checks `set` (RFC 5229 §4). A variable that is absent was reported.
    fn set(&mut self, bound: &Bound<'_>) -> CommandKind {
        let value = expr(self.argument(bound.positional(1)));
        let variable = bound.strings(0).first().map(|&token| self.variable_to_set(token));
        let variable = variable.unwrap_or(crate::ir::VariableId(0));
        let modifiers = modifiers(bound);
        self.note_set(variable, &value, &modifiers);
        CommandKind::Set { variable, modifiers, value }
    }

    /// Checks `setflag`, `addflag` and `removeflag` (RFC 5232 §3).
    fn flag_command(&mut self, bound: &Bound<'_>, operation: FlagOperation) -> CommandKind {
        let variable = bound.strings(0).first().map(|&token| {
            self.need(Extension::Variables, bound.node.name, "a variable for flags");
            self.variable_to_set(token)
        });
        let flags = self.flags(bound.strings(1), operation != FlagOperation::Remove);
        if let Some(variable) = variable {
            flags.iter().for_each(|flag| self.note_set(variable, &flag.expr, &[]));
        }
        CommandKind::Flags { operation, variable, flags: exprs(flags) }
    }

    /// Checks `include` (RFC 6609 §3.2).
    fn include(&mut self, bound: &Bound<'_>) -> CommandKind {
        let location = match bound.has(Tag::Global) {
            true => Location::Global,
            false => Location::Personal,
        };
        let name = self.constant_argument(bound.positional(0), "the name of a script");
        if let Some((name, span)) = &name {
            self.check_script_name(name, *span);
        }
        CommandKind::Include(Include {
            location,
            name: name.map(|(name, _)| name).unwrap_or_default(),
            once: bound.has(Tag::Once),
            optional: bound.has(Tag::Optional),
        })
    }

    fn reject(&mut self, bound: &Bound<'_>, kind: RejectKind) -> CommandKind {
        self.note_action(ActionClass::Refusal, bound.node.name);
        CommandKind::Reject { kind, reason: expr(self.argument(bound.positional(0))) }
    }
}

/// Returns the modifiers of a command, in the order in which they apply.
pub(super) fn modifiers(bound: &Bound<'_>) -> Vec<Modifier> {
    let modifier = |tag| {
        Some(match tag {
            Tag::Lower => Modifier::Lower,
            Tag::Upper => Modifier::Upper,
            Tag::LowerFirst => Modifier::LowerFirst,
            Tag::UpperFirst => Modifier::UpperFirst,
            Tag::QuoteWildcard => Modifier::QuoteWildcard,
            Tag::QuoteRegex => Modifier::QuoteRegex,
            Tag::EncodeUrl => Modifier::EncodeUrl,
            Tag::Length => Modifier::Length,
            _ => return None,
        })
    };
    let mut modifiers: Vec<_> = bound.tags().filter_map(|bound| modifier(bound.tag)).collect();
    modifiers.sort_by_key(|modifier| std::cmp::Reverse(modifier.precedence()));
    modifiers
}
