//! One attempt at one action, and its record.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::entitled::reason_not_entitled;
use super::order::{ActionKey, RetryOrder};
use super::pool::RelayPool;
use super::send::{RelayConnection, SendResult, prepare};
use super::settings::Settings;
use crate::account::Directory;
use crate::model::{AccountId, Action, ActionState, Address, RecipientState, Target, UtcMillis};
use crate::outbox::dsn;
use crate::outbox::{
    ActionStep, AttemptOutcome, NOT_SENT, NewAction, NextStep, RefusalScope, Reporter,
    in_order_until, next_step, recover, rules, too_late,
};
use crate::store::{Digest, Error, Store, domain_digest, lane_digest};
use crate::trace::count;

/// How long an action waits for earlier mail whose turn it is just now.
const TURN_PAUSE: Duration = Duration::from_secs(2);

/// What every attempt needs.
#[derive(Debug, Clone)]
pub(super) struct AttemptContext {
    pub(super) store: Store,
    pub(super) directory: Directory,
    pub(super) settings: Arc<Settings>,
    pub(super) pool: Arc<RelayPool>,
    pub(super) order: Arc<Mutex<RetryOrder>>,
}

/// What came of it for the queue.
#[derive(Debug)]
pub(super) enum AttemptResult {
    /// It has its record; what was heard of destinations, and of the relay.
    Recorded(Vec<(Digest, DestinationHealth)>, RelayHealth),
    /// The relay is out of order, for what it met, and nothing was tried.
    RelayDown(String),
    /// The store did not take the record, or did not give the action: it is left alone for a while.
    Unrecorded,
    /// Its account is being repaired, or a row of the directory that it needs is damaged: it is
    /// left alone for a while, and the others go on.
    Rests,
    /// Earlier mail goes before it: it waits until then.
    Behind(UtcMillis),
}

/// What was heard of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelayHealth {
    /// Nothing: it was not asked.
    None,
    Well,
    /// It refuses us.
    Refused,
}

/// What was heard of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DestinationHealth {
    /// It took something, or refused it for good.
    Reached,
    /// It refused one recipient for now.
    RefusedOne,
    Refused,
}

/// Nothing was done, nothing was heard.
fn nothing() -> AttemptResult {
    AttemptResult::Recorded(Vec::new(), RelayHealth::None)
}

impl AttemptContext {
    pub(super) async fn carry_out(self, (account, id): ActionKey) -> AttemptResult {
        let read = self.store.snapshot().action(account, id);
        let action = match read {
            Ok(Some(action)) => action,
            Ok(None) => {
                self.order.lock().forget((account, id));
                return nothing();
            }
            Err(Error::Rebuilding(_)) => return AttemptResult::Rests,
            Err(error) => {
                tracing::error!(%account, action = %id, %error, "an action cannot be read");
                return AttemptResult::Unrecorded;
            }
        };
        let (now, pace) = (self.store.clock().now(), &self.settings.pace);
        let next = match action.state {
            ActionState::Held | ActionState::Blocked | ActionState::Failed => {
                self.order.lock().forget((account, id));
                return nothing();
            }
            ActionState::Sent => Some(NextStep {
                step: ActionStep::Done,
                failed: Vec::new(),
                note: None,
                lost: None,
            }),
            // Its attempt was made, and what came of it could not be recorded.
            ActionState::Attempting => recover(&action, now, pace),
            ActionState::Waiting if action.due > now => return nothing(),
            // All else is tried once more: a clock that was wrong for a moment gives up nothing
            // untried.
            ActionState::Waiting if now >= action.expires && rules(action.kind).at_most_once => {
                Some(too_late(&action, now, pace))
            }
            ActionState::Waiting => None,
        };
        let (turned, free) = if next.is_none() {
            self.recipients_in_order(account, &action, now)
        } else {
            (action.clone(), Ok(0))
        };
        let free = match free {
            Ok(free) => free,
            Err(until) => return AttemptResult::Behind(until),
        };
        let octets = self.store.snapshot().action_message(account, &action);
        let octets = match octets {
            Ok(octets) => octets,
            Err(Error::Rebuilding(_)) => return AttemptResult::Rests,
            Err(error) if next.is_none() => {
                return self.hold_unreadable(account, &action, &error).await;
            }
            // Of what is over the octets are not needed.
            Err(_) => Vec::new(),
        };
        match next {
            Some(next) => self.record_next_step(account, (&action, &action), next, &octets).await,
            None => {
                match reason_not_entitled(&self.directory, account, (&action, &octets), now, pace) {
                    Ok(None) => {
                        self.attempt_delivery(account, &action, (&turned, free), &octets).await
                    }
                    Ok(Some(next)) => {
                        self.record_next_step(account, (&action, &action), next, &octets).await
                    }
                    Err(error @ Error::Corrupt { .. }) => {
                        tracing::warn!(%account, action = %action.id, %error, "not sent before a repair");
                        AttemptResult::Rests
                    }
                    Err(error) => {
                        tracing::error!(%account, action = %id, %error, "whose addresses are whose cannot be read");
                        AttemptResult::Unrecorded
                    }
                }
            }
        }
    }

    /// The action with the recipients that may be asked now before those for whom earlier mail
    /// waits, and how many may be; where it is none, until when it waits.
    fn recipients_in_order(
        &self,
        account: AccountId,
        action: &Action,
        now: UtcMillis,
    ) -> (Action, Result<usize, UtcMillis>) {
        let key = (account, action.id);
        let last = in_order_until(action, now);
        let waits = |target: &Target| match target.waits() {
            true if now < last => self.wait_of_earlier_mail(key, &target.address, now),
            _ => None,
        };
        let is_early = self.order.lock().is_early(key, now);
        if is_early || now >= last {
            return (action.clone(), Ok(usize::MAX));
        }
        let (mut free, mut behind, mut until) = (Vec::new(), Vec::new(), None);
        for target in &action.recipients {
            match waits(target) {
                None => free.push(target.clone()),
                Some(at) => {
                    until = Some(until.map_or(at, |until: UtcMillis| until.min(at)));
                    behind.push(target.clone());
                }
            }
        }
        let many = free.iter().filter(|target| target.waits()).count();
        free.append(&mut behind);
        let turned = Action { recipients: free, ..action.clone() };
        let Some(until) = until.filter(|_| many == 0) else { return (turned, Ok(many)) };
        let until = until.min(last);
        self.order.lock().wait(key, lanes(account, action), until);
        (turned, Err(until))
    }

    /// Until when the mail before an action waits that goes to the same address, if any does.
    fn wait_of_earlier_mail(
        &self,
        key: ActionKey,
        to: &Address,
        now: UtcMillis,
    ) -> Option<UtcMillis> {
        let lane = lane_digest(key.0, &to.folded());
        loop {
            let first = self.order.lock().before(key, lane)?;
            let known = self.store.snapshot().action(first.0, first.1).ok().flatten();
            match known {
                Some(known) if known.state == ActionState::Waiting && known.due > now => {
                    return Some(known.due);
                }
                // It is its turn.
                Some(known)
                    if matches!(known.state, ActionState::Waiting | ActionState::Attempting) =>
                {
                    return Some(now.after(TURN_PAUSE));
                }
                // It was removed or held by hand.
                _ => self.order.lock().forget(first),
            }
        }
    }

    async fn attempt_delivery(
        &self,
        account: AccountId,
        read: &Action,
        (action, most): (&Action, usize),
        octets: &[u8],
    ) -> AttemptResult {
        let relay = &self.settings.relay;
        let begun = Mutex::new(None);
        let mut fresh = false;
        let handed = loop {
            let opened = if fresh {
                RelayConnection::open(relay).await
            } else {
                self.pool.take(relay).await
            };
            let connection = match opened {
                Ok(connection) => connection,
                Err(error) => return self.relay_down(account, read, &error, octets).await,
            };
            let prepare = |offers| prepare(&self.settings, action, octets, offers);
            let record = || self.begin(account, read, &begun);
            match connection.hand_over(relay, (action, most), prepare, record).await {
                SendResult::Stale if !fresh => fresh = true,
                handed => break handed,
            }
        };
        let outcomes = match handed {
            SendResult::Made { outcomes, connection } => {
                if let Some(connection) = connection {
                    self.pool.give(relay, connection).await;
                }
                outcomes
            }
            SendResult::Stale => {
                return self
                    .relay_down(account, read, "it hangs up on new connections", octets)
                    .await;
            }
            // It was taken back, held or moved while the relay was asked: nothing of it went out.
            SendResult::Unrecorded(error @ (Error::NotFound(_) | Error::Conflict(_))) => {
                tracing::info!(%account, action = %action.id, %error, "not sent: the attempt was broken off");
                return nothing();
            }
            SendResult::Unrecorded(error) => {
                tracing::error!(%account, action = %action.id, %error, "an attempt could not be recorded, and was not made");
                return AttemptResult::Unrecorded;
            }
        };
        let begun = begun.into_inner();
        let refused_us = |outcome: &AttemptOutcome| match outcome {
            AttemptOutcome::Temporary { scope: RefusalScope::Relay, text } => Some(text.clone()),
            _ => None,
        };
        let ours = outcomes.iter().find_map(refused_us);
        if let Some(error) = &ours
            && outcomes
                .iter()
                .all(|outcome| refused_us(outcome).is_some() || *outcome == AttemptOutcome::TooMany)
            && begun.is_none()
        {
            return self.relay_down(account, read, error, octets).await;
        }
        let heard = destination_health(action, &outcomes);
        let now = self.store.clock().now();
        let jitter = action.message_id.bytes().fold(0u8, u8::wrapping_add);
        let next = next_step(action, outcomes, now, &self.settings.pace, jitter);
        let read = begun.as_ref().unwrap_or(read);
        match self.record_next_step(account, (read, action), next, octets).await {
            AttemptResult::Recorded(..) => AttemptResult::Recorded(
                heard,
                if ours.is_some() { RelayHealth::Refused } else { RelayHealth::Well },
            ),
            other => other,
        }
    }

    /// Records that the message goes out from now on, whatever its kind: whoever would hold or
    /// remove the action later must hear that it may have been sent. Refused where the action is
    /// not what the attempt began with.
    async fn begin(
        &self,
        account: AccountId,
        action: &Action,
        begun: &Mutex<Option<Action>>,
    ) -> Result<(), Error> {
        let attempt = Action { state: ActionState::Attempting, ..action.clone() };
        let ((), ticket) = self.store.commit(account, |txn| txn.update_action(action, &attempt))?;
        // From here on it counts as made: whether the record is on the disk is not known if the
        // wait fails.
        *begun.lock() = Some(attempt);
        ticket.wait().await
    }

    /// The relay cannot be had. The action keeps its turn and its attempts: it waits for the relay,
    /// not for itself. What a person waits for says so, once.
    async fn relay_down(
        &self,
        account: AccountId,
        action: &Action,
        error: &str,
        octets: &[u8],
    ) -> AttemptResult {
        tracing::warn!(%account, action = %action.id, error, "the relay is out of order");
        let now = self.store.clock().now();
        let known = Action { last_error: Some(error.to_owned()), ..action.clone() };
        if now >= action.expires {
            let next = too_late(&known, now, &self.settings.pace);
            self.record_next_step(account, (action, &known), next, octets).await;
        } else if action.urgent && action.last_error.is_none() {
            let done = self.store.commit(account, |txn| txn.update_action(action, &known));
            if let Ok(((), ticket)) = done
                && ticket.wait().await.is_err()
            {
                return AttemptResult::Unrecorded;
            }
        }
        AttemptResult::RelayDown(error.to_owned())
    }

    /// An action whose octets are lost cannot be sent, and is not dropped without a word.
    async fn hold_unreadable(
        &self,
        account: AccountId,
        action: &Action,
        error: &Error,
    ) -> AttemptResult {
        tracing::error!(%account, action = %action.id, %error, "what an action sends cannot be read: it is held");
        let held = Action {
            state: ActionState::Held,
            last_error: Some(error.to_string()),
            ..action.clone()
        };
        let done = self.store.commit(account, |txn| txn.update_action(action, &held));
        match done {
            Ok(((), ticket)) => {
                ticket.wait().await.map_or(AttemptResult::Unrecorded, |()| nothing())
            }
            // Somebody did something else with it meanwhile: it is looked at again.
            Err(Error::NotFound(_) | Error::Conflict(_)) => nothing(),
            Err(_) => AttemptResult::Unrecorded,
        }
    }

    /// Records what is next of an action, `read` being its row as this attempt read or wrote it
    /// last. What was changed by hand meanwhile stays so: nothing of the message went out then
    /// (`begin`), and the attempt is forgotten.
    async fn record_next_step(
        &self,
        account: AccountId,
        (read, action): (&Action, &Action),
        next: NextStep,
        octets: &[u8],
    ) -> AttemptResult {
        let report = self.report(account, action, &next, octets);
        let done = self.store.commit(account, |txn| {
            txn.assert_action(read)?;
            let gone = match &next.step {
                ActionStep::Done => txn.complete_action(action.id).map(|_| Vec::new())?,
                ActionStep::Dropped => txn.remove_unsent_action(action.id)?.split_off(1),
                ActionStep::Again(again) => txn.update_action(read, again).map(|()| Vec::new())?,
                ActionStep::Kept(kept) => {
                    txn.update_action(read, kept)?;
                    if kept.state == ActionState::Failed {
                        txn.drop_dependants(action.id)?
                    } else {
                        txn.release_dependants(action.id)?;
                        Vec::new()
                    }
                }
            };
            for dependant in &gone {
                txn.take_back_answer(dependant, NOT_SENT, "what it depends on was not sent")?;
            }
            if let Some(lost) = &next.lost {
                txn.take_back_answer(action, lost.reason, &lost.why)?;
                if let Some(who) = action.told.filter(|_| lost.forget_told) {
                    txn.remove_told(&who)?;
                }
            }
            if let Some(NewAction { action, octets }) = &report {
                txn.queue_action(action.clone(), octets)?;
            }
            Ok(())
        });
        let done = match done {
            Ok(((), ticket)) => {
                log_next_step(account, action, &next);
                ticket.wait().await
            }
            Err(error @ (Error::NotFound(_) | Error::Conflict(_))) => {
                tracing::info!(%account, action = %action.id, %error, "what came of an attempt is not recorded");
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::error!(%account, action = %action.id, %error, "what came of an action could not be recorded");
            return AttemptResult::Unrecorded;
        }
        let mut order = self.order.lock();
        match &next.step {
            ActionStep::Again(again) if again.due > self.store.clock().now() => {
                order.wait((account, action.id), lanes(account, again), again.due);
            }
            _ => order.forget((account, action.id)),
        }
        nothing()
    }

    /// What its sender is told of those whom it will not reach. Its id follows from the action and
    /// the attempt, so that it is the same if the record must be made again.
    fn report(
        &self,
        account: AccountId,
        action: &Action,
        next: &NextStep,
        octets: &[u8],
    ) -> Option<NewAction> {
        if next.failed.is_empty() {
            return None;
        }
        let hostname = &self.settings.relay.hostname;
        let (epoch, account, id) = (self.store.epoch(), account.0, action.id.0);
        let message_id = format!("f.{epoch:x}.{account:x}.{id:x}.{:x}@{hostname}", action.attempts);
        let reporter =
            Reporter { hostname, message_id: &message_id, now: self.store.clock().now() };
        dsn::compose_failed(action, &next.failed, octets, &reporter)
    }
}

/// Where an action still goes, as what was queued for the same address is told apart from the rest.
pub(super) fn lanes(account: AccountId, action: &Action) -> Vec<Digest> {
    let waiting = action.recipients.iter().filter(|target| target.waits());
    waiting.map(|target| lane_digest(account, &target.address.folded())).collect()
}

/// What the outcomes say of the recipients' domains.
fn destination_health(
    action: &Action,
    outcomes: &[AttemptOutcome],
) -> Vec<(Digest, DestinationHealth)> {
    let waiting = action.recipients.iter().filter(|target| target.waits());
    let heard = waiting.zip(outcomes).filter_map(|(target, outcome)| {
        let heard = match outcome {
            AttemptOutcome::Sent(_)
            | AttemptOutcome::Permanent { .. }
            | AttemptOutcome::EightBit(_) => DestinationHealth::Reached,
            AttemptOutcome::Temporary { scope: RefusalScope::Destination, .. } => {
                DestinationHealth::Refused
            }
            AttemptOutcome::Temporary { scope: RefusalScope::Recipient, .. } => {
                DestinationHealth::RefusedOne
            }
            _ => return None,
        };
        Some((domain_digest(&target.address.folded()), heard))
    });
    heard.collect()
}

fn log_next_step(account: AccountId, action: &Action, next: &NextStep) {
    let (id, kind, to) = (action.id, action.kind.name(), action.recipient_summary());
    for target in &next.failed {
        if let RecipientState::Failed { text, .. } = &target.state {
            let recipient = &target.address;
            tracing::warn!(%account, action = %id, kind, %recipient, why = text, "given up");
        }
    }
    let result = match (&next.step, &next.note) {
        (ActionStep::Again(_), _) => "again",
        (_, Some(_)) => "unknown",
        (ActionStep::Dropped, None) => "failed",
        (ActionStep::Kept(kept), None) if kept.state == ActionState::Failed => "failed",
        (ActionStep::Done | ActionStep::Kept(_), None) => "sent",
    };
    count::attempted(kind, result);
    match (&next.step, &next.note) {
        (ActionStep::Again(again), note) => {
            let error = again.last_error.as_deref();
            tracing::info!(%account, action = %id, kind, to, error, note, due = %again.due, "again");
        }
        (_, Some(note)) => tracing::warn!(%account, action = %id, kind, to, note, "done"),
        (ActionStep::Done | ActionStep::Kept(_), None)
            if result == "sent" && next.failed.is_empty() && action.state.is_open() =>
        {
            tracing::info!(%account, action = %id, kind, to, "sent");
        }
        _ => {}
    }
}
