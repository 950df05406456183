//! The commands `mail destroy`, `restore`, `purge`, `move` and `flag`.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::commands::mail;
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input;
use crate::cli::terminal::output::{self, local, short, size};
use crate::cli::terminal::row_count;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::mail::{
    EmailIds, MailDestroy, MailDestroyed, MailDestroyedArguments, MailFlag, MailFlagArguments,
    MailMove, MailMoveArguments, MailPurge, MailPurgeAnswer, MailPurgeArguments, MailRestore,
};
use crate::wire::jmap::admin::{AccountRef, ObjectError, OfAccount, VendorMethod};
use clap::Args;

#[derive(Debug, Args)]
pub struct DestroyArgs {
    #[command(flatten)]
    pub account: AccountArgs,
    /// The ids of the messages, as `mail list` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
}

#[derive(Debug, Args)]
pub struct MailRestoreArgs {
    #[command(flatten)]
    pub account: AccountArgs,
    /// The former ids of the messages, as `mail purge` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
}

#[derive(Debug, Args)]
pub struct PurgeArgs {
    #[command(flatten)]
    pub account: AccountArgs,
    /// With --now: remove only these messages, named by their former ids.
    #[arg(value_name = "EMAIL", requires = "now")]
    pub emails: Vec<String>,
    /// Remove the messages for good instead of listing them.
    #[arg(long)]
    pub now: bool,
    /// Do not ask for confirmation.
    #[arg(long, requires = "now")]
    pub yes: bool,
    /// The number of lines, at most 10000.
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = row_count())]
    pub limit: usize,
}

#[derive(Debug, Args)]
pub struct MoveArgs {
    #[command(flatten)]
    pub account: AccountArgs,
    /// The mailbox to move them to: its path, such as Work/2026, its role or its id.
    pub mailbox: String,
    /// The ids of the messages, as `mail list` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
    /// Keep them in their present mailboxes, too.
    #[arg(long)]
    pub also: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("words").required(true).multiple(true))]
pub struct FlagArgs {
    #[command(flatten)]
    pub account: AccountArgs,
    /// The ids of the messages, as `mail list` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
    /// A keyword to add, such as $seen or $flagged; may be given several times.
    #[arg(long, group = "words", value_name = "KEYWORD")]
    pub add: Vec<String>,
    /// A keyword to remove; may be given several times.
    #[arg(long, group = "words", value_name = "KEYWORD")]
    pub remove: Vec<String>,
}

pub(in crate::cli) async fn destroy(
    args: DestroyArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let split = |answer: <MailDestroy as VendorMethod>::Answer| {
        (plain(answer.destroyed), answer.not_destroyed)
    };
    change_each::<MailDestroy, _>(
        context,
        &args.account,
        EmailIds { ids: args.emails },
        "destroyed",
        split,
    )
    .await
}

pub(in crate::cli) async fn restore(
    args: MailRestoreArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let split = |answer: <MailRestore as VendorMethod>::Answer| {
        let changed = answer.restored.into_iter().map(|(id, new)| (id, format!(" as {new}")));
        (changed.collect(), answer.not_restored)
    };
    change_each::<MailRestore, _>(
        context,
        &args.account,
        EmailIds { ids: args.emails },
        "restored",
        split,
    )
    .await
}

pub(in crate::cli) async fn move_to(
    args: MoveArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let arguments = MailMoveArguments { ids: args.emails, mailbox: args.mailbox, also: args.also };
    let split =
        |answer: <MailMove as VendorMethod>::Answer| (plain(answer.moved), answer.not_moved);
    let done = if args.also { "added" } else { "moved" };
    change_each::<MailMove, _>(context, &args.account, arguments, done, split).await
}

pub(in crate::cli) async fn flag(args: FlagArgs, context: &CommandContext) -> Result<(), Failure> {
    let arguments = MailFlagArguments { ids: args.emails, add: args.add, remove: args.remove };
    let split = |answer: <MailFlag as VendorMethod>::Answer| {
        let join = |keywords: BTreeSet<String>| keywords.into_iter().collect::<Vec<_>>().join(" ");
        let flagged = answer.flagged.into_iter();
        let changed = flagged.map(|(id, keywords)| (id, format!(": {}", join(keywords))));
        (changed.collect(), answer.not_flagged)
    };
    change_each::<MailFlag, _>(context, &args.account, arguments, "flagged", split).await
}

pub(in crate::cli) async fn purge(
    args: PurgeArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    if !args.now {
        return list(&args, context).await;
    }
    let what = match args.emails.len() {
        0 => "all destroyed mail".to_owned(),
        1 => "1 message".to_owned(),
        count => format!("{count} messages"),
    };
    let owner = match args.account.account.as_str() {
        "" => "your account",
        account => account,
    };
    let question = format!("Remove {what} of {owner} for good? Type yes: ");
    if !args.yes && !input::confirmed(&question)? {
        return Err(Failure::new(exit::USAGE, "nothing was removed"));
    }
    if !args.emails.is_empty() {
        let arguments = MailPurgeArguments { ids: Some(args.emails), all: false };
        let split = |answer| match answer {
            MailPurgeAnswer::Named { purged, not_purged } => (plain(purged), not_purged),
            // The service does not answer so if ids are named.
            MailPurgeAnswer::All { .. } => (Vec::new(), BTreeMap::new()),
        };
        return change_each::<MailPurge, _>(context, &args.account, arguments, "purged", split)
            .await;
    }
    let arguments = MailPurgeArguments { ids: None, all: true };
    let answer = selected_account::call::<MailPurge, _>(context, &args.account, arguments).await?;
    if context.json {
        output::json(&answer);
    } else if let MailPurgeAnswer::All { count } = answer {
        output::line(&format!("{count} purged"));
    }
    Ok(())
}

async fn list(args: &PurgeArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.account.account, context).await?;
    let arguments = MailDestroyedArguments { limit: Some(args.limit as u64) };
    let answer = context
        .client
        .call::<MailDestroyed>(With(AccountRef::by_id(&account.id), arguments))
        .await?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let rows = answer.list.into_iter().map(|row| {
        let (destroyed_at, until) = (&row.destroyed_at, &row.restorable_until);
        vec![
            row.email.id,
            local(destroyed_at, &account.zone),
            local(until, &account.zone),
            short(mail::from(&row.email.from), 32),
            short(row.email.subject.as_deref().unwrap_or_default(), 50),
            size(row.email.size),
        ]
    });
    let rows = rows.collect();
    output::table(&["ID", "DESTROYED", "RESTORABLE UNTIL", "FROM", "SUBJECT", "SIZE"], rows);
    Ok(())
}

/// Returns the ids, each with an empty remark.
fn plain(changed: BTreeMap<String, ()>) -> Vec<(String, String)> {
    changed.into_keys().map(|id| (id, String::new())).collect()
}

/// Calls a method that changes several emails, and prints for each of them what happened.
///
/// `split` takes from the answer the ids of the changed emails, each with a remark that is printed
/// after `done`; and the other ids, each with its error.
///
/// # Errors
/// The call fails; or an email was not changed: then the exit code is that of the first error.
async fn change_each<M, A>(
    context: &CommandContext,
    account: &AccountArgs,
    args: A,
    done: &str,
    split: impl FnOnce(M::Answer) -> (Vec<(String, String)>, BTreeMap<String, ObjectError>),
) -> Result<(), Failure>
where
    M: VendorMethod<Args = OfAccount<A>>,
{
    let answer = selected_account::call::<M, A>(context, account, args).await?;
    if context.json {
        output::json(&answer);
    }
    let (changed, errors) = split(answer);
    if !context.json {
        changed.iter().for_each(|(id, remark)| output::line(&format!("{id} {done}{remark}")));
    }
    let failures: Vec<(String, Failure)> =
        errors.into_iter().map(|(id, error)| (id, failure(&error))).collect();
    let Some((_, first)) = failures.first() else { return Ok(()) };
    let lines: Vec<String> =
        failures.iter().map(|(id, failure)| format!("{id} not {done}: {failure}")).collect();
    Err(Failure::new(first.code, lines.join("\n")))
}

fn failure(error: &ObjectError) -> Failure {
    Failure::from_jmap_error(&error.kind, error.description.as_deref().unwrap_or_default())
}
