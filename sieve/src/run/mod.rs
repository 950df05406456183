//! Runs a checked script on a message and returns a plan.
//!
//! - A run walks over the typed tree of the script. Runs share nothing but compiled patterns of
//!   `:regex`, if the host keeps them.
//! - The whole script runs before anything is done (RFC 5228 §2.10.6). An error drops every
//!   decision, and the message is kept in the Inbox as it was received.
//! - Work is bounded by [`fuel`], memory by [`RunLimits`], recursion by [`MAX_DEPTH`].
//! - The files: `command` and `test` dispatch; `strings`, `matching`, `wildcard`, `regex` and
//!   `comparator` expand and compare strings; `message` holds the message as the script has edited
//!   it; `known` remembers decoded fields; `lists` reads the names of external lists; `decisions`
//!   holds the plan and the conflicts of actions; `fuel` counts the work. Each other file runs one
//!   group of commands or tests.

mod address;
mod body;
mod command;
mod comparator;
mod date;
mod decisions;
mod duplicate;
mod edit_header;
mod envelope;
mod fuel;
mod header;
mod include;
mod known;
mod lists;
mod mailbox;
mod matching;
mod message;
mod mime;
mod notify;
mod redirect;
mod regex;
mod spam;
mod strings;
mod test;
mod vacation;
mod wildcard;

use std::collections::HashMap;
use std::rc::Rc;

use self::decisions::Decisions;
use self::fuel::Fuel;
use self::known::KnownFields;
use self::message::{MessageState, NodeId};
use self::regex::BoundedRegex;
use crate::flag::FlagSet;
use crate::host::{Input, World};
use crate::ir::{Include, Script};
use crate::options::RunLimits;
use crate::outcome::{Outcome, Place, RuntimeError, RuntimeErrorKind, Trace, Warning, WarningKind};
use crate::plan::{Action, Plan};
use crate::span::Span;

/// Blocks and tests that may be inside one another, over all included scripts. With the default
/// limits no script reaches it: each of 11 scripts, the first and 10 inside one another, is a block
/// with 32 levels in it.
const MAX_DEPTH: u16 = 400;

/// Warnings that an outcome holds. Further ones are only passed to the trace.
const MAX_WARNINGS: usize = 100;

type Result<T> = std::result::Result<T, RuntimeErrorKind>;

/// Runs a script on a message. If the run fails, the outcome has the error, and its plan is to keep
/// the message. [The head of the crate](crate#example) has an example.
///
/// - It changes nothing, reads no clock, and uses no randomness: equal inputs and answers of the
///   host give an equal outcome.
/// - It never panics, and ends with an error when [`RunLimits::fuel`] is used up.
/// - `trace`, if given, observes the run.
#[must_use]
pub fn run(
    script: &Script,
    input: &Input<'_>,
    world: &dyn World,
    limits: &RunLimits,
    trace: Option<&mut dyn Trace>,
) -> Outcome {
    let mut run = Run {
        input: *input,
        world,
        limits,
        // The `match` shortens the lifetime of the trait object to that of the run, which the
        // compiler does not do inside an `Option`.
        trace: match trace {
            Some(trace) => Some(trace),
            None => None,
        },
        fuel: Fuel::new(limits.fuel),
        main_script: *script.source_hash(),
        script_name: None,
        span: Span::default(),
        depth: 0,
        globals: HashMap::new(),
        variables: 0,
        regexes: Vec::new(),
        flags: FlagSet::new(),
        message: MessageState::new(input.message),
        known: KnownFields::default(),
        decisions: Decisions::default(),
        added_header: 0,
        replaced_body: 0,
        enclosures: 0,
        parts: 0,
        includes: Vec::new(),
        missing_includes: Vec::new(),
        skipped_includes: 0,
        include_stack: Vec::new(),
        warnings: Vec::new(),
    };
    let result = run.script(script, None).and_then(|_| run.finish());
    let error = result.as_ref().err().cloned();
    Outcome {
        plan: result.unwrap_or_else(|_| Plan::keep_only()),
        error: error.map(|kind| RuntimeError { place: run.place(), kind }),
        warnings: run.warnings,
        fuel_used: run.fuel.used(),
    }
}

/// The state of a run.
struct Run<'a> {
    input: Input<'a>,
    world: &'a dyn World,
    limits: &'a RunLimits,
    trace: Option<&'a mut dyn Trace>,
    fuel: Fuel,
    /// The hash of the source of the script that was run first.
    main_script: [u8; 32],
    /// The name of the included script that runs, `None` in the script that was run first.
    script_name: Option<String>,
    /// The command or test that runs. After an error it stays at the one that failed.
    span: Span,
    /// How many blocks and tests the run is in, at most `MAX_DEPTH`.
    depth: u16,
    /// Global variables by name.
    globals: HashMap<String, String>,
    /// How many variables exist: those in the lists of the scripts that run, and the global ones.
    variables: usize,
    /// The patterns of `:regex` that were compiled so far, within the bounds of `matching`.
    regexes: Vec<Rc<BoundedRegex>>,
    /// The internal variable of `imap4flags`.
    flags: FlagSet,
    message: MessageState<'a>,
    known: KnownFields<'a>,
    decisions: Decisions,
    /// Bytes of header fields added so far.
    added_header: usize,
    /// Bytes of texts that `replace` and `enclose` put into the message so far.
    replaced_body: usize,
    /// How many `enclose` commands were executed.
    enclosures: usize,
    /// How many parts loops ran over so far.
    parts: usize,
    /// Every script that was looked for, to skip it if an `include :once` names it again.
    includes: Vec<Include>,
    /// Those of `includes` of which there is no script.
    missing_includes: Vec<Include>,
    /// How many of `includes` are names of the script that was run first, which `:once` skipped.
    skipped_includes: usize,
    /// The includes whose scripts run now, the innermost last.
    include_stack: Vec<Include>,
    warnings: Vec<Warning>,
}

/// One run of one script.
struct Frame<'s> {
    script: &'s Script,
    /// The values of local variables, by [`VariableId`](crate::ir::VariableId). `None` if the
    /// variable was never set, or is not local.
    locals: Vec<Option<String>>,
    /// The match variables, `${0}` first. Empty before the first match.
    captures: Vec<String>,
    /// The part that is the message for this script, if it was included in a loop (RFC 6609 §3.5).
    /// `None` if it sees the whole message.
    message: Option<NodeId>,
    /// The current part of `foreverypart`, `None` outside of loops.
    part: Option<NodeId>,
}

/// Where the run goes on after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    /// Leaves this number of loops, at least one.
    Break(u8),
    /// Leaves the script.
    Return,
    /// Ends the run.
    Stop,
}

impl Run<'_> {
    /// Runs a script with variables of its own. `message` is the part that takes the place of the
    /// message, if any. Returns `Stop` if the script ended the run, or else `Next`.
    fn script(&mut self, script: &Script, message: Option<NodeId>) -> Result<Flow> {
        let locals = script.variables().len();
        self.count_variables(locals)?;
        self.fuel.bytes(locals)?;
        let mut frame =
            Frame { script, locals: vec![None; locals], captures: Vec::new(), message, part: None };
        let flow = self.block(&mut frame, script.commands())?;
        self.variables = self.variables.saturating_sub(locals);
        Ok(match flow {
            Flow::Stop => Flow::Stop,
            Flow::Next | Flow::Break(_) | Flow::Return => Flow::Next,
        })
    }

    /// Returns the current part of a loop, or else what the script sees as the message.
    fn current_part(&self, frame: &Frame<'_>) -> NodeId {
        frame.part.unwrap_or_else(|| self.seen_message(frame))
    }

    /// Returns what the script sees as the message.
    fn seen_message(&self, frame: &Frame<'_>) -> NodeId {
        frame.message.unwrap_or_else(|| self.message.root())
    }

    /// Runs something that is inside a block or a test. Fails if it is nested too deeply.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        self.within("nested blocks and tests", usize::from(self.depth), u64::from(MAX_DEPTH))?;
        let result = inner(self)?;
        self.depth -= 1;
        Ok(result)
    }

    /// Fails if a number exceeds its limit. `what` is a plural for the error, such as `redirects`.
    fn within(&self, what: &'static str, number: usize, limit: u64) -> Result<()> {
        match number as u64 > limit {
            true => Err(RuntimeErrorKind::LimitExceeded { what, limit }),
            false => Ok(()),
        }
    }

    /// Returns the place of the command or test that runs.
    fn place(&self) -> Place {
        Place { script: self.script_name.clone(), span: self.span }
    }

    fn warn(&mut self, kind: WarningKind) {
        let warning = Warning { place: self.place(), kind };
        if let Some(trace) = &mut self.trace {
            trace.warning(&warning);
        }
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(warning);
        }
    }

    fn trace_assignment(&mut self, name: &str, value: &str) {
        let place = self.trace.is_some().then(|| self.place());
        if let (Some(trace), Some(place)) = (&mut self.trace, place) {
            trace.assignment(&place, name, value);
        }
    }

    fn trace_action(&mut self, action: &Action) {
        let place = self.trace.is_some().then(|| self.place());
        if let (Some(trace), Some(place)) = (&mut self.trace, place) {
            trace.action(&place, action);
        }
    }
}
