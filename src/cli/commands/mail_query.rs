//! `mail query`: the options become a filter and a sort of RFC 8621 §4.4, and the service answers.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::commands::mail;
use crate::cli::control::selected_account::AccountArgs;
use crate::cli::control::{CommandContext, selected_account};
use crate::cli::exit::{self, Failure};
use crate::cli::terminal::dates::{Edge, parse};
use crate::cli::terminal::output;
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

/// `mail query`
#[derive(Debug, Args)]
pub struct MailQueryArgs {
    #[command(flatten)]
    pub whose: AccountArgs,
    /// In this mailbox; everywhere if not given.
    #[arg(long)]
    pub mailbox: Option<String>,
    /// Unread mail only.
    #[arg(long)]
    pub unseen: bool,
    /// Flagged mail only.
    #[arg(long)]
    pub flagged: bool,
    /// With these words in people, subject, text or attachment names; 'in quotes' they follow each
    /// other.
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
    /// With this address, or a part of one, in Delivered-To: of mail that came to this alias.
    #[arg(long, value_name = "ADDRESS")]
    pub delivered_to: Option<String>,
    /// Received before this date; the day itself does not count.
    #[arg(long, value_name = "DATE")]
    pub before: Option<String>,
    /// Received on this date or after.
    #[arg(long, value_name = "DATE")]
    pub after: Option<String>,
    /// Of this size or more, such as "2 MiB".
    #[arg(long, value_name = "SIZE")]
    pub larger: Option<String>,
    /// Smaller than this.
    #[arg(long, value_name = "SIZE")]
    pub smaller: Option<String>,
    /// With an attachment.
    #[arg(long)]
    pub has_attachment: bool,
    /// A filter as JSON, in the form of RFC 8621 §4.4.1; it joins what else is asked.
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// In this order, the option once for each: receivedAt, sentAt, size, from, to or subject, or
    /// hasKeyword=WORD, allInThreadHaveKeyword=WORD, someInThreadHaveKeyword=WORD; with :desc
    /// behind it from the last to the first. Newest first if not given.
    #[arg(long, value_name = "PROPERTY[:desc]")]
    pub sort: Vec<String>,
    /// A line for each thread: the first of its messages.
    #[arg(long)]
    pub threads: bool,
    /// From this place on, 0 for the first; a negative one counts from the end.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, conflicts_with = "anchor")]
    pub position: Option<i64>,
    /// From this message on.
    #[arg(long, value_name = "EMAIL")]
    pub anchor: Option<String>,
    /// So many behind the anchor; before it where negative.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, requires = "anchor")]
    pub anchor_offset: Option<i64>,
    /// At most this many, up to 10000.
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = crate::cli::terminal::listed())]
    pub limit: usize,
    /// Say how many there are in all.
    #[arg(long)]
    pub total: bool,
    /// Show where the words stand in subject and text.
    #[arg(long)]
    pub snippets: bool,
    /// Say how the answer would be found, and why so, instead of the answer.
    #[arg(long)]
    pub explain: bool,
}

pub(in crate::cli) async fn run(
    query: MailQueryArgs,
    context: &CommandContext,
) -> Result<(), Failure> {
    let account = selected_account::find_account(&query.whose.account, context).await?;
    let date = |text: &Option<String>| -> Result<Option<String>, Failure> {
        let parsed = text
            .as_ref()
            .map(|text| parse(text, SystemClock.now(), &account.zone, Edge::From))
            .transpose();
        let at = parsed.map_err(|bad| Failure::new(exit::USAGE, bad.to_string()))?;
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
                snippets(&found.list);
            }
            if let Some(total) = found.total {
                output::line(&format!("{total} in all"));
            }
        }
    }
    Ok(())
}

/// What the options ask, as conditions that must all hold.
fn filter(
    query: &MailQueryArgs,
    before: Option<String>,
    after: Option<String>,
) -> Result<Value, Failure> {
    let octets = |text: &String| text.parse::<ByteSize>().map(|size| size.0);
    let octets = |text: &Option<String>| -> Result<Option<u64>, Failure> {
        text.as_ref().map(octets).transpose().map_err(|bad| Failure::new(exit::USAGE, bad))
    };
    let mut conditions: Vec<Value> = Vec::new();
    let mut add = |name: &str, value: Option<Value>| {
        conditions.extend(value.map(|value| json!({name: value})))
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
    add("minSize", octets(&query.larger)?.map(Value::from));
    add("maxSize", octets(&query.smaller)?.map(Value::from));
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

/// A text as one phrase of a condition (RFC 8621 §4.4.1).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `PROPERTY[=WORD][:asc|:desc]`.
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

/// Where the words stand, between asterisks.
fn snippets(list: &[EmailRow]) {
    let shown = |html: &str| {
        let bare = html
            .replace("<mark>", "*")
            .replace("</mark>", "*")
            .replace("&lt;", "<")
            .replace("&gt;", ">");
        bare.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
    };
    for row in list {
        let found =
            row.snippet.iter().flat_map(|snippet| [&snippet.subject, &snippet.preview]).flatten();
        for part in found.map(|html| shown(html)).filter(|part| !part.is_empty()) {
            output::line(&format!("{}: {part}", row.email.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};
    use crate::cli::commands::mail::MailCommand;

    fn asked(words: &[&str]) -> MailQueryArgs {
        let all = ["restante", "mail", "query", "-a", "ann"].iter().chain(words);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Mail(MailCommand::Query(query)) => *query,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_become_a_filter() {
        let of = |words: &[&str]| filter(&asked(words), None, None).unwrap();
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
        let all = json!([{"hasKeyword": "$flagged"}, {"from": "bob"}, {"minSize": 2048}, {"hasKeyword": "work"}]);
        assert_eq!(of(&words), json!({"operator": "AND", "conditions": all}));
        assert_eq!(
            of(&["--delivered-to", "shop@x"]),
            json!({"header": ["Delivered-To", "\"shop@x\""]})
        );
        let strange = of(&["--delivered-to", r#""a \b"@x"#]);
        assert_eq!(strange, json!({"header": ["Delivered-To", r#""\"a \\b\"@x""#]}));
        assert!(filter(&asked(&["--filter", "{"]), None, None).is_err());
        assert!(filter(&asked(&["--smaller", "much"]), None, None).is_err());
        assert_eq!(asked(&["--position", "-3"]).position, Some(-3));
    }

    #[test]
    fn sorts_are_read() {
        let read = |text: &str| serde_json::to_value(comparator(text)).unwrap();
        assert_eq!(read("size"), json!({"property": "size", "isAscending": true}));
        assert_eq!(read("subject:desc"), json!({"property": "subject", "isAscending": false}));
        let flagged =
            json!({"property": "hasKeyword", "keyword": "$flagged", "isAscending": false});
        assert_eq!(read("hasKeyword=$flagged:desc"), flagged);
    }
}
