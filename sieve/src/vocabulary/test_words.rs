//! The table of tests.

use super::ValueType::{String, Strings};
use super::{Group, Positional, TagWord, TestCount, TestId, Word, needed, optional, tags};
use crate::extension::Extension;

/// What tests of the base language need: no extension.
const BASE: &[Extension] = &[];

const fn test(
    name: &'static str,
    id: TestId,
    extensions: &'static [Extension],
    tags: &'static [&'static [TagWord]],
    positionals: &'static [Positional],
) -> Word<TestId> {
    Word::new(name, id, extensions, tags, positionals)
}

impl Word<TestId> {
    const fn with_tests(self, tests: TestCount) -> Self {
        Self { tests, ..self }
    }

    /// Demands one tag of a group.
    const fn with_one_of(self, group: Group) -> Self {
        Self { needed_group: Some(group), ..self }
    }
}

const KEYS: Positional = needed("list of keys", Strings);
const FIELDS: Positional = needed("list of header fields", Strings);
const MAILBOX: Positional = needed("mailbox", String);

/// Every test that the engine knows.
pub(crate) static TESTS: &[Word<TestId>] = &[
    // RFC 5228
    test("true", TestId::True, BASE, &[], &[]),
    test("false", TestId::False, BASE, &[], &[]),
    test("not", TestId::Not, BASE, &[], &[]).with_tests(TestCount::One),
    test("allof", TestId::AllOf, BASE, &[], &[]).with_tests(TestCount::List),
    test("anyof", TestId::AnyOf, BASE, &[], &[]).with_tests(TestCount::List),
    test(
        "address",
        TestId::Address,
        BASE,
        &[tags::MATCH, tags::ADDRESS_PART, tags::INDEX, tags::MIME],
        &[FIELDS, KEYS],
    ),
    test(
        "header",
        TestId::Header,
        BASE,
        &[tags::MATCH, tags::INDEX, tags::MIME, tags::MIME_OPTION],
        &[FIELDS, KEYS],
    ),
    test("exists", TestId::Exists, BASE, &[tags::MIME], &[FIELDS]),
    test(
        "envelope",
        TestId::Envelope,
        &[Extension::Envelope],
        &[tags::MATCH, tags::ADDRESS_PART, tags::ENVELOPE_ZONE],
        &[needed("list of envelope parts", Strings), KEYS],
    ),
    test("size", TestId::Size, BASE, &[tags::SIZE], &[]).with_one_of(Group::SizeBound),
    // RFC 5229
    test(
        "string",
        TestId::String,
        &[Extension::Variables],
        &[tags::MATCH],
        &[needed("list of strings", Strings), KEYS],
    ),
    // RFC 5232
    test(
        "hasflag",
        TestId::HasFlag,
        &[Extension::Imap4Flags],
        &[tags::MATCH],
        &[optional("list of variables", Strings), needed("list of flags", Strings)],
    ),
    // RFC 5173
    test("body", TestId::Body, &[Extension::Body], &[tags::MATCH, tags::BODY], &[KEYS]),
    // RFC 5260
    test(
        "date",
        TestId::Date,
        &[Extension::Date],
        &[tags::MATCH, tags::DATE_ZONE, tags::INDEX],
        &[needed("header field", String), needed("part of a date", String), KEYS],
    ),
    test(
        "currentdate",
        TestId::CurrentDate,
        &[Extension::Date],
        &[tags::MATCH, tags::ZONE],
        &[needed("part of a date", String), KEYS],
    ),
    // RFC 5183
    test(
        "environment",
        TestId::Environment,
        &[Extension::Environment],
        &[tags::MATCH],
        &[needed("item", String), KEYS],
    ),
    // RFC 7352
    test("duplicate", TestId::Duplicate, &[Extension::Duplicate], &[tags::DUPLICATE], &[]),
    // RFC 5235
    test(
        "spamtest",
        TestId::SpamTest,
        &[Extension::SpamTest],
        &[tags::MATCH, tags::PERCENT],
        &[needed("value", String)],
    ),
    test(
        "virustest",
        TestId::VirusTest,
        &[Extension::VirusTest],
        &[tags::MATCH],
        &[needed("value", String)],
    ),
    // RFC 5490
    test(
        "mailboxexists",
        TestId::MailboxExists,
        &[Extension::Mailbox],
        &[],
        &[needed("list of mailboxes", Strings)],
    ),
    test(
        "metadata",
        TestId::Metadata,
        &[Extension::MboxMetadata],
        &[tags::MATCH],
        &[MAILBOX, needed("name of an entry", String), KEYS],
    ),
    test(
        "metadataexists",
        TestId::MetadataExists,
        &[Extension::MboxMetadata],
        &[],
        &[MAILBOX, needed("list of entries", Strings)],
    ),
    test(
        "servermetadata",
        TestId::ServerMetadata,
        &[Extension::ServerMetadata],
        &[tags::MATCH],
        &[needed("name of an entry", String), KEYS],
    ),
    test(
        "servermetadataexists",
        TestId::ServerMetadataExists,
        &[Extension::ServerMetadata],
        &[],
        &[needed("list of entries", Strings)],
    ),
    // RFC 8579
    test(
        "specialuse_exists",
        TestId::SpecialUseExists,
        &[Extension::SpecialUse],
        &[],
        &[optional("mailbox", String), needed("list of special uses", Strings)],
    ),
    // RFC 9042
    test(
        "mailboxidexists",
        TestId::MailboxIdExists,
        &[Extension::MailboxId],
        &[],
        &[needed("list of mailbox ids", Strings)],
    ),
    // RFC 5435
    test(
        "valid_notify_method",
        TestId::ValidNotifyMethod,
        &[Extension::ENotify],
        &[],
        &[needed("list of methods", Strings)],
    ),
    test(
        "notify_method_capability",
        TestId::NotifyMethodCapability,
        &[Extension::ENotify],
        &[tags::MATCH],
        &[needed("method", String), needed("capability", String), KEYS],
    ),
    // RFC 6134
    test(
        "valid_ext_list",
        TestId::ValidExtList,
        &[Extension::ExtLists],
        &[],
        &[needed("list of external lists", Strings)],
    ),
    // RFC 5463
    test(
        "ihave",
        TestId::IHave,
        &[Extension::IHave],
        &[],
        &[needed("list of extensions", Strings)],
    ),
];
