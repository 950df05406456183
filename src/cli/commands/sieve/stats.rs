//! The command `sieve stats`.

use clap::Args;
use jiff::tz::TimeZone;

use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::Failure;
use crate::cli::terminal::output::{self, local, short};
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::sieve_stats::{ScriptStatistics, SieveStats, SieveStatsArguments};

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// The account: its name or any of its addresses; "" is the account of your Unix user.
    pub account: String,
    /// The script. Default: all scripts of the account.
    pub name: Option<String>,
}

pub(super) async fn run(args: StatsArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = selected_account::find_account(&args.account, context).await?;
    let arguments = SieveStatsArguments { name: args.name };
    let answer =
        context.client.call::<SieveStats>(With(AccountRef::by_id(&account.id), arguments)).await?;
    if context.json {
        output::json(&answer.list);
        return Ok(());
    }
    if answer.list.is_empty() {
        output::line("The account has no scripts.");
    }
    for script in &answer.list {
        output::line(&heading(script, &account.zone));
        if !script.rules.is_empty() {
            output::table(&["LINE", "HITS", "LAST", "NAME", "RULE"], rows(script, &account.zone));
        }
    }
    Ok(())
}

fn heading(script: &ScriptStatistics, zone: &TimeZone) -> String {
    let active = if script.is_active { ", active" } else { "" };
    let rules = match (script.is_valid, script.rules.len()) {
        (false, _) => "it has errors: no rule can fire".to_owned(),
        (true, 0) => "no rules".to_owned(),
        (true, 1) => "1 rule".to_owned(),
        (true, count) => format!("{count} rules"),
    };
    format!("{}{active}, stored {}: {rules}", script.name, local(&script.since, zone))
}

fn rows(script: &ScriptStatistics, zone: &TimeZone) -> Vec<Vec<String>> {
    let row = |rule: &crate::wire::jmap::admin::sieve_stats::RuleStatistics| {
        let last = rule.last.as_deref().map(|at| local(at, zone));
        vec![
            rule.line.to_string(),
            rule.hits.to_string(),
            last.unwrap_or_else(|| "never".to_owned()),
            short(rule.name.as_deref().unwrap_or_default(), 32),
            short(&rule.text, 60),
        ]
    };
    script.rules.iter().map(row).collect()
}
