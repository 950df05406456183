//! `mail destroy|restore|purge|move|flag`: several emails at once, and of each it is said what
//! became of it.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::cli::commands::mail;
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input;
use crate::cli::terminal::output::{self, local, short, size};
use crate::model::limits;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::mail::{
    EmailIds, MailDestroy, MailDestroyed, MailDestroyedArguments, MailFlag, MailFlagArguments,
    MailMove, MailMoveArguments, MailPurge, MailPurgeAnswer, MailPurgeArguments, MailRestore,
};
use crate::wire::jmap::admin::{AccountRef, ObjectError, OfAccount, VendorMethod};

/// `mail destroy`
#[derive(Debug, Args)]
pub struct DestroyArgs {
    #[command(flatten)]
    pub whose: AccountArgs,
    /// Their ids, as `mail list` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
}

/// `mail restore`
#[derive(Debug, Args)]
pub struct MailRestoreArgs {
    #[command(flatten)]
    pub whose: AccountArgs,
    /// The ids that they had, as `mail purge` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
}

/// `mail purge`
#[derive(Debug, Args)]
pub struct PurgeArgs {
    #[command(flatten)]
    pub whose: AccountArgs,
    /// With --now: these alone, by the ids that they had.
    #[arg(value_name = "EMAIL", requires = "now")]
    pub emails: Vec<String>,
    /// Purge now, for good, instead of listing.
    #[arg(long)]
    pub now: bool,
    /// Do not ask.
    #[arg(long, requires = "now")]
    pub yes: bool,
    /// List at most this many, up to 10000.
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = RangedU64ValueParser::<usize>::new().range(1..=limits::MAX_LISTED_ROWS as u64))]
    pub limit: usize,
}

/// `mail move`
#[derive(Debug, Args)]
pub struct MoveArgs {
    #[command(flatten)]
    pub whose: AccountArgs,
    /// To where: a path such as Work/2026, or a role.
    pub mailbox: String,
    /// Their ids, as `mail list` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
    /// Let them stay where they are, too.
    #[arg(long)]
    pub also: bool,
}

/// `mail flag`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("words").required(true).multiple(true))]
pub struct FlagArgs {
    #[command(flatten)]
    pub whose: AccountArgs,
    /// Their ids, as `mail list` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
    /// A keyword to set, such as $seen or $flagged; the option once for each.
    #[arg(long, group = "words", value_name = "KEYWORD")]
    pub add: Vec<String>,
    /// A keyword to take away; the option once for each.
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
    some::<MailDestroy, _>(context, &args.whose, EmailIds { ids: args.emails }, "destroyed", split)
        .await
}

pub(in crate::cli) async fn restore(
    args: MailRestoreArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let split = |answer: <MailRestore as VendorMethod>::Answer| {
        let done = answer.restored.into_iter().map(|(id, new)| (id, format!(" as {new}")));
        (done.collect(), answer.not_restored)
    };
    some::<MailRestore, _>(context, &args.whose, EmailIds { ids: args.emails }, "restored", split)
        .await
}

pub(in crate::cli) async fn move_to(
    args: MoveArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let arguments = MailMoveArguments { ids: args.emails, mailbox: args.mailbox, also: args.also };
    let split =
        |answer: <MailMove as VendorMethod>::Answer| (plain(answer.moved), answer.not_moved);
    some::<MailMove, _>(context, &args.whose, arguments, "moved", split).await
}

pub(in crate::cli) async fn flag(args: FlagArgs, context: &CommandContext) -> Result<(), Failure> {
    let arguments = MailFlagArguments { ids: args.emails, add: args.add, remove: args.remove };
    let split = |answer: <MailFlag as VendorMethod>::Answer| {
        let words = |all: BTreeSet<String>| all.into_iter().collect::<Vec<_>>().join(" ");
        let done = answer.flagged.into_iter().map(|(id, all)| (id, format!(": {}", words(all))));
        (done.collect(), answer.not_flagged)
    };
    some::<MailFlag, _>(context, &args.whose, arguments, "flagged", split).await
}

pub(in crate::cli) async fn purge(
    args: PurgeArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    if !args.now {
        return list(&args, context).await;
    }
    let what = if args.emails.is_empty() {
        "all destroyed mail".to_owned()
    } else {
        format!("{} messages", args.emails.len())
    };
    if !args.yes
        && !input::confirmed(&format!(
            "Purge {what} of {} for good? Type yes: ",
            args.whose.account
        ))?
    {
        return Err(Failure::new(exit::USAGE, "not purged"));
    }
    if !args.emails.is_empty() {
        let arguments = MailPurgeArguments { ids: Some(args.emails), all: false };
        let split = |answer| match answer {
            MailPurgeAnswer::Named { purged, not_purged } => (plain(purged), not_purged),
            MailPurgeAnswer::All { .. } => (Vec::new(), BTreeMap::new()),
        };
        return some::<MailPurge, _>(context, &args.whose, arguments, "purged", split).await;
    }
    let arguments = MailPurgeArguments { ids: None, all: true };
    let answer = selected_account::call::<MailPurge, _>(context, &args.whose, arguments).await?;
    if context.json {
        output::json(&answer);
    } else if let MailPurgeAnswer::All { count } = answer {
        output::line(&format!("{count} purged"));
    }
    Ok(())
}

async fn list(args: &PurgeArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.whose.account, context).await?;
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

/// The ids of emails of which there is no more to say than that it is done.
fn plain(done: BTreeMap<String, ()>) -> Vec<(String, String)> {
    done.into_keys().map(|id| (id, String::new())).collect()
}

/// Calls a method that tells of each email what became of it, and tells it. Those that were refused
/// make the exit code.
///
/// `split` gives of an answer the ids with what there is to say of them beside `done`, and those
/// that were refused.
async fn some<M, A>(
    context: &CommandContext,
    who: &AccountArgs,
    args: A,
    done: &str,
    split: impl FnOnce(M::Answer) -> (Vec<(String, String)>, BTreeMap<String, ObjectError>),
) -> Result<(), Failure>
where
    M: VendorMethod<Args = OfAccount<A>>,
{
    let answer = selected_account::call::<M, A>(context, who, args).await?;
    if context.json {
        output::json(&answer);
    }
    let (said, refused) = split(answer);
    if !context.json {
        said.iter().for_each(|(id, more)| output::line(&format!("{id} {done}{more}")));
    }
    let wrong: Vec<(String, Failure)> =
        refused.into_iter().map(|(id, why)| (id, failure(&why))).collect();
    let Some((_, first)) = wrong.first() else { return Ok(()) };
    let lines: Vec<String> =
        wrong.iter().map(|(id, why)| format!("{id} not {done}: {why}")).collect();
    Err(Failure::new(first.code, lines.join("\n")))
}

fn failure(why: &ObjectError) -> Failure {
    Failure::of_method(&why.kind, why.description.as_deref().unwrap_or_default())
}
