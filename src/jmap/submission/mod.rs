//! ``EmailSubmission`` (RFC 8621 §7): what the owner sends, over the outbox.

mod envelope;
mod get;
mod query;
mod set;

pub(super) use get::{changes, get};
pub(super) use query::{query, query_changes};
pub(super) use set::set;

use serde_json::{Map, Value, json};

use super::context::date;
use crate::model::{BlobId, EmailId, EmailSubmission, EnvelopeAddress, ObjectId};
use crate::wire::jmap::json::members;

/// The properties.
const PROPERTIES: [&str; 10] = [
    "id",
    "identityId",
    "emailId",
    "threadId",
    "envelope",
    "sendAt",
    "undoStatus",
    "deliveryStatus",
    "dsnBlobIds",
    "mdnBlobIds",
];

/// All properties of one.
fn object(id: ObjectId, submission: &EmailSubmission) -> Map<String, Value> {
    let path = |path: &EnvelopeAddress| json!({"email": path.email, "parameters": path.parameters});
    let rcpt_to: Vec<Value> = submission.rcpt_to.iter().map(|to| path(&to.path)).collect();
    let statuses = submission.rcpt_to.iter().map(|to| {
        let status = &to.status;
        let displayed = if status.displayed { "yes" } else { "unknown" };
        let value =
            json!({"smtpReply": status.smtp_reply, "delivered": status.delivered.name(), "displayed": displayed});
        (to.path.email.clone(), value)
    });
    let blobs =
        |emails: &[EmailId]| -> Vec<String> { emails.iter().map(|id| BlobId::email(*id).to_string()).collect() };
    members(json!({
        "id": id.to_string(), "identityId": submission.identity.to_string(), "emailId": submission.email.to_string(),
        "threadId": submission.thread.to_string(),
        "envelope": {"mailFrom": path(&submission.mail_from), "rcptTo": rcpt_to},
        "sendAt": date(Some(submission.send_at)), "undoStatus": submission.undo.name(),
        "deliveryStatus": statuses.collect::<Map<String, Value>>(),
        "dsnBlobIds": blobs(&submission.dsn), "mdnBlobIds": blobs(&submission.mdn),
    }))
}

#[cfg(test)]
mod tests;
