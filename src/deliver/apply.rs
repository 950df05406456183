//! Applies a message: makes one commit for each account, all under one sync, and answers when they
//! are durable.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::{DeliveryContext, nonce};
use super::file::file;
use super::job::AccountJob;
use super::outcome::{self, FilingResult};
use super::plan::{Notifier, PlannedReply};
use super::rates::RateCharges;
use super::scripts::{ScriptAnswer, ScriptOwner, ScriptPlan, is_junk};
use super::{Deliverer, DeliveryTransaction, LargeBody, Settings};
use crate::account::ResolvedAddress;
use crate::filter::StoreTarget;
use crate::message::header::IncomingMessage;
use crate::message::{
    Message, catch_parser_panic, report, rows_of, rows_of_hashed, rows_without_content, trace,
};
use crate::model::clock::Stopwatch;
use crate::model::{AccountId, BlobHash, Envelope, Recipient, ReturnedReport, limits};
use crate::outbox::Reporter;
use crate::outbox::dsn::compose_delivered;
use crate::store::{EncodedMessage, Error, Snapshot, Ticket};
use crate::trace::metrics::{self, DeliveryOutcome};
use crate::vacation::{NoReplyReason, ReplyDecision, Silence};
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
            blob: encoded.blob,
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
        let kept_in = mailbox.map_or(StoreTarget::Inbox, |(uid, _)| StoreTarget::Mailbox(uid));
        let submission = match &context.returned_report {
            Some(returned) => snapshot.submission_for_report(account, returned)?,
            None => None,
        };
        let identity = self.directory.identity(account)?;
        let owner = ScriptOwner { recipient, target, identity: &identity, prefix: &prefix };
        // This and the reply charge rates: what is planned must be refunded if anything fails.
        let scripts = self.plan_scripts(context, &snapshot, owner, kept_in)?;
        let plan = self.plan_answer(context, &snapshot, owner, &scripts);
        let plan = plan.inspect_err(|_| {
            let charges = RateCharges {
                notifications: scripts.writes.charges.clone(),
                ..RateCharges::default()
            };
            self.rates.lock().refund(&charges);
        })?;
        Ok(AccountJob {
            recipients: vec![recipient.address.clone()],
            emails: scripts.emails,
            scripts: scripts.writes,
            prefix,
            plan,
            notification: None,
            submission,
        })
    }

    /// Plans the reply: that of a script, or else of the account's response.
    fn plan_answer(
        &self,
        context: &DeliveryContext<'_>,
        snapshot: &Snapshot<'_>,
        owner: ScriptOwner<'_>,
        scripts: &ScriptPlan,
    ) -> Result<ReplyDecision<Box<PlannedReply>>, Error> {
        let account = owner.target.account;
        let recipient = (owner.recipient, owner.target);
        let response = snapshot.vacation(account)?;
        match &scripts.answer {
            ScriptAnswer::Script(script) => {
                self.plan_reply(context, recipient, Notifier::Script(script), false)
            }
            _ if !response.enabled => {
                Ok(ReplyDecision::Silent(Silence::new(NoReplyReason::Disabled, "")))
            }
            ScriptAnswer::Nobody(why) => {
                Ok(ReplyDecision::Silent(Silence::new(NoReplyReason::Script, *why)))
            }
            ScriptAnswer::Response => {
                let is_junk = is_junk(snapshot, account, &scripts.emails)?;
                self.plan_reply(context, recipient, Notifier::Response(&response), is_junk)
            }
        }
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
            if notified.is_empty() || job.scripts.refusal.is_some() {
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
                        FilingResult::NotStored(decision) => {
                            metrics::count_delivery(DeliveryOutcome::Filed);
                            metrics::count_decision(decision.code());
                            let decision = outcome::log_text(decision);
                            tracing::info!(queue_id, %account, decision, ms, "stored nowhere");
                        }
                        FilingResult::Refused(reason) => {
                            metrics::count_delivery(DeliveryOutcome::Refused);
                            tracing::info!(queue_id, %account, reason, ms, "refused by a script");
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
            Some(Ok(FilingResult::New { decision, .. } | FilingResult::NotStored(decision))) => {
                Some(decision)
            }
            _ => None,
        };
        if let ReplyDecision::Reply(planned) = &job.plan
            && let Some(charge) = &planned.charge
        {
            let is_sent = decision.is_some_and(ReplyDecision::is_reply);
            let charges = if is_sent { &mut used } else { &mut unused };
            charges.replies.push(charge.clone());
        }
        let is_refused = matches!(result, Some(Ok(FilingResult::Refused(_))));
        if is_refused || decision.is_some() { &mut used } else { &mut unused }
            .notifications
            .extend(job.scripts.charges.iter().cloned());
        if let Some((_, charge)) = &job.notification {
            let charges = if decision.is_some() { &mut used } else { &mut unused };
            charges.notifications.push(charge.clone());
        }
    }
    (used, unused)
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
