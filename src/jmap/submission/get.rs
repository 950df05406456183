//! `EmailSubmission`/get and /changes (RFC 8621 §7.1, §7.2).

use serde_json::Value;

use super::{PROPERTIES, object};
use crate::jmap::context::{Args, Context, fail};
use crate::jmap::standard::{self, Asked, Get, newest};
use crate::model::{DataType, EmailSubmission, ObjectId};
use crate::wire::jmap::MethodError;

pub(in crate::jmap) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let get = Get::of(arguments, &PROPERTIES)?;
    let view = context.store.view();
    let mut all = Vec::new();
    if get.ids.is_none() {
        all = view.objects::<EmailSubmission>(account.id).map_err(|error| fail(&error))?;
        get.prove_all(all.len() as u64)?;
    }
    let state = newest(&context.store, &view, account.id, DataType::EmailSubmission)?;
    let ids = || all.iter().map(|(id, _)| id.to_string()).collect();
    get.answer(account.id, &state, ids, |id| {
        let Ok(known) = id.parse::<ObjectId>() else { return Ok(None) };
        let found = view.object::<EmailSubmission>(account.id, known).map_err(|error| fail(&error))?;
        Ok(found.map(|submission| object(known, &submission)))
    })
}

pub(in crate::jmap) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let asked = Asked::read(context, arguments)?;
    let found = context.store.view().object_changes::<EmailSubmission>(account.id, asked.since, asked.most);
    let found = found.map_err(|error| fail(&error))?;
    standard::changes(context, account.id, &asked, found).map(Value::Object)
}
