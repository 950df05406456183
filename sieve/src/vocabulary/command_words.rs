//! The table of commands.

use super::ValueType::{String, Strings};
use super::{CommandId, Positional, TagWord, TestCount, Word, needed, optional, tags};
use crate::extension::Extension;

/// What commands of the base language need: no extension.
const BASE: &[Extension] = &[];

const fn command(
    name: &'static str,
    id: CommandId,
    extensions: &'static [Extension],
    tags: &'static [&'static [TagWord]],
    positionals: &'static [Positional],
) -> Word<CommandId> {
    Word::new(name, id, extensions, tags, positionals)
}

impl Word<CommandId> {
    const fn with_test(self) -> Self {
        Self { tests: TestCount::One, ..self }
    }

    const fn with_block(self) -> Self {
        Self { has_block: true, ..self }
    }
}

const FLAG_ARGUMENTS: &[Positional] =
    &[optional("name of a variable", String), needed("list of flags", Strings)];

/// Every command that the engine knows.
pub(crate) static COMMANDS: &[Word<CommandId>] = &[
    // RFC 5228
    command("require", CommandId::Require, BASE, &[], &[needed("list of extensions", Strings)]),
    command("if", CommandId::If, BASE, &[], &[]).with_test().with_block(),
    command("elsif", CommandId::ElsIf, BASE, &[], &[]).with_test().with_block(),
    command("else", CommandId::Else, BASE, &[], &[]).with_block(),
    command("stop", CommandId::Stop, BASE, &[], &[]),
    command("keep", CommandId::Keep, BASE, &[tags::FLAGS], &[]),
    command("discard", CommandId::Discard, BASE, &[], &[]),
    command(
        "redirect",
        CommandId::Redirect,
        BASE,
        &[tags::COPY, tags::REDIRECT],
        &[needed("address", String)],
    ),
    command(
        "fileinto",
        CommandId::FileInto,
        &[Extension::FileInto],
        &[tags::COPY, tags::FLAGS, tags::MAILBOX],
        &[needed("mailbox", String)],
    ),
    // RFC 5429
    command("reject", CommandId::Reject, &[Extension::Reject], &[], &[needed("reason", String)]),
    command("ereject", CommandId::EReject, &[Extension::EReject], &[], &[needed("reason", String)]),
    // RFC 5230
    command(
        "vacation",
        CommandId::Vacation,
        &[Extension::Vacation],
        &[tags::VACATION, tags::FCC],
        &[needed("reason", String)],
    ),
    // RFC 5229
    command(
        "set",
        CommandId::Set,
        &[Extension::Variables],
        &[tags::MODIFIERS],
        &[needed("name of a variable", String), needed("value", String)],
    ),
    // RFC 5232
    command("setflag", CommandId::SetFlag, &[Extension::Imap4Flags], &[], FLAG_ARGUMENTS),
    command("addflag", CommandId::AddFlag, &[Extension::Imap4Flags], &[], FLAG_ARGUMENTS),
    command("removeflag", CommandId::RemoveFlag, &[Extension::Imap4Flags], &[], FLAG_ARGUMENTS),
    // RFC 5435
    command(
        "notify",
        CommandId::Notify,
        &[Extension::ENotify],
        &[tags::NOTIFY, tags::FCC],
        &[needed("method", String)],
    ),
    // RFC 5293
    command(
        "addheader",
        CommandId::AddHeader,
        &[Extension::EditHeader],
        &[tags::ADD_HEADER],
        &[needed("name of a header field", String), needed("value", String)],
    ),
    command(
        "deleteheader",
        CommandId::DeleteHeader,
        &[Extension::EditHeader],
        &[tags::EDIT_INDEX, tags::MATCH],
        &[needed("name of a header field", String), optional("list of values", Strings)],
    ),
    // RFC 6609
    command(
        "include",
        CommandId::Include,
        &[Extension::Include],
        &[tags::INCLUDE],
        &[needed("name of a script", String)],
    ),
    command("return", CommandId::Return, &[Extension::Include], &[], &[]),
    command(
        "global",
        CommandId::Global,
        &[Extension::Include, Extension::Variables],
        &[],
        &[needed("list of variables", Strings)],
    ),
    // RFC 5703
    command(
        "foreverypart",
        CommandId::ForEveryPart,
        &[Extension::ForEveryPart],
        &[tags::LOOP_NAME],
        &[],
    )
    .with_block(),
    command("break", CommandId::Break, &[Extension::ForEveryPart], &[tags::LOOP_NAME], &[]),
    command(
        "extracttext",
        CommandId::ExtractText,
        &[Extension::ExtractText, Extension::Variables],
        &[tags::MODIFIERS, tags::FIRST],
        &[needed("name of a variable", String)],
    ),
    command(
        "replace",
        CommandId::Replace,
        &[Extension::Replace],
        &[tags::REPLACE],
        &[needed("replacement", String)],
    ),
    command(
        "enclose",
        CommandId::Enclose,
        &[Extension::Enclose],
        &[tags::ENCLOSE],
        &[needed("text", String)],
    ),
    // RFC 5463
    command("error", CommandId::Error, &[Extension::IHave], &[], &[needed("message", String)]),
];
