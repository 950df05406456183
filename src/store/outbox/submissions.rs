//! Submissions and the actions that carry them (RFC 8621 §7): what becomes of an action is written
//! into the submission by the commit that writes the action, whoever changes it, so that the two
//! never say different things.
//!
//! What must hold: a submission that is pending has an action that is still to be done. One that
//! was destroyed changes nothing of its action. It is final once somebody has the message, or
//! nobody will; it is never pending again. What reports say that come back stays, whatever becomes
//! of the action, until it is tried again.

use crate::model::{
    Action, ActionId, ActionState, Address, BlobHash, DeliveryState, DeliveryStatus, EmailId,
    EmailSubmission, ObjectId, RecipientState, ReturnedReport, Target, UndoStatus,
};
use crate::store::error::Error;
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Makes a submission, with the action that carries it and octets of the action's own. Where
    /// the message that goes out is not one that an email of this account holds, it is put beside:
    /// its hash is the action's `blob`.
    ///
    /// # Errors
    /// Those of `create_object` and `queue_action`.
    pub fn submit(
        &mut self,
        submission: &EmailSubmission,
        action: Action,
        octets: &[u8],
        message: Option<(&BlobHash, &[u8])>,
    ) -> Result<(ObjectId, ActionId), Error> {
        if let Some((hash, raw)) = message {
            self.put_blob(hash, raw);
        }
        let next = ActionId(self.state.last_action + 1);
        let mut submission =
            EmailSubmission { action: Some(next), ended: None, ..submission.clone() };
        follow(&mut submission, &action, false);
        let id = self.create_object(&submission)?;
        let carrier = self
            .queue_action(Action { submission: Some(id), duplicate_key: None, ..action }, octets)?;
        Ok((id, carrier))
    }

    /// Takes a submission back with its action, if nothing of it went out yet: says whether it is
    /// canceled. One that is under way is not.
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
        let untouched = carrier.recipients.iter().all(Target::waits);
        let waits = matches!(
            carrier.state,
            ActionState::Waiting | ActionState::Held | ActionState::Blocked
        );
        if !waits || !untouched || carrier.submission != Some(id) {
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

    /// Writes into a submission what a report says that came as this email, if it is about it. Says
    /// whether that was news.
    ///
    /// # Errors
    /// Those of reading.
    pub fn report_submission(
        &mut self,
        id: ObjectId,
        report: &ReturnedReport,
        email: EmailId,
    ) -> Result<bool, Error> {
        let told = self.update_object(id, |submission: &mut EmailSubmission| {
            if submission.matches_report(report) {
                submission.apply_report(report, email);
            }
        });
        match told {
            Err(Error::NotFound(_)) => Ok(false),
            told => told,
        }
    }

    /// Writes into an action's submission what became of it; `is_gone` where the action is being
    /// removed.
    pub(in crate::store) fn update_submission_status(
        &mut self,
        action: &Action,
        is_gone: bool,
    ) -> Result<(), Error> {
        let Some(id) = action.submission else { return Ok(()) };
        let now = self.now;
        let told = self.update_object(id, |submission: &mut EmailSubmission| {
            if submission.undo == UndoStatus::Canceled {
                return;
            }
            follow(submission, action, is_gone);
            let waits =
                submission.rcpt_to.iter().any(|to| to.status.delivered == DeliveryState::Queued);
            submission.ended = if waits { None } else { submission.ended.or(Some(now)) };
        });
        match told {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A submission as its action has it.
fn follow(submission: &mut EmailSubmission, action: &Action, is_gone: bool) {
    for to in &mut submission.rcpt_to {
        let Ok(address) = Address::parse(&to.path.email) else { continue };
        let folded = address.folded();
        if let Some(target) =
            action.recipients.iter().find(|target| target.address.folded() == folded)
        {
            // What a report said of what we handed on is more than that we did.
            let is_reported = matches!(to.status.delivered, DeliveryState::Yes | DeliveryState::No);
            if is_reported && matches!(target.state, RecipientState::Sent(_)) {
                continue;
            }
            to.status = DeliveryStatus {
                displayed: to.status.displayed,
                ..status(target, action, is_gone)
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

/// RFC 8621 §7, `DeliveryStatus`: that the next hop has it says nothing of the mailbox behind.
fn status(target: &Target, action: &Action, is_gone: bool) -> DeliveryStatus {
    let (delivered, smtp_reply) = match (&target.state, &action.last_error) {
        (RecipientState::Sent(text), _) => (DeliveryState::Unknown, reply(text, "250 2.0.0")),
        (RecipientState::Failed { status: [class, subject, detail], text }, _) => {
            let code = if *class == 4 { "451" } else { "550" };
            (DeliveryState::No, reply(text, &format!("{code} {class}.{subject}.{detail}")))
        }
        (RecipientState::Waiting, _) if is_gone => {
            (DeliveryState::No, "554 5.3.0 removed from the queue".to_owned())
        }
        (RecipientState::Waiting, Some(error)) => {
            (DeliveryState::Queued, reply(error, "451 4.4.0"))
        }
        (RecipientState::Waiting, None) => (DeliveryState::Queued, "250 2.0.0 queued".to_owned()),
    };
    DeliveryStatus { smtp_reply, delivered, displayed: false }
}

/// A reply of SMTP: what a server said as it is; what we say ourselves with a code before it.
fn reply(text: &str, code: &str) -> String {
    let is_reply = text.split_once(' ').map_or(text, |(first, _)| first);
    let is_reply = is_reply.len() == 3 && is_reply.bytes().all(|octet| octet.is_ascii_digit());
    if is_reply { text.to_owned() } else { format!("{code} {text}").trim_end().to_owned() }
}
