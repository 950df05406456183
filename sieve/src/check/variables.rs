//! The variables of a script (RFC 5229 §3, RFC 6609 §3.4).

use std::collections::{HashMap, HashSet};

use super::{Checker, excerpt};
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::Extension;
use crate::ir::{Scope, Variable, VariableId};
use crate::lexer::Token;
use crate::span::Span;

/// The variables that the script has named so far. Names are in lower case.
#[derive(Default)]
pub(super) struct Variables {
    /// In the order in which they were first named. The indices are the ids.
    list: Vec<Variable>,
    ids: HashMap<(Scope, String), VariableId>,
    /// Names declared by `global`.
    globals: HashSet<String>,
    /// Each name without a namespace that is set, with the first place where it is set.
    set: HashMap<String, Span>,
    /// Each variable that is read, with the first place where it is read.
    read: HashMap<VariableId, Span>,
}

impl Variables {
    pub(super) fn into_list(self) -> Vec<Variable> {
        self.list
    }

    /// Returns the local variables that are read and never set, and where they are read, in this
    /// order; those with the same span in the order of their ids.
    pub(super) fn never_set(&self) -> Vec<(String, Span)> {
        let mut read: Vec<_> = self.read.iter().map(|(id, span)| (*span, id.0)).collect();
        read.sort_unstable();
        let unset = read.into_iter().filter_map(|(span, id)| {
            let variable = self.list.get(usize::from(id))?;
            let is_set = variable.scope != Scope::Local || self.set.contains_key(&variable.name);
            (!is_set).then(|| (variable.name.clone(), span))
        });
        unset.collect()
    }

    /// Returns the name of a variable.
    pub(super) fn name(&self, id: VariableId) -> &str {
        self.list.get(usize::from(id.0)).map_or("", |variable| variable.name.as_str())
    }

    /// Returns the variables that are not those of this script alone.
    pub(super) fn shared(&self) -> impl Iterator<Item = VariableId> {
        self.ids.iter().filter(|((scope, _), _)| *scope != Scope::Local).map(|(_, id)| *id)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets all variables but the first `length`.
    pub(super) fn truncate(&mut self, length: usize) {
        self.list.truncate(length);
        self.ids.retain(|_, id| usize::from(id.0) < length);
        self.read.retain(|id, _| usize::from(id.0) < length);
    }
}

/// What a reference such as `${a.b}` names.
pub(super) enum Name<'t> {
    /// The digits of a match variable.
    Capture(&'t str),
    /// A name without a namespace.
    Plain(&'t str),
    /// The namespace, and the rest after its dot.
    InNamespace(&'t str, &'t str),
}

/// Splits the text between `${` and `}` (RFC 5229 §3). Returns `None` if it has not the form of a
/// reference.
pub(super) fn split_name(text: &str) -> Option<Name<'_>> {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        None if is_number(text) => Some(Name::Capture(text)),
        None => is_identifier(text).then_some(Name::Plain(text)),
        Some((namespace, rest)) => {
            let is_valid = is_identifier(namespace)
                && rest.split('.').all(|word| is_number(word) || is_identifier(word));
            is_valid.then_some(Name::InNamespace(namespace, rest))
        }
    }
}

pub(super) fn is_identifier(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Checker<'_> {
    /// Returns the variable of a name without a namespace: a global one if `global` has declared
    /// the name before. `None` if there are too many variables, which is reported.
    pub(super) fn plain_variable(&mut self, name: &str, span: Span) -> Option<VariableId> {
        let name = name.to_ascii_lowercase();
        let scope = match self.variables.globals.contains(&name) {
            true => Scope::Global,
            false => Scope::Local,
        };
        self.variable(scope, name, span)
    }

    /// Returns the variable of a name in a namespace. `None` after an error, which is reported.
    pub(super) fn namespace_variable(
        &mut self,
        namespace: &str,
        name: &str,
        span: Span,
    ) -> Option<VariableId> {
        let is_environment =
            namespace.eq_ignore_ascii_case("env") && self.options.environment_namespace;
        if namespace.eq_ignore_ascii_case("global") {
            self.need(Extension::Include, span, "the namespace `global`");
            if !is_identifier(name) {
                let message = format!("`{}` is no name of a global variable", excerpt(name));
                self.complain(Code::BadVariableName, span, message);
                return None;
            }
            return self.variable(Scope::Global, name.to_ascii_lowercase(), span);
        }
        if is_environment {
            self.need(Extension::Environment, span, "the namespace `env`");
            return self.variable(Scope::Environment, name.to_ascii_lowercase(), span);
        }
        let message = format!("no extension provides the namespace `{}`", excerpt(namespace));
        self.complain(Code::UnknownNamespace, span, message);
        None
    }

    /// Returns the id of a variable, and adds the variable if it is new. `None` if there are too
    /// many variables, which is reported.
    fn variable(&mut self, scope: Scope, name: String, span: Span) -> Option<VariableId> {
        let key = (scope, name);
        if let Some(&id) = self.variables.ids.get(&key) {
            return Some(id);
        }
        let limit = self.options.limits.variables;
        let number = u16::try_from(self.variables.list.len()).ok().filter(|&number| number < limit);
        let Some(number) = number else {
            let message = format!("the script has more than {limit} variables");
            self.complain(Code::TooManyVariables, span, message);
            return None;
        };
        let id = VariableId(number);
        self.variables.list.push(Variable { scope, name: key.1.clone() });
        self.variables.ids.insert(key, id);
        Some(id)
    }

    /// Notes that a variable is read.
    pub(super) fn note_read(&mut self, id: VariableId, span: Span) {
        if self.muted == 0 {
            self.variables.read.entry(id).or_insert(span);
        }
    }

    /// Returns the variable that a command sets, from the string with its name. After an error it
    /// returns any variable; the tree is dropped.
    pub(super) fn variable_to_set(&mut self, token: Token) -> VariableId {
        let placeholder = VariableId(0);
        let Some(name) = self.constant_string(token, "the name of a variable") else {
            return placeholder;
        };
        let span = token.span;
        let found = match split_name(&name) {
            Some(Name::Plain(name)) => {
                let id = self.plain_variable(name, span);
                if self.muted == 0 {
                    self.variables.set.entry(name.to_ascii_lowercase()).or_insert(span);
                }
                id
            }
            Some(Name::InNamespace(namespace, name)) => {
                let id = self.namespace_variable(namespace, name, span);
                let is_environment = id.is_some_and(|id| {
                    let variable = self.variables.list.get(usize::from(id.0));
                    variable.is_some_and(|variable| variable.scope == Scope::Environment)
                });
                if is_environment {
                    let message = "variables of the namespace `env` cannot be set";
                    self.complain(Code::BadVariableName, span, message);
                }
                id
            }
            Some(Name::Capture(_)) => {
                let message = format!("the match variable `{}` cannot be set", excerpt(&name));
                self.complain(Code::MatchVariableNotSettable, span, message);
                None
            }
            None => {
                self.bad_name(&name, span);
                None
            }
        };
        found.unwrap_or(placeholder)
    }

    /// Returns the variables that a test reads, from a list of names. Names with errors are left
    /// out.
    pub(super) fn variables_to_read(&mut self, tokens: &[Token]) -> Vec<VariableId> {
        let mut ids = Vec::new();
        for &token in tokens {
            let Some(name) = self.constant_string(token, "the name of a variable") else {
                continue;
            };
            let id = match split_name(&name) {
                Some(Name::Plain(name)) => self.plain_variable(name, token.span),
                Some(Name::InNamespace(namespace, name)) => {
                    self.namespace_variable(namespace, name, token.span)
                }
                Some(Name::Capture(_)) | None => {
                    self.bad_name(&name, token.span);
                    None
                }
            };
            if let Some(id) = id {
                self.note_read(id, token.span);
                ids.push(id);
            }
        }
        ids
    }

    /// Declares the variables of `global` (RFC 6609 §3.4.1). Reports a name that was set before
    /// this, because it was then a local variable.
    pub(super) fn declare_globals(&mut self, tokens: &[Token]) -> Vec<VariableId> {
        let mut ids = Vec::new();
        for &token in tokens {
            let Some(name) = self.constant_string(token, "the name of a variable") else {
                continue;
            };
            if !is_identifier(&name) {
                self.bad_name(&name, token.span);
                continue;
            }
            let name = name.to_ascii_lowercase();
            if let Some(&first) = self.variables.set.get(&name)
                && !self.variables.globals.contains(&name)
            {
                let message = format!("`{}` was set before it is declared global", excerpt(&name));
                let diagnostic = Diagnostic::new(Code::GlobalAfterUse, token.span, message)
                    .with_related(first, "first set here")
                    .with_help("write `global` before");
                self.report(diagnostic);
            }
            if self.muted == 0 {
                self.variables.globals.insert(name.clone());
            }
            ids.extend(self.variable(Scope::Global, name, token.span));
        }
        ids
    }

    /// Reports a text that cannot name a variable.
    fn bad_name(&mut self, name: &str, span: Span) {
        let name = excerpt(name);
        let mut diagnostic = Diagnostic::new(
            Code::BadVariableName,
            span,
            format!("`{name}` is no name of a variable"),
        );
        if name.starts_with("${") {
            diagnostic = diagnostic.with_help("write the name without `${` and `}`");
        }
        self.report(diagnostic);
    }
}
