//! `vacation set|show|off|log|told|forget|test`.

use std::path::Path;

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::args::{VacationCommand, VacationSet, Whose};
use super::dates::{self, Edge};
use super::input::{read, read_text, with_crlf};
use super::output::{self, text, when};
use super::whose::account;
use super::{Context, Failure, complain, exit, methods};
use crate::model::clock::{self, Clock as _};
use crate::wire::jmap::octets;

pub(super) async fn run(command: VacationCommand, context: &Context) -> Result<(), Failure> {
    match command {
        VacationCommand::Set(args) => set(*args, context).await,
        VacationCommand::Show(whose) => show(&whose.account, context).await,
        VacationCommand::Off(whose) => {
            let account = account(&whose.account, context).await?;
            update(context, &account.id, json!({"isEnabled": false})).await?;
            output::line("vacation off");
            Ok(())
        }
        VacationCommand::Log { whose, limit } => log(&whose, limit, context).await,
        VacationCommand::Told { whose, limit } => told(&whose, limit, context).await,
        VacationCommand::Forget { whose, sender, all } => forget(&whose, sender, all, context).await,
        VacationCommand::Test { whose, file, sender } => test(&whose, &file, sender.as_deref(), context).await,
    }
}

async fn set(args: VacationSet, context: &Context) -> Result<(), Failure> {
    let account = account(&args.whose.account, context).await?;
    let now = clock::System.now();
    let date = |given: &Option<String>, edge: Edge| -> Result<Option<Value>, Failure> {
        let Some(given) = given else { return Ok(None) };
        let at =
            dates::parse(given, now, &account.zone, edge).map_err(|bad| Failure::new(exit::USAGE, bad.to_string()))?;
        Ok(Some(at.rfc3339().into()))
    };
    let mut patch = Map::new();
    patch.insert("isEnabled".into(), true.into());
    // A window is always said anew: the end of last year's vacation must not end this one.
    patch.insert("fromDate".into(), date(&args.from_date, Edge::From)?.unwrap_or_default());
    patch.insert("toDate".into(), date(&args.until, Edge::Until)?.unwrap_or_default());
    let told = match (&args.text, &args.text_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(file)) => Some(read_text(file)?),
        (None, None) => None,
    };
    let html = args.html_file.as_deref().map(read_text).transpose()?;
    let speaks = args.subject.is_some() || told.is_some() || html.is_some();
    if told.is_some() || html.is_some() {
        patch.insert("htmlBody".into(), html.into());
        patch.insert("textBody".into(), told.into());
    }
    if let Some(subject) = args.subject {
        patch.insert("subject".into(), subject.into());
    }
    if let Some(address) = args.sender_address {
        patch.insert("from".into(), json!({"name": args.sender_name, "email": address}));
    }
    if let Some(address) = args.reply_to {
        patch.insert("replyTo".into(), json!({"name": null, "email": address}));
    }
    for (key, given) in [("addresses", args.addresses), ("except", args.except)] {
        if !given.is_empty() {
            let named: Vec<String> = given.into_iter().filter(|text| !text.trim().is_empty()).collect();
            patch.insert(key.into(), named.into());
        }
    }
    update(context, &account.id, patch.into()).await?;
    if speaks && !context.json {
        complain(
            "note: strangers will read this text, and so learn that you are away (RFC 3834 §6). Say nothing there that \
             you would not tell anybody who writes to you.",
        );
    }
    show(&args.whose.account, context).await
}

/// Changes the response of an account.
pub(super) async fn update(context: &Context, account: &str, patch: Value) -> Result<(), Failure> {
    let arguments = json!({"accountId": account, "update": {"singleton": patch}});
    let answer = context.client.call(methods::VACATION_SET, arguments).await?;
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
pub(super) async fn show(name: &str, context: &Context) -> Result<(), Failure> {
    let account = account(name, context).await?;
    let answer = context.client.call(methods::VACATION_GET, json!({"accountId": account.id, "ids": null})).await?;
    let response = &answer["list"][0];
    if context.json {
        output::json(response);
        return Ok(());
    }
    let on = response["isEnabled"] == true;
    output::line(&format!("vacation of {name}: {}", if on { "on" } else { "off" }));
    let zone = account.zone.iana_name().unwrap_or("local time");
    for (label, value) in [
        ("from", with_zone(&when(&response["fromDate"], &account.zone), zone)),
        ("until", with_zone(&when(&response["toDate"], &account.zone), zone)),
        ("From", address(&response["from"])),
        ("Reply-To", address(&response["replyTo"])),
        ("also for", list(&response["addresses"])),
        ("never to", list(&response["except"])),
        ("subject", text(&response["subject"])),
        ("text", text(&response["textBody"])),
        ("html", text(&response["htmlBody"])),
    ] {
        if !value.is_empty() {
            output::line(&format!("  {label}: {}", value.trim_end().replace('\n', "\n        ")));
        }
    }
    Ok(())
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

async fn log(whose: &Whose, limit: usize, context: &Context) -> Result<(), Failure> {
    let account = account(&whose.account, context).await?;
    let answer = context.client.call(methods::VACATION_LOG, json!({"accountId": account.id, "limit": limit})).await?;
    if context.json {
        output::json(&answer["list"]);
    } else {
        output::table(&LOG_HEAD, log_rows(&answer["list"], &account.zone));
    }
    Ok(())
}

async fn told(whose: &Whose, limit: Option<usize>, context: &Context) -> Result<(), Failure> {
    let account = account(&whose.account, context).await?;
    let answer = context.client.call(methods::TOLD_LIST, json!({"accountId": account.id, "limit": limit})).await?;
    if context.json {
        output::json(&answer["list"]);
        return Ok(());
    }
    let row = |row: &Value| {
        let sender = row["sender"].as_str().unwrap_or("(told before addresses were kept)");
        vec![when(&row["at"], &account.zone), sender.to_owned()]
    };
    output::table(&["WHEN", "SENDER"], answer["list"].as_array().into_iter().flatten().map(row).collect());
    Ok(())
}

async fn forget(whose: &Whose, sender: Option<String>, all: bool, context: &Context) -> Result<(), Failure> {
    let account = account(&whose.account, context).await?;
    let arguments = json!({"accountId": account.id, "sender": sender, "all": all});
    let answer = context.client.call(methods::TOLD_FORGET, arguments).await?;
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

/// Head of the decision log.
pub(super) const LOG_HEAD: [&str; 5] = ["WHEN", "SENDER", "RECIPIENT", "DECISION", "WHY"];

/// Rows of the decision log.
pub(super) fn log_rows(list: &Value, zone: &TimeZone) -> Vec<Vec<String>> {
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

async fn test(whose: &Whose, file: &Path, sender: Option<&str>, context: &Context) -> Result<(), Failure> {
    let message = read(file)?;
    let account = account(&whose.account, context).await?;
    let answer = context
        .client
        .call(
            methods::VACATION_TEST,
            json!({"accountId": account.id, "message": octets(&with_crlf(&message)), "sender": sender}),
        )
        .await?;
    if context.json {
        output::json(&answer);
        return Ok(());
    }
    match answer["reason"].as_str() {
        Some(reason) => output::line(&format!("silent: {reason} ({})", text(&answer["detail"]))),
        None => {
            output::line("would be answered:\n");
            output::line(&text(&answer["reply"]));
        }
    }
    Ok(())
}
