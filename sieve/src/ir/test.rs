//! The tests of a script.

use serde::{Deserialize, Serialize};

use super::{DatePart, EnvelopePart, Keyword, StringExpr, UtcOffset, VariableId};
use crate::extension::Comparator;
use crate::span::Span;

/// A test with its place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// From the name of the test to the end of its last argument.
    pub span: Span,
    pub kind: TestKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TestKind {
    True,
    False,
    Not(Box<Test>),
    /// True if all are. Tests run from left to right until one is false (RFC 5228 §5.2).
    AllOf(Vec<Test>),
    /// True if one is. Tests run from left to right until one is true (RFC 5228 §5.3).
    AnyOf(Vec<Test>),
    Address(Box<AddressTest>),
    Header(Box<HeaderTest>),
    /// True if every named field exists (RFC 5228 §5.5).
    Exists {
        fields: Vec<StringExpr>,
        mime: Option<MimeScope>,
    },
    Envelope(Box<EnvelopeTest>),
    Size(SizeLimit),
    /// RFC 5229 §5. With `:count`, the empty sources do not count.
    String {
        sources: Vec<StringExpr>,
        comparison: Comparison,
    },
    /// RFC 5232 §4. Without variables, the internal one is tested. A variable is split into its
    /// words; the keys too.
    HasFlag {
        variables: Vec<VariableId>,
        comparison: Comparison,
    },
    /// RFC 5173. It sets no match variables.
    Body {
        transform: BodyTransform,
        comparison: Comparison,
    },
    Date(Box<DateTest>),
    /// RFC 5260 §5. Without a zone, that of the account.
    CurrentDate {
        zone: Option<Keyword<UtcOffset>>,
        part: Keyword<DatePart>,
        comparison: Comparison,
    },
    /// RFC 5183. An unknown item makes the test false.
    Environment {
        item: StringExpr,
        comparison: Comparison,
    },
    Duplicate(Box<DuplicateTest>),
    /// RFC 5235 §2. `:percent` needs `spamtestplus`.
    SpamTest {
        percent: bool,
        comparison: Comparison,
    },
    VirusTest {
        comparison: Comparison,
    },
    /// RFC 5490 §3.1: every mailbox exists and accepts mail.
    MailboxExists {
        mailboxes: Vec<StringExpr>,
    },
    /// RFC 8579 §3. With a mailbox, it has every attribute; without, each attribute has a mailbox.
    SpecialUseExists {
        mailbox: Option<StringExpr>,
        attributes: Vec<StringExpr>,
    },
    /// RFC 9042 §6: every mailbox exists and accepts mail.
    MailboxIdExists {
        ids: Vec<StringExpr>,
    },
    /// RFC 5490 §3.3. Missing metadata make the test false.
    Metadata {
        mailbox: StringExpr,
        entry: StringExpr,
        comparison: Comparison,
    },
    /// RFC 5490 §3.4
    MetadataExists {
        mailbox: StringExpr,
        entries: Vec<StringExpr>,
    },
    /// RFC 5490 §4.1
    ServerMetadata {
        entry: StringExpr,
        comparison: Comparison,
    },
    /// RFC 5490 §4.2
    ServerMetadataExists {
        entries: Vec<StringExpr>,
    },
    /// RFC 5435 §4
    ValidNotifyMethod {
        uris: Vec<StringExpr>,
    },
    /// RFC 5435 §5
    NotifyMethodCapability {
        uri: StringExpr,
        capability: StringExpr,
        comparison: Comparison,
    },
    /// RFC 6134 §2.7: every list is known to the host.
    ValidExtList {
        lists: Vec<StringExpr>,
    },
    /// RFC 5463 §4. The checker knows the result; the names serve traces.
    IHave {
        names: Vec<String>,
        available: bool,
    },
}

/// How values are compared with keys. A test is true if one value matches one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Without effect with `:list`.
    pub comparator: Comparator,
    pub match_type: MatchType,
    /// Not empty. With `Regex` patterns, with `List` names of lists.
    pub keys: Vec<StringExpr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MatchType {
    Is,
    Contains,
    /// With wildcards `*` and `?`; sets match variables (RFC 5229 §3.2).
    Matches,
    /// Sets match variables. The checker has compiled constant patterns once to find errors.
    Regex,
    /// Compares the number of values, as a decimal string, with each key (RFC 5231 §4.2).
    Count(Relation),
    /// Compares each value with each key: `value relation key` (RFC 5231 §4.1).
    Value(Relation),
    /// True if a value is in a list; sets `${0}` to it (RFC 6134 §2.2).
    List,
}

/// A relation (RFC 5231 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Relation {
    Gt,
    Ge,
    Lt,
    Le,
    Eq,
    Ne,
}

impl Relation {
    /// Parses `gt`, `ge`, `lt`, `le`, `eq` or `ne` without regard to case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "gt" => Self::Gt,
            "ge" => Self::Ge,
            "lt" => Self::Lt,
            "le" => Self::Le,
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            _ => return None,
        })
    }

    /// Returns whether an ordering of value and key satisfies the relation.
    #[must_use]
    pub const fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Gt => ordering.is_gt(),
            Self::Ge => ordering.is_ge(),
            Self::Lt => ordering.is_lt(),
            Self::Le => ordering.is_le(),
            Self::Eq => ordering.is_eq(),
            Self::Ne => ordering.is_ne(),
        }
    }
}

/// Which part of an address is compared (RFC 5228 §2.7.4, RFC 5233 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum AddressPart {
    #[default]
    All,
    LocalPart,
    Domain,
    /// The local part before the separator, all of it without one.
    User,
    /// The local part after the separator. Without one there is no value at all.
    Detail,
}

/// Which of the fields of a name is compared (RFC 5260 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldIndex {
    /// From 1. It counts the fields of the first name, then those of the second, and so on (RFC
    /// 5260 §6).
    pub number: u32,
    /// `:last`: counts from the end.
    pub from_end: bool,
}

/// Which MIME headers are compared (RFC 5703 §4). In `foreverypart` the current part takes the
/// place of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MimeScope {
    /// `:mime`: the header of the current part, or of the message.
    Part,
    /// `:mime :anychild`: also those of all parts in it.
    AnyChild,
}

/// What of a MIME field is compared (RFC 5703 §4.1).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MimeOption {
    /// The whole value.
    #[default]
    Value,
    /// `:type`: of `text/plain` the word `text`.
    Type,
    /// `:subtype`: of `text/plain` the word `plain`.
    Subtype,
    /// `:contenttype`: type and subtype; of `Content-Disposition` the first word.
    ContentType,
    /// `:param`: the values of the named parameters.
    Param(Vec<StringExpr>),
}

/// RFC 5228 §5.1
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressTest {
    pub fields: Vec<StringExpr>,
    pub part: AddressPart,
    pub index: Option<FieldIndex>,
    pub mime: Option<MimeScope>,
    pub comparison: Comparison,
}

/// RFC 5228 §5.7
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderTest {
    pub fields: Vec<StringExpr>,
    pub index: Option<FieldIndex>,
    pub mime: Option<MimeScope>,
    /// `Value` without `:mime`.
    pub option: MimeOption,
    pub comparison: Comparison,
}

/// RFC 5228 §5.4
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopeTest {
    pub parts: Vec<Keyword<EnvelopePart>>,
    /// For the parts that are addresses.
    pub address_part: AddressPart,
    /// `:zone`, for `bytimeabsolute` (RFC 6009 §5). Without it, the zone of the account.
    pub zone: Option<Keyword<UtcOffset>>,
    pub comparison: Comparison,
}

/// A bound on the size of the message in bytes. A message of just this size is neither over nor
/// under it (RFC 5228 §5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SizeLimit {
    Over(u64),
    Under(u64),
}

/// RFC 5173 §5
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BodyTransform {
    /// `:raw`: the body of the message as it is, without the header.
    Raw,
    /// `:content`: the decoded parts whose type begins with one of these, such as `text` or
    /// `text/plain`; the empty string stands for all.
    Content(Vec<StringExpr>),
    /// `:text`, the default: the readable text.
    Text,
}

/// RFC 5260 §4. A missing field or an invalid date makes the test false.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DateTest {
    pub field: StringExpr,
    pub index: Option<FieldIndex>,
    pub zone: DateZone,
    pub part: Keyword<DatePart>,
    pub comparison: Comparison,
}

/// The zone in which a date is expressed (RFC 5260 §4.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DateZone {
    /// That of the account, if the script says nothing.
    Local,
    /// `:originalzone`: that of the date itself.
    Original,
    /// The offset of `:zone`.
    Offset(Keyword<UtcOffset>),
}

/// RFC 7352 §3
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuplicateTest {
    /// `:handle`: records with different handles are independent (RFC 7352 §3.1).
    pub handle: Option<StringExpr>,
    pub id: DuplicateId,
    /// `:seconds`: how long the record is kept. The host bounds it, and has a default.
    pub seconds: Option<u64>,
    /// `:last`: each occurrence extends the time.
    pub last: bool,
}

/// What identifies a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DuplicateId {
    /// The first field of this name; `Message-ID` if the script says nothing. If it is missing or
    /// empty, the message is no duplicate and is not recorded.
    Field(StringExpr),
    /// The value of `:uniqueid`.
    Value(StringExpr),
}
