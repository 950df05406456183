//! `vacation log`, `told`, `forget` and `report`: what became of the mail that came.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::args::{PositionalAccountArgs, VacationLogArgs, VacationReportArgs};
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::selected_account::{AccountInfo, call_by_name, find_account};
use crate::cli::control::{CommandContext, methods};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::dates::{self, Edge};
use crate::cli::terminal::output::{self, text, when};
use crate::model::clock::{self, Clock as _};

/// An instant that is asked for, as the service reads it.
fn instant(given: Option<&String>, account: &AccountInfo, edge: Edge) -> Result<Value, Failure> {
    let Some(given) = given else { return Ok(Value::Null) };
    let at = dates::parse(given, clock::SystemClock.now(), &account.zone, edge);
    at.map(|at| at.rfc3339().into()).map_err(|bad| Failure::new(exit::USAGE, bad.to_string()))
}

pub(in crate::cli) async fn log(args: VacationLogArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = find_account(args.whose.name(), context).await?;
    let (mut since, mut until) =
        (instant(args.since.as_ref(), &account, Edge::From)?, instant(args.until.as_ref(), &account, Edge::Until)?);
    if args.away {
        let answer =
            context.client.call_by_name(methods::VACATION_LOG, json!({"accountId": account.id, "limit": 1})).await?;
        (since, until) = (answer["began"].clone(), answer["ended"].clone());
        if since.is_null() {
            return Err(Failure::new(exit::USAGE, "there was no absence yet"));
        }
    }
    let answered = match (args.answered, args.silent) {
        (true, _) => Value::Bool(true),
        (_, true) => Value::Bool(false),
        _ => Value::Null,
    };
    let arguments = json!({
        "accountId": account.id, "limit": args.limit, "since": since, "until": until, "answered": answered,
        "reason": args.reason, "sender": args.sender,
    });
    let answer = context.client.call_by_name(methods::VACATION_LOG, arguments).await?;
    if context.json {
        output::json(&answer["list"]);
        return Ok(());
    }
    let rows = answer["list"].as_array().map_or(&[][..], Vec::as_slice);
    let answered = rows.iter().filter(|row| row["reason"].is_null()).count();
    let span = match (&answer["began"], &answer["ended"]) {
        (Value::Null, _) => "never away yet".to_owned(),
        (began, Value::Null) => format!("away since {}", when(began, &account.zone)),
        (began, ended) => format!("away from {} until {}", when(began, &account.zone), when(ended, &account.zone)),
    };
    output::line(&format!("{span}; listed here: {answered} answered, {} not", rows.len() - answered));
    output::table(&LOG_HEAD, log_rows(&answer["list"], &account.zone));
    Ok(())
}

/// Head of the decision log.
pub(in crate::cli) const LOG_HEAD: [&str; 5] = ["WHEN", "SENDER", "RECIPIENT", "DECISION", "WHY"];

/// Rows of the decision log.
pub(in crate::cli) fn log_rows(list: &Value, zone: &TimeZone) -> Vec<Vec<String>> {
    let row = |row: &Value| {
        let sender = row["sender"].as_str().filter(|sender| !sender.is_empty()).unwrap_or("<>").to_owned();
        let (decision, why) = match row["reason"].as_str() {
            Some(reason) => (format!("silent: {reason}"), text(&row["detail"])),
            None => ("answered".to_owned(), text(&row["action"])),
        };
        vec![when(&row["at"], zone), sender, text(&row["recipient"]), decision, output::short(&why, 60)]
    };
    list.as_array().into_iter().flatten().map(row).collect()
}

pub(in crate::cli) async fn told(
    whose: &PositionalAccountArgs,
    limit: Option<usize>,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(whose.name(), context).await?;
    let answer =
        context.client.call_by_name(methods::TOLD_LIST, json!({"accountId": account.id, "limit": limit})).await?;
    if context.json {
        output::json(&answer["list"]);
        return Ok(());
    }
    let row = |row: &Value| {
        let by = if row["script"] == true { "a script" } else { "" };
        vec![when(&row["at"], &account.zone), text(&row["sender"]), by.to_owned()]
    };
    output::table(&["WHEN", "SENDER", "BY"], answer["list"].as_array().into_iter().flatten().map(row).collect());
    Ok(())
}

pub(in crate::cli) async fn forget(
    whose: &AccountArgs,
    sender: Option<String>,
    all: bool,
    context: &CommandContext,
) -> Result<(), Failure> {
    let answer = call_by_name(context, whose, methods::TOLD_FORGET, json!({"sender": sender, "all": all})).await?;
    if context.json {
        output::json(&answer);
    } else {
        output::line(&format!(
            "{} forgotten: answered anew with the next message",
            sender.unwrap_or_else(|| text(&answer["forgotten"]))
        ));
    }
    Ok(())
}

pub(in crate::cli) async fn report(args: &VacationReportArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = find_account(args.whose.name(), context).await?;
    let since = instant(args.since.as_ref(), &account, Edge::From)?;
    let until = instant(args.until.as_ref(), &account, Edge::Until)?;
    let arguments = json!({"accountId": account.id, "since": since, "until": until});
    let answer = context.client.call_by_name(methods::VACATION_REPORT, arguments).await?;
    if context.json {
        let mut answer = answer;
        if let Some(members) = answer.as_object_mut() {
            members.remove("text");
            members.remove("html");
        }
        output::json(&answer);
    } else {
        output::raw(&text(&answer[if args.html { "html" } else { "text" }]));
    }
    Ok(())
}
