//! The command `sieve list`.

use clap::Args;
use jiff::tz::TimeZone;

use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::find_account;
use crate::cli::exit::Failure;
use crate::cli::terminal::output::{self, local};
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::sieve::{ScriptErrorFacts, SieveList, SieveListAnswer};

#[derive(Debug, Args)]
pub struct ListArgs {
    /// The account: its name or any of its addresses; "" is the account of your Unix user.
    pub account: String,
    /// List the last failed runs, up to 50 of them, newest first, in place of the scripts.
    ///
    /// A message whose run failed was kept. Redirects that were left out because of a loop and
    /// mailboxes that could not be created are listed, too, and what went wrong in scripts of the
    /// site.
    #[arg(long)]
    pub errors: bool,
}

pub(super) async fn run(args: ListArgs, context: &CommandContext) -> Result<(), Failure> {
    let account = find_account(&args.account, context).await?;
    let answer = context.client.call::<SieveList>(AccountRef::by_id(&account.id)).await?;
    match (context.json, args.errors) {
        (true, true) => output::json(&answer.errors),
        (true, false) => output::json(&answer.list),
        (false, true) => {
            let rows = answer.errors.iter().map(|error| error_row(error, &account.zone));
            output::table(&["WHEN", "EMAIL", "SCRIPT", "LINE", "ERROR"], rows.collect());
        }
        (false, false) => {
            let head = ["NAME", "ACTIVE", "SIZE", "STORED", "LAST ERROR"];
            output::table(&head, script_rows(&answer, &account.zone));
            let listed = |name: &str| answer.list.iter().any(|script| script.name == name);
            let others = answer.errors.iter().filter(|error| !listed(&error.script)).count();
            if others > 0 {
                let text = "errors of other scripts, such as those of the site: see --errors";
                output::line(&format!("{others} {text}"));
            }
        }
    }
    Ok(())
}

fn script_rows(answer: &SieveListAnswer, zone: &TimeZone) -> Vec<Vec<String>> {
    let rows = answer.list.iter().map(|script| {
        let last = answer.errors.iter().find(|error| error.script == script.name);
        vec![
            script.name.clone(),
            if script.is_active { "yes" } else { "" }.to_owned(),
            output::size(script.size),
            local(&script.stored, zone),
            last.map(|error| last_error(error, zone)).unwrap_or_default(),
        ]
    });
    rows.collect()
}

fn last_error(error: &ScriptErrorFacts, zone: &TimeZone) -> String {
    let line = if error.line == 0 { String::new() } else { format!("line {}: ", error.line) };
    output::short(&format!("{} {line}{}", local(&error.at, zone), error.message), 100)
}

fn error_row(error: &ScriptErrorFacts, zone: &TimeZone) -> Vec<String> {
    let line = if error.line == 0 { String::new() } else { error.line.to_string() };
    vec![
        local(&error.at, zone),
        error.email_id.clone().unwrap_or_default(),
        error.script.clone(),
        line,
        error.message.clone(),
    ]
}
