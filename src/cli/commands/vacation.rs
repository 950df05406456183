//! The command `vacation`, with `vacation show`, `off` and `test`.

pub(in crate::cli) mod args;
mod log;
mod set;

use std::path::Path;

use crate::cli::control::CommandContext;
use crate::cli::control::selected_account::{AccountArgs, call, find_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::dates;
use crate::cli::terminal::input::{read, with_crlf};
use crate::cli::terminal::output::{self, local};
use crate::wire::jmap::admin::decisions::{
    VacationTest, VacationTestAnswer, VacationTestArguments,
};
use crate::wire::jmap::admin::mail::NamedAddress;
use crate::wire::jmap::admin::vacation::{
    SINGLETON, VacationFacts, VacationGet, VacationGetArguments, VacationSet, VacationSetArguments,
};
use crate::wire::jmap::admin::{AccountRef, ObjectError};
use crate::wire::jmap::{With, to_base64};
use args::VacationCommand;
pub(in crate::cli) use log::{LOG_HEAD, log_rows};

pub(in crate::cli) async fn run(
    command: VacationCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        VacationCommand::Set(args) => set::set(*args, context).await,
        VacationCommand::Text(args) => set::text(*args, context).await,
        VacationCommand::Show(account) => show(account.name(), context).await,
        VacationCommand::Off(selected) => {
            let account = find_account(selected.name(), context).await?;
            let off = VacationFacts { is_enabled: Some(false), ..VacationFacts::default() };
            update(context, &account.id, &off).await?;
            if context.json {
                return show(selected.name(), context).await;
            }
            output::line("vacation off");
            Ok(())
        }
        VacationCommand::Log(args) => log::log(*args, context).await,
        VacationCommand::Report(args) => log::report(&args, context).await,
        VacationCommand::Told { account, limit } => log::told(&account, limit, context).await,
        VacationCommand::Forget { account, sender, all } => {
            log::forget(&account, sender, all, context).await
        }
        VacationCommand::Test { account, file, sender } => {
            test(&account, &file, sender.as_deref(), context).await
        }
    }
}

/// Changes the properties that `changes` has; those that are `None` stay as they are.
pub(in crate::cli) async fn update(
    context: &CommandContext,
    account: &str,
    changes: &VacationFacts,
) -> Result<(), Failure> {
    change(context, account, set_arguments(changes)?).await
}

fn set_arguments(changes: &VacationFacts) -> Result<VacationSetArguments, Failure> {
    VacationSetArguments::update(changes)
        .map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))
}

/// Changes the response. If the service refuses that, the failure names the options instead of the
/// properties.
async fn change(
    context: &CommandContext,
    account: &str,
    args: VacationSetArguments,
) -> Result<(), Failure> {
    let answer = context.client.call::<VacationSet>(With(AccountRef::by_id(account), args)).await?;
    let Some(refused) = answer.not_updated.and_then(|mut all| all.remove(SINGLETON)) else {
        return Ok(());
    };
    let ObjectError { kind, description, properties } = ObjectError::read(refused);
    let mut description = description.unwrap_or_default();
    if let Some(first) = properties.first() {
        let text = description.strip_prefix(&format!("{first}: ")).unwrap_or(&description);
        let options: Vec<&str> = properties.iter().map(|property| option_for(property)).collect();
        description = format!("{}: {text}", options.join(", "));
    }
    Err(Failure::from_jmap_error(&kind, &description))
}

/// Returns the option that sets a property (of `variants`: "the texts"), or else the property.
fn option_for(property: &str) -> &str {
    match property {
        "fromDate" => "--from",
        "toDate" => "--until",
        "days" => "--on",
        "subject" => "--subject",
        "textBody" => "--text",
        "htmlBody" => "--html-file",
        "from" => "--sender-address",
        "replyTo" => "--reply-to",
        "addresses" => "--address",
        "except" => "--except",
        "audience" => "--audience",
        "organisation" => "--organisation",
        "language" => "--language",
        "variants" => "the texts",
        other => other,
    }
}

pub(in crate::cli) async fn show(name: &str, context: &CommandContext) -> Result<(), Failure> {
    let account = find_account(name, context).await?;
    let args = With(AccountRef::by_id(&account.id), VacationGetArguments::default());
    let answer = context.client.call::<VacationGet>(args).await?;
    let response = answer.list.into_iter().next().unwrap_or_default();
    if context.json {
        output::json(&response);
        return Ok(());
    }
    let state = if response.is_enabled == Some(true) { "on" } else { "off" };
    output::line(&format!("vacation of {}: {state}", account.name));
    let zone = account.zone.iana_name().unwrap_or("local time");
    let time = |at: Option<String>| at.map(|at| local(&at, &account.zone)).unwrap_or_default();
    let until = response.to_date.flatten().map(|at| {
        let last_day = dates::last_day(&at, &account.zone);
        last_day.map_or_else(|| with_zone(&time(Some(at)), zone), |day| format!("{day} (included)"))
    });
    let list = |all: Option<Vec<String>>| all.unwrap_or_default().join(", ");
    let if_set = |set: Option<bool>, text: &str| {
        if set == Some(true) { text.to_owned() } else { String::new() }
    };
    let audience = response.audience.filter(|audience| audience != "everyone");
    for (label, value) in [
        ("from", with_zone(&time(response.from_date.flatten()), zone)),
        ("until", until.unwrap_or_default()),
        ("only on", list(response.days)),
        ("answers", audience.unwrap_or_default()),
        ("organisation", list(response.organisation)),
        ("From", response.from.flatten().map(address).unwrap_or_default()),
        ("Reply-To", response.reply_to.flatten().map(address).unwrap_or_default()),
        ("also for", list(response.addresses)),
        ("never to", list(response.except)),
        ("copies", if_set(response.copies, "in Sent")),
        ("report", if_set(response.report, "into the Inbox at the end")),
    ] {
        show_line("  ", label, &value);
    }
    let text = [response.language, response.subject, response.text_body, response.html_body];
    show_text("  ", text.map(Option::flatten));
    for variant in response.variants.unwrap_or_default() {
        output::line(&format!("  to {}:", variant.circle.as_deref().unwrap_or("everybody")));
        let text = [variant.language, variant.subject, variant.text_body, variant.html_body];
        show_text("    ", text);
    }
    Ok(())
}

/// Writes language, subject, text and HTML, which `text` has in this order.
fn show_text(indent: &str, text: [Option<String>; 4]) {
    for (label, value) in ["language", "subject", "text", "html"].into_iter().zip(text) {
        show_line(indent, label, &value.unwrap_or_default());
    }
}

/// Writes a value after its label, with its further lines indented; nothing for an empty value.
fn show_line(indent: &str, label: &str, value: &str) {
    if !value.is_empty() {
        let line_break = format!("\n{indent}      ");
        let value = value.trim_end().replace('\n', &line_break);
        output::lines(&format!("{indent}{label}: {value}"));
    }
}

fn with_zone(time: &str, zone: &str) -> String {
    if time.is_empty() { String::new() } else { format!("{time} ({zone})") }
}

fn address(person: NamedAddress) -> String {
    match person.name {
        Some(name) => format!("{name} <{}>", person.email),
        None => person.email,
    }
}

async fn test(
    account: &AccountArgs,
    file: &Path,
    sender: Option<&str>,
    context: &CommandContext,
) -> Result<(), Failure> {
    let message = read(file)?;
    let args = VacationTestArguments {
        message: to_base64(&with_crlf(&message)),
        sender: sender.map(str::to_owned),
    };
    let answer = call::<VacationTest, _>(context, account, args).await?;
    if context.json {
        output::json(&answer);
        return Ok(());
    }
    match answer {
        VacationTestAnswer::Silent { reason, detail } if detail.is_empty() => {
            output::line(&format!("silent: {reason}"));
        }
        VacationTestAnswer::Silent { reason, detail } => {
            output::line(&format!("silent: {reason} ({detail})"));
        }
        VacationTestAnswer::Reply { recipient, reply, .. } => {
            output::line(&format!("would be answered; the reply goes to {recipient}:"));
            output::lines(&format!("\n{reply}"));
        }
    }
    Ok(())
}
