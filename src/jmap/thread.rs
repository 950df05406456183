//! Thread/get and Thread/changes (RFC 8621 §3).

use serde_json::{Map, Value, json};

use super::context::{Account, Args, Context, fail};
use super::guest::{self, threads_follow};
use super::rights::Rights;
use super::standard::{self, Asked, Get, newest};
use crate::model::{EmailId, ThreadId, limits};
use crate::store::View;
use crate::wire::jmap::MethodError;

pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let get = Get::of(arguments, &["id", "emailIds"])?;
    let view = context.store.view();
    let rights = Rights::of(&view, &account).map_err(|error| fail(&error))?;
    let mut all = Vec::new();
    if get.ids.is_none() {
        all = view.threads(account.id, limits::OBJECTS_IN_GET + 1).map_err(|error| fail(&error))?;
        get.prove_all(all.len() as u64)?;
        if rights != Rights::Owner {
            let found: Result<Vec<_>, _> = all.iter().map(|thread| emails(&view, &account, &rights, *thread)).collect();
            let mut found = found?.into_iter();
            all.retain(|_| found.next().is_some_and(|emails| !emails.is_empty()));
        }
    }
    let state = newest(&context.store, &view, account.id, threads_follow(account.guest.is_some()))?;
    let all = || all.iter().map(ToString::to_string).collect();
    get.answer(account.id, &state, all, |id| {
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
        Ok(Some(object))
    })
}

/// The emails of a thread that the caller may read, newest first.
fn emails(view: &View<'_>, account: &Account, rights: &Rights, thread: ThreadId) -> Result<Vec<EmailId>, MethodError> {
    let mut emails = view.thread_emails(account.id, thread).map_err(|error| fail(&error))?;
    if *rights != Rights::Owner {
        let found: Result<Vec<_>, _> = emails.iter().map(|id| view.email(account.id, *id)).collect();
        let mut found = found.map_err(|error| fail(&error))?.into_iter();
        emails.retain(|_| found.next().flatten().is_some_and(|email| rights.sees(&email)));
    }
    Ok(emails)
}

pub(super) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let asked = Asked::read(context, arguments)?;
    let view = context.store.view();
    let found = match account.guest {
        None => view.thread_changes(account.id, asked.since, asked.most),
        Some(_) => guest::thread_changes(&view, &account, &asked),
    };
    let found = found.map_err(|error| fail(&error))?;
    standard::changes(context, account.id, &asked, found).map(Value::Object)
}
