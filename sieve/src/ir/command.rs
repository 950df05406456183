//! The commands of a script.

use serde::{Deserialize, Serialize};

use super::{
    Comparison, DeliverByMode, DsnNotify, DsnReturn, FieldIndex, Importance, Keyword, StringExpr,
    Test, VariableId,
};
use crate::span::Span;
use crate::vacation::{Period, VacationHandle};

/// A command with its place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// From the name of the command to its last argument or test, without `;` and without a block.
    /// That of `if` goes on to the last test of an `elsif`, or to `else`.
    pub span: Span,
    pub kind: CommandKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandKind {
    /// `if` with its `elsif` and `else` (RFC 5228 §3.1).
    If(Box<If>),
    /// Ends the run, also from an included script (RFC 5228 §3.3).
    Stop,
    /// Stores the message in the Inbox. Without `flags`, it gets those of the internal variable
    /// (RFC 5232 §5).
    Keep {
        flags: Option<Vec<StringExpr>>,
    },
    /// Cancels the implicit keep, and nothing else (RFC 5228 §4.4).
    Discard,
    Redirect(Box<Redirect>),
    FileInto(Box<FileInto>),
    Reject {
        kind: RejectKind,
        reason: StringExpr,
    },
    Vacation(Box<Vacation>),
    /// RFC 5229 §4. Each modifier applies to the result of the one before it.
    Set {
        variable: VariableId,
        modifiers: Vec<Modifier>,
        value: StringExpr,
    },
    /// RFC 5232 §3. Without `variable`, it changes the internal variable.
    Flags {
        operation: FlagOperation,
        variable: Option<VariableId>,
        flags: Vec<StringExpr>,
    },
    Notify(Box<Notify>),
    /// RFC 5293 §4. Without `last`, the field comes first in the header.
    AddHeader {
        last: bool,
        name: StringExpr,
        value: StringExpr,
    },
    DeleteHeader(Box<DeleteHeader>),
    Include(Include),
    /// Ends the script that contains it (RFC 6609 §3.3).
    Return,
    /// RFC 6609 §3.4.1. It has no effect in a run, since the checker has resolved the variables. It
    /// is in the tree for traces.
    Global {
        variables: Vec<VariableId>,
    },
    /// Runs the block for the message and each part in it, depth first. Inside another loop it runs
    /// the block only for each part in the current part (RFC 5703 §3).
    ForEveryPart {
        block: Vec<Command>,
    },
    /// Leaves `loops` loops, at least one (RFC 5703 §3.2). The checker has counted them if the
    /// script names a loop.
    Break {
        loops: u8,
    },
    ExtractText(Box<ExtractText>),
    Replace(Box<Replace>),
    Enclose(Box<Enclose>),
    /// Fails the run with an error message (RFC 5463 §5).
    Error {
        message: StringExpr,
    },
}

/// The first branch whose test is true runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct If {
    /// Not empty: the first is `if`, the others `elsif`.
    pub branches: Vec<Branch>,
    /// The block of `else`.
    pub otherwise: Option<Vec<Command>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub test: Test,
    pub block: Vec<Command>,
}

/// Sends the message on (RFC 5228 §4.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    pub to: RedirectTo,
    /// `:copy` (RFC 3894): does not cancel the implicit keep.
    pub copy: bool,
    /// `:notify` (RFC 6009 §6)
    pub notify: Option<Keyword<DsnNotify>>,
    /// `:ret` (RFC 6009 §6)
    pub ret: Option<Keyword<DsnReturn>>,
    pub deliver_by: Option<DeliverBy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedirectTo {
    Address(StringExpr),
    /// `:list`: every address of an external list (RFC 6134 §2.3).
    List(StringExpr),
}

/// Parameters of Deliver By (RFC 6009 §7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverBy {
    pub deadline: Deadline,
    pub mode: Keyword<DeliverByMode>,
    /// Whether `:bytrace` is given.
    pub trace: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deadline {
    /// `:bytimerelative`: seconds after the time of the run.
    After(u64),
    /// `:bytimeabsolute`, an RFC 3339 time.
    At(StringExpr),
}

/// Stores the message in a mailbox (RFC 5228 §4.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInto {
    pub to: MailboxArgument,
    /// `:copy` (RFC 3894): does not cancel the implicit keep.
    pub copy: bool,
    /// `:flags` (RFC 5232 §5). Without it, the message gets those of the internal variable.
    pub flags: Option<Vec<StringExpr>>,
}

/// The mailbox of `fileinto` or `:fcc`. A mailbox with the id (RFC 9042 §4) or with the special use
/// (RFC 8579 §4), if there is one, is chosen before the one with the name. The checker refuses an
/// id and a special use together (RFC 9042 §4.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxArgument {
    pub name: StringExpr,
    /// The id of `:mailboxid`.
    pub id: Option<StringExpr>,
    /// `:specialuse`, such as `\Junk`.
    pub special_use: Option<StringExpr>,
    /// `:create` (RFC 5490 §3.2)
    pub create: bool,
}

/// `:fcc` with the arguments that belong to it (RFC 8580 §3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fcc {
    pub to: MailboxArgument,
    /// Without it, the copy has no flags.
    pub flags: Option<Vec<StringExpr>>,
}

/// How a message is refused (RFC 5429 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RejectKind {
    /// `reject`: with an error reply of SMTP or LMTP, or with a disposition notification.
    Reject,
    /// `ereject`: with an error reply of SMTP or LMTP if at all possible.
    EReject,
}

/// Answers the sender (RFC 5230 §4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vacation {
    /// Computed from the arguments as written (RFC 5230 §4.2).
    pub handle: VacationHandle,
    /// The text of `:handle` as written, to show to the owner. `None` without `:handle`.
    pub handle_name: Option<String>,
    pub period: Period,
    pub subject: Option<StringExpr>,
    pub from: Option<StringExpr>,
    /// Further addresses of the owner, with or without display names (RFC 5230 §4.5).
    pub addresses: Vec<StringExpr>,
    /// `:mime`: the reason is a MIME entity (RFC 5230 §4.4).
    pub mime: bool,
    pub reason: StringExpr,
    pub fcc: Option<Fcc>,
}

/// A change of a text (RFC 5229 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Modifier {
    Lower,
    Upper,
    LowerFirst,
    UpperFirst,
    QuoteWildcard,
    /// Of the extension `regex`.
    QuoteRegex,
    /// Of `enotify` (RFC 5435 §6).
    EncodeUrl,
    /// The number of characters.
    Length,
}

impl Modifier {
    /// Returns the rank. Modifiers apply in the order of their ranks, the highest first. Two of
    /// equal rank in one command are an error.
    #[must_use]
    pub const fn precedence(self) -> u8 {
        match self {
            Self::Lower | Self::Upper => 40,
            Self::LowerFirst | Self::UpperFirst => 30,
            Self::QuoteWildcard | Self::QuoteRegex => 20,
            Self::EncodeUrl => 15,
            Self::Length => 10,
        }
    }
}

/// What a command does to flags: `setflag`, `addflag` and `removeflag` (RFC 5232 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FlagOperation {
    Set,
    Add,
    Remove,
}

/// Notifies somebody of the message (RFC 5435 §3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notify {
    /// The URI of the method, such as `mailto:me@example.org`.
    pub method: StringExpr,
    pub from: Option<StringExpr>,
    pub importance: Option<Keyword<Importance>>,
    /// Each is `name=value` (RFC 5435 §3.5).
    pub options: Vec<StringExpr>,
    pub message: Option<StringExpr>,
    pub fcc: Option<Fcc>,
}

/// Deletes the fields of a name (RFC 5293 §5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteHeader {
    pub name: StringExpr,
    /// Counts the fields of this name. With it, only the field at the index may be deleted.
    pub index: Option<FieldIndex>,
    /// Only fields whose value matches are deleted; without it, fields with any value. It sets no
    /// match variables.
    pub comparison: Option<Comparison>,
}

/// Runs another script (RFC 6609 §3.2). The name is a constant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Include {
    pub location: Location,
    pub name: String,
    /// `:once`: does nothing if the script was included before in this run, or was run first.
    pub once: bool,
    /// `:optional`: does nothing if the script does not exist.
    pub optional: bool,
}

/// Where a script is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Location {
    /// The owner's scripts.
    #[default]
    Personal,
    /// The site's scripts.
    Global,
}

/// Stores the text of the current part in a variable (RFC 5703 §7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractText {
    pub variable: VariableId,
    /// As in `set`.
    pub modifiers: Vec<Modifier>,
    /// `:first`: the most characters of the text that are taken. Without it, all are.
    pub first: Option<u64>,
}

/// Replaces the current part, or outside of a loop the message (RFC 5703 §5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replace {
    /// `:mime`: the replacement is a MIME entity. Otherwise it is plain text.
    pub mime: bool,
    /// The new Subject. Like `from`, it has an effect only if the message as a whole is replaced,
    /// and not with `mime`.
    pub subject: Option<StringExpr>,
    /// The new From.
    pub from: Option<StringExpr>,
    pub replacement: StringExpr,
}

/// Makes the message an attachment of a new message (RFC 5703 §6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enclose {
    /// The Subject of the new message. Without it, the new message has that of the old one.
    pub subject: Option<StringExpr>,
    /// `:headers`: names of the fields that are copied into the new message, but for MIME fields.
    pub headers: Vec<StringExpr>,
    pub text: StringExpr,
}
