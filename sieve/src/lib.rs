//! A Sieve engine: RFC 5228 with [every extension](Extension) that mail servers and clients use.
//!
//! - [`check()`] makes of the bytes of a script a [`Script`], or [`Diagnostic`]s: all of them at
//!   once, each with its place and as a rule with what to write instead.
//! - [`run()`] makes of a script and a message a [`Plan`]: the actions as data.
//! - The host carries out the plan, all of it or nothing.
//! - [`format()`](format()) lays out a script.
//!
//! The engine reads no file, opens no connection, reads no clock and writes no message. What it
//! needs to know it asks through two traits, [`MessageView`] and [`World`]. Equal inputs and
//! answers give equal results.
//!
//! # Example
//!
//! ```
//! use restante_sieve::plain::{PlainMessage, PlainWorld};
//! use restante_sieve::{
//!     Action, AddressSpec, CompileOptions, Envelope, Identity, Input, LineIndex, RunLimits,
//!     Target, check, run,
//! };
//!
//! // Check, when the script is saved.
//! let source = br#"
//!     require ["fileinto", "imap4flags"];
//!     if header :contains "List-Id" "rust" {
//!         fileinto :flags "\\Seen" "Rust";
//!     }
//! "#;
//! let checked = check(source, &CompileOptions::default());
//! let index = LineIndex::new(source);
//! for diagnostic in &checked.diagnostics {
//!     eprintln!("{}", diagnostic.text(&index, "main"));
//! }
//! let script = checked.script.ok_or("the script has errors")?;
//!
//! // Run, when a message comes. A host has its own `MessageView` and its own `World`.
//! let message = PlainMessage::new("List-Id: <dev.rust.example>\r\nSubject: Hi\r\n\r\nHello\r\n");
//! let envelope =
//!     Envelope { from: "you@example.com", to: "me@example.org", ..Envelope::default() };
//! let addresses = [AddressSpec::new("me", "example.org")];
//! let identity = Identity { addresses: &addresses, display_name: None, separators: "+" };
//! let world = PlainWorld {
//!     now: "2026-12-24T18:00:00Z".parse()?,
//!     mailboxes: vec!["Rust".to_owned()],
//! };
//! let input = Input { message: &message, envelope: &envelope, identity: &identity };
//! let outcome = run(&script, &input, &world, &RunLimits::default(), None);
//!
//! // Carry out the plan.
//! assert_eq!(outcome.error, None);
//! assert!(outcome.plan.implicit_keep.is_none());
//! for action in &outcome.plan.actions {
//!     match action {
//!         Action::Store { to: Target::Mailbox { name, .. }, flags, .. } => {
//!             assert_eq!((name.as_str(), flags.contains("\\Seen")), ("Rust", true));
//!         }
//!         other => unreachable!("{other:?}"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Checking
//!
//! - [`CompileOptions`] say which extensions the site offers, and the limits of a script. An
//!   extension that needs something of the host, such as `spamtest` or `extlists`, is offered only
//!   if the host has it.
//! - A script with an error is not used. A script with warnings is: what a warning says is for its
//!   author.
//! - A diagnostic has a [`Code`], which never changes its meaning. The reference of all codes is
//!   `docs/diagnostics.md` in the package; [`Code::explanation`] has its sentences.
//! - Diagnostics are rendered [with the line of the script](Diagnostic::text),
//!   [as one line](Diagnostic::line), [as JSON](diagnostic::json), and
//!   [for a `ManageSieve` response](diagnostic::managesieve).
//! - Whether included scripts exist only the host knows ([`Script::includes`]). It reports a
//!   missing one as a warning with [`Code::IncludeNotFound`] (RFC 6609 §3.2).
//! - A [`Script`] is serialised with serde. It is a cache of its source: a script of another
//!   [`ir::FORMAT`] is refused, and the source is checked again.
//!
//! # Running
//!
//! - [`Script::uses`] says what a run may ask, so that a host loads nothing else.
//! - The whole script runs before anything is done (RFC 5228 §2.10.6). A run that fails has the
//!   plan to keep the message ([`Plan::keep_only`]) and an [error](RuntimeError) with its place; if
//!   [`is_temporary`](RuntimeErrorKind::is_temporary), the host may try again later instead.
//! - [`RunLimits`] bound work, memory and actions. Work is counted, not timed, so that a run that
//!   ends always ends.
//! - A [`Trace`] sees every command, test and action, to show why a message went where it did.
//!
//! # Carrying out a plan
//!
//! - A plan refers to mailboxes that exist or are to be created, and to [versions](MessageEdits) of
//!   the message as differences from the message as received.
//! - The host decides whether a [vacation response](VacationIntent) is sent: it knows who was
//!   answered, and which messages are never answered (RFC 3834).
//! - A [`MarkDuplicate`](Action::MarkDuplicate) is recorded together with the other actions, so
//!   that a delivery that fails is no duplicate (RFC 7352 §3).
//! - The number of redirects is set in two places, [`CompileLimits::redirects`] and
//!   [`RunLimits::redirects`], which a host keeps equal.
//!
//! # What it is not
//!
//! It stores no scripts, parses no MIME, sends no mail, and speaks neither `ManageSieve` nor JMAP.

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
pub use pattern::PatternCache;
pub use plan::{
    Action, DeliverByIntent, DupKey, Enclosure, FccIntent, HeaderEdits, HeaderField, ImplicitKeep,
    MessageEdits, NotifyIntent, PartReplacement, Plan, RedirectIntent, RedirectTarget, Target,
    VacationBody, VacationIntent, Version,
};
pub use run::run;
pub use span::{LineIndex, Position, Span};
pub use vacation::{Period, VacationHandle};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
