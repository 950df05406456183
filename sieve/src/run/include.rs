//! `include` (RFC 6609).
//!
//! - An included script has variables and `require` of its own; global variables, flags and
//!   decisions are shared.
//! - `stop` ends the run, `return` ends the included script.
//! - In a loop over parts, the included script sees the current part as the message. Its actions
//!   still concern the whole message.
//! - A script that runs must not be included: the run fails. But `include :once` of a script that
//!   was included before, or of the script that was run first, does nothing.

use super::{Flow, Frame, Result, Run};
use crate::ir::Include;
use crate::outcome::RuntimeErrorKind;

impl Run<'_> {
    /// Runs `include`. Returns `Stop` if the included script ended the run, or else `Next`.
    pub(super) fn include(&mut self, frame: &Frame<'_>, include: &Include) -> Result<Flow> {
        let is_same =
            |other: &Include| other.location == include.location && other.name == include.name;
        self.fuel.bytes(self.includes.len())?;
        if include.once && self.includes.iter().any(is_same) {
            return match include.optional || !self.missing_includes.iter().any(is_same) {
                true => Ok(Flow::Next),
                false => Err(RuntimeErrorKind::IncludeNotFound(include.name.clone())),
            };
        }
        if self.include_stack.iter().any(is_same) {
            return Err(RuntimeErrorKind::IncludeLoop(include.name.clone()));
        }
        self.fuel.step()?;
        let script = self.world.script(include.location, &include.name)?;
        self.includes.push(include.clone());
        // The name of the script that was run first is not known here, so its source tells it.
        if script.as_ref().is_some_and(|script| *script.source_hash() == self.main_script) {
            self.skipped_includes = self.skipped_includes.saturating_add(1);
            return match include.once {
                true => Ok(Flow::Next),
                false => Err(RuntimeErrorKind::IncludeLoop(include.name.clone())),
            };
        }
        // It counts even if there is no such script: the host had to look for it.
        let count = self.includes.len().saturating_sub(self.skipped_includes);
        self.within("included scripts", count, u64::from(self.limits.includes))?;
        let Some(script) = script else {
            self.missing_includes.push(include.clone());
            return match include.optional {
                true => Ok(Flow::Next),
                false => Err(RuntimeErrorKind::IncludeNotFound(include.name.clone())),
            };
        };
        self.include_stack.push(include.clone());
        let depth = u64::from(self.limits.include_depth);
        self.within("included scripts inside one another", self.include_stack.len(), depth)?;
        let outer_name = self.script_name.replace(include.name.clone());
        let outer_span = self.span;
        let flow = self.script(&script, frame.part.or(frame.message))?;
        self.script_name = outer_name;
        self.span = outer_span;
        self.include_stack.pop();
        Ok(flow)
    }
}
