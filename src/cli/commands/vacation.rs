//! `vacation set|text|show|off|log|report|told|forget|test`.

pub(in crate::cli) mod args;
mod log;
mod set;

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::selected_account::{call, find_account};
use crate::cli::control::{CommandContext, methods};
use crate::cli::exit::Failure;
use crate::cli::terminal::input::{read, with_crlf};
use crate::cli::terminal::output::{self, text, when};
use crate::wire::jmap::admin::decisions::{VacationTest, VacationTestAnswer, VacationTestArguments};
use crate::wire::jmap::octets;
use args::VacationCommand;
pub(in crate::cli) use log::{LOG_HEAD, log_rows};

pub(in crate::cli) async fn run(command: VacationCommand, context: &CommandContext) -> Result<(), Failure> {
    match command {
        VacationCommand::Set(args) => set::set(*args, context).await,
        VacationCommand::Text(args) => set::text(*args, context).await,
        VacationCommand::Show(whose) => show(whose.name(), context).await,
        VacationCommand::Off(whose) => {
            let account = find_account(whose.name(), context).await?;
            update(context, &account.id, json!({"isEnabled": false})).await?;
            output::line("vacation off");
            Ok(())
        }
        VacationCommand::Log(args) => log::log(*args, context).await,
        VacationCommand::Report(args) => log::report(&args, context).await,
        VacationCommand::Told { whose, limit } => log::told(&whose, limit, context).await,
        VacationCommand::Forget { whose, sender, all } => log::forget(&whose, sender, all, context).await,
        VacationCommand::Test { whose, file, sender } => test(&whose, &file, sender.as_deref(), context).await,
    }
}

/// Changes the response of an account.
pub(in crate::cli) async fn update(context: &CommandContext, account: &str, patch: Value) -> Result<(), Failure> {
    change(context, json!({"accountId": account, "update": {"singleton": patch}})).await
}

async fn change(context: &CommandContext, arguments: Value) -> Result<(), Failure> {
    let answer = context.client.call_by_name(methods::VACATION_SET, arguments).await?;
    let refused = &answer["notUpdated"]["singleton"];
    if refused.is_object() {
        let properties: Vec<String> = refused["properties"].as_array().into_iter().flatten().map(text).collect();
        let mut description = text(&refused["description"]);
        if !properties.is_empty() {
            description = format!("{}: {description}", properties.join(", "));
        }
        return Err(Failure::of_method(&text(&refused["type"]), &description));
    }
    Ok(())
}

/// Shows the response of the account of that name.
pub(in crate::cli) async fn show(name: &str, context: &CommandContext) -> Result<(), Failure> {
    let account = find_account(name, context).await?;
    let answer =
        context.client.call_by_name(methods::VACATION_GET, json!({"accountId": account.id, "ids": null})).await?;
    let response = &answer["list"][0];
    if context.json {
        output::json(response);
        return Ok(());
    }
    let on = response["isEnabled"] == true;
    output::line(&format!("vacation of {}: {}", account.name, if on { "on" } else { "off" }));
    let zone = account.zone.iana_name().unwrap_or("local time");
    let chosen = |value: &Value, usual: &str| if value == usual { String::new() } else { text(value) };
    let yes = |value: &Value, what: &str| if value == true { what.to_owned() } else { String::new() };
    for (label, value) in [
        ("from", with_zone(&when(&response["fromDate"], &account.zone), zone)),
        ("until", with_zone(&when(&response["toDate"], &account.zone), zone)),
        ("only on", list(&response["days"])),
        ("answers", chosen(&response["audience"], "everyone")),
        ("organisation", list(&response["organisation"])),
        ("From", address(&response["from"])),
        ("Reply-To", address(&response["replyTo"])),
        ("also for", list(&response["addresses"])),
        ("never to", list(&response["except"])),
        ("copies", yes(&response["copies"], "in Sent")),
        ("report", yes(&response["report"], "into the Inbox when it is over")),
    ] {
        show_line("  ", label, &value);
    }
    show_words("  ", response);
    for variant in response["variants"].as_array().into_iter().flatten() {
        let to = variant["circle"].as_str().map_or("everybody", |circle| circle);
        output::line(&format!("  to {to}:"));
        show_words("    ", variant);
    }
    Ok(())
}

fn show_words(indent: &str, words: &Value) {
    for (label, key) in [("language", "language"), ("subject", "subject"), ("text", "textBody"), ("html", "htmlBody")] {
        show_line(indent, label, &text(&words[key]));
    }
}

fn show_line(indent: &str, label: &str, value: &str) {
    if !value.is_empty() {
        let below = format!("\n{indent}      ");
        output::line(&format!("{indent}{label}: {}", value.trim_end().replace('\n', &below)));
    }
}

fn with_zone(when: &str, zone: &str) -> String {
    if when.is_empty() { String::new() } else { format!("{when} ({zone})") }
}

fn list(value: &Value) -> String {
    value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ")
}

fn address(value: &Value) -> String {
    match (value["name"].as_str(), value["email"].as_str()) {
        (Some(name), Some(email)) => format!("{name} <{email}>"),
        (None, Some(email)) => email.to_owned(),
        _ => String::new(),
    }
}

async fn test(whose: &AccountArgs, file: &Path, sender: Option<&str>, context: &CommandContext) -> Result<(), Failure> {
    let message = read(file)?;
    let args = VacationTestArguments { message: octets(&with_crlf(&message)), sender: sender.map(str::to_owned) };
    let answer = call::<VacationTest, _>(context, whose, args).await?;
    if context.json {
        output::json(&answer);
        return Ok(());
    }
    match answer {
        VacationTestAnswer::Silent { reason, detail } => output::line(&format!("silent: {reason} ({detail})")),
        VacationTestAnswer::Reply { recipient, reply, .. } => {
            output::line(&format!("would be answered, to {recipient}:\n"));
            output::line(&reply);
        }
    }
    Ok(())
}
