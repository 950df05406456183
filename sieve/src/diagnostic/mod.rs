//! What the checker reports of a script.
//!
//! - A [`Diagnostic`] has a [`Code`], which never changes its meaning, and a span in the script.
//! - Every code stands in the table of `code.rs` with one sentence. `tests/diagnostics.rs` writes
//!   the reference `docs/diagnostics.md` from the table.
//! - Renderers: text with the line of the script ([`Diagnostic::text`]), one line
//!   ([`Diagnostic::line`]), JSON ([`json`]), and the text of a `ManageSieve` response
//!   ([`managesieve`]).

mod code;
mod render;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use code::Code;
pub use render::{json, managesieve};

use crate::extension::Extension;
use crate::span::Span;

/// Whether a diagnostic keeps a script from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Warning,
    Error,
}

impl Severity {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of a script, or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    pub span: Span,
    /// What is wrong: one sentence without a full stop. It begins in lower case, unless with a
    /// name.
    pub message: String,
    /// What the author of the script can do.
    pub help: Option<String>,
    /// Other places that explain the diagnostic, such as the first of two equal tags.
    pub related: Vec<(Span, String)>,
    /// The extension that the script must require. Only diagnostics with the codes
    /// [`Code::MissingRequire`] and [`Code::ObsoleteExtension`] have it.
    pub extension: Option<Extension>,
}

impl Diagnostic {
    /// Makes a diagnostic with the [severity of the code](Code::severity).
    #[must_use]
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            span,
            message: message.into(),
            help: None,
            related: Vec::new(),
            extension: None,
        }
    }

    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    #[must_use]
    pub fn with_related(mut self, span: Span, note: impl Into<String>) -> Self {
        self.related.push((span, note.into()));
        self
    }

    #[must_use]
    pub const fn with_extension(mut self, extension: Extension) -> Self {
        self.extension = Some(extension);
        self
    }

    /// Returns the diagnostic as a warning.
    #[must_use]
    pub const fn as_warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self.severity, Severity::Error)
    }
}
