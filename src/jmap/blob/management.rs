//! Blob management (RFC 9404): Blob/upload, Blob/get and Blob/lookup.

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

/// RFC 9404 §3.1 maxDataSources.
pub(in crate::jmap) const MAX_DATA_SOURCES: usize = 64;
/// RFC 9404 §3.1 supportedTypeNames.
pub(in crate::jmap) const LOOKUP_TYPES: [&str; 4] = ["Email", "Thread", "Mailbox", "SieveScript"];
/// How many bytes of blobs one Blob/get returns or digests at most.
const MAX_DATA_BYTES: u64 = 16 * 1024 * 1024;
/// How many emails Blob/lookup returns at most for one blob.
const MAX_EMAILS_WITH_BLOB: usize = 1000;

properties! {
    /// The properties of Blob/get (RFC 9404 §4.2).
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

/// RFC 9404 §3.1 supportedDigestAlgorithms.
pub(in crate::jmap) fn digest_algorithms() -> Vec<&'static str> {
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
        let account = call.account(&args.account_id)?;
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
    let mut has_created = false;
    // An upload may refer to another one of the same call, in any order. Each round makes the
    // uploads that refer to no waiting one. If there are none, the references form a cycle: the
    // last round tries all waiting uploads, and those that lack a source are refused.
    loop {
        let names: BTreeSet<String> = waiting.keys().cloned().collect();
        let (ready, rest): (BTreeMap<_, _>, BTreeMap<_, _>) = waiting
            .into_iter()
            .partition(|(name, object)| !refers_to_waiting(object, &names, name));
        let is_circular = ready.is_empty();
        for (name, object) in if is_circular { rest.clone() } else { ready } {
            let created = match create(call, account, &object) {
                // An error of the whole call would say that nothing was stored (RFC 8620 §3.6.2).
                Err(SetFailure::Call(error)) if has_created => {
                    Err(SetError::ServerFail(error.description()).into())
                }
                outcome => outcome,
            };
            has_created |= created.is_ok();
            done.create(call.created, &name, created)?;
        }
        if is_circular || rest.is_empty() {
            break;
        }
        waiting = rest;
    }
    Ok(done)
}

/// Whether a source of the upload `own` is another upload in `names`. A reference of an upload to
/// itself does not count: it is refused when the upload is made.
fn refers_to_waiting(object: &JsonObject, names: &BTreeSet<String>, own: &str) -> bool {
    let sources = object.get("data").and_then(Value::as_array).into_iter().flatten();
    let mut ids = sources.filter_map(|source| source.get("blobId")?.as_str()?.strip_prefix('#'));
    ids.any(|name| name != own && names.contains(name))
}

/// Makes one upload. Returns `id`, `type` and `size`.
fn create(
    call: &Call<'_>,
    account: &Account,
    object: &JsonObject,
) -> Result<JsonObject, SetFailure> {
    let context = call.context;
    let invalid = |name: &str, what: &str| SetError::property(name, what);
    if let Some(unknown) = object.keys().find(|name| !["data", "type"].contains(&name.as_str())) {
        return Err(invalid(unknown, "there is no such property").into());
    }
    let kind = match object.get("type").filter(|kind| !kind.is_null()) {
        None => None,
        Some(kind) => {
            let parsed = kind.as_str().and_then(media_type);
            Some(parsed.ok_or_else(|| invalid("type", "this is not a media type"))?)
        }
    };
    if context.uploads.refuses(kind.unwrap_or(DEFAULT_MEDIA_TYPE)) {
        return Err(invalid("type", "this server refuses this media type").into());
    }
    let sources = object.get("data").and_then(Value::as_array);
    let sources = sources.ok_or_else(|| invalid("data", "an array of sources is expected"))?;
    if sources.len() > MAX_DATA_SOURCES {
        return Err(invalid("data", "there are too many sources").into());
    }
    context.begin_upload(account.id).map_err(|wait| SetError::RateLimit(wait.to_string()))?;
    let mut bytes = Vec::new();
    for source in sources {
        append(call, account, source, &mut bytes)?;
        if bytes.len() as u64 > max_blob_set(context.uploads.max) {
            return Err(SetError::TooLarge("the blob is larger than maxSizeBlobSet".into()).into());
        }
    }
    context.count_uploaded_bytes(account.id, bytes.len());
    context.budget.charge_stored(bytes.len() as u64)?;
    let id = context.keep_upload(account.id, &bytes, kind.unwrap_or(DEFAULT_MEDIA_TYPE))?;
    Ok(members(json!({"id": id.to_string(), "type": kind, "size": bytes.len()})))
}

/// Returns the size of the largest blob that Blob/upload makes, in bytes (RFC 9404 §3.1
/// maxSizeBlobSet).
pub(in crate::jmap) fn max_blob_set(max_upload: u64) -> u64 {
    max_upload.min(limits::MAX_UPLOAD_BYTES)
}

/// Appends the bytes of a source to `out`. A source is a text, base64, or a range of a blob, which
/// may be another upload of the request.
fn append(
    call: &Call<'_>,
    account: &Account,
    source: &Value,
    out: &mut Vec<u8>,
) -> Result<(), SetFailure> {
    let context = call.context;
    let invalid = |what: &str| SetError::property("data", what);
    let source = source.as_object().ok_or_else(|| invalid("a source is an object"))?;
    let given = |name: &str| source.get(name).filter(|value| !value.is_null());
    let number = |name: &str| match given(name) {
        None => Ok(None),
        Some(value) => {
            value.as_u64().map(Some).ok_or_else(|| invalid("offset and length are whole numbers"))
        }
    };
    match (given("data:asText"), given("data:asBase64"), given("blobId")) {
        (Some(Value::String(text)), None, None) => out.extend_from_slice(text.as_bytes()),
        (None, Some(Value::String(text)), None) => {
            out.extend(STANDARD.decode(text).map_err(|_| invalid("data:asBase64 is not base64"))?);
        }
        (None, None, Some(Value::String(named))) => {
            let id = call.created.resolve(named).and_then(|id| id.parse::<BlobId>().ok());
            let blob = id.map(|id| context.blob(account, &id)).transpose()?.flatten();
            let blob = blob.ok_or_else(|| not_found(named))?;
            let size = context.blob_size(&blob)?;
            let offset = number("offset")?.unwrap_or(0);
            let end = number("length")?.map_or(Some(size), |length| offset.checked_add(length));
            // RFC 9404 §4.1: a range that is not within the blob is an error.
            let end = end.filter(|end| offset <= *end && *end <= size);
            let end = end.ok_or_else(|| invalid("the range is not within the blob"))?;
            if end - offset > limits::MAX_UPLOAD_BYTES {
                return Err(
                    SetError::TooLarge("the blob is larger than maxSizeBlobSet".into()).into()
                );
            }
            out.extend(context.blob_range(blob, offset..end)?);
        }
        _ => {
            return Err(invalid(
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
    #[serde(default)]
    offset: u64,
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
    /// Moves the list, because it is most of the answer.
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
        let account = call.account(&args.account_id)?;
        let ids = distinct_ids(args.ids)?;
        let properties =
            args.properties.unwrap_or_else(|| [BlobProperty::Data, BlobProperty::Size].into());
        let needs_bytes =
            |property: &BlobProperty| !matches!(property, BlobProperty::Id | BlobProperty::Size);
        let (offset, length) = (args.offset, args.length);
        let (mut list, mut not_found, mut bytes_left) = (Vec::new(), Vec::new(), MAX_DATA_BYTES);
        for id in ids {
            let resolved = call.resolve_id(id.clone());
            let found = resolved
                .parse::<BlobId>()
                .ok()
                .map(|blob_id| context.blob(&account, &blob_id))
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
            if properties.iter().any(needs_bytes) {
                let count = end.min(size).saturating_sub(offset);
                bytes_left = bytes_left
                    .checked_sub(count)
                    .ok_or(MethodError::RequestTooLarge("more bytes than one call returns"))?;
                let bytes = context.blob_range(blob, offset..end.min(size).max(offset))?;
                add_data(&mut object, &bytes, &properties);
                // RFC 9404 §4.2: the range ends or begins after the end of the blob.
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

/// Adds the requested data and digests of `bytes`, the requested range. For `data`, adds the text
/// if the bytes are UTF-8, or else base64.
fn add_data(object: &mut JsonObject, bytes: &[u8], properties: &BTreeSet<BlobProperty>) {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
    let text = std::str::from_utf8(bytes);
    for property in properties {
        let (form, value) = match (property, text) {
            (BlobProperty::Id | BlobProperty::Size, _) => continue,
            (BlobProperty::Data | BlobProperty::DataAsText, Ok(text)) => {
                (BlobProperty::DataAsText, text.into())
            }
            (BlobProperty::DataAsText, Err(_)) => (BlobProperty::DataAsText, Value::Null),
            (BlobProperty::Data, Err(_)) | (BlobProperty::DataAsBase64, _) => {
                (BlobProperty::DataAsBase64, STANDARD.encode(bytes).into())
            }
            (BlobProperty::DigestSha1, _) => (*property, digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes)),
            (BlobProperty::DigestSha256, _) => (*property, digest(&SHA256, bytes)),
            (BlobProperty::DigestSha512, _) => (*property, digest(&SHA512, bytes)),
        };
        object.insert(form.name().to_owned(), value);
        if text.is_err() && matches!(property, BlobProperty::Data | BlobProperty::DataAsText) {
            object.insert("isEncodingProblem".into(), true.into());
        }
    }
}

/// Returns the digest in base64.
fn digest(algorithm: &'static aws_lc_rs::digest::Algorithm, bytes: &[u8]) -> Value {
    STANDARD.encode(aws_lc_rs::digest::digest(algorithm, bytes)).into()
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
        let account = call.account(&args.account_id)?;
        let types = distinct(args.type_names);
        if let Some(unknown) = types.iter().find(|name| !LOOKUP_TYPES.contains(&name.as_str())) {
            return Err(MethodError::UnknownDataType(unknown.clone()));
        }
        let (mut list, mut not_found) = (Vec::new(), Vec::new());
        for id in distinct_ids(args.ids)? {
            let resolved = call.resolve_id(id.clone());
            let parsed = resolved.parse::<BlobId>().ok();
            let found = parsed
                .as_ref()
                .map(|blob_id| context.blob(&account, blob_id))
                .transpose()?
                .flatten();
            let Some(blob_id) = parsed.filter(|_| found.is_some()) else {
                not_found.push(id);
                continue;
            };
            context.budget.begin_walk()?;
            let holders = holders(context, &account, &blob_id)?;
            let of = |name: &String| {
                (name.clone(), holders.ids(name).iter().cloned().collect::<Value>())
            };
            let matched: JsonObject = types.iter().map(of).collect();
            let object = json!({"id": resolved, "matchedIds": matched});
            context.budget.add_to_answer(&object)?;
            list.push(object);
        }
        Ok(BlobListAnswer { account_id: account.id.to_string(), list, not_found })
    }
}

/// The objects that contain a blob, and that the caller sees.
#[derive(Default)]
struct Holders {
    emails: BTreeSet<String>,
    threads: BTreeSet<String>,
    mailboxes: BTreeSet<String>,
    scripts: BTreeSet<String>,
}

impl Holders {
    fn ids(&self, name: &str) -> &BTreeSet<String> {
        match name {
            "Email" => &self.emails,
            "Thread" => &self.threads,
            "SieveScript" => &self.scripts,
            _ => &self.mailboxes,
        }
    }
}

/// Finds the objects that contain a blob, as far as the caller sees them.
///
/// - For the blob of an email or of its part: only that email.
/// - For an upload or a part of one: the emails whose message is the upload.
/// - For a whole upload, if the caller is no guest: also the scripts whose source it is.
///
/// Counts the emails as rows of the request's budget.
fn holders(context: &Context, account: &Account, id: &BlobId) -> Result<Holders, Error> {
    let snapshot = context.store.snapshot();
    let rights = Rights::in_account(&snapshot, account)?;
    let emails: Vec<EmailId> = match id.base {
        BlobBase::Email(email) => vec![email],
        BlobBase::Upload(hash) => {
            snapshot.emails_of_blob(account.id, &hash, UtcMillis(0), UtcMillis(i64::MAX))?
        }
    };
    // Also those that a guest does not see, since they are read, too.
    context.budget.search_allowance().count_rows(emails.len());
    let mut holders = Holders::default();
    if let BlobBase::Upload(hash) = id.base
        && id.parts.is_empty()
        && account.guest.is_none()
    {
        let scripts = snapshot.scripts(account.id)?.into_iter();
        let of_blob = scripts.filter(|(_, script)| script.hash == hash);
        holders.scripts = of_blob.map(|(id, _)| id.to_string()).collect();
    }
    for id in emails {
        if holders.emails.len() >= MAX_EMAILS_WITH_BLOB {
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

/// Returns the ids of a call, each once, or `RequestTooLarge` if these are more than
/// `limits::MAX_OBJECTS_IN_GET`.
fn distinct_ids(ids: Vec<String>) -> Result<Vec<String>, MethodError> {
    let ids = distinct(ids);
    if ids.len() > limits::MAX_OBJECTS_IN_GET {
        return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
    }
    Ok(ids)
}
