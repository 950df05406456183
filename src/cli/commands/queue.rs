//! The command `queue`: lists outgoing mail, and retries, holds or removes it.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::complain;
use crate::cli::terminal::output::{self, local, short};
use crate::cli::terminal::row_count;
use crate::config::DurationValue;
use crate::model::clock::{Clock as _, SystemClock};
use crate::model::{ActionKind, ActionState, UtcMillis};
use crate::wire::jmap::admin::queue::{
    QueueAcceptLoss, QueueChangeAnswer, QueueChangeArguments, QueueHold, QueueList,
    QueueListArguments, QueueRelease, QueueRemove, QueueRetry, QueueSelection, QueueShow,
    QueueShowAnswer, QueueShowArguments, QueueTarget, QueuedAction,
};
use crate::wire::jmap::admin::{AccountRef, EmptyArguments, VendorMethod};
use crate::wire::jmap::{With, from_base64};

#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// List outgoing messages.
    List {
        #[command(flatten)]
        filter: QueueFilterArgs,
        /// The number of lines, at most 10000 [default: 10000].
        #[arg(long, value_name = "NUMBER", value_parser = row_count())]
        limit: Option<usize>,
    },
    /// Show one outgoing message, with the state of each recipient.
    Show {
        #[command(flatten)]
        item: ActionArgs,
        /// Print the message that is sent.
        #[arg(long)]
        message: bool,
    },
    /// Send messages now, before others; also held ones and submissions that failed.
    Retry(QueueSelectionArgs),
    /// Hold messages back until they are released.
    Hold(QueueSelectionArgs),
    /// Release messages that are held back.
    Release(QueueSelectionArgs),
    /// Remove messages without sending them, and the messages that depend on them.
    Remove(QueueSelectionArgs),
    /// Resume sending after a part of the queue was lost or a backup was restored.
    ///
    /// The queue is used as it is now. After a restore its vacation replies are removed, because
    /// they may have been sent since the backup was made. Other messages are sent, perhaps a second
    /// time, with the same Message-ID.
    AcceptLoss,
}

/// Names one message of the queue.
#[derive(Debug, Args)]
pub struct ActionArgs {
    /// The account: its name or any of its addresses.
    #[arg(long, short, value_name = "ACCOUNT")]
    pub account: String,
    /// The id of the message, as `queue list` shows it.
    #[arg(value_name = "ID")]
    pub action: String,
}

/// Selects messages of the queue by their properties.
#[derive(Debug, Args)]
pub struct QueueFilterArgs {
    /// Only messages of this account: its name or any of its addresses.
    #[arg(long, short, value_name = "ACCOUNT")]
    pub account: Option<String>,
    /// Only messages of this kind: reply, redirect, notify, reject, report or submission.
    #[arg(long, value_parser = PossibleValuesParser::new(ActionKind::ALL.map(ActionKind::name)))]
    pub kind: Option<String>,
    /// Only messages in this state: waiting, attempting, held, blocked, failed or sent.
    #[arg(long, value_parser = PossibleValuesParser::new(ActionState::ALL.map(ActionState::name)))]
    pub state: Option<String>,
    /// Only messages to a recipient in this domain.
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Option<String>,
    /// Only messages that were queued at least this long ago, such as 30m or 2d.
    #[arg(long, value_name = "AGE")]
    pub older: Option<String>,
}

/// Names messages of the queue, or selects all with certain properties.
#[derive(Debug, Args)]
pub struct QueueSelectionArgs {
    /// The ids of the messages, as `queue list` shows them; needs --account.
    #[arg(
        value_name = "ID",
        required_unless_present = "all",
        conflicts_with_all = ["all", "kind", "state", "domain", "older"]
    )]
    pub actions: Vec<String>,
    /// All messages that the other options select. Without it, only --account may be given.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub filter: QueueFilterArgs,
}

pub(in crate::cli) async fn run(
    command: QueueCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        QueueCommand::List { filter, limit } => list(&filter, limit, context).await,
        QueueCommand::Show { item, message } => show(&item, message, context).await,
        QueueCommand::Retry(selected) => {
            change::<QueueRetry>(&selected, "to be tried now", context).await
        }
        QueueCommand::Hold(selected) => change::<QueueHold>(&selected, "held", context).await,
        QueueCommand::Release(selected) => {
            change::<QueueRelease>(&selected, "released", context).await
        }
        QueueCommand::Remove(selected) => {
            change::<QueueRemove>(&selected, "removed", context).await
        }
        QueueCommand::AcceptLoss => {
            let answer = context.client.call::<QueueAcceptLoss>(EmptyArguments {}).await?;
            if context.json {
                output::json(&answer);
                return Ok(());
            }
            output::line(&format!("accepted: {}", answer.accepted));
            let (removed, kept) = (answer.dropped, answer.kept);
            output::line(&format!("{removed} removed, {kept} kept"));
            Ok(())
        }
    }
}

/// Converts the options into the account and the selection of a method call.
async fn selection(
    filter: &QueueFilterArgs,
    context: &CommandContext,
) -> Result<(AccountRef, QueueSelection), Failure> {
    let account = match &filter.account {
        Some(name) => AccountRef::by_id(&selected_account::find_account(name, context).await?.id),
        None => AccountRef::default(),
    };
    let queued_before = match &filter.older {
        Some(age) => {
            let age: DurationValue = age
                .parse()
                .map_err(|error: String| Failure::new(exit::USAGE, format!("--older: {error}")))?;
            Some(SystemClock.now().before(age.0).rfc3339_millis())
        }
        None => None,
    };
    let (kind, state, domain) = (filter.kind.clone(), filter.state.clone(), filter.domain.clone());
    Ok((account, QueueSelection { kind, state, domain, queued_before }))
}

async fn list(
    filter: &QueueFilterArgs,
    limit: Option<usize>,
    context: &CommandContext,
) -> Result<(), Failure> {
    let (account, selection) = selection(filter, context).await?;
    let limit = limit.map(|limit| limit as u64);
    let args = With(account, With(selection, QueueListArguments { limit }));
    let answer = context.client.call::<QueueList>(args).await?;
    if let Some(why) = &answer.held {
        complain(&format!("nothing is sent: {why}\n`restante queue accept-loss` resumes sending"));
    }
    let now = SystemClock.now();
    if let Some(relay) = &answer.relay {
        let until = UtcMillis::parse_rfc3339(&relay.until).filter(|until| *until > now);
        let again = until
            .map_or_else(|| "now".into(), |until| format!("in {}", describe(until.since(now))));
        let error = &relay.error;
        complain(&format!("the relay does not accept mail: {error}\nit is tried again {again}"));
    }
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let rows = answer.list.into_iter().map(|row| {
        let next = next_attempt(&row, now);
        let last_error = short(row.last_error.as_deref().unwrap_or_default(), 60);
        vec![
            row.id,
            row.account,
            row.kind,
            row.state,
            row.recipient,
            next,
            row.attempts.to_string(),
            last_error,
        ]
    });
    output::table(
        &["ID", "ACCOUNT", "KIND", "STATE", "TO", "NEXT", "TRIED", "LAST ERROR"],
        rows.collect(),
    );
    if answer.more {
        complain("there are more: raise --limit, or select fewer with the other options");
    }
    Ok(())
}

async fn show(item: &ActionArgs, message: bool, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&item.account, context).await?;
    let args = QueueShowArguments { id: item.action.clone(), with_message: message };
    let answer =
        context.client.call::<QueueShow>(With(AccountRef::by_id(&account.id), args)).await?;
    if message {
        return output::bytes(&shown_message(&answer)?);
    }
    if context.json {
        output::json(&answer);
        return Ok(());
    }
    /// Without the recipients, which follow in a table.
    #[derive(Serialize)]
    struct ShownAction {
        #[serde(flatten)]
        action: QueuedAction,
        next: String,
    }
    let mut action = answer.action;
    let next = next_attempt(&action, SystemClock.now());
    let recipients = std::mem::take(&mut action.recipients);
    action.created = local(&action.created, &account.zone);
    for at in [&mut action.due, &mut action.expires, &mut action.kept_until] {
        *at = at.as_deref().map(|at| local(at, &account.zone));
    }
    output::facts(&ShownAction { action, next });
    let rows = recipients
        .into_iter()
        .map(|row| vec![row.address, row.state, row.reply.unwrap_or_default()]);
    output::table(&["RECIPIENT", "STATE", "REPLY OF THE RELAY"], rows.collect());
    Ok(())
}

/// Returns the message of an answer that was asked for with it.
///
/// # Errors
/// `NO_USER` if the action was sent, because its message is not kept then; `SOFTWARE` if the
/// message is not base64.
fn shown_message(answer: &QueueShowAnswer) -> Result<Vec<u8>, Failure> {
    let Some(message) = &answer.message else {
        let text = format!("{} was sent, and its message is not in the queue", answer.action.id);
        return Err(Failure::new(exit::NO_USER, text));
    };
    from_base64(message)
        .map_err(|_| Failure::new(exit::SOFTWARE, "the service's answer has no message"))
}

/// Changes all selected messages by one call, or each named message by a call of its own. The first
/// named message that cannot be changed ends the command; `--json` then prints what was changed
/// before.
async fn change<M>(
    selected: &QueueSelectionArgs,
    done: &str,
    context: &CommandContext,
) -> Result<(), Failure>
where
    M: VendorMethod<Args = QueueChangeArguments, Answer = QueueChangeAnswer>,
{
    let (account, selection) = selection(&selected.filter, context).await?;
    if selected.all {
        let args = With(account, With(selection, QueueTarget { id: None, all: true }));
        let answer = context.client.call::<M>(args).await?;
        if context.json {
            output::json(&answer);
        } else {
            let left = if answer.unchanged > 0 {
                format!("; {} unchanged", answer.unchanged)
            } else {
                String::new()
            };
            output::line(&format!("{} {done}{left}{}", answer.changed, under_way(&answer)));
        }
        return Ok(());
    }
    if selected.filter.account.is_none() {
        let text = "ids are unique within an account only: name it with --account";
        return Err(Failure::new(exit::USAGE, text));
    }
    let mut sum = QueueChangeAnswer { changed: 0, unchanged: 0, under_way: 0 };
    let mut ended = Ok(());
    for id in &selected.actions {
        let target = QueueTarget { id: Some(id.clone()), all: false };
        let args = With(account.clone(), With(QueueSelection::default(), target));
        match context.client.call::<M>(args).await {
            Ok(answer) => {
                sum.changed += answer.changed;
                sum.unchanged += answer.unchanged;
                sum.under_way += answer.under_way;
                if !context.json {
                    output::line(&format!("{id} {done}{}", under_way(&answer)));
                }
            }
            Err(failure) => {
                ended = Err(failure);
                break;
            }
        }
    }
    if context.json {
        output::json(&sum);
    }
    ended
}

/// Says how many of the changed messages were being sent at that time.
fn under_way(answer: &QueueChangeAnswer) -> String {
    match answer.under_way {
        0 => String::new(),
        count => format!("; {count} being sent just now, which may arrive nevertheless"),
    }
}

/// Says when a message will be sent, or when a sent one will be removed.
fn next_attempt(row: &QueuedAction, now: UtcMillis) -> String {
    let read = |at: &Option<String>| at.as_deref().and_then(UtcMillis::parse_rfc3339);
    match (row.state.as_str(), read(&row.due), read(&row.kept_until)) {
        ("attempting", ..) => "being sent".into(),
        ("blocked", ..) => format!("after {}", row.after.as_deref().unwrap_or_default()),
        ("waiting", Some(due), _) if due <= now => "now".into(),
        ("waiting", Some(due), _) => format!("in {}", describe(due.since(now))),
        ("sent", _, Some(until)) => format!("removed in {}", describe(until.since(now))),
        _ => "never".into(),
    }
}

/// Returns a duration as a whole number of its largest unit, rounded down; at least 1 second.
fn describe(wait: Duration) -> String {
    let seconds = wait.as_secs().max(1);
    let (number, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::Cli;

    fn row(state: &str, due: &str) -> QueuedAction {
        QueuedAction {
            id: "q2".into(),
            account_id: String::new(),
            account: String::new(),
            kind: String::new(),
            state: state.into(),
            urgent: false,
            sender: None,
            recipient: String::new(),
            recipients: Vec::new(),
            created: String::new(),
            due: Some(due.into()),
            expires: None,
            kept_until: Some(due.into()),
            attempts: 0,
            last_error: None,
            message_id: String::new(),
            email_id: None,
            after: Some("q1".into()),
        }
    }

    #[test]
    fn the_next_attempt_is_described() {
        let now = UtcMillis::parse_rfc3339("2026-11-21T09:00:00Z").unwrap();
        for (state, due, expected) in [
            ("waiting", "2026-11-21T09:12:30Z", "in 12 minutes"),
            ("waiting", "2026-11-21T09:00:01Z", "in 1 second"),
            ("waiting", "2026-11-21T10:59:00Z", "in 1 hour"),
            ("waiting", "2026-11-21T08:00:00Z", "now"),
            ("attempting", "2026-11-21T08:00:00Z", "being sent"),
            ("held", "2026-11-21T10:00:00Z", "never"),
            ("failed", "2026-11-21T10:00:00Z", "never"),
            ("blocked", "2026-11-21T10:00:00Z", "after q1"),
            ("sent", "2026-11-24T10:00:00Z", "removed in 3 days"),
        ] {
            assert_eq!(next_attempt(&row(state, due), now), expected, "{state} {due}");
        }
    }

    #[test]
    fn message_of_a_sent_action_is_a_failure_that_says_so() {
        let answer = |state: &str, message: Option<&str>| QueueShowAnswer {
            action: row(state, ""),
            message: message.map(str::to_owned),
        };
        assert_eq!(shown_message(&answer("waiting", Some("SGk="))), Ok(b"Hi".to_vec()));
        let failure = shown_message(&answer("sent", None)).unwrap_err();
        assert_eq!(failure.code, exit::NO_USER);
        assert!(failure.message.contains("q2 was sent"), "{failure}");
    }

    #[test]
    fn ids_cannot_be_combined_with_options_that_select() {
        for verb in ["retry", "hold", "release", "remove"] {
            let parse = |words: &[&str]| {
                Cli::try_parse_from([&["restante", "queue", verb, "-a", "ann"], words].concat())
            };
            assert!(parse(&["q1", "q2"]).is_ok() && parse(&["--all"]).is_ok());
            for option in [
                &["--all"][..],
                &["--kind", "reply"],
                &["--state", "held"],
                &["--domain", "example.net"],
                &["--older", "2d"],
            ] {
                let error = parse(&[&["q1"], option].concat()).unwrap_err();
                assert_eq!(error.kind(), clap::error::ErrorKind::ArgumentConflict, "{option:?}");
            }
        }
    }
}
