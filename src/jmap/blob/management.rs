//! Blob management (RFC 9404): Blob/upload puts octets together of texts and other blobs, Blob/get gives parts of blobs and
//! their digests, Blob/lookup says what they are part of.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::copy::{OCTETS, not_found};
use crate::jmap::context::{Account, Args, Context};
use crate::jmap::failure::SetFailure;
use crate::jmap::rights::Rights;
use crate::jmap::standard::SetResponse;
use crate::model::{BlobBase, BlobId, EmailId, UtcMillis, limits};
use crate::store::Error;
use crate::wire::http::media_type;
use crate::wire::jmap::json::members;
use crate::wire::jmap::{MethodError, SetError};

/// Sources of one upload (RFC 9404 §3.1 maxDataSources: at least 64).
pub(in crate::jmap) const DATA_SOURCES: usize = 64;
/// Algorithms of digests (RFC 9404 §3.1 supportedDigestAlgorithms).
pub(in crate::jmap) const DIGESTS: [&str; 3] = ["sha", "sha-256", "sha-512"];
/// Types of objects that blobs are looked up in (RFC 9404 §3.1 supportedTypeNames).
pub(in crate::jmap) const LOOKED_UP: [&str; 3] = ["Email", "Thread", "Mailbox"];
/// Octets of all blobs that one Blob/get gives.
const MAX_DATA_BYTES: u64 = 16 * 1024 * 1024;
/// Emails that one blob is looked up in.
const MAX_EMAILS_EXAMINED: usize = 1000;

/// Blob/upload (RFC 9404 §4.1).
pub(in crate::jmap) fn upload(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let mut waiting = arguments.objects("create")?;
    if waiting.len() > limits::OBJECTS_IN_SET {
        return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
    }
    let mut done = SetResponse::default();
    let mut is_begun = false;
    // One may be made of another of the same call: whatever order they stand in, those that wait for none come first.
    loop {
        let names: BTreeSet<String> = waiting.iter().map(|(name, _)| name.clone()).collect();
        let (ready, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(name, object)| !refers(object, &names, name));
        let stuck = ready.is_empty();
        for (name, object) in if stuck { rest.clone() } else { ready } {
            let made = match made(context, arguments, &account, &object) {
                // Once something was kept, no error is of the whole call (RFC 8620 §3.6.2).
                Err(SetFailure::Call(error)) if is_begun => Err(SetError::ServerFail(error.description()).into()),
                made => made,
            };
            is_begun |= made.is_ok();
            done.create(arguments.created(), &name, made)?;
        }
        if stuck || rest.is_empty() {
            break;
        }
        waiting = rest;
    }
    let outcomes = done.outcomes();
    Ok(json!({
        "accountId": account.id.to_string(), "created": outcomes["created"], "notCreated": outcomes["notCreated"],
    }))
}

/// Whether an upload is made of another that is still to be made.
fn refers(object: &Map<String, Value>, names: &BTreeSet<String>, own: &str) -> bool {
    let sources = object.get("data").and_then(Value::as_array).into_iter().flatten();
    let mut ids = sources.filter_map(|source| source.get("blobId")?.as_str()?.strip_prefix('#'));
    ids.any(|name| name != own && names.contains(name))
}

fn made(
    context: &Context,
    arguments: &Args<'_>,
    account: &Account,
    object: &Map<String, Value>,
) -> Result<Map<String, Value>, SetFailure> {
    let wrong = |name: &str, what: &str| SetError::property(name, what);
    if let Some(unknown) = object.keys().find(|name| !["data", "type"].contains(&name.as_str())) {
        return Err(wrong(unknown, "no such property").into());
    }
    let kind = match object.get("type").filter(|kind| !kind.is_null()) {
        None => None,
        Some(kind) => {
            let known = kind.as_str().and_then(media_type);
            Some(known.ok_or_else(|| wrong("type", "no media type"))?)
        }
    };
    if context.uploads.refuses(kind.unwrap_or(OCTETS)) {
        return Err(wrong("type", "this type is not taken here").into());
    }
    let sources = object.get("data").and_then(Value::as_array);
    let sources = sources.ok_or_else(|| wrong("data", "an array of sources is wanted"))?;
    if sources.len() > DATA_SOURCES {
        return Err(wrong("data", "too many sources").into());
    }
    context.begin_upload(account.id).map_err(|wait| SetError::RateLimit(wait.to_string()))?;
    let mut octets = Vec::new();
    for source in sources {
        append(context, arguments, account, source, &mut octets)?;
        if octets.len() as u64 > max_blob_set(context.uploads.max) {
            return Err(SetError::TooLarge("larger than maxSizeBlobSet".into()).into());
        }
    }
    context.upload_came(account.id, octets.len());
    context.budget.file(octets.len() as u64)?;
    let id = context.keep_upload(account.id, &octets, kind.unwrap_or(OCTETS))?;
    Ok(members(json!({"id": id.to_string(), "type": kind, "size": octets.len()})))
}

/// Bytes of what Blob/upload makes (RFC 9404 §3.1 maxSizeBlobSet): an upload's, but no more than memory should hold.
pub(in crate::jmap) fn max_blob_set(max_upload: u64) -> u64 {
    max_upload.min(limits::UPLOAD_OCTETS)
}

/// Appends what a source gives: a text, base64, or a range of a blob.
fn append(
    context: &Context,
    arguments: &Args<'_>,
    account: &Account,
    source: &Value,
    out: &mut Vec<u8>,
) -> Result<(), SetFailure> {
    let wrong = |what: &str| SetError::property("data", what);
    let source = source.as_object().ok_or_else(|| wrong("a source is an object"))?;
    let text = |name: &str| source.get(name).filter(|value| !value.is_null());
    let number = |name: &str| match text(name) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| wrong("offset and length are whole numbers")),
    };
    match (text("data:asText"), text("data:asBase64"), text("blobId")) {
        (Some(Value::String(text)), None, None) => out.extend_from_slice(text.as_bytes()),
        (None, Some(Value::String(text)), None) => {
            out.extend(STANDARD.decode(text).map_err(|_| wrong("data:asBase64 is no base64"))?);
        }
        (None, None, Some(Value::String(named))) => {
            let id = arguments.created().resolve(named).and_then(|id| id.parse::<BlobId>().ok());
            let blob = id.map(|id| context.blob(account, &id)).transpose()?.flatten();
            let blob = blob.ok_or_else(|| not_found(named))?;
            let size = context.blob_size(&blob)?;
            let offset = number("offset")?.unwrap_or(0);
            let end = number("length")?.map_or(Some(size), |length| offset.checked_add(length));
            // RFC 9404 §4.1: a range that is not all within the blob makes no upload.
            let end = end.filter(|end| offset <= *end && *end <= size);
            let end = end.ok_or_else(|| wrong("the range is not within the blob"))?;
            if end - offset > limits::UPLOAD_OCTETS {
                return Err(SetError::TooLarge("larger than maxSizeBlobSet".into()).into());
            }
            out.extend(context.blob_range(blob, offset..end)?);
        }
        _ => return Err(wrong("a source has one of data:asText, data:asBase64 and blobId, as a text").into()),
    }
    Ok(())
}

/// Blob/get (RFC 9404 §4.2).
pub(in crate::jmap) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let ids = ids(arguments)?;
    let properties = match arguments.get("properties") {
        None => vec!["data".to_owned(), "size".to_owned()],
        Some(_) => arguments.distinct("properties")?,
    };
    let known = |name: &str| {
        ["id", "data", "data:asText", "data:asBase64", "size"].contains(&name)
            || name.strip_prefix("digest:").is_some_and(|algorithm| DIGESTS.contains(&algorithm))
    };
    if let Some(unknown) = properties.iter().find(|name| !known(name)) {
        return Err(MethodError::InvalidArguments(format!("properties: {unknown} is no property")));
    }
    let (offset, length) = (arguments.number("offset")?.unwrap_or(0), arguments.number("length")?);
    let (mut list, mut missing, mut room) = (Vec::new(), Vec::new(), MAX_DATA_BYTES);
    for id in ids {
        let resolved = arguments.created().resolve(&id).unwrap_or_else(|| id.clone());
        let found = resolved.parse::<BlobId>().ok().map(|known| context.blob(&account, &known)).transpose();
        let Some(blob) = found?.flatten() else {
            missing.push(Value::from(id));
            continue;
        };
        let size = context.blob_size(&blob)?;
        let end = length.map_or(size, |length| offset.saturating_add(length));
        let mut object = json!({"id": resolved});
        if properties.iter().any(|name| name == "size") {
            object["size"] = size.into();
        }
        if properties.iter().any(|name| name.starts_with("data") || name.starts_with("digest:")) {
            let given = end.min(size).saturating_sub(offset);
            room = room.checked_sub(given).ok_or(MethodError::RequestTooLarge("more octets than one call gives"))?;
            let octets = context.blob_range(blob, offset..end.min(size).max(offset))?;
            shown(&mut object, &octets, &properties);
            // RFC 9404 §4.2: the range goes beyond the end.
            if end > size || offset > size {
                object["isTruncated"] = true.into();
            }
        }
        context.budget.tell(&object)?;
        list.push(object);
    }
    Ok(json!({"accountId": account.id.to_string(), "list": list, "notFound": missing}))
}

/// Octets in the forms that are asked for.
fn shown(object: &mut Value, octets: &[u8], properties: &[String]) {
    let text = std::str::from_utf8(octets);
    for name in properties {
        match (name.as_str(), text) {
            ("data", Ok(text)) | ("data:asText", Ok(text)) => object["data:asText"] = text.into(),
            ("data:asText", Err(_)) => {
                object["data:asText"] = Value::Null;
                object["isEncodingProblem"] = true.into();
            }
            ("data", Err(_)) => {
                object["data:asBase64"] = STANDARD.encode(octets).into();
                object["isEncodingProblem"] = true.into();
            }
            ("data:asBase64", _) => object["data:asBase64"] = STANDARD.encode(octets).into(),
            _ => {
                if let Some(algorithm) = name.strip_prefix("digest:") {
                    object[name] = digest(algorithm, octets).into();
                }
            }
        }
    }
}

/// The digest of octets, in base64.
fn digest(algorithm: &str, octets: &[u8]) -> String {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
    let algorithm = match algorithm {
        "sha" => &SHA1_FOR_LEGACY_USE_ONLY,
        "sha-512" => &SHA512,
        _ => &SHA256,
    };
    STANDARD.encode(digest(algorithm, octets))
}

/// Blob/lookup (RFC 9404 §4.3).
pub(in crate::jmap) fn lookup(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let types = arguments.distinct("typeNames")?;
    if let Some(unknown) = types.iter().find(|name| !LOOKED_UP.contains(&name.as_str())) {
        return Err(MethodError::UnknownDataType(unknown.clone()));
    }
    let (mut list, mut missing) = (Vec::new(), Vec::new());
    for id in ids(arguments)? {
        let resolved = arguments.created().resolve(&id).unwrap_or_else(|| id.clone());
        let Ok(known) = resolved.parse::<BlobId>() else {
            missing.push(Value::from(id));
            continue;
        };
        let held = context.blob(&account, &known)?.is_some();
        if !held {
            missing.push(Value::from(id));
            continue;
        }
        let matched = holders(context, &account, &known)?;
        let of = |name: &String| {
            let ids = match name.as_str() {
                "Email" => &matched.emails,
                "Thread" => &matched.threads,
                _ => &matched.mailboxes,
            };
            (name.clone(), ids.iter().cloned().collect::<Vec<String>>().into())
        };
        list.push(json!({"id": resolved, "matchedIds": types.iter().map(of).collect::<Map<String, Value>>()}));
    }
    Ok(json!({"accountId": account.id.to_string(), "list": list, "notFound": missing}))
}

/// What a blob is part of.
#[derive(Default)]
struct Holders {
    emails: BTreeSet<String>,
    threads: BTreeSet<String>,
    mailboxes: BTreeSet<String>,
}

fn holders(context: &Context, account: &Account, id: &BlobId) -> Result<Holders, Error> {
    let view = context.store.view();
    let rights = Rights::of(&view, account)?;
    let emails: Vec<EmailId> = match id.base {
        BlobBase::Email(email) => vec![email],
        BlobBase::Upload(hash) => view.emails_of_blob(account.id, &hash, UtcMillis(0), UtcMillis(i64::MAX))?,
    };
    let mut holders = Holders::default();
    for id in emails {
        if holders.emails.len() >= MAX_EMAILS_EXAMINED {
            break;
        }
        if let Some(email) = view.email(account.id, id)?.and_then(|email| rights.seen(email)) {
            holders.emails.insert(id.to_string());
            holders.threads.insert(email.thread.to_string());
            holders.mailboxes.extend(email.mailboxes.iter().map(ToString::to_string));
        }
    }
    Ok(holders)
}

/// The `ids` of a call; they must be named.
fn ids(arguments: &Args<'_>) -> Result<Vec<String>, MethodError> {
    if arguments.get("ids").is_none() {
        return Err(MethodError::InvalidArguments("ids: an array of ids is wanted".into()));
    }
    let ids = arguments.distinct("ids")?;
    if ids.len() > limits::OBJECTS_IN_GET {
        return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
    }
    Ok(ids)
}
