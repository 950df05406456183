//! The words of `vacation`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::control::selected_account::AccountArgs;
use crate::cli::terminal::listed;

/// `vacation`
#[derive(Debug, Subcommand)]
pub enum VacationCommand {
    /// Say what senders are told, and switch it on.
    ///
    /// Strangers will read the text (RFC 3834 §6): leave out what a burglar would like to know.
    /// Dates are written 2026-12-24, 2026-12-24T09:00, today, tomorrow, friday, or from today +3d,
    /// +2w, +1m; in the account's time zone. A day given to --until is included. In subject and
    /// text {subject} stands for the subject of the message that is answered, {from} for its
    /// sender, {until} for the last day.
    Set(Box<VacationSetArgs>),
    /// Say it in other words to some: in another language, or to the organisation alone, or to all
    /// others.
    ///
    /// Where there are words for the organisation, or for those outside, nobody else gets them, and
    /// they get no others. Of several languages the one that the sender reads is taken, by what the
    /// message says of that; else the first.
    Text(Box<VacationTextArgs>),
    /// Show what senders are told.
    Show(PositionalAccountArgs),
    /// Switch it off; the text stays.
    Off(PositionalAccountArgs),
    /// For each message: was a reply sent, and why or why not.
    Log(Box<VacationLogArgs>),
    /// What came while the owner was away: by correspondent and thread.
    Report(VacationReportArgs),
    /// Who was told, newest first.
    Told {
        #[command(flatten)]
        whose: PositionalAccountArgs,
        /// At most this many; all if not given.
        #[arg(long, value_name = "NUMBER")]
        limit: Option<usize>,
    },
    /// Forget that a sender was told, so that the sender is answered anew.
    #[command(group = clap::ArgGroup::new("who").required(true))]
    Forget {
        #[command(flatten)]
        whose: AccountArgs,
        /// The address of the sender.
        #[arg(group = "who")]
        sender: Option<String>,
        /// Forget every sender that was told.
        #[arg(long, group = "who")]
        all: bool,
    },
    /// Say what a message would get, and print the reply without sending it.
    Test {
        #[command(flatten)]
        whose: AccountArgs,
        /// The message; - is standard input.
        #[arg(value_name = "FILE.eml")]
        file: PathBuf,
        /// The envelope sender; the message's Return-Path or From if not given, "" for none.
        #[arg(long, short = 'f', value_name = "ADDRESS")]
        sender: Option<String>,
    },
}

/// Whose, of a command that has no other word: it may stand there by itself.
#[derive(Debug, Args)]
pub struct PositionalAccountArgs {
    /// The same as --account.
    #[arg(
        value_name = "ACCOUNT",
        conflicts_with = "account",
        default_value = "",
        hide_default_value = true
    )]
    word: String,
    #[command(flatten)]
    whose: AccountArgs,
}

impl PositionalAccountArgs {
    /// The account that is named, or "".
    pub fn name(&self) -> &str {
        if self.word.is_empty() { &self.whose.account } else { &self.word }
    }
}

/// What is said.
#[derive(Debug, Args)]
pub struct ReplyTextArgs {
    /// The reply's subject; "Auto: " and the original subject if not given.
    #[arg(long)]
    pub subject: Option<String>,
    /// The reply's text.
    #[arg(long, conflicts_with = "text_file")]
    pub text: Option<String>,
    /// A file with the reply's text; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub text_file: Option<PathBuf>,
    /// A file with the reply as HTML.
    #[arg(long, value_name = "FILE")]
    pub html_file: Option<PathBuf>,
}

/// Who is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AudienceArg {
    /// Every sender.
    Everyone,
    /// People whom the owner has written to.
    Known,
    /// People in the domains of the organisation.
    Organisation,
}

/// Where a sender stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CircleArg {
    /// In the organisation.
    Organisation,
    /// People outside the organisation.
    Outside,
}

/// `vacation set`
#[derive(Debug, Args)]
pub struct VacationSetArgs {
    #[command(flatten)]
    pub whose: PositionalAccountArgs,
    /// What is said.
    #[command(flatten)]
    pub words: ReplyTextArgs,
    /// From when on; now if not given.
    #[arg(long = "from", alias = "from-date", value_name = "DATE")]
    pub from_date: Option<String>,
    /// Until when, a day included; until switched off if not given.
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// Only on these days: friday, 15 (of each month), 24-31; the option once for each. Every day
    /// if not given.
    #[arg(long = "on", value_name = "DAYS")]
    pub days: Vec<String>,
    /// The reply's From; the address that the sender wrote to if not given, or "".
    #[arg(long, value_name = "ADDRESS")]
    pub sender_address: Option<String>,
    /// The name in the reply's From.
    #[arg(long, value_name = "NAME", requires = "sender_address")]
    pub sender_name: Option<String>,
    /// The reply's Reply-To; "" for none.
    #[arg(long, value_name = "ADDRESS")]
    pub reply_to: Option<String>,
    /// More addresses that count as the owner's; the option once for each, "" for none.
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<String>,
    /// Never answer this address or domain; the option once for each, "" for nobody.
    #[arg(long, value_name = "ADDRESS|DOMAIN")]
    pub except: Vec<String>,
    /// Who is answered; it stays as it was if not given.
    #[arg(long, value_name = "WHO")]
    pub audience: Option<AudienceArg>,
    /// Domains of the organisation beside those of the account's addresses; the option once for
    /// each, "" for none.
    #[arg(long, value_name = "DOMAIN")]
    pub organisation: Vec<String>,
    /// The language of subject and text, such as en; "" for none.
    #[arg(long, value_name = "LANGUAGE")]
    pub language: Option<String>,
    /// File a copy of each reply in Sent.
    #[arg(long, conflicts_with = "no_copies")]
    pub copies: bool,
    /// File no copies.
    #[arg(long)]
    pub no_copies: bool,
    /// When it is over, file a report of what came into the Inbox.
    #[arg(long, conflicts_with = "no_report")]
    pub report: bool,
    /// File no report.
    #[arg(long)]
    pub no_report: bool,
}

/// `vacation text`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("for").required(true).multiple(true))]
pub struct VacationTextArgs {
    #[command(flatten)]
    pub whose: PositionalAccountArgs,
    /// In which language, such as de or pt-BR.
    #[arg(long, group = "for", value_name = "LANGUAGE")]
    pub language: Option<String>,
    /// The senders for whom the text is.
    #[arg(long, group = "for", value_name = "WHOM")]
    pub to: Option<CircleArg>,
    /// What is said.
    #[command(flatten)]
    pub words: ReplyTextArgs,
    /// Say it no more.
    #[arg(long, conflicts_with_all = ["subject", "text", "text_file", "html_file"])]
    pub remove: bool,
}

/// `vacation log`
#[derive(Debug, Args)]
pub struct VacationLogArgs {
    #[command(flatten)]
    pub whose: PositionalAccountArgs,
    /// At most this many, newest first, up to 10000.
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = listed())]
    pub limit: usize,
    /// Only what came in the last absence.
    #[arg(long, conflicts_with_all = ["since", "until"])]
    pub away: bool,
    /// Only from then on.
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// Only until then, a day included.
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// Only what was answered.
    #[arg(long, conflicts_with_all = ["silent", "reason"])]
    pub answered: bool,
    /// Only what was not answered.
    #[arg(long)]
    pub silent: bool,
    /// Only what was not answered for this reason, such as list.
    #[arg(long, value_name = "REASON")]
    pub reason: Option<String>,
    /// Only of senders whose address has this in it.
    #[arg(long, value_name = "TEXT")]
    pub sender: Option<String>,
}

/// `vacation report`
#[derive(Debug, Args)]
pub struct VacationReportArgs {
    #[command(flatten)]
    pub whose: PositionalAccountArgs,
    /// From then on; since the last absence began if not given.
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    /// Until then, a day included; until the last absence ended if not given.
    #[arg(long, value_name = "DATE")]
    pub until: Option<String>,
    /// Print it as HTML.
    #[arg(long)]
    pub html: bool,
}
