//! The command `mail export`.
//!
//! - Emails that an earlier export has not written are fetched over several connections, mailbox by
//!   mailbox, oldest first.
//! - An email in two mailboxes is written twice.
//! - Files of an earlier export stay, also of emails that were moved or destroyed since. Only a
//!   file of another size is written again; of an mbox file, only a message of which the file has
//!   a part.
//! - A dry run does not look for files of an earlier export, and counts every email.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::task::JoinHandle;

use super::folder::Folder;
use super::layout::{ExportStatus, ExportTarget, Layout};
use super::{ExportArgs, Format, MAX_CONCURRENT_REQUESTS, MAX_KIB_IN_FLIGHT};
use crate::cli::control::pool::{ControlPool, ControlResponse};
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;
use crate::cli::terminal::progress::ByteProgress;
use crate::model::{EmailId, Role, limits};
use crate::transfer::MailboxPath;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::mail::{MailIndex, MailIndexArguments};
use crate::wire::query;

/// A mailbox to export. `emails` are indexes into the list of all emails: that of the oldest email
/// comes first.
struct ExportMailbox {
    path: MailboxPath,
    role: Option<Role>,
    emails: Vec<usize>,
}

struct Email {
    id: EmailId,
    size: u64,
    keywords: BTreeSet<String>,
}

#[derive(Default)]
struct ExportCounts {
    mailboxes: usize,
    written: u64,
    already_there: u64,
    /// Emails of `already_there` that were [`ExportStatus::Updated`].
    updated: u64,
    /// Emails that were destroyed after they were listed.
    destroyed: u64,
    /// The bytes of `written`.
    bytes: u64,
}

impl ExportCounts {
    fn summary(&self) -> String {
        format!("{} messages", self.written + self.already_there)
    }
}

pub(in crate::cli) async fn run(args: ExportArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.account.account, context).await?;
    let (mailboxes, emails) = index(context, &account.id).await?;
    let total = mailboxes.iter().flat_map(|mailbox| &mailbox.emails);
    let total = total.filter_map(|at| emails.get(*at)).map(|email| email.size).sum();
    let mut counts = ExportCounts::default();
    if args.dry_run {
        counts.mailboxes = mailboxes.len();
        counts.written = mailboxes.iter().map(|mailbox| mailbox.emails.len() as u64).sum();
        counts.bytes = total;
        report(&args, context, &counts, Duration::ZERO, None);
        return Ok(());
    }
    let root = Folder::create(&args.path)
        .map_err(|error| io_failure(&args.path.display().to_string(), &error))?;
    let mut progress = ByteProgress::new("exporting", total);
    let exporter = Exporter {
        format: args.format,
        account: &account.id,
        pool: Arc::new(ControlPool::new(context.client.clone())),
    };
    let ended = tokio::select! {
        ended = exporter.run(&root, &mailboxes, &emails, &mut progress, &mut counts) => ended,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(exit::TEMPORARY, "interrupted")),
    };
    let ended = ended.and_then(|()| {
        root.sync().map_err(|error| io_failure(&args.path.display().to_string(), &error))
    });
    let took = progress.finish();
    report(&args, context, &counts, took, ended.as_ref().err());
    ended.map_err(|failure| {
        let message =
            format!("stopped: {}. Run the command again to export the rest", failure.message);
        Failure::new(failure.code, message)
    })
}

/// Lists all mailboxes and emails of the account.
async fn index(
    context: &CommandContext,
    account: &str,
) -> Result<(Vec<ExportMailbox>, Vec<Email>), Failure> {
    let invalid_id =
        || Failure::new(exit::SOFTWARE, "the service's answer has an invalid email id");
    let (mut mailboxes, mut emails) = (Vec::<ExportMailbox>::new(), Vec::new());
    let mut index_of_mailbox: HashMap<String, usize> = HashMap::new();
    let mut after = None;
    loop {
        let args = MailIndexArguments { after, limit: Some(limits::MAX_LISTED_ROWS as u64) };
        let page = context.client.call::<MailIndex>(With(AccountRef::by_id(account), args)).await?;
        for row in page.mailboxes {
            // Each page has all mailboxes, because some may have been created meanwhile.
            if index_of_mailbox.contains_key(&row.id) {
                continue;
            }
            let path = MailboxPath { inbox: row.inbox, names: row.names };
            let role = row.role.as_deref().and_then(Role::from_name);
            index_of_mailbox.insert(row.id, mailboxes.len());
            mailboxes.push(ExportMailbox { path, role, emails: Vec::new() });
        }
        after = page.list.last().map(|last| last.id.clone());
        for row in page.list {
            let id: EmailId = row.id.parse().map_err(|_| invalid_id())?;
            for mailbox_id in &row.mailbox_ids {
                let index = index_of_mailbox.get(mailbox_id);
                if let Some(mailbox) = index.and_then(|index| mailboxes.get_mut(*index)) {
                    mailbox.emails.push(emails.len());
                }
            }
            emails.push(Email { id, size: row.size, keywords: row.keywords });
        }
        // Only an empty page has no last email, and nothing comes after it.
        if after.is_none() {
            break;
        }
    }
    // The service lists the newest email first.
    for mailbox in &mut mailboxes {
        mailbox.emails.reverse();
    }
    Ok((mailboxes, emails))
}

struct Exporter<'a> {
    format: Format,
    account: &'a str,
    pool: Arc<ControlPool>,
}

type PendingDownloads<'a> = VecDeque<(&'a Email, JoinHandle<Result<ControlResponse, Failure>>)>;

impl Exporter<'_> {
    /// Exports the mailboxes one after another. Several messages are fetched at the same time, but
    /// written in the order of their emails, after the one that an mbox file may have in part.
    async fn run(
        &self,
        root: &Folder,
        mailboxes: &[ExportMailbox],
        emails: &[Email],
        progress: &mut ByteProgress,
        counts: &mut ExportCounts,
    ) -> Result<(), Failure> {
        for mailbox in mailboxes {
            let shown = mailbox.path.path();
            let target = ExportTarget::open(root, self.format, &mailbox.path, mailbox.role)
                .map_err(|error| io_failure(&shown, &error))?;
            let mut layout =
                target.layout(self.format).map_err(|error| io_failure(&shown, &error))?;
            counts.mailboxes += 1;
            let mut pending: PendingDownloads<'_> = VecDeque::new();
            let mut pending_bytes = 0;
            let mut to_export: Vec<&Email> =
                mailbox.emails.iter().filter_map(|at| emails.get(*at)).collect();
            let first = layout.first_to_write();
            to_export.sort_by_key(|email| Some(email.id) != first);
            for email in to_export {
                match layout
                    .find_and_update(email.id, email.size, &email.keywords)
                    .map_err(|error| io_failure(&shown, &error))?
                {
                    ExportStatus::Missing => {
                        pending.push_back((email, self.fetch(email.id)));
                        pending_bytes += email.size;
                    }
                    status => {
                        counts.already_there += 1;
                        counts.updated += u64::from(status == ExportStatus::Updated);
                        progress.advance(email.size, || counts.summary());
                    }
                }
                while pending.len() >= MAX_CONCURRENT_REQUESTS
                    || (pending.len() > 1 && pending_bytes > u64::from(MAX_KIB_IN_FLIGHT) * 1024)
                {
                    pending_bytes -= self
                        .write_first(&mut pending, &mut layout, &shown, progress, counts)
                        .await?;
                }
            }
            while !pending.is_empty() {
                self.write_first(&mut pending, &mut layout, &shown, progress, counts).await?;
            }
        }
        Ok(())
    }

    /// Begins to fetch a message.
    fn fetch(&self, id: EmailId) -> JoinHandle<Result<ControlResponse, Failure>> {
        let pairs = [("account", self.account), ("email", &id.to_string())];
        let path = format!("/octets?{}", query::write(&pairs));
        let pool = Arc::clone(&self.pool);
        tokio::spawn(
            async move { pool.exchange(&Method::GET, &path, &hyper::body::Bytes::new()).await },
        )
    }

    /// Waits for the first of the running requests, and writes its message unless the email was
    /// destroyed. Returns the size of the message.
    async fn write_first(
        &self,
        pending: &mut PendingDownloads<'_>,
        layout: &mut Layout<'_>,
        shown: &str,
        progress: &mut ByteProgress,
        counts: &mut ExportCounts,
    ) -> Result<u64, Failure> {
        let Some((email, task)) = pending.pop_front() else { return Ok(0) };
        let answer =
            task.await.map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))??;
        if answer.status.is_success() {
            let is_written = layout
                .put(email.id, &email.keywords, &answer.body)
                .map_err(|error| io_failure(shown, &error))?;
            if is_written {
                counts.written += 1;
                counts.bytes += email.size;
            } else {
                counts.already_there += 1;
            }
        } else if answer.status == StatusCode::NOT_FOUND
            && answer.problem().as_deref() == Some("notFound")
        {
            counts.destroyed += 1;
        } else {
            let failure = answer.failure();
            return Err(Failure::new(failure.code, format!("{}: {}", email.id, failure.message)));
        }
        progress.advance(email.size, || counts.summary());
        Ok(email.size)
    }
}

/// Makes a failure of an error of the system. `shown` is the mailbox or path that it concerns.
fn io_failure(shown: &str, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => exit::NO_PERMISSION,
        io::ErrorKind::AlreadyExists | io::ErrorKind::InvalidData => exit::DATA,
        _ => exit::TEMPORARY,
    };
    Failure::new(code, format!("{shown}: {error}"))
}

/// Prints the summary. `ended` is the failure that stopped the export, if any.
fn report(
    args: &ExportArgs,
    context: &CommandContext,
    counts: &ExportCounts,
    took: Duration,
    ended: Option<&Failure>,
) {
    if context.json {
        output::json(&json!({
            "dryRun": args.dry_run,
            "mailboxes": counts.mailboxes,
            "written": counts.written,
            "there": counts.already_there,
            "remarked": counts.updated,
            "gone": counts.destroyed,
            "octets": counts.bytes,
            "seconds": took.as_secs_f64(),
            "stopped": ended.map(|failure| &failure.message),
        }));
        return;
    }
    let would = if args.dry_run { "would be " } else { "" };
    let messages = output::counted(counts.written, "message", "messages");
    let mailboxes = output::counted(counts.mailboxes as u64, "mailbox", "mailboxes");
    let mut line = format!("{messages} of {mailboxes} {would}written");
    for (count, what) in [
        (counts.already_there, "there already"),
        (counts.updated, "of these with updated keywords"),
        (counts.destroyed, "destroyed meanwhile"),
    ] {
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    output::line(&format!("{line}; {:.1} s", took.as_secs_f64()));
}
