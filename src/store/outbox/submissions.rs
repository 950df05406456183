//! Submissions and the actions that carry them (RFC 8621 §7).
//!
//! - A submission becomes final when the relay took the message for some recipient, or when the
//!   message waits for no recipient any more. It never becomes pending again.
//! - Destroying a submission does not change its action.

use std::collections::BTreeMap;

use crate::model::{
    Action, ActionId, ActionState, Address, BlobHash, DeliveryState, DeliveryStatus, EmailId,
    EmailSubmission, ObjectId, RecipientState, ReturnedReport, Target, UndoStatus, bounded_reply,
};
use crate::store::error::Error;
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Creates a submission and queues the action that carries it, with bytes of the action's own.
    /// `message` is given, and stored, if no email of this account holds the message that is sent.
    /// The action's duplicate key is ignored: a new action is queued even if an equal one is open.
    ///
    /// # Errors
    /// Those of `create_object`, `queue_action` and `put_blob`.
    pub fn submit(
        &mut self,
        submission: &EmailSubmission,
        action: Action,
        bytes: &[u8],
        message: Option<(&BlobHash, &[u8])>,
    ) -> Result<(ObjectId, ActionId), Error> {
        // `queue_action` below takes this id: without a duplicate key it queues a new action.
        let next = ActionId(self.state.last_action + 1);
        let mut submission =
            EmailSubmission { action: Some(next), ended: None, ..submission.clone() };
        update_from_action(&mut submission, &action, false);
        let id = self.create_object(&submission)?;
        let carrier = self
            .queue_action(Action { submission: Some(id), duplicate_key: None, ..action }, bytes)?;
        // Last, because a refusal by one of the above may leave the other changes of the commit.
        if let Some((hash, raw)) = message {
            self.put_blob(hash, raw)?;
        }
        Ok((id, carrier))
    }

    /// Cancels a submission and removes its action, if all recipients are outstanding and no
    /// attempt is under way. Returns whether the submission is canceled now; also `true` if it was
    /// canceled before.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn cancel_submission(&mut self, id: ObjectId) -> Result<bool, Error> {
        let found = self
            .snapshot()
            .object::<EmailSubmission>(self.account, id)?
            .ok_or(Error::NotFound("object"))?;
        let carrier = match (found.undo, found.action) {
            (UndoStatus::Canceled, _) => return Ok(true),
            (UndoStatus::Final, _) | (_, None) => return Ok(false),
            (UndoStatus::Pending, Some(carrier)) => match self.action(carrier) {
                Ok(action) => action,
                Err(Error::NotFound(_)) => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        let is_unsent = carrier.recipients.iter().all(Target::is_outstanding);
        let is_waiting = matches!(
            carrier.state,
            ActionState::Waiting | ActionState::Held | ActionState::Blocked
        );
        if !is_waiting || !is_unsent || carrier.submission != Some(id) {
            return Ok(false);
        }
        let now = self.now;
        self.update_object(id, |submission: &mut EmailSubmission| {
            (submission.undo, submission.ended) = (UndoStatus::Canceled, Some(now));
            for to in &mut submission.rcpt_to {
                to.status.delivered = DeliveryState::No;
            }
        })?;
        self.remove_action(carrier.id)?;
        Ok(true)
    }

    /// Writes the outcome of a report into the submission that the report is about. `email` is the
    /// report; `None` if it was not stored. Returns whether the submission changed: `false` also if
    /// there is no such submission, or the report is about another message.
    ///
    /// # Errors
    /// Those of reading.
    pub fn report_submission(
        &mut self,
        id: ObjectId,
        report: &ReturnedReport,
        email: Option<EmailId>,
    ) -> Result<bool, Error> {
        let updated = self.update_object(id, |submission: &mut EmailSubmission| {
            if submission.matches_report(report) {
                submission.apply_report(report, email);
            }
        });
        match updated {
            Err(Error::NotFound(_)) => Ok(false),
            updated => updated,
        }
    }

    /// Writes the outcome of an action into its submission. Does nothing if the action has no
    /// submission, or the submission is canceled. `is_removed` says that the action is not sent any
    /// more: recipients that still wait are given up.
    pub(in crate::store) fn update_submission_status(
        &mut self,
        action: &Action,
        is_removed: bool,
    ) -> Result<(), Error> {
        let Some(id) = action.submission else { return Ok(()) };
        let now = self.now;
        let updated = self.update_object(id, |submission: &mut EmailSubmission| {
            if submission.undo == UndoStatus::Canceled {
                return;
            }
            update_from_action(submission, action, is_removed);
            let is_waiting =
                submission.rcpt_to.iter().any(|to| to.status.delivered == DeliveryState::Queued);
            submission.ended = if is_waiting { None } else { submission.ended.or(Some(now)) };
        });
        match updated {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Sets the status of each recipient and of the submission by the state of the action.
fn update_from_action(submission: &mut EmailSubmission, action: &Action, is_removed: bool) {
    let targets: BTreeMap<Address, &Target> =
        action.recipients.iter().map(|target| (target.address.folded(), target)).collect();
    for to in &mut submission.rcpt_to {
        let Ok(address) = Address::parse(&to.path.email) else { continue };
        if let Some(target) = targets.get(&address.folded()) {
            // A report says more than the relay did, which only took the message.
            let is_reported = matches!(to.status.delivered, DeliveryState::Yes | DeliveryState::No);
            if is_reported && matches!(target.state, RecipientState::Sent(_)) {
                continue;
            }
            to.status = DeliveryStatus {
                displayed: to.status.displayed,
                ..status(target, action, is_removed)
            };
        }
    }
    let all = || submission.rcpt_to.iter().map(|to| to.status.delivered);
    let is_final = all()
        .any(|delivered| matches!(delivered, DeliveryState::Unknown | DeliveryState::Yes))
        || all().all(|delivered| delivered != DeliveryState::Queued);
    if submission.undo == UndoStatus::Pending && is_final {
        submission.undo = UndoStatus::Final;
    }
}

/// Returns the `DeliveryStatus` of a recipient (RFC 8621 §7). A message that the relay took is
/// `unknown`: the relay does not say whether it reached the mailbox. Every recipient that waits has
/// the last error of the action, which may be that of another recipient.
fn status(target: &Target, action: &Action, is_removed: bool) -> DeliveryStatus {
    let (delivered, smtp_reply) = match (&target.state, &action.last_error) {
        (RecipientState::Sent(text), _) => (DeliveryState::Unknown, reply(text, "250 2.0.0")),
        (RecipientState::Failed { status: [class, subject, detail], text }, _) => {
            let code = if *class == 4 { "451" } else { "550" };
            (DeliveryState::No, reply(text, &format!("{code} {class}.{subject}.{detail}")))
        }
        (RecipientState::Waiting, _) if is_removed => {
            (DeliveryState::No, "554 5.3.0 removed from the queue".to_owned())
        }
        (RecipientState::Waiting, Some(error)) => {
            (DeliveryState::Queued, reply(error, "451 4.4.0"))
        }
        (RecipientState::Waiting, None) => (DeliveryState::Queued, "250 2.0.0 queued".to_owned()),
    };
    DeliveryStatus { smtp_reply: bounded_reply(&smtp_reply), delivered, displayed: false }
}

/// Returns an SMTP reply: `text` itself if it begins with a reply code, else `code` and `text`.
fn reply(text: &str, code: &str) -> String {
    let first = text.split_once(' ').map_or(text, |(first, _)| first);
    let is_reply = first.len() == 3 && first.bytes().all(|byte| byte.is_ascii_digit());
    if is_reply { text.to_owned() } else { format!("{code} {text}").trim_end().to_owned() }
}
