//! What a script contains, for the host, and the walk over its tree.

use serde::{Deserialize, Serialize};

use super::{Command, CommandKind, Comparison, MatchType, Scope, Test, TestKind, Variable};

/// What a script contains. A flag is true if a command or test in any branch is of its kind.
/// Included scripts have flags of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Uses {
    /// Tests and commands about the body of the message or its parts, also about their headers.
    pub body: bool,
    /// `date` and `currentdate`. Other commands and tests may ask for the time and the zone too.
    pub date: bool,
    /// `duplicate`, which asks for records of earlier messages.
    pub duplicate: bool,
    /// `fileinto`, `:fcc`, and tests of whether mailboxes exist.
    pub mailboxes: bool,
    /// Tests of the metadata of the server or of mailboxes, which they look up by name.
    pub metadata: bool,
    /// `environment`, or variables of the namespace `env`.
    pub environment: bool,
    /// Results of a spam or virus scanner.
    pub scan: bool,
    /// External lists, in tests or as targets of `redirect`.
    pub lists: bool,
    /// `notify` and its tests.
    pub notify: bool,
    pub vacation: bool,
    pub redirect: bool,
    pub reject: bool,
    /// Edits of the header, replaced parts, or enclosure.
    pub edits: bool,
    pub include: bool,
}

impl Uses {
    pub(super) fn of(commands: &[Command], variables: &[Variable]) -> Self {
        let environment = variables.iter().any(|one| one.scope == Scope::Environment);
        let mut uses = Self { environment, ..Self::default() };
        walk(commands, &mut |node| match node {
            Node::Command(command) => uses.add_command(&command.kind),
            Node::Test(test) => uses.add_test(&test.kind),
        });
        uses
    }

    /// Returns the flags of both, such as those of a script and of one that it includes.
    #[must_use]
    pub const fn union(&self, other: &Self) -> Self {
        Self {
            body: self.body | other.body,
            date: self.date | other.date,
            duplicate: self.duplicate | other.duplicate,
            mailboxes: self.mailboxes | other.mailboxes,
            metadata: self.metadata | other.metadata,
            environment: self.environment | other.environment,
            scan: self.scan | other.scan,
            lists: self.lists | other.lists,
            notify: self.notify | other.notify,
            vacation: self.vacation | other.vacation,
            redirect: self.redirect | other.redirect,
            reject: self.reject | other.reject,
            edits: self.edits | other.edits,
            include: self.include | other.include,
        }
    }

    fn add_command(&mut self, kind: &CommandKind) {
        match kind {
            CommandKind::FileInto(_) => self.mailboxes = true,
            CommandKind::Redirect(redirect) => {
                self.redirect = true;
                self.lists |= matches!(redirect.to, super::RedirectTo::List(_));
            }
            CommandKind::Reject { .. } => self.reject = true,
            CommandKind::Vacation(vacation) => {
                self.vacation = true;
                self.mailboxes |= vacation.fcc.is_some();
            }
            CommandKind::Notify(notify) => {
                self.notify = true;
                self.mailboxes |= notify.fcc.is_some();
            }
            CommandKind::AddHeader { .. } => self.edits = true,
            CommandKind::DeleteHeader(delete) => {
                self.edits = true;
                delete.comparison.iter().for_each(|comparison| self.add_comparison(comparison));
            }
            CommandKind::Replace(_) | CommandKind::Enclose(_) => {
                self.edits = true;
                self.body = true;
            }
            CommandKind::ForEveryPart { .. } | CommandKind::ExtractText(_) => self.body = true,
            CommandKind::Include(_) => self.include = true,
            CommandKind::If(_)
            | CommandKind::Stop
            | CommandKind::Keep { .. }
            | CommandKind::Discard
            | CommandKind::Set { .. }
            | CommandKind::Flags { .. }
            | CommandKind::Return
            | CommandKind::Global { .. }
            | CommandKind::Break { .. }
            | CommandKind::Error { .. } => {}
        }
    }

    fn add_test(&mut self, kind: &TestKind) {
        if let Some(comparison) = kind.comparison() {
            self.add_comparison(comparison);
        }
        match kind {
            TestKind::Address(test) => self.body |= test.mime.is_some(),
            TestKind::Header(test) => self.body |= test.mime.is_some(),
            TestKind::Exists { mime, .. } => self.body |= mime.is_some(),
            TestKind::Body { .. } => self.body = true,
            TestKind::Date(_) | TestKind::CurrentDate { .. } => self.date = true,
            TestKind::Environment { .. } => self.environment = true,
            TestKind::Duplicate(_) => self.duplicate = true,
            TestKind::SpamTest { .. } | TestKind::VirusTest { .. } => self.scan = true,
            TestKind::MailboxExists { .. }
            | TestKind::SpecialUseExists { .. }
            | TestKind::MailboxIdExists { .. } => self.mailboxes = true,
            TestKind::Metadata { .. }
            | TestKind::MetadataExists { .. }
            | TestKind::ServerMetadata { .. }
            | TestKind::ServerMetadataExists { .. } => self.metadata = true,
            TestKind::ValidNotifyMethod { .. } | TestKind::NotifyMethodCapability { .. } => {
                self.notify = true;
            }
            TestKind::ValidExtList { .. } => self.lists = true,
            TestKind::True
            | TestKind::False
            | TestKind::Not(_)
            | TestKind::AllOf(_)
            | TestKind::AnyOf(_)
            | TestKind::Envelope(_)
            | TestKind::Size(_)
            | TestKind::String { .. }
            | TestKind::HasFlag { .. }
            | TestKind::IHave { .. } => {}
        }
    }

    fn add_comparison(&mut self, comparison: &Comparison) {
        self.lists |= comparison.match_type == MatchType::List;
    }
}

impl TestKind {
    /// Returns the comparison of a test that has one.
    #[must_use]
    pub fn comparison(&self) -> Option<&Comparison> {
        match self {
            Self::Address(test) => Some(&test.comparison),
            Self::Header(test) => Some(&test.comparison),
            Self::Envelope(test) => Some(&test.comparison),
            Self::Date(test) => Some(&test.comparison),
            Self::String { comparison, .. }
            | Self::HasFlag { comparison, .. }
            | Self::Body { comparison, .. }
            | Self::CurrentDate { comparison, .. }
            | Self::Environment { comparison, .. }
            | Self::SpamTest { comparison, .. }
            | Self::VirusTest { comparison }
            | Self::Metadata { comparison, .. }
            | Self::ServerMetadata { comparison, .. }
            | Self::NotifyMethodCapability { comparison, .. } => Some(comparison),
            _ => None,
        }
    }
}

/// A command or a test, as [`walk`] finds it.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    Command(&'a Command),
    Test(&'a Test),
}

/// Calls a function with every command and test, in the order of the source: a command or test
/// comes before the tests and blocks in it.
pub fn walk<'a>(commands: &'a [Command], visit: &mut dyn FnMut(Node<'a>)) {
    for command in commands {
        visit(Node::Command(command));
        match &command.kind {
            CommandKind::If(condition) => {
                for branch in &condition.branches {
                    walk_test(&branch.test, visit);
                    walk(&branch.block, visit);
                }
                walk(condition.otherwise.as_deref().unwrap_or_default(), visit);
            }
            CommandKind::ForEveryPart { block } => walk(block, visit),
            _ => {}
        }
    }
}

fn walk_test<'a>(test: &'a Test, visit: &mut dyn FnMut(Node<'a>)) {
    visit(Node::Test(test));
    match &test.kind {
        TestKind::Not(inner) => walk_test(inner, visit),
        TestKind::AllOf(tests) | TestKind::AnyOf(tests) => {
            tests.iter().for_each(|test| walk_test(test, visit));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Branch, FileInto, If, Include, Location, MailboxArgument, Script, Segment, StringExpr,
        Variable, VariableId,
    };
    use super::*;
    use crate::extension::{Comparator, Extension, ExtensionSet};
    use crate::span::Span;

    fn command(kind: CommandKind) -> Command {
        Command { span: Span::new(1, 2), kind }
    }

    fn test(kind: TestKind) -> Test {
        Test { span: Span::new(3, 4), kind }
    }

    fn script() -> Script {
        let include =
            Include { location: Location::Global, name: "x".into(), once: true, optional: false };
        let list = Comparison {
            comparator: Comparator::Octet,
            match_type: MatchType::List,
            keys: vec!["tag:example.org,2026:friends".into()],
        };
        let name = StringExpr::Template(vec![
            Segment::Literal("Lists/".into()),
            Segment::Variable(VariableId(0)),
            Segment::Capture(1),
        ]);
        let to = MailboxArgument { name, id: None, special_use: None, create: true };
        let inner = test(TestKind::String { sources: vec!["a".into()], comparison: list });
        let block = vec![
            command(CommandKind::Include(include)),
            command(CommandKind::FileInto(Box::new(FileInto { to, copy: false, flags: None }))),
        ];
        let branch = Branch {
            test: test(TestKind::Not(Box::new(test(TestKind::AnyOf(vec![inner]))))),
            block,
        };
        let otherwise = Some(vec![command(CommandKind::ForEveryPart {
            block: vec![command(CommandKind::Break { loops: 1 })],
        })]);
        let condition = If { branches: vec![branch], otherwise };
        let variable = Variable { scope: Scope::Local, name: "list".into() };
        Script::new(
            b"source",
            ExtensionSet::EMPTY.with(Extension::Include),
            vec![variable],
            vec![command(CommandKind::If(Box::new(condition))), command(CommandKind::Stop)],
        )
    }

    #[test]
    fn uses_are_found_in_nested_tests_and_blocks() {
        let expected =
            Uses { body: true, mailboxes: true, lists: true, include: true, ..Uses::default() };
        assert_eq!(script().uses(), &expected);
        assert_eq!(Uses::default().union(&expected), expected);
        assert_eq!(script().includes()[0].name, "x");
    }

    #[test]
    fn variables_of_the_environment_need_the_environment() {
        let variables = vec![Variable { scope: Scope::Environment, name: "name".into() }];
        let script = Script::new(b"", ExtensionSet::EMPTY, variables, Vec::new());
        assert!(script.uses().environment);
    }

    #[test]
    fn a_script_survives_serialisation_and_another_format_is_refused() {
        let mut value = serde_json::to_value(script()).unwrap();
        assert_eq!(serde_json::from_value::<Script>(value.clone()).unwrap(), script());
        value["format"] = (super::super::FORMAT + 1).into();
        let error = serde_json::from_value::<Script>(value).unwrap_err().to_string();
        assert!(error.contains("not read"), "{error}");
    }
}
