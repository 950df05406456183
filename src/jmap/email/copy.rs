//! Email/copy (RFC 8621 §4.7, RFC 8620 §5.4): emails of another account, and the Email/set that may follow by itself.

use serde_json::{Map, Value, json};

use super::filing::{self, Filing};
use super::keep::{Commits, NewMessage, keep};
use crate::jmap::context::{Account, Args, Context};
use crate::jmap::failure::SetFailure;
use crate::jmap::method::FollowUpCall;
use crate::jmap::rights::Rights;
use crate::jmap::standard::{InvalidProperties, SetResponse, newest, state};
use crate::model::{DataType, EmailId, ModSeq, limits};
use crate::wire::jmap::{MethodError, SetError};

pub(in crate::jmap) fn copy(
    context: &Context,
    arguments: &Args<'_>,
) -> Result<(Value, Option<FollowUpCall>), MethodError> {
    let from = context.open_other(arguments, "fromAccountId", MethodError::FromAccountNotFound)?;
    let account = context.open_shared(arguments)?;
    if from.id == account.id {
        return Err(MethodError::InvalidArguments("accountId: it must not be that of fromAccountId".into()));
    }
    if arguments.get("create").is_none() {
        return Err(MethodError::InvalidArguments("create: an object is wanted".into()));
    }
    let create = arguments.objects("create")?;
    if create.len() > limits::OBJECTS_IN_SET {
        return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
    }
    let destroy = arguments.flag("onSuccessDestroyOriginal")?;
    let destroy_if = arguments.maybe_text("destroyFromIfInState")?;
    if let Some(wanted) = arguments.maybe_text("ifFromInState")? {
        let now = newest(&context.store, &context.store.view(), from.id, DataType::Email)?;
        if now != wanted {
            return Err(MethodError::StateMismatch);
        }
    }
    let wanted = arguments.maybe_text("ifInState")?;
    let is_right = |now| wanted.as_ref().is_none_or(|wanted| *wanted == state(&context.store, now));
    let (mut commits, mut done, mut copied) = (Commits::default(), SetResponse::default(), Vec::new());
    for (name, object) in &create {
        let made = one(context, (&from, &account), arguments, &mut commits, is_right, object);
        match made {
            Ok((original, kept)) => {
                done.created(arguments.created(), name, kept);
                copied.push(Value::from(original.to_string()));
            }
            Err(failure) => done.not_created(name, &commits.of_one(failure).object()?),
        }
    }
    let stand = commits.stand(&context.store.view(), &account, is_right)?;
    let answer = done.answer(context, &account, stand);
    let answer = json!({
        "fromAccountId": from.id.to_string(), "accountId": answer["accountId"], "oldState": answer["oldState"],
        "newState": answer["newState"], "created": answer["created"], "notCreated": answer["notCreated"],
    });
    let mut follows = Map::new();
    follows.insert("accountId".into(), from.id.to_string().into());
    follows.insert("ifInState".into(), json!(destroy_if));
    let any = destroy && !copied.is_empty();
    follows.insert("destroy".into(), Value::Array(copied));
    Ok((answer, any.then_some(FollowUpCall { name: "Email/set", arguments: follows })))
}

fn one(
    context: &Context,
    (from, account): (&Account, &Account),
    arguments: &Args<'_>,
    commits: &mut Commits,
    is_right: impl Fn(ModSeq) -> bool,
    object: &Map<String, Value>,
) -> Result<(EmailId, Map<String, Value>), SetFailure> {
    let mut wrong = InvalidProperties::default();
    for unknown in object.keys().filter(|name| *name != "id" && !filing::NAMES.contains(&name.as_str())) {
        wrong.add(unknown, "a copy cannot have another");
    }
    let id = object.get("id").and_then(Value::as_str).unwrap_or_default();
    if id.is_empty() {
        wrong.add("id", "an id is wanted");
    }
    let filing = Filing::read(arguments, object, &mut wrong)?;
    wrong.finish()?;
    context.budget.file(0)?;
    let id = arguments.created().resolve(id).and_then(|id| id.parse::<EmailId>().ok()).ok_or(SetError::NotFound)?;
    let (email, prefix, raw) = {
        let view = context.store.view();
        let rights = Rights::of(&view, from)?;
        let email = view.email(from.id, id)?.filter(|email| rights.sees(email));
        let email = email.ok_or(SetError::NotFound)?;
        let (prefix, _) = view.content(from.id, id)?.ok_or(SetError::NotFound)?;
        context.budget.read(email.size)?;
        let raw = view.received(&email.blob)?.ok_or(SetError::NotFound)?;
        (email, prefix, raw)
    };
    let message = NewMessage {
        raw: &raw,
        prefix: &prefix,
        filing: &filing,
        keywords: email.keywords,
        received_at: email.received_at,
        once: true,
    };
    Ok((id, keep(context, account, commits, is_right, &message)?.object_changed(&filing)))
}
