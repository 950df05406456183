//! Applies a message: makes one commit for each account, all under one sync, and answers when they
//! are durable.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::charges::sort_charges;
use super::context::DeliveryContext;
use super::file::file;
use super::job::AccountJob;
use super::jobs::Member;
use super::outcome::{self, FiledAccount, FilingResult};
use super::rates::RateCharges;
use super::version::EditedVersions;
use super::{Deliverer, DeliveryTransaction, LargeBody, LoadedScripts, Settings};
use crate::account::ResolvedAddress;
use crate::message::header::IncomingMessage;
use crate::message::{
    Message, catch_parser_panic, report, rows_of, rows_of_hashed, rows_without_content, trace,
};
use crate::model::clock::Stopwatch;
use crate::model::{AccountId, BlobHash, Envelope, Recipient, ReturnedReport, limits};
use crate::store::{EncodedMessage, Error, Ticket};
use crate::trace::metrics::{self, DeliveryOutcome};
use crate::wire::smtp::Reply;

/// Queued commits, and what to answer when they are durable.
pub(super) struct PendingDelivery {
    /// For each accepted recipient, in order, what became of the message. Empty if there is a
    /// `refusal`.
    outcomes: Vec<Result<FilingResult, Error>>,
    /// The account of each accepted recipient, in order.
    accounts: Vec<AccountId>,
    /// The reply to every recipient, if the message itself is refused. Then nothing is queued.
    refusal: Option<Reply>,
    /// Waits for the commits; `None` if there is a `refusal`.
    ticket: Option<Ticket>,
    /// What was charged for the actions that are queued, for each account. Refunded if the commit
    /// of the account does not become durable: the client sends the message again.
    charges: BTreeMap<AccountId, RateCharges>,
    /// Postfix's queue id, for the log.
    queue_id: Option<String>,
    watch: Stopwatch,
    settings: Arc<Settings>,
}

impl Deliverer {
    /// Parses the message, plans, and queues the commits.
    ///
    /// Bytes before the header are not stored. They would stand behind the trace fields, where a
    /// blank line among them would end the header.
    ///
    /// A message with `limits::MAX_RECEIVED_FIELDS` or more Received fields is refused.
    pub(super) fn apply(
        &self,
        session: &DeliveryTransaction,
        scripts: &LoadedScripts,
        envelope: &Envelope,
        received: &IncomingMessage,
        body: LargeBody,
    ) -> PendingDelivery {
        let watch = Stopwatch::start();
        let header = received.trimmed_header();
        let raw = header.raw();
        let settings = self.settings_of(session);
        let mut prepared = PendingDelivery {
            outcomes: Vec::new(),
            accounts: session.targets.iter().map(|target| target.account).collect(),
            refusal: None,
            ticket: None,
            charges: BTreeMap::new(),
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
        drop((message, rows));
        let mut members: BTreeMap<AccountId, Vec<Member<'_>>> = BTreeMap::new();
        for (recipient, target) in envelope.recipients.iter().zip(&session.targets) {
            let known = members.entry(target.account).or_default();
            if !known.iter().any(|(known, _)| known.address == recipient.address) {
                known.push((recipient, target));
            }
        }
        let (now, monotonic_now) = (self.store.clock().now(), self.store.clock().steady());
        let (settings, facts, thread_keys) =
            (&*settings, OnceCell::new(), encoded.thread_keys.as_slice());
        let context = DeliveryContext {
            settings,
            envelope,
            header: &header,
            facts,
            thread_keys,
            hash: &hash,
            blob: encoded.blob,
            now,
            monotonic_now,
            returned_report,
            scripts,
            versions: EditedVersions::new(self.max_edited_bytes, raw.len(), members.len()),
        };
        let snapshot = self.store.snapshot();
        let jobs: BTreeMap<AccountId, Result<AccountJob, Error>> = members
            .iter()
            .map(|(id, members)| (*id, self.plan_account(&context, &snapshot, *id, members)))
            .collect();
        drop(snapshot);
        let accounts: Vec<AccountId> =
            jobs.iter().filter(|(_, job)| job.is_ok()).map(|(account, _)| *account).collect();
        let (results, ticket) =
            self.store.commit_streamed(&accounts, &encoded, raw, body.streamed, |txn| {
                match jobs.get(&txn.account()) {
                    Some(Ok(job)) => file(txn, job, &context, &encoded),
                    // Cannot be: only accounts with a job are committed to.
                    _ => Err(Error::NotFound("account")),
                }
            });
        let results: BTreeMap<AccountId, Result<FiledAccount, Error>> =
            results.into_iter().collect();
        let (used, unused) =
            sort_charges(jobs.iter().map(|(account, job)| (*account, job, results.get(account))));
        self.rates.lock().refund(&unused);
        prepared.charges = used;
        let outcome = |(recipient, target): (&Recipient, &ResolvedAddress)| {
            let job = jobs.get(&target.account).ok_or(Error::NotFound("account"))?;
            let job = job.as_ref().map_err(Clone::clone)?;
            let filed = results.get(&target.account).ok_or(Error::NotFound("account"))?;
            let filed = filed.as_ref().map_err(Clone::clone)?;
            let mut recipients = job.recipients.iter().zip(&filed.results);
            let found = recipients.find(|(job, _)| job.address == recipient.address);
            found.map(|(_, result)| result.clone()).ok_or(Error::NotFound("recipient"))
        };
        prepared.outcomes = envelope.recipients.iter().zip(&session.targets).map(outcome).collect();
        prepared.ticket = Some(ticket);
        // The permit bounds the memory that parsing and the versions of scripts take. The jobs have
        // the versions until the commits are queued.
        drop((jobs, context));
        drop(body.parse_permit);
        prepared
    }

    /// Waits until the commits are durable, and returns the reply for each accepted recipient.
    pub(super) async fn replies(&self, prepared: PendingDelivery) -> Vec<Reply> {
        if let Some(reply) = prepared.refusal {
            return refuse_all(reply, prepared.accounts.len());
        }
        let durable = match prepared.ticket {
            Some(ticket) => ticket.overtaken_accounts().await,
            None => Ok(Vec::new()),
        };
        for (account, charges) in &prepared.charges {
            if check_written(&durable, *account).is_err() {
                self.rates.lock().refund(charges);
            }
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

/// Returns a refusal for each of `count` recipients, and counts them.
pub(super) fn refuse_all(reply: Reply, count: usize) -> Vec<Reply> {
    (0..count).for_each(|_| metrics::count_delivery(refusal_outcome(&reply)));
    vec![reply; count]
}

fn refusal_outcome(reply: &Reply) -> DeliveryOutcome {
    if reply.code < 500 { DeliveryOutcome::Deferred } else { DeliveryOutcome::Refused }
}

/// Returns the error of an account whose commit is not durable. `durable` is the result of the
/// ticket: the accounts whose commits were overtaken, or the error of all.
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
