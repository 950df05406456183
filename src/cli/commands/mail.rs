//! The command `mail`, with `mail list` and `mail show`.

use clap::Subcommand;
use jiff::tz::TimeZone;

use crate::cli::commands::mail_change::{
    self, DestroyArgs, FlagArgs, MailRestoreArgs, MoveArgs, PurgeArgs,
};
use crate::cli::commands::mail_query::{self, MailQueryArgs};
use crate::cli::commands::transfer::{self, ExportArgs, ImportArgs};
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output::{self, local, short, size};
use crate::cli::terminal::row_count;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::mail::{
    EmailRow, MailList, MailListArguments, MailShow, MailShowArguments, NamedAddress,
};
use crate::wire::jmap::{With, from_base64};

#[derive(Debug, Subcommand)]
pub enum MailCommand {
    /// List a mailbox, newest first, with one line for each message or thread.
    List {
        #[command(flatten)]
        account_args: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
        #[arg(long, default_value = "Inbox")]
        mailbox: String,
        /// Show only the newest message of each thread.
        #[arg(long)]
        threads: bool,
        /// The number of lines, at most 10000; --after lists more.
        #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = row_count())]
        limit: usize,
        /// Begin after this message, the last of the previous page.
        #[arg(long, value_name = "EMAIL")]
        after: Option<String>,
    },
    /// Find mail.
    ///
    /// A message is found if all given options apply to it. Without options the command lists all
    /// mail, newest first.
    Query(Box<MailQueryArgs>),
    /// Print a message, with the fields that its delivery put on top.
    Show {
        #[command(flatten)]
        account_args: AccountArgs,
        /// The id of the message, as `mail list` shows it.
        email: String,
    },
    /// Import mail from Maildirs, mbox files or .eml files, with folders, keywords and dates.
    ///
    /// The command can be interrupted and run again: messages that are there are not added again.
    Import(Box<ImportArgs>),
    /// Export all mail of an account into a Maildir, mbox files or .eml files.
    ///
    /// Run again, the command adds new messages, and in a Maildir or .eml tree updates the
    /// keywords. It removes nothing.
    Export(Box<ExportArgs>),
    /// Move messages into a mailbox.
    Move(MoveArgs),
    /// Add keywords to messages, or remove them.
    Flag(FlagArgs),
    /// Destroy messages; they can be restored for some days.
    Destroy(DestroyArgs),
    /// Restore destroyed messages, with new ids.
    Restore(MailRestoreArgs),
    /// List the destroyed messages that can be restored, or remove them for good.
    Purge(PurgeArgs),
}

pub(in crate::cli) async fn run(
    command: MailCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        MailCommand::List { account_args, mailbox, threads, limit, after } => {
            let account = selected_account::find_account(&account_args.account, context).await?;
            let (mailbox, limit) = (Some(mailbox), Some(limit as u64));
            let args = MailListArguments { mailbox, collapse_threads: threads, limit, after };
            let answer =
                context.client.call::<MailList>(With(AccountRef::by_id(&account.id), args)).await?;
            if context.json {
                output::json(&answer.list);
            } else {
                output::table(head(threads), rows(&answer.list, &account.zone));
            }
        }
        MailCommand::Query(query) => mail_query::run(*query, context).await?,
        MailCommand::Show { account_args, email } => {
            let args = MailShowArguments { id: email };
            let answer =
                selected_account::call::<MailShow, _>(context, &account_args, args).await?;
            if context.json {
                output::json(&answer);
            } else {
                let message = from_base64(&answer.message).map_err(|_| {
                    Failure::new(exit::SOFTWARE, "the service's answer has no message")
                })?;
                output::bytes(&message)?;
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

/// Returns the head of the table of `rows`. With `threads`, the last three columns are those of the
/// thread.
pub(in crate::cli) fn head(threads: bool) -> &'static [&'static str] {
    const HEAD: [&str; 9] =
        ["ID", "THREAD", "RECEIVED", "FROM", "SUBJECT", "SIZE", "EMAILS", "UNREAD", "LATEST"];
    if threads { &HEAD } else { &HEAD[..6] }
}

/// Returns a row for each email. Emails that were listed by thread have the cells of the thread.
pub(in crate::cli) fn rows(list: &[EmailRow], zone: &TimeZone) -> Vec<Vec<String>> {
    let row = |EmailRow { email, thread, .. }: &EmailRow| {
        let attachment = if email.has_attachment { " [attachment]" } else { "" };
        let mut cells = vec![
            email.id.clone(),
            email.thread_id.clone(),
            local(&email.received_at, zone),
            short(from(&email.from), 32),
            format!("{}{attachment}", short(email.subject.as_deref().unwrap_or_default(), 60)),
            size(email.size),
        ];
        if let Some(thread) = thread {
            let latest = thread.summary.latest_received_at.as_deref().map(|at| local(at, zone));
            let (emails, unread) =
                (thread.emails.to_string(), thread.summary.unread_emails.to_string());
            cells.extend([emails, unread, latest.unwrap_or_default()]);
        }
        cells
    };
    list.iter().map(row).collect()
}

/// Returns the name of the first address, or the address if it has no name; empty if there is no
/// address.
pub(in crate::cli) fn from(addresses: &[NamedAddress]) -> &str {
    let Some(first) = addresses.first() else { return "" };
    first.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&first.email)
}
