//! /get, /changes, /query and /queryChanges of small objects (`store::commit::objects`): identities, submissions, share
//! notifications. They differ in what an object is, and in which of them match.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{ChangesArguments, GetArguments, newest, query_changes, section, since};
use crate::jmap::context::{Account, Args, Context};
use crate::model::{DataType, ObjectId};
use crate::store::{Object, Snapshot};
use crate::wire::jmap::MethodError;

/// The type whose state is theirs.
fn data<T: Object>() -> Result<DataType, MethodError> {
    T::KIND.data().ok_or_else(|| MethodError::ServerFail("objects without a state have none to tell of".into()))
}

/// The objects of an account; each has these properties, as `object` makes them.
///
/// # Errors
/// Those of `GetArguments`, and of reading.
pub(in crate::jmap) fn get<T: Object>(
    context: &Context,
    account: &Account,
    arguments: &Args<'_>,
    properties: &[&str],
    object: impl Fn(ObjectId, &T) -> Map<String, Value>,
) -> Result<Value, MethodError> {
    let get = GetArguments::of(arguments, properties)?;
    let view = context.store.view();
    let mut all = Vec::new();
    if get.ids.is_none() {
        all = view.objects::<T>(account.id)?;
        get.prove_all(all.len() as u64)?;
    }
    let state = newest(&context.store, &view, account.id, data::<T>()?)?;
    let ids = || all.iter().map(|(id, _)| id.to_string()).collect();
    get.answer(context, account.id, &state, ids, |id| {
        let Ok(known) = id.parse::<ObjectId>() else {
            return Ok(None);
        };
        let found = view.object::<T>(account.id, known)?;
        Ok(found.map(|found| object(known, &found)))
    })
}

/// What changed of them.
///
/// # Errors
/// Those of `ChangesArguments` and `changes`, and of reading.
pub(in crate::jmap) fn changes<T: Object>(
    context: &Context,
    account: &Account,
    arguments: &Args<'_>,
) -> Result<Value, MethodError> {
    let asked = ChangesArguments::read(context, arguments)?;
    let found = context.store.view().object_changes::<T>(account.id, asked.since, asked.most);
    let found = found?;
    super::changes(context, account.id, &asked, found).map(Value::Object)
}

/// Those that match, in order: the section that is asked for.
///
/// # Errors
/// Those of `section` and `results`, and of reading.
pub(in crate::jmap) fn query<T: Object>(
    context: &Context,
    account: &Account,
    arguments: &Args<'_>,
    results: impl FnOnce(&Snapshot<'_>) -> Result<Vec<String>, MethodError>,
) -> Result<Value, MethodError> {
    let view = context.store.view();
    let state = newest(&context.store, &view, account.id, data::<T>()?)?;
    section(arguments, account.id, &state, &results(&view)?)
}

/// What changed of the results.
///
/// # Errors
/// `cannotCalculateChanges`; those of `query_changes` and `results`, and of reading.
pub(in crate::jmap) fn queried<T: Object>(
    context: &Context,
    account: &Account,
    arguments: &Args<'_>,
    results: impl FnOnce(&Snapshot<'_>) -> Result<Vec<String>, MethodError>,
) -> Result<Value, MethodError> {
    let from = since(&context.store, &arguments.text("sinceQueryState")?).ok_or(MethodError::CannotCalculateChanges)?;
    let view = context.store.view();
    let state = newest(&context.store, &view, account.id, data::<T>()?)?;
    let changes = view.object_changes::<T>(account.id, from, usize::MAX);
    let changes = changes?.ok_or(MethodError::CannotCalculateChanges)?;
    let moved = [changes.created, changes.updated, changes.destroyed].concat();
    let moved: BTreeSet<String> = moved.iter().map(ToString::to_string).collect();
    query_changes(arguments, account.id, &state, &results(&view)?, &moved)
}
