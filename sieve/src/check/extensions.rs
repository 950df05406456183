//! `require`, and the extensions that words need.

use super::Checker;
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::{Extension, ExtensionSet};
use crate::lexer::Token;
use crate::options::MissingRequire;
use crate::parser::Node;
use crate::span::Span;

/// Extensions that were replaced, and by what.
const OBSOLETE: [(&str, Extension); 2] =
    [("imapflags", Extension::Imap4Flags), ("notify", Extension::ENotify)];

impl Checker<'_> {
    /// Notes that a word uses an extension. If the extension is not in effect, it is reported once
    /// in a script, and brought into effect here. `what` is the word, for the message.
    pub(super) fn need(&mut self, extension: Extension, span: Span, what: &str) {
        self.note_use(extension);
        if self.flow.extensions.contains(extension) || self.muted > 0 {
            return;
        }
        if !self.missing.contains(extension) {
            self.missing = self.missing.with(extension);
            if self.is_allowed(extension) {
                let message = format!("{what} needs `require \"{extension}\"`");
                let diagnostic = Diagnostic::new(Code::MissingRequire, span, message)
                    .with_extension(extension)
                    .with_help(format!("add `require \"{extension}\";` at the top"));
                self.report(match self.options.missing_require {
                    MissingRequire::Error => diagnostic,
                    MissingRequire::Warning => diagnostic.as_warning(),
                });
            } else {
                let message = format!("{what} needs `{extension}`, which is not offered here");
                self.complain(Code::ExtensionNotAllowed, span, message);
            }
        }
        self.enable(extension);
    }

    /// Notes that an extension is used, so that its `require` gets no warning.
    pub(super) fn note_use(&mut self, extension: Extension) {
        if self.muted == 0 {
            self.used = self.used.with(extension);
        }
    }

    /// Brings an extension into effect, with those that it implies.
    fn enable(&mut self, extension: Extension) {
        self.flow.extensions.require(extension);
        if self.muted == 0 {
            self.enabled.require(extension);
        }
    }

    /// Returns whether the site offers an extension. The comparators of the base language are
    /// always offered.
    fn is_allowed(&self, extension: Extension) -> bool {
        let is_base =
            matches!(extension, Extension::ComparatorOctet | Extension::ComparatorAsciiCasemap);
        is_base || self.options.allowed.contains(extension)
    }

    /// Checks the names of a `require` (RFC 5228 §3.2), and brings the extensions into effect.
    /// Those that are not offered are reported, and are in effect too, so that their uses get no
    /// reports.
    pub(super) fn require(&mut self, node: &Node, tokens: &[Token]) {
        if self.is_past_require {
            let message = "`require` must stand before all other commands";
            self.complain(Code::RequireNotFirst, node.name, message);
        }
        let tokens = tokens.iter().filter(|token| !self.is_broken(**token));
        let names: Vec<_> = tokens.map(|&token| (self.raw(token), token.span)).collect();
        for (name, span) in &names {
            match Extension::from_name(name) {
                Some(extension) if self.is_allowed(extension) => {
                    // A second `require` has no effect, unless the first one stood in a block that
                    // has ended, which was reported.
                    if self.flow.extensions.contains(extension)
                        && self.required.iter().any(|(other, _)| *other == extension)
                    {
                        continue;
                    }
                    self.required.push((extension, *span));
                    self.enable(extension);
                }
                Some(extension) => {
                    let message = format!("the extension `{extension}` is not offered here");
                    self.complain(Code::ExtensionNotAllowed, *span, message);
                    self.missing = self.missing.with(extension);
                    self.enable(extension);
                }
                None => self.unknown_extension(name, *span, &names),
            }
        }
    }

    /// Reports a name that is no extension, or an obsolete one. `all` are the names of the same
    /// `require`.
    fn unknown_extension(&mut self, name: &str, span: Span, all: &[(String, Span)]) {
        let shown = super::excerpt(name);
        if let Some((_, successor)) = OBSOLETE.iter().find(|(obsolete, _)| *obsolete == name) {
            // A rival is searched for once for each successor, so that the work stays linear.
            let is_new = !self.missing.contains(*successor);
            let rival = all
                .iter()
                .map(|(name, span)| (name.as_str(), *span))
                .chain(self.required.iter().map(|(extension, span)| (extension.name(), *span)))
                .take_while(|_| is_new)
                .find(|(name, _)| *name == successor.name())
                .map(|(_, span)| span);
            self.missing = self.missing.with(*successor);
            if let Some(rival) = rival {
                let message = format!("`{shown}` and `{successor}` cannot be used together");
                let diagnostic = Diagnostic::new(Code::ConflictingExtensions, span, message)
                    .with_related(rival, "required here");
                self.report(diagnostic.with_help(format!("remove `{shown}`")));
                return;
            }
            let message = format!("`{shown}` was replaced by `{successor}`");
            let diagnostic = Diagnostic::new(Code::ObsoleteExtension, span, message)
                .with_extension(*successor)
                .with_help(format!("write `{successor}`"));
            self.report(match self.options.missing_require {
                MissingRequire::Error => diagnostic,
                MissingRequire::Warning => diagnostic.as_warning(),
            });
            self.note_use(*successor);
            self.enable(*successor);
            return;
        }
        let message = match name.contains("${") {
            true => {
                let message = format!("`{shown}` is a constant here: variables are not expanded");
                self.complain(Code::RequireNotConstant, span, message);
                return;
            }
            false => format!("there is no extension `{shown}`"),
        };
        let mut diagnostic = Diagnostic::new(Code::UnknownExtension, span, message);
        if let Some(meant) = self.closest(name, Extension::ALL.iter().map(|one| one.name())) {
            diagnostic = diagnostic.with_help(format!("did you mean `{meant}`?"));
            if let Some(extension) = Extension::from_name(meant) {
                // So that the words that need it are not reported as well.
                self.missing = self.missing.with(extension);
                self.enable(extension);
            }
        }
        self.report(diagnostic);
    }

    /// Returns the extensions that an `ihave` names, with those that they imply. `None` if the site
    /// does not offer one of them. `None` also if one changes how strings are read and is not in
    /// effect: `ihave` cannot enable it (RFC 5463 §4).
    pub(super) fn available(&self, names: &[String]) -> Option<ExtensionSet> {
        let mut set = ExtensionSet::EMPTY;
        for name in names {
            let extension = Extension::from_name(name).filter(|&one| self.is_allowed(one))?;
            let changes_strings =
                matches!(extension, Extension::Variables | Extension::EncodedCharacter);
            if changes_strings && !self.flow.extensions.contains(extension) {
                return None;
            }
            set.require(extension);
        }
        Some(set)
    }

    /// Notes the extensions that an `ihave` brings into effect.
    pub(super) fn note_available(&mut self, set: ExtensionSet) {
        if self.muted == 0 {
            self.enabled = self.enabled.union(set);
        }
    }
}
