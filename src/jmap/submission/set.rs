//! EmailSubmission/set (RFC 8621 §7.5): sends an email by creating a submission for it.
//!
//! - One commit stores a submission and the action that carries it.
//! - The message is sent without its Bcc fields.
//! - An Email/set that follows the call updates or destroys the emails of submissions that the call
//!   created, updated or destroyed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::envelope::{check_size, checked_envelope, envelope_error};
use super::{SubmissionProperty, object};
use crate::jmap::context::Account;
use crate::jmap::email;
use crate::jmap::failure::{SetFailure, TxnResult};
use crate::jmap::identity::{self, SenderAddresses};
use crate::jmap::method::{Call, FollowUpCall, Method};
use crate::jmap::standard::{InvalidProperties, SetArguments};
use crate::message::header;
use crate::model::{
    Action, BlobHash, DataType, EmailId, EmailSubmission, ObjectId, SenderIdentity,
    SubmissionRecipient, UndoStatus, limits,
};
use crate::outbox::HELD;
use crate::outbox::submission::{SubmissionOrder, parse_envelope};
use crate::store::Txn;
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{JsonObject, MethodError, Patch, SetError, With};

pub(in crate::jmap) struct SubmissionSet;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct OnSuccessArgs {
    /// Patches of emails, by the id of the submission, or by `#` and its creation id.
    #[serde(default)]
    on_success_update_email: BTreeMap<String, JsonObject>,
    /// The submissions whose emails are destroyed, by id, or by `#` and creation id.
    #[serde(default)]
    on_success_destroy_email: Vec<String>,
}

impl Method for SubmissionSet {
    type Args = With<SetArgs, OnSuccessArgs>;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, With(args, on_success): Self::Args) -> Result<SetAnswer, MethodError> {
        set(call, args, on_success)
    }
}

fn set(
    call: &Call<'_>,
    args: SetArgs,
    on_success: OnSuccessArgs,
) -> Result<SetAnswer, MethodError> {
    let context = call.context;
    let account = call.managed_account(&args.account_id)?;
    let set = SetArguments::read(call.created, args)?;
    on_success.check_count()?;
    identity::refresh(context, &account)?;
    let senders = SenderAddresses::read(context, &account)?;
    let mut prepared = Vec::with_capacity(set.create.len());
    for (name, properties) in &set.create {
        let submission = match prepare(call, &account, &senders, properties) {
            Ok(submission) => Ok(submission),
            Err(failure) => Err(failure.object()?),
        };
        prepared.push((name, submission));
    }
    let checkpoint = call.created.checkpoint();
    let (done, states, emails) =
        set.commit_each(context, &account, DataType::EmailSubmission, |txn, done| {
            call.created.restore(&checkpoint);
            let mut emails: BTreeMap<String, EmailId> = BTreeMap::new();
            for (name, new) in &prepared {
                let new = new.as_ref().map_err(|error| SetFailure::Object(error.clone()));
                let created = new.and_then(|new| new.submit(txn));
                let created = created.map(|(id, submission)| {
                    emails.insert(format!("#{name}"), submission.email);
                    emails.insert(id.to_string(), submission.email);
                    created_properties(id, &submission)
                });
                done.create(call.created, name, created)?;
            }
            for (id, patch) in &set.update {
                let email = update(txn, id, patch);
                emails.extend(email.iter().map(|email| (id.clone(), *email)));
                done.update(id, email.map(|_| JsonObject::new()))?;
            }
            for id in &set.destroy {
                let email = destroy(txn, id);
                emails.extend(email.iter().map(|email| (id.clone(), *email)));
                done.destroy(id, email.map(drop))?;
            }
            Ok(emails)
        })?;
    if let Some(next) = on_success.follow_up(&account, call, &emails) {
        call.follow_with(next);
    }
    Ok(done.into_answer(context, &account, states))
}

/// Returns all properties but `identityId` and `emailId`, which the client always sends.
fn created_properties(id: ObjectId, submission: &EmailSubmission) -> JsonObject {
    let is_known = |property: &SubmissionProperty| {
        matches!(property, SubmissionProperty::IdentityId | SubmissionProperty::EmailId)
    };
    let properties: Vec<_> =
        SubmissionProperty::ALL.iter().copied().filter(|property| !is_known(property)).collect();
    object(id, submission, &properties)
}

/// A submission that was checked and can be stored.
struct NewSubmission {
    submission: EmailSubmission,
    order: SubmissionOrder,
    message_id: String,
    blob: BlobHash,
    /// The bytes of the message, if Bcc was removed from it; `None` if it is sent as it is stored.
    bytes: Option<Vec<u8>>,
    /// Whether the whole queue is held.
    is_held: bool,
}

type CreatedSubmission = (ObjectId, EmailSubmission);

impl NewSubmission {
    fn submit(&self, txn: &mut Txn<'_>) -> TxnResult<CreatedSubmission> {
        let Self { submission, order, message_id, blob, bytes, is_held } = self;
        if txn.snapshot().email(txn.account(), submission.email)?.is_none() {
            return Err(SetError::property("emailId", "there is no such email").into());
        }
        let queued =
            order.clone().into_action(submission.email, *blob, message_id.clone(), txn.now());
        let action = Action { last_error: is_held.then(|| HELD.into()), ..queued.action };
        let message = bytes.as_deref().map(|bytes| (blob, bytes));
        let (id, _) = txn.submit(submission, action, &queued.bytes, message)?;
        let stored = txn.snapshot().object::<EmailSubmission>(txn.account(), id)?;
        Ok((id, stored.unwrap_or_else(|| submission.clone())))
    }
}

/// The zero value of Go's `time.Time`.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// Checks a submission that is to be created, before the commit.
fn prepare(
    call: &Call<'_>,
    account: &Account,
    senders: &SenderAddresses,
    properties: &JsonObject,
) -> Result<NewSubmission, SetFailure> {
    let context = call.context;
    let mut problems = InvalidProperties::default();
    let settable =
        |name: &str| matches!(name, "identityId" | "emailId" | "envelope" | "undoStatus");
    // The client aerc sends the zero value of its language instead of no time.
    let is_no_time =
        |name: &str| name == "sendAt" && properties.get(name).is_some_and(|at| at == NO_TIME);
    for name in properties.keys().filter(|name| !settable(name) && !is_no_time(name)) {
        problems.add(name, "this property cannot be set");
    }
    // The client meli sends `final`. The answer says `pending`.
    let statuses = [UndoStatus::Pending, UndoStatus::Final].map(UndoStatus::name);
    let status = properties.get("undoStatus").filter(|status| !status.is_null());
    if status.is_some_and(|status| !statuses.iter().any(|accepted| status == accepted)) {
        problems.add("undoStatus", "a submission starts as pending");
    }
    let id = |name: &str| properties.get(name)?.as_str().and_then(|id| call.created.resolve(id));
    let snapshot = context.store.snapshot();
    // If an id is missing or malformed, the default id is looked up, which no object has.
    let identity_id =
        id("identityId").and_then(|id| id.parse::<ObjectId>().ok()).unwrap_or_default();
    let identity = snapshot.object::<SenderIdentity>(account.id, identity_id)?;
    let email = id("emailId").and_then(|id| id.parse::<EmailId>().ok()).unwrap_or_default();
    let metadata = snapshot.email(account.id, email)?;
    let content = snapshot.content(account.id, email)?;
    for (name, missing) in
        [("identityId", identity.is_none()), ("emailId", metadata.is_none() || content.is_none())]
    {
        if missing {
            problems.add(name, "the id of an existing object is expected");
        }
    }
    let (Some(identity), Some((metadata, (_, content)))) = (&identity, metadata.zip(content))
    else {
        return Err(problems.finish().err().unwrap_or(SetError::NotFound).into());
    };
    check_size(metadata.size, limits::MAX_MESSAGE_BYTES)?;
    let lost = || SetError::ServerFail("the message of the email is lost".into());
    let head = email::message_head(context, &snapshot, &metadata.blob)?;
    let mut raw = head.ok_or_else(lost)?;
    // This check uses the function that removes Bcc below, so that both find the same fields. If
    // only the removal found a Bcc, the message would be sent without its body, which is not read
    // yet.
    let has_bcc = matches!(header::without_fields(&raw, &["Bcc"]), Cow::Owned(_));
    // RFC 8621 §7.5: Bcc is not sent. A message without this field is sent as it is stored. A
    // head of `MAX_HEADER_BYTES` may be cut, so the whole message is read.
    if has_bcc || raw.len() >= limits::MAX_HEADER_BYTES {
        context.budget.charge_read(metadata.size)?;
        raw = snapshot.raw_message(&metadata.blob)?.ok_or_else(lost)?;
    }
    let (mail_from, rcpt_to) =
        checked_envelope(senders, identity, (&raw, &content), properties.get("envelope"))?;
    problems.finish()?;
    let now = context.store.clock().now();
    let order =
        parse_envelope(&mail_from, &rcpt_to, now, limits::MAX_RECIPIENTS, limits::MAX_DELAYED_SEND)
            .map_err(envelope_error)?;
    let (blob, bytes) = match header::without_fields(&raw, &["Bcc"]) {
        Cow::Borrowed(_) => (metadata.blob, None),
        Cow::Owned(bytes) => {
            context.budget.charge_stored(bytes.len() as u64)?;
            (BlobHash(*blake3::hash(&bytes).as_bytes()), Some(bytes))
        }
    };
    let rcpt_to = rcpt_to
        .into_iter()
        .map(|path| SubmissionRecipient { path, ..SubmissionRecipient::default() });
    let message_id = content.message_id.first().cloned().unwrap_or_default();
    let submission = EmailSubmission {
        identity: identity_id,
        email,
        thread: metadata.thread,
        message_id: message_id.clone(),
        mail_from,
        rcpt_to: rcpt_to.collect(),
        send_at: order.send_at,
        ..EmailSubmission::default()
    };
    let mark = snapshot.queue_mark()?;
    let is_held = mark.is_some_and(|mark| mark.held.is_some());
    Ok(NewSubmission { submission, order, message_id, blob, bytes, is_held })
}

/// Cancels a submission, the only change that is allowed. Returns its email.
fn update(txn: &mut Txn<'_>, id: &str, patch: &Value) -> TxnResult<EmailId> {
    let id: ObjectId = id.parse().map_err(|_| SetError::NotFound)?;
    let found = txn.snapshot().object::<EmailSubmission>(txn.account(), id)?;
    let submission = found.ok_or(SetError::NotFound)?;
    let before = object(id, &submission, SubmissionProperty::ALL);
    let mut is_canceled = false;
    for (property, value) in Patch::new_values(patch, &before)? {
        if before.get(&property) == Some(&value) {
            continue;
        }
        if property != "undoStatus" {
            return Err(SetError::property(&property, "this property cannot be changed").into());
        }
        if value.as_str() != Some(UndoStatus::Canceled.name()) {
            return Err(SetError::property(
                "undoStatus",
                "undoStatus can only be changed to canceled",
            )
            .into());
        }
        is_canceled = true;
    }
    // Only after all properties are checked: a refused update must change nothing.
    if is_canceled && !txn.cancel_submission(id).map_err(SetFailure::Call)? {
        let reason = "the message is already being sent or was sent";
        return Err(SetError::other("cannotUnsend", reason).into());
    }
    Ok(submission.email)
}

/// Destroys a submission, whose message is still sent (RFC 8621 §7.5). Returns its email.
fn destroy(txn: &mut Txn<'_>, id: &str) -> TxnResult<EmailId> {
    let id = id.parse().map_err(|_| SetError::NotFound)?;
    Ok(txn.destroy_object::<EmailSubmission>(id)?.email)
}

impl OnSuccessArgs {
    fn check_count(&self) -> Result<(), MethodError> {
        if self.on_success_update_email.len() + self.on_success_destroy_email.len()
            > limits::MAX_OBJECTS_IN_SET
        {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        Ok(())
    }

    /// Returns the Email/set that makes the changes of emails; `None` if there are none to make.
    /// `emails` are those of the submissions that were created, updated or destroyed: by the id of
    /// the submission, and for a created one also by `#` and its creation id.
    fn follow_up(
        self,
        account: &Account,
        call: &Call<'_>,
        emails: &BTreeMap<String, EmailId>,
    ) -> Option<FollowUpCall> {
        let email = |id: &str| {
            let email = emails.get(id).or_else(|| emails.get(&call.created.resolve(id)?));
            email.map(ToString::to_string)
        };
        let update = self.on_success_update_email.into_iter();
        let update: JsonObject =
            update.filter_map(|(id, patch)| Some((email(&id)?, Value::Object(patch)))).collect();
        let destroy: Vec<Value> = self
            .on_success_destroy_email
            .iter()
            .filter_map(|id| email(id).map(Value::String))
            .collect();
        if update.is_empty() && destroy.is_empty() {
            return None;
        }
        let mut arguments = JsonObject::new();
        arguments.insert("accountId".into(), account.id.to_string().into());
        arguments.insert("update".into(), Value::Object(update));
        arguments.insert("destroy".into(), Value::Array(destroy));
        Some(FollowUpCall { name: "Email/set", arguments })
    }
}
