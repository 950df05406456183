//! Email/import (RFC 8621 §4.8): creates emails from blobs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::commits::{Commits, NewMessage, file_message};
use super::filing::Filing;
use crate::jmap::context::Account;
use crate::jmap::failure::SetFailure;
use crate::jmap::method::{Call, Method};
use crate::jmap::standard::{SetResponse, state};
use crate::message::header::{first, is_message};
use crate::message::parse::date;
use crate::model::{ModSeq, UtcMillis, limits};
use crate::wire::jmap::{Answer, JsonObject, MethodError, SetError};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct EmailImportArgs {
    account_id: String,
    if_in_state: Option<String>,
    /// The emails to be made, by creation id.
    emails: BTreeMap<String, JsonObject>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct EmailImportAnswer {
    account_id: String,
    old_state: String,
    new_state: String,
    created: Option<JsonObject>,
    not_created: Option<JsonObject>,
}

impl Answer for EmailImportAnswer {}

pub(in crate::jmap) struct EmailImport;

impl Method for EmailImport {
    type Args = EmailImportArgs;
    type Answer = EmailImportAnswer;

    fn call(call: &Call<'_>, args: EmailImportArgs) -> Result<EmailImportAnswer, MethodError> {
        let (context, account) = (call.context, call.account(&args.account_id)?);
        if args.emails.len() > limits::MAX_OBJECTS_IN_SET {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        let expected = args.if_in_state;
        let is_expected =
            |now| expected.as_ref().is_none_or(|expected| *expected == state(&context.store, now));
        let (mut commits, mut response) = (Commits::default(), SetResponse::default());
        for (name, object) in &args.emails {
            let created = import_email(call, &account, &mut commits, is_expected, object);
            let created = created.map_err(|error| commits.object_failure(error));
            response.create(call.created, name, created)?;
        }
        let states = commits.into_states(&context.store.snapshot(), &account, is_expected)?;
        let answer = response.into_answer(context, &account, states);
        Ok(EmailImportAnswer {
            account_id: answer.account_id,
            old_state: answer.old_state,
            new_state: answer.new_state,
            created: answer.created,
            not_created: answer.not_created,
        })
    }
}

fn import_email(
    call: &Call<'_>,
    account: &Account,
    commits: &mut Commits,
    is_expected: impl Fn(ModSeq) -> bool,
    object: &JsonObject,
) -> Result<JsonObject, SetFailure> {
    let context = call.context;
    let (blob, filing) = Filing::with_source(call.created, object, "blobId", "no such property")?;
    // Refuses the email before the blob is read if nothing more may be stored.
    context.budget.charge_stored(0)?;
    let blob = call.created.resolve(blob).unwrap_or_default();
    let raw = context.bytes_by_id(account, &blob)?;
    // RFC 8621 §4.8: the error is `invalidProperties`, not `blobNotFound`.
    let raw = raw.ok_or_else(|| SetError::property("blobId", "there is no such blob"))?;
    if raw.len() as u64 > limits::MAX_MESSAGE_BYTES {
        return Err(
            SetError::TooLarge(format!("more than {} bytes", limits::MAX_MESSAGE_BYTES)).into()
        );
    }
    if !is_message(&raw) {
        return Err(SetError::other(
            "invalidEmail",
            "the blob does not begin with the header of a message",
        )
        .into());
    }
    let received_at = newest_received_time(&raw).unwrap_or_else(|| context.store.clock().now());
    let message = NewMessage {
        raw: &raw,
        prefix: &[],
        filing: &filing,
        keywords: BTreeSet::new(),
        received_at,
        refuse_duplicate: true,
    };
    let email = file_message(context, account, commits, is_expected, &message)?;
    Ok(email.object_with_changed_date(&filing))
}

/// Returns the time in the topmost Received field.
fn newest_received_time(raw: &[u8]) -> Option<UtcMillis> {
    let field = first(raw, "Received")?;
    let at = field.value.iter().rposition(|byte| *byte == b';')?;
    Some(date(field.value.get(at + 1..)?)?.at)
}
