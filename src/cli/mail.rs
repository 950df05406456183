//! `mail list|show`; `mail query` is in `query`, `mail import|export` are in `transfer`.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::args::MailCommand;
use super::output::{self, short, size, text, when};
use super::{CommandContext, Failure, exit, life, methods, transfer, whose};
use crate::wire::jmap::of_octets;

pub(super) async fn run(command: MailCommand, context: &CommandContext) -> Result<(), Failure> {
    match command {
        MailCommand::List { whose, mailbox, threads, limit, after } => {
            let account = whose::account(&whose.account, context).await?;
            let arguments = json!({
                "accountId": account.id, "mailbox": mailbox, "collapseThreads": threads, "limit": limit, "after": after,
            });
            let answer = context.client.call(methods::MAIL_LIST, arguments).await?;
            if context.json {
                output::json(&answer["list"]);
            } else {
                output::table(head(threads), rows(&answer["list"], &account.zone));
            }
        }
        MailCommand::Query(query) => super::query::run(*query, context).await?,
        MailCommand::Show { whose, email } => {
            let account = whose::account(&whose.account, context).await?;
            let answer = context.client.call(methods::MAIL_SHOW, json!({"accountId": account.id, "id": email})).await?;
            if context.json {
                output::json(&answer);
            } else {
                let message = of_octets(&text(&answer["message"]))
                    .map_err(|_| Failure::new(exit::SOFTWARE, "the service's answer holds no message"))?;
                output::octets(&message)?;
            }
        }
        MailCommand::Import(args) => return transfer::import(*args, context).await,
        MailCommand::Export(args) => return transfer::export(*args, context).await,
        MailCommand::Destroy(args) => return life::destroy(args, context).await,
        MailCommand::Restore(args) => return life::restore(args, context).await,
        MailCommand::Purge(args) => return life::purge(args, context).await,
        MailCommand::Move(args) => return life::move_to(args, context).await,
        MailCommand::Flag(args) => return life::flag(args, context).await,
    }
    Ok(())
}

/// The head of a list of mail: of emails, or of threads.
pub(super) fn head(threads: bool) -> &'static [&'static str] {
    const HEAD: [&str; 9] = ["ID", "THREAD", "RECEIVED", "FROM", "SUBJECT", "SIZE", "EMAILS", "UNREAD", "LATEST"];
    if threads { &HEAD } else { &HEAD[..6] }
}

/// The rows of a list of mail.
pub(super) fn rows(list: &Value, zone: &TimeZone) -> Vec<Vec<String>> {
    let row = |row: &Value| {
        let clip = if row["hasAttachment"] == true { " [attachment]" } else { "" };
        let mut cells = vec![
            text(&row["id"]),
            text(&row["threadId"]),
            when(&row["receivedAt"], zone),
            short(&from(&row["from"]), 32),
            format!("{}{clip}", short(&text(&row["subject"]), 60)),
            size(&row["size"]),
        ];
        if let Some(thread) = row.get("thread") {
            let latest = when(&thread["latestReceivedAt"], zone);
            cells.extend([text(&thread["emails"]), text(&thread["unreadEmails"]), latest]);
        }
        cells
    };
    list.as_array().into_iter().flatten().map(row).collect()
}

/// Whom to show of a list of addresses.
pub(super) fn from(value: &Value) -> String {
    match value {
        Value::Array(all) => all.first().map(from).unwrap_or_default(),
        Value::Object(one) => {
            let name = one.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            name.or_else(|| one.get("email").and_then(Value::as_str)).unwrap_or_default().to_owned()
        }
        other => text(other),
    }
}
