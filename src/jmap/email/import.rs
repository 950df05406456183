//! Email/import (RFC 8621 §4.8).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::blobs::octets;
use super::filing::{self, Filing};
use super::keep::{Commits, NewMessage, keep};
use crate::jmap::context::{Account, Args, Context};
use crate::jmap::failure::SetFailure;
use crate::jmap::standard::{InvalidProperties, SetResponse, state};
use crate::message::header::{first, is_message};
use crate::message::parse::date;
use crate::model::{UtcMillis, limits};
use crate::wire::jmap::{MethodError, SetError};

pub(in crate::jmap) fn import(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    if arguments.get("emails").is_none() {
        return Err(MethodError::InvalidArguments("emails: an object is wanted".into()));
    }
    let emails = arguments.objects("emails")?;
    if emails.len() > limits::OBJECTS_IN_SET {
        return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
    }
    let wanted = arguments.maybe_text("ifInState")?;
    let is_right = |now| wanted.as_ref().is_none_or(|wanted| *wanted == state(&context.store, now));
    let (mut commits, mut done) = (Commits::default(), SetResponse::default());
    for (name, object) in &emails {
        let kept = one(context, &account, arguments, &mut commits, is_right, object);
        done.create(arguments.created(), name, kept.map_err(|error| commits.of_one(error)))?;
    }
    let stand = commits.stand(&context.store.view(), &account, is_right)?;
    let answer = done.answer(context, &account, stand);
    Ok(json!({
        "accountId": answer["accountId"], "oldState": answer["oldState"], "newState": answer["newState"],
        "created": answer["created"], "notCreated": answer["notCreated"],
    }))
}

fn one(
    context: &Context,
    account: &Account,
    arguments: &Args<'_>,
    commits: &mut Commits,
    is_right: impl Fn(crate::model::ModSeq) -> bool,
    object: &Map<String, Value>,
) -> Result<Map<String, Value>, SetFailure> {
    let mut wrong = InvalidProperties::default();
    for unknown in object.keys().filter(|name| *name != "blobId" && !filing::NAMES.contains(&name.as_str())) {
        wrong.add(unknown, "no such property");
    }
    let blob = object.get("blobId").and_then(Value::as_str).unwrap_or_default();
    if blob.is_empty() {
        wrong.add("blobId", "an id is wanted");
    }
    let filing = Filing::read(arguments, object, &mut wrong)?;
    wrong.finish()?;
    context.budget.file(0)?;
    let blob = arguments.created().resolve(blob).unwrap_or_default();
    let raw = octets(context, account, &blob)?;
    // RFC 8621 §4.8: an id that is not found is invalid as any other value.
    let raw = raw.ok_or_else(|| SetError::property("blobId", "there is no such blob"))?;
    if raw.len() as u64 > limits::MESSAGE_OCTETS {
        return Err(SetError::TooLarge(format!("more than {} octets", limits::MESSAGE_OCTETS)).into());
    }
    if !is_message(&raw) {
        return Err(SetError::of("invalidEmail", "it has no header of a message").into());
    }
    let received_at = received(&raw).unwrap_or_else(|| context.store.clock().now());
    let message =
        NewMessage { raw: &raw, prefix: &[], filing: &filing, keywords: BTreeSet::new(), received_at, once: true };
    Ok(keep(context, account, commits, is_right, &message)?.object_changed(&filing))
}

/// When the topmost Received field says that it came.
fn received(raw: &[u8]) -> Option<UtcMillis> {
    let field = first(raw, "Received")?;
    let at = field.value.iter().rposition(|octet| *octet == b';')?;
    Some(date(field.value.get(at + 1..)?)?.at)
}
