//! The command `mail query`: makes a filter and a sort order (RFC 8621 §4.4) of its options.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::commands::mail;
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::dates::{Edge, parse};
use crate::cli::terminal::output;
use crate::cli::terminal::row_count;
use crate::config::ByteSize;
use crate::model::UtcMillis;
use crate::model::clock::{Clock as _, SystemClock};
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::mail::{
    EmailRow, MailQuery, MailQueryAnswer, MailQueryArguments, MailQueryLimit,
};
use crate::wire::jmap::arguments::Nullable;
use crate::wire::jmap::standard::SortComparator;

#[derive(Debug, Args)]
pub struct MailQueryArgs {
    #[command(flatten)]
    pub account: AccountArgs,
    /// Only mail in this mailbox: its path, role or id [default: all mailboxes].
    #[arg(long)]
    pub mailbox: Option<String>,
    /// Only unread mail.
    #[arg(long)]
    pub unseen: bool,
    /// Only flagged mail.
    #[arg(long)]
    pub flagged: bool,
    /// With these words in addresses, subject, text or attachment names; "in quotes": as a phrase.
    #[arg(long, value_name = "WORDS")]
    pub text: Option<String>,
    /// With these words in From; @example.org finds a domain.
    #[arg(long, value_name = "WORDS")]
    pub from: Option<String>,
    /// With these words in To.
    #[arg(long, value_name = "WORDS")]
    pub to: Option<String>,
    /// With these words in the subject.
    #[arg(long, value_name = "WORDS")]
    pub subject: Option<String>,
    /// With these words in the text.
    #[arg(long, value_name = "WORDS")]
    pub body: Option<String>,
    /// Delivered to this address, such as an alias; a part of the address is enough.
    #[arg(long, value_name = "ADDRESS")]
    pub delivered_to: Option<String>,
    /// Received before this time; of a day, before its beginning.
    #[arg(long, value_name = "DATE")]
    pub before: Option<String>,
    /// Received on this day, or at this time, or later.
    #[arg(long, value_name = "DATE")]
    pub after: Option<String>,
    /// At least as large as this, such as "2 MiB".
    #[arg(long, value_name = "SIZE")]
    pub larger: Option<String>,
    /// Smaller than this.
    #[arg(long, value_name = "SIZE")]
    pub smaller: Option<String>,
    /// Only mail with an attachment.
    #[arg(long)]
    pub has_attachment: bool,
    /// A filter in JSON (RFC 8621 §4.4.1), which must match as well as the other options.
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// Sort by this property: receivedAt, sentAt, size, from, to, subject, hasKeyword=WORD,
    /// allInThreadHaveKeyword=WORD or someInThreadHaveKeyword=WORD; :desc reverses the order. May
    /// be given several times [default: newest first].
    #[arg(long, value_name = "PROPERTY[:desc]")]
    pub sort: Vec<String>,
    /// Show only the first message of each thread.
    #[arg(long)]
    pub threads: bool,
    /// Begin at this position: 0 is the first; a negative number counts from the end.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, conflicts_with = "anchor")]
    pub position: Option<i64>,
    /// Begin with this message.
    #[arg(long, value_name = "EMAIL")]
    pub anchor: Option<String>,
    /// Begin this number of messages after the anchor; before it if the number is negative.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, requires = "anchor")]
    pub anchor_offset: Option<i64>,
    /// The number of lines, at most 10000.
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = row_count())]
    pub limit: usize,
    /// Print the total number of results.
    #[arg(long)]
    pub total: bool,
    /// Show the words where they occur in subject and text.
    #[arg(long)]
    pub snippets: bool,
    /// Explain how the query would be answered instead of running it.
    #[arg(long)]
    pub explain: bool,
}

pub(in crate::cli) async fn run(
    query: MailQueryArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = selected_account::find_account(&query.account.account, context).await?;
    let date = |text: &Option<String>| -> Result<Option<String>, Failure> {
        let parsed = text
            .as_ref()
            .map(|text| parse(text, SystemClock.now(), &account.zone, Edge::From))
            .transpose();
        let at = parsed.map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
        Ok(at.map(UtcMillis::rfc3339))
    };
    let filter = filter(&query, date(&query.before)?, date(&query.after)?)?;
    let args = MailQueryArguments {
        mailbox: query.mailbox,
        filter: Some(filter).filter(|filter| !filter.is_null()),
        sort: Some(query.sort.iter().map(|text| comparator(text)).collect()),
        collapse_threads: query.threads,
        position: query.position.unwrap_or_default(),
        anchor: query.anchor,
        anchor_offset: query.anchor_offset.unwrap_or_default(),
        calculate_total: query.total,
        snippets: query.snippets,
        explain: query.explain,
    };
    let limit = Nullable(MailQueryLimit { limit: Some(Some(query.limit as u64)) });
    let args = With(AccountRef::by_id(&account.id), With(args, limit));
    match context.client.call::<MailQuery>(args).await? {
        MailQueryAnswer::Explained { plan } if context.json => output::json(&plan),
        MailQueryAnswer::Explained { plan } => plan.text.lines().for_each(output::line),
        MailQueryAnswer::Found(found) if context.json => output::json(&found),
        MailQueryAnswer::Found(found) => {
            output::table(mail::head(query.threads), mail::rows(&found.list, &account.zone));
            if query.snippets {
                print_snippets(&found.list);
            }
            if let Some(total) = found.total {
                output::line(&format!("{total} in all"));
            }
        }
    }
    Ok(())
}

/// Returns the filter that the options ask for: null without any, and the conditions joined by AND
/// if there are several. `before` and `after` are the dates of these options (RFC 3339).
fn filter(
    query: &MailQueryArgs,
    before: Option<String>,
    after: Option<String>,
) -> Result<Value, Failure> {
    let parse_size = |text: &String| text.parse::<ByteSize>().map(|size| size.0);
    let size = |text: &Option<String>| -> Result<Option<u64>, Failure> {
        let size = text.as_ref().map(parse_size).transpose();
        size.map_err(|problem| Failure::new(exit::USAGE, problem))
    };
    let mut conditions: Vec<Value> = Vec::new();
    let mut add = |name: &str, value: Option<Value>| {
        conditions.extend(value.map(|value| json!({name: value})));
    };
    add("notKeyword", query.unseen.then(|| "$seen".into()));
    add("hasKeyword", query.flagged.then(|| "$flagged".into()));
    add("text", query.text.clone().map(Value::from));
    add("from", query.from.clone().map(Value::from));
    add("to", query.to.clone().map(Value::from));
    add("subject", query.subject.clone().map(Value::from));
    add("body", query.body.clone().map(Value::from));
    add(
        "header",
        query.delivered_to.as_deref().map(|address| json!(["Delivered-To", quoted(address)])),
    );
    add("before", before.map(Value::from));
    add("after", after.map(Value::from));
    add("minSize", size(&query.larger)?.map(Value::from));
    add("maxSize", size(&query.smaller)?.map(Value::from));
    add("hasAttachment", query.has_attachment.then(|| true.into()));
    if let Some(text) = &query.filter {
        let parsed = serde_json::from_str::<Value>(text);
        conditions
            .push(parsed.map_err(|error| Failure::new(exit::USAGE, format!("--filter: {error}")))?);
    }
    Ok(match <[Value; 1]>::try_from(conditions) {
        Ok([one]) => one,
        Err(all) if all.is_empty() => Value::Null,
        Err(all) => json!({"operator": "AND", "conditions": all}),
    })
}

/// Quotes a text, so that a condition takes it as one phrase (RFC 8621 §4.4.1).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Reads an option of the form `PROPERTY[=WORD][:asc|:desc]`.
fn comparator(text: &str) -> SortComparator {
    let (what, ascending) = match text.rsplit_once(':') {
        Some((what, "desc")) => (what, false),
        Some((what, "asc")) => (what, true),
        _ => (text, true),
    };
    let (property, keyword) = match what.split_once('=') {
        Some((property, word)) => (property, Some(word.to_owned())),
        None => (what, None),
    };
    let (property, is_ascending) = (Some(property.to_owned()), Some(ascending));
    SortComparator { property, is_ascending, keyword, collation: None }
}

/// Prints the snippets (RFC 8621 §5), with asterisks around the words that were searched for.
fn print_snippets(list: &[EmailRow]) {
    let to_text = |html: &str| {
        let marked = html
            .replace("<mark>", "*")
            .replace("</mark>", "*")
            .replace("&lt;", "<")
            .replace("&gt;", ">");
        marked.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
    };
    for row in list {
        let parts =
            row.snippet.iter().flat_map(|snippet| [&snippet.subject, &snippet.preview]).flatten();
        for text in parts.map(|html| to_text(html)).filter(|text| !text.is_empty()) {
            output::line(&format!("{}: {text}", row.email.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};
    use crate::cli::commands::mail::MailCommand;

    fn parse_options(words: &[&str]) -> MailQueryArgs {
        let all = ["restante", "mail", "query", "-a", "ann"].iter().chain(words);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Mail(MailCommand::Query(query)) => *query,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_become_a_filter() {
        let of = |words: &[&str]| filter(&parse_options(words), None, None).unwrap();
        assert_eq!(of(&[]), Value::Null);
        assert_eq!(of(&["--unseen"]), json!({"notKeyword": "$seen"}));
        let words = [
            "--flagged",
            "--from",
            "bob",
            "--larger",
            "2 KiB",
            "--filter",
            r#"{"hasKeyword":"work"}"#,
        ];
        let all = json!([
            {"hasKeyword": "$flagged"},
            {"from": "bob"},
            {"minSize": 2048},
            {"hasKeyword": "work"},
        ]);
        assert_eq!(of(&words), json!({"operator": "AND", "conditions": all}));
        assert_eq!(
            of(&["--delivered-to", "shop@x"]),
            json!({"header": ["Delivered-To", "\"shop@x\""]})
        );
        let quoted = of(&["--delivered-to", r#""a \b"@x"#]);
        assert_eq!(quoted, json!({"header": ["Delivered-To", r#""\"a \\b\"@x""#]}));
        assert!(filter(&parse_options(&["--filter", "{"]), None, None).is_err());
        assert!(filter(&parse_options(&["--smaller", "much"]), None, None).is_err());
    }

    #[test]
    fn position_may_be_negative() {
        assert_eq!(parse_options(&["--position", "-3"]).position, Some(-3));
    }

    #[test]
    fn sort_options_become_comparators() {
        let read = |text: &str| serde_json::to_value(comparator(text)).unwrap();
        assert_eq!(read("size"), json!({"property": "size", "isAscending": true}));
        assert_eq!(read("subject:desc"), json!({"property": "subject", "isAscending": false}));
        let flagged =
            json!({"property": "hasKeyword", "keyword": "$flagged", "isAscending": false});
        assert_eq!(read("hasKeyword=$flagged:desc"), flagged);
    }
}
