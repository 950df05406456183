//! Runs blocks and commands.

use super::fuel::FLAG_COST;
use super::{Flow, Frame, Result, Run};
use crate::ir::{Command, CommandKind, FileInto, FlagOperation, If, StringExpr, VariableId};
use crate::outcome::RuntimeErrorKind;
use crate::plan::Target;

impl Run<'_> {
    /// Runs the commands of a block up to its end, or until one of them leaves it.
    pub(super) fn block(&mut self, frame: &mut Frame<'_>, commands: &[Command]) -> Result<Flow> {
        self.nested(|run| {
            for command in commands {
                let flow = run.command(frame, command)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
            }
            Ok(Flow::Next)
        })
    }

    fn command(&mut self, frame: &mut Frame<'_>, command: &Command) -> Result<Flow> {
        let outer = std::mem::replace(&mut self.span, command.span);
        self.fuel.step()?;
        let place = self.trace.is_some().then(|| self.place());
        if let (Some(trace), Some(place)) = (&mut self.trace, place) {
            trace.command(&place, command);
        }
        let flow = match &command.kind {
            CommandKind::If(condition) => self.condition(frame, condition)?,
            CommandKind::Stop => Flow::Stop,
            CommandKind::Return => Flow::Return,
            CommandKind::Break { loops } => Flow::Break(*loops),
            CommandKind::ForEveryPart { block } => self.for_every_part(frame, block)?,
            CommandKind::Include(include) => self.include(frame, include)?,
            kind => {
                self.action(frame, kind)?;
                Flow::Next
            }
        };
        self.span = outer;
        Ok(flow)
    }

    /// Runs the block of the first branch whose test is true, or else that of `else`.
    fn condition(&mut self, frame: &mut Frame<'_>, condition: &If) -> Result<Flow> {
        for branch in &condition.branches {
            if self.test(frame, &branch.test)? {
                return self.block(frame, &branch.block);
            }
        }
        match &condition.otherwise {
            Some(block) => self.block(frame, block),
            None => Ok(Flow::Next),
        }
    }

    /// Runs a command after which the next one follows, unless it fails.
    fn action(&mut self, frame: &mut Frame<'_>, kind: &CommandKind) -> Result<()> {
        match kind {
            CommandKind::Keep { flags } => {
                let flags = match flags {
                    Some(flags) => self.flag_set(frame, flags)?,
                    None => self.flags.clone(),
                };
                self.store("keep", Target::Inbox, flags)?;
                self.decisions.cancel_keep();
                Ok(())
            }
            CommandKind::FileInto(file_into) => self.file_into(frame, file_into),
            CommandKind::Discard => self.discard(),
            CommandKind::Redirect(redirect) => self.redirect(frame, redirect),
            CommandKind::Reject { kind, reason } => {
                let reason = self.expand(frame, reason)?;
                self.reject(*kind, reason.into_owned())
            }
            CommandKind::Vacation(vacation) => self.vacation(frame, vacation),
            CommandKind::Notify(notify) => self.notify(frame, notify),
            CommandKind::Set { variable, modifiers, value } => {
                let value = self.expand(frame, value)?;
                let value = self.modify(value.into_owned(), modifiers)?;
                self.set_variable(frame, *variable, value)
            }
            CommandKind::Flags { operation, variable, flags } => {
                self.change_flags(frame, *operation, *variable, flags)
            }
            CommandKind::AddHeader { last, name, value } => {
                self.add_header(frame, *last, name, value)
            }
            CommandKind::DeleteHeader(delete) => self.delete_header(frame, delete),
            CommandKind::ExtractText(extract) => self.extract_text(frame, extract),
            CommandKind::Replace(replace) => self.replace(frame, replace),
            CommandKind::Enclose(enclose) => self.enclose(frame, enclose),
            CommandKind::Error { message } => {
                let message = self.expand(frame, message)?;
                Err(RuntimeErrorKind::Script(message.into_owned()))
            }
            // `global` has no effect in a run. The others are run by `command`.
            CommandKind::If(_)
            | CommandKind::Stop
            | CommandKind::Return
            | CommandKind::Break { .. }
            | CommandKind::ForEveryPart { .. }
            | CommandKind::Include(_)
            | CommandKind::Global { .. } => Ok(()),
        }
    }

    fn file_into(&mut self, frame: &Frame<'_>, file_into: &FileInto) -> Result<()> {
        let target = self.mailbox_target(frame, &file_into.to)?;
        let flags = match &file_into.flags {
            Some(flags) => self.flag_set(frame, flags)?,
            None => self.flags.clone(),
        };
        self.store("fileinto", target, flags)?;
        if !file_into.copy {
            self.decisions.cancel_keep();
        }
        Ok(())
    }

    /// Runs `setflag`, `addflag` and `removeflag` (RFC 5232 §3). Without a variable they change the
    /// internal variable.
    fn change_flags(
        &mut self,
        frame: &mut Frame<'_>,
        operation: FlagOperation,
        variable: Option<VariableId>,
        texts: &[StringExpr],
    ) -> Result<()> {
        let texts = self.expand_all(frame, texts)?;
        self.fuel.bytes(self.flags.len().saturating_mul(FLAG_COST))?;
        let mut flags = match (operation, variable) {
            (FlagOperation::Set, _) => crate::flag::FlagSet::new(),
            (_, None) => self.flags.clone(),
            (_, Some(id)) => std::iter::once(self.variable(frame, id)).collect(),
        };
        for text in texts {
            match operation {
                FlagOperation::Set | FlagOperation::Add => self.add_flags(&mut flags, &text)?,
                FlagOperation::Remove => {
                    let words = text.split_ascii_whitespace().count();
                    let comparisons = flags.len().saturating_mul(words);
                    self.fuel.bytes(comparisons.saturating_mul(FLAG_COST))?;
                    flags.remove_words(&text);
                }
            }
        }
        match variable {
            Some(id) => self.set_variable(frame, id, flags.to_words()),
            None => {
                self.flags = flags;
                Ok(())
            }
        }
    }
}
