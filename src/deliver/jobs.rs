//! Plans what is done for one account before its commit.
//!
//! - Scripts run for each recipient of the account by itself, with the address of this recipient
//!   (RFC 5228 §5.4). The commit joins what they decided.
//! - Nothing is planned for a recipient for whom the LMTP transaction was served before: the client
//!   sends the message again. Where the plan is the same in any case, only the commit looks whether
//!   it was (`depends_on_record`).
//! - Without scripts, the first recipient that was not served before decides where the message
//!   goes.

use std::cell::OnceCell;

use super::Deliverer;
use super::context::{DeliveryContext, RecipientContext, nonce};
use super::job::{
    AccountJob, PlannedAnswer, PlannedEmail, RecipientJob, RecipientWork, ScriptWrites,
    SuccessNotification,
};
use super::plan::{Notifier, PlannedReply};
use super::rates::RateCharges;
use super::scripts::{ScriptAnswer, is_junk};
use crate::account::ResolvedAddress;
use crate::filter::{AccountScripts, StoreTarget};
use crate::message::trace;
use crate::model::{AccountId, BlobHash, Identity, Recipient, VacationResponse};
use crate::outbox::Reporter;
use crate::outbox::dsn::compose_delivered;
use crate::store::{DeliveryRow, Error, Snapshot};
use crate::vacation::{NoReplyReason, ReplyDecision, Silence};

/// A recipient, and what the directory says of its address.
pub(super) type Member<'a> = (&'a Recipient, &'a ResolvedAddress);

/// What is read once for an account.
struct AccountContext<'a> {
    id: AccountId,
    members: &'a [Member<'a>],
    snapshot: &'a Snapshot<'a>,
    scripts: Option<&'a AccountScripts>,
    response: Result<VacationResponse, Error>,
    /// The record of the LMTP transaction, if it was served before for a recipient of the account.
    /// `None` also if the plan does not depend on it: then only the commit reads it.
    served: Option<DeliveryRow>,
    /// Read when it is needed: most messages need no identity.
    identity: OnceCell<Identity>,
}

impl AccountContext<'_> {
    fn identity(&self, deliverer: &Deliverer) -> Result<&Identity, Error> {
        if let Some(known) = self.identity.get() {
            return Ok(known);
        }
        let identity = deliverer.directory.identity(self.id)?;
        Ok(self.identity.get_or_init(|| identity))
    }
}

/// The index of a recipient that was not served before, and who answers what was sent to it.
type RecipientAnswer = (usize, ScriptAnswer);

impl Deliverer {
    /// Plans what is done for an account. `members` are its recipients, each address once.
    /// `snapshot` was made for this delivery.
    ///
    /// Rates are charged for what is planned. They are refunded if this fails.
    pub(super) fn plan_account(
        &self,
        context: &DeliveryContext<'_>,
        snapshot: &Snapshot<'_>,
        id: AccountId,
        members: &[Member<'_>],
    ) -> Result<AccountJob, Error> {
        context.versions.begin_account();
        let (scripts, response) = (context.scripts.get(&id), snapshot.vacation(id));
        let depends_on_record = scripts.is_some()
            || response.as_ref().map_or(true, |response| response.enabled)
            || members.len() > 1
            || members
                .iter()
                .any(|(recipient, target)| recipient.notify.success || target.detail.is_some());
        let served = if depends_on_record { snapshot.delivery(id, context.hash)? } else { None };
        let account = AccountContext {
            id,
            members,
            snapshot,
            scripts,
            response,
            served: served.filter(|served| served.is_valid(context.now)),
            identity: OnceCell::new(),
        };
        let submission = match &context.returned_report {
            Some(returned) => snapshot.submission_for_report(id, returned)?,
            None => None,
        };
        let mut recipients = Vec::with_capacity(members.len());
        let planned = self.plan_recipients(context, &account, &mut recipients);
        let answer =
            planned.and_then(|answers| self.plan_answer(context, &account, &recipients, &answers));
        let answer = answer.inspect_err(|_| {
            let mut charges = RateCharges::default();
            for work in recipients.iter().filter_map(|recipient| recipient.work.as_ref()) {
                charges.add(&work.writes.charges);
            }
            self.rates.lock().refund(&charges);
        })?;
        let notification = self.plan_notification(context, &account, &recipients);
        Ok(AccountJob { recipients, answer, notification, submission })
    }

    /// Plans what is done for each recipient, and appends it to `recipients`.
    fn plan_recipients(
        &self,
        context: &DeliveryContext<'_>,
        account: &AccountContext<'_>,
        recipients: &mut Vec<RecipientJob>,
    ) -> Result<Vec<RecipientAnswer>, Error> {
        let mut answers = Vec::new();
        let mut common_target: Option<StoreTarget> = None;
        for (index, (recipient, target)) in account.members.iter().enumerate() {
            let prefix = trace_prefix(context, recipient, target);
            let is_served = account
                .served
                .as_ref()
                .is_some_and(|served| served.outcome(&recipient.address).is_some());
            let work = match account.scripts {
                _ if is_served => None,
                None => {
                    let kept_in = match common_target.clone() {
                        Some(known) => known,
                        None => target_by_detail(account.snapshot, target)?,
                    };
                    common_target = Some(kept_in.clone());
                    answers.push((index, ScriptAnswer::Response));
                    Some(RecipientWork {
                        is_scripted: false,
                        emails: vec![PlannedEmail::plain(kept_in)],
                        writes: ScriptWrites::default(),
                    })
                }
                Some(scripts) => {
                    let kept_in = target_by_detail(account.snapshot, target)?;
                    let owner = RecipientContext {
                        snapshot: account.snapshot,
                        recipient,
                        target,
                        identity: account.identity(self)?,
                        prefix: &prefix,
                    };
                    let (work, mut answer) = self.plan_scripts(context, scripts, owner, kept_in);
                    let is_answered =
                        |(_, known): &RecipientAnswer| matches!(known, ScriptAnswer::Script(..));
                    if answers.iter().any(is_answered)
                        && let ScriptAnswer::Script(_, edited) = &mut answer
                    {
                        // Only the first answer is sent. The versions of a large message for many
                        // recipients would take much memory.
                        *edited = None;
                    }
                    answers.push((index, answer));
                    Some(work)
                }
            };
            recipients.push(RecipientJob { address: recipient.address.clone(), prefix, work });
        }
        Ok(answers)
    }

    /// Plans the answer of the account, of which there is one at most: that of the first script
    /// that answers, or else of the response.
    fn plan_answer(
        &self,
        context: &DeliveryContext<'_>,
        account: &AccountContext<'_>,
        recipients: &[RecipientJob],
        answers: &[RecipientAnswer],
    ) -> Result<PlannedAnswer, Error> {
        let silent = |recipient: usize, reason: NoReplyReason, why: &str| PlannedAnswer {
            recipient,
            is_scripted: false,
            decision: ReplyDecision::Silent(Silence::new(reason, why)),
        };
        for (recipient, answer) in answers {
            if let ScriptAnswer::Script(script, edited) = answer {
                let notifier = Notifier::Script(script, edited.as_ref());
                // A script decides by itself whether it answers mail that it files in Junk.
                let decision = self.plan_notice(context, account, *recipient, notifier, false)?;
                return Ok(PlannedAnswer { recipient: *recipient, is_scripted: true, decision });
            }
        }
        let first = answers.first().map_or(0, |(recipient, _)| *recipient);
        let response = match &account.response {
            // No repair brings it back, and mail must not wait until the owner sets it anew.
            Err(error @ Error::Corrupt { .. }) => {
                tracing::error!(
                    account = %account.id,
                    %error,
                    "the vacation response answers nobody until it is set anew"
                );
                return Ok(silent(first, NoReplyReason::Disabled, "it cannot be read"));
            }
            response => response.as_ref().map_err(Clone::clone)?,
        };
        if !response.enabled {
            return Ok(silent(first, NoReplyReason::Disabled, ""));
        }
        if account.served.as_ref().is_some_and(|served| !served.emails.is_empty()) {
            return Ok(silent(first, NoReplyReason::Script, FILED_BEFORE));
        }
        // The first recipient whose email is not filed in Junk, or else the first one.
        let mut found: Option<(usize, bool)> = None;
        for (recipient, answer) in answers {
            if matches!(answer, ScriptAnswer::Response)
                && let Some(work) = recipients.get(*recipient).and_then(|one| one.work.as_ref())
                && found.is_none_or(|(_, junk)| junk)
            {
                let junk = is_junk(account.snapshot, account.id, &work.emails)?;
                if found.is_none() || !junk {
                    found = Some((*recipient, junk));
                }
            }
        }
        if let Some((recipient, junk)) = found {
            let notifier = Notifier::Response(response);
            let decision = self.plan_notice(context, account, recipient, notifier, junk)?;
            return Ok(PlannedAnswer { recipient, is_scripted: false, decision });
        }
        let why = answers.iter().find_map(|(_, answer)| match answer {
            ScriptAnswer::Nobody(why) => Some(*why),
            _ => None,
        });
        Ok(silent(first, NoReplyReason::Script, why.unwrap_or_default()))
    }

    fn plan_notice(
        &self,
        context: &DeliveryContext<'_>,
        account: &AccountContext<'_>,
        recipient: usize,
        notifier: Notifier<'_>,
        junk: bool,
    ) -> Result<ReplyDecision<Box<PlannedReply>>, Error> {
        let Some((recipient, target)) = account.members.get(recipient).copied() else {
            return Err(Error::NotFound("recipient"));
        };
        let owner = RecipientContext {
            snapshot: account.snapshot,
            recipient,
            target,
            identity: account.identity(self)?,
            // A reply needs no trace fields.
            prefix: b"",
        };
        self.plan_reply(context, owner, notifier, junk)
    }

    /// Plans the notification of success (RFC 3461 §4.1) for the recipients for which one was asked
    /// and that get the message. A redirected message counts as delivered: the relay is not asked
    /// for another notification, unless the script says so.
    ///
    /// The notification goes to the envelope sender, which anybody can write: a forged sender gets
    /// none, and the rate is limited.
    fn plan_notification(
        &self,
        context: &DeliveryContext<'_>,
        account: &AccountContext<'_>,
        recipients: &[RecipientJob],
    ) -> Option<SuccessNotification> {
        let sender = context.envelope.sender.as_ref()?;
        let is_taken = |job: &RecipientJob| {
            job.work.as_ref().is_some_and(|work| {
                let is_delivered = !work.emails.is_empty() || work.writes.has_redirect();
                is_delivered && work.writes.refusal.is_none()
            })
        };
        let asked = account.members.iter().zip(recipients).enumerate();
        let asked: Vec<(usize, &Recipient)> = asked
            .filter(|(_, ((recipient, _), job))| recipient.notify.success && is_taken(job))
            .map(|(index, ((recipient, _), _))| (index, *recipient))
            .collect();
        let (_, first) = asked.first()?;
        let id = account.id;
        if let Some(why) = &context.envelope.forged {
            tracing::info!(
                account = %id,
                %sender,
                why,
                "no notification of the delivery: the sender is forged"
            );
            return None;
        }
        let host = &context.settings.hostname;
        let number = nonce(context.hash, id, &first.address);
        let message_id = format!("d.{number:016x}@{host}");
        let reporter = Reporter { hostname: host, message_id: &message_id, now: context.now };
        let notified: Vec<&Recipient> = asked.iter().map(|(_, recipient)| *recipient).collect();
        let raw = context.header.raw();
        let action = compose_delivered(context.envelope, &notified, raw, None, &reporter)?;
        let charged = self.rates.lock().notifications.charge(
            context.monotonic_now,
            id,
            sender.domain(),
            &context.settings.vacation.rate,
        );
        match charged {
            Ok(charge) => {
                let recipients = asked.iter().map(|(index, _)| *index).collect();
                Some(SuccessNotification { action, charge, recipients })
            }
            Err(why) => {
                tracing::info!(
                    account = %id,
                    %sender,
                    why,
                    "no notification of the delivery: too many in an hour"
                );
                None
            }
        }
    }
}

/// Why a message that was filed before for another recipient is not answered. The code of the
/// reason is `NoReplyReason::Script`, with or without scripts.
pub(super) const FILED_BEFORE: &str = "the message was filed before, for another recipient";

fn trace_prefix(
    context: &DeliveryContext<'_>,
    recipient: &Recipient,
    target: &ResolvedAddress,
) -> Vec<u8> {
    let mut id = BlobHash(*context.hash).to_string();
    id.truncate(16);
    let (host, now) = (&context.settings.hostname, context.now);
    trace::prefix(context.envelope, recipient, &target.address, host, &id, now)
}

/// Returns the mailbox that the detail of the address names, if the account wants that; else the
/// Inbox.
fn target_by_detail(
    snapshot: &Snapshot<'_>,
    target: &ResolvedAddress,
) -> Result<StoreTarget, Error> {
    let mailbox = match &target.detail {
        Some(detail) if target.row.detail_files => {
            snapshot.find_mailbox(target.account, &detail.replace('.', "/"))?
        }
        _ => None,
    };
    Ok(mailbox.map_or(StoreTarget::Inbox, |(uid, _)| StoreTarget::Mailbox(uid)))
}
