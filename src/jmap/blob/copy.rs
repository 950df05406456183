//! Blob/copy (RFC 8620 §6.3): stores blobs of one account as uploads in another.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::jmap::context::{Account, Context};
use crate::jmap::failure::SetFailure;
use crate::jmap::method::{Call, Method};
use crate::model::{AccountId, BlobBase, BlobId, limits};
use crate::store::Error;
use crate::wire::jmap::{Answer, JsonObject, MethodError, SetError};

pub(super) const DEFAULT_MEDIA_TYPE: &str = "application/octet-stream";

pub(in crate::jmap) struct BlobCopy;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct BlobCopyArgs {
    from_account_id: String,
    account_id: String,
    blob_ids: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct BlobCopyAnswer {
    from_account_id: String,
    account_id: String,
    /// The new ids, by the ids in the account from which the blobs are copied.
    copied: Option<BTreeMap<String, String>>,
    /// Errors, by the same ids.
    not_copied: Option<JsonObject>,
}

impl Answer for BlobCopyAnswer {}

impl Method for BlobCopy {
    type Args = BlobCopyArgs;
    type Answer = BlobCopyAnswer;

    fn call(call: &Call<'_>, args: BlobCopyArgs) -> Result<BlobCopyAnswer, MethodError> {
        let context = call.context;
        let from = call.account(&args.from_account_id).map_err(|error| match error {
            MethodError::AccountNotFound => MethodError::FromAccountNotFound,
            other => other,
        })?;
        let to = call.account(&args.account_id)?;
        if args.blob_ids.len() > limits::MAX_OBJECTS_IN_SET {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        let (mut copied, mut not_copied) = (BTreeMap::new(), JsonObject::new());
        for id in args.blob_ids {
            let parsed = call.resolve_id(id.clone()).parse::<BlobId>().ok();
            if let Err(wait) = context.begin_upload(to.id) {
                not_copied.insert(id, SetError::RateLimit(wait.to_string()).object());
                continue;
            }
            let outcome = match parsed {
                Some(blob_id) => copy(context, &from, to.id, &blob_id),
                None => Err(SetError::NotFound.into()),
            };
            // An error of the whole call would say that nothing was copied (RFC 8620 §3.6.2).
            let error = match outcome {
                Ok(new) => {
                    copied.insert(id, new.to_string());
                    continue;
                }
                Err(SetFailure::Object(error)) => error,
                Err(SetFailure::Call(error)) => SetError::ServerFail(error.description()),
            };
            not_copied.insert(id, error.object());
        }
        Ok(BlobCopyAnswer {
            from_account_id: from.id.to_string(),
            account_id: to.id.to_string(),
            copied: Some(copied).filter(|all| !all.is_empty()),
            not_copied: Some(not_copied).filter(|all| !all.is_empty()),
        })
    }
}

fn copy(
    context: &Context,
    from: &Account,
    to: AccountId,
    id: &BlobId,
) -> Result<BlobId, SetFailure> {
    let blob = context.blob(from, id)?.ok_or(SetError::NotFound)?;
    let media_type = blob.media_type().unwrap_or(DEFAULT_MEDIA_TYPE).to_owned();
    let hash = match id.base {
        BlobBase::Upload(hash) if id.parts.is_empty() && blob.is_upload() => hash,
        _ => {
            // A larger blob counts as not found. `MAX_MESSAGE_BYTES` is only the default limit of
            // a delivery: twice as much leaves room for sites that accept larger messages.
            let bytes = context
                .blob_bytes(from, id, limits::MAX_MESSAGE_BYTES * 2)?
                .ok_or(SetError::NotFound)?;
            context.count_uploaded_bytes(to, bytes.len());
            context.budget.charge_stored(bytes.len() as u64)?;
            return Ok(context.keep_upload(to, &bytes, &media_type)?);
        }
    };
    let user = context.uploader(to);
    // The bytes of an upload are already stored, so they are not read, counted or charged. The
    // commit may fail because the row of these bytes changes meanwhile. After the third time, the
    // blob counts as not found.
    for _ in 0..3 {
        let max_bytes = limits::MAX_UPLOADED_BYTES;
        let (_, ticket) =
            context.store.commit(to, |txn| txn.hold_upload(user, &hash, &media_type, max_bytes))?;
        match ticket.wait_blocking() {
            Err(Error::Overtaken(_)) => {}
            result => return Ok(result.map(|()| BlobId::upload(hash))?),
        }
    }
    Err(SetError::NotFound.into())
}

pub(super) fn not_found(id: &str) -> SetError {
    SetError::BlobNotFound(vec![id.to_owned()])
}
