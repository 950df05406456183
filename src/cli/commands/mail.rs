//! `mail list|show`; `mail query` is in `query`, `mail import|export` are in `transfer`.

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
use crate::cli::terminal::listed;
use crate::cli::terminal::output::{self, local, short, size};
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::mail::{
    EmailRow, MailList, MailListArguments, MailShow, MailShowArguments, NamedAddress,
};
use crate::wire::jmap::{With, of_octets};

/// `mail`
#[derive(Debug, Subcommand)]
pub enum MailCommand {
    /// List a mailbox, newest first, a line for each thread or message.
    List {
        #[command(flatten)]
        whose: AccountArgs,
        /// The mailbox: its path, such as Work/2026, its role or its id.
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
        #[command(flatten)]
        whose: AccountArgs,
        /// Its id, as `mail list` shows it.
        email: String,
    },
    /// Take in mail from Maildirs, mailbox files or .eml files, with its folders, keywords and
    /// dates.
    ///
    /// Can be interrupted and run again: what is there is not added again.
    Import(Box<ImportArgs>),
    /// Write all mail of an account into a Maildir, into mailbox files or into .eml files.
    ///
    /// Run again, it adds what is new, and in a Maildir or .eml tree makes keywords as they are
    /// now. Nothing is removed.
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

pub(in crate::cli) async fn run(
    command: MailCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        MailCommand::List { whose, mailbox, threads, limit, after } => {
            let account = selected_account::find_account(&whose.account, context).await?;
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
        MailCommand::Show { whose, email } => {
            let args = MailShowArguments { id: email };
            let answer = selected_account::call::<MailShow, _>(context, &whose, args).await?;
            if context.json {
                output::json(&answer);
            } else {
                let message = of_octets(&answer.message).map_err(|_| {
                    Failure::new(exit::SOFTWARE, "the service's answer holds no message")
                })?;
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
    const HEAD: [&str; 9] =
        ["ID", "THREAD", "RECEIVED", "FROM", "SUBJECT", "SIZE", "EMAILS", "UNREAD", "LATEST"];
    if threads { &HEAD } else { &HEAD[..6] }
}

/// The rows of a list of mail.
pub(in crate::cli) fn rows(list: &[EmailRow], zone: &TimeZone) -> Vec<Vec<String>> {
    let row = |EmailRow { email, thread, .. }: &EmailRow| {
        let clip = if email.has_attachment { " [attachment]" } else { "" };
        let mut cells = vec![
            email.id.clone(),
            email.thread_id.clone(),
            local(&email.received_at, zone),
            short(from(&email.from), 32),
            format!("{}{clip}", short(email.subject.as_deref().unwrap_or_default(), 60)),
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

/// Whom to show of a list of addresses.
pub(in crate::cli) fn from(people: &[NamedAddress]) -> &str {
    let Some(first) = people.first() else { return "" };
    first.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&first.email)
}
