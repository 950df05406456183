//! Mail/query: a question in the words of Email/query (RFC 8621 §4.4), with what a list shows of each email found; or how
//! the question would be answered.

use serde_json::{Value, json};

use super::mail::{describe, with_thread};
use crate::jmap::context::{Args, Context};
use crate::jmap::email::filter::filter;
use crate::jmap::email::listings;
use crate::jmap::email::query::SectionArgs;
use crate::jmap::email::sort::sort;
use crate::jmap::standard::state;
use crate::jmap::standard::value::int;
use crate::model::{AccountId, EmailId, Listing, ListingFilter, MailboxUid, Shape, limits};
use crate::query::{Condition, Filter, Finder, Query, QueryPlan, QuerySpec, explain, query};
use crate::store::Snapshot;
use crate::wire::jmap::MethodError;

/// Emails of an answer, where no limit is given.
const DEFAULT_LIMIT: u64 = 50;

pub(super) fn run(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let snapshot = context.store.snapshot();
    let secrets = context.store.secrets();
    let get = |name: &str| arguments.get(name).unwrap_or(&Value::Null);
    let mut filter = filter(arguments.get("filter"))?;
    if let Some(name) = arguments.maybe_text("mailbox")? {
        let found = snapshot.find_mailbox(account, &name)?;
        let (uid, _) = found.ok_or_else(|| MethodError::NotFound(format!("no mailbox {name}")))?;
        let inside = Filter::Is(Condition::InMailbox(uid));
        filter = if filter == Filter::default() { inside } else { Filter::And(vec![inside, filter]) };
    }
    let collapse = arguments.flag("collapseThreads")?;
    let reads = context.budget.searched();
    let sort = sort(get("sort"))?;
    let results = QuerySpec { account, filter, sort, collapse, reads, ..QuerySpec::default() };
    if arguments.flag("explain")? {
        return Ok(json!({ "plan": in_json(&explain(&snapshot, &results)?) }));
    }
    let number = |name: &str| arguments.get(name).map_or(Ok(0), |value| int(name, value));
    let anchor = arguments.maybe_text("anchor")?;
    let limit = if arguments.0.contains_key("limit") { arguments.number("limit")? } else { Some(DEFAULT_LIMIT) };
    let (position, anchor_offset) = (number("position")?, number("anchorOffset")?);
    let section = SectionArgs { position, anchor: anchor.as_deref(), anchor_offset, limit };
    let window = section.window(limits::MAX_LISTED_ROWS)?;
    let finder = arguments.flag("snippets")?.then(|| Finder::new(&results.filter, secrets));
    let asked = Query { results, window, total: arguments.flag("calculateTotal")? };
    let found = query(&snapshot, secrets, &asked)?;
    listings::follow(&context.store, account, &found.plan);
    let answer = found.answer;
    let list: Result<Vec<Value>, MethodError> =
        answer.ids.iter().map(|id| row(context, &snapshot, account, (*id, collapse), finder.as_ref())).collect();
    Ok(json!({
        "queryState": state(&context.store, answer.state),
        "canCalculateChanges": answer.can_calculate, "position": answer.position, "total": answer.total,
        "ids": answer.ids.iter().map(ToString::to_string).collect::<Vec<_>>(), "list": list?,
        "plan": in_json(&found.plan),
    }))
}

/// What a list shows of an email, and of its thread where threads are listed, and what was found in the email.
fn row(
    context: &Context,
    snapshot: &Snapshot<'_>,
    account: AccountId,
    (id, collapse): (EmailId, bool),
    finder: Option<&Finder>,
) -> Result<Value, MethodError> {
    let email = snapshot.email(account, id)?;
    let (size, thread) = email.map(|email| (email.size, email.thread)).unwrap_or_default();
    let mut row = describe(snapshot, account, id, thread)?;
    if collapse {
        row = with_thread(snapshot, account, thread, row)?;
    }
    if let (Some(finder), Some(members)) = (finder, row.as_object_mut()) {
        context.budget.read(if finder.reads_text() { size } else { 0 })?;
        let snippet = finder.snippet(snapshot, account, id)?.unwrap_or_default();
        members.insert("snippet".into(), json!({"subject": snippet.subject, "preview": snippet.preview}));
    }
    context.budget.tell(&row)?;
    Ok(row)
}

fn in_json(plan: &QueryPlan) -> Value {
    let listing = |listing: Listing| {
        json!({
            "mailboxId": listing.uid.to_string(), "view": listing.view.name(),
            "collapsed": listing.shape == Shape::Threads,
        })
    };
    let wanted = |(uid, view): (MailboxUid, ListingFilter)| json!({"mailboxId": uid.to_string(), "view": view.name()});
    let others: Vec<Value> = plan.others.iter().map(|(name, why)| json!({"strategy": name, "reason": why})).collect();
    json!({
        "strategy": plan.way.name(), "listing": plan.way.listing().map(listing), "length": plan.length,
        "ranked": plan.ranked, "wanted": plan.wants.map(wanted), "others": others, "text": plan.to_string(),
    })
}
