//! `EmailSubmission`/set (RFC 8621 §7.5): to send an email is to make a submission of it.
//!
//! What the answer says was made stands in the queue: the submission and the action that carries it
//! are one commit. What is sent is the email's message without its Bcc fields. Where a submission
//! is done, its email can be changed or destroyed with it: that is an Email/set of its own, which
//! follows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::envelope::{bad, prove, prove_size};
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
use crate::outbox::submission::{SubmissionOrder, order};
use crate::store::Txn;
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{JsonObject, MethodError, Patch, SetError, With};

pub(in crate::jmap) struct SubmissionSet;

/// What is to be done with the emails of submissions that are done.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct OnSuccessArgs {
    /// Patches by submission.
    #[serde(default)]
    on_success_update_email: BTreeMap<String, JsonObject>,
    #[serde(default)]
    on_success_destroy_email: Vec<String>,
}

impl Method for SubmissionSet {
    type Args = With<SetArgs, OnSuccessArgs>;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, With(args, follow): Self::Args) -> Result<SetAnswer, MethodError> {
        set(call, args, follow)
    }
}

fn set(call: &Call<'_>, args: SetArgs, follow: OnSuccessArgs) -> Result<SetAnswer, MethodError> {
    let context = call.context;
    let account = call.open(&args.account_id, false)?;
    let set = SetArguments::of(call.created, args)?;
    follow.prove()?;
    identity::refresh(context, &account)?;
    let senders = SenderAddresses::of(context, &account)?;
    // What needs reading is read before the account is locked.
    let mut parcels = Vec::with_capacity(set.create.len());
    for (name, properties) in &set.create {
        let parcel = prepare(call, &account, &senders, properties);
        let parcel = match parcel {
            Ok(parcel) => Ok(parcel),
            Err(failure) => Err(failure.object()?),
        };
        parcels.push((name, parcel));
    }
    let known = call.created.checkpoint();
    let (done, states, emails) =
        set.commit_each(context, &account, DataType::EmailSubmission, |txn, done| {
            call.created.restore(&known);
            // Of which emails the submissions are that were made, changed or removed.
            let mut emails: BTreeMap<String, EmailId> = BTreeMap::new();
            for (name, parcel) in &parcels {
                let sent = parcel.as_ref().map_err(|error| SetFailure::Object(error.clone()));
                let sent = sent.and_then(|parcel| parcel.send(txn));
                let made = sent.map(|(id, submission)| {
                    emails.insert(format!("#{name}"), submission.email);
                    emails.insert(id.to_string(), submission.email);
                    told(id, &submission)
                });
                done.create(call.created, name, made)?;
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
    if let Some(next) = follow.next(&account, call, &emails) {
        call.follow_with(next);
    }
    Ok(done.into_answer(context, &account, states))
}

/// What the client does not know of a submission that was made.
fn told(id: ObjectId, submission: &EmailSubmission) -> JsonObject {
    let is_known = |property: &SubmissionProperty| {
        matches!(property, SubmissionProperty::IdentityId | SubmissionProperty::EmailId)
    };
    let told: Vec<_> =
        SubmissionProperty::ALL.iter().copied().filter(|property| !is_known(property)).collect();
    object(id, submission, &told)
}

/// A submission that can be made: what is sent, to whom.
struct NewSubmission {
    submission: EmailSubmission,
    order: SubmissionOrder,
    message_id: String,
    /// The message that goes out; with its octets where it is no email's.
    blob: BlobHash,
    octets: Option<Vec<u8>>,
    /// Whether the queue is held as a whole: the submission says so from the start.
    is_held: bool,
}

type CreatedSubmission = (ObjectId, EmailSubmission);

impl NewSubmission {
    fn send(&self, txn: &mut Txn<'_>) -> TxnResult<CreatedSubmission> {
        let Self { submission, order, message_id, blob, octets, is_held } = self;
        if txn.snapshot().email(txn.account(), submission.email)?.is_none() {
            return Err(SetError::property("emailId", "there is no such email").into());
        }
        let queued = order.clone().queue(submission.email, *blob, message_id.clone(), txn.now());
        let action = Action { last_error: is_held.then(|| HELD.into()), ..queued.action };
        let message = octets.as_deref().map(|octets| (blob, octets));
        let (id, _) = txn.submit(submission, action, &queued.octets, message)?;
        let made = txn.snapshot().object::<EmailSubmission>(txn.account(), id)?;
        Ok((id, made.unwrap_or_else(|| submission.clone())))
    }
}

/// The first instant of the year 1: `time.Time` of Go where nothing was set.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

fn prepare(
    call: &Call<'_>,
    account: &Account,
    senders: &SenderAddresses,
    properties: &JsonObject,
) -> Result<NewSubmission, SetFailure> {
    let context = call.context;
    let mut wrong = InvalidProperties::default();
    let settable =
        |name: &str| matches!(name, "identityId" | "emailId" | "envelope" | "undoStatus");
    // aerc writes the time that its language has where there is none.
    let no_time =
        |name: &str| name == "sendAt" && properties.get(name).is_some_and(|at| at == NO_TIME);
    for name in properties.keys().filter(|name| !settable(name) && !no_time(name)) {
        wrong.add(name, "it cannot be set");
    }
    // It begins with pending, whatever the client says: meli says final. The answer tells what it
    // is.
    let statuses = [UndoStatus::Pending, UndoStatus::Final].map(UndoStatus::name);
    let status = properties.get("undoStatus").filter(|status| !status.is_null());
    if status.is_some_and(|status| !statuses.iter().any(|known| status == known)) {
        wrong.add("undoStatus", "pending is what it begins with");
    }
    let id = |name: &str| properties.get(name)?.as_str().and_then(|id| call.created.resolve(id));
    let snapshot = context.store.snapshot();
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
            wrong.add(name, "the id of what is there is wanted");
        }
    }
    let (Some(identity), Some((metadata, (_, content)))) = (&identity, metadata.zip(content))
    else {
        return Err(wrong.finish().err().unwrap_or(SetError::NotFound).into());
    };
    prove_size(metadata.size, limits::MAX_MESSAGE_BYTES)?;
    let mut raw = email::message_head(context, &snapshot, &metadata.blob)?.unwrap_or_default();
    // Asked as it is taken out: a Bcc that is found only then would leave the head as the message.
    let has_bcc = matches!(header::without_fields(&raw, &["Bcc"]), Cow::Owned(_));
    // RFC 8621 §7.5: Bcc is not sent; without that field the message goes out as it is stored.
    if has_bcc || raw.len() >= limits::MAX_HEADER_BYTES {
        context.budget.charge_read(metadata.size)?;
        raw = snapshot.raw_message(&metadata.blob)?.unwrap_or_default();
    }
    let (mail_from, rcpt_to) =
        prove(senders, identity, (&raw, &content), properties.get("envelope"))?;
    wrong.finish()?;
    let now = context.store.clock().now();
    let order = order(&mail_from, &rcpt_to, now, limits::MAX_RECIPIENTS, limits::MAX_DELAYED_SEND)
        .map_err(bad)?;
    let (blob, octets) = match header::without_fields(&raw, &["Bcc"]) {
        Cow::Borrowed(_) => (metadata.blob, None),
        Cow::Owned(octets) => {
            context.budget.charge_stored(octets.len() as u64)?;
            (BlobHash(*blake3::hash(&octets).as_bytes()), Some(octets))
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
    Ok(NewSubmission { submission, order, message_id, blob, octets, is_held })
}

/// All that can be changed is that it is taken back.
fn update(txn: &mut Txn<'_>, id: &str, patch: &Value) -> TxnResult<EmailId> {
    let known: ObjectId = id.parse().map_err(|_| SetError::NotFound)?;
    let found = txn.snapshot().object::<EmailSubmission>(txn.account(), known)?;
    let submission = found.ok_or(SetError::NotFound)?;
    let before = object(known, &submission, SubmissionProperty::ALL);
    for (property, value) in Patch::wishes(patch, &before)? {
        if before.get(&property) == Some(&value) {
            continue;
        }
        if property != "undoStatus" {
            return Err(SetError::property(&property, "it cannot be changed").into());
        }
        if value.as_str() != Some(UndoStatus::Canceled.name()) {
            return Err(SetError::property("undoStatus", "it can only be canceled").into());
        }
        if !txn.cancel_submission(known).map_err(SetFailure::Call)? {
            return Err(SetError::of("cannotUnsend", "it is on its way").into());
        }
    }
    Ok(submission.email)
}

/// Only the record goes: what is on its way goes on (RFC 8621 §7.5).
fn destroy(txn: &mut Txn<'_>, id: &str) -> TxnResult<EmailId> {
    let known = id.parse().map_err(|_| SetError::NotFound)?;
    Ok(txn.destroy_object::<EmailSubmission>(known)?.email)
}

impl OnSuccessArgs {
    /// Refuses more than one call may change.
    fn prove(&self) -> Result<(), MethodError> {
        if self.on_success_update_email.len() + self.on_success_destroy_email.len()
            > limits::MAX_OBJECTS_IN_SET
        {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        Ok(())
    }

    /// The call that does it; none where nothing is to be done.
    fn next(
        self,
        account: &Account,
        call: &Call<'_>,
        emails: &BTreeMap<String, EmailId>,
    ) -> Option<FollowUpCall> {
        let email = |id: &str| {
            let known = emails.get(id).or_else(|| emails.get(&call.created.resolve(id)?));
            known.map(ToString::to_string)
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
