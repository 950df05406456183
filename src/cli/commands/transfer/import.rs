//! The command `mail import`.
//!
//! - One thread reads the files. The messages are sent over several connections, so that the
//!   service writes them in groups.
//! - The bytes of messages that wait for their answer are bounded. The thread holds one more.
//! - A message that is refused is reported, and the others are imported. A full disk, an exceeded
//!   quota or Ctrl-C stops the import, which can be run again.

mod counts;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::read::{self, ImportEntry, join_keywords};
use super::scripts::{self, ScriptResult, ScriptSurvey};
use super::survey::{SourceMailbox, Survey, survey};
use super::{ImportArgs, MAX_CONCURRENT_REQUESTS, MAX_KIB_IN_FLIGHT};
use crate::cli::control::pool::{ControlPool, ControlResponse};
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::progress::ByteProgress;
use crate::model::Role;
use crate::transfer::MailboxPath;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::mailboxes::{MailboxEnsure, MailboxEnsureArguments};
use crate::wire::query;
use counts::ImportCounts;

/// The most requests for one message while the service is busy.
const MAX_TRIES: u32 = 6;
/// Half of the pause after the first attempt; each further pause is twice as long.
const BASE_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What the thread that reads the files sends, in order.
enum ImportStep {
    /// The following messages belong to this mailbox.
    Mailbox(MailboxPath, Option<Role>),
    /// An entry, with its name and its size in the files. The permit is for its bytes in memory.
    Entry(String, u64, ImportEntry, OwnedSemaphorePermit),
    /// The path of a folder or mbox file that cannot be read, and the error.
    Unreadable(String, String),
}

/// A message whose request was begun.
struct PendingAppend {
    name: String,
    /// The bytes in the files.
    size: u64,
    /// Whether keywords of the message were left out as it was read.
    is_cut: bool,
    task: JoinHandle<Result<ControlResponse, Failure>>,
}

pub(in crate::cli) async fn run(args: ImportArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.account.account, context).await?;
    let mut found = find(&args).await?;
    let scripts = match args.without_scripts || args.mailbox.is_some() {
        true => ScriptSurvey::default(),
        false => found.scripts,
    };
    found.skipped.extend(scripts.skipped);
    let sources = sources(&args, found.sources);
    if sources.is_empty() && found.skipped.is_empty() && scripts.scripts.is_empty() {
        return Err(Failure::new(
            exit::NO_INPUT,
            "no Maildir, .mbox or .eml file to import there; for mbox files with other names \
             say --format mbox",
        ));
    }
    let mut progress =
        ByteProgress::new("importing", sources.iter().map(SourceMailbox::size).sum());
    let mut counts = ImportCounts::default();
    for (name, error) in &found.skipped {
        counts.fail(&progress, name, error);
    }
    let (steps, steps_in) = mpsc::channel(MAX_CONCURRENT_REQUESTS);
    let max_bytes = context.config.limits.message.0;
    let permits = usize::try_from(MAX_KIB_IN_FLIGHT).unwrap_or(usize::MAX);
    let memory = Arc::new(Semaphore::new(permits));
    let runtime = tokio::runtime::Handle::current();
    let reader = tokio::task::spawn_blocking(move || {
        for source in &sources {
            if !read_mailbox(source, max_bytes, &steps, &memory, &runtime) {
                break;
            }
        }
    });
    let mut importer = Importer {
        args: &args,
        context,
        account: &account.id,
        pool: Arc::new(ControlPool::new(context.client.clone())),
        mailbox_ids: HashMap::new(),
        pending: VecDeque::new(),
    };
    let ended = tokio::select! {
        ended = importer.run_all(steps_in, scripts.scripts, &mut progress, &mut counts) => ended,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(exit::TEMPORARY, "interrupted")),
    };
    // If the import stopped, requests that have ended are counted. The others are given up: the
    // next import repeats them.
    while let Some(append) = importer.pending.pop_front() {
        if ended.is_ok() || append.task.is_finished() {
            drop(importer.finish(append, &mut progress, &mut counts).await);
        } else {
            append.task.abort();
        }
    }
    drop(reader.await);
    let took = progress.finish();
    counts.report(&args, context, took, ended.as_ref().err());
    match ended {
        Err(failure) => {
            let message =
                format!("stopped: {}. Run the command again to import the rest", failure.message);
            Err(Failure::new(failure.code, message))
        }
        Ok(()) if counts.failed > 0 => Err(Failure::new(
            exit::DATA,
            match counts.failed {
                1 => "1 message or file was not imported (see above)".to_owned(),
                failed => format!("{failed} messages or files were not imported (see above)"),
            },
        )),
        Ok(()) if counts.scripts.iter().any(ScriptResult::is_problem) => Err(Failure::new(
            exit::DATA,
            "a script was not imported, has errors, or is not active as it was (see above)",
        )),
        Ok(()) => Ok(()),
    }
}

/// Finds the mailboxes and the scripts at the given paths.
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

/// Puts the mailboxes below that of `--mailbox`, if it is given, without their roles.
fn sources(args: &ImportArgs, found: Vec<SourceMailbox>) -> Vec<SourceMailbox> {
    let Some(mailbox) = &args.mailbox else { return found };
    let base = MailboxPath::of(
        mailbox.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
    );
    let below = |source: SourceMailbox| SourceMailbox {
        mailbox_path: base.join(&source.mailbox_path),
        role: None,
        ..source
    };
    found.into_iter().map(below).collect()
}

/// Reads a mailbox and sends its messages to the importer. Returns false if the importer has
/// stopped.
fn read_mailbox(
    source: &SourceMailbox,
    max_bytes: u64,
    steps: &mpsc::Sender<ImportStep>,
    memory: &Arc<Semaphore>,
    runtime: &tokio::runtime::Handle,
) -> bool {
    let mut open =
        steps.blocking_send(ImportStep::Mailbox(source.mailbox_path.clone(), source.role)).is_ok();
    let result = read::read(source, max_bytes, &mut |name, size, entry| {
        let bytes = match &entry {
            ImportEntry::Message(message) => message.bytes.len(),
            ImportEntry::Failed(_) => 0,
        };
        // A message that is larger than the bound waits until no other is in memory.
        let kib =
            u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).clamp(1, MAX_KIB_IN_FLIGHT);
        let Ok(permit) = runtime.block_on(Arc::clone(memory).acquire_many_owned(kib)) else {
            return false;
        };
        open = open && steps.blocking_send(ImportStep::Entry(name, size, entry, permit)).is_ok();
        open
    });
    if let Err(error) = result {
        open = open
            && steps
                .blocking_send(ImportStep::Unreadable(source.full_path.clone(), error.to_string()))
                .is_ok();
    }
    open
}

struct Importer<'a> {
    args: &'a ImportArgs,
    context: &'a CommandContext,
    account: &'a str,
    pool: Arc<ControlPool>,
    /// The id of each mailbox, or why it cannot be created.
    mailbox_ids: HashMap<(MailboxPath, Option<Role>), Result<String, String>>,
    pending: VecDeque<PendingAppend>,
}

impl Importer<'_> {
    /// Imports the messages, and then the scripts, whose mailboxes exist by then.
    async fn run_all(
        &mut self,
        steps: mpsc::Receiver<ImportStep>,
        scripts: Vec<scripts::SourceScript>,
        progress: &mut ByteProgress,
        counts: &mut ImportCounts,
    ) -> Result<(), Failure> {
        self.run(steps, progress, counts).await?;
        scripts::import(&self.pool, self.account, scripts, self.args.dry_run, &mut counts.scripts)
            .await
    }

    async fn run(
        &mut self,
        mut steps: mpsc::Receiver<ImportStep>,
        progress: &mut ByteProgress,
        counts: &mut ImportCounts,
    ) -> Result<(), Failure> {
        // The first step sets it.
        let mut mailbox = Err(String::new());
        while let Some(step) = steps.recv().await {
            match step {
                ImportStep::Mailbox(place, role) => {
                    mailbox = self.mailbox(place.clone(), role).await?;
                    match &mailbox {
                        Ok(_) => counts.mailboxes += 1,
                        Err(error) => counts.fail(progress, &place.path(), error),
                    }
                }
                ImportStep::Unreadable(name, error) => counts.fail(progress, &name, &error),
                ImportStep::Entry(name, size, ImportEntry::Failed(error), _) => {
                    counts.fail(progress, &name, &error);
                    progress.advance(size, || counts.summary());
                }
                ImportStep::Entry(name, size, ImportEntry::Message(message), permit) => {
                    let target = if message.flags.deleted && self.args.with_deleted {
                        self.mailbox(MailboxPath::of(vec!["Trash".into()]), Some(Role::Trash))
                            .await?
                    } else {
                        mailbox.clone()
                    };
                    match target {
                        _ if message.flags.deleted && !self.args.with_deleted => {
                            counts.deleted += 1;
                            progress.advance(size, || counts.summary());
                        }
                        Err(error) => {
                            counts.fail(progress, &name, &error);
                            progress.advance(size, || counts.summary());
                        }
                        Ok(mailbox) => {
                            if self.args.dry_run {
                                if message.flags.is_cut {
                                    counts.cut_keywords(progress, &name);
                                }
                                counts.added += 1;
                                counts.bytes += size;
                                progress.advance(size, || counts.summary());
                            } else {
                                self.send(name, size, message, &mailbox, permit);
                            }
                        }
                    }
                }
            }
            while self.pending.len() >= MAX_CONCURRENT_REQUESTS {
                self.finish_first(progress, counts).await?;
            }
        }
        while !self.pending.is_empty() {
            self.finish_first(progress, counts).await?;
        }
        Ok(())
    }

    async fn finish_first(
        &mut self,
        progress: &mut ByteProgress,
        counts: &mut ImportCounts,
    ) -> Result<(), Failure> {
        let Some(append) = self.pending.pop_front() else { return Ok(()) };
        self.finish(append, progress, counts).await
    }

    /// Returns the id of a mailbox, which is created if it does not exist; or why it cannot be. In
    /// a dry run, the id is empty.
    ///
    /// # Errors
    /// What stops the whole import.
    async fn mailbox(
        &mut self,
        place: MailboxPath,
        role: Option<Role>,
    ) -> Result<Result<String, String>, Failure> {
        if self.args.dry_run {
            return Ok(Ok(String::new()));
        }
        if let Some(id) = self.mailbox_ids.get(&(place.clone(), role)) {
            return Ok(id.clone());
        }
        let args = MailboxEnsureArguments {
            inbox: place.inbox,
            names: place.names.clone(),
            role: role.map(|role| role.name().to_owned()),
        };
        let args = With(AccountRef::by_id(self.account), args);
        let id = match self.context.client.call::<MailboxEnsure>(args).await {
            Ok(mailbox) => Ok(mailbox.id),
            Err(failure) if failure.code == exit::USAGE => Err(failure.message),
            Err(failure) => return Err(failure),
        };
        self.mailbox_ids.insert((place, role), id.clone());
        Ok(id)
    }

    /// Begins to send a message, and adds it to `pending`. The permit ends with the request.
    fn send(
        &mut self,
        name: String,
        size: u64,
        message: read::ImportMessage,
        mailbox: &str,
        permit: OwnedSemaphorePermit,
    ) {
        let keywords = join_keywords(&message.flags.keywords);
        let at = message.received_at.rfc3339_millis();
        let id = message.id.map(|id| id.to_string());
        let is_cut = message.flags.is_cut;
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
            let _permit = permit;
            let body = message.bytes.into();
            let mut tries = 0;
            loop {
                let answer = pool.exchange(&Method::POST, &path, &body).await?;
                tries += 1;
                let is_busy = matches!(answer.problem().as_deref(), Some("busy" | "overtaken"));
                if !is_busy || tries == MAX_TRIES {
                    return Ok(answer);
                }
                tokio::time::sleep(BASE_RETRY_PAUSE * 2u32.pow(tries)).await;
            }
        });
        self.pending.push_back(PendingAppend { name, size, is_cut, task });
    }

    /// Waits for a request and counts its result.
    ///
    /// # Errors
    /// What stops the whole import.
    async fn finish(
        &mut self,
        append: PendingAppend,
        progress: &mut ByteProgress,
        counts: &mut ImportCounts,
    ) -> Result<(), Failure> {
        let PendingAppend { name, size, is_cut, task } = append;
        let answer =
            task.await.map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))??;
        if answer.status.is_success() {
            let done: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            counts.count_appended(progress, &name, is_cut, &done);
            counts.bytes += size;
            progress.advance(size, || counts.summary());
            return Ok(());
        }
        let failure = answer.failure();
        // The message may be refused, or its mailbox destroyed meanwhile. Any other error would
        // also stop the next message.
        let concerns_one_message = match answer.status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::CONFLICT => true,
            StatusCode::NOT_FOUND => answer.problem().as_deref() == Some("notFound"),
            _ => false,
        };
        if concerns_one_message {
            counts.fail(progress, &name, &failure.message);
            progress.advance(size, || counts.summary());
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
