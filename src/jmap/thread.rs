//! Thread/get and Thread/changes (RFC 8621 §3).

use serde_json::{Map, Value, json};

use super::context::{Account, Args, Context, date};
use super::email::newest_emails;
use super::guest::{self, newest};
use super::rights::Rights;
use super::standard::{self, ChangesArguments, GetArguments};
use crate::model::{AccountId, DataType, EmailId, ThreadId, limits};
use crate::store::{Error, Snapshot};
use crate::wire::jmap::json::members;
use crate::wire::jmap::{ADMIN, MethodError};

/// The properties; those behind the first `STANDARD` are our own, for requests that use our capability.
const PROPERTIES: [&str; 5] = ["id", "emailIds", "unreadEmails", "latestEmailId", "latestReceivedAt"];
const STANDARD: usize = 2;

/// What is told of a thread where threads are listed: how many of these emails, newest first, are unread, and the newest.
///
/// # Errors
/// Those of reading.
pub(super) fn summary(
    view: &Snapshot<'_>,
    account: AccountId,
    emails: &[EmailId],
) -> Result<Map<String, Value>, Error> {
    let all = view.emails_at(account, emails)?;
    let unread = all.iter().flatten().filter(|email| email.is_unread()).count();
    let latest = emails.first().zip(all.first().and_then(Option::as_ref));
    Ok(members(json!({
        "unreadEmails": unread, "latestEmailId": latest.map(|(id, _)| id.to_string()),
        "latestReceivedAt": date(latest.map(|(_, email)| email.received_at)),
    })))
}

pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let known = if arguments.uses(ADMIN) { &PROPERTIES[..] } else { &PROPERTIES[..STANDARD] };
    let mut get = GetArguments::of(arguments, known)?;
    let names = get.properties.get_or_insert_with(|| known.iter().map(|name| (*name).to_owned()).collect());
    let is_summed = names.iter().any(|name| !PROPERTIES[..STANDARD].contains(&name.as_str()));
    let view = context.store.view();
    let rights = Rights::of(&view, &account)?;
    let mut all = Vec::new();
    if get.ids.is_none() {
        all = match rights {
            Rights::Owner => view.threads(account.id, limits::OBJECTS_IN_GET + 1)?,
            Rights::Guest(_) => seen_threads(context, &view, (&account, &rights))?,
        };
        get.prove_all(all.len() as u64)?;
    }
    let state = newest(context, &view, &account, DataType::Thread)?;
    let all = || all.iter().map(ToString::to_string).collect();
    get.answer(context, account.id, &state, all, |id| {
        let Ok(thread) = id.parse::<ThreadId>() else { return Ok(None) };
        let emails = emails(&view, &account, &rights, thread)?;
        if emails.is_empty() {
            return Ok(None);
        }
        // Oldest first (RFC 8621 §3); the ids run newest first.
        let ids: Vec<String> = emails.iter().rev().map(EmailId::to_string).collect();
        let mut object = Map::new();
        object.insert("id".into(), id.into());
        object.insert("emailIds".into(), json!(ids));
        if is_summed {
            object.extend(summary(&view, account.id, &emails)?);
        }
        Ok(Some(object))
    })
}

/// The threads of which a guest sees an email, in order of making: one more than a /get may give, if there are so many.
fn seen_threads(
    context: &Context,
    view: &Snapshot<'_>,
    (account, rights): (&Account, &Rights),
) -> Result<Vec<ThreadId>, MethodError> {
    let newest = newest_emails(context, view, (account, rights), true)?;
    let emails = view.emails_at(account.id, &newest)?;
    let mut threads: Vec<ThreadId> = emails.into_iter().flatten().map(|email| email.thread).collect();
    threads.sort_unstable();
    Ok(threads)
}

/// The emails of a thread that the caller may read, newest first.
fn emails(
    view: &Snapshot<'_>,
    account: &Account,
    rights: &Rights,
    thread: ThreadId,
) -> Result<Vec<EmailId>, MethodError> {
    let mut emails = view.thread_emails(account.id, thread)?;
    if *rights != Rights::Owner {
        let found: Result<Vec<_>, _> = emails.iter().map(|id| view.email(account.id, *id)).collect();
        let mut found = found?.into_iter();
        emails.retain(|_| found.next().flatten().is_some_and(|email| rights.sees(&email)));
    }
    Ok(emails)
}

pub(super) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let asked = ChangesArguments::read(context, arguments)?;
    let view = context.store.view();
    let found = match account.guest {
        None => view.thread_changes(account.id, asked.since, asked.most),
        Some(_) => guest::thread_changes(&view, &account, &asked),
    };
    let found = found?;
    standard::changes(context, account.id, &asked, found).map(Value::Object)
}
