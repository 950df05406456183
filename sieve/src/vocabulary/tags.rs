//! Tags, and sets of them, some of which several words share.

use super::ValueType;
use crate::extension::Extension;

macro_rules! tags {
    ($($variant:ident = $name:literal;)*) => {
        /// A tag. One name is one variant, whatever word takes it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Tag { $($variant),* }

        impl Tag {
            /// Returns the name with its colon.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => concat!(":", $name)),* }
            }
        }
    };
}

tags! {
    Is = "is";
    Contains = "contains";
    Matches = "matches";
    Regex = "regex";
    Count = "count";
    Value = "value";
    List = "list";
    Comparator = "comparator";
    All = "all";
    LocalPart = "localpart";
    Domain = "domain";
    User = "user";
    Detail = "detail";
    Over = "over";
    Under = "under";
    Copy = "copy";
    Create = "create";
    Flags = "flags";
    SpecialUse = "specialuse";
    MailboxId = "mailboxid";
    Notify = "notify";
    Ret = "ret";
    ByTimeRelative = "bytimerelative";
    ByTimeAbsolute = "bytimeabsolute";
    ByMode = "bymode";
    ByTrace = "bytrace";
    Days = "days";
    Seconds = "seconds";
    Subject = "subject";
    From = "from";
    Addresses = "addresses";
    Mime = "mime";
    Handle = "handle";
    Fcc = "fcc";
    Lower = "lower";
    Upper = "upper";
    LowerFirst = "lowerfirst";
    UpperFirst = "upperfirst";
    QuoteWildcard = "quotewildcard";
    QuoteRegex = "quoteregex";
    EncodeUrl = "encodeurl";
    Length = "length";
    Index = "index";
    Last = "last";
    Zone = "zone";
    OriginalZone = "originalzone";
    Raw = "raw";
    Content = "content";
    Text = "text";
    Personal = "personal";
    Global = "global";
    Once = "once";
    Optional = "optional";
    Name = "name";
    First = "first";
    Headers = "headers";
    AnyChild = "anychild";
    Type = "type";
    Subtype = "subtype";
    ContentType = "contenttype";
    Param = "param";
    Percent = "percent";
    Header = "header";
    UniqueId = "uniqueid";
    Importance = "importance";
    Options = "options";
    Message = "message";
}

/// Tags of one group exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    MatchType,
    AddressPart,
    SizeBound,
    Deadline,
    Period,
    /// The modifiers of precedence 40 (RFC 5229 §4.1).
    Case,
    /// The modifiers of precedence 30.
    FirstCase,
    /// The modifiers of precedence 20.
    Quoting,
    Zone,
    BodyTransform,
    /// What may be given in addition to the name of a mailbox to find it (RFC 9042 §4.2).
    MailboxSelector,
    Location,
    MimeOption,
    DuplicateId,
}

/// A tag that a word takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TagWord {
    pub(crate) tag: Tag,
    /// The type of the value that follows it, `None` if none does.
    pub(crate) value: Option<ValueType>,
    /// The extension that it needs beside those of the word, if any.
    pub(crate) extension: Option<Extension>,
    /// The group that it belongs to, if any: no other tag of the group may be given with it.
    pub(crate) group: Option<Group>,
    /// If there are any, at least one of these tags must be given too.
    pub(crate) beside: &'static [Tag],
}

/// Makes a tag without a value and without conditions.
const fn tag(tag: Tag) -> TagWord {
    TagWord { tag, value: None, extension: None, group: None, beside: &[] }
}

impl TagWord {
    const fn number(self) -> Self {
        Self { value: Some(ValueType::Number), ..self }
    }

    const fn string(self) -> Self {
        Self { value: Some(ValueType::String), ..self }
    }

    const fn strings(self) -> Self {
        Self { value: Some(ValueType::Strings), ..self }
    }

    const fn of(self, extension: Extension) -> Self {
        Self { extension: Some(extension), ..self }
    }

    const fn in_group(self, group: Group) -> Self {
        Self { group: Some(group), ..self }
    }

    const fn beside(self, tags: &'static [Tag]) -> Self {
        Self { beside: tags, ..self }
    }
}

/// RFC 5228 §2.7.1, RFC 5231, draft-ietf-sieve-regex, RFC 6134 §2.2.
pub(super) const MATCH: &[TagWord] = &[
    tag(Tag::Is).in_group(Group::MatchType),
    tag(Tag::Contains).in_group(Group::MatchType),
    tag(Tag::Matches).in_group(Group::MatchType),
    tag(Tag::Regex).in_group(Group::MatchType).of(Extension::Regex),
    tag(Tag::Count).in_group(Group::MatchType).of(Extension::Relational).string(),
    tag(Tag::Value).in_group(Group::MatchType).of(Extension::Relational).string(),
    tag(Tag::List).in_group(Group::MatchType).of(Extension::ExtLists),
    tag(Tag::Comparator).string(),
];

/// RFC 5228 §2.7.4, RFC 5233.
pub(super) const ADDRESS_PART: &[TagWord] = &[
    tag(Tag::All).in_group(Group::AddressPart),
    tag(Tag::LocalPart).in_group(Group::AddressPart),
    tag(Tag::Domain).in_group(Group::AddressPart),
    tag(Tag::User).in_group(Group::AddressPart).of(Extension::SubAddress),
    tag(Tag::Detail).in_group(Group::AddressPart).of(Extension::SubAddress),
];

/// RFC 5260 §6.
pub(super) const INDEX: &[TagWord] = &[
    tag(Tag::Index).number().of(Extension::Index),
    tag(Tag::Last).of(Extension::Index).beside(&[Tag::Index]),
];

/// RFC 5293 §5. Unlike those of [`INDEX`], these tags are part of the extension of their command.
pub(super) const EDIT_INDEX: &[TagWord] =
    &[tag(Tag::Index).number(), tag(Tag::Last).beside(&[Tag::Index])];

/// RFC 5703 §4.
pub(super) const MIME: &[TagWord] = &[
    tag(Tag::Mime).of(Extension::Mime),
    tag(Tag::AnyChild).of(Extension::Mime).beside(&[Tag::Mime]),
];

/// RFC 5703 §4.1.
pub(super) const MIME_OPTION: &[TagWord] = &[
    tag(Tag::Type).of(Extension::Mime).in_group(Group::MimeOption).beside(&[Tag::Mime]),
    tag(Tag::Subtype).of(Extension::Mime).in_group(Group::MimeOption).beside(&[Tag::Mime]),
    tag(Tag::ContentType).of(Extension::Mime).in_group(Group::MimeOption).beside(&[Tag::Mime]),
    tag(Tag::Param).of(Extension::Mime).in_group(Group::MimeOption).beside(&[Tag::Mime]).strings(),
];

pub(super) const SIZE: &[TagWord] = &[
    tag(Tag::Over).number().in_group(Group::SizeBound),
    tag(Tag::Under).number().in_group(Group::SizeBound),
];

pub(super) const COPY: &[TagWord] = &[tag(Tag::Copy).of(Extension::Copy)];

pub(super) const FLAGS: &[TagWord] = &[tag(Tag::Flags).strings().of(Extension::Imap4Flags)];

/// RFC 5490 §3.2, RFC 8579 §4, RFC 9042 §4.
pub(super) const MAILBOX: &[TagWord] = &[
    tag(Tag::Create).of(Extension::Mailbox),
    tag(Tag::SpecialUse).string().of(Extension::SpecialUse).in_group(Group::MailboxSelector),
    tag(Tag::MailboxId).string().of(Extension::MailboxId).in_group(Group::MailboxSelector),
];

/// RFC 8580 §3.
pub(super) const FCC: &[TagWord] = &[
    tag(Tag::Fcc).string().of(Extension::Fcc),
    tag(Tag::Create).of(Extension::Mailbox).beside(&[Tag::Fcc]),
    tag(Tag::Flags).strings().of(Extension::Imap4Flags).beside(&[Tag::Fcc]),
    tag(Tag::SpecialUse)
        .string()
        .of(Extension::SpecialUse)
        .in_group(Group::MailboxSelector)
        .beside(&[Tag::Fcc]),
    tag(Tag::MailboxId)
        .string()
        .of(Extension::MailboxId)
        .in_group(Group::MailboxSelector)
        .beside(&[Tag::Fcc]),
];

/// RFC 6009 §6 and §7, RFC 6134 §2.3.
pub(super) const REDIRECT: &[TagWord] = &[
    tag(Tag::List).of(Extension::ExtLists),
    tag(Tag::Notify).string().of(Extension::RedirectDsn),
    tag(Tag::Ret).string().of(Extension::RedirectDsn),
    tag(Tag::ByTimeRelative).number().of(Extension::RedirectDeliverBy).in_group(Group::Deadline),
    tag(Tag::ByTimeAbsolute).string().of(Extension::RedirectDeliverBy).in_group(Group::Deadline),
    tag(Tag::ByMode).string().of(Extension::RedirectDeliverBy).beside(DEADLINES),
    tag(Tag::ByTrace).of(Extension::RedirectDeliverBy).beside(DEADLINES),
];

const DEADLINES: &[Tag] = &[Tag::ByTimeRelative, Tag::ByTimeAbsolute];

pub(super) const VACATION: &[TagWord] = &[
    tag(Tag::Days).number().in_group(Group::Period),
    tag(Tag::Seconds).number().in_group(Group::Period).of(Extension::VacationSeconds),
    tag(Tag::Subject).string(),
    tag(Tag::From).string(),
    tag(Tag::Addresses).strings(),
    tag(Tag::Mime),
    tag(Tag::Handle).string(),
];

/// RFC 5229 §4.1, RFC 5435 §6, draft-ietf-sieve-regex.
pub(super) const MODIFIERS: &[TagWord] = &[
    tag(Tag::Lower).in_group(Group::Case),
    tag(Tag::Upper).in_group(Group::Case),
    tag(Tag::LowerFirst).in_group(Group::FirstCase),
    tag(Tag::UpperFirst).in_group(Group::FirstCase),
    tag(Tag::QuoteWildcard).in_group(Group::Quoting),
    tag(Tag::QuoteRegex).in_group(Group::Quoting).of(Extension::Regex),
    tag(Tag::EncodeUrl).of(Extension::ENotify),
    tag(Tag::Length),
];

/// RFC 5435 §3.
pub(super) const NOTIFY: &[TagWord] = &[
    tag(Tag::From).string(),
    tag(Tag::Importance).string(),
    tag(Tag::Options).strings(),
    tag(Tag::Message).string(),
];

pub(super) const ADD_HEADER: &[TagWord] = &[tag(Tag::Last)];

/// RFC 6609 §3.2.
pub(super) const INCLUDE: &[TagWord] = &[
    tag(Tag::Personal).in_group(Group::Location),
    tag(Tag::Global).in_group(Group::Location),
    tag(Tag::Once),
    tag(Tag::Optional),
];

pub(super) const LOOP_NAME: &[TagWord] = &[tag(Tag::Name).string()];

pub(super) const FIRST: &[TagWord] = &[tag(Tag::First).number()];

/// RFC 5703 §5.
pub(super) const REPLACE: &[TagWord] =
    &[tag(Tag::Mime), tag(Tag::Subject).string(), tag(Tag::From).string()];

/// RFC 5703 §6. Its grammar has both tags, but its text and examples leave out either: both are
/// optional.
pub(super) const ENCLOSE: &[TagWord] = &[tag(Tag::Subject).string(), tag(Tag::Headers).strings()];

/// RFC 5173 §5.
pub(super) const BODY: &[TagWord] = &[
    tag(Tag::Raw).in_group(Group::BodyTransform),
    tag(Tag::Content).strings().in_group(Group::BodyTransform),
    tag(Tag::Text).in_group(Group::BodyTransform),
];

/// RFC 5260 §4.
pub(super) const DATE_ZONE: &[TagWord] =
    &[tag(Tag::Zone).string().in_group(Group::Zone), tag(Tag::OriginalZone).in_group(Group::Zone)];

/// RFC 6009 §5: the zone of `bytimeabsolute`.
pub(super) const ENVELOPE_ZONE: &[TagWord] =
    &[tag(Tag::Zone).string().of(Extension::EnvelopeDeliverBy)];

pub(super) const ZONE: &[TagWord] = &[tag(Tag::Zone).string()];

/// RFC 7352 §3.
pub(super) const DUPLICATE: &[TagWord] = &[
    tag(Tag::Handle).string(),
    tag(Tag::Header).string().in_group(Group::DuplicateId),
    tag(Tag::UniqueId).string().in_group(Group::DuplicateId),
    tag(Tag::Seconds).number(),
    tag(Tag::Last),
];

pub(super) const PERCENT: &[TagWord] = &[tag(Tag::Percent).of(Extension::SpamTestPlus)];
