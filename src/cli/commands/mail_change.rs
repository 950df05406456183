//! `mail destroy|restore|purge|move|flag`: several emails at once, and of each it is said what became of it.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde_json::{Value, json};

use crate::cli::commands::mail;
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, methods, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input;
use crate::cli::terminal::output::{self, short, size, text, when};
use crate::model::limits;

/// `mail destroy`
#[derive(Debug, Args)]
pub struct DestroyArgs {
    /// Whose.
    #[command(flatten)]
    pub whose: AccountArgs,
    /// Their ids, as `mail list` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
}

/// `mail restore`
#[derive(Debug, Args)]
pub struct MailRestoreArgs {
    /// Whose.
    #[command(flatten)]
    pub whose: AccountArgs,
    /// The ids that they had, as `mail purge` shows them.
    #[arg(required = true, value_name = "EMAIL")]
    pub emails: Vec<String>,
}

/// `mail purge`
#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// Whose.
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
    /// Whose.
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
    /// Whose.
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

pub(in crate::cli) async fn destroy(args: DestroyArgs, context: &CommandContext) -> Result<(), Failure> {
    let arguments = json!({ "ids": args.emails });
    some(context, &args.whose, methods::MAIL_DESTROY, arguments, ("destroyed", "notDestroyed")).await
}

pub(in crate::cli) async fn restore(args: MailRestoreArgs, context: &CommandContext) -> Result<(), Failure> {
    let arguments = json!({ "ids": args.emails });
    some(context, &args.whose, methods::MAIL_RESTORE, arguments, ("restored", "notRestored")).await
}

pub(in crate::cli) async fn move_to(args: MoveArgs, context: &CommandContext) -> Result<(), Failure> {
    let arguments = json!({ "ids": args.emails, "mailbox": args.mailbox, "also": args.also });
    some(context, &args.whose, methods::MAIL_MOVE, arguments, ("moved", "notMoved")).await
}

pub(in crate::cli) async fn flag(args: FlagArgs, context: &CommandContext) -> Result<(), Failure> {
    let arguments = json!({ "ids": args.emails, "add": args.add, "remove": args.remove });
    some(context, &args.whose, methods::MAIL_FLAG, arguments, ("flagged", "notFlagged")).await
}

pub(in crate::cli) async fn purge(args: PurgeArgs, context: &CommandContext) -> Result<(), Failure> {
    if !args.now {
        return list(&args, context).await;
    }
    let what = if args.emails.is_empty() {
        "all destroyed mail".to_owned()
    } else {
        format!("{} messages", args.emails.len())
    };
    if !args.yes && !input::confirmed(&format!("Purge {what} of {} for good? Type yes: ", args.whose.account))? {
        return Err(Failure::new(exit::USAGE, "not purged"));
    }
    if !args.emails.is_empty() {
        let arguments = json!({ "ids": args.emails });
        return some(context, &args.whose, methods::MAIL_PURGE, arguments, ("purged", "notPurged")).await;
    }
    let account = selected_account::find_account(&args.whose.account, context).await?;
    let answer =
        context.client.call_by_name(methods::MAIL_PURGE, json!({"accountId": account.id, "all": true})).await?;
    if context.json {
        output::json(&answer);
    } else {
        output::line(&format!("{} purged", text(&answer["count"])));
    }
    Ok(())
}

async fn list(args: &PurgeArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.whose.account, context).await?;
    let arguments = json!({"accountId": account.id, "limit": args.limit});
    let answer = context.client.call_by_name(methods::MAIL_DESTROYED, arguments).await?;
    if context.json {
        output::json(&answer["list"]);
        return Ok(());
    }
    let row = |row: &Value| {
        vec![
            text(&row["id"]),
            when(&row["destroyedAt"], &account.zone),
            when(&row["restorableUntil"], &account.zone),
            short(&mail::from(&row["from"]), 32),
            short(&text(&row["subject"]), 50),
            row["size"].as_u64().map_or_else(String::new, size),
        ]
    };
    let rows = answer["list"].as_array().into_iter().flatten().map(row).collect();
    output::table(&["ID", "DESTROYED", "RESTORABLE UNTIL", "FROM", "SUBJECT", "SIZE"], rows);
    Ok(())
}

/// Calls a method that tells of each email what became of it, and tells it. Those that were refused make the exit code.
async fn some(
    context: &CommandContext,
    who: &AccountArgs,
    method: &str,
    arguments: Value,
    (done, refused): (&str, &str),
) -> Result<(), Failure> {
    let answer = selected_account::call_by_name(context, who, method, arguments).await?;
    if context.json {
        output::json(&answer);
    } else {
        for (id, value) in answer[done].as_object().into_iter().flatten() {
            output::line(&match value {
                Value::String(new) => format!("{id} {done} as {new}"),
                Value::Array(words) => format!("{id} {done}: {}", words.iter().map(text).collect::<Vec<_>>().join(" ")),
                _ => format!("{id} {done}"),
            });
        }
    }
    let wrong: Vec<(String, Failure)> = answer[refused]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(id, why)| (id.clone(), Failure::of_method(&text(&why["type"]), &text(&why["description"]))))
        .collect();
    let Some((_, first)) = wrong.first() else { return Ok(()) };
    let lines: Vec<String> = wrong.iter().map(|(id, why)| format!("{id} not {done}: {why}")).collect();
    Err(Failure::new(first.code, lines.join("\n")))
}
