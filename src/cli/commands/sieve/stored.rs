//! The commands `sieve dry-run` and `sieve apply`, which run a script over stored mail, a few
//! emails with each call of the service.

use std::path::Path;

use clap::Args;

use super::stored_report::{StoredCounts, StoredReport};
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::input;
use crate::cli::terminal::message_progress::MessageProgress;
use crate::wire::jmap::admin::sieve_stored::{
    SieveApply, SieveDryRun, StoredFilterAnswer, StoredFilterArguments,
};
use crate::wire::jmap::admin::{AccountRef, OfAccount, VendorMethod};
use crate::wire::jmap::{With, to_base64};

#[derive(Debug, Args)]
pub struct StoredArgs {
    /// The account: its name or any of its addresses; "" is the account of your Unix user.
    pub account: String,
    /// The script: a file, or the name of a script of the account if there is no such file.
    #[arg(value_name = "FILE|NAME")]
    pub script: String,
    /// The mailbox: its path, such as Work/2026, its role or its id.
    #[arg(long, default_value = "INBOX")]
    pub mailbox: String,
    /// Look only at this many messages, those received last.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub newest: Option<u64>,
}

/// A vendor method that runs a script over a few emails of a mailbox.
pub(super) trait StoredMethod:
    VendorMethod<Args = OfAccount<StoredFilterArguments>, Answer = StoredFilterAnswer>
{
    /// Whether the method changes mail.
    const CHANGES: bool;
    /// What the command is doing, for the progress.
    const VERB: &'static str;
}

impl StoredMethod for SieveDryRun {
    const CHANGES: bool = false;
    const VERB: &'static str = "examining";
}

impl StoredMethod for SieveApply {
    const CHANGES: bool = true;
    const VERB: &'static str = "filtering";
}

pub(super) async fn run<M: StoredMethod>(
    args: StoredArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.account, context).await?;
    let path = Path::new(&args.script);
    let (name, script) = match path.is_file() {
        true => (None, Some(to_base64(&input::read(path)?))),
        false => (Some(args.script.clone()), None),
    };
    let kind = if name.is_none() { "file" } else { "script" };
    let script_name = format!("{kind} {}", args.script);
    let mut report = StoredReport::new(M::CHANGES, script_name, args.mailbox.clone());
    let ended = tokio::select! {
        ended = run_all::<M>(&args, (name, script), &account.id, context, &mut report) => ended,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(exit::TEMPORARY, "interrupted")),
    };
    // What was done before an error or an interruption is printed, too.
    if ended.is_ok() || report.counts != StoredCounts::default() {
        report.print(context.json, &account.zone);
    }
    ended
}

/// Calls the method until the script ran over all emails, or over as many as `--newest` says. Adds
/// these emails to the report. Either the name of a stored script or the source of a script, in
/// base64, is given.
async fn run_all<M: StoredMethod>(
    args: &StoredArgs,
    (name, script): (Option<String>, Option<String>),
    account: &str,
    context: &CommandContext,
    report: &mut StoredReport,
) -> Result<(), Failure> {
    let mut progress = MessageProgress::new(M::VERB);
    let (mut left, mut after, mut total) = (args.newest, None, None);
    loop {
        let arguments = StoredFilterArguments {
            name: name.clone(),
            script: script.clone(),
            mailbox: Some(args.mailbox.clone()),
            after,
            limit: left,
        };
        let answer = context.client.call::<M>(With(AccountRef::by_id(account), arguments)).await?;
        // The total of the first answer is kept: emails leave the mailbox while the command runs.
        let total = *total.get_or_insert(args.newest.unwrap_or(u64::MAX).min(answer.total));
        let count = answer.list.len() as u64;
        left = left.map(|left| left.saturating_sub(count));
        after = answer.after;
        report.add(answer.list);
        progress.show(report.counts.examined, total, &report.counts.changes(M::CHANGES));
        if after.is_none() || left == Some(0) {
            return Ok(());
        }
    }
}
