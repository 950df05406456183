//! Mailbox/get and Mailbox/changes (RFC 8621 §2.1, §2.2).

use serde_json::{Value, json};

use super::{COUNTS, PROPERTIES, Seen, object};
use crate::jmap::context::{Args, Context, fail};
use crate::jmap::rights::{Rights, same_tree_since};
use crate::jmap::standard::{self, Asked, Get, newest};
use crate::model::DataType;
use crate::wire::jmap::{MethodError, PRINCIPALS};

pub(in crate::jmap) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let shown = if arguments.uses(PRINCIPALS) { PROPERTIES.len() } else { PROPERTIES.len() - 1 };
    let mut get = Get::of(arguments, PROPERTIES.get(..shown).unwrap_or(&PROPERTIES))?;
    if get.properties.is_none() {
        get.properties = Some(PROPERTIES.iter().take(shown).map(|name| (*name).to_owned()).collect());
    }
    let view = context.store.view();
    let seen = Seen::of(&view, &account)?;
    get.prove_all(seen.0.len() as u64)?;
    let state = newest(&context.store, &view, account.id, DataType::Mailbox)?;
    let all = || seen.0.keys().map(ToString::to_string).collect();
    get.answer(account.id, &state, all, |id| Ok(seen.get(id).map(|(uid, mailbox)| object(uid, mailbox))))
}

/// All at once, whatever `maxChanges` says of the number: what does not fit cannot be calculated.
pub(in crate::jmap) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let asked = Asked::read(context, arguments)?;
    let view = context.store.view();
    if !same_tree_since(&view, &account, asked.since.mark).map_err(|error| fail(&error))? {
        return Err(MethodError::CannotCalculateChanges);
    }
    let found = view.mailbox_changes(account.id, asked.since.mark).map_err(|error| fail(&error))?;
    let only_counts = found.as_ref().is_some_and(|found| found.only_counts);
    let rights = Rights::of(&view, &account).map_err(|error| fail(&error))?;
    let mut found = found.map(|found| found.changes);
    if let Some(found) = &mut found {
        // Those above the ones that are open to a guest have no counts for him, and nothing else changed.
        found.updated.retain(|uid| rights.reads(*uid));
    }
    let found = found.filter(|all| {
        asked.since.mark == asked.since.base
            && all.created.len() + all.updated.len() + all.destroyed.len() <= asked.most
    });
    let mut answer = standard::changes(context, account.id, &asked, found)?;
    answer.insert("updatedProperties".into(), if only_counts { json!(COUNTS) } else { Value::Null });
    Ok(Value::Object(answer))
}
