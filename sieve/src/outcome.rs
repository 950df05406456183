//! What a run returns, and what an observer sees of it.

use serde::Serialize;

use crate::host::HostError;
use crate::ir::{Command, Test};
use crate::plan::{Action, Plan};
use crate::span::Span;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// With an error, [`Plan::keep_only`].
    pub plan: Plan,
    pub error: Option<RuntimeError>,
    /// What did not go as the script says, in the order in which it happened: the first 100
    /// warnings.
    pub warnings: Vec<Warning>,
    /// In units of [`RunLimits::fuel`](crate::RunLimits::fuel), rounded up.
    pub fuel_used: u64,
}

/// A place in a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The name of the included script, `None` for the script that was passed to
    /// [`run`](crate::run()).
    pub script: Option<String>,
    /// The command or test.
    pub span: Span,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct RuntimeError {
    pub place: Place,
    pub kind: RuntimeErrorKind,
}

/// The ways in which a run can fail. The text is for the owner of the script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeErrorKind {
    #[error("the script takes too much work")]
    OutOfFuel,
    /// `what` is a plural, such as `redirects`.
    #[error("more than {limit} {what}")]
    LimitExceeded { what: &'static str, limit: u64 },
    /// The command `second` cannot be executed, because `first` was executed before it, at
    /// `first_place` (RFC 5228 §2.10.4).
    #[error("`{second}` cannot be used with `{first}`")]
    IncompatibleActions { first: &'static str, first_place: Place, second: &'static str },
    /// The message of the `error` command (RFC 5463 §5).
    #[error("{0}")]
    Script(String),
    #[error("`{0}` is no email address")]
    BadAddress(String),
    #[error("`{0}` is no name of a mailbox")]
    BadMailboxName(String),
    #[error("`{name}` is no name of a header field")]
    BadFieldName { name: String },
    #[error("the regular expression `{pattern}` is not usable: {reason}")]
    BadRegex { pattern: String, reason: String },
    /// A word that variables made has no meaning where it stands, for example as a part of a date;
    /// or the host has no external list of this name.
    #[error("`{word}` is no {expected}")]
    UnknownWord { word: String, expected: &'static str },
    #[error("the text is no MIME entity")]
    BadMimeEntity,
    #[error("notifications by `{0}` are not possible")]
    BadNotifyMethod(String),
    #[error("there is no script `{0}`")]
    IncludeNotFound(String),
    #[error("the script `{0}` includes itself")]
    IncludeLoop(String),
    #[error("the command cannot edit a message that was enclosed")]
    EditOfEnclosure,
    /// The host could not answer. The script may be right.
    #[error("{0}")]
    Host(#[from] HostError),
}

impl RuntimeErrorKind {
    /// Returns whether the host failed, so that the same run may succeed later.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Host(_))
    }
}

/// Something that did not go as the script says, while the run went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub place: Place,
    pub kind: WarningKind,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WarningKind {
    #[error("there is no mailbox `{name}`: the Inbox takes its place")]
    MailboxNotFound { name: String },
    #[error("the mailbox `{name}` accepts no mail: the Inbox takes its place")]
    MailboxRefused { name: String },
    #[error("the message was redirected too often: it is not sent on again")]
    RedirectLoop,
    #[error("the message is redirected to `{0}` already")]
    RedirectRepeated(String),
    #[error("`{0}` is no flag: it is ignored")]
    FlagIgnored(String),
    /// `addheader` or `deleteheader` names a protected field, and is ignored. Or `deleteheader`
    /// would delete a field that `replace` has kept or that the host makes: this field stays, and
    /// other fields of the name are deleted.
    #[error("the field `{name}` must not be edited: it stays as it is")]
    FieldProtected { name: String },
    #[error("`{0}` is no address: it is ignored")]
    AddressIgnored(String),
    #[error("the variable `{name}` was cut to {limit} bytes")]
    VariableCut { name: String, limit: u32 },
}

/// Observes a run. Every method has a default that does nothing.
///
/// ```
/// use restante_sieve::ir::Test;
/// use restante_sieve::{Place, Trace};
///
/// /// The places of the tests that were true.
/// #[derive(Default)]
/// struct TrueTests(Vec<Place>);
///
/// impl Trace for TrueTests {
///     fn test(&mut self, place: &Place, _test: &Test, result: bool) {
///         if result {
///             self.0.push(place.clone());
///         }
///     }
/// }
/// ```
///
/// A `&mut TrueTests` is then the last argument of [`run()`](crate::run()), in `Some`.
pub trait Trace {
    /// A command is about to run.
    fn command(&mut self, _place: &Place, _command: &Command) {}

    /// A test was evaluated. The tests inside it are reported before it, if they were evaluated.
    fn test(&mut self, _place: &Place, _test: &Test, _result: bool) {}

    /// A variable has a new value. Match variables are named by their number. The internal variable
    /// of flags is not reported.
    fn assignment(&mut self, _place: &Place, _name: &str, _value: &str) {}

    /// An action joins the plan, or replaces an earlier store into the same mailbox. The implicit
    /// keep and records of the `duplicate` test are not reported.
    fn action(&mut self, _place: &Place, _action: &Action) {}

    /// Every warning is reported, also those that [`Outcome::warnings`] leaves out.
    fn warning(&mut self, _warning: &Warning) {}
}
