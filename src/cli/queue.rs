//! `queue list|retry|remove`.

use jiff::tz::TimeZone;
use serde_json::json;

use super::args::{QueueCommand, QueueItem};
use super::output::{self, short, text, when};
use super::{Context, Failure, methods, whose};

pub(super) async fn run(command: QueueCommand, context: &Context) -> Result<(), Failure> {
    match command {
        QueueCommand::List { account } => {
            let mut arguments = json!({});
            let mut zone = TimeZone::system();
            if let Some(name) = account {
                let account = whose::account(&name, context).await?;
                arguments = json!({"accountId": account.id});
                zone = account.zone;
            }
            let answer = context.client.call(methods::QUEUE_LIST, arguments).await?;
            if context.json {
                output::json(&answer["list"]);
                return Ok(());
            }
            let rows = answer["list"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|row| {
                    vec![
                        text(&row["id"]),
                        text(&row["account"]),
                        text(&row["state"]),
                        text(&row["recipient"]),
                        when(&row["due"], &zone),
                        text(&row["attempts"]),
                        short(&text(&row["lastError"]), 60),
                    ]
                })
                .collect();
            output::table(&["ID", "ACCOUNT", "STATE", "TO", "NEXT", "TRIED", "LAST ERROR"], rows);
        }
        QueueCommand::Retry(item) => {
            one(methods::QUEUE_RETRY, &item, context).await?;
            output::line(&format!("{} is tried now", item.action));
        }
        QueueCommand::Remove(item) => {
            one(methods::QUEUE_REMOVE, &item, context).await?;
            output::line(&format!("{} removed", item.action));
        }
    }
    Ok(())
}

async fn one(method: &str, item: &QueueItem, context: &Context) -> Result<(), Failure> {
    let account = whose::account(&item.whose.account, context).await?;
    context.client.call(method, json!({"accountId": account.id, "id": item.action})).await?;
    Ok(())
}
