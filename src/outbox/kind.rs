//! The rules of each kind of action, and a type for each kind of message that becomes an action.
//!
//! Queue the action in the commit that causes it: a receipt with `Txn::queue_message`, which also
//! stores its message; a submission with `Txn::submit`, which also creates the `EmailSubmission`;
//! others with `Txn::queue_action`.
//!
//! In the types below, `email` is the email that the action is about; `None` if there is none, or
//! it is not known yet: a delivery sets it in the action when it files the email.

use std::time::Duration;

use super::coalesce::coalescing_key;
use crate::model::{
    Action, ActionId, ActionKind, ActionState, Address, BlobHash, DsnReturn, EmailId, Target,
    ToldKey, UtcMillis, limits,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAction {
    /// Its id is assigned when it is queued.
    pub action: Action,
    /// The bytes to store with the action: the message, or if the action names a blob, what goes on
    /// top of the blob's message.
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Whether an action that may have been sent counts as sent. If not, it is sent again.
    pub at_most_once: bool,
    /// How long an action is tried, from when it is first due. It makes `Action::expires`.
    pub lifetime: Duration,
    /// Whether the sender, if any, gets a report of recipients that were not reached (RFC 5321
    /// §6.1).
    pub bounces: bool,
    /// Whether an action that is over is kept for its owner (`ActionStep::Kept` says how long).
    pub is_kept: bool,
}

#[must_use]
pub fn rules(kind: ActionKind) -> Rules {
    let usual = Rules {
        at_most_once: false,
        lifetime: limits::QUEUE_LIFETIME,
        bounces: false,
        is_kept: false,
    };
    match kind {
        ActionKind::Reply => {
            Rules { at_most_once: true, lifetime: limits::REPLY_LIFETIME, ..usual }
        }
        ActionKind::Redirect => Rules { bounces: true, ..usual },
        ActionKind::Notify | ActionKind::Reject | ActionKind::Report => usual,
        ActionKind::Submission => Rules { bounces: true, is_kept: true, ..usual },
    }
}

/// A vacation reply (RFC 3834), from `<>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyAction {
    /// The envelope sender of the answered message.
    pub recipient: Address,
    pub email: Option<EmailId>,
    /// The told row; `UnsentAction::forget_told` says whether it is removed if the reply cannot be
    /// sent.
    pub told: Option<ToldKey>,
    /// The reply expires then, or at the end of its lifetime if that is earlier. `None`: at the end
    /// of its lifetime.
    pub until: Option<UtcMillis>,
    /// Without angle brackets.
    pub message_id: String,
    pub message: Vec<u8>,
}

/// A message that a script redirects (RFC 5228 §4.2): the message as received, or the version that
/// the script made, which is a message of the store, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectAction {
    /// `None` is `<>`.
    pub sender: Option<Address>,
    pub recipients: Vec<Address>,
    pub email: Option<EmailId>,
    /// Without angle brackets.
    pub message_id: String,
    /// Trace fields to put on top of the message.
    pub prefix: Vec<u8>,
    pub blob: BlobHash,
}

/// A message by this server, from `<>`: `kind` is `Notify`, `Reject` or `Report`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeAction {
    pub kind: ActionKind,
    pub recipient: Address,
    pub email: Option<EmailId>,
    /// Without angle brackets.
    pub message_id: String,
    pub message: Vec<u8>,
    /// Until a notice is sent or given up, no other with the same kind, recipient and `about` is
    /// queued. A notice with `None` is always queued.
    pub about: Option<Vec<u8>>,
}

/// A disposition notification that the owner agreed to send (RFC 9007), from `<>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptAction {
    /// At least one.
    pub recipients: Vec<Address>,
    /// The email that the notification is about.
    pub email: EmailId,
    /// Without angle brackets.
    pub message_id: String,
    /// The message of the notification.
    pub blob: BlobHash,
}

/// A message that the owner sends (RFC 8621 §7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionAction {
    /// `None` is `<>`.
    pub sender: Option<Address>,
    pub recipients: Vec<Target>,
    /// RET= (RFC 3461 §4.3).
    pub ret: Option<DsnReturn>,
    /// ENVID= (RFC 3461 §4.4).
    pub envid: Option<String>,
    pub email: EmailId,
    /// The message is not sent before this time. `None` or a time in the past: it is due now.
    pub not_before: Option<UtcMillis>,
    /// The submission that must be sent before this one, if any.
    pub after: Option<ActionId>,
    /// Without angle brackets.
    pub message_id: String,
    /// Bytes to put on top of the message.
    pub prefix: Vec<u8>,
    pub blob: BlobHash,
}

fn new_action(
    kind: ActionKind,
    recipients: Vec<Target>,
    message_id: String,
    now: UtcMillis,
) -> Action {
    Action {
        id: ActionId(0),
        kind,
        state: ActionState::Waiting,
        urgent: false,
        created: now,
        due: now,
        expires: now.after(rules(kind).lifetime),
        attempts: 0,
        last_error: None,
        sender: None,
        ret: None,
        envid: None,
        recipients,
        email: None,
        told: None,
        after: None,
        duplicate_key: None,
        seven_bit: false,
        message_id,
        own_bytes: 0,
        blob: None,
        submission: None,
    }
}

impl ReplyAction {
    #[must_use]
    pub fn into_action(self, now: UtcMillis) -> NewAction {
        let action = new_action(
            ActionKind::Reply,
            vec![Target::without_reports(self.recipient)],
            self.message_id,
            now,
        );
        let expires = self.until.map_or(action.expires, |until| until.min(action.expires));
        let action = Action { email: self.email, told: self.told, expires, ..action };
        NewAction { action, bytes: self.message }
    }
}

impl RedirectAction {
    /// Until the action is sent or given up, the same message from the same sender to the same
    /// recipients is not queued again.
    #[must_use]
    pub fn into_action(self, now: UtcMillis) -> NewAction {
        let duplicate_key = coalescing_key(
            ActionKind::Redirect,
            self.sender.as_ref(),
            &self.recipients,
            &self.blob.0,
        );
        let recipients = self.recipients.into_iter().map(Target::plain).collect();
        let action = new_action(ActionKind::Redirect, recipients, self.message_id, now);
        let (email, blob) = (self.email, Some(self.blob));
        let duplicate_key = Some(duplicate_key);
        let action = Action { sender: self.sender, email, blob, duplicate_key, ..action };
        NewAction { action, bytes: self.prefix }
    }
}

impl NoticeAction {
    #[must_use]
    pub fn into_action(self, now: UtcMillis) -> NewAction {
        let about = self.about.as_deref();
        let duplicate_key = about.map(|about| {
            coalescing_key(self.kind, None, std::slice::from_ref(&self.recipient), about)
        });
        let action = new_action(
            self.kind,
            vec![Target::without_reports(self.recipient)],
            self.message_id,
            now,
        );
        NewAction {
            action: Action { email: self.email, duplicate_key, ..action },
            bytes: self.message,
        }
    }
}

impl ReceiptAction {
    /// The action has no bytes besides the blob, and nobody gets a report about it (RFC 8098 §3).
    #[must_use]
    pub fn into_action(self, now: UtcMillis) -> Action {
        let recipients = self.recipients.into_iter().map(Target::without_reports).collect();
        let action = new_action(ActionKind::Report, recipients, self.message_id, now);
        Action { email: Some(self.email), blob: Some(self.blob), ..action }
    }
}

impl SubmissionAction {
    /// The action is urgent, because a person waits for it.
    #[must_use]
    pub fn into_action(self, now: UtcMillis) -> NewAction {
        let action = new_action(ActionKind::Submission, self.recipients, self.message_id, now);
        let due = self.not_before.map_or(now, |at| at.max(now));
        let action = Action {
            urgent: true,
            due,
            expires: due.after(rules(ActionKind::Submission).lifetime),
            sender: self.sender,
            ret: self.ret,
            envid: self.envid,
            email: Some(self.email),
            after: self.after,
            blob: Some(self.blob),
            ..action
        };
        NewAction { action, bytes: self.prefix }
    }
}
