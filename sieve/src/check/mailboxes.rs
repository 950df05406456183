//! Mailboxes, flags and metadata entries.

use super::bind::Bound;
use super::strings::{Text, expr, exprs};
use super::{Checker, excerpt};
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::Extension;
use crate::flag::is_flag;
use crate::ir::{Fcc, MailboxArgument, StringExpr, VariableId};
use crate::lexer::Token;
use crate::parser::Node;
use crate::vocabulary::Tag;

impl Checker<'_> {
    /// Checks the mailbox of `fileinto` or `:fcc`: its name, and the tags that belong to it.
    pub(super) fn mailbox(&mut self, bound: &Bound<'_>, name: Option<Text>) -> MailboxArgument {
        if let Some(name) = &name {
            self.check_mailbox_name(name);
        }
        let special_use = self.argument(bound.value(Tag::SpecialUse));
        if let Some(text) = &special_use {
            self.check_special_use(text);
        }
        MailboxArgument {
            name: expr(name),
            id: self.argument(bound.value(Tag::MailboxId)).map(|text| text.expr),
            special_use: special_use.map(|text| text.expr),
            create: bound.has(Tag::Create),
        }
    }

    /// Checks the `:fcc` of a command (RFC 8580 §3). `None` without it.
    pub(super) fn fcc(&mut self, bound: &Bound<'_>) -> Option<Fcc> {
        let name = self.argument(bound.value(Tag::Fcc));
        let to = self.mailbox(bound, name);
        let flags = self.flags_of_tag(bound);
        bound.has(Tag::Fcc).then_some(Fcc { to, flags })
    }

    /// Returns names of mailboxes, and reports those that cannot be names.
    pub(super) fn mailbox_names(&mut self, tokens: &[Token]) -> Vec<StringExpr> {
        let names = self.texts(tokens);
        names.iter().for_each(|name| self.check_mailbox_name(name));
        exprs(names)
    }

    /// Checks the name of a mailbox. Its length is checked only when the script runs.
    fn check_mailbox_name(&mut self, name: &Text) {
        let is_name = |value: &str| !value.is_empty() && !value.chars().any(char::is_control);
        self.check_text(name, Code::BadMailboxName, "name of a mailbox", is_name);
    }

    /// Returns special uses, and reports texts that are none.
    pub(super) fn special_uses(&mut self, tokens: &[Token]) -> Vec<StringExpr> {
        let names = self.texts(tokens);
        names.iter().for_each(|name| self.check_special_use(name));
        exprs(names)
    }

    fn check_special_use(&mut self, text: &Text) {
        let Some(value) = text.constant() else { return };
        let is_atom = |name: &str| is_flag(name) && !name.starts_with('\\');
        if value.strip_prefix('\\').is_some_and(is_atom) {
            return;
        }
        let message = format!("`{}` is no special use", excerpt(value));
        let diagnostic = Diagnostic::new(Code::BadSpecialUse, text.span(), message);
        self.report(match is_atom(value) {
            true => diagnostic.with_help(format!("write `\\\\{value}`")),
            false => diagnostic.with_help("write one such as `\\\\Junk`"),
        });
    }

    /// Returns the strings of a list of flags. With `is_set`, the command sets the flags: then
    /// words that are no flags get a warning, because the run ignores them (RFC 5232 §2). Flags to
    /// remove, and keys of a test, which may be parts of flags, are not checked.
    pub(super) fn flags(&mut self, tokens: &[Token], is_set: bool) -> Vec<Text> {
        let texts = self.texts(tokens);
        for text in texts.iter().filter(|_| is_set) {
            let Some(value) = text.constant() else { continue };
            for word in value.split_ascii_whitespace().filter(|word| !is_flag(word)) {
                let message = format!("`{}` is no flag that can be set", excerpt(word));
                let mut diagnostic = Diagnostic::new(Code::FlagIgnored, text.span(), message);
                let names = ["\\Answered", "\\Flagged", "\\Deleted", "\\Seen", "\\Draft"];
                let name = word.trim_start_matches('\\');
                let meant =
                    self.closest(name, names.iter().map(|name| name.trim_start_matches('\\')));
                if let Some(meant) = meant {
                    diagnostic = diagnostic.with_help(format!("did you mean `\\\\{meant}`?"));
                }
                self.report(diagnostic);
            }
        }
        texts
    }

    /// Returns the flags of `:flags`, `None` without it.
    pub(super) fn flags_of_tag(&mut self, bound: &Bound<'_>) -> Option<Vec<StringExpr>> {
        let tokens = bound.value(Tag::Flags)?.strings();
        Some(exprs(self.flags(tokens, true)))
    }

    /// Returns the variables of `hasflag`, which need the extension `variables` (RFC 5232 §3).
    pub(super) fn flag_variables(&mut self, node: &Node, tokens: &[Token]) -> Vec<VariableId> {
        if !tokens.is_empty() {
            self.need(Extension::Variables, node.name, "a variable for flags");
        }
        self.variables_to_read(tokens)
    }

    /// Returns names of metadata entries, and warns of those that no entry can have (RFC 5464
    /// §3.2).
    pub(super) fn entries(&mut self, tokens: &[Token]) -> Vec<StringExpr> {
        let names = self.texts(tokens);
        for name in &names {
            let Some(value) = name.constant() else { continue };
            let head = value.to_ascii_lowercase();
            if !(head.starts_with("/private/") || head.starts_with("/shared/")) {
                let message = format!("no entry has the name `{}`", excerpt(value));
                let diagnostic = Diagnostic::new(Code::NoEffect, name.span(), message);
                self.report(
                    diagnostic.with_help("names of entries begin with `/private/` or `/shared/`"),
                );
            }
        }
        exprs(names)
    }
}
