//! `EmailSubmission`/set (RFC 8621 §7.5): to send an email is to make a submission of it.
//!
//! What the answer says was made stands in the queue: the submission and the action that carries it are one commit. What is
//! sent is the email's message without its Bcc fields. Where a submission is done, its email can be changed or destroyed
//! with it: that is an Email/set of its own, which follows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::envelope::{bad, prove, prove_size};
use super::object;
use crate::jmap::context::{Account, Args, Context};
use crate::jmap::email;
use crate::jmap::failure::{SetFailure, TxnResult};
use crate::jmap::identity::{self, SenderAddresses};
use crate::jmap::method::FollowUpCall;
use crate::jmap::standard::{InvalidProperties, SetArguments};
use crate::message::header;
use crate::model::{
    Action, BlobHash, DataType, EmailId, EmailSubmission, ObjectId, SenderIdentity, SubmissionRecipient, UndoStatus,
    limits,
};
use crate::outbox::HELD;
use crate::outbox::submission::{SubmissionOrder, order};
use crate::store::Txn;
use crate::wire::jmap::{MethodError, Patch, SetError};

pub(in crate::jmap) fn set(
    context: &Context,
    arguments: &Args<'_>,
) -> Result<(Value, Option<FollowUpCall>), MethodError> {
    let account = context.open(arguments)?;
    let set = SetArguments::read(arguments)?;
    let follow = OnSuccessChanges::read(arguments)?;
    identity::refresh(context, &account)?;
    let me = SenderAddresses::of(context, &account)?;
    // What needs reading is read before the account is locked.
    let mut parcels = Vec::with_capacity(set.create.len());
    for (name, properties) in &set.create {
        let parcel = prepare(context, &account, &me, arguments, properties);
        let parcel = match parcel {
            Ok(parcel) => Ok(parcel),
            Err(failure) => Err(failure.object()?),
        };
        parcels.push((name, parcel));
    }
    let known = arguments.created().known();
    let (answer, emails) = set.commit(context, &account, DataType::EmailSubmission, |txn, done| {
        arguments.created().reset(&known);
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
            done.create(arguments.created(), name, made)?;
        }
        for (id, patch) in &set.update {
            let email = update(txn, id, patch);
            emails.extend(email.iter().map(|email| (id.clone(), *email)));
            done.update(id, email.map(|_| Map::new()))?;
        }
        for id in &set.destroy {
            let email = destroy(txn, id);
            emails.extend(email.iter().map(|email| (id.clone(), *email)));
            done.destroy(id, email.map(drop))?;
        }
        Ok(emails)
    })?;
    let next = follow.next(&account, arguments, &emails);
    Ok((answer, next))
}

/// What the client does not know of a submission that was made.
fn told(id: ObjectId, submission: &EmailSubmission) -> Map<String, Value> {
    let mut object = object(id, submission);
    object.retain(|name, _| !matches!(name.as_str(), "identityId" | "emailId"));
    object
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
        if txn.view().email(txn.account(), submission.email)?.is_none() {
            return Err(SetError::property("emailId", "there is no such email").into());
        }
        let queued = order.clone().queue(submission.email, *blob, message_id.clone(), txn.now());
        let action = Action { last_error: is_held.then(|| HELD.into()), ..queued.action };
        let message = octets.as_deref().map(|octets| (blob, octets));
        let (id, _) = txn.submit(submission, action, &queued.octets, message)?;
        let made = txn.view().object::<EmailSubmission>(txn.account(), id)?;
        Ok((id, made.unwrap_or_else(|| submission.clone())))
    }
}

/// The first instant of the year 1: `time.Time` of Go where nothing was set.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

fn prepare(
    context: &Context,
    account: &Account,
    me: &SenderAddresses,
    arguments: &Args<'_>,
    properties: &Map<String, Value>,
) -> Result<NewSubmission, SetFailure> {
    let mut wrong = InvalidProperties::default();
    let settable = |name: &str| matches!(name, "identityId" | "emailId" | "envelope" | "undoStatus");
    // aerc writes the time that its language has where there is none.
    let no_time = |name: &str| name == "sendAt" && properties.get(name).is_some_and(|at| at == NO_TIME);
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
    let id = |name: &str| properties.get(name)?.as_str().and_then(|id| arguments.created().resolve(id));
    let view = context.store.view();
    let identity_id = id("identityId").and_then(|id| id.parse::<ObjectId>().ok()).unwrap_or_default();
    let identity = view.object::<SenderIdentity>(account.id, identity_id)?;
    let email = id("emailId").and_then(|id| id.parse::<EmailId>().ok()).unwrap_or_default();
    let metadata = view.email(account.id, email)?;
    let content = view.content(account.id, email)?;
    for (name, missing) in [("identityId", identity.is_none()), ("emailId", metadata.is_none() || content.is_none())] {
        if missing {
            wrong.add(name, "the id of what is there is wanted");
        }
    }
    let (Some(identity), Some((metadata, (_, content)))) = (&identity, metadata.zip(content)) else {
        return Err(wrong.finish().err().unwrap_or(SetError::NotFound).into());
    };
    prove_size(metadata.size, limits::MESSAGE_OCTETS)?;
    let mut raw = email::head(context, &view, &metadata.blob)?.unwrap_or_default();
    // Asked as it is taken out: a Bcc that is found only then would leave the head as the message.
    let has_bcc = matches!(header::without(&raw, &["Bcc"]), Cow::Owned(_));
    // RFC 8621 §7.5: Bcc is not sent; without that field the message goes out as it is stored.
    if has_bcc || raw.len() >= limits::HEADER_BYTES {
        context.budget.read(metadata.size)?;
        raw = view.received(&metadata.blob)?.unwrap_or_default();
    }
    let (mail_from, rcpt_to) = prove(me, identity, (&raw, &content), properties.get("envelope"))?;
    wrong.finish()?;
    let now = context.store.clock().now();
    let order = order(&mail_from, &rcpt_to, now, limits::RECIPIENTS, limits::DELAYED_SEND).map_err(bad)?;
    let (blob, octets) = match header::without(&raw, &["Bcc"]) {
        Cow::Borrowed(_) => (metadata.blob, None),
        Cow::Owned(octets) => {
            context.budget.file(octets.len() as u64)?;
            (BlobHash(*blake3::hash(&octets).as_bytes()), Some(octets))
        }
    };
    let rcpt_to = rcpt_to.into_iter().map(|path| SubmissionRecipient { path, ..SubmissionRecipient::default() });
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
    let mark = view.queue_mark()?;
    let is_held = mark.is_some_and(|mark| mark.held.is_some());
    Ok(NewSubmission { submission, order, message_id, blob, octets, is_held })
}

/// All that can be changed is that it is taken back.
fn update(txn: &mut Txn<'_>, id: &str, patch: &Value) -> TxnResult<EmailId> {
    let known: ObjectId = id.parse().map_err(|_| SetError::NotFound)?;
    let found = txn.view().object::<EmailSubmission>(txn.account(), known)?;
    let submission = found.ok_or(SetError::NotFound)?;
    let before = object(known, &submission);
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
        if !txn.cancel_submission(known)? {
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

/// What is to be done with the emails of submissions that are done.
struct OnSuccessChanges {
    /// By submission.
    update: Vec<(String, Map<String, Value>)>,
    destroy: Vec<String>,
}

impl OnSuccessChanges {
    fn read(arguments: &Args<'_>) -> Result<Self, MethodError> {
        let (update, destroy) = (arguments.objects("onSuccessUpdateEmail")?, arguments.texts("onSuccessDestroyEmail")?);
        if update.len() + destroy.len() > limits::OBJECTS_IN_SET {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        Ok(Self { update, destroy })
    }

    /// The call that does it; none where nothing is to be done.
    fn next(self, account: &Account, arguments: &Args<'_>, emails: &BTreeMap<String, EmailId>) -> Option<FollowUpCall> {
        let email = |id: &str| {
            let known = emails.get(id).or_else(|| emails.get(&arguments.created().resolve(id)?));
            known.map(ToString::to_string)
        };
        let update: Map<String, Value> =
            self.update.into_iter().filter_map(|(id, patch)| Some((email(&id)?, Value::Object(patch)))).collect();
        let destroy: Vec<Value> = self.destroy.iter().filter_map(|id| email(id).map(Value::String)).collect();
        if update.is_empty() && destroy.is_empty() {
            return None;
        }
        let mut call = Map::new();
        call.insert("accountId".into(), account.id.to_string().into());
        call.insert("update".into(), Value::Object(update));
        call.insert("destroy".into(), Value::Array(destroy));
        Some(FollowUpCall { name: "Email/set", arguments: call })
    }
}
