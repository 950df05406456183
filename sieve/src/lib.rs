//! A Sieve engine: RFC 5228 with the [extensions](Extension) for mail that is being delivered.
//!
//! - [`check()`] turns the bytes of a script into a [`Script`]. It reports all errors and warnings
//!   at once, up to a limit, as [`Diagnostic`]s with their places. If one is an error, there is no
//!   script.
//! - [`run()`] runs a script on a message and returns a [`Plan`]: the actions as data.
//! - The host carries out the plan, all of it or nothing.
//! - [`format()`](format()) lays out a script.
//!
//! The engine reads no file, opens no connection, reads no clock and writes no message. What its
//! arguments do not say, it asks through two traits, [`MessageView`] and [`World`]. Equal arguments
//! and answers give equal results.
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
//! - A script with an error cannot be used. Warnings are hints for its author; they do not keep a
//!   script from being used.
//! - A diagnostic has a [`Code`], which never changes its meaning. The reference of all codes is
//!   `docs/diagnostics.md` in the package; its sentences come from [`Code::explanation`].
//! - Diagnostics are rendered [with the line of the script](Diagnostic::text),
//!   [as one line](Diagnostic::line), [as JSON](diagnostic::json), and
//!   [for a `ManageSieve` response](diagnostic::managesieve).
//! - The check does not look for the scripts that a script includes ([`Script::includes`]). The
//!   host looks for them and adds a warning with [`Code::IncludeNotFound`] for each that is missing
//!   (RFC 6609 §3.2).
//! - A host may store a [`Script`], which serde serialises, to spare later checks. A stored script
//!   of another [`ir::FORMAT`] fails to deserialise; the host then checks the source again.
//!
//! # Running
//!
//! - [`Script::uses`] lists what the script contains, so that a host can prepare only that.
//!   Included scripts have lists of their own.
//! - The whole script runs before anything is done (RFC 5228 §2.10.6). A run that fails returns an
//!   [error](RuntimeError) with its place, and the plan to keep the message ([`Plan::keep_only`]).
//!   If the error [is temporary](RuntimeErrorKind::is_temporary), the host may run the script again
//!   later instead of carrying out that plan.
//! - [`RunLimits`] bound work, memory and actions. Work is counted, not timed, so that equal runs
//!   end in the same way on every machine.
//! - A [`Trace`] observes the commands, tests and actions of a run as they happen, to show why a
//!   message went where it did.
//!
//! # Carrying out a plan
//!
//! - A plan refers to mailboxes that exist or are to be created, and to [versions](MessageEdits) of
//!   the message as differences from the message as received.
//! - The host decides whether a [vacation response](VacationIntent) is sent: it knows who was
//!   answered, and which messages are never answered (RFC 3834).
//! - A [`MarkDuplicate`](Action::MarkDuplicate) is recorded together with the other actions, so
//!   that a delivery that fails is no duplicate (RFC 7352 §3).
//! - The limit of redirects is set in two places, [`CompileLimits::redirects`] and
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
pub use message::{Field, MessageView, ParameterisedValue, Part, PartId};
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
