//! `mail list|show`; `mail query` is in `query`, `mail import|export` are in `transfer`.

use clap::Subcommand;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::cli::commands::mail_change::{self, DestroyArgs, FlagArgs, MailRestoreArgs, MoveArgs, PurgeArgs};
use crate::cli::commands::mail_query::{self, MailQueryArgs};
use crate::cli::commands::transfer::{self, ExportArgs, ImportArgs};
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, methods, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::listed;
use crate::cli::terminal::output::{self, short, size, text, when};
use crate::wire::jmap::of_octets;

/// `mail`
#[derive(Debug, Subcommand)]
pub enum MailCommand {
    /// List a mailbox, newest first, a line for each thread or message.
    List {
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox.
        #[arg(long, default_value = "Inbox")]
        mailbox: String,
        /// A line for each thread: its newest message.
        #[arg(long)]
        threads: bool,
        /// At most this many, up to 10000; --after goes on.
        #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = listed())]
        limit: usize,
        /// Go on after this message, the last of the page before.
        #[arg(long, value_name = "EMAIL")]
        after: Option<String>,
    },
    /// Find mail.
    ///
    /// What is asked must all hold. Without a question: all mail, newest first.
    Query(Box<MailQueryArgs>),
    /// Print a message as it was received.
    Show {
        /// Whose.
        #[command(flatten)]
        whose: AccountArgs,
        /// Its id, as `mail list` shows it.
        email: String,
    },
    /// Take in mail from Maildirs, mailbox files or .eml files, with its folders, keywords and dates.
    ///
    /// Can be interrupted and run again: what is there is not added again.
    Import(Box<ImportArgs>),
    /// Write all mail of an account into a Maildir, into mailbox files or into .eml files.
    ///
    /// Run again, it adds what is new, and in a Maildir or .eml tree makes keywords as they are now. Nothing is removed.
    Export(Box<ExportArgs>),
    /// Move messages into a mailbox.
    Move(MoveArgs),
    /// Set keywords of messages, or take them away.
    Flag(FlagArgs),
    /// Destroy messages; for a time they can be restored.
    Destroy(DestroyArgs),
    /// Bring destroyed messages back, under new ids.
    Restore(MailRestoreArgs),
    /// List what can be restored, or purge it before its time.
    Purge(PurgeArgs),
}

pub(in crate::cli) async fn run(command: MailCommand, context: &CommandContext) -> Result<(), Failure> {
    match command {
        MailCommand::List { whose, mailbox, threads, limit, after } => {
            let account = selected_account::find_account(&whose.account, context).await?;
            let arguments = json!({
                "accountId": account.id, "mailbox": mailbox, "collapseThreads": threads, "limit": limit, "after": after,
            });
            let answer = context.client.call_by_name(methods::MAIL_LIST, arguments).await?;
            if context.json {
                output::json(&answer["list"]);
            } else {
                output::table(head(threads), rows(&answer["list"], &account.zone));
            }
        }
        MailCommand::Query(query) => mail_query::run(*query, context).await?,
        MailCommand::Show { whose, email } => {
            let account = selected_account::find_account(&whose.account, context).await?;
            let answer =
                context.client.call_by_name(methods::MAIL_SHOW, json!({"accountId": account.id, "id": email})).await?;
            if context.json {
                output::json(&answer);
            } else {
                let message = of_octets(&text(&answer["message"]))
                    .map_err(|_| Failure::new(exit::SOFTWARE, "the service's answer holds no message"))?;
                output::octets(&message)?;
            }
        }
        MailCommand::Import(args) => return transfer::import(*args, context).await,
        MailCommand::Export(args) => return transfer::export(*args, context).await,
        MailCommand::Destroy(args) => return mail_change::destroy(args, context).await,
        MailCommand::Restore(args) => return mail_change::restore(args, context).await,
        MailCommand::Purge(args) => return mail_change::purge(args, context).await,
        MailCommand::Move(args) => return mail_change::move_to(args, context).await,
        MailCommand::Flag(args) => return mail_change::flag(args, context).await,
    }
    Ok(())
}

/// The head of a list of mail: of emails, or of threads.
pub(in crate::cli) fn head(threads: bool) -> &'static [&'static str] {
    const HEAD: [&str; 9] = ["ID", "THREAD", "RECEIVED", "FROM", "SUBJECT", "SIZE", "EMAILS", "UNREAD", "LATEST"];
    if threads { &HEAD } else { &HEAD[..6] }
}

/// The rows of a list of mail.
pub(in crate::cli) fn rows(list: &Value, zone: &TimeZone) -> Vec<Vec<String>> {
    let row = |row: &Value| {
        let clip = if row["hasAttachment"] == true { " [attachment]" } else { "" };
        let mut cells = vec![
            text(&row["id"]),
            text(&row["threadId"]),
            when(&row["receivedAt"], zone),
            short(&from(&row["from"]), 32),
            format!("{}{clip}", short(&text(&row["subject"]), 60)),
            row["size"].as_u64().map_or_else(String::new, size),
        ];
        if let Some(thread) = row.get("thread") {
            let latest = when(&thread["latestReceivedAt"], zone);
            cells.extend([text(&thread["emails"]), text(&thread["unreadEmails"]), latest]);
        }
        cells
    };
    list.as_array().into_iter().flatten().map(row).collect()
}

/// Whom to show of a list of addresses.
pub(in crate::cli) fn from(value: &Value) -> String {
    match value {
        Value::Array(all) => all.first().map(from).unwrap_or_default(),
        Value::Object(one) => {
            let name = one.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            name.or_else(|| one.get("email").and_then(Value::as_str)).unwrap_or_default().to_owned()
        }
        other => text(other),
    }
}
