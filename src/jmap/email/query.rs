//! Email/query, Email/queryChanges and Email/changes (RFC 8621 §4.3 to §4.5) over room `query`.

use serde_json::{Map, Value, json};

use super::filter;
use super::listings;
use super::sort::sort;
use super::window::window;
use crate::jmap::context::{Account, Args, Context};
use crate::jmap::guest;
use crate::jmap::rights::{Rights, unchanged_since};
use crate::jmap::standard::{self, ChangesArguments, since, state};
use crate::model::limits;
use crate::query::{self as questions, Query, QueryChanges, QuerySpec};
use crate::wire::jmap::MethodError;

pub(in crate::jmap) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let asked = ChangesArguments::read(context, arguments)?;
    let view = context.store.view();
    let found = match account.guest {
        None => view.email_changes(account.id, asked.since, asked.most),
        Some(_) => guest::email_changes(&view, &account, asked.since, asked.most),
    };
    let found = found?;
    standard::changes(context, account.id, &asked, found).map(Value::Object)
}

fn results(
    context: &Context,
    rights: &Rights,
    account: &Account,
    arguments: &Args<'_>,
) -> Result<QuerySpec, MethodError> {
    let get = |name: &str| arguments.get(name).unwrap_or(&Value::Null);
    Ok(QuerySpec {
        account: account.id,
        filter: filter::of(arguments)?,
        sort: sort(get("sort"))?,
        collapse: arguments.flag("collapseThreads")?,
        scope: rights.scope(),
        reads: context.budget.searched(),
    })
}

pub(in crate::jmap) fn query(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let view = context.store.view();
    let rights = Rights::of(&view, &account)?;
    let results = results(context, &rights, &account, arguments)?;
    let (window, total) = (window(arguments.0, limits::RESULTS)?, arguments.flag("calculateTotal")?);
    let found = questions::query(&view, context.store.secrets(), &Query { results, window, total })?;
    listings::follow(&context.store, account.id, &found.plan);
    let answer = found.answer;
    let mut object = Map::new();
    object.insert("accountId".into(), account.id.to_string().into());
    object.insert("queryState".into(), state(&context.store, answer.state).into());
    object.insert("canCalculateChanges".into(), answer.can_calculate.into());
    object.insert("position".into(), answer.position.into());
    object.insert("ids".into(), answer.ids.iter().map(ToString::to_string).collect());
    if let Some(total) = answer.total {
        object.insert("total".into(), total.into());
    }
    // Said where it is not the client's own (RFC 8620 §5.5).
    let asked = arguments.number("limit")?;
    if asked.is_none_or(|asked| asked > limits::RESULTS as u64) {
        object.insert("limit".into(), limits::RESULTS.into());
    }
    Ok(Value::Object(object))
}

pub(in crate::jmap) fn query_changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let view = context.store.view();
    let rights = Rights::of(&view, &account)?;
    let old = arguments.text("sinceQueryState")?;
    let max_changes = arguments.number("maxChanges")?.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    let asked = QueryChanges {
        results: results(context, &rights, &account, arguments)?,
        since: since(&context.store, &old).ok_or(MethodError::CannotCalculateChanges)?.mark,
        // An id that can be no email's is not in the results: it bounds nothing.
        up_to: arguments.maybe_text("upToId")?.and_then(|id| id.parse().ok()),
        max_changes,
        total: arguments.flag("calculateTotal")?,
    };
    if !unchanged_since(&view, &account, asked.since)? {
        return Err(MethodError::CannotCalculateChanges);
    }
    let found = questions::changes(&view, context.store.secrets(), &asked)?;
    listings::follow(&context.store, account.id, &found.plan);
    let answer = found.answer;
    let added: Vec<Value> =
        answer.added.iter().map(|(index, id)| json!({"id": id.to_string(), "index": index})).collect();
    let mut object = Map::new();
    object.insert("accountId".into(), account.id.to_string().into());
    object.insert("oldQueryState".into(), old.into());
    object.insert("newQueryState".into(), state(&context.store, answer.state).into());
    object.insert("removed".into(), answer.removed.iter().map(ToString::to_string).collect());
    object.insert("added".into(), Value::Array(added));
    if let Some(total) = answer.total {
        object.insert("total".into(), total.into());
    }
    Ok(Value::Object(object))
}
