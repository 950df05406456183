//! Mailbox/get and Mailbox/changes (RFC 8621 §2.1, §2.2).

use serde_json::{Value, json};

use super::{COUNTS, PROPERTIES, Seen, object};
use crate::jmap::context::{Args, Context, fail};
use crate::jmap::standard::{self, Asked, Get, newest};
use crate::model::DataType;
use crate::wire::jmap::MethodError;

pub(in crate::jmap) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let get = Get::of(arguments, &PROPERTIES)?;
    let view = context.store.view();
    let seen = Seen::of(&view, &account)?;
    get.prove_all(seen.0.len() as u64)?;
    let state = newest(&context.store, &view, account.id, DataType::Mailbox)?;
    let all = || seen.0.keys().map(ToString::to_string).collect();
    get.answer(account.id, &state, all, |id| Ok(seen.get(id).map(|(uid, mailbox)| object(uid, mailbox))))
}

/// All at once, whatever `maxChanges` says of the number: what does not fit cannot be calculated.
pub(in crate::jmap) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let asked = Asked::read(context, arguments)?;
    let view = context.store.view();
    let found = view.mailbox_changes(account.id, asked.since.mark).map_err(|error| fail(&error))?;
    let only_counts = found.as_ref().is_some_and(|found| found.only_counts);
    let found = found.map(|found| found.changes).filter(|all| {
        asked.since.mark == asked.since.base
            && all.created.len() + all.updated.len() + all.destroyed.len() <= asked.most
    });
    let mut answer = standard::changes(context, account.id, &asked, found)?;
    answer.insert("updatedProperties".into(), if only_counts { json!(COUNTS) } else { Value::Null });
    Ok(Value::Object(answer))
}
