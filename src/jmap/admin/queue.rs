//! The queued actions.

use serde_json::{Value, json};

use crate::jmap::context::{Args, Context, date, fail};
use crate::model::{AccountId, Action, ActionId, ActionState};
use crate::outbox::NOT_SENT;
use crate::wire::jmap::MethodError;

pub(super) fn list(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let one = arguments.get("accountId").is_some() || arguments.get("account").is_some();
    let accounts = if one {
        let (id, row) = context.account(arguments)?;
        vec![(id, row.name)]
    } else {
        context.admin_only()?;
        let all = context.directory.list().map_err(|error| fail(&error))?;
        all.into_iter().map(|(id, row, _)| (id, row.name)).collect()
    };
    let view = context.store.view();
    let mut list = Vec::new();
    for (id, name) in accounts {
        let actions = view.outbox(id).map_err(|error| fail(&error))?;
        list.extend(actions.iter().map(|action| describe(id, &name, action)));
    }
    Ok(json!({ "list": list }))
}

fn describe(account: AccountId, name: &str, action: &Action) -> Value {
    let state = match action.state {
        ActionState::Waiting => "waiting",
        ActionState::Attempting => "attempting",
        ActionState::Held => "held",
    };
    json!({
        "id": action.id.to_string(), "accountId": account.to_string(), "account": name, "state": state,
        "recipient": action.recipient.to_string(), "created": date(Some(action.created)), "due": date(Some(action.due)),
        "expires": date(Some(action.expires)), "attempts": action.attempts, "lastError": action.last_error,
        "messageId": action.message_id, "emailId": action.email.map(|id| id.to_string()),
    })
}

fn which(context: &Context, arguments: &Args<'_>) -> Result<(AccountId, ActionId), MethodError> {
    let (account, _) = context.account(arguments)?;
    let id = arguments.text("id")?.parse().map_err(|_| MethodError::NotFound("no such action".into()))?;
    Ok((account, id))
}

pub(super) fn retry(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, id) = which(context, arguments)?;
    let done = context.store.commit(account, |txn| {
        let action = txn.action(id)?;
        if action.state == ActionState::Attempting {
            return Err(crate::store::Error::Conflict("it is being tried just now".into()));
        }
        let due = txn.now();
        txn.update_action(&Action { due, state: ActionState::Waiting, ..action })
    });
    finish(done)
}

pub(super) fn remove(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, id) = which(context, arguments)?;
    finish(context.store.commit(account, |txn| {
        let action = txn.remove_action(id)?;
        txn.take_back_answer(&action, NOT_SENT, "removed by hand")
    }))
}

fn finish(done: Result<((), crate::store::Ticket), crate::store::Error>) -> Result<Value, MethodError> {
    let ((), ticket) = done.map_err(|error| fail(&error))?;
    ticket.wait_blocking().map_err(|error| fail(&error))?;
    Ok(json!({}))
}
