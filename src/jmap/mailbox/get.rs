//! Mailbox/get and Mailbox/changes (RFC 8621 §2.1, §2.2).

use serde_json::{Value, json};

use super::{COUNTS, UNREAD_THREADS, VisibleMailboxes, object, properties};
use crate::jmap::context::{Args, Context};
use crate::jmap::email::listings;
use crate::jmap::guest::{self, newest};
use crate::jmap::standard::{self, ChangesArguments, GetArguments};
use crate::model::DataType;
use crate::wire::jmap::MethodError;

pub(in crate::jmap) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let shown = properties(arguments);
    let mut get = GetArguments::of(arguments, &shown)?;
    get.properties.get_or_insert_with(|| shown.into_iter().map(str::to_owned).collect());
    let view = context.store.view();
    let mut seen = VisibleMailboxes::of(&view, &account)?;
    get.prove_all(seen.0.len() as u64)?;
    let state = newest(context, &view, &account, DataType::Mailbox)?;
    let is_wanted = get.properties.iter().flatten().any(|name| name == UNREAD_THREADS);
    if is_wanted && get.ids.as_ref().is_none_or(|ids| ids.iter().any(|id| seen.get(id).is_some())) {
        let unread = seen.count_unread(&view, &account, &context.budget)?;
        listings::follow_unread(&context.store, account.id, &unread);
    }
    let all = || seen.0.keys().map(ToString::to_string).collect();
    get.answer(context, account.id, &state, all, |id| Ok(seen.get(id).map(|(uid, mailbox)| object(uid, mailbox))))
}

pub(in crate::jmap) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let asked = ChangesArguments::read(context, arguments)?;
    let view = context.store.view();
    let (found, only_counts) = match account.guest {
        None => {
            let found = view.mailbox_changes(account.id, asked.since, asked.most)?;
            found.map_or((None, false), |found| (Some(found.changes), found.only_counts))
        }
        Some(_) => {
            let seen = VisibleMailboxes::of(&view, &account)?;
            let is_same = seen.is_same_since(&view, &account, asked.since.base)?;
            let found =
                if is_same { guest::mailbox_changes(&view, &account, asked.since, asked.most) } else { Ok(None) };
            let found = found?;
            let is_any = found.as_ref().is_some_and(|found| !found.updated.is_empty());
            (found, is_any)
        }
    };
    let mut answer = standard::changes(context, account.id, &asked, found)?;
    answer.insert("updatedProperties".into(), if only_counts { json!(COUNTS) } else { Value::Null });
    Ok(Value::Object(answer))
}
