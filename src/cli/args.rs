//! The words of the command line, as data: help, completions and manual are made from it.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};

pub use super::life::{DestroyArgs, FlagArgs, MailRestoreArgs, MoveArgs, PurgeArgs};
pub use super::mailbox::MailboxCommand;
pub use super::queue::QueueCommand;
pub use super::token::TokenCommand;
use super::transfer::{ExportArgs, ImportArgs};
pub use super::vacation::args::VacationCommand;
use crate::model::limits;

/// Restante: a mail delivery agent with a vacation responder.
///
/// Postfix hands mail over by LMTP; Restante keeps it, answers senders while the owner is away, and gives the mail back.
/// `serve` runs the service; the other commands talk to it over its control socket.
#[derive(Debug, Parser)]
#[command(
    name = "restante",
    version,
    max_term_width = 100,
    after_help = "Exit codes are those of sysexits.h: 64 usage, 66 no input, 67 no such account, 69 no service, 70 our \
                  fault, 75 try later, 77 not allowed, 78 configuration."
)]
pub struct Cli {
    /// The configuration file.
    #[arg(long, global = true, env = "RESTANTE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service in the foreground.
    ///
    /// Takes LMTP on the configured listeners or on the sockets that systemd passes, serves the control socket, and sends
    /// replies through the relay. SIGTERM drains and stops; SIGHUP reads the configuration again: all but
    /// the store and the listeners.
    Serve,
    /// Show the main job on loopback, with mail of its own.
    ///
    /// Starts the service with a data directory under ./var, makes two accounts, switches one's vacation on, delivers a
    /// handful of messages over LMTP, and shows the inbox, the decisions and the reply that was sent. Stays up until
    /// interrupted.
    Demo(DemoArgs),
    /// Check the configuration, or show an example.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Add, list and change accounts.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Answer senders while the owner is away.
    #[command(subcommand)]
    Vacation(VacationCommand),
    /// Look at mail, take it in and write it out.
    #[command(subcommand)]
    Mail(MailCommand),
    /// List, make and change mailboxes.
    #[command(subcommand)]
    Mailbox(MailboxCommand),
    /// Look at what is on its way out, and do something about it.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Make keys for DKIM signatures, and show what the zone must say about them.
    #[command(subcommand)]
    Dkim(super::dkim::DkimCommand),
    /// Deliver a message from standard input, for a pipe(8) transport of Postfix.
    ///
    /// Exits with 0 when every recipient has it, 67 when they are unknown, 69 when it is refused for good otherwise, and
    /// with 75 in every other case, so that Postfix tries again. A retry makes no second copy.
    Deliver(DeliverArgs),
    /// Show what the service has counted since its start, as Prometheus reads it.
    Metrics,
    /// Prove that the store is in order.
    ///
    /// Recomputes every list, count and index and compares. Asks the service when it runs, else reads the data directory.
    Check(super::check::CheckArgs),
    /// Mend what `check` finds, from the mail and the owner's marks.
    ///
    /// An account in order is not touched. Mail to one that is being mended waits at Postfix; the others go on.
    Repair(super::repair::RepairArgs),
    /// Make all that is derived anew, from the mail and the owner's marks.
    Rebuild(super::repair::RepairArgs),
    /// Make what searches use anew, as after an update that reads words otherwise.
    Reindex(super::repair::RepairArgs),
    /// Copy the whole store into a directory of backups, each of which takes only what is new.
    ///
    /// The service does it when it runs, and goes on taking mail: DIR must be a place where it may write.
    Backup(super::backup::BackupArgs),
    /// Make a data directory of a backup, and check it.
    Restore(super::backup::RestoreArgs),
    /// Write completions for a shell.
    Completions {
        /// bash, elvish, fish, powershell or zsh.
        shell: clap_complete::Shell,
    },
    /// Write the whole manual.
    #[command(hide = true)]
    Manual,
}

/// `demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The data directory; it is emptied first.
    #[arg(long, default_value = "var/demo", value_name = "DIR")]
    pub dir: PathBuf,
    /// Stop after the show.
    #[arg(long)]
    pub once: bool,
}

/// `config`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say what is wrong with the configuration file: a line for each fault, with its remedy.
    Check,
    /// Print every key with its default and what it means.
    Example,
}

/// `account`
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Make an account.
    Add {
        /// Its primary address.
        address: String,
        /// The owner's name, as replies show it.
        #[arg(long)]
        display_name: Option<String>,
        /// What commands and logins call it; the address if not given.
        #[arg(long)]
        name: Option<String>,
        /// More addresses of it.
        #[arg(long = "alias", value_name = "ADDRESS")]
        aliases: Vec<String>,
        /// The owner's IANA time zone, such as Europe/Berlin.
        #[arg(long)]
        zone: Option<String>,
        /// The most that it may hold, such as "2 GiB".
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
        /// The Unix user who may manage it.
        #[arg(long, value_name = "USER")]
        unix_user: Option<String>,
        /// Let user+Mailbox@ file into that mailbox.
        #[arg(long)]
        detail_files: bool,
        /// What it begins with: a mailbox for each usual role, or the Inbox alone. As the configuration says if not given.
        #[arg(long, value_parser = ["roles", "inbox"], value_name = "WHICH")]
        mailboxes: Option<String>,
    },
    /// List all accounts.
    List,
    /// Show one account.
    Show {
        /// Its name or any of its addresses.
        account: String,
    },
    /// Change an account; what is not named stays as it is.
    Set(Box<AccountSetArgs>),
    /// Let one domain stand for another, or list those that do.
    ///
    /// user@ALIAS-DOMAIN is then user@TARGET-DOMAIN, whoever that is. Without arguments: the list.
    Domain {
        /// The domain that stands for another.
        #[arg(value_name = "ALIAS-DOMAIN")]
        alias: Option<String>,
        /// The domain whose accounts get the mail.
        #[arg(value_name = "TARGET-DOMAIN")]
        target: Option<String>,
        /// Let it stand for nothing.
        #[arg(long, requires = "alias", conflicts_with = "target")]
        remove: bool,
    },
    /// Remove an account with all its mail.
    Remove {
        /// Its name or any of its addresses.
        account: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Give an account one more address, or take one away.
    ///
    /// An address @example.org is a catch-all: everything in that domain that nobody else claims.
    Alias {
        /// Its name or any of its addresses.
        account: String,
        /// The other address, or @DOMAIN.
        address: String,
        /// Take it away.
        #[arg(long)]
        remove: bool,
    },
    /// Set a password, read from the terminal or from standard input.
    Password {
        /// Its name or any of its addresses.
        account: String,
        /// What the password is for; each label has a password of its own.
        #[arg(long, default_value = "default", value_name = "LABEL")]
        label: String,
        /// Take that password away.
        #[arg(long)]
        remove: bool,
    },
    /// Make, list and take away tokens, by which programs log in.
    #[command(subcommand)]
    Token(TokenCommand),
}

/// `account set`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct AccountSetArgs {
    /// Its name or any of its addresses.
    pub account: String,
    /// The owner's name, as replies show it; "" for none.
    #[arg(long, group = "change", value_name = "NAME")]
    pub display_name: Option<String>,
    /// The owner's IANA time zone; "" for the configuration's.
    #[arg(long, group = "change")]
    pub zone: Option<String>,
    /// The most that it may hold, such as "2 GiB"; "" for no bound.
    #[arg(long, group = "change", value_name = "SIZE")]
    pub quota: Option<String>,
    /// The most messages that it may hold; "" for no bound.
    #[arg(long, group = "change", value_name = "NUMBER")]
    pub quota_emails: Option<String>,
    /// The Unix user who may manage it; "" for none.
    #[arg(long, group = "change", value_name = "USER")]
    pub unix_user: Option<String>,
    /// Let user+Mailbox@ file into that mailbox.
    #[arg(long, group = "change", conflicts_with = "no_detail_files")]
    pub detail_files: bool,
    /// File all into the Inbox.
    #[arg(long, group = "change")]
    pub no_detail_files: bool,
    /// Take mail.
    #[arg(long, group = "change", conflicts_with = "inactive")]
    pub active: bool,
    /// Take no more mail (550 5.2.1); what is there stays.
    #[arg(long, group = "change")]
    pub inactive: bool,
}

/// Whose.
#[derive(Debug, Args)]
pub struct AccountArgs {
    /// The account: its name or any of its addresses; the one that is mapped to your Unix user if not given.
    #[arg(long, short, value_name = "ACCOUNT", default_value = "", hide_default_value = true)]
    pub account: String,
}

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
    Query(Box<super::query::MailQueryArgs>),
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

/// `deliver`
#[derive(Debug, Args)]
pub struct DeliverArgs {
    /// The envelope sender; "" or <> for none.
    #[arg(short = 'f', long = "sender", value_name = "SENDER", allow_hyphen_values = true)]
    pub sender: String,
    /// To whom.
    #[arg(required = true, value_name = "RECIPIENT")]
    pub recipients: Vec<String>,
}

/// How many lines of a list may be asked for at once.
pub(super) fn listed() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=limits::LISTED as u64)
}
