//! A Sieve engine (RFC 5228 and its extensions).
//!
//! Stages, each a function of its input:
//!
//! 1. [`check()`]: the bytes of a script become a [`Script`], or [`Diagnostic`]s: all of them at
//!    once, each with its place.
//! 2. [`run()`]: a [`Script`] and a message become a [`Plan`] ([`Outcome`]).
//! 3. The host carries out the plan, all of it or nothing.
//!
//! The engine reads no file, opens no connection, reads no clock and writes no message: what it
//! needs to know it asks through [`MessageView`] and [`World`].

mod address;
mod address_list;
mod check;
pub mod diagnostic;
mod diagnostics;
mod extension;
mod flag;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod host;
pub mod ir;
mod lexer;
mod message;
mod options;
mod outcome;
mod parser;
mod pattern;
pub mod plain;
mod plan;
mod run;
mod span;
mod vacation;
mod vocabulary;

pub use address::AddressSpec;
pub use address_list::parse_address_list;
pub use check::check;
pub use diagnostic::{Code, Diagnostic, Severity};
pub use extension::{Comparator, Extension, ExtensionSet};
pub use flag::{FlagSet, is_flag};
pub use format::format;
pub use host::{
    DeliverByParameter, DsnParameters, Envelope, HostError, Identity, Input, MailboxRef,
    MailboxSelector, Scan, World,
};
pub use ir::Script;
pub use message::{
    AddressEntry, Field, MessageView, NamedAddress, ParameterisedValue, Part, PartId,
};
pub use options::{
    Checked, CompileLimits, CompileOptions, MAX_REDIRECTS, MissingRequire, PROTECTED_FIELDS,
    RunLimits,
};
pub use outcome::{Outcome, Place, RuntimeError, RuntimeErrorKind, Trace, Warning, WarningKind};
pub use plan::{
    Action, DeliverByIntent, DupKey, Enclosure, FccIntent, HeaderEdits, HeaderField, ImplicitKeep,
    MessageEdits, NotifyIntent, PartReplacement, Plan, RedirectIntent, RedirectTarget, Target,
    VacationBody, VacationIntent, Version,
};
pub use run::run;
pub use span::{LineIndex, Position, Span};
pub use vacation::{Period, VacationHandle};
