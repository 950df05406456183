//! Files a message for one account, in the transaction of its commit.
//!
//! - A recipient for whom the LMTP transaction was served before is answered from the record of
//!   the transaction, and nothing else is done for it.
//! - What the scripts decided for the others is joined (`emails`). Without scripts, an earlier
//!   email stays as it is.
//! - A discard or a refusal holds only for the recipient for whom a script decided it.
//! - If the quota has no room for an email of one recipient, the commit fails for all recipients of
//!   the account, also for those whose mail is not stored. RCPT refuses all of them, too, if the
//!   account is full already (`admit`).

use std::collections::{BTreeMap, BTreeSet};

use super::context::DeliveryContext;
use super::copy;
use super::emails::{FiledVersion, Fresh, RefusedMailbox, file_emails};
use super::job::{
    AccountJob, PlannedAction, PlannedCopy, PlannedEmail, RecipientJob, RecipientWork, ScriptWrites,
};
use super::jobs::FILED_BEFORE;
use super::outcome::{self, FiledAccount, FilingResult};
use super::plan::PlannedReply;
use crate::filter::FiredRules;
use crate::model::{
    Action, ActionId, BlobHash, Decision, EmailId, FilterStep, ObjectId, ScriptError, ToldLifetime,
    limits,
};
use crate::outbox::{self, NewAction};
use crate::store::{DeliveredEmail, DeliveryRow, EncodedMessage, Error, RecipientOutcome, Txn};
use crate::vacation::{DueReply, NoReplyReason, ReplyDecision, Silence};

/// The most bytes of the name of a mailbox that an error and a step show.
const MAX_SHOWN_PATH_BYTES: usize = 200;

/// Files the message for one account.
///
/// # Errors
/// `Overtaken` if the record of the transaction has expired since the job was planned; those of the
/// store.
pub(super) fn file(
    txn: &mut Txn<'_>,
    job: &AccountJob,
    context: &DeliveryContext<'_>,
    message: &EncodedMessage,
) -> Result<FiledAccount, Error> {
    let served = txn.delivery(context.hash)?;
    let fresh = fresh_recipients(txn, job, served.as_ref())?;
    let former = served.as_ref().map_or(&[][..], |served| &served.emails);
    let mut refused = Vec::new();
    let emails = file_emails(txn, &fresh, former, message, &mut refused)?;
    let first_former = former.first().map(|first| first.email);
    let email = emails.first().map(|version| version.filed.email).or(first_former);
    record(txn, context.hash, &fresh, &emails)?;
    let is_fresh = |index: usize| fresh.iter().any(|(known, ..)| *known == index);
    let mut is_notified = false;
    // The notification names its recipients. It is left out if one of them was served meanwhile.
    if let Some(notification) = &job.notification
        && notification.recipients.iter().all(|index| is_fresh(*index))
    {
        let NewAction { action, bytes } = &notification.action;
        txn.queue_action(Action { email, ..action.clone() }, bytes)?;
        is_notified = true;
    }
    // A retry does not report to the submission again.
    if let (Some(submission), Some(returned), None) =
        (job.submission, &context.returned_report, &served)
    {
        txn.report_submission(submission, returned, email)?;
    }
    for (_, _, work) in &fresh {
        write_scripts(txn, &work.writes, email, &mut refused)?;
    }
    count_rules(txn, &fresh)?;
    // Nothing is decided if no recipient is fresh, or if an email was filed before and no script
    // ran for the fresh ones.
    let is_done = fresh.iter().all(|(.., work)| first_former.is_some() && !work.is_scripted);
    let decision = if is_done {
        ReplyDecision::Silent(Silence::new(NoReplyReason::Script, FILED_BEFORE))
    } else {
        let is_due =
            is_fresh(job.answer.recipient) && (first_former.is_none() || job.answer.is_scripted);
        let decision = answer(txn, job, is_due, email, &mut refused)?;
        let mut steps = joined_steps(&fresh);
        report_refused(txn, &refused, email, &mut steps)?;
        // The decision names the recipient that is or would be answered, or else the first fresh
        // one.
        let recipient = job.recipients.get(job.answer.recipient).filter(|_| is_due);
        let recipient = recipient.or(fresh.first().map(|(_, recipient, _)| *recipient));
        if let Some(recipient) = recipient {
            // `Snapshot::decision` looks for it at the time of the email, which is later than now
            // if no id of this millisecond was free.
            let at = match emails.first() {
                Some(FiledVersion { filed, thread: Some(_) }) => filed.email.received_at(),
                _ => txn.now(),
            };
            txn.add_decision(&Decision {
                at,
                email,
                sender: context.envelope.sender.clone(),
                recipient: recipient.address.clone(),
                verdict: outcome::verdict(&decision),
                steps,
            })?;
        }
        decision
    };
    let results = job.recipients.iter().enumerate().map(|(index, recipient)| {
        let work = recipient.work.as_ref().filter(|_| is_fresh(index));
        match (work, &served) {
            (Some(work), _) => result(work, &emails, first_former, &decision),
            (None, Some(served)) => repeated_result(served, recipient),
            // Cannot be: without a record, all recipients are fresh.
            (None, None) => FilingResult::Again(email),
        }
    });
    Ok(FiledAccount {
        results: results.collect(),
        served: fresh.iter().map(|(index, ..)| *index).collect(),
        is_answered: decision.is_reply(),
        is_notified,
    })
}

/// Returns the recipients for whom the transaction was not served before; `Overtaken` if nothing
/// was planned for one of them.
fn fresh_recipients<'a>(
    txn: &Txn<'_>,
    job: &'a AccountJob,
    served: Option<&DeliveryRow>,
) -> Result<Vec<Fresh<'a>>, Error> {
    let mut fresh = Vec::with_capacity(job.recipients.len());
    for (index, recipient) in job.recipients.iter().enumerate() {
        if served.is_some_and(|served| served.outcome(&recipient.address).is_some()) {
            continue;
        }
        match &recipient.work {
            Some(work) => fresh.push((index, recipient, work)),
            None => return Err(Error::Overtaken(txn.account())),
        }
    }
    Ok(fresh)
}

/// Records for which recipients the transaction is served, and how.
fn record(
    txn: &mut Txn<'_>,
    hash: &[u8; 32],
    fresh: &[Fresh<'_>],
    emails: &[FiledVersion],
) -> Result<(), Error> {
    let emails: Vec<DeliveredEmail> = emails.iter().map(|version| version.filed).collect();
    let recipients = fresh.iter().map(|(_, recipient, work)| {
        let refusal = work.writes.refusal.as_deref();
        let outcome = refusal.map_or(RecipientOutcome::Accepted, RecipientOutcome::Refused);
        (&recipient.address, outcome)
    });
    if fresh.is_empty() { Ok(()) } else { txn.remember_delivery(hash, &emails, recipients) }
}

/// Returns what became of the message for a recipient for whom it was filed now: `emails` are the
/// emails of this commit, and `first_former` is the first one that was filed for an earlier
/// recipient.
fn result(
    work: &RecipientWork,
    emails: &[FiledVersion],
    first_former: Option<EmailId>,
    decision: &ReplyDecision<ActionId>,
) -> FilingResult {
    if let Some(text) = &work.writes.refusal {
        return FilingResult::Refused(text.clone());
    }
    if work.emails.is_empty() {
        return FilingResult::NotStored(decision.clone());
    }
    let mut versions = work.emails.iter().map(PlannedEmail::version);
    match versions.find_map(|one| emails.iter().find(|email| email.filed.version == one)) {
        Some(FiledVersion { filed, thread: Some(thread) }) => {
            FilingResult::New { email: filed.email, thread: *thread, decision: decision.clone() }
        }
        Some(email) => FilingResult::Again(Some(email.filed.email)),
        // Without scripts, nothing is filed beside an earlier email (`file_emails`).
        None => FilingResult::Again(first_former),
    }
}

/// Returns what became of the message when the transaction was served for this recipient.
fn repeated_result(served: &DeliveryRow, recipient: &RecipientJob) -> FilingResult {
    match served.outcome(&recipient.address) {
        Some(RecipientOutcome::Refused(text)) => FilingResult::Refused(text.to_owned()),
        Some(RecipientOutcome::Accepted) | None => FilingResult::Again(served.first_email()),
    }
}

/// Returns the steps of all recipients, equal ones once: at most `limits::MAX_FILTER_STEPS`.
fn joined_steps(fresh: &[Fresh<'_>]) -> Vec<FilterStep> {
    let mut steps: Vec<FilterStep> = Vec::new();
    for step in fresh.iter().flat_map(|(.., work)| &work.writes.steps) {
        if steps.len() < limits::MAX_FILTER_STEPS && !steps.contains(step) {
            steps.push(step.clone());
        }
    }
    steps
}

/// Writes for each mailbox that could not be created an error of its script, and a step.
fn report_refused(
    txn: &mut Txn<'_>,
    refused: &[RefusedMailbox],
    email: Option<EmailId>,
    steps: &mut Vec<FilterStep>,
) -> Result<(), Error> {
    for (index, RefusedMailbox { path, step, instead }) in refused.iter().enumerate() {
        if refused.iter().take(index).any(|known| known.path == *path && known.step == *step) {
            continue;
        }
        // Steps were cut to this length.
        let step = step.get(..step.floor_char_boundary(limits::MAX_FILTER_STEP_BYTES));
        let is_it = |action: &str| {
            let rest = step.and_then(|step| action.strip_prefix(step));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let found = steps.iter().find(|known| is_it(&known.action));
        let (script, line) =
            found.map_or_else(|| (String::new(), 0), |step| (step.script.clone(), step.line));
        let path = path.get(..path.floor_char_boundary(MAX_SHOWN_PATH_BYTES)).unwrap_or(path);
        let message = format!("the mailbox `{path}` could not be created: {instead}");
        steps.truncate(limits::MAX_FILTER_STEPS - 1);
        let action = format!("failed: {message}");
        steps.push(FilterStep { script: script.clone(), line, action });
        txn.add_script_error(&ScriptError { at: txn.now(), script, line, message, email })?;
    }
    Ok(())
}

/// Writes what scripts decided for one recipient besides emails and the reply. `email` is what was
/// filed, for actions and errors to refer to; `None` if nothing was.
fn write_scripts(
    txn: &mut Txn<'_>,
    scripts: &ScriptWrites,
    email: Option<EmailId>,
    refused: &mut Vec<RefusedMailbox>,
) -> Result<(), Error> {
    for PlannedAction { new: NewAction { action, bytes }, copy } in &scripts.actions {
        let last = txn.state().last_action;
        let queued = txn.queue_action(Action { email, ..action.clone() }, bytes)?;
        // If an equal notification for another recipient is queued already, `queued` is the id of
        // that one, whose copy was filed with it. A new action has an id above all earlier ones.
        if let Some(PlannedCopy { message, rows, fcc }) = copy
            && queued.0 > last
        {
            let instead = copy::file_copy(txn, message, fcc, rows)?;
            refused.extend(instead.map(|instead| RefusedMailbox {
                path: fcc.mailbox.clone(),
                step: "notify".into(),
                instead,
            }));
        }
    }
    for version in &scripts.versions {
        txn.put_message(&version.rows, &version.message.0)?;
    }
    // A message that is refused may come again, and is no duplicate then.
    let is_served = scripts.refusal.is_none();
    for (hash, until) in scripts.duplicates.iter().filter(|_| is_served) {
        txn.remember_duplicate(hash, *until)?;
    }
    for (script, line, message) in &scripts.errors {
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

/// Counts one message for each rule that fired, even if it fired for several recipients.
fn count_rules(txn: &mut Txn<'_>, fresh: &[Fresh<'_>]) -> Result<(), Error> {
    let mut joined: BTreeMap<(ObjectId, BlobHash), BTreeSet<u32>> = BTreeMap::new();
    for FiredRules { script, source, rules } in
        fresh.iter().flat_map(|(.., work)| &work.writes.fired)
    {
        joined.entry((*script, *source)).or_default().extend(rules);
    }
    for ((script, source), rules) in joined {
        txn.count_script_hits(script, &source, &Vec::from_iter(rules))?;
    }
    Ok(())
}

/// Queues the planned reply and files its copy, and returns what the account answers. Nothing is
/// queued if no reply was planned, `is_due` is false, the response has changed since the reply was
/// planned, or the sender was told meanwhile. `is_due` is false if the recipient of the reply was
/// served meanwhile, or if the response would answer a message that was filed for an earlier
/// recipient.
fn answer(
    txn: &mut Txn<'_>,
    job: &AccountJob,
    is_due: bool,
    email: Option<EmailId>,
    refused: &mut Vec<RefusedMailbox>,
) -> Result<ReplyDecision<ActionId>, Error> {
    let PlannedReply { due: DueReply { reply, told, memory }, charge: _, copy: rows } =
        match &job.answer.decision {
            ReplyDecision::Reply(planned) if is_due => &**planned,
            ReplyDecision::Reply(_) => {
                let silence = Silence::new(NoReplyReason::Script, FILED_BEFORE);
                return Ok(ReplyDecision::Silent(silence));
            }
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
        let instead = copy::file_copy(txn, &reply.message, fcc, rows)?;
        refused.extend(instead.map(|instead| RefusedMailbox {
            path: fcc.mailbox.clone(),
            step: "vacation".into(),
            instead,
        }));
    }
    Ok(ReplyDecision::Reply(action))
}
