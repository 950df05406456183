//! The kinds of actions, each a small type of what it needs, and its rules. What it becomes is
//! `NewAction`: the head, and octets of its own.

use std::time::Duration;

use super::coalesce::coalescing_key;
use crate::model::{
    Action, ActionId, ActionKind, ActionState, Address, BlobHash, DsnReturn, EmailId, Target,
    ToldKey, UtcMillis, limits,
};

/// An action that is ready to be queued, and the octets that it brings along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAction {
    /// The head; its id is given when it is queued.
    pub action: Action,
    /// Octets of its own.
    pub octets: Vec<u8>,
}

/// By which rules a kind is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// At most once: what may have been sent counts as sent. Else at least once.
    pub at_most_once: bool,
    /// How long it may wait.
    pub lifetime: Duration,
    /// Whether its sender, where there is one, is told of recipients that it does not reach (RFC
    /// 5321 §6.1).
    pub bounces: bool,
    /// Whether what became of it is kept for its owner.
    pub is_kept: bool,
}

/// The rules of a kind.
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

/// A vacation reply (RFC 3834): from `<>`, to one person, and never a report about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyAction {
    /// The envelope sender of what is answered.
    pub recipient: Address,
    /// What is answered.
    pub email: EmailId,
    /// The row that says that the recipient was told; none where nobody is tracked.
    pub told: Option<ToldKey>,
    /// When it would come too late, if before its time is over anyway.
    pub until: Option<UtcMillis>,
    /// Its Message-ID, without angle brackets.
    pub message_id: String,
    /// Its octets.
    pub message: Vec<u8>,
}

/// Mail that a script sends on (RFC 5228 §4.2): the message as it is, under its own Message-ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectAction {
    /// The envelope sender; `None` is `<>`.
    pub sender: Option<Address>,
    pub recipients: Vec<Address>,
    /// The email, where it was kept, too.
    pub email: Option<EmailId>,
    /// The Message-ID that the message has, for the log.
    pub message_id: String,
    /// Trace fields on top.
    pub prefix: Vec<u8>,
    /// The message in the store.
    pub blob: BlobHash,
}

/// What we write by ourselves and nobody shall answer: from `<>`, to one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeAction {
    /// `Notify`, `Reject` or `Report`.
    pub kind: ActionKind,
    /// To whom; never `<>`.
    pub recipient: Address,
    /// The email that it is about.
    pub email: Option<EmailId>,
    /// Its Message-ID, without angle brackets.
    pub message_id: String,
    /// Its octets.
    pub message: Vec<u8>,
    /// What makes another one equal to it: beside kind and recipient. None equals one without.
    pub about: Option<Vec<u8>>,
}

/// A disposition notification that the owner lets go (RFC 9007): from `<>`, to whom the sender of
/// the email named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptAction {
    /// To whom; at least one.
    pub recipients: Vec<Address>,
    /// The email that it is about.
    pub email: EmailId,
    /// Its Message-ID, without angle brackets.
    pub message_id: String,
    /// Its octets in the store.
    pub blob: BlobHash,
}

/// What the owner sends (RFC 8621 §7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionAction {
    /// The envelope sender; `None` is `<>`.
    pub sender: Option<Address>,
    /// To whom, with what the sender wants to hear of each.
    pub recipients: Vec<Target>,
    /// RET= (RFC 3461 §4.3).
    pub ret: Option<DsnReturn>,
    /// ENVID= (RFC 3461 §4.4).
    pub envid: Option<String>,
    /// The email that is sent.
    pub email: EmailId,
    /// Not before: until then it can be undone.
    pub not_before: Option<UtcMillis>,
    /// The submission that must be sent before it.
    pub after: Option<ActionId>,
    /// The Message-ID of the email, without angle brackets.
    pub message_id: String,
    /// Octets on top of the message.
    pub prefix: Vec<u8>,
    /// The message in the store.
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
    /// As it is queued.
    #[must_use]
    pub fn queue(self, now: UtcMillis) -> NewAction {
        let action = new_action(
            ActionKind::Reply,
            vec![Target::without_reports(self.recipient)],
            self.message_id,
            now,
        );
        let expires = self.until.map_or(action.expires, |until| until.min(action.expires));
        let action = Action { email: Some(self.email), told: self.told, expires, ..action };
        NewAction { action, octets: self.message }
    }
}

#[cfg_attr(not(test), expect(dead_code, reason = "filtering by Sieve will use it"))]
impl RedirectAction {
    /// As it is queued. The same message from the same sender to the same people is one deed.
    #[must_use]
    pub fn queue(self, now: UtcMillis) -> NewAction {
        let same = coalescing_key(
            ActionKind::Redirect,
            self.sender.as_ref(),
            &self.recipients,
            &self.blob.0,
        );
        let recipients = self.recipients.into_iter().map(Target::plain).collect();
        let action = new_action(ActionKind::Redirect, recipients, self.message_id, now);
        let (email, blob) = (self.email, Some(self.blob));
        let action =
            Action { sender: self.sender, email, blob, duplicate_key: Some(same), ..action };
        NewAction { action, octets: self.prefix }
    }
}

impl NoticeAction {
    /// As it is queued.
    #[must_use]
    pub fn queue(self, now: UtcMillis) -> NewAction {
        let about = self.about.as_deref();
        let same = about.map(|about| {
            coalescing_key(self.kind, None, std::slice::from_ref(&self.recipient), about)
        });
        let action = new_action(
            self.kind,
            vec![Target::without_reports(self.recipient)],
            self.message_id,
            now,
        );
        NewAction {
            action: Action { email: self.email, duplicate_key: same, ..action },
            octets: self.message,
        }
    }
}

impl ReceiptAction {
    /// As it is queued; nobody hears of it if it does not arrive (RFC 8098 §3).
    #[must_use]
    pub fn queue(self, now: UtcMillis) -> Action {
        let recipients = self.recipients.into_iter().map(Target::without_reports).collect();
        let action = new_action(ActionKind::Report, recipients, self.message_id, now);
        Action { email: Some(self.email), blob: Some(self.blob), ..action }
    }
}

impl SubmissionAction {
    /// As it is queued: a person waits for it.
    #[must_use]
    pub fn queue(self, now: UtcMillis) -> NewAction {
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
        NewAction { action, octets: self.prefix }
    }
}
