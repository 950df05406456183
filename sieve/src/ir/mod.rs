//! The typed tree of a checked script.
//!
//! - The checker makes a [`Script`] only of a source without errors. `require` is no command of the
//!   tree; [`Script::extensions`] has what it brought.
//! - Each command and each test has the span of its source, for traces and run-time errors.
//! - A string is a [`StringExpr`]. Escapes and encoded characters are processed; variables are
//!   resolved to entries of [`Script::variables`].
//! - A word with a meaning, such as a part of a date, is a [`Keyword`], since the script may make
//!   it of variables.
//! - The tree owns its strings: it does not borrow the source.
//! - Serialised trees carry a format number; another format is refused.
//! - A serialisation format that bounds nesting must allow eight levels for each level of
//!   [`CompileLimits::nesting`](crate::CompileLimits).

mod command;
mod keyword;
mod test;
mod uses;

use serde::{Deserialize, Deserializer, Serialize};

pub use command::{
    Branch, Command, CommandKind, Deadline, DeleteHeader, DeliverBy, Enclose, ExtractText, Fcc,
    FileInto, FlagOperation, If, Include, Location, MailboxArgument, Modifier, Notify, Redirect,
    RedirectTo, RejectKind, Replace, Vacation,
};
pub(crate) use keyword::notify_option;
pub use keyword::{
    DatePart, DeliverByMode, DsnNotify, DsnReturn, EnvelopePart, Importance, UtcOffset,
};
pub use test::{
    AddressPart, AddressTest, BodyTransform, Comparison, DateTest, DateZone, DuplicateId,
    DuplicateTest, EnvelopeTest, FieldIndex, HeaderTest, MatchType, MimeOption, MimeScope,
    Relation, SizeLimit, Test, TestKind,
};
pub use uses::{Node, Uses, walk};

use crate::extension::ExtensionSet;

/// The format of serialised scripts. Any change of the types of this module raises it.
pub const FORMAT: u16 = 1;

/// A script without errors, ready to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Script {
    #[serde(deserialize_with = "current_format")]
    format: u16,
    source_hash: [u8; 32],
    extensions: ExtensionSet,
    uses: Uses,
    variables: Vec<Variable>,
    commands: Vec<Command>,
}

impl Script {
    /// Makes a script of the parts that the checker found. `extensions` are those in effect
    /// anywhere in the script: by `require`, by implication, or by an `ihave` test that is true.
    #[must_use]
    pub fn new(
        source: &[u8],
        extensions: ExtensionSet,
        variables: Vec<Variable>,
        commands: Vec<Command>,
    ) -> Self {
        Self {
            format: FORMAT,
            source_hash: *blake3::hash(source).as_bytes(),
            extensions,
            uses: Uses::of(&commands, &variables),
            variables,
            commands,
        }
    }

    /// Returns the BLAKE3 hash of the source. Together with [`FORMAT`] it can be the key of a cache
    /// of scripts.
    #[must_use]
    pub const fn source_hash(&self) -> &[u8; 32] {
        &self.source_hash
    }

    /// Returns the extensions that are in effect anywhere in the script.
    #[must_use]
    pub const fn extensions(&self) -> ExtensionSet {
        self.extensions
    }

    /// Returns what the script contains, so that a host can prepare only that.
    #[must_use]
    pub const fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Returns the variables, at the indices that are their [`VariableId`]s.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    #[must_use]
    pub fn variable(&self, id: VariableId) -> Option<&Variable> {
        self.variables.get(usize::from(id.0))
    }

    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Returns the `include` commands in the order of the source, with those of branches.
    #[must_use]
    pub fn includes(&self) -> Vec<&Include> {
        let mut includes = Vec::new();
        walk(&self.commands, &mut |node| {
            if let Node::Command(Command { kind: CommandKind::Include(include), .. }) = node {
                includes.push(include);
            }
        });
        includes
    }
}

fn current_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match u16::deserialize(deserializer)? {
        FORMAT => Ok(FORMAT),
        other => Err(serde::de::Error::custom(format!("scripts of format {other} are not read"))),
    }
}

/// A variable that the script names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub scope: Scope,
    /// In lower case, without a namespace: names are compared without regard to case (RFC 5229
    /// §3).
    pub name: String,
}

/// Which scripts see a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Only this run of this script (RFC 6609 §3.4).
    Local,
    /// Every script of the run (RFC 6609 §3.4). A name is that of a global variable if a `global`
    /// command with the name stands before it in the script, or if it stands in the namespace
    /// `global`. `global "x"` and `${global.x}` name one variable.
    Global,
    /// An item of the environment, in the namespace `env`. It is read-only. No standard defines
    /// the namespace; the checker makes it only if the site allows that.
    Environment,
}

/// An index into [`Script::variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VariableId(pub u16);

/// A string of the script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StringExpr {
    Constant(String),
    /// At least one segment is not a literal. The values are joined in order, once: what a
    /// variable contains is not expanded again (RFC 5229 §3).
    Template(Vec<Segment>),
}

impl StringExpr {
    /// Returns the text if it contains no variables.
    #[must_use]
    pub fn as_constant(&self) -> Option<&str> {
        match self {
            Self::Constant(text) => Some(text),
            Self::Template(_) => None,
        }
    }
}

impl From<&str> for StringExpr {
    fn from(text: &str) -> Self {
        Self::Constant(text.to_owned())
    }
}

/// A piece of a string with variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Segment {
    Literal(String),
    Variable(VariableId),
    /// A match variable. `${0}` is the whole text that matched (RFC 5229 §3.2).
    Capture(u16),
}

/// A word with a meaning: recognised by the checker, or made of variables and parsed by the run.
/// The run fails if it cannot parse the word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keyword<T> {
    Known(T),
    Dynamic(StringExpr),
}
