//! Who was told: by the account's own response, in its present generation, and by its scripts.

use serde_json::{Value, json};

use crate::jmap::context::{Args, Context, address, date};
use crate::model::limits;
use crate::vacation::{Handle, told_key};
use crate::wire::jmap::MethodError;

pub(super) fn list(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let limit =
        arguments.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(limits::MAX_TOLD_SENDERS);
    let told = context.store.snapshot().told_rows(account, limit.min(limits::MAX_TOLD_SENDERS))?;
    let mut list = Vec::with_capacity(told.len());
    for told in told {
        let (sender, script) = (told.sender.to_string(), told.generation.is_none());
        let row = json!({"at": date(Some(told.at)), "sender": sender, "script": script, "until": date(told.until)});
        context.budget.tell(&row)?;
        list.push(row);
    }
    Ok(json!({ "list": list }))
}

/// Who is forgotten is answered anew.
pub(super) fn forget(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let all = arguments.flag("all")?;
    let sender = arguments.maybe_text("sender")?.map(|text| address(&text)).transpose()?;
    let who = match (all, sender) {
        (true, None) => None,
        (false, Some(sender)) => Some(told_key(&context.store.secrets().told, &Handle::Response, &sender)),
        _ => return Err(MethodError::InvalidArguments("either sender or all is wanted".into())),
    };
    let done = context.store.commit(account, |txn| match &who {
        Some(who) => txn.remove_told(who).map(u64::from),
        None => {
            let told = txn.state().told;
            txn.forget_told().map(|()| told)
        }
    });
    let (forgotten, ticket) = done?;
    ticket.wait_blocking()?;
    if forgotten == 0 && !all {
        return Err(MethodError::NotFound("that sender was not told in this vacation".into()));
    }
    Ok(json!({ "forgotten": forgotten }))
}
