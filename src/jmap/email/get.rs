//! Email/get (RFC 8621 §4.2). What a list shows comes from the rows; the message itself is read once, and only for what is
//! in it alone.

use serde_json::{Map, Value};

use super::body::{Bodies, TracedMessage};
use super::property::{CONTENT, METADATA, RequestedProperties, USUAL_BODY};
use crate::jmap::context::{Account, Args, Context};
use crate::jmap::guest;
use crate::jmap::rights::Rights;
use crate::jmap::standard::{self, ChangesArguments, GetArguments, newest};
use crate::message::header;
use crate::model::{BlobHash, BlobId, DataType, EmailId, limits};
use crate::query::{Query, QuerySpec, Window, query};
use crate::store::Snapshot;
use crate::wire::jmap::MethodError;

pub(in crate::jmap) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let asked = ChangesArguments::read(context, arguments)?;
    let view = context.store.view();
    let found = match account.guest {
        None => view.email_changes(account.id, asked.since, asked.most),
        Some(_) => guest::email_changes(&view, &account, asked.since, asked.most),
    };
    let found = found?;
    standard::changes(context, account.id, &asked, found).map(Value::Object)
}

pub(in crate::jmap) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let mut get = GetArguments::read(arguments)?;
    let usual = || METADATA.iter().chain(&CONTENT).chain(&USUAL_BODY).map(|name| (*name).to_owned()).collect();
    let names = get.properties.take().unwrap_or_else(usual);
    let (wanted, bodies) = (RequestedProperties::read(&names)?, Bodies::read(context, arguments)?);
    get.properties = Some(names);
    let view = context.store.view();
    let rights = Rights::of(&view, &account)?;
    let mut all = Vec::new();
    if get.ids.is_none() {
        all = newest_emails(context, &view, (&account, &rights), false)?;
        get.prove_all(all.len() as u64)?;
    }
    let state = newest(&context.store, &view, account.id, DataType::Email)?;
    let all = || all.iter().map(ToString::to_string).collect();
    get.answer(context, account.id, &state, all, |id| match id.parse() {
        Ok(id) => object(context, &view, (&account, &rights), id, (&wanted, &bodies)),
        Err(_) => Ok(None),
    })
}

/// The newest emails that the caller sees, or the newest of each thread: one more than a /get may give, if there are so many.
///
/// # Errors
/// Those of reading.
pub(in crate::jmap) fn newest_emails(
    context: &Context,
    view: &Snapshot<'_>,
    (account, rights): (&Account, &Rights),
    collapse: bool,
) -> Result<Vec<EmailId>, MethodError> {
    let results = QuerySpec { account: account.id, collapse, scope: rights.scope(), ..QuerySpec::default() };
    let window = Window { limit: Some(limits::OBJECTS_IN_GET + 1), ..Window::default() };
    let found = query(view, context.store.secrets(), &Query { results, window, total: false });
    Ok(found?.answer.ids)
}

/// The beginning of a message with its whole header, or the first `limits::HEADER_BYTES` of it.
/// Charged to the request.
///
/// # Errors
/// Those of reading; `requestTooLarge`.
pub(in crate::jmap) fn head(
    context: &Context,
    view: &Snapshot<'_>,
    blob: &BlobHash,
) -> Result<Option<Vec<u8>>, MethodError> {
    let head = view.received_until(blob, &header::ends)?;
    context.budget.read(head.as_ref().map_or(0, |head| head.len() as u64))?;
    Ok(head)
}

/// The properties of one email.
pub(super) fn object(
    context: &Context,
    view: &Snapshot<'_>,
    (account, rights): (&Account, &Rights),
    id: EmailId,
    (wanted, bodies): (&RequestedProperties, &Bodies),
) -> Result<Option<Map<String, Value>>, MethodError> {
    let email = view.email(account.id, id)?;
    let Some(email) = email.and_then(|email| rights.seen(email)) else {
        return Ok(None);
    };
    let blob = BlobId::email(id);
    let mut object = Map::new();
    wanted.of_metadata(&id.to_string(), &blob.to_string(), &email, &mut object);
    if !wanted.content() && !wanted.message() {
        return Ok(Some(object));
    }
    let lost = || MethodError::ServerFail(format!("{id} is not whole: run `restante check`"));
    let (prefix, content) = view.content(account.id, id)?.ok_or_else(lost)?;
    wanted.of_content(&content, &mut object);
    if wanted.body() {
        context.budget.read(email.size)?;
        let raw = view.received(&email.blob)?.ok_or_else(lost)?;
        bodies.of(wanted, TracedMessage { prefix: &prefix, raw: &raw, blob: &blob }, &mut object)?;
    } else if wanted.message() {
        let head = head(context, view, &email.blob)?.ok_or_else(lost)?;
        bodies.of_header(wanted, TracedMessage { prefix: &prefix, raw: &head, blob: &blob }, &mut object)?;
    }
    Ok(Some(object))
}
