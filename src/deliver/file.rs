//! Files a message for one account, in the transaction of its commit.

use super::context::DeliveryContext;
use super::copy;
use super::job::{AccountJob, PlannedCopy, PlannedEmail};
use super::outcome::{self, FilingResult};
use super::plan::PlannedReply;
use crate::filter::{FiredRules, StoreTarget};
use crate::model::{
    Action, ActionId, Address, Decision, EmailId, MailboxUid, ScriptError, ThreadId, ToldLifetime,
};
use crate::outbox::{self, NewAction};
use crate::store::{EncodedMessage, Error, NewEmail, Txn};
use crate::vacation::{DueReply, NoReplyReason, ReplyDecision, Silence};

/// Files the message for one account. A transaction that was served before changes nothing, but is
/// remembered anew, also for its further recipients.
pub(super) fn file(
    txn: &mut Txn<'_>,
    job: &AccountJob,
    context: &DeliveryContext<'_>,
    message: &EncodedMessage,
) -> Result<FilingResult, Error> {
    let hash = context.hash;
    if let Some(served) = txn.delivery(hash)? {
        txn.remember_delivery(hash, served.email, &job.recipients)?;
        return Ok(match served.refusal {
            Some(text) => FilingResult::Refused(text),
            None => FilingResult::Again(served.email),
        });
    }
    let mut first: Option<(EmailId, ThreadId)> = None;
    for planned in &job.emails {
        let created = create(txn, job, planned, message)?;
        first.get_or_insert(created);
    }
    let email = first.map(|(email, _)| email);
    match &job.scripts.refusal {
        Some(text) => txn.refuse_delivery(hash, &job.recipients, text)?,
        None => txn.remember_delivery(hash, email, &job.recipients)?,
    }
    if let Some((NewAction { action, bytes }, _)) = &job.notification {
        txn.queue_action(Action { email, ..action.clone() }, bytes)?;
    }
    if let (Some(submission), Some(returned), Some(email)) =
        (job.submission, &context.returned_report, email)
    {
        txn.report_submission(submission, returned, email)?;
    }
    write_scripts(txn, job, email)?;
    let decision = answer(txn, &job.plan, email)?;
    let verdict = outcome::verdict(&decision);
    let recipient = job.recipients.first().cloned().unwrap_or_else(|| Address::from_parts("", ""));
    txn.add_decision(&Decision {
        at: txn.now(),
        email,
        sender: context.envelope.sender.clone(),
        recipient,
        verdict,
        steps: job.scripts.steps.clone(),
    })?;
    Ok(match (&job.scripts.refusal, first) {
        (Some(text), _) => FilingResult::Refused(text.clone()),
        (None, Some((email, thread))) => FilingResult::New { email, thread, decision },
        (None, None) => FilingResult::NotStored(decision),
    })
}

/// Creates an email in the mailboxes that were planned.
fn create(
    txn: &mut Txn<'_>,
    job: &AccountJob,
    planned: &PlannedEmail,
    received: &EncodedMessage,
) -> Result<(EmailId, ThreadId), Error> {
    let mailboxes =
        planned.targets.iter().map(|target| mailbox(txn, target)).collect::<Result<_, _>>()?;
    let message = planned.edited.as_ref().map_or(received, |edited| &edited.rows);
    let created = txn.create_email(&NewEmail {
        message,
        prefix: &job.prefix,
        mailboxes,
        keywords: planned.keywords.clone(),
        received_at: txn.now(),
    })?;
    if let Some(edited) = &planned.edited {
        txn.put_message(&edited.rows, &edited.message.0)?;
    }
    Ok(created)
}

/// Returns the mailbox of a target, which may be created. The Inbox takes the place of one that is
/// gone, or cannot be created.
fn mailbox(txn: &mut Txn<'_>, target: &StoreTarget) -> Result<MailboxUid, Error> {
    let inbox = txn.state().inbox;
    Ok(match target {
        StoreTarget::Inbox => inbox,
        StoreTarget::Mailbox(uid) => {
            let found = txn.snapshot().mailbox(txn.account(), *uid)?;
            found.filter(|mailbox| !mailbox.destroyed).map_or(inbox, |_| *uid)
        }
        StoreTarget::Create { path, role } => {
            txn.create_mailbox_path(path, *role)?.unwrap_or(inbox)
        }
    })
}

/// Writes what scripts decided besides emails and the reply.
fn write_scripts(txn: &mut Txn<'_>, job: &AccountJob, email: Option<EmailId>) -> Result<(), Error> {
    let scripts = &job.scripts;
    for NewAction { action, bytes } in &scripts.actions {
        txn.queue_action(Action { email, ..action.clone() }, bytes)?;
    }
    for PlannedCopy { message, rows, fcc } in &scripts.copies {
        copy::file_copy(txn, message, fcc, rows)?;
    }
    // A message that is refused may come again.
    let is_served = scripts.refusal.is_none();
    for (hash, until) in scripts.duplicates.iter().filter(|_| is_served) {
        txn.remember_duplicate(hash, *until)?;
    }
    for FiredRules { script, source, rules } in &scripts.fired {
        txn.count_script_hits(*script, source, rules)?;
    }
    if let Some((script, line, message)) = &scripts.error {
        txn.add_script_error(&ScriptError {
            at: txn.now(),
            script: script.clone(),
            line: *line,
            message: message.clone(),
            email,
        })?;
    }
    Ok(())
}

/// Queues the planned reply, unless the response changed or the sender was told since it was
/// planned.
fn answer(
    txn: &mut Txn<'_>,
    plan: &ReplyDecision<Box<PlannedReply>>,
    email: Option<EmailId>,
) -> Result<ReplyDecision<ActionId>, Error> {
    let PlannedReply { due: DueReply { reply, told, memory }, charge: _, copy: rows } = match plan {
        ReplyDecision::Reply(planned) => &**planned,
        ReplyDecision::Silent(silence) => return Ok(ReplyDecision::Silent(silence.clone())),
    };
    let (account, now) = (txn.account(), txn.now());
    if let ToldLifetime::Response { generation, .. } = memory
        && txn.snapshot().vacation(account)?.generation != *generation
    {
        let silence =
            Silence::new(NoReplyReason::Disabled, "the response was changed at that moment");
        return Ok(ReplyDecision::Silent(silence));
    }
    if let Some(at) = txn.snapshot().last_told(account, told, memory, now)? {
        return Ok(ReplyDecision::Silent(Silence::new(
            NoReplyReason::AlreadyTold,
            format!("told {at}"),
        )));
    }
    let reply_action = outbox::ReplyAction {
        recipient: reply.recipient.clone(),
        email,
        told: Some(*told),
        until: reply.until,
        message_id: reply.message_id.clone(),
        message: reply.message.clone(),
    };
    let NewAction { action, bytes } = reply_action.into_action(now);
    let action = txn.queue_action(action, &bytes)?;
    txn.remember_told(told, &reply.recipient, memory)?;
    if let (Some(rows), Some(fcc)) = (rows, &reply.fcc) {
        copy::file_copy(txn, &reply.message, fcc, rows)?;
    }
    Ok(ReplyDecision::Reply(action))
}
