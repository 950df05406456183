//! Email/import (RFC 8621 §4.8).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::filing::Filing;
use super::keep::{Commits, NewMessage, keep};
use crate::jmap::context::Account;
use crate::jmap::failure::SetFailure;
use crate::jmap::method::{Call, Method};
use crate::jmap::standard::{SetResponse, state};
use crate::message::header::{first, is_message};
use crate::message::parse::date;
use crate::model::{UtcMillis, limits};
use crate::wire::jmap::{Answer, JsonObject, MethodError, SetError};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct EmailImportArgs {
    account_id: String,
    if_in_state: Option<String>,
    /// By creation id.
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
        let (context, account) = (call.context, call.open(&args.account_id, true)?);
        if args.emails.len() > limits::MAX_OBJECTS_IN_SET {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        let wanted = args.if_in_state;
        let is_right =
            |now| wanted.as_ref().is_none_or(|wanted| *wanted == state(&context.store, now));
        let (mut commits, mut done) = (Commits::default(), SetResponse::default());
        for (name, object) in &args.emails {
            let kept = one(call, &account, &mut commits, is_right, object);
            done.create(call.created, name, kept.map_err(|error| commits.of_one(error)))?;
        }
        let stand = commits.stand(&context.store.snapshot(), &account, is_right)?;
        let answer = done.into_answer(context, &account, stand);
        Ok(EmailImportAnswer {
            account_id: answer.account_id,
            old_state: answer.old_state,
            new_state: answer.new_state,
            created: answer.created,
            not_created: answer.not_created,
        })
    }
}

fn one(
    call: &Call<'_>,
    account: &Account,
    commits: &mut Commits,
    is_right: impl Fn(crate::model::ModSeq) -> bool,
    object: &JsonObject,
) -> Result<JsonObject, SetFailure> {
    let context = call.context;
    let (blob, filing) = Filing::with_source(call.created, object, "blobId", "no such property")?;
    context.budget.charge_stored(0)?;
    let blob = call.created.resolve(blob).unwrap_or_default();
    let raw = context.bytes_by_id(account, &blob)?;
    // RFC 8621 §4.8: an id that is not found is invalid as any other value.
    let raw = raw.ok_or_else(|| SetError::property("blobId", "there is no such blob"))?;
    if raw.len() as u64 > limits::MAX_MESSAGE_BYTES {
        return Err(
            SetError::TooLarge(format!("more than {} octets", limits::MAX_MESSAGE_BYTES)).into()
        );
    }
    if !is_message(&raw) {
        return Err(SetError::of("invalidEmail", "it has no header of a message").into());
    }
    let received_at = received(&raw).unwrap_or_else(|| context.store.clock().now());
    let message = NewMessage {
        raw: &raw,
        prefix: &[],
        filing: &filing,
        keywords: BTreeSet::new(),
        received_at,
        once: true,
    };
    Ok(keep(context, account, commits, is_right, &message)?.object_changed(&filing))
}

/// When the topmost Received field says that it came.
fn received(raw: &[u8]) -> Option<UtcMillis> {
    let field = first(raw, "Received")?;
    let at = field.value.iter().rposition(|octet| *octet == b';')?;
    Some(date(field.value.get(at + 1..)?)?.at)
}
