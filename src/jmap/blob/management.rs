//! Blob management (RFC 9404): Blob/upload puts octets together of texts and other blobs, Blob/get
//! gives parts of blobs and their digests, Blob/lookup says what they are part of.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::copy::{DEFAULT_MEDIA_TYPE, not_found};
use crate::jmap::context::{Account, Context, distinct};
use crate::jmap::failure::SetFailure;
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::Rights;
use crate::jmap::standard::SetResponse;
use crate::model::{BlobBase, BlobId, EmailId, UtcMillis, limits};
use crate::store::Error;
use crate::wire::http::media_type;
use crate::wire::jmap::json::members;
use crate::wire::jmap::{Answer, JsonObject, MethodError, Property as _, SetError, properties};

/// Sources of one upload (RFC 9404 §3.1 maxDataSources: at least 64).
pub(in crate::jmap) const MAX_DATA_SOURCES: usize = 64;
/// Types of objects that blobs are looked up in (RFC 9404 §3.1 supportedTypeNames).
pub(in crate::jmap) const LOOKUP_TYPES: [&str; 3] = ["Email", "Thread", "Mailbox"];
/// Octets of all blobs that one Blob/get gives.
const MAX_DATA_BYTES: u64 = 16 * 1024 * 1024;
/// Emails that one blob is looked up in.
const MAX_EMAILS_EXAMINED: usize = 1000;

properties! {
    /// What Blob/get gives (RFC 9404 §4.2).
    pub(in crate::jmap) enum BlobProperty {
        Id = "id",
        Data = "data",
        DataAsText = "data:asText",
        DataAsBase64 = "data:asBase64",
        Size = "size",
        DigestSha1 = "digest:sha",
        DigestSha256 = "digest:sha-256",
        DigestSha512 = "digest:sha-512",
    }
}

/// Algorithms of digests (RFC 9404 §3.1 supportedDigestAlgorithms).
pub(in crate::jmap) fn digests() -> Vec<&'static str> {
    BlobProperty::ALL
        .iter()
        .filter_map(|property| property.name().strip_prefix("digest:"))
        .collect()
}

/// Blob/upload (RFC 9404 §4.1).
pub(in crate::jmap) struct BlobUpload;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct BlobUploadArgs {
    account_id: String,
    /// Objects by creation id.
    #[serde(default)]
    create: BTreeMap<String, JsonObject>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct BlobUploadAnswer {
    account_id: String,
    created: Option<JsonObject>,
    not_created: Option<JsonObject>,
}

impl Answer for BlobUploadAnswer {}

impl Method for BlobUpload {
    type Args = BlobUploadArgs;
    type Answer = BlobUploadAnswer;

    fn call(call: &Call<'_>, args: BlobUploadArgs) -> Result<BlobUploadAnswer, MethodError> {
        let account = call.open(&args.account_id, true)?;
        if args.create.len() > limits::MAX_OBJECTS_IN_SET {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        let (created, not_created) = upload(call, &account, args.create)?.into_creations();
        Ok(BlobUploadAnswer { account_id: account.id.to_string(), created, not_created })
    }
}

fn upload(
    call: &Call<'_>,
    account: &Account,
    mut waiting: BTreeMap<String, JsonObject>,
) -> Result<SetResponse, MethodError> {
    let mut done = SetResponse::default();
    let mut is_begun = false;
    // One may be made of another of the same call: whatever order they stand in, those that wait
    // for none come first.
    loop {
        let names: BTreeSet<String> = waiting.keys().cloned().collect();
        let (ready, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            waiting.into_iter().partition(|(name, object)| !refers(object, &names, name));
        let stuck = ready.is_empty();
        for (name, object) in if stuck { rest.clone() } else { ready } {
            let made = match made(call, account, &object) {
                // Once something was kept, no error is of the whole call (RFC 8620 §3.6.2).
                Err(SetFailure::Call(error)) if is_begun => {
                    Err(SetError::ServerFail(error.description()).into())
                }
                made => made,
            };
            is_begun |= made.is_ok();
            done.create(call.created, &name, made)?;
        }
        if stuck || rest.is_empty() {
            break;
        }
        waiting = rest;
    }
    Ok(done)
}

/// Whether an upload is made of another that is still to be made.
fn refers(object: &JsonObject, names: &BTreeSet<String>, own: &str) -> bool {
    let sources = object.get("data").and_then(Value::as_array).into_iter().flatten();
    let mut ids = sources.filter_map(|source| source.get("blobId")?.as_str()?.strip_prefix('#'));
    ids.any(|name| name != own && names.contains(name))
}

fn made(call: &Call<'_>, account: &Account, object: &JsonObject) -> Result<JsonObject, SetFailure> {
    let context = call.context;
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
    if context.uploads.refuses(kind.unwrap_or(DEFAULT_MEDIA_TYPE)) {
        return Err(wrong("type", "this type is not taken here").into());
    }
    let sources = object.get("data").and_then(Value::as_array);
    let sources = sources.ok_or_else(|| wrong("data", "an array of sources is wanted"))?;
    if sources.len() > MAX_DATA_SOURCES {
        return Err(wrong("data", "too many sources").into());
    }
    context.begin_upload(account.id).map_err(|wait| SetError::RateLimit(wait.to_string()))?;
    let mut octets = Vec::new();
    for source in sources {
        append(call, account, source, &mut octets)?;
        if octets.len() as u64 > max_blob_set(context.uploads.max) {
            return Err(SetError::TooLarge("larger than maxSizeBlobSet".into()).into());
        }
    }
    context.count_uploaded_bytes(account.id, octets.len());
    context.budget.charge_stored(octets.len() as u64)?;
    let id = context.keep_upload(account.id, &octets, kind.unwrap_or(DEFAULT_MEDIA_TYPE))?;
    Ok(members(json!({"id": id.to_string(), "type": kind, "size": octets.len()})))
}

/// Bytes of what Blob/upload makes (RFC 9404 §3.1 maxSizeBlobSet): an upload's, but no more than
/// memory should hold.
pub(in crate::jmap) fn max_blob_set(max_upload: u64) -> u64 {
    max_upload.min(limits::MAX_UPLOAD_BYTES)
}

/// Appends what a source gives: a text, base64, or a range of a blob.
fn append(
    call: &Call<'_>,
    account: &Account,
    source: &Value,
    out: &mut Vec<u8>,
) -> Result<(), SetFailure> {
    let context = call.context;
    let wrong = |what: &str| SetError::property("data", what);
    let source = source.as_object().ok_or_else(|| wrong("a source is an object"))?;
    let text = |name: &str| source.get(name).filter(|value| !value.is_null());
    let number = |name: &str| match text(name) {
        None => Ok(None),
        Some(value) => {
            value.as_u64().map(Some).ok_or_else(|| wrong("offset and length are whole numbers"))
        }
    };
    match (text("data:asText"), text("data:asBase64"), text("blobId")) {
        (Some(Value::String(text)), None, None) => out.extend_from_slice(text.as_bytes()),
        (None, Some(Value::String(text)), None) => {
            out.extend(STANDARD.decode(text).map_err(|_| wrong("data:asBase64 is no base64"))?);
        }
        (None, None, Some(Value::String(named))) => {
            let id = call.created.resolve(named).and_then(|id| id.parse::<BlobId>().ok());
            let blob = id.map(|id| context.blob(account, &id)).transpose()?.flatten();
            let blob = blob.ok_or_else(|| not_found(named))?;
            let size = context.blob_size(&blob)?;
            let offset = number("offset")?.unwrap_or(0);
            let end = number("length")?.map_or(Some(size), |length| offset.checked_add(length));
            // RFC 9404 §4.1: a range that is not all within the blob makes no upload.
            let end = end.filter(|end| offset <= *end && *end <= size);
            let end = end.ok_or_else(|| wrong("the range is not within the blob"))?;
            if end - offset > limits::MAX_UPLOAD_BYTES {
                return Err(SetError::TooLarge("larger than maxSizeBlobSet".into()).into());
            }
            out.extend(context.blob_range(blob, offset..end)?);
        }
        _ => {
            return Err(wrong(
                "a source has one of data:asText, data:asBase64 and blobId, as a text",
            )
            .into());
        }
    }
    Ok(())
}

/// Blob/get (RFC 9404 §4.2).
pub(in crate::jmap) struct BlobGet;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct BlobGetArgs {
    account_id: String,
    ids: Vec<String>,
    properties: Option<BTreeSet<BlobProperty>>,
    /// The octets that are given: from here,
    #[serde(default)]
    offset: u64,
    /// and so many.
    length: Option<u64>,
}

/// The answer of Blob/get and Blob/lookup.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct BlobListAnswer {
    account_id: String,
    list: Vec<Value>,
    not_found: Vec<String>,
}

impl Answer for BlobListAnswer {
    /// Moves the list: it is most of the answer.
    fn into_value(self) -> serde_json::Result<Value> {
        let mut answer = JsonObject::new();
        answer.insert("accountId".into(), self.account_id.into());
        answer.insert("list".into(), self.list.into());
        answer.insert("notFound".into(), self.not_found.into());
        Ok(Value::Object(answer))
    }
}

impl Method for BlobGet {
    type Args = BlobGetArgs;
    type Answer = BlobListAnswer;

    fn call(call: &Call<'_>, args: BlobGetArgs) -> Result<BlobListAnswer, MethodError> {
        let context = call.context;
        let account = call.open(&args.account_id, true)?;
        let ids = distinct_ids(args.ids)?;
        let properties =
            args.properties.unwrap_or_else(|| [BlobProperty::Data, BlobProperty::Size].into());
        let is_data =
            |property: &BlobProperty| !matches!(property, BlobProperty::Id | BlobProperty::Size);
        let (offset, length) = (args.offset, args.length);
        let (mut list, mut not_found, mut room) = (Vec::new(), Vec::new(), MAX_DATA_BYTES);
        for id in ids {
            let resolved = call.resolve_id(id.clone());
            let found = resolved
                .parse::<BlobId>()
                .ok()
                .map(|known| context.blob(&account, &known))
                .transpose();
            let Some(blob) = found?.flatten() else {
                not_found.push(id);
                continue;
            };
            let size = context.blob_size(&blob)?;
            let end = length.map_or(size, |length| offset.saturating_add(length));
            let mut object = JsonObject::new();
            object.insert("id".into(), resolved.into());
            if properties.contains(&BlobProperty::Size) {
                object.insert("size".into(), size.into());
            }
            if properties.iter().any(is_data) {
                let given = end.min(size).saturating_sub(offset);
                room = room
                    .checked_sub(given)
                    .ok_or(MethodError::RequestTooLarge("more octets than one call gives"))?;
                let octets = context.blob_range(blob, offset..end.min(size).max(offset))?;
                show(&mut object, &octets, &properties);
                // RFC 9404 §4.2: the range goes beyond the end.
                if end > size || offset > size {
                    object.insert("isTruncated".into(), true.into());
                }
            }
            let object = Value::Object(object);
            context.budget.add_to_answer(&object)?;
            list.push(object);
        }
        Ok(BlobListAnswer { account_id: account.id.to_string(), list, not_found })
    }
}

/// Adds octets to an object in the forms that are asked for.
fn show(object: &mut JsonObject, octets: &[u8], properties: &BTreeSet<BlobProperty>) {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
    let text = std::str::from_utf8(octets);
    for property in properties {
        let (form, value) = match (property, text) {
            (BlobProperty::Id | BlobProperty::Size, _) => continue,
            (BlobProperty::Data | BlobProperty::DataAsText, Ok(text)) => {
                (BlobProperty::DataAsText, text.into())
            }
            (BlobProperty::DataAsText, Err(_)) => (BlobProperty::DataAsText, Value::Null),
            (BlobProperty::Data, Err(_)) | (BlobProperty::DataAsBase64, _) => {
                (BlobProperty::DataAsBase64, STANDARD.encode(octets).into())
            }
            (BlobProperty::DigestSha1, _) => (*property, digest(&SHA1_FOR_LEGACY_USE_ONLY, octets)),
            (BlobProperty::DigestSha256, _) => (*property, digest(&SHA256, octets)),
            (BlobProperty::DigestSha512, _) => (*property, digest(&SHA512, octets)),
        };
        object.insert(form.name().to_owned(), value);
        if text.is_err() && matches!(property, BlobProperty::Data | BlobProperty::DataAsText) {
            object.insert("isEncodingProblem".into(), true.into());
        }
    }
}

/// The digest of octets, in base64.
fn digest(algorithm: &'static aws_lc_rs::digest::Algorithm, octets: &[u8]) -> Value {
    STANDARD.encode(aws_lc_rs::digest::digest(algorithm, octets)).into()
}

/// Blob/lookup (RFC 9404 §4.3).
pub(in crate::jmap) struct BlobLookup;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct BlobLookupArgs {
    account_id: String,
    #[serde(default)]
    type_names: Vec<String>,
    ids: Vec<String>,
}

impl Method for BlobLookup {
    type Args = BlobLookupArgs;
    type Answer = BlobListAnswer;

    fn call(call: &Call<'_>, args: BlobLookupArgs) -> Result<BlobListAnswer, MethodError> {
        let context = call.context;
        let account = call.open(&args.account_id, true)?;
        let types = distinct(args.type_names);
        if let Some(unknown) = types.iter().find(|name| !LOOKUP_TYPES.contains(&name.as_str())) {
            return Err(MethodError::UnknownDataType(unknown.clone()));
        }
        let (mut list, mut not_found) = (Vec::new(), Vec::new());
        for id in distinct_ids(args.ids)? {
            let resolved = call.resolve_id(id.clone());
            let known = resolved.parse::<BlobId>().ok();
            let found =
                known.as_ref().map(|known| context.blob(&account, known)).transpose()?.flatten();
            let Some(known) = known.filter(|_| found.is_some()) else {
                not_found.push(id);
                continue;
            };
            let holders = holders(context, &account, &known)?;
            let of = |name: &String| {
                (name.clone(), holders.ids(name).iter().cloned().collect::<Value>())
            };
            list.push(
                json!({"id": resolved, "matchedIds": types.iter().map(of).collect::<JsonObject>()}),
            );
        }
        Ok(BlobListAnswer { account_id: account.id.to_string(), list, not_found })
    }
}

/// What a blob is part of.
#[derive(Default)]
struct Holders {
    emails: BTreeSet<String>,
    threads: BTreeSet<String>,
    mailboxes: BTreeSet<String>,
}

impl Holders {
    /// The ids of a type of `LOOKUP_TYPES`.
    fn ids(&self, name: &str) -> &BTreeSet<String> {
        match name {
            "Email" => &self.emails,
            "Thread" => &self.threads,
            _ => &self.mailboxes,
        }
    }
}

fn holders(context: &Context, account: &Account, id: &BlobId) -> Result<Holders, Error> {
    let snapshot = context.store.snapshot();
    let rights = Rights::of(&snapshot, account)?;
    let emails: Vec<EmailId> = match id.base {
        BlobBase::Email(email) => vec![email],
        BlobBase::Upload(hash) => {
            snapshot.emails_of_blob(account.id, &hash, UtcMillis(0), UtcMillis(i64::MAX))?
        }
    };
    let mut holders = Holders::default();
    for id in emails {
        if holders.emails.len() >= MAX_EMAILS_EXAMINED {
            break;
        }
        if let Some(email) =
            snapshot.email(account.id, id)?.and_then(|email| rights.visible_part(email))
        {
            holders.emails.insert(id.to_string());
            holders.threads.insert(email.thread.to_string());
            holders.mailboxes.extend(email.mailboxes.iter().map(ToString::to_string));
        }
    }
    Ok(holders)
}

/// The ids of a call, each once.
///
/// # Errors
/// `requestTooLarge`.
fn distinct_ids(ids: Vec<String>) -> Result<Vec<String>, MethodError> {
    let ids = distinct(ids);
    if ids.len() > limits::MAX_OBJECTS_IN_GET {
        return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
    }
    Ok(ids)
}
