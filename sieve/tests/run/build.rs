//! Makes trees of scripts without a source, for the tests of the interpreter.
//!
//! The span of a command begins at its index in its block. That of every test begins at 100.

use restante_sieve::ir::{
    AddressPart, AddressTest, BodyTransform, Branch, Command, CommandKind, Comparison, FileInto,
    HeaderTest, If, Include, Keyword, Location, MailboxArgument, MatchType, MimeOption, MimeScope,
    Redirect, RedirectTo, Scope, Segment, StringExpr, Test, TestKind, Vacation, Variable,
    VariableId,
};
use restante_sieve::{Comparator, ExtensionSet, Period, Script, Span, VacationHandle};

/// The local and global variables of every script of these tests, at their ids.
pub const NAMES: [&str; 4] = ["a", "b", "flags", "shared"];
pub const A: VariableId = VariableId(0);
pub const B: VariableId = VariableId(1);
pub const FLAGS: VariableId = VariableId(2);
/// A global variable.
pub const SHARED: VariableId = VariableId(3);
/// The variable `${env.name}`.
pub const ENVIRONMENT: VariableId = VariableId(4);

/// Makes a script with all extensions. Scripts with the same commands have the same source hash.
pub fn script(commands: Vec<CommandKind>) -> Script {
    let mut variables: Vec<_> = NAMES
        .iter()
        .map(|name| Variable {
            scope: if *name == "shared" { Scope::Global } else { Scope::Local },
            name: (*name).to_owned(),
        })
        .collect();
    variables.push(Variable { scope: Scope::Environment, name: "name".to_owned() });
    // The hash of the source tells a script from others.
    let source = format!("{commands:?}");
    Script::new(source.as_bytes(), ExtensionSet::all(), variables, self::commands(commands))
}

/// Makes a block, in which the command at index `i` has the span from `i` to `i + 1`.
pub fn commands(kinds: Vec<CommandKind>) -> Vec<Command> {
    let with_span = |(index, kind): (usize, CommandKind)| Command {
        span: Span::of_range(index..index + 1),
        kind,
    };
    kinds.into_iter().enumerate().map(with_span).collect()
}

pub fn test(kind: TestKind) -> Test {
    Test { span: Span::new(100, 101), kind }
}

/// A string in which `$a`, `$b`, `$flags`, `$shared`, `$env` and `$0` to `$9` are variables. Any
/// other `$` stands for itself.
pub fn text(source: &str) -> StringExpr {
    let mut segments = Vec::new();
    let mut rest = source;
    while let Some((before, after)) = rest.split_once('$') {
        segments.push(Segment::Literal(before.to_owned()));
        let names = NAMES.iter().enumerate().map(|(index, name)| (index, *name));
        let mut names = names.chain(std::iter::once((4, "env")));
        let variable = names.find_map(|(index, name)| Some((index, after.strip_prefix(name)?)));
        let digit = after.chars().next().and_then(|c| c.to_digit(10));
        rest = match (variable, digit) {
            (Some((index, rest)), _) => {
                segments.push(Segment::Variable(VariableId(u16::try_from(index).unwrap())));
                rest
            }
            (None, Some(digit)) => {
                segments.push(Segment::Capture(u16::try_from(digit).unwrap()));
                &after[1..]
            }
            (None, None) => {
                segments.push(Segment::Literal("$".to_owned()));
                after
            }
        };
    }
    if segments.is_empty() {
        return StringExpr::Constant(source.to_owned());
    }
    segments.push(Segment::Literal(rest.to_owned()));
    StringExpr::Template(segments)
}

pub fn texts(sources: &[&str]) -> Vec<StringExpr> {
    sources.iter().map(|source| text(source)).collect()
}

pub fn comparison(match_type: MatchType, keys: &[&str]) -> Comparison {
    Comparison { comparator: Comparator::AsciiCasemap, match_type, keys: texts(keys) }
}

pub fn numeric(match_type: MatchType, keys: &[&str]) -> Comparison {
    Comparison { comparator: Comparator::AsciiNumeric, match_type, keys: texts(keys) }
}

/// Makes a `header` test without `:mime` and `:index`.
pub fn header_test(fields: &[&str], comparison: Comparison) -> HeaderTest {
    HeaderTest {
        fields: texts(fields),
        index: None,
        mime: None,
        option: MimeOption::Value,
        comparison,
    }
}

/// Makes a `header` test of one field and one key.
pub fn header(field: &str, match_type: MatchType, key: &str) -> TestKind {
    TestKind::Header(Box::new(header_test(&[field], comparison(match_type, &[key]))))
}

pub fn mime_header(field: &str, option: MimeOption, scope: MimeScope, key: &str) -> TestKind {
    let comparison = comparison(MatchType::Is, &[key]);
    let test = header_test(&[field], comparison);
    TestKind::Header(Box::new(HeaderTest { mime: Some(scope), option, ..test }))
}

pub fn address(field: &str, part: AddressPart, match_type: MatchType, key: &str) -> TestKind {
    TestKind::Address(Box::new(AddressTest {
        fields: texts(&[field]),
        part,
        index: None,
        mime: None,
        comparison: comparison(match_type, &[key]),
    }))
}

pub fn string(source: &str, match_type: MatchType, key: &str) -> TestKind {
    TestKind::String { sources: texts(&[source]), comparison: comparison(match_type, &[key]) }
}

pub fn body(transform: BodyTransform, match_type: MatchType, key: &str) -> TestKind {
    TestKind::Body { transform, comparison: comparison(match_type, &[key]) }
}

pub fn not(kind: TestKind) -> TestKind {
    TestKind::Not(Box::new(test(kind)))
}

pub fn when(kind: TestKind, commands: Vec<CommandKind>) -> CommandKind {
    when_else(kind, commands, None)
}

pub fn when_else(
    kind: TestKind,
    commands: Vec<CommandKind>,
    otherwise: Option<Vec<CommandKind>>,
) -> CommandKind {
    let branches = vec![Branch { test: test(kind), block: self::commands(commands) }];
    CommandKind::If(Box::new(If { branches, otherwise: otherwise.map(self::commands) }))
}

/// A script that files the message into `yes`, which is created, if the test is true. Otherwise the
/// message is kept.
pub fn probe(kind: TestKind) -> Script {
    script(vec![when(kind, vec![create("yes")])])
}

pub fn keep() -> CommandKind {
    CommandKind::Keep { flags: None }
}

pub fn mailbox(name: &str) -> MailboxArgument {
    MailboxArgument { name: text(name), id: None, special_use: None, create: false }
}

pub fn fileinto(name: &str) -> CommandKind {
    CommandKind::FileInto(Box::new(FileInto { to: mailbox(name), copy: false, flags: None }))
}

/// Makes a `fileinto :copy`.
pub fn copy_to(name: &str) -> CommandKind {
    CommandKind::FileInto(Box::new(FileInto { to: mailbox(name), copy: true, flags: None }))
}

/// Makes a `fileinto :create`.
pub fn create(name: &str) -> CommandKind {
    let to = MailboxArgument { create: true, ..mailbox(name) };
    CommandKind::FileInto(Box::new(FileInto { to, copy: false, flags: None }))
}

pub fn redirect(to: &str) -> CommandKind {
    redirect_with(to, false)
}

pub fn redirect_with(to: &str, copy: bool) -> CommandKind {
    CommandKind::Redirect(Box::new(Redirect {
        to: RedirectTo::Address(text(to)),
        copy,
        notify: None,
        ret: None,
        deliver_by: None,
    }))
}

pub fn reject(reason: &str) -> CommandKind {
    CommandKind::Reject { kind: restante_sieve::ir::RejectKind::Reject, reason: text(reason) }
}

pub fn vacation(reason: &str) -> Vacation {
    Vacation {
        handle: VacationHandle::named(reason),
        handle_name: None,
        period: Period::Unset,
        subject: None,
        from: None,
        addresses: Vec::new(),
        mime: false,
        reason: text(reason),
        fcc: None,
    }
}

/// Makes a command of [`vacation`].
pub fn answer(reason: &str) -> CommandKind {
    CommandKind::Vacation(Box::new(vacation(reason)))
}

pub fn set(variable: VariableId, value: &str) -> CommandKind {
    CommandKind::Set { variable, modifiers: Vec::new(), value: text(value) }
}

pub fn add_header(name: &str, value: &str) -> CommandKind {
    CommandKind::AddHeader { last: false, name: text(name), value: text(value) }
}

pub fn include(name: &str) -> Include {
    Include { location: Location::Personal, name: name.to_owned(), once: false, optional: false }
}

pub fn known<T>(value: T) -> Keyword<T> {
    Keyword::Known(value)
}
