//! `mail export`: asks which emails there are, and fetches over several connections those that are
//! not on the disk yet, mailbox by mailbox, oldest first.
//!
//! An email in two mailboxes is written twice. What was moved or destroyed since an earlier export
//! stays where that wrote it: an export adds, and never removes.

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

/// A mailbox with its emails, oldest first.
struct ExportMailbox {
    place: MailboxPath,
    role: Option<Role>,
    emails: Vec<usize>,
}

struct Email {
    id: EmailId,
    size: u64,
    keywords: BTreeSet<String>,
}

/// What became of it all.
#[derive(Default)]
struct ExportCounts {
    mailboxes: usize,
    written: u64,
    there: u64,
    remarked: u64,
    gone: u64,
    octets: u64,
}

impl ExportCounts {
    fn says(&self) -> String {
        format!("{} messages", self.written + self.there)
    }
}

pub(in crate::cli) async fn run(args: ExportArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.account.account, context).await?;
    let (mailboxes, emails) = index(context, &account.id).await?;
    let total = mailboxes.iter().flat_map(|mailbox| &mailbox.emails);
    let total = total.filter_map(|at| emails.get(*at)).map(|email| email.size).sum();
    let mut tally = ExportCounts::default();
    if args.dry_run {
        tally.mailboxes = mailboxes.len();
        tally.written = mailboxes.iter().map(|mailbox| mailbox.emails.len() as u64).sum();
        tally.octets = total;
        report(&args, context, &tally, Duration::ZERO, None);
        return Ok(());
    }
    let root = Folder::create(&args.path)
        .map_err(|error| wrong(&args.path.display().to_string(), &error))?;
    let mut progress = ByteProgress::new("exporting", total);
    let exporter = Exporter {
        format: args.format,
        account: &account.id,
        pool: Arc::new(ControlPool::new(context.client.clone())),
    };
    let ended = tokio::select! {
        ended = exporter.all(&root, &mailboxes, &emails, &mut progress, &mut tally) => ended,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(exit::TEMPORARY, "interrupted")),
    };
    let ended = ended.and_then(|()| {
        root.sync().map_err(|error| wrong(&args.path.display().to_string(), &error))
    });
    let took = progress.finish();
    report(&args, context, &tally, took, ended.as_ref().err());
    ended.map_err(|failure| {
        let message = format!(
            "stopped: {}. What is written stays; run it again, and it goes on",
            failure.message
        );
        Failure::new(failure.code, message)
    })
}

/// All mailboxes and emails of the account.
async fn index(
    context: &CommandContext,
    account: &str,
) -> Result<(Vec<ExportMailbox>, Vec<Email>), Failure> {
    let bad = || Failure::new(exit::SOFTWARE, "the service's answer holds no list of mail");
    let (mut mailboxes, mut emails) = (Vec::<ExportMailbox>::new(), Vec::new());
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut after = None;
    loop {
        let args = MailIndexArguments { after, limit: Some(limits::MAX_LISTED_ROWS as u64) };
        let page = context.client.call::<MailIndex>(With(AccountRef::by_id(account), args)).await?;
        for row in page.mailboxes {
            // One that was made meanwhile is on this page alone.
            if known.contains_key(&row.id) {
                continue;
            }
            let place = MailboxPath { inbox: row.inbox, names: row.names };
            let role = row.role.as_deref().and_then(Role::from_name);
            known.insert(row.id, mailboxes.len());
            mailboxes.push(ExportMailbox { place, role, emails: Vec::new() });
        }
        after = page.list.last().map(|last| last.id.clone());
        for row in page.list {
            let id: EmailId = row.id.parse().map_err(|_| bad())?;
            for at in &row.mailbox_ids {
                if let Some(mailbox) = known.get(at).and_then(|at| mailboxes.get_mut(*at)) {
                    mailbox.emails.push(emails.len());
                }
            }
            emails.push(Email { id, size: row.size, keywords: row.keywords });
        }
        if after.is_none() {
            break;
        }
    }
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

/// What is under way, in order.
type PendingDownloads<'a> = VecDeque<(&'a Email, JoinHandle<Result<ControlResponse, Failure>>)>;

impl Exporter<'_> {
    async fn all(
        &self,
        root: &Folder,
        mailboxes: &[ExportMailbox],
        emails: &[Email],
        progress: &mut ByteProgress,
        tally: &mut ExportCounts,
    ) -> Result<(), Failure> {
        for mailbox in mailboxes {
            let shown = mailbox.place.path();
            let site = ExportTarget::open(root, self.format, &mailbox.place, mailbox.role)
                .map_err(|error| wrong(&shown, &error))?;
            let mut layout = site.layout(self.format).map_err(|error| wrong(&shown, &error))?;
            tally.mailboxes += 1;
            let mut window: PendingDownloads<'_> = VecDeque::new();
            let mut octets = 0;
            for email in mailbox.emails.iter().filter_map(|at| emails.get(*at)) {
                match layout
                    .have(email.id, email.size, &email.keywords)
                    .map_err(|error| wrong(&shown, &error))?
                {
                    ExportStatus::Missing => {
                        window.push_back((email, self.fetch(email.id)));
                        octets += email.size;
                    }
                    have => {
                        tally.there += 1;
                        tally.remarked += u64::from(have == ExportStatus::Remarked);
                        progress.advance(email.size, || tally.says());
                    }
                }
                while window.len() >= MAX_CONCURRENT_REQUESTS
                    || (window.len() > 1 && octets > u64::from(MAX_KIB_IN_FLIGHT) * 1024)
                {
                    octets -= self.first(&mut window, &mut layout, &shown, progress, tally).await?;
                }
            }
            while !window.is_empty() {
                self.first(&mut window, &mut layout, &shown, progress, tally).await?;
            }
        }
        Ok(())
    }

    fn fetch(&self, id: EmailId) -> JoinHandle<Result<ControlResponse, Failure>> {
        let pairs = [("account", self.account), ("email", &id.to_string())];
        let path = format!("/octets?{}", query::write(&pairs));
        let pool = Arc::clone(&self.pool);
        tokio::spawn(
            async move { pool.exchange(&Method::GET, &path, &hyper::body::Bytes::new()).await },
        )
    }

    /// Writes the first of those under way; its octets.
    async fn first(
        &self,
        window: &mut PendingDownloads<'_>,
        layout: &mut Layout<'_>,
        shown: &str,
        progress: &mut ByteProgress,
        tally: &mut ExportCounts,
    ) -> Result<u64, Failure> {
        let Some((email, task)) = window.pop_front() else { return Ok(0) };
        let answer =
            task.await.map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))??;
        if answer.status.is_success() {
            layout
                .put(email.id, &email.keywords, &answer.body)
                .map_err(|error| wrong(shown, &error))?;
            tally.written += 1;
            tally.octets += email.size;
        } else if answer.status == StatusCode::NOT_FOUND
            && answer.problem().as_deref() == Some("notFound")
        {
            // Destroyed since the list was made.
            tally.gone += 1;
        } else {
            let failure = answer.failure();
            return Err(Failure::new(failure.code, format!("{}: {}", email.id, failure.message)));
        }
        progress.advance(email.size, || tally.says());
        Ok(email.size)
    }
}

/// What hindered the writing: for now, or in this place.
fn wrong(shown: &str, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied => exit::NO_PERMISSION,
        io::ErrorKind::AlreadyExists | io::ErrorKind::InvalidData => exit::DATA,
        _ => exit::TEMPORARY,
    };
    Failure::new(code, format!("{shown}: {error}"))
}

fn report(
    args: &ExportArgs,
    context: &CommandContext,
    tally: &ExportCounts,
    took: Duration,
    ended: Option<&Failure>,
) {
    if context.json {
        output::json(&json!({
            "dryRun": args.dry_run, "mailboxes": tally.mailboxes, "written": tally.written, "there": tally.there,
            "remarked": tally.remarked, "gone": tally.gone, "octets": tally.octets, "seconds": took.as_secs_f64(),
            "stopped": ended.map(|failure| &failure.message),
        }));
        return;
    }
    let would = if args.dry_run { "would be " } else { "" };
    let mut line =
        format!("{} messages of {} mailboxes {would}written", tally.written, tally.mailboxes);
    for (count, what) in [
        (tally.there, "there already"),
        (tally.remarked, "of these with other keywords now"),
        (tally.gone, "destroyed meanwhile"),
    ] {
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    output::line(&format!("{line}; {:.1} s", took.as_secs_f64()));
}
