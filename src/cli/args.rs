//! The commands and options, from which help, completions and the manual are generated.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::cli::commands::account::AccountCommand;
use crate::cli::commands::backup::{BackupArgs, RestoreArgs};
use crate::cli::commands::check::CheckArgs;
use crate::cli::commands::config::ConfigCommand;
use crate::cli::commands::deliver::DeliverArgs;
use crate::cli::commands::demo::DemoArgs;
use crate::cli::commands::dkim::DkimCommand;
use crate::cli::commands::mail::MailCommand;
use crate::cli::commands::mailbox::MailboxCommand;
use crate::cli::commands::queue::QueueCommand;
use crate::cli::commands::repair::RepairArgs;
use crate::cli::commands::sieve::SieveCommand;
use crate::cli::commands::vacation::args::VacationCommand;

/// Restante: a mail delivery agent with a vacation responder.
///
/// Postfix delivers mail to Restante over LMTP. Restante stores it, answers senders while the owner
/// is away, and serves it over JMAP. `serve` runs the service; most other commands talk to the
/// running service over its control socket.
#[derive(Debug, Parser)]
#[command(
    name = "restante",
    version,
    max_term_width = 100,
    after_help = "Exit codes are those of sysexits.h: 64 wrong usage, 65 bad input, 66 no input, \
                  67 no such account, 69 no service, 70 internal error, 75 try again later, \
                  77 not allowed, 78 wrong configuration."
)]
pub struct Cli {
    /// Read this configuration file.
    #[arg(long, global = true, env = "RESTANTE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service in the foreground.
    ///
    /// Accepts mail over LMTP on the configured addresses or on sockets that systemd passes, serves
    /// JMAP, ManageSieve and the control socket, and sends mail through the relay. SIGTERM stops
    /// the service after running sessions have ended, or their time is over. SIGHUP reloads the
    /// configuration, except for the store, the listeners and the format of the log, which need a
    /// restart.
    Serve,
    /// Show on the loopback interface how mail is delivered and answered.
    ///
    /// Starts the service with a data directory under ./var, creates two accounts, enables the
    /// vacation response of one, delivers a few messages over LMTP, and prints the inbox, the
    /// decisions and one of the replies. Runs until interrupted.
    Demo(DemoArgs),
    /// Check the configuration, or print an example.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Add, list, change and remove accounts.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Set the vacation response and see whom it answered.
    #[command(subcommand)]
    Vacation(VacationCommand),
    /// List, search, show, change, import and export mail.
    #[command(subcommand)]
    Mail(MailCommand),
    /// List, create, change, share and remove mailboxes.
    #[command(subcommand)]
    Mailbox(MailboxCommand),
    /// List outgoing mail, and retry, hold or remove it.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Manage the Sieve scripts of accounts, see what they do, and check, test and format scripts
    /// in files.
    #[command(subcommand)]
    Sieve(SieveCommand),
    /// Create keys for DKIM signatures, and print the DNS records for them.
    #[command(subcommand)]
    Dkim(DkimCommand),
    /// Deliver a message from standard input, for a pipe(8) transport of Postfix.
    ///
    /// Exits with 0 if every recipient has the message, 67 if all are unknown, 69 if it is refused
    /// permanently for another reason, and 75 in every other case, so that Postfix tries again. A
    /// retry does not store a second copy.
    Deliver(DeliverArgs),
    /// Print the metrics of the service in the format of Prometheus.
    Metrics,
    /// Check that the store is consistent.
    ///
    /// Computes every listing, count and index anew and compares. Runs in the service, or on the
    /// data directory if no service runs.
    Check(CheckArgs),
    /// Repair what `check` finds, from the stored messages, their mailboxes and keywords.
    ///
    /// Accounts without a fault are not changed. While an account is repaired, its mail waits in
    /// Postfix; other accounts are not affected.
    Repair(RepairArgs),
    /// Write all derived data anew, from the stored messages, their mailboxes and keywords.
    Rebuild(RepairArgs),
    /// Write the search index anew, as some updates ask for.
    Reindex(RepairArgs),
    /// Back up the whole store into a directory; later backups add only what is new.
    ///
    /// If the service runs, it makes the backup while it goes on accepting mail; it must be allowed
    /// to write to DIR.
    Backup(BackupArgs),
    /// Restore a backup into a data directory, and check it.
    Restore(RestoreArgs),
    /// Print completions for a shell.
    Completions {
        /// The shell: bash, elvish, fish, powershell or zsh.
        shell: clap_complete::Shell,
    },
    /// Print the help of every command.
    #[command(hide = true)]
    Manual,
}
