//! Applies a message: makes one commit for each account, all under one sync, and answers when they
//! are durable.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::context::{DeliveryContext, nonce};
use super::outcome::{self, FilingResult};
use super::plan::PlannedReply;
use super::rates::RateCharges;
use super::{Deliverer, DeliveryTransaction, LargeBody, Settings, copy};
use crate::account::ResolvedAddress;
use crate::message::header::IncomingMessage;
use crate::message::{
    Message, catch_parser_panic, report, rows_of, rows_of_hashed, rows_without_content, trace,
};
use crate::model::clock::Stopwatch;
use crate::model::{
    AccountId, Action, ActionId, Address, BlobHash, Decision, EmailId, Envelope, MailboxUid,
    ObjectId, Recipient, ReturnedReport, Role, ToldLifetime, limits,
};
use crate::outbox::dsn::compose_delivered;
use crate::outbox::{self, NewAction, Reporter};
use crate::store::{EncodedMessage, Error, NewEmail, Ticket, Txn};
use crate::trace::metrics::{self, DeliveryOutcome};
use crate::vacation::{DueReply, NoReplyReason, RateCharge, ReplyDecision, Silence};
use crate::wire::smtp::Reply;

/// Queued commits, and what to answer when they are durable.
pub(super) struct PendingDelivery {
    /// For each accepted recipient, in order, the result of its account.
    outcomes: Vec<Result<FilingResult, Error>>,
    /// The account of each accepted recipient, in order.
    accounts: Vec<AccountId>,
    /// The reply to every recipient, if the message itself is refused. Then nothing is queued.
    refusal: Option<Reply>,
    ticket: Option<Ticket>,
    /// Refunded if the commits do not become durable.
    charges: RateCharges,
    /// Postfix's queue id, for the log.
    queue_id: Option<String>,
    watch: Stopwatch,
    settings: Arc<Settings>,
}

struct AccountJob {
    /// The recipients of this account, in order. `prefix`, `mailbox` and `plan` follow from the
    /// first.
    recipients: Vec<Address>,
    prefix: Vec<u8>,
    /// Where the email is filed; `None` is the Inbox.
    mailbox: Option<MailboxUid>,
    plan: ReplyDecision<Box<PlannedReply>>,
    /// The notification that tells the sender of the delivery, and its charge.
    notification: Option<(NewAction, RateCharge)>,
    /// If the message is a report: the submission that it is about.
    submission: Option<ObjectId>,
}

impl Deliverer {
    /// Parses the message, plans, and queues the commits.
    ///
    /// Bytes before the header are removed: after the trace fields, a blank line among them would
    /// end the header.
    pub(super) fn apply(
        &self,
        session: &DeliveryTransaction,
        envelope: &Envelope,
        received: &IncomingMessage,
        body: LargeBody,
    ) -> PendingDelivery {
        let watch = Stopwatch::start();
        let header = received.trimmed_header();
        let raw = header.raw();
        let settings = session.settings.clone().unwrap_or_else(|| self.settings.get());
        let mut prepared = PendingDelivery {
            outcomes: Vec::new(),
            accounts: session.targets.iter().map(|target| target.account).collect(),
            refusal: None,
            ticket: None,
            charges: RateCharges::default(),
            queue_id: trace::queue_id(&header, envelope),
            watch,
            settings: Arc::clone(&settings),
        };
        if trace::received_count(&header) >= limits::MAX_RECEIVED_FIELDS {
            prepared.refusal =
                Some(Reply::new(554, [5, 4, 6], "mail loop: too many Received fields"));
            return prepared;
        }
        let message = catch_parser_panic("a message", || Message::with_header(header.clone()));
        let rows = message.as_ref().and_then(|message| {
            catch_parser_panic("a message", || match streamed_hash(&body, raw) {
                Some(blob) => rows_of_hashed(message, blob, self.store.secrets()),
                None => rows_of(message, self.store.secrets()),
            })
        });
        let rows = rows.unwrap_or_else(|| rows_without_content(raw));
        let encoded = EncodedMessage::new(&rows);
        let hash = transaction_hash(envelope, &encoded.blob.0);
        let returned_report = message.as_ref().and_then(returned_report);
        // The permit bounds the memory that `message` and `rows` take.
        drop((message, rows));
        drop(body.parse_permit);
        let (now, monotonic_now) = (self.store.clock().now(), self.store.clock().steady());
        let (settings, facts, thread_keys) =
            (&*settings, OnceCell::new(), encoded.thread_keys.as_slice());
        let context = DeliveryContext {
            settings,
            transaction: session,
            envelope,
            header: &header,
            facts,
            thread_keys,
            hash: &hash,
            now,
            monotonic_now,
            returned_report,
        };
        let mut jobs: BTreeMap<AccountId, Result<AccountJob, Error>> = BTreeMap::new();
        for (recipient, target) in envelope.recipients.iter().zip(&session.targets) {
            match jobs.get_mut(&target.account) {
                Some(Ok(job)) => job.recipients.push(recipient.address.clone()),
                Some(Err(_)) => {}
                None => {
                    let job = self.plan_job(&context, recipient, target);
                    drop(jobs.insert(target.account, job));
                }
            }
        }
        self.plan_notifications(&context, &mut jobs);
        let accounts: Vec<AccountId> =
            jobs.iter().filter(|(_, job)| job.is_ok()).map(|(account, _)| *account).collect();
        let (results, ticket) =
            self.store.commit_streamed(&accounts, &encoded, raw, body.streamed, |txn| {
                match jobs.get(&txn.account()) {
                    Some(Ok(job)) => file(txn, job, &context, &encoded),
                    _ => Err(Error::NotFound("account")),
                }
            });
        let results: BTreeMap<AccountId, Result<FilingResult, Error>> =
            results.into_iter().collect();
        let (used, unused) =
            sort_charges(jobs.iter().map(|(account, job)| (job, results.get(account))));
        self.rates.lock().refund(&unused);
        prepared.charges = used;
        prepared.outcomes = session
            .targets
            .iter()
            .map(|target| match (results.get(&target.account), jobs.get(&target.account)) {
                (Some(result), _) => result.clone(),
                (None, Some(Err(error))) => Err(error.clone()),
                (None, _) => Err(Error::NotFound("account")),
            })
            .collect();
        prepared.ticket = Some(ticket);
        prepared
    }

    /// Plans what is done for the account of a recipient, by its first recipient.
    fn plan_job(
        &self,
        context: &DeliveryContext<'_>,
        recipient: &Recipient,
        target: &ResolvedAddress,
    ) -> Result<AccountJob, Error> {
        let DeliveryContext { settings, envelope, hash, now, .. } = *context;
        let snapshot = self.store.snapshot();
        let account = target.account;
        let id = BlobHash(*hash).to_string().chars().take(16).collect::<String>();
        let prefix =
            trace::prefix(envelope, recipient, &target.address, &settings.hostname, &id, now);
        let mailbox = match &target.detail {
            Some(detail) if target.row.detail_files => {
                let path = detail.replace('.', "/");
                snapshot.find_mailbox(account, &path)?
            }
            _ => None,
        };
        let is_junk = mailbox.as_ref().is_some_and(|(_, mailbox)| mailbox.role == Some(Role::Junk));
        let mailbox = mailbox.map(|(uid, _)| uid);
        let submission = match &context.returned_report {
            Some(returned) => snapshot.submission_for_report(account, returned)?,
            None => None,
        };
        let response = snapshot.vacation(account)?;
        // This charges the rate: nothing may fail after it.
        let plan = if response.enabled {
            self.plan_reply(context, (recipient, target), &response, is_junk)?
        } else {
            ReplyDecision::Silent(Silence::new(NoReplyReason::Disabled, ""))
        };
        Ok(AccountJob {
            recipients: vec![recipient.address.clone()],
            prefix,
            mailbox,
            plan,
            notification: None,
            submission,
        })
    }

    /// Plans the notifications of success (RFC 3461 §4.1), one for each account, in the commit of
    /// its delivery. They go to the envelope sender, which anybody can write: a forged sender gets
    /// none, and their rate is limited.
    fn plan_notifications(
        &self,
        context: &DeliveryContext<'_>,
        jobs: &mut BTreeMap<AccountId, Result<AccountJob, Error>>,
    ) {
        let Some(sender) = &context.envelope.sender else { return };
        for (account, job) in jobs
            .iter_mut()
            .filter_map(|(account, job)| job.as_mut().ok().map(|job| (*account, job)))
        {
            let recipients = context.envelope.recipients.iter().zip(&context.transaction.targets);
            let notified: Vec<&Recipient> = recipients
                .filter(|(recipient, target)| recipient.notify.success && target.account == account)
                .map(|(recipient, _)| recipient)
                .collect();
            if notified.is_empty() {
                continue;
            }
            if let Some(why) = &context.envelope.forged {
                tracing::info!(
                    %account,
                    %sender,
                    why,
                    "no notification of the delivery: the sender is forged"
                );
                continue;
            }
            let limits = &context.settings.vacation.rate;
            let charge = match self.rates.lock().notifications.charge(
                context.monotonic_now,
                account,
                sender.domain(),
                limits,
            ) {
                Ok(charge) => charge,
                Err(why) => {
                    tracing::info!(
                        %account,
                        %sender,
                        why,
                        "no notification of the delivery: too many in an hour"
                    );
                    continue;
                }
            };
            let host = &context.settings.hostname;
            let id = format!("d.{:016x}@{host}", nonce(context.hash, account));
            let reporter = Reporter { hostname: host, message_id: &id, now: context.now };
            let raw = context.header.raw();
            match compose_delivered(context.envelope, &notified, raw, None, &reporter) {
                Some(notification) => job.notification = Some((notification, charge)),
                None => self.rates.lock().notifications.refund(&charge),
            }
        }
    }

    /// Waits until the commits are durable, and returns the reply for each recipient.
    pub(super) async fn replies(&self, prepared: PendingDelivery) -> Vec<Reply> {
        if let Some(reply) = prepared.refusal {
            prepared.accounts.iter().for_each(|_| metrics::count_delivery(refusal_outcome(&reply)));
            return vec![reply; prepared.accounts.len()];
        }
        let durable = match prepared.ticket {
            Some(ticket) => ticket.overtaken_accounts().await,
            None => Ok(Vec::new()),
        };
        if durable.is_err() {
            self.rates.lock().refund(&prepared.charges);
        }
        let queue_id = prepared.queue_id.as_deref().unwrap_or("-");
        let duration = prepared.watch.elapsed();
        metrics::record_delivery_time(duration);
        let ms = duration.as_millis();
        let outcomes = prepared.outcomes.into_iter().zip(prepared.accounts);
        outcomes
            .map(|(outcome, account)| match check_written(&durable, account).and(outcome) {
                Ok(result) => {
                    match &result {
                        FilingResult::New { email, thread, decision } => {
                            metrics::count_delivery(DeliveryOutcome::Filed);
                            metrics::count_decision(decision.code());
                            let decision = outcome::log_text(decision);
                            tracing::info!(
                                queue_id,
                                %account,
                                %email,
                                %thread,
                                decision,
                                ms,
                                "delivered"
                            );
                        }
                        FilingResult::Again(email) => {
                            metrics::count_delivery(DeliveryOutcome::Duplicate);
                            let email = email.map(|email| email.to_string());
                            tracing::info!(queue_id, %account, email, ms, "delivered before");
                        }
                    }
                    outcome::acceptance(&result)
                }
                Err(error) => {
                    tracing::warn!(queue_id, %account, %error, ms, "not delivered");
                    let reply = outcome::refusal(&error, &prepared.settings);
                    metrics::count_delivery(refusal_outcome(&reply));
                    reply
                }
            })
            .collect()
    }
}

/// The hash that was made while the message came in. `None` if there is none, or if it includes
/// bytes before the header, which are not part of the message.
fn streamed_hash(body: &LargeBody, raw: &[u8]) -> Option<BlobHash> {
    let streamed = body.streamed.as_ref()?;
    (streamed.length() == raw.len() as u64).then(|| BlobHash(streamed.hash()))
}

fn refusal_outcome(reply: &Reply) -> DeliveryOutcome {
    if reply.code < 500 { DeliveryOutcome::Deferred } else { DeliveryOutcome::Refused }
}

/// `durable` lists the accounts that were overtaken.
fn check_written(durable: &Result<Vec<AccountId>, Error>, account: AccountId) -> Result<(), Error> {
    match durable {
        Ok(overtaken) if overtaken.contains(&account) => Err(Error::Overtaken(account)),
        Ok(_) => Ok(()),
        Err(error) => Err(error.clone()),
    }
}

/// Returns what a report says about the message that it names, which need not be a submission (RFC
/// 8621 §7). `None` if the message is no report, or cannot be read as one.
fn returned_report(message: &Message<'_>) -> Option<ReturnedReport> {
    catch_parser_panic("a report", || report::report(message))
        .flatten()
        .map(|report| report.to_returned_report())
}

type JobOutcome<'a> = (&'a Result<AccountJob, Error>, Option<&'a Result<FilingResult, Error>>);

/// Splits the charges of the jobs: for what is queued, and for what is not.
fn sort_charges<'a>(jobs: impl Iterator<Item = JobOutcome<'a>>) -> (RateCharges, RateCharges) {
    let (mut used, mut unused) = (RateCharges::default(), RateCharges::default());
    for (job, result) in jobs.filter_map(|(job, result)| job.as_ref().ok().map(|job| (job, result)))
    {
        let decision = match result {
            Some(Ok(FilingResult::New { decision, .. })) => Some(decision),
            _ => None,
        };
        if let ReplyDecision::Reply(planned) = &job.plan
            && let Some(charge) = &planned.charge
        {
            let is_sent = decision.is_some_and(ReplyDecision::is_reply);
            let charges = if is_sent { &mut used } else { &mut unused };
            charges.replies.push(charge.clone());
        }
        if let Some((_, charge)) = &job.notification {
            let charges = if decision.is_some() { &mut used } else { &mut unused };
            charges.notifications.push(charge.clone());
        }
    }
    (used, unused)
}

/// Files the message for one account. A transaction that was served before changes nothing, but is
/// remembered anew, also for its further recipients.
fn file(
    txn: &mut Txn<'_>,
    job: &AccountJob,
    context: &DeliveryContext<'_>,
    message: &EncodedMessage,
) -> Result<FilingResult, Error> {
    let DeliveryContext { envelope, hash, .. } = *context;
    if let Some(served) = txn.delivery(hash)? {
        txn.remember_delivery(hash, served.email, &job.recipients)?;
        return Ok(FilingResult::Again(served.email));
    }
    let inbox = txn.state().inbox;
    let (email, thread) = txn.create_email(&NewEmail {
        message,
        prefix: &job.prefix,
        mailboxes: BTreeSet::from([job.mailbox.unwrap_or(inbox)]),
        keywords: BTreeSet::new(),
        received_at: txn.now(),
    })?;
    txn.remember_delivery(hash, Some(email), &job.recipients)?;
    if let Some((NewAction { action, bytes }, _)) = &job.notification {
        txn.queue_action(Action { email: Some(email), ..action.clone() }, bytes)?;
    }
    if let (Some(submission), Some(returned)) = (job.submission, &context.returned_report) {
        txn.report_submission(submission, returned, email)?;
    }
    let decision = answer(txn, &job.plan, email)?;
    let verdict = outcome::verdict(&decision);
    let recipient = job.recipients.first().cloned().unwrap_or_else(|| Address::from_parts("", ""));
    txn.add_decision(&Decision {
        at: txn.now(),
        email,
        sender: envelope.sender.clone(),
        recipient,
        verdict,
    });
    Ok(FilingResult::New { email, thread, decision })
}

/// Queues the planned reply, unless the response changed or the sender was told since it was
/// planned.
fn answer(
    txn: &mut Txn<'_>,
    plan: &ReplyDecision<Box<PlannedReply>>,
    email: EmailId,
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
        copy::file_copy(txn, reply, fcc, rows)?;
    }
    Ok(ReplyDecision::Reply(action))
}

/// The hash by which a retry of a transaction is recognised: of the envelope sender, preceded by
/// its length, and of the message. A retry may be for some of the recipients only.
fn transaction_hash(envelope: &Envelope, blob: &[u8; 32]) -> [u8; 32] {
    let sender = envelope.sender.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut hasher =
        blake3::Hasher::new_derive_key("restante 2026-11 delivery: envelope sender and message");
    hasher.update(&(sender.len() as u64).to_be_bytes());
    hasher.update(sender.as_bytes());
    hasher.update(blob);
    *hasher.finalize().as_bytes()
}
