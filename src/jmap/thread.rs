//! Thread/get and Thread/changes (RFC 8621 §3).

use serde_json::{Map, Value, json};

use super::context::{Args, Context, fail};
use super::standard::{self, Asked, Get, newest};
use crate::model::{DataType, EmailId, ThreadId, limits};
use crate::wire::jmap::MethodError;

pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let get = Get::of(arguments, &["id", "emailIds"])?;
    let view = context.store.view();
    let mut all = Vec::new();
    if get.ids.is_none() {
        all = view.threads(account.id, limits::OBJECTS_IN_GET + 1).map_err(|error| fail(&error))?;
        get.prove_all(all.len() as u64)?;
    }
    let state = newest(&context.store, &view, account.id, DataType::Thread)?;
    let all = || all.iter().map(ToString::to_string).collect();
    get.answer(account.id, &state, all, |id| {
        let Ok(thread) = id.parse::<ThreadId>() else { return Ok(None) };
        let emails = view.thread_emails(account.id, thread).map_err(|error| fail(&error))?;
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

pub(super) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let asked = Asked::read(context, arguments)?;
    let found = context.store.view().thread_changes(account.id, asked.since, asked.most);
    let found = found.map_err(|error| fail(&error))?;
    standard::changes(context, account.id, &asked, found).map(Value::Object)
}
