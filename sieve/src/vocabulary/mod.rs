//! The table of all commands, tests and tags. The checker is driven by it.
//!
//! - A word is a command or a test; no name is both.
//! - Names are compared without regard to case (RFC 5228 §2.1).
//! - Here stand the arguments of a word, and the extensions that words and tags need. What
//!   arguments mean stands in `check`.

mod command_words;
mod tags;
mod test_words;
#[cfg(test)]
mod tests;

pub(crate) use command_words::COMMANDS;
pub(crate) use tags::{Group, Tag, TagWord};
pub(crate) use test_words::TESTS;

use crate::extension::Extension;

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    Number,
    /// One string, not in brackets.
    String,
    /// One string, or several in brackets.
    Strings,
}

impl ValueType {
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::String => "a string",
            Self::Strings => "a string or a list of strings",
        }
    }
}

/// An argument that has no tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Positional {
    /// What it is, for messages, such as `mailbox`.
    pub(crate) name: &'static str,
    pub(crate) value: ValueType,
    pub(crate) is_optional: bool,
}

/// How many tests a word takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestCount {
    None,
    One,
    /// In parentheses, one or more.
    List,
}

/// A command or a test.
#[derive(Debug)]
pub(crate) struct Word<I: 'static> {
    pub(crate) name: &'static str,
    pub(crate) id: I,
    /// All of them are needed. The first is the one that brings the word.
    pub(crate) extensions: &'static [Extension],
    /// The tags that it takes, in sets that several words may share.
    pub(crate) tags: &'static [&'static [TagWord]],
    /// In their order, at most one of them optional.
    pub(crate) positionals: &'static [Positional],
    /// A group of which one tag must be given, `None` if no tag must be given.
    pub(crate) needed_group: Option<Group>,
    pub(crate) tests: TestCount,
    pub(crate) has_block: bool,
}

impl<I: Copy> Word<I> {
    /// Makes a word that takes no tests.
    const fn new(
        name: &'static str,
        id: I,
        extensions: &'static [Extension],
        tags: &'static [&'static [TagWord]],
        positionals: &'static [Positional],
    ) -> Self {
        Self {
            name,
            id,
            extensions,
            tags,
            positionals,
            needed_group: None,
            tests: TestCount::None,
            has_block: false,
        }
    }
}

impl<I> Word<I> {
    pub(crate) fn all_tags(&self) -> impl Iterator<Item = &'static TagWord> + use<I> {
        self.tags.iter().flat_map(|set| set.iter())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandId {
    Require,
    If,
    ElsIf,
    Else,
    Stop,
    Keep,
    Discard,
    Redirect,
    FileInto,
    Reject,
    EReject,
    Vacation,
    Set,
    SetFlag,
    AddFlag,
    RemoveFlag,
    Notify,
    AddHeader,
    DeleteHeader,
    Include,
    Return,
    Global,
    ForEveryPart,
    Break,
    ExtractText,
    Replace,
    Enclose,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestId {
    True,
    False,
    Not,
    AllOf,
    AnyOf,
    Address,
    Header,
    Exists,
    Envelope,
    Size,
    String,
    HasFlag,
    Body,
    Date,
    CurrentDate,
    Environment,
    Duplicate,
    SpamTest,
    VirusTest,
    MailboxExists,
    SpecialUseExists,
    MailboxIdExists,
    Metadata,
    MetadataExists,
    ServerMetadata,
    ServerMetadataExists,
    ValidNotifyMethod,
    NotifyMethodCapability,
    ValidExtList,
    IHave,
}

/// What a name stands for: a command, a test, or nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vocable {
    pub(crate) command: Option<&'static Word<CommandId>>,
    pub(crate) test: Option<&'static Word<TestId>>,
}

impl Vocable {
    pub(crate) const fn is_known(&self) -> bool {
        self.command.is_some() || self.test.is_some()
    }

    /// Returns whether tests may follow the name.
    pub(crate) fn takes_tests(&self) -> bool {
        let count = self.command.map_or_else(
            || self.test.map_or(TestCount::None, |word| word.tests),
            |word| word.tests,
        );
        count != TestCount::None
    }
}

/// Finds what a name stands for.
pub(crate) fn lookup(name: &str) -> Vocable {
    Vocable {
        command: COMMANDS.iter().find(|word| word.name.eq_ignore_ascii_case(name)),
        test: TESTS.iter().find(|word| word.name.eq_ignore_ascii_case(name)),
    }
}

/// Makes a positional argument that must be given.
const fn needed(name: &'static str, value: ValueType) -> Positional {
    Positional { name, value, is_optional: false }
}

/// Makes a positional argument that may be left out.
const fn optional(name: &'static str, value: ValueType) -> Positional {
    Positional { name, value, is_optional: true }
}
