//! `mail import`: files are read on a thread of their own, and sent over several connections at
//! once, so that the service gathers their commits under one sync. Octets under way are bounded;
//! who reads waits for who sends.
//!
//! A message that is refused is told and the rest goes on; a full disk or a quota stops it, and so
//! does Ctrl-C. Whatever stopped it: run again, it goes on, since what is there is not added again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::read::{self, ImportEntry, words};
use super::survey::{SourceMailbox, Survey, survey};
use super::{ImportArgs, MAX_CONCURRENT_REQUESTS, MAX_KIB_IN_FLIGHT};
use crate::cli::control::pool::{ControlPool, ControlResponse};
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;
use crate::cli::terminal::progress::ByteProgress;
use crate::model::Role;
use crate::transfer::MailboxPath;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::mailboxes::{MailboxEnsure, MailboxEnsureArguments};
use crate::wire::query;

/// Messages that cannot be imported, of which the summary tells.
const MAX_LISTED_FAILURES: usize = 1000;
/// How often a message is sent that the service could not take just then, with growing pauses.
const MAX_TRIES: u32 = 6;
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// From who reads to who sends.
enum ImportStep {
    /// What follows is of this mailbox.
    Mailbox(MailboxPath, Option<Role>),
    /// A message or why it is none; its name and how much of the files it is.
    Found(String, u64, ImportEntry, OwnedSemaphorePermit),
    /// All of it could not be read.
    Broken(String, String),
}

/// What became of it all.
#[derive(Default)]
struct ImportCounts {
    mailboxes: usize,
    added: u64,
    joined: u64,
    there: u64,
    deleted: u64,
    octets: u64,
    failed: u64,
    failures: Vec<(String, String)>,
}

impl ImportCounts {
    fn fail(&mut self, progress: &ByteProgress, name: &str, why: &str) {
        progress.note(&format!("{name}: {why}"));
        self.failed += 1;
        if self.failures.len() < MAX_LISTED_FAILURES {
            self.failures.push((name.to_owned(), why.to_owned()));
        }
    }

    fn says(&self) -> String {
        format!("{} messages", self.added + self.joined + self.there)
    }
}

/// What is under way, in order.
type PendingAppends = VecDeque<(String, u64, JoinHandle<Result<ControlResponse, Failure>>)>;

pub(in crate::cli) async fn run(args: ImportArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.account.account, context).await?;
    let found = find(&args).await?;
    let sources = sources(&args, found.sources);
    if sources.is_empty() && found.passed_over.is_empty() {
        return Err(Failure::new(
            exit::NO_INPUT,
            "nothing to import there: neither Maildir, mailbox file nor .eml",
        ));
    }
    let mut progress =
        ByteProgress::new("importing", sources.iter().map(SourceMailbox::octets).sum());
    let mut tally = ImportCounts::default();
    for (name, why) in &found.passed_over {
        tally.fail(&progress, name, why);
    }
    let (steps, steps_in) = mpsc::channel(MAX_CONCURRENT_REQUESTS);
    let most = context.config.limits.message.0;
    let room = Arc::new(Semaphore::new(usize::try_from(MAX_KIB_IN_FLIGHT).unwrap_or(usize::MAX)));
    let runtime = tokio::runtime::Handle::current();
    let reader = tokio::task::spawn_blocking(move || {
        for source in &sources {
            if !produce(source, most, &steps, &room, &runtime) {
                break;
            }
        }
    });
    let mut importer = Importer {
        args: &args,
        context,
        account: &account.id,
        pool: Arc::new(ControlPool::new(context.client.clone())),
        known: HashMap::new(),
        window: VecDeque::new(),
    };
    let ended = tokio::select! {
        ended = importer.take(steps_in, &mut progress, &mut tally) => ended,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(exit::TEMPORARY, "interrupted")),
    };
    // What is under way arrives, or is not there: both are well.
    while let Some((name, octets, task)) = importer.window.pop_front() {
        if ended.is_ok() || task.is_finished() {
            drop(importer.arrived(&name, octets, task, &mut progress, &mut tally).await);
        } else {
            task.abort();
        }
    }
    drop(reader.await);
    let took = progress.finish();
    report(&args, context, &tally, took, ended.as_ref().err());
    match ended {
        Err(failure) => {
            let message = format!(
                "stopped: {}. What is there stays; run it again, and it goes on",
                failure.message
            );
            Err(Failure::new(failure.code, message))
        }
        Ok(()) if tally.failed > 0 => Err(Failure::new(
            exit::DATA,
            format!("{} messages or files were not imported", tally.failed),
        )),
        Ok(()) => Ok(()),
    }
}

/// All there is to import.
async fn find(args: &ImportArgs) -> Result<Survey, Failure> {
    let (paths, format) = (args.paths.clone(), args.format);
    let looking = tokio::task::spawn_blocking(move || {
        let mut found = Survey::default();
        for path in &paths {
            survey(path, format, &mut found).map_err(|error| {
                Failure::new(exit::NO_INPUT, format!("{}: {error}", path.display()))
            })?;
        }
        Ok(found)
    });
    looking.await.map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))?
}

/// Each where it is to go.
fn sources(args: &ImportArgs, found: Vec<SourceMailbox>) -> Vec<SourceMailbox> {
    let Some(mailbox) = &args.mailbox else { return found };
    let base = MailboxPath::of(
        mailbox.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
    );
    let below = |source: SourceMailbox| SourceMailbox {
        place: base.with(&source.place),
        role: None,
        ..source
    };
    found.into_iter().map(below).collect()
}

/// Reads a mailbox for who sends; whether to go on.
fn produce(
    source: &SourceMailbox,
    most: u64,
    steps: &mpsc::Sender<ImportStep>,
    room: &Arc<Semaphore>,
    runtime: &tokio::runtime::Handle,
) -> bool {
    let mut open =
        steps.blocking_send(ImportStep::Mailbox(source.place.clone(), source.role)).is_ok();
    let done = read::read(source, most, &mut |name, octets, found| {
        let held = match &found {
            ImportEntry::Letter(letter) => letter.octets.len(),
            ImportEntry::Failed(_) => 0,
        };
        let kib =
            u32::try_from(held.div_ceil(1024)).unwrap_or(u32::MAX).clamp(1, MAX_KIB_IN_FLIGHT);
        let Ok(permit) = runtime.block_on(Arc::clone(room).acquire_many_owned(kib)) else {
            return false;
        };
        open = open && steps.blocking_send(ImportStep::Found(name, octets, found, permit)).is_ok();
        open
    });
    if let Err(error) = done {
        open = open
            && steps
                .blocking_send(ImportStep::Broken(source.shown.clone(), error.to_string()))
                .is_ok();
    }
    open
}

struct Importer<'a> {
    args: &'a ImportArgs,
    context: &'a CommandContext,
    account: &'a str,
    pool: Arc<ControlPool>,
    /// The id of each mailbox, or why it cannot be.
    known: HashMap<(MailboxPath, Option<Role>), Result<String, String>>,
    window: PendingAppends,
}

impl Importer<'_> {
    /// Takes all that is read, until it ends or something stops it.
    async fn take(
        &mut self,
        mut steps: mpsc::Receiver<ImportStep>,
        progress: &mut ByteProgress,
        tally: &mut ImportCounts,
    ) -> Result<(), Failure> {
        let mut mailbox = Err(String::new());
        while let Some(step) = steps.recv().await {
            match step {
                ImportStep::Mailbox(place, role) => {
                    mailbox = self.mailbox(place.clone(), role).await?;
                    match &mailbox {
                        Ok(_) => tally.mailboxes += 1,
                        Err(why) => tally.fail(progress, &place.path(), why),
                    }
                }
                ImportStep::Broken(name, why) => tally.fail(progress, &name, &why),
                ImportStep::Found(name, octets, ImportEntry::Failed(why), _) => {
                    tally.fail(progress, &name, &why);
                    progress.advance(octets, || tally.says());
                }
                ImportStep::Found(name, octets, ImportEntry::Letter(letter), room) => {
                    let to = if letter.marks.deleted && self.args.with_deleted {
                        self.mailbox(MailboxPath::of(vec!["Trash".into()]), Some(Role::Trash))
                            .await?
                    } else {
                        mailbox.clone()
                    };
                    match to {
                        _ if letter.marks.deleted && !self.args.with_deleted => {
                            tally.deleted += 1;
                            progress.advance(octets, || tally.says());
                        }
                        Err(why) => tally.fail(progress, &name, &why),
                        Ok(_) if self.args.dry_run => {
                            tally.added += 1;
                            tally.octets += letter.octets.len() as u64;
                            progress.advance(octets, || tally.says());
                        }
                        Ok(mailbox) => self.send(name, octets, letter, &mailbox, room),
                    }
                }
            }
            while self.window.len() >= MAX_CONCURRENT_REQUESTS {
                self.first(progress, tally).await?;
            }
        }
        while !self.window.is_empty() {
            self.first(progress, tally).await?;
        }
        Ok(())
    }

    async fn first(
        &mut self,
        progress: &mut ByteProgress,
        tally: &mut ImportCounts,
    ) -> Result<(), Failure> {
        match self.window.pop_front() {
            Some((name, octets, task)) => self.arrived(&name, octets, task, progress, tally).await,
            None => Ok(()),
        }
    }

    /// The mailbox at a place, made where it is not there.
    async fn mailbox(
        &mut self,
        place: MailboxPath,
        role: Option<Role>,
    ) -> Result<Result<String, String>, Failure> {
        if self.args.dry_run {
            return Ok(Ok(String::new()));
        }
        if let Some(known) = self.known.get(&(place.clone(), role)) {
            return Ok(known.clone());
        }
        let args = MailboxEnsureArguments {
            inbox: place.inbox,
            names: place.names.clone(),
            role: role.map(|role| role.name().to_owned()),
        };
        let args = With(AccountRef::by_id(self.account), args);
        let made = match self.context.client.call::<MailboxEnsure>(args).await {
            Ok(made) => Ok(made.id),
            // The name is at fault, or the number of mailboxes: other mailboxes may do.
            Err(failure) if failure.code == exit::USAGE => Err(failure.message),
            Err(failure) => return Err(failure),
        };
        self.known.insert((place, role), made.clone());
        Ok(made)
    }

    fn send(
        &mut self,
        name: String,
        octets: u64,
        letter: read::ImportMessage,
        mailbox: &str,
        room: OwnedSemaphorePermit,
    ) {
        let (keywords, at) = (words(&letter.marks.keywords), letter.received_at.rfc3339_millis());
        let id = letter.id.map(|id| id.to_string());
        let mut pairs = vec![
            ("account", self.account),
            ("mailbox", mailbox),
            ("keywords", keywords.as_str()),
            ("receivedAt", at.as_str()),
        ];
        pairs.extend(id.as_deref().map(|id| ("known", id)));
        let path = format!("/append?{}", query::write(&pairs));
        let pool = Arc::clone(&self.pool);
        let task = tokio::spawn(async move {
            let _room = room;
            let body = letter.octets.into();
            let mut tries = 0;
            loop {
                let answer = pool.exchange(&Method::POST, &path, &body).await?;
                tries += 1;
                let later = matches!(answer.problem().as_deref(), Some("busy" | "overtaken"));
                if !later || tries == MAX_TRIES {
                    return Ok(answer);
                }
                tokio::time::sleep(FIRST_RETRY_PAUSE * 2u32.pow(tries)).await;
            }
        });
        self.window.push_back((name, octets, task));
    }

    /// Takes in an answer.
    ///
    /// # Errors
    /// What stops the whole import, and where.
    async fn arrived(
        &mut self,
        name: &str,
        octets: u64,
        task: JoinHandle<Result<ControlResponse, Failure>>,
        progress: &mut ByteProgress,
        tally: &mut ImportCounts,
    ) -> Result<(), Failure> {
        let answer =
            task.await.map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))??;
        if answer.status.is_success() {
            let done: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            match done["outcome"].as_str() {
                Some("added") => tally.added += 1,
                Some("joined") => tally.joined += 1,
                _ => tally.there += 1,
            }
            tally.octets += octets;
            progress.advance(octets, || tally.says());
            return Ok(());
        }
        let failure = answer.failure();
        // A mailbox may be destroyed meanwhile; a message may be wrong. All else is wrong with the
        // next one, too.
        let alone = match answer.status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::CONFLICT => true,
            StatusCode::NOT_FOUND => answer.problem().as_deref() == Some("notFound"),
            _ => false,
        };
        if alone {
            tally.fail(progress, name, &failure.message);
            progress.advance(octets, || tally.says());
            return Ok(());
        }
        let code = if answer.status == StatusCode::INSUFFICIENT_STORAGE {
            exit::TEMPORARY
        } else {
            failure.code
        };
        Err(Failure::new(code, format!("{name}: {}", failure.message)))
    }
}

fn report(
    args: &ImportArgs,
    context: &CommandContext,
    tally: &ImportCounts,
    took: Duration,
    ended: Option<&Failure>,
) {
    if context.json {
        let failures: Vec<Value> =
            tally.failures.iter().map(|(name, why)| json!({"name": name, "why": why})).collect();
        output::json(&json!({
            "dryRun": args.dry_run, "mailboxes": tally.mailboxes, "added": tally.added, "joined": tally.joined,
            "there": tally.there, "deleted": tally.deleted, "octets": tally.octets, "failed": tally.failed,
            "failures": failures, "seconds": took.as_secs_f64(), "stopped": ended.map(|failure| &failure.message),
        }));
        return;
    }
    let would = if args.dry_run { "would be " } else { "" };
    let mut line =
        format!("{} messages {would}imported into {} mailboxes", tally.added, tally.mailboxes);
    for (count, what) in [
        (tally.joined, "put into one more mailbox"),
        (tally.there, "there already"),
        (tally.deleted, "left out, marked as deleted (--with-deleted files them in the Trash)"),
        (tally.failed, "failed"),
    ] {
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    output::line(&format!("{line}; {:.1} s", took.as_secs_f64()));
}
