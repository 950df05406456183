//! `queue list|show|retry|hold|release|remove|accept-loss`.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::cli::control::{CommandContext, methods, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::complain;
use crate::cli::terminal::output::{self, short, text, when};
use crate::config::DurationValue;
use crate::model::clock::{Clock as _, SystemClock};
use crate::model::{ActionKind, ActionState, UtcMillis, limits};
use crate::wire::jmap::of_octets;

/// `queue`
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// List what waits to be sent.
    List {
        /// Which of it.
        #[command(flatten)]
        which: QueueFilterArgs,
        /// At most so many.
        #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..=limits::LISTED as u64))]
        limit: Option<u64>,
    },
    /// Show one, with what became of each recipient.
    Show {
        /// Which.
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
    /// Go on with sending after something of the queue was lost, or the store was restored from a backup.
    ///
    /// The queue is taken as it is. Of a store that was restored the replies are dropped, for they may have been sent since
    /// the backup was made; all else is sent, perhaps once more, under the same Message-ID.
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

pub(in crate::cli) async fn run(command: QueueCommand, context: &CommandContext) -> Result<(), Failure> {
    match command {
        QueueCommand::List { which, limit } => list(&which, limit, context).await,
        QueueCommand::Show { item, message } => show(&item, message, context).await,
        QueueCommand::Retry(chosen) => change(methods::QUEUE_RETRY, &chosen, "tried now", context).await,
        QueueCommand::Hold(chosen) => change(methods::QUEUE_HOLD, &chosen, "held", context).await,
        QueueCommand::Release(chosen) => change(methods::QUEUE_RELEASE, &chosen, "released", context).await,
        QueueCommand::Remove(chosen) => change(methods::QUEUE_REMOVE, &chosen, "removed", context).await,
        QueueCommand::AcceptLoss => {
            let answer = context.client.call(methods::QUEUE_ACCEPT, json!({})).await?;
            if context.json {
                output::json(&answer);
                return Ok(());
            }
            let (dropped, kept) = (text(&answer["dropped"]), text(&answer["kept"]));
            output::line(&format!("accepted: {}", text(&answer["accepted"])));
            output::line(&format!("{dropped} dropped, {kept} stay and are sent"));
            Ok(())
        }
    }
}

/// The arguments that say which are meant, and the zone in which times are shown.
async fn arguments(
    which: &QueueFilterArgs,
    context: &CommandContext,
) -> Result<(Map<String, Value>, TimeZone), Failure> {
    let mut arguments = Map::new();
    let mut zone = TimeZone::system();
    if let Some(name) = &which.account {
        let account = selected_account::find_account(name, context).await?;
        arguments.insert("accountId".into(), account.id.into());
        zone = account.zone;
    }
    for (name, value) in [("kind", &which.kind), ("state", &which.state), ("domain", &which.domain)] {
        if let Some(value) = value {
            arguments.insert(name.into(), value.as_str().into());
        }
    }
    if let Some(age) = &which.older {
        let age: DurationValue =
            age.parse().map_err(|why: String| Failure::new(exit::USAGE, format!("--older: {why}")))?;
        arguments.insert("queuedBefore".into(), SystemClock.now().before(age.0).rfc3339_millis().into());
    }
    Ok((arguments, zone))
}

async fn list(which: &QueueFilterArgs, limit: Option<u64>, context: &CommandContext) -> Result<(), Failure> {
    let (mut arguments, _) = arguments(which, context).await?;
    arguments.insert("limit".into(), limit.into());
    let answer = context.client.call(methods::QUEUE_LIST, arguments.into()).await?;
    if let Some(why) = answer["held"].as_str() {
        complain(&format!("nothing is sent: {why}\n`restante queue accept-loss` goes on"));
    }
    let now = SystemClock.now();
    if let Some(error) = answer["relay"]["error"].as_str() {
        let until = answer["relay"]["until"].as_str().and_then(UtcMillis::parse_rfc3339).filter(|until| *until > now);
        let again = until.map_or_else(|| "now".into(), |until| format!("in {}", words(until.since(now))));
        complain(&format!("the relay is out of order, and all waits for it: {error}\nasked again {again}"));
    }
    if context.json {
        output::json(&answer["list"]);
        return Ok(());
    }
    let rows = answer["list"].as_array().into_iter().flatten().map(|row| {
        vec![
            text(&row["id"]),
            text(&row["account"]),
            text(&row["kind"]),
            text(&row["state"]),
            text(&row["recipient"]),
            next(row, now),
            text(&row["attempts"]),
            short(&text(&row["lastError"]), 60),
        ]
    });
    output::table(&["ID", "ACCOUNT", "KIND", "STATE", "TO", "NEXT", "TRIED", "LAST ERROR"], rows.collect());
    if answer["more"] == true {
        complain("there are more: name a --limit, or which");
    }
    Ok(())
}

async fn show(item: &ActionArgs, message: bool, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&item.account, context).await?;
    let arguments = json!({"accountId": account.id, "id": item.action, "withMessage": message});
    let mut answer = context.client.call(methods::QUEUE_SHOW, arguments).await?;
    if message {
        let octets = of_octets(answer["message"].as_str().unwrap_or_default())
            .map_err(|_| Failure::new(exit::SOFTWARE, "the service sent no octets".to_owned()))?;
        return output::octets(&octets);
    }
    if context.json {
        output::json(&answer);
        return Ok(());
    }
    let recipients = answer["recipients"].take();
    let next = next(&answer, SystemClock.now());
    if let Some(object) = answer.as_object_mut() {
        for name in ["created", "due", "expires", "keptUntil"] {
            if let Some(at) = object.get_mut(name).filter(|at| !at.is_null()) {
                *at = when(at, &account.zone).into();
            }
        }
        object.remove("recipients");
        object.insert("next".into(), next.into());
    }
    output::facts(&answer);
    let rows = recipients.as_array().into_iter().flatten();
    let rows = rows.map(|row| vec![text(&row["address"]), text(&row["state"]), text(&row["said"])]).collect();
    output::table(&["RECIPIENT", "STATE", "SAID"], rows);
    Ok(())
}

async fn change(
    method: &str,
    chosen: &QueueSelectionArgs,
    done: &str,
    context: &CommandContext,
) -> Result<(), Failure> {
    let (base, _) = arguments(&chosen.which, context).await?;
    if chosen.all {
        let mut arguments = base;
        arguments.insert("all".into(), true.into());
        let answer = context.client.call(method, arguments.into()).await?;
        if context.json {
            output::json(&answer);
        } else {
            let left = answer["left"].as_u64().filter(|left| *left > 0);
            let left = left.map_or_else(String::new, |left| format!("; {left} left as they are"));
            output::line(&format!("{} {done}{left}{}", text(&answer["changed"]), under_way(&answer)));
        }
        return Ok(());
    }
    if chosen.which.account.is_none() {
        return Err(Failure::new(exit::USAGE, "an id is of one account: name it with --account".to_owned()));
    }
    for id in &chosen.actions {
        let arguments = json!({"accountId": base.get("accountId"), "id": id});
        let answer = context.client.call(method, arguments).await?;
        output::line(&format!("{id} {done}{}", under_way(&answer)));
    }
    Ok(())
}

/// Says of how many of those that a command was about the message was on its way out.
fn under_way(answer: &Value) -> String {
    match answer["underWay"].as_u64() {
        None | Some(0) => String::new(),
        Some(many) => format!("; {many} under way, which may already have been sent"),
    }
}

/// When it is tried next, in words.
fn next(row: &Value, now: UtcMillis) -> String {
    let at = |name: &str| row[name].as_str().and_then(UtcMillis::parse_rfc3339);
    match (row["state"].as_str(), at("due"), at("keptUntil")) {
        (Some("attempting"), ..) => "under way".into(),
        (Some("blocked"), ..) => format!("after {}", text(&row["after"])),
        (Some("waiting"), Some(due), _) if due <= now => "now".into(),
        (Some("waiting"), Some(due), _) => format!("in {}", words(due.since(now))),
        (Some("sent"), _, Some(until)) => format!("forgotten in {}", words(until.since(now))),
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
        let row = |state: &str, due: &str| json!({"state": state, "due": due, "keptUntil": due, "after": "q1"});
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
