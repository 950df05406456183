//! The words of the command line, as data: help, completions and manual are made from it.

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
use crate::cli::commands::vacation::args::VacationCommand;

/// Restante: a mail delivery agent with a vacation responder.
///
/// Postfix hands mail over by LMTP; Restante keeps it, answers senders while the owner is away, and
/// gives the mail back. `serve` runs the service; the other commands talk to it over its control
/// socket.
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
    /// Takes LMTP on the configured listeners or on the sockets that systemd passes, serves the
    /// control socket, and sends replies through the relay. SIGTERM drains and stops; SIGHUP reads
    /// the configuration again: all but the store and the listeners.
    Serve,
    /// Show the main job on loopback, with mail of its own.
    ///
    /// Starts the service with a data directory under ./var, makes two accounts, switches one's
    /// vacation on, delivers a handful of messages over LMTP, and shows the inbox, the decisions
    /// and the reply that was sent. Stays up until interrupted.
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
    Dkim(DkimCommand),
    /// Deliver a message from standard input, for a pipe(8) transport of Postfix.
    ///
    /// Exits with 0 when every recipient has it, 67 when they are unknown, 69 when it is refused
    /// for good otherwise, and with 75 in every other case, so that Postfix tries again. A retry
    /// makes no second copy.
    Deliver(DeliverArgs),
    /// Show what the service has counted since its start, as Prometheus reads it.
    Metrics,
    /// Prove that the store is in order.
    ///
    /// Recomputes every list, count and index and compares. Asks the service when it runs, else
    /// reads the data directory.
    Check(CheckArgs),
    /// Mend what `check` finds, from the mail and the owner's marks.
    ///
    /// An account in order is not touched. Mail to one that is being mended waits at Postfix; the
    /// others go on.
    Repair(RepairArgs),
    /// Make all that is derived anew, from the mail and the owner's marks.
    Rebuild(RepairArgs),
    /// Make what searches use anew, as after an update that reads words otherwise.
    Reindex(RepairArgs),
    /// Copy the whole store into a directory of backups, each of which takes only what is new.
    ///
    /// The service does it when it runs, and goes on taking mail: DIR must be a place where it may
    /// write.
    Backup(BackupArgs),
    /// Make a data directory of a backup, and check it.
    Restore(RestoreArgs),
    /// Write completions for a shell.
    Completions {
        /// bash, elvish, fish, powershell or zsh.
        shell: clap_complete::Shell,
    },
    /// Write the whole manual.
    #[command(hide = true)]
    Manual,
}
