//! `queue list|show|retry|hold|release|remove|accept-loss`.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::complain;
use crate::cli::terminal::output::{self, local, short};
use crate::config::DurationValue;
use crate::model::clock::{Clock as _, SystemClock};
use crate::model::{ActionKind, ActionState, UtcMillis, limits};
use crate::wire::jmap::admin::queue::{
    QueueAcceptLoss, QueueChangeAnswer, QueueChangeArguments, QueueHold, QueueList,
    QueueListArguments, QueueRelease, QueueRemove, QueueRetry, QueueSelection, QueueShow,
    QueueShowArguments, QueueTarget, QueuedAction,
};
use crate::wire::jmap::admin::{AccountRef, EmptyArguments, VendorMethod};
use crate::wire::jmap::{With, of_octets};

/// `queue`
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// List what waits to be sent.
    List {
        /// Which of it.
        #[command(flatten)]
        which: QueueFilterArgs,
        /// At most so many.
        #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..=limits::MAX_LISTED_ROWS as u64))]
        limit: Option<u64>,
    },
    /// Show one, with what became of each recipient.
    Show {
        #[command(flatten)]
        item: ActionArgs,
        /// Print the message that is sent.
        #[arg(long)]
        message: bool,
    },
    /// Try now, before the rest: also what was held, and submissions that failed.
    Retry(QueueSelectionArgs),
    /// Do not try until it is released.
    Hold(QueueSelectionArgs),
    /// Let it be tried again.
    Release(QueueSelectionArgs),
    /// Drop it unsent, and what depends on it.
    Remove(QueueSelectionArgs),
    /// Go on with sending after something of the queue was lost, or the store was restored from a
    /// backup.
    ///
    /// The queue is taken as it is. Of a store that was restored the replies are dropped, for they
    /// may have been sent since the backup was made; all else is sent, perhaps once more, under the
    /// same Message-ID.
    AcceptLoss,
}

/// One of the queue.
#[derive(Debug, Args)]
pub struct ActionArgs {
    /// The account: its name or any of its addresses.
    #[arg(long, short, value_name = "ACCOUNT")]
    pub account: String,
    /// Its id, as `queue list` shows it.
    pub action: String,
}

/// Some of the queue.
#[derive(Debug, Args)]
pub struct QueueFilterArgs {
    /// Of this account alone: its name or any of its addresses.
    #[arg(long, short, value_name = "ACCOUNT")]
    pub account: Option<String>,
    /// Of this kind: reply, redirect, notify, reject, report or submission.
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(ActionKind::ALL.map(ActionKind::name)))]
    pub kind: Option<String>,
    /// In this state: waiting, attempting, held, blocked, failed or sent.
    #[arg(long, value_name = "STATE", value_parser = clap::builder::PossibleValuesParser::new(ActionState::ALL.map(ActionState::name)))]
    pub state: Option<String>,
    /// To a recipient of this domain.
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Option<String>,
    /// Queued so long ago or longer, such as 30m or 2d.
    #[arg(long, value_name = "AGE")]
    pub older: Option<String>,
}

/// One, or all that are meant.
#[derive(Debug, Args)]
pub struct QueueSelectionArgs {
    /// Their ids, as `queue list` shows them; with --account.
    #[arg(value_name = "ACTION", required_unless_present = "all", conflicts_with = "all")]
    pub actions: Vec<String>,
    /// All that the other words describe.
    #[arg(long)]
    pub all: bool,
    /// Which of them.
    #[command(flatten)]
    pub which: QueueFilterArgs,
}

pub(in crate::cli) async fn run(
    command: QueueCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        QueueCommand::List { which, limit } => list(&which, limit, context).await,
        QueueCommand::Show { item, message } => show(&item, message, context).await,
        QueueCommand::Retry(chosen) => change::<QueueRetry>(&chosen, "tried now", context).await,
        QueueCommand::Hold(chosen) => change::<QueueHold>(&chosen, "held", context).await,
        QueueCommand::Release(chosen) => change::<QueueRelease>(&chosen, "released", context).await,
        QueueCommand::Remove(chosen) => change::<QueueRemove>(&chosen, "removed", context).await,
        QueueCommand::AcceptLoss => {
            let answer = context.client.call::<QueueAcceptLoss>(EmptyArguments {}).await?;
            if context.json {
                output::json(&answer);
                return Ok(());
            }
            output::line(&format!("accepted: {}", answer.accepted));
            output::line(&format!("{} dropped, {} stay and are sent", answer.dropped, answer.kept));
            Ok(())
        }
    }
}

/// The account and the selection that are meant.
async fn selection(
    which: &QueueFilterArgs,
    context: &CommandContext,
) -> Result<(AccountRef, QueueSelection), Failure> {
    let named = match &which.account {
        Some(name) => AccountRef::by_id(&selected_account::find_account(name, context).await?.id),
        None => AccountRef::default(),
    };
    let queued_before = match &which.older {
        Some(age) => {
            let age: DurationValue = age
                .parse()
                .map_err(|why: String| Failure::new(exit::USAGE, format!("--older: {why}")))?;
            Some(SystemClock.now().before(age.0).rfc3339_millis())
        }
        None => None,
    };
    let (kind, state, domain) = (which.kind.clone(), which.state.clone(), which.domain.clone());
    Ok((named, QueueSelection { kind, state, domain, queued_before }))
}

async fn list(
    which: &QueueFilterArgs,
    limit: Option<u64>,
    context: &CommandContext,
) -> Result<(), Failure> {
    let (named, selection) = selection(which, context).await?;
    let args = With(named, With(selection, QueueListArguments { limit }));
    let answer = context.client.call::<QueueList>(args).await?;
    if let Some(why) = &answer.held {
        complain(&format!("nothing is sent: {why}\n`restante queue accept-loss` goes on"));
    }
    let now = SystemClock.now();
    if let Some(relay) = &answer.relay {
        let until = UtcMillis::parse_rfc3339(&relay.until).filter(|until| *until > now);
        let again =
            until.map_or_else(|| "now".into(), |until| format!("in {}", words(until.since(now))));
        let error = &relay.error;
        complain(&format!(
            "the relay is out of order, and all waits for it: {error}\nasked again {again}"
        ));
    }
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let rows = answer.list.into_iter().map(|row| {
        let next = next(&row, now);
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
        complain("there are more: name a --limit, or which");
    }
    Ok(())
}

async fn show(item: &ActionArgs, message: bool, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&item.account, context).await?;
    let args = QueueShowArguments { id: item.action.clone(), with_message: message };
    let answer =
        context.client.call::<QueueShow>(With(AccountRef::by_id(&account.id), args)).await?;
    if message {
        let octets = of_octets(answer.message.as_deref().unwrap_or_default())
            .map_err(|_| Failure::new(exit::SOFTWARE, "the service sent no octets".to_owned()))?;
        return output::octets(&octets);
    }
    if context.json {
        output::json(&answer);
        return Ok(());
    }
    /// What is shown of an action, times in the account's zone; its recipients follow in a table.
    #[derive(Serialize)]
    struct ShownAction {
        #[serde(flatten)]
        action: QueuedAction,
        next: String,
    }
    let mut action = answer.action;
    let next = next(&action, SystemClock.now());
    let recipients = std::mem::take(&mut action.recipients);
    action.created = local(&action.created, &account.zone);
    for at in [&mut action.due, &mut action.expires, &mut action.kept_until] {
        *at = at.as_deref().map(|at| local(at, &account.zone));
    }
    output::facts(&ShownAction { action, next });
    let rows = recipients
        .into_iter()
        .map(|row| vec![row.address, row.state, row.said.unwrap_or_default()]);
    output::table(&["RECIPIENT", "STATE", "SAID"], rows.collect());
    Ok(())
}

async fn change<M>(
    chosen: &QueueSelectionArgs,
    done: &str,
    context: &CommandContext,
) -> Result<(), Failure>
where
    M: VendorMethod<Args = QueueChangeArguments, Answer = QueueChangeAnswer>,
{
    let (named, selection) = selection(&chosen.which, context).await?;
    if chosen.all {
        let args = With(named, With(selection, QueueTarget { id: None, all: true }));
        let answer = context.client.call::<M>(args).await?;
        if context.json {
            output::json(&answer);
        } else {
            let left = if answer.left > 0 {
                format!("; {} left as they are", answer.left)
            } else {
                String::new()
            };
            output::line(&format!("{} {done}{left}{}", answer.changed, under_way(&answer)));
        }
        return Ok(());
    }
    if chosen.which.account.is_none() {
        return Err(Failure::new(
            exit::USAGE,
            "an id is of one account: name it with --account".to_owned(),
        ));
    }
    for id in &chosen.actions {
        let target = QueueTarget { id: Some(id.clone()), all: false };
        let answer = context
            .client
            .call::<M>(With(named.clone(), With(QueueSelection::default(), target)))
            .await?;
        output::line(&format!("{id} {done}{}", under_way(&answer)));
    }
    Ok(())
}

/// Says of how many of those that a command was about the message was on its way out.
fn under_way(answer: &QueueChangeAnswer) -> String {
    match answer.under_way {
        0 => String::new(),
        many => format!("; {many} under way, which may already have been sent"),
    }
}

/// When it is tried next, in words.
fn next(row: &QueuedAction, now: UtcMillis) -> String {
    let read = |at: &Option<String>| at.as_deref().and_then(UtcMillis::parse_rfc3339);
    match (row.state.as_str(), read(&row.due), read(&row.kept_until)) {
        ("attempting", ..) => "under way".into(),
        ("blocked", ..) => format!("after {}", row.after.as_deref().unwrap_or_default()),
        ("waiting", Some(due), _) if due <= now => "now".into(),
        ("waiting", Some(due), _) => format!("in {}", words(due.since(now))),
        ("sent", _, Some(until)) => format!("forgotten in {}", words(until.since(now))),
        _ => "never".into(),
    }
}

/// A time that lies ahead, as people say it: "12 minutes", "1 hour", "3 days".
fn words(wait: Duration) -> String {
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
    use super::*;

    #[test]
    fn the_next_attempt_is_said_in_words() {
        let now = UtcMillis::parse_rfc3339("2026-11-21T09:00:00Z").unwrap();
        let row = |state: &str, due: &str| QueuedAction {
            id: String::new(),
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
        };
        for (state, due, said) in [
            ("waiting", "2026-11-21T09:12:30Z", "in 12 minutes"),
            ("waiting", "2026-11-21T09:00:01Z", "in 1 second"),
            ("waiting", "2026-11-21T10:59:00Z", "in 1 hour"),
            ("waiting", "2026-11-21T08:00:00Z", "now"),
            ("attempting", "2026-11-21T08:00:00Z", "under way"),
            ("held", "2026-11-21T10:00:00Z", "never"),
            ("failed", "2026-11-21T10:00:00Z", "never"),
            ("blocked", "2026-11-21T10:00:00Z", "after q1"),
            ("sent", "2026-11-24T10:00:00Z", "forgotten in 3 days"),
        ] {
            assert_eq!(next(&row(state, due), now), said, "{state} {due}");
        }
    }
}
