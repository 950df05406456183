//! The tests of a script.

use serde::{Deserialize, Serialize};

use super::{DatePart, EnvelopePart, Keyword, StringExpr, UtcOffset, VariableId};
use crate::extension::Comparator;
use crate::span::Span;

/// A test with its place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// From the name of the test to the end of its last argument, or of the tests in it.
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
    /// RFC 5229 §5. With `:count`, empty sources do not count.
    String {
        sources: Vec<StringExpr>,
        comparison: Comparison,
    },
    /// RFC 5232 §4. Without `variables`, the internal variable is tested. The values of variables
    /// are split into words, and so are the keys, but not those of `:regex`.
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
    /// RFC 5260 §5. Without a zone, the zone of the account counts.
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
    /// RFC 5235 §3.2. `percent`: the value is from 0 to 100, and not from 0 to 10.
    SpamTest {
        percent: bool,
        comparison: Comparison,
    },
    /// RFC 5235 §3.3
    VirusTest {
        comparison: Comparison,
    },
    /// RFC 5490 §3.1: every mailbox exists and accepts mail.
    MailboxExists {
        mailboxes: Vec<StringExpr>,
    },
    /// RFC 8579 §3. With `mailbox`: this mailbox has every attribute. Without: for each attribute
    /// there is a mailbox that has it. The mailboxes must accept mail.
    SpecialUseExists {
        mailbox: Option<StringExpr>,
        attributes: Vec<StringExpr>,
    },
    /// RFC 9042 §6: every mailbox exists and accepts mail.
    MailboxIdExists {
        ids: Vec<StringExpr>,
    },
    /// RFC 5490 §3.3. If the mailbox or the entry does not exist, the test is false.
    Metadata {
        mailbox: StringExpr,
        entry: StringExpr,
        comparison: Comparison,
    },
    /// RFC 5490 §3.4: the mailbox has every entry.
    MetadataExists {
        mailbox: StringExpr,
        entries: Vec<StringExpr>,
    },
    /// RFC 5490 §4.1. If the entry does not exist, the test is false.
    ServerMetadata {
        entry: StringExpr,
        comparison: Comparison,
    },
    /// RFC 5490 §4.2: every entry exists.
    ServerMetadataExists {
        entries: Vec<StringExpr>,
    },
    /// RFC 5435 §4: the host can notify by every URI.
    ValidNotifyMethod {
        uris: Vec<StringExpr>,
    },
    /// RFC 5435 §5. If the host cannot notify by the URI or does not know the capability, the test
    /// is false.
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

/// How values are compared with keys. A test is true if at least one value matches at least one
/// key. With `Count` it is true if the number of values matches a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Without effect with `List`.
    pub comparator: Comparator,
    pub match_type: MatchType,
    /// Not empty. They are patterns with `Regex`, and names of external lists with `List`.
    pub keys: Vec<StringExpr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MatchType {
    Is,
    Contains,
    /// With wildcards `*` and `?`; sets match variables (RFC 5229 §3.2).
    Matches,
    /// Sets match variables. The checker has compiled constant patterns to find their errors; the
    /// tree has only their texts.
    Regex,
    /// Compares the number of values, as a decimal string, with each key (RFC 5231 §4.2).
    Count(Relation),
    /// Compares each value with each key: `value relation key` (RFC 5231 §4.1).
    Value(Relation),
    /// True if a value is in one of the lists; sets `${0}` to this value (RFC 6134 §2.2).
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
    /// The local part before its first separator; without a separator, all of it.
    User,
    /// The local part after its first separator. Without a separator the address has no value that
    /// could match.
    Detail,
}

/// Which of the fields is compared (RFC 5260 §6). Without it a test compares all fields of the
/// names, and `date` the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldIndex {
    /// At least 1, which is the first field. If the test names several fields, those of the first
    /// name are counted first, then those of the second, and so on (RFC 5260 §6).
    pub number: u32,
    /// `:last`: counts from the end.
    pub from_end: bool,
}

/// Which MIME headers are compared (RFC 5703 §4): of the current part in `foreverypart`, of the
/// message outside of it. Without it a test compares the header of the message, also in
/// `foreverypart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MimeScope {
    /// `:mime`: only its header.
    Part,
    /// `:mime :anychild`: its header and those of all parts in it.
    AnyChild,
}

/// What of a MIME field is compared (RFC 5703 §4.1). `Type`, `Subtype` and `ContentType` take the
/// empty string from fields other than Content-Type and Content-Disposition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MimeOption {
    /// The whole value.
    #[default]
    Value,
    /// `:type`: of `text/plain` the word `text`; of Content-Disposition the first word.
    Type,
    /// `:subtype`: of `text/plain` the word `plain`; of Content-Disposition the empty string.
    Subtype,
    /// `:contenttype`: `text/plain` without parameters; of Content-Disposition the first word.
    ContentType,
    /// `:param`: the values of the named parameters.
    Param(Vec<StringExpr>),
}

/// Compares the addresses in fields (RFC 5228 §5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressTest {
    pub fields: Vec<StringExpr>,
    pub part: AddressPart,
    pub index: Option<FieldIndex>,
    pub mime: Option<MimeScope>,
    pub comparison: Comparison,
}

/// Compares the values of fields (RFC 5228 §5.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderTest {
    pub fields: Vec<StringExpr>,
    pub index: Option<FieldIndex>,
    pub mime: Option<MimeScope>,
    /// `Value` if `mime` is `None`.
    pub option: MimeOption,
    pub comparison: Comparison,
}

/// Compares parts of the envelope (RFC 5228 §5.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopeTest {
    pub parts: Vec<Keyword<EnvelopePart>>,
    /// What is compared of the parts that are addresses.
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

/// What of the body is compared (RFC 5173 §5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BodyTransform {
    /// `:raw`: the body of the message as it is, without the header.
    Raw,
    /// `:content`: the decoded parts that have one of these types. A type is a main type such as
    /// `text`, a whole type such as `text/plain`, or the empty string, which stands for all.
    Content(Vec<StringExpr>),
    /// `:text`, the default: the readable text of each text part.
    Text,
}

/// Compares a part of the date in a field (RFC 5260 §4). A missing field and an invalid date give
/// no value to compare.
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
    /// `:originalzone`: the zone that the field itself names.
    Original,
    /// The offset of `:zone`.
    Offset(Keyword<UtcOffset>),
}

/// True if the message was seen before (RFC 7352 §3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuplicateTest {
    /// `:handle`: records with different handles are independent (RFC 7352 §3.2).
    pub handle: Option<StringExpr>,
    pub id: DuplicateId,
    /// `:seconds`: how long the record is kept. The host bounds it, and has a default for `None`.
    /// With 0 the test is false, and nothing is recorded.
    pub seconds: Option<u64>,
    /// `:last`: a duplicate is recorded anew, so that the time begins again.
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
