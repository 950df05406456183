//! The options of the command `vacation`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::control::selected_account::AccountArgs;
use crate::cli::terminal::row_count;

#[derive(Debug, Subcommand)]
pub enum VacationCommand {
    /// Set the vacation response and enable it.
    ///
    /// Strangers will read the text: leave out what you would not tell everybody (RFC 3834 §6).
    /// Dates are written 2026-12-24, 2026-12-24T09:00, today, tomorrow, friday, +3d, +2w or +1m (a
    /// month), in the account's time zone. A day given to --until is included. Start, end and days
    /// are set anew each time: without --until, the end that was set before is removed, and the
    /// reply stays on until `vacation off`. Text and HTML are set together: if only one is given,
    /// the other is removed. Other settings without an option stay as they are. In subject and
    /// text, {subject} is replaced with the subject of the answered message, {from} with its
    /// sender, and {until} with the last day; use {until} only with an end.
    Set(Box<VacationSetArgs>),
    /// Add or remove a text in another language, or for senders in or outside the organisation.
    ///
    /// A text for senders in the organisation, or for those outside it, is sent to them only, and
    /// they get no other. Of texts in several languages, the one that the sender reads is sent, as
    /// far as the message tells; else the first. The dates stay as they are, and a response that is
    /// off stays off.
    Text(Box<VacationTextArgs>),
    /// Show the vacation response.
    Show(PositionalAccountArgs),
    /// Disable the vacation response; its text is kept.
    Off(PositionalAccountArgs),
    /// List the received messages with whether each was answered, and why or why not.
    ///
    /// Below a message that mail filters handled, each action has a line of its own, with the
    /// script and its line.
    Log(Box<VacationLogArgs>),
    /// Print a report of the mail that came during an absence, by sender and thread.
    Report(VacationReportArgs),
    /// List the senders that were answered, newest first.
    ///
    /// The column BY is "a mail filter" where a mail filter sent the reply, and empty where the
    /// vacation response did.
    Told {
        #[command(flatten)]
        account: PositionalAccountArgs,
        /// The number of lines [default: all].
        #[arg(long, value_name = "NUMBER")]
        limit: Option<usize>,
    },
    /// Forget that a sender was answered, so that the next message is answered again.
    #[command(group = clap::ArgGroup::new("senders").required(true))]
    Forget {
        #[command(flatten)]
        account: AccountArgs,
        /// The address of the sender.
        #[arg(group = "senders")]
        sender: Option<String>,
        /// Forget all senders.
        #[arg(long, group = "senders")]
        all: bool,
    },
    /// Say whether a message would be answered, and print the reply without sending it.
    Test {
        #[command(flatten)]
        account: AccountArgs,
        /// The file of the message; - is standard input.
        #[arg(value_name = "FILE.eml")]
        file: PathBuf,
        /// The envelope sender; "" for the null sender [default: Return-Path or From].
        #[arg(long, short = 'f', value_name = "ADDRESS")]
        sender: Option<String>,
    },
}

/// The account of a command that has no other positional argument. It may be given without
/// `--account`.
#[derive(Debug, Args)]
pub struct PositionalAccountArgs {
    /// The same as --account.
    #[arg(
        value_name = "ACCOUNT",
        conflicts_with = "account",
        default_value = "",
        hide_default_value = true
    )]
    positional: String,
    #[command(flatten)]
    account: AccountArgs,
}

impl PositionalAccountArgs {
    /// Returns the account that was given, in one way or the other; "" if none was.
    pub fn name(&self) -> &str {
        if self.positional.is_empty() { &self.account.account } else { &self.positional }
    }
}

/// The texts of a reply.
#[derive(Debug, Args)]
pub struct ReplyTextArgs {
    /// The subject of the reply; without one, it is "Auto: " and the original subject.
    #[arg(long)]
    pub subject: Option<String>,
    /// The text of the reply.
    #[arg(long, conflicts_with = "text_file")]
    pub text: Option<String>,
    /// A file with the text of the reply; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub text_file: Option<PathBuf>,
    /// A file with the reply in HTML.
    #[arg(long, value_name = "FILE")]
    pub html_file: Option<PathBuf>,
}

/// The values of `--audience`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AudienceArg {
    /// All senders are answered.
    Everyone,
    /// Senders to whom the owner has written.
    Known,
    /// Senders in the domains of the organisation.
    Organisation,
}

/// The values of `--to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CircleArg {
    /// Senders in the organisation.
    Organisation,
    /// Senders outside the organisation.
    Outside,
}

#[derive(Debug, Args)]
pub struct VacationSetArgs {
    #[command(flatten)]
    pub account: PositionalAccountArgs,
    #[command(flatten)]
    pub text: ReplyTextArgs,
    /// The beginning of the absence [default: now].
    #[arg(long = "from", alias = "from-date", value_name = "DATE")]
    pub from_date: Option<String>,
    /// The end of the absence; a day is included [default: no end, until `vacation off`].
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// Only on these days: friday, 15 (of each month), 24-31; may be given several times [default:
    /// every day].
    #[arg(long = "on", value_name = "DAYS")]
    pub days: Vec<String>,
    /// The address in the reply's From; "" for the address to which the sender wrote.
    #[arg(long, value_name = "ADDRESS")]
    pub sender_address: Option<String>,
    /// The name in the reply's From.
    #[arg(long, value_name = "NAME", requires = "sender_address")]
    pub sender_name: Option<String>,
    /// The address in the reply's Reply-To; "" for none.
    #[arg(long, value_name = "ADDRESS")]
    pub reply_to: Option<String>,
    /// Another address that counts as the owner's; may be given several times; "" for none.
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<String>,
    /// Never answer this address or domain; may be given several times; "" for none.
    #[arg(long, value_name = "ADDRESS|DOMAIN")]
    pub except: Vec<String>,
    /// Which senders are answered [default: unchanged].
    #[arg(long, value_name = "WHO")]
    pub audience: Option<AudienceArg>,
    /// A domain of the organisation besides those of the account's addresses; may be given several
    /// times; "" for none.
    #[arg(long, value_name = "DOMAIN")]
    pub organisation: Vec<String>,
    /// The language of subject and text, such as en; "" for none.
    #[arg(long, value_name = "LANGUAGE")]
    pub language: Option<String>,
    /// File a copy of each reply in Sent.
    #[arg(long, conflicts_with = "no_copies")]
    pub copies: bool,
    /// File no copies of replies.
    #[arg(long)]
    pub no_copies: bool,
    /// File a report of the received mail into the Inbox when the absence is over.
    #[arg(long, conflicts_with = "no_report")]
    pub report: bool,
    /// File no report of the absence.
    #[arg(long)]
    pub no_report: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("for").required(true).multiple(true))]
pub struct VacationTextArgs {
    #[command(flatten)]
    pub account: PositionalAccountArgs,
    /// The language of the text, such as de or pt-BR.
    #[arg(long, group = "for", value_name = "LANGUAGE")]
    pub language: Option<String>,
    /// The senders that get the text.
    #[arg(long, group = "for", value_name = "WHOM")]
    pub to: Option<CircleArg>,
    #[command(flatten)]
    pub text: ReplyTextArgs,
    /// Remove the text.
    #[arg(long, conflicts_with_all = ["subject", "text", "text_file", "html_file"])]
    pub remove: bool,
}

#[derive(Debug, Args)]
pub struct VacationLogArgs {
    #[command(flatten)]
    pub account: PositionalAccountArgs,
    /// The number of messages, newest first, at most 10000.
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = row_count())]
    pub limit: usize,
    /// Only messages received in the last absence.
    #[arg(long, conflicts_with_all = ["since", "until"])]
    pub away: bool,
    /// Only messages received at that time or later.
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// Only messages received before that time; a day is included.
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// Only messages that were answered.
    #[arg(long, conflicts_with_all = ["silent", "reason"])]
    pub answered: bool,
    /// Only messages that were not answered.
    #[arg(long)]
    pub silent: bool,
    /// Only messages that were not answered for this reason, such as list.
    #[arg(long, value_name = "REASON")]
    pub reason: Option<String>,
    /// Only messages from senders whose address contains this text.
    #[arg(long, value_name = "TEXT")]
    pub sender: Option<String>,
}

#[derive(Debug, Args)]
pub struct VacationReportArgs {
    #[command(flatten)]
    pub account: PositionalAccountArgs,
    /// Mail received at that time or later [default: since the last absence began].
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// Mail received before that time; a day is included [default: until the last absence ended, or
    /// with --since until now].
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// Print the report as HTML.
    #[arg(long)]
    pub html: bool,
}
