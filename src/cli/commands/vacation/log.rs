//! The commands `vacation log`, `told`, `forget` and `report`, about decisions that were made.

use jiff::tz::TimeZone;

use super::args::{PositionalAccountArgs, VacationLogArgs, VacationReportArgs};
use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::{AccountArgs, AccountInfo, call, find_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::dates::{self, Edge};
use crate::cli::terminal::output::{self, local};
use crate::model::clock::{self, Clock as _};
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::decisions::{
    DecisionFacts, DecisionList, DecisionListArguments, FilterStepFacts, ToldForget,
    ToldForgetArguments, ToldList, ToldListArguments, ToldSender, VacationReport,
    VacationReportArguments,
};

/// Reads the date of an option, and returns the instant in the format of RFC 3339; `None` without
/// the option.
fn instant(
    option: Option<&String>,
    account: &AccountInfo,
    edge: Edge,
) -> Result<Option<String>, Failure> {
    let Some(text) = option else { return Ok(None) };
    let at = dates::parse(text, clock::SystemClock.now(), &account.zone, edge);
    at.map(|at| Some(at.rfc3339())).map_err(|error| Failure::new(exit::USAGE, error.to_string()))
}

pub(in crate::cli) async fn log(
    args: VacationLogArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(args.account.name(), context).await?;
    let (mut since, mut until) = (
        instant(args.since.as_ref(), &account, Edge::From)?,
        instant(args.until.as_ref(), &account, Edge::Until)?,
    );
    if args.away {
        let newest = DecisionListArguments { limit: Some(1), ..DecisionListArguments::default() };
        let answer = context
            .client
            .call::<DecisionList>(With(AccountRef::by_id(&account.id), newest))
            .await?;
        (since, until) = (answer.began, answer.ended);
        if since.is_none() {
            return Err(Failure::new(exit::USAGE, "there was no absence yet"));
        }
    }
    let answered = match (args.answered, args.silent) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let limit = Some(args.limit as u64);
    let arguments = DecisionListArguments {
        limit,
        since,
        until,
        answered,
        reason: args.reason,
        sender: args.sender,
    };
    let answer = context
        .client
        .call::<DecisionList>(With(AccountRef::by_id(&account.id), arguments))
        .await
        .map_err(|failure| failure.naming_option("reason", "--reason"))?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let answered = answer.list.iter().filter(|row| row.reason.is_none()).count();
    let time = |at: &str| local(at, &account.zone);
    let absence = match (&answer.began, &answer.ended) {
        (None, _) => "no absence yet".to_owned(),
        (Some(began), None) => format!("away since {}", time(began)),
        (Some(began), Some(ended)) => format!("away from {} until {}", time(began), time(ended)),
    };
    let silent = answer.list.len() - answered;
    output::line(&format!("{absence}; listed here: {answered} answered, {silent} not"));
    output::table(&LOG_HEAD, log_rows(&answer.list, &account.zone));
    Ok(())
}

pub(in crate::cli) const LOG_HEAD: [&str; 5] = ["WHEN", "SENDER", "RECIPIENT", "DECISION", "WHY"];

/// Returns a row for each decision, and one more for each step of a filter under it.
pub(in crate::cli) fn log_rows(list: &[DecisionFacts], zone: &TimeZone) -> Vec<Vec<String>> {
    let rows = |row: &DecisionFacts| {
        let sender =
            row.sender.as_deref().filter(|sender| !sender.is_empty()).unwrap_or("<>").to_owned();
        let (decision, why) = match &row.reason {
            Some(reason) => (format!("silent: {reason}"), &row.detail),
            None => ("answered".to_owned(), &row.action),
        };
        let why = output::short(why.as_deref().unwrap_or_default(), 60);
        let decision = vec![local(&row.at, zone), sender, row.recipient.clone(), decision, why];
        let steps = row.steps.iter().map(|step| {
            let mut cells = vec![String::new(); 3];
            cells.extend(["filter".to_owned(), step_text(step)]);
            cells
        });
        std::iter::once(decision).chain(steps).collect::<Vec<_>>()
    };
    list.iter().flat_map(rows).collect()
}

/// Returns what a script did, with its place, as `main, line 5: fileinto Lists`. What no script did
/// has no place.
fn step_text(step: &FilterStepFacts) -> String {
    let FilterStepFacts { script, line, action } = step;
    match (script.as_str(), line) {
        ("", _) => action.clone(),
        // An implicit keep is the action of no line.
        (script, 0) => format!("{script}: {action}"),
        (script, line) => format!("{script}, line {line}: {action}"),
    }
}

pub(in crate::cli) async fn told(
    account: &PositionalAccountArgs,
    limit: Option<usize>,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(account.name(), context).await?;
    let arguments = ToldListArguments { limit: limit.map(|limit| limit as u64) };
    let answer =
        context.client.call::<ToldList>(With(AccountRef::by_id(&account.id), arguments)).await?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let row = |row: ToldSender| {
        let by = if row.script { "a mail filter" } else { "" };
        vec![local(&row.at, &account.zone), row.sender, by.to_owned()]
    };
    output::table(&["WHEN", "SENDER", "BY"], answer.list.into_iter().map(row).collect());
    Ok(())
}

pub(in crate::cli) async fn forget(
    account: &AccountArgs,
    sender: Option<String>,
    all: bool,
    context: &CommandContext,
) -> Result<(), Failure> {
    let args = ToldForgetArguments { sender: sender.clone(), all };
    let answer = call::<ToldForget, _>(context, account, args).await?;
    if context.json {
        output::json(&answer);
    } else {
        output::line(&match (sender, answer.forgotten) {
            (Some(sender), _) => format!("{sender} forgotten: the next message is answered again"),
            (None, 0) => "there were no senders to forget".to_owned(),
            (None, 1) => "1 sender forgotten: the next message is answered again".to_owned(),
            (None, count) => format!("{count} senders forgotten: they are answered again"),
        });
    }
    Ok(())
}

pub(in crate::cli) async fn report(
    args: &VacationReportArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(args.account.name(), context).await?;
    let since = instant(args.since.as_ref(), &account, Edge::From)?;
    let until = instant(args.until.as_ref(), &account, Edge::Until)?;
    let arguments = With(AccountRef::by_id(&account.id), VacationReportArguments { since, until });
    let answer = context.client.call::<VacationReport>(arguments).await?;
    if context.json {
        output::json(&answer.facts);
    } else if args.html {
        output::raw(&answer.html);
    } else {
        output::lines(answer.text.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_filters_stand_under_their_decision() {
        let step = |script: &str, line, action: &str| FilterStepFacts {
            script: script.into(),
            line,
            action: action.into(),
        };
        let decision = DecisionFacts {
            at: "2026-11-01T10:00:00Z".into(),
            email_id: None,
            sender: None,
            recipient: "ann@example.org".into(),
            reason: Some("disabled".into()),
            detail: Some(String::new()),
            action: None,
            steps: vec![
                step("main", 5, "fileinto Lists"),
                step("main", 0, "keep"),
                step("", 0, "no notification to pager@example.com: too many in an hour"),
            ],
        };
        let rows = log_rows(&[decision], &TimeZone::UTC);
        let why: Vec<&str> = rows.iter().map(|row| row[4].as_str()).collect();
        let notice = "no notification to pager@example.com: too many in an hour";
        assert_eq!(why, ["", "main, line 5: fileinto Lists", "main: keep", notice]);
        assert!(rows.iter().all(|row| row.len() == LOG_HEAD.len()));
    }
}
