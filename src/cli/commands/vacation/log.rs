//! `vacation log`, `told`, `forget` and `report`: what became of the mail that came.

use jiff::tz::TimeZone;

use super::args::{PositionalAccountArgs, VacationLogArgs, VacationReportArgs};
use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::selected_account::{AccountInfo, call, find_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::dates::{self, Edge};
use crate::cli::terminal::output::{self, local};
use crate::model::clock::{self, Clock as _};
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::decisions::{
    DecisionFacts, DecisionList, DecisionListArguments, ToldForget, ToldForgetArguments, ToldList,
    ToldListArguments, ToldSender, VacationReport, VacationReportArguments,
};

/// An instant that is asked for, as the service reads it.
fn instant(
    given: Option<&String>,
    account: &AccountInfo,
    edge: Edge,
) -> Result<Option<String>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let at = dates::parse(given, clock::SystemClock.now(), &account.zone, edge);
    at.map(|at| Some(at.rfc3339())).map_err(|bad| Failure::new(exit::USAGE, bad.to_string()))
}

pub(in crate::cli) async fn log(
    args: VacationLogArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(args.whose.name(), context).await?;
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
    let wanted = DecisionListArguments {
        limit,
        since,
        until,
        answered,
        reason: args.reason,
        sender: args.sender,
    };
    let answer =
        context.client.call::<DecisionList>(With(AccountRef::by_id(&account.id), wanted)).await?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let answered = answer.list.iter().filter(|row| row.reason.is_none()).count();
    let when = |at: &str| local(at, &account.zone);
    let span = match (&answer.began, &answer.ended) {
        (None, _) => "never away yet".to_owned(),
        (Some(began), None) => format!("away since {}", when(began)),
        (Some(began), Some(ended)) => format!("away from {} until {}", when(began), when(ended)),
    };
    output::line(&format!(
        "{span}; listed here: {answered} answered, {} not",
        answer.list.len() - answered
    ));
    output::table(&LOG_HEAD, log_rows(&answer.list, &account.zone));
    Ok(())
}

/// Head of the decision log.
pub(in crate::cli) const LOG_HEAD: [&str; 5] = ["WHEN", "SENDER", "RECIPIENT", "DECISION", "WHY"];

/// Rows of the decision log.
pub(in crate::cli) fn log_rows(list: &[DecisionFacts], zone: &TimeZone) -> Vec<Vec<String>> {
    let row = |row: &DecisionFacts| {
        let sender =
            row.sender.as_deref().filter(|sender| !sender.is_empty()).unwrap_or("<>").to_owned();
        let (decision, why) = match &row.reason {
            Some(reason) => (format!("silent: {reason}"), &row.detail),
            None => ("answered".to_owned(), &row.action),
        };
        let why = output::short(why.as_deref().unwrap_or_default(), 60);
        vec![local(&row.at, zone), sender, row.recipient.clone(), decision, why]
    };
    list.iter().map(row).collect()
}

pub(in crate::cli) async fn told(
    whose: &PositionalAccountArgs,
    limit: Option<usize>,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(whose.name(), context).await?;
    let wanted = ToldListArguments { limit: limit.map(|limit| limit as u64) };
    let answer =
        context.client.call::<ToldList>(With(AccountRef::by_id(&account.id), wanted)).await?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    let row = |row: ToldSender| {
        let by = if row.script { "a script" } else { "" };
        vec![local(&row.at, &account.zone), row.sender, by.to_owned()]
    };
    output::table(&["WHEN", "SENDER", "BY"], answer.list.into_iter().map(row).collect());
    Ok(())
}

pub(in crate::cli) async fn forget(
    whose: &AccountArgs,
    sender: Option<String>,
    all: bool,
    context: &CommandContext,
) -> Result<(), Failure> {
    let args = ToldForgetArguments { sender: sender.clone(), all };
    let answer = call::<ToldForget, _>(context, whose, args).await?;
    if context.json {
        output::json(&answer);
    } else {
        let who = sender.unwrap_or_else(|| answer.forgotten.to_string());
        output::line(&format!("{who} forgotten: answered anew with the next message"));
    }
    Ok(())
}

pub(in crate::cli) async fn report(
    args: &VacationReportArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = find_account(args.whose.name(), context).await?;
    let since = instant(args.since.as_ref(), &account, Edge::From)?;
    let until = instant(args.until.as_ref(), &account, Edge::Until)?;
    let wanted = With(AccountRef::by_id(&account.id), VacationReportArguments { since, until });
    let answer = context.client.call::<VacationReport>(wanted).await?;
    if context.json {
        output::json(&answer.facts);
    } else {
        output::raw(if args.html { &answer.html } else { &answer.text });
    }
    Ok(())
}
