//! `EmailSubmission` (RFC 8621 §7): the messages that a user sends.

mod envelope;
mod get;
mod query;
mod set;

pub(super) use set::SubmissionSet;

use serde_json::{Value, json};

use super::context::date_or_null;
use super::standard::object_of;
use crate::model::{
    BlobId, EmailId, EmailSubmission, EnvelopeAddress, ObjectId, SubmissionRecipient,
};
use crate::wire::jmap::{JsonObject, properties};

properties! {
    pub(super) enum SubmissionProperty {
        Id = "id",
        IdentityId = "identityId",
        EmailId = "emailId",
        ThreadId = "threadId",
        Envelope = "envelope",
        SendAt = "sendAt",
        UndoStatus = "undoStatus",
        DeliveryStatus = "deliveryStatus",
        DsnBlobIds = "dsnBlobIds",
        MdnBlobIds = "mdnBlobIds",
    }
}

fn object(
    id: ObjectId,
    submission: &EmailSubmission,
    properties: &[SubmissionProperty],
) -> JsonObject {
    let recipients = &submission.rcpt_to;
    object_of(properties, |property| match property {
        SubmissionProperty::Id => id.to_string().into(),
        SubmissionProperty::IdentityId => submission.identity.to_string().into(),
        SubmissionProperty::EmailId => submission.email.to_string().into(),
        SubmissionProperty::ThreadId => submission.thread.to_string().into(),
        SubmissionProperty::Envelope => {
            let rcpt_to: Value = recipients.iter().map(|to| path(&to.path)).collect();
            json!({"mailFrom": path(&submission.mail_from), "rcptTo": rcpt_to})
        }
        SubmissionProperty::SendAt => date_or_null(Some(submission.send_at)),
        SubmissionProperty::UndoStatus => submission.undo.name().into(),
        SubmissionProperty::DeliveryStatus => recipients.iter().map(delivery_status).collect(),
        SubmissionProperty::DsnBlobIds => blobs(&submission.dsn),
        SubmissionProperty::MdnBlobIds => blobs(&submission.mdn),
    })
}

fn path(path: &EnvelopeAddress) -> Value {
    json!({"email": path.email, "parameters": path.parameters})
}

/// Returns the address of a recipient, and its `DeliveryStatus`.
fn delivery_status(to: &SubmissionRecipient) -> (String, Value) {
    let status = &to.status;
    let displayed = if status.displayed { "yes" } else { "unknown" };
    let value = json!({
        "smtpReply": status.smtp_reply,
        "delivered": status.delivered.name(),
        "displayed": displayed,
    });
    (to.path.email.clone(), value)
}

fn blobs(emails: &[EmailId]) -> Value {
    emails.iter().map(|id| BlobId::email(*id).to_string()).collect()
}

#[cfg(test)]
mod tests;
