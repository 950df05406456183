//! Checks tests, and finds out which extensions are in effect after each of their results.

use super::Checker;
use super::bind::Bound;
use super::strings::{Text, expr, exprs};
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::ExtensionSet;
use crate::ir::{MatchType, SizeLimit, Test, TestKind};
use crate::parser::Node;
use crate::vocabulary::{TESTS, Tag, TestId, lookup};

/// A checked test, and the extensions in effect after either result.
pub(super) struct Outcome {
    /// `None` for an unknown test, and for a `not` without a known test in it.
    pub(super) test: Option<Test>,
    /// `None` if the test cannot be true. Only `ihave` proves that.
    pub(super) if_true: Option<ExtensionSet>,
    /// `None` if the test cannot be false.
    pub(super) if_false: Option<ExtensionSet>,
}

impl Checker<'_> {
    /// Checks a test.
    pub(super) fn test(&mut self, node: &Node) -> Outcome {
        let Some(word) = lookup(&self.excerpt(node.name)).test else {
            self.unknown_test(node);
            for inner in &node.tests {
                self.test(inner);
            }
            let both = Some(self.flow.extensions);
            return Outcome { test: None, if_true: both, if_false: both };
        };
        let bound = self.bind(node, word);
        let (kind, if_true, if_false) = match word.id {
            TestId::Not => {
                let mut outcomes: Vec<_> = node.tests.iter().map(|test| self.test(test)).collect();
                if outcomes.is_empty() {
                    (None, Some(self.flow.extensions), Some(self.flow.extensions))
                } else {
                    let inner = outcomes.swap_remove(0);
                    let kind = inner.test.map(|test| TestKind::Not(Box::new(test)));
                    (kind, inner.if_false, inner.if_true)
                }
            }
            TestId::AllOf => {
                let (tests, if_true, if_false) = self.sequence(node, true);
                (Some(TestKind::AllOf(tests)), if_true, if_false)
            }
            TestId::AnyOf => {
                let (tests, if_false, if_true) = self.sequence(node, false);
                (Some(TestKind::AnyOf(tests)), if_true, if_false)
            }
            TestId::IHave => self.ihave(&bound),
            id => {
                let kind = self.leaf(id, &bound);
                for inner in &node.tests {
                    self.test(inner);
                }
                (Some(kind), Some(self.flow.extensions), Some(self.flow.extensions))
            }
        };
        Outcome { test: kind.map(|kind| Test { span: node.span, kind }), if_true, if_false }
    }

    /// Checks the tests of `allof` or `anyof`, which run one after the other while each has the
    /// result `going_on`: true for `allof`, false for `anyof`. Returns the tests that may run, the
    /// extensions in effect if all have this result, and those in effect if one has the other
    /// result. The extensions are `None` if the tests cannot come out so.
    fn sequence(
        &mut self,
        node: &Node,
        going_on: bool,
    ) -> (Vec<Test>, Option<ExtensionSet>, Option<ExtensionSet>) {
        let mut tests = Vec::new();
        let mut stopped: Option<ExtensionSet> = None;
        // Whether an earlier test cannot have the result `going_on`, so that no further one runs.
        let mut is_dead = false;
        for inner in &node.tests {
            let known = self.mute_if(is_dead);
            let outcome = self.test(inner);
            self.unmute(is_dead, known);
            if is_dead {
                continue;
            }
            tests.extend(outcome.test);
            let (next, stop) = match going_on {
                true => (outcome.if_true, outcome.if_false),
                false => (outcome.if_false, outcome.if_true),
            };
            stopped = match (stopped, stop) {
                (Some(one), Some(other)) => Some(one.intersection(other)),
                (one, other) => one.or(other),
            };
            match next {
                Some(extensions) => self.flow.extensions = extensions,
                None => is_dead = true,
            }
        }
        (tests, (!is_dead).then_some(self.flow.extensions), stopped)
    }

    /// Reports that a test must stand where there is a command or an unknown name.
    fn unknown_test(&mut self, node: &Node) {
        let name = self.excerpt(node.name);
        if lookup(&name).command.is_some() {
            let message = format!("`{name}` is a command, and a test must stand here");
            self.complain(Code::CommandAsTest, node.name, message);
            return;
        }
        let message = format!("there is no test `{name}`");
        let mut diagnostic = Diagnostic::new(Code::UnknownTest, node.name, message);
        if let Some(meant) = self.closest(&name, TESTS.iter().map(|word| word.name)) {
            diagnostic = diagnostic.with_help(format!("did you mean `{meant}`?"));
        }
        self.report(diagnostic);
    }

    /// Checks `ihave` (RFC 5463 §4), whose result the check knows. Returns as the fields of
    /// [`Outcome`] the kind of the test and the extensions after either result.
    fn ihave(
        &mut self,
        bound: &Bound<'_>,
    ) -> (Option<TestKind>, Option<ExtensionSet>, Option<ExtensionSet>) {
        let mut names = Vec::new();
        for &token in bound.strings(0) {
            let name = self.raw(token);
            if name.contains("${") {
                let name = super::excerpt(&name);
                let message = format!("`{name}` is a constant here: variables are not expanded");
                self.complain(Code::RequireNotConstant, token.span, message);
            }
            names.push(name);
        }
        let before = self.flow.extensions;
        let available = self.available(&names);
        let kind = TestKind::IHave { names, available: available.is_some() };
        match available {
            Some(set) => {
                self.note_available(set);
                (Some(kind), Some(before.union(set)), None)
            }
            None => (Some(kind), None, Some(before)),
        }
    }

    /// Checks a test that contains no other test, and is not `ihave`.
    fn leaf(&mut self, id: TestId, bound: &Bound<'_>) -> TestKind {
        match id {
            TestId::True => TestKind::True,
            // All but `false` are checked by `test`.
            TestId::False | TestId::Not | TestId::AllOf | TestId::AnyOf | TestId::IHave => {
                TestKind::False
            }
            TestId::Address => self.address_test(bound),
            TestId::Header => self.header_test(bound),
            TestId::Exists => self.exists_test(bound),
            TestId::Envelope => self.envelope_test(bound),
            TestId::Size => Self::size_test(bound),
            TestId::String => self.string_test(bound),
            TestId::HasFlag => {
                let variables = self.flag_variables(bound.node, bound.strings(0));
                let keys = self.flags(bound.strings(1), false);
                TestKind::HasFlag { variables, comparison: self.comparison(bound, keys) }
            }
            TestId::Body => self.body_test(bound),
            TestId::Date => self.date_test(bound),
            TestId::CurrentDate => self.current_date_test(bound),
            TestId::Environment => {
                let item = self.argument(bound.positional(0));
                self.check_environment_item(item.as_ref());
                let comparison = self.comparison_with(bound, 1);
                TestKind::Environment { item: expr(item), comparison }
            }
            TestId::Duplicate => self.duplicate_test(bound),
            TestId::SpamTest => TestKind::SpamTest {
                percent: bound.has(Tag::Percent),
                comparison: self.comparison_with(bound, 0),
            },
            TestId::VirusTest => TestKind::VirusTest { comparison: self.comparison_with(bound, 0) },
            TestId::MailboxExists => {
                TestKind::MailboxExists { mailboxes: self.mailbox_names(bound.strings(0)) }
            }
            TestId::SpecialUseExists => TestKind::SpecialUseExists {
                mailbox: self.mailbox_names(bound.strings(0)).pop(),
                attributes: self.special_uses(bound.strings(1)),
            },
            TestId::MailboxIdExists => {
                TestKind::MailboxIdExists { ids: exprs(self.texts(bound.strings(0))) }
            }
            TestId::Metadata => TestKind::Metadata {
                mailbox: self.mailbox_names(bound.strings(0)).pop().unwrap_or_else(|| "".into()),
                entry: self.entries(bound.strings(1)).pop().unwrap_or_else(|| "".into()),
                comparison: self.comparison_with(bound, 2),
            },
            TestId::MetadataExists => TestKind::MetadataExists {
                mailbox: self.mailbox_names(bound.strings(0)).pop().unwrap_or_else(|| "".into()),
                entries: self.entries(bound.strings(1)),
            },
            TestId::ServerMetadata => TestKind::ServerMetadata {
                entry: self.entries(bound.strings(0)).pop().unwrap_or_else(|| "".into()),
                comparison: self.comparison_with(bound, 1),
            },
            TestId::ServerMetadataExists => {
                TestKind::ServerMetadataExists { entries: self.entries(bound.strings(0)) }
            }
            TestId::ValidNotifyMethod => {
                TestKind::ValidNotifyMethod { uris: exprs(self.texts(bound.strings(0))) }
            }
            TestId::NotifyMethodCapability => {
                let uri = expr(self.argument(bound.positional(0)));
                let capability = expr(self.argument(bound.positional(1)));
                let comparison = self.comparison_with(bound, 2);
                TestKind::NotifyMethodCapability { uri, capability, comparison }
            }
            TestId::ValidExtList => {
                let lists = self.texts(bound.strings(0));
                TestKind::ValidExtList { lists: self.list_names(lists) }
            }
        }
    }

    /// Returns the test `size`. If its number is absent, that was reported, and the tree is
    /// dropped.
    fn size_test(bound: &Bound<'_>) -> TestKind {
        let limit = |tag| bound.number(tag).map(|(limit, _)| limit);
        TestKind::Size(match (limit(Tag::Over), limit(Tag::Under)) {
            (None, Some(limit)) => SizeLimit::Under(limit),
            (over, _) => SizeLimit::Over(over.unwrap_or_default()),
        })
    }

    /// Checks `string`, and warns if it has no variables.
    fn string_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let sources = self.texts(bound.strings(0));
        let comparison = self.comparison_with(bound, 1);
        // What an external list contains may change.
        let constant = comparison.match_type != MatchType::List
            && sources.iter().all(|text| text.constant().is_some())
            && comparison.keys.iter().all(|key| key.as_constant().is_some());
        if constant && let Some(first) = sources.first() {
            let span = sources.last().map_or(first.span(), Text::span).join(first.span());
            let message = "nothing here contains a variable: the result is always the same";
            let diagnostic = Diagnostic::new(Code::ConstantTest, span, message);
            self.report(diagnostic.with_help("a variable is written as `${name}`"));
        }
        TestKind::String { sources: exprs(sources), comparison }
    }
}
