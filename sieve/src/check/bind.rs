//! Gives each argument of a command or test its place in the table of words.

use super::Checker;
use crate::diagnostic::{Code, Diagnostic};
use crate::lexer::Token;
use crate::parser::{Argument, ArgumentKind, Node};
use crate::span::Span;
use crate::vocabulary::{Group, Positional, Tag, TagWord, TestCount, ValueType, Word};

/// The arguments of a word. An argument that is missing or has the wrong type is absent. A wrong
/// type was reported; so was a missing argument, unless it is optional or an error before it may
/// explain that it is missing.
pub(super) struct Bound<'t> {
    pub(super) node: &'t Node,
    tags: Vec<BoundTag<'t>>,
    /// The argument for each positional argument of the table; `None` if it is absent.
    positionals: Vec<Option<&'t Argument>>,
}

/// A known tag that is given. If a tag is given twice, only the first is bound.
#[derive(Clone, Copy)]
pub(super) struct BoundTag<'t> {
    pub(super) tag: Tag,
    pub(super) span: Span,
    group: Option<Group>,
    /// `None` if the tag takes no value, or if its value is absent.
    value: Option<&'t Argument>,
}

impl<'t> Bound<'t> {
    pub(super) fn tag(&self, tag: Tag) -> Option<&BoundTag<'t>> {
        self.tags.iter().find(|bound| bound.tag == tag)
    }

    pub(super) fn has(&self, tag: Tag) -> bool {
        self.tag(tag).is_some()
    }

    /// Returns the first tag of a group.
    pub(super) fn of_group(&self, group: Group) -> Option<&BoundTag<'t>> {
        self.tags.iter().find(|bound| bound.group == Some(group))
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = &BoundTag<'t>> {
        self.tags.iter()
    }

    pub(super) fn value(&self, tag: Tag) -> Option<&'t Argument> {
        self.tag(tag)?.value
    }

    /// Returns the number after a tag, with its span.
    pub(super) fn number(&self, tag: Tag) -> Option<(u64, Span)> {
        let argument = self.value(tag)?;
        match argument.kind {
            ArgumentKind::Number(number) => Some((number, argument.span)),
            _ => None,
        }
    }

    pub(super) fn positional(&self, index: usize) -> Option<&'t Argument> {
        self.positionals.get(index).copied().flatten()
    }

    /// Returns the string tokens of a positional argument.
    pub(super) fn strings(&self, index: usize) -> &'t [Token] {
        self.positional(index).map_or(&[], Argument::strings)
    }
}

impl Checker<'_> {
    /// Binds the arguments of a node to those of a word in the table, and reports what does not
    /// fit. It reports the extensions that are missing, and a wrong number of tests too.
    pub(super) fn bind<'t, I>(&mut self, node: &'t Node, word: &'static Word<I>) -> Bound<'t> {
        for &extension in word.extensions {
            self.need(extension, node.name, &format!("`{}`", word.name));
        }
        let mut binder = Binder { tags: Vec::new(), given: Vec::new(), has_unknown_tag: false };
        let mut arguments = node.arguments.iter().peekable();
        while let Some(argument) = arguments.next() {
            if !matches!(argument.kind, ArgumentKind::Tag) {
                binder.given.push(argument);
                continue;
            }
            self.bind_tag(node, word, argument.span, &mut binder, &mut arguments);
        }
        let Binder { tags, given, has_unknown_tag } = binder;
        let mut is_forgiving = has_unknown_tag || node.is_damaged;
        self.check_tags(word, &tags, is_forgiving);
        if let Some(group) = word.needed_group
            && !is_forgiving
            && !tags.iter().any(|one| one.group == Some(group))
        {
            self.report_missing_tag(node, word, group);
            // An argument may be what should stand after the tag.
            is_forgiving = true;
        }
        let positionals = self.bind_positionals(node, word, &given, is_forgiving);
        self.check_test_count(node, word.name, word.tests);
        Bound { node, tags, positionals }
    }

    /// Binds the tag at `span`, and takes its value from the `arguments` after it. Reports an
    /// unknown tag, a second tag of one name or of one group, and a tag after other arguments; but
    /// not the latter after an unknown tag, whose value these arguments may be.
    fn bind_tag<'t, I>(
        &mut self,
        node: &'t Node,
        word: &'static Word<I>,
        span: Span,
        binder: &mut Binder<'t>,
        arguments: &mut std::iter::Peekable<std::slice::Iter<'t, Argument>>,
    ) {
        let written = String::from_utf8_lossy(span.of(self.source)).into_owned();
        let found = word.all_tags().find(|one| one.tag.name().eq_ignore_ascii_case(&written));
        let Some(found) = found else {
            binder.has_unknown_tag = true;
            // A colon alone is a defect of the token, which was reported.
            if written.len() > 1 {
                let message = format!("`{}` takes no tag `{}`", word.name, self.excerpt(span));
                let mut diagnostic = Diagnostic::new(Code::UnknownTag, span, message);
                let names = word.all_tags().map(|one| one.tag.name());
                if let Some(name) = self.closest(&written, names) {
                    diagnostic = diagnostic.with_help(format!("did you mean `{name}`?"));
                }
                self.report(diagnostic);
            }
            return;
        };
        if !binder.given.is_empty() && !binder.has_unknown_tag {
            let message = format!("`{}` must stand before the other arguments", found.tag.name());
            let diagnostic = Diagnostic::new(Code::TagAfterPositional, span, message);
            let first = binder.given.first().map_or(span, |argument| argument.span);
            self.report(diagnostic.with_related(first, "the first of them"));
        }
        let first = binder.tags.iter().find(|one| one.tag == found.tag).copied();
        let rival =
            binder.tags.iter().find(|one| found.group.is_some() && one.group == found.group);
        if let Some(first) = first {
            let message = format!("`{}` is given twice", found.tag.name());
            let diagnostic = Diagnostic::new(Code::DuplicateTag, span, message)
                .with_related(first.span, "first given here");
            self.report(diagnostic);
        } else if let Some(rival) = rival {
            let is_modifier =
                matches!(found.group, Some(Group::Case | Group::FirstCase | Group::Quoting));
            let (code, what) = match is_modifier {
                true => (Code::ConflictingModifiers, "are of equal rank"),
                false => (Code::ConflictingTags, "exclude each other"),
            };
            let (name, other) = (found.tag.name(), rival.tag.name());
            let message = format!("`{other}` and `{name}` {what}");
            let diagnostic =
                Diagnostic::new(code, span, message).with_related(rival.span, "the other one");
            self.report(diagnostic);
        }
        if let Some(extension) = found.extension {
            self.need(extension, span, &format!("`{}`", found.tag.name()));
        }
        let value =
            found.value.and_then(|wanted| self.tag_value(node, found, wanted, span, arguments));
        if first.is_none() {
            binder.tags.push(BoundTag { tag: found.tag, span, group: found.group, value });
        }
    }

    /// Takes the value of a tag from the arguments that follow it. `None` if it has the wrong type,
    /// which is reported, or if there is none, which is reported unless the node is damaged.
    fn tag_value<'t>(
        &mut self,
        node: &'t Node,
        word: &TagWord,
        wanted: ValueType,
        span: Span,
        arguments: &mut std::iter::Peekable<std::slice::Iter<'t, Argument>>,
    ) -> Option<&'t Argument> {
        let next = arguments.next_if(|next| !matches!(next.kind, ArgumentKind::Tag));
        let Some(argument) = next else {
            if !node.is_damaged {
                let name = word.tag.name();
                let message = format!("`{name}` needs {} after it", wanted.description());
                self.complain(Code::MissingTagValue, span, message);
            }
            return None;
        };
        self.check_type(argument, wanted, word.tag.name()).then_some(argument)
    }

    /// Reports an argument of the wrong type. Returns whether the type is right.
    fn check_type(&mut self, argument: &Argument, wanted: ValueType, name: &str) -> bool {
        let fits = match &argument.kind {
            ArgumentKind::Number(_) => wanted == ValueType::Number,
            ArgumentKind::Strings { is_list, .. } => {
                wanted == ValueType::Strings || (wanted == ValueType::String && !is_list)
            }
            ArgumentKind::Tag => false,
        };
        if fits {
            return true;
        }
        let given = match argument.kind {
            ArgumentKind::Number(_) => "a number",
            ArgumentKind::Strings { is_list: true, .. } => "a list of strings",
            ArgumentKind::Strings { .. } => "a string",
            ArgumentKind::Tag => "a tag",
        };
        let message = format!("`{name}` must be {}, not {given}", wanted.description());
        let mut diagnostic = Diagnostic::new(Code::WrongArgumentType, argument.span, message);
        if wanted == ValueType::Number && given == "a string" {
            diagnostic = diagnostic.with_help("write the number without quotation marks");
        } else if given == "a number" {
            diagnostic = diagnostic.with_help("write it in quotation marks");
        }
        self.report(diagnostic);
        false
    }

    /// Reports tags that need another tag, which is not given. `is_forgiving` says that an error
    /// before may explain this, so that nothing is reported.
    fn check_tags<I>(&mut self, word: &'static Word<I>, tags: &[BoundTag<'_>], is_forgiving: bool) {
        for known in word.all_tags() {
            let Some(bound) = tags.iter().find(|bound| bound.tag == known.tag) else { continue };
            let has_companion = tags.iter().any(|other| known.beside.contains(&other.tag));
            if !known.beside.is_empty() && !has_companion && !is_forgiving {
                let names: Vec<_> =
                    known.beside.iter().map(|tag| format!("`{}`", tag.name())).collect();
                let message =
                    format!("`{}` is allowed only beside {}", known.tag.name(), names.join(" or "));
                self.complain(Code::TagNeedsTag, bound.span, message);
            }
        }
    }

    /// Reports that no tag of a group is given, of which one must be.
    fn report_missing_tag<I>(&mut self, node: &Node, word: &'static Word<I>, group: Group) {
        let tags: Vec<_> = word.all_tags().filter(|known| known.group == Some(group)).collect();
        let names: Vec<_> = tags.iter().map(|known| format!("`{}`", known.tag.name())).collect();
        let value = tags.iter().find_map(|known| known.value).map(ValueType::description);
        let value = value.map(|value| format!(" with {value}")).unwrap_or_default();
        let message = format!("`{}` needs {}{value}", word.name, names.join(" or "));
        self.complain(Code::MissingTag, node.name, message);
    }

    /// Binds the arguments without tags to those of the table, in their order. If too few are
    /// given, the optional one is absent. `is_forgiving` is as in [`Self::check_tags`]:
    /// then too few or too many arguments are not reported, but wrong types are.
    fn bind_positionals<'t, I>(
        &mut self,
        node: &Node,
        word: &'static Word<I>,
        given: &[&'t Argument],
        is_forgiving: bool,
    ) -> Vec<Option<&'t Argument>> {
        let wanted = word.positionals;
        let surplus = given.len().saturating_sub(wanted.len());
        if surplus > 0 && !is_forgiving {
            let at = given.get(wanted.len()).map_or(node.name, |argument| argument.span);
            let message = match wanted.len() {
                0 => format!("`{}` takes no argument here", word.name),
                1 => format!("`{}` takes one argument", word.name),
                count => format!("`{}` takes {count} arguments", word.name),
            };
            let mut diagnostic = Diagnostic::new(Code::ExtraArgument, at, message);
            if given.iter().any(|one| !one.strings().is_empty()) && wanted.len() == 2 {
                diagnostic = diagnostic.with_help("put several strings in brackets");
            }
            self.report(diagnostic);
        }
        // After an unknown tag the first arguments may be its value, so the last ones are bound.
        let skipped = if is_forgiving { surplus } else { 0 };
        let mut given = given.iter().skip(skipped).take(wanted.len());
        let missing = wanted.len().saturating_sub(given.len());
        let least = wanted.iter().filter(|one| !one.is_optional).count();
        if given.len() < least && !is_forgiving {
            self.report_missing(node, word.name, wanted, given.len());
        }
        // How many optional arguments are still to be left out.
        let mut skips = missing;
        wanted
            .iter()
            .map(|one| {
                if one.is_optional && skips > 0 {
                    skips -= 1;
                    return None;
                }
                let argument = *given.next()?;
                self.check_type(argument, one.value, one.name).then_some(argument)
            })
            .collect()
    }

    /// Reports that only the first `given` of the wanted arguments are there.
    fn report_missing(&mut self, node: &Node, name: &str, wanted: &[Positional], given: usize) {
        let names: Vec<_> =
            wanted.iter().filter(|one| !one.is_optional).skip(given).map(|one| one.name).collect();
        let message = format!("`{name}` lacks an argument: {}", names.join(", "));
        self.complain(Code::MissingArgument, Span::at(node.span.end), message);
    }

    /// Reports a wrong number of tests, unless an error before explains that there are none.
    fn check_test_count(&mut self, node: &Node, name: &str, count: TestCount) {
        let (fits, wanted) = match count {
            TestCount::None => (node.tests.is_empty() && !node.is_test_list, "takes no test"),
            TestCount::One => (node.tests.len() == 1 && !node.is_test_list, "takes one test"),
            TestCount::List => (node.is_test_list, "takes tests in parentheses"),
        };
        if fits || (node.is_damaged && node.tests.is_empty()) {
            return;
        }
        let message = format!("`{name}` {wanted}");
        let span = match (node.tests.first(), node.tests.last()) {
            (Some(first), Some(last)) => first.span.join(last.span),
            _ => node.name,
        };
        let diagnostic = Diagnostic::new(Code::WrongTestCount, span, message);
        let help = match (count, node.is_test_list) {
            (TestCount::One, true) if node.tests.len() > 1 => {
                Some("write `allof` or `anyof` before the parenthesis")
            }
            (TestCount::One, true) => Some("remove the parentheses"),
            _ => None,
        };
        self.report(match help {
            Some(help) => diagnostic.with_help(help),
            None => diagnostic,
        });
    }
}

/// What was bound so far.
struct Binder<'t> {
    tags: Vec<BoundTag<'t>>,
    /// The arguments that are neither tags nor values of tags.
    given: Vec<&'t Argument>,
    has_unknown_tag: bool,
}
