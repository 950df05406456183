//! Checks a script: reports every error at once, and makes the typed tree.
//!
//! - It is driven by the table of commands, tests and tags (`vocabulary`): `bind` gives each
//!   argument of the source its place in the table, the other modules say what arguments mean.
//! - A word with wrong arguments still gives a piece of the tree, with placeholders, so that the
//!   rest is checked. The tree is dropped if there is an error.
//! - Which extensions are in effect depends on the place in the script, since `ihave` brings some
//!   into effect (RFC 5463 §4). Commands that cannot run because of the result of an `ihave` are
//!   read without reports, and left out of the tree.
//! - The work is linear in the source, but for regular expressions, whose number and size are
//!   bounded.

mod bind;
mod commands;
mod comparison;
mod conditions;
mod edits;
mod extensions;
mod flow;
mod loops;
mod mail;
mod mailboxes;
mod message_tests;
mod origins;
mod strings;
mod suggest;
mod values;
mod variables;

use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostics::Diagnostics;
use crate::extension::{Extension, ExtensionSet};
use crate::ir::Script;
use crate::options::{Checked, CompileLimits, CompileOptions};
use crate::parser;
use crate::span::Span;
use flow::Flow;
use origins::Origins;
use variables::Variables;

/// Checks the source of a script.
///
/// - It never fails: every defect of the source is a [`Diagnostic`].
/// - There is a script exactly if no diagnostic is an error.
/// - Diagnostics are in the order of their spans. If there are more than
///   [`CompileLimits::diagnostics`](crate::CompileLimits), warnings are left out before errors, and
///   one more at the end says so.
///
/// ```
/// use restante_sieve::{CompileOptions, LineIndex, check};
///
/// let source = b"if size :over 1MB { discard; }\nkep;\n";
/// let checked = check(source, &CompileOptions::default());
/// assert!(checked.script.is_none());
/// let index = LineIndex::new(source);
/// let lines: Vec<_> = checked.diagnostics.iter().map(|one| one.line(&index)).collect();
/// assert_eq!(lines.len(), 2);
/// assert!(lines[1].starts_with("line 2, column 1: error: there is no command `kep`"));
/// ```
#[must_use]
pub fn check(source: &[u8], options: &CompileOptions) -> Checked {
    let mut diagnostics = Diagnostics::new(options.limits.diagnostics);
    check_bytes(source, &options.limits, &mut diagnostics);
    if source.len() > options.limits.script as usize {
        return Checked { script: None, diagnostics: diagnostics.into_sorted(Span::at(0)) };
    }
    let nodes = parser::parse(source, &options.limits, &mut diagnostics);
    let mut checker = Checker::new(source, options, diagnostics);
    let (commands, _) = checker.block(&nodes, true);
    checker.finish();
    let Checker { diagnostics, variables, enabled, .. } = checker;
    let script = (!diagnostics.has_errors())
        .then(|| Script::new(source, enabled, variables.into_list(), commands));
    let end = Span::of_range(source.len()..source.len());
    Checked { script, diagnostics: diagnostics.into_sorted(end) }
}

/// Reports bytes that no script may have: those that are not UTF-8, and NUL. If the source has too
/// many bytes, only that is reported.
pub(crate) fn check_bytes(source: &[u8], limits: &CompileLimits, diagnostics: &mut Diagnostics) {
    if source.len() > limits.script as usize {
        let message =
            format!("the script has {} bytes, and the limit is {}", source.len(), limits.script);
        diagnostics.push(Diagnostic::new(Code::ScriptTooLong, Span::at(0), message));
        return;
    }
    let mut start = 0;
    for chunk in source.utf8_chunks() {
        let invalid = start + chunk.valid().len();
        start = invalid + chunk.invalid().len();
        if start > invalid {
            let span = Span::of_range(invalid..start);
            let diagnostic = Diagnostic::new(Code::InvalidUtf8, span, "these bytes are not UTF-8");
            diagnostics.push(diagnostic.with_help("save the script as UTF-8"));
        }
    }
    for position in memchr::memchr_iter(0, source) {
        let span = Span::of_range(position..position + 1);
        diagnostics.push(Diagnostic::new(Code::NulByte, span, "a script must not contain NUL"));
    }
}

struct Checker<'a> {
    source: &'a [u8],
    options: &'a CompileOptions,
    diagnostics: Diagnostics,
    /// How many of the parts of the script around the current place are read without reports, since
    /// they never run because of an `ihave`, or since they follow an `else`. Nothing is reported
    /// unless it is 0.
    muted: u32,
    /// What holds at the place that is checked.
    flow: Flow,
    /// The extensions that `require` names, and where.
    required: Vec<(Extension, Span)>,
    /// The extensions that the script uses.
    used: ExtensionSet,
    /// The extensions in effect anywhere in the script.
    enabled: ExtensionSet,
    /// The extensions whose lack was reported: no second report is needed.
    missing: ExtensionSet,
    variables: Variables,
    origins: Origins,
    /// The loops around the current command, the innermost last: the name of each, if it has one.
    loops: Vec<Option<String>>,
    /// How many constant regular expressions were found so far.
    regexes: usize,
    /// The bytes of the programs of those that were compiled.
    program_bytes: usize,
    /// For how many words a suggestion was sought so far.
    suggestions: u32,
    /// Edits that break a signature, with the message of the warning. They are reported at the end
    /// if the script redirects.
    edits: Vec<(Span, String)>,
    has_redirect: bool,
    /// Whether something other than `require` was read.
    is_past_require: bool,
}

impl<'a> Checker<'a> {
    fn new(source: &'a [u8], options: &'a CompileOptions, diagnostics: Diagnostics) -> Self {
        Self {
            source,
            options,
            diagnostics,
            muted: 0,
            flow: Flow::default(),
            required: Vec::new(),
            used: ExtensionSet::EMPTY,
            enabled: ExtensionSet::EMPTY,
            missing: ExtensionSet::EMPTY,
            variables: Variables::default(),
            origins: Origins::default(),
            loops: Vec::new(),
            regexes: 0,
            program_bytes: 0,
            suggestions: 0,
            edits: Vec::new(),
            has_redirect: false,
            is_past_require: false,
        }
    }

    /// Adds a diagnostic, unless `muted` forbids it.
    fn report(&mut self, diagnostic: Diagnostic) {
        if self.muted == 0 {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Reports a diagnostic that has only a code, a span and a message.
    fn complain(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::new(code, span, message));
    }

    /// Warns of what only the end of the script shows. It does nothing if the script has errors:
    /// they may hide that something is used.
    fn finish(&mut self) {
        if self.diagnostics.has_errors() {
            return;
        }
        for (extension, span) in std::mem::take(&mut self.required) {
            let family = extension.implied().with(extension);
            if self.used.intersection(family).is_empty() {
                let message = format!("`{extension}` is required and not used");
                self.complain(Code::UnusedRequire, span, message);
            }
        }
        for (name, span) in self.variables.never_set() {
            let message = format!("the variable `{}` is never set, so it is empty", excerpt(&name));
            self.complain(Code::VariableNotSet, span, message);
        }
        self.check_methods();
        if self.has_redirect {
            for (span, message) in std::mem::take(&mut self.edits) {
                let help = "a receiver of the redirected message may take it for forged";
                let diagnostic = Diagnostic::new(Code::SignatureBroken, span, message);
                self.report(diagnostic.with_help(help));
            }
        }
    }

    /// Returns the text of a span for a message, cut as [`excerpt`] cuts it.
    fn excerpt(&self, span: Span) -> String {
        excerpt(&String::from_utf8_lossy(span.of(self.source)))
    }
}

/// Returns a text for a message, cut after 48 characters.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(48) {
        Some((end, _)) => format!("{}\u{2026}", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
