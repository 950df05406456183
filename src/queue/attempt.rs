//! Carries out one attempt at one action.
//!
//! - An attempt is recorded durably before its message goes out (`AttemptContext::begin`), and its
//!   result afterwards (`AttemptContext::record_next_step`).
//! - If the relay cannot be reached, no attempt is counted.
//! - Attempts run side by side, each at another action. A person may change an action until its
//!   attempt is recorded. A changed action is not sent in this attempt.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::entitled::step_if_not_entitled;
use super::order::{ActionKey, RetryOrder};
use super::pool::RelayPool;
use super::send::{RelayConnection, SendResult, prepare};
use super::settings::Settings;
use crate::account::Directory;
use crate::model::{AccountId, Action, ActionState, Address, Target, UtcMillis};
use crate::outbox::{
    ActionStep, AttemptOutcome, NextStep, RefusalScope, expire, next_step, order_deadline, recover,
    rules,
};
use crate::store::{Digest, Error, Store, domain_digest, lane_digest};

/// How long an action is postponed for earlier mail in its lane that is due or under way.
const EARLIER_MAIL_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(super) struct AttemptContext {
    pub(super) store: Store,
    pub(super) directory: Directory,
    pub(super) settings: Arc<Settings>,
    pub(super) pool: Arc<RelayPool>,
    pub(super) order: Arc<Mutex<RetryOrder>>,
}

/// What the scheduler learns of an attempt.
#[derive(Debug)]
pub(super) enum AttemptResult {
    /// The result is recorded, or there was nothing to do, or the attempt was broken off because a
    /// person changed the action. The fields say what was learned of recipients' domains (by
    /// `domain_digest`, one entry for each recipient of whom something was learned) and of the
    /// relay.
    Recorded(Vec<(Digest, DestinationHealth)>, RelayHealth),
    /// The relay cannot be reached, or refuses everything, with this error. The message did not go
    /// out.
    RelayDown(String),
    /// The action or the addresses of its account could not be read, or the store refused to record
    /// the attempt or its result. If the message went out, the action's row says that it may have
    /// been sent (`Attempting`).
    Unrecorded,
    /// The account is being repaired, or a row of the directory that the action needs is damaged.
    /// Nothing was sent.
    Rests,
    /// Earlier mail in its lane goes first, until this time. Nothing was sent.
    AfterEarlier(UtcMillis),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelayHealth {
    Unknown,
    /// There was a connection to the relay, which refused nothing for reasons of its own.
    Well,
    /// The relay refused some recipient for a reason that concerns all messages.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DestinationHealth {
    /// The domain accepted a message, or refused one only because it is 8-bit text; or a message to
    /// it failed for good, perhaps before the domain was asked.
    Well,
    /// The domain refused one recipient temporarily.
    RefusedRecipient,
    /// The domain refused mail temporarily for a reason that concerns all its recipients.
    Refused,
}

pub(super) fn nothing_learned() -> AttemptResult {
    AttemptResult::Recorded(Vec::new(), RelayHealth::Unknown)
}

impl AttemptContext {
    /// Sends an action, or settles it if it is over. Does nothing if the row says that it is not
    /// due or not to be sent: a wake-up may be out of date.
    pub(super) async fn carry_out(self, (account, id): ActionKey) -> AttemptResult {
        let read = self.store.snapshot().action(account, id);
        let action = match read {
            Ok(Some(action)) => action,
            Ok(None) => {
                self.order.lock().forget((account, id));
                return nothing_learned();
            }
            Err(Error::Rebuilding(_)) => return AttemptResult::Rests,
            Err(error) => {
                tracing::error!(%account, action = %id, %error, "an action cannot be read");
                return AttemptResult::Unrecorded;
            }
        };
        let (now, retry) = (self.store.clock().now(), &self.settings.retry);
        let next = match action.state {
            ActionState::Held | ActionState::Blocked | ActionState::Failed => {
                self.order.lock().forget((account, id));
                return nothing_learned();
            }
            ActionState::Sent => Some(NextStep {
                step: ActionStep::Done,
                failed: Vec::new(),
                note: None,
                unsent: None,
            }),
            ActionState::Attempting => recover(&action, now, retry),
            ActionState::Waiting if action.due > now => return nothing_learned(),
            // An expired action that is not `at_most_once` is tried once more below, because the
            // clock may have been wrong.
            ActionState::Waiting if now >= action.expires && rules(action.kind).at_most_once => {
                Some(expire(&action, now, retry))
            }
            ActionState::Waiting => None,
        };
        let (reordered, recipients_to_try) = if next.is_none() {
            self.recipients_in_order(account, &action, now)
        } else {
            (action.clone(), Ok(0))
        };
        let max_recipients = match recipients_to_try {
            Ok(count) => count,
            Err(until) => return AttemptResult::AfterEarlier(until),
        };
        let message = self.store.snapshot().action_message(account, &action);
        let message = match message {
            Ok(message) => message,
            Err(Error::Rebuilding(_)) => return AttemptResult::Rests,
            Err(error) if next.is_none() => {
                return self.hold_unreadable(account, &action, &error).await;
            }
            // The action is not sent any more: the message would only be returned with a report.
            Err(_) => Vec::new(),
        };
        if let Some(next) = next {
            return self.record_next_step(account, (&action, &action), next, &message).await;
        }
        match step_if_not_entitled(&self.directory, account, (&action, &message), now, retry) {
            Ok(None) => {
                let recipients = (&reordered, max_recipients);
                self.attempt_delivery(account, &action, recipients, &message).await
            }
            Ok(Some(next)) => {
                self.record_next_step(account, (&action, &action), next, &message).await
            }
            Err(error @ Error::Corrupt { .. }) => {
                tracing::warn!(%account, action = %action.id, %error, "not sent before a repair");
                AttemptResult::Rests
            }
            Err(error) => {
                tracing::error!(
                    %account,
                    action = %id,
                    %error,
                    "the addresses of the account cannot be read"
                );
                AttemptResult::Unrecorded
            }
        }
    }

    /// Returns the action with its recipients in the order in which to try them, and how many of
    /// the outstanding ones may be tried now: the first ones, up to this number.
    ///
    /// - Recipients to whom earlier mail of the account goes first come last. They are not tried
    ///   now.
    /// - If a person asked for the action (`RetryOrder::is_early`), or it was held back long enough
    ///   (`order_deadline`), the order stays, and all may be tried (`usize::MAX`).
    /// - If none may be tried, the action is postponed in `RetryOrder`. The error is the time until
    ///   which it is postponed.
    fn recipients_in_order(
        &self,
        account: AccountId,
        action: &Action,
        now: UtcMillis,
    ) -> (Action, Result<usize, UtcMillis>) {
        let key = (account, action.id);
        let deadline = order_deadline(action, now);
        let held_back_until = |target: &Target| match target.is_outstanding() {
            true => self.end_of_earlier_mail(key, &target.address, now),
            false => None,
        };
        let is_early = self.order.lock().is_early(key, now);
        if is_early || now >= deadline {
            return (action.clone(), Ok(usize::MAX));
        }
        let (mut ready, mut held_back, mut until) = (Vec::new(), Vec::new(), None);
        for target in &action.recipients {
            match held_back_until(target) {
                None => ready.push(target.clone()),
                Some(at) => {
                    until = Some(until.map_or(at, |until: UtcMillis| until.min(at)));
                    held_back.push(target.clone());
                }
            }
        }
        let count = ready.iter().filter(|target| target.is_outstanding()).count();
        ready.append(&mut held_back);
        let reordered = Action { recipients: ready, ..action.clone() };
        let Some(until) = until.filter(|_| count == 0) else { return (reordered, Ok(count)) };
        let until = until.min(deadline);
        self.order.lock().postpone(key, lanes(account, action), until);
        (reordered, Err(until))
    }

    /// Returns the time until which earlier mail to the address `to` holds an action back; `None`
    /// if there is no such mail.
    fn end_of_earlier_mail(
        &self,
        key: ActionKey,
        to: &Address,
        now: UtcMillis,
    ) -> Option<UtcMillis> {
        let lane = lane_digest(key.0, &to.folded());
        loop {
            let earlier_key = self.order.lock().before(key, lane)?;
            let earlier = self.store.snapshot().action(earlier_key.0, earlier_key.1).ok().flatten();
            match earlier {
                Some(earlier) if earlier.state == ActionState::Waiting && earlier.due > now => {
                    return Some(earlier.due);
                }
                // The earlier action is due or under way.
                Some(earlier)
                    if matches!(earlier.state, ActionState::Waiting | ActionState::Attempting) =>
                {
                    return Some(now.after(EARLIER_MAIL_PAUSE));
                }
                // The earlier action is done, held or removed, or cannot be read.
                _ => self.order.lock().forget(earlier_key),
            }
        }
    }

    /// Hands the message to the relay and records the result. `stored` is the action as it is in
    /// the store. `action` has its recipients in the order in which to try them.
    async fn attempt_delivery(
        &self,
        account: AccountId,
        stored: &Action,
        (action, max_recipients): (&Action, usize),
        message: &[u8],
    ) -> AttemptResult {
        let relay = &self.settings.relay;
        // The row by which the attempt is recorded, if the message goes out.
        let begun = Mutex::new(None);
        let mut wants_new_connection = false;
        let sent = loop {
            let opened = if wants_new_connection {
                RelayConnection::open(relay).await
            } else {
                self.pool.take(relay).await
            };
            let connection = match opened {
                Ok(connection) => connection,
                Err(error) => return self.relay_down(account, stored, &error, message).await,
            };
            let prepare_message = |extensions| prepare(&self.settings, action, message, extensions);
            let record_attempt = || self.begin(account, stored, &begun);
            let recipients = (action, max_recipients);
            match connection.hand_over(relay, recipients, prepare_message, record_attempt).await {
                SendResult::Stale if !wants_new_connection => wants_new_connection = true,
                sent => break sent,
            }
        };
        let outcomes = match sent {
            SendResult::Finished { outcomes, connection } => {
                if let Some(connection) = connection {
                    self.pool.give_back(relay, connection).await;
                }
                outcomes
            }
            SendResult::Stale => {
                let error = "the relay hangs up on new connections";
                return self.relay_down(account, stored, error, message).await;
            }
            // A person changed the action while the relay was asked. Nothing of the message went
            // out.
            SendResult::Unrecorded(error @ (Error::NotFound(_) | Error::Conflict(_))) => {
                tracing::info!(
                    %account,
                    action = %action.id,
                    %error,
                    "not sent: the attempt was broken off"
                );
                return nothing_learned();
            }
            SendResult::Unrecorded(error) => {
                tracing::error!(
                    %account,
                    action = %action.id,
                    %error,
                    "an attempt could not be recorded, and was not made"
                );
                return AttemptResult::Unrecorded;
            }
        };
        let begun = begun.into_inner();
        let relay_refusal = |outcome: &AttemptOutcome| match outcome {
            AttemptOutcome::Temporary { scope: RefusalScope::Relay, text } => Some(text.clone()),
            _ => None,
        };
        // If the relay refused every recipient for reasons of its own, and the message did not go
        // out, it is as if the relay were down.
        let first_relay_refusal = outcomes.iter().find_map(relay_refusal);
        if let Some(error) = &first_relay_refusal
            && outcomes.iter().all(|outcome| {
                relay_refusal(outcome).is_some() || *outcome == AttemptOutcome::TooMany
            })
            && begun.is_none()
        {
            return self.relay_down(account, stored, error, message).await;
        }
        let destinations = destination_health(action, &outcomes);
        let relay_health =
            if first_relay_refusal.is_some() { RelayHealth::Refused } else { RelayHealth::Well };
        let now = self.store.clock().now();
        // Differs between messages, so that those refused together are not tried again together.
        let jitter = action.message_id.bytes().fold(0u8, u8::wrapping_add);
        let next = next_step(action, outcomes, now, &self.settings.retry, jitter);
        let stored = begun.as_ref().unwrap_or(stored);
        match self.record_next_step(account, (stored, action), next, message).await {
            AttemptResult::Recorded(..) => AttemptResult::Recorded(destinations, relay_health),
            other => other,
        }
    }

    /// Records durably that the message goes out from now on, and stores the recorded row in
    /// `begun`.
    ///
    /// # Errors
    /// `Conflict` or `NotFound` if the action was changed or removed since it was read; other
    /// errors if the store cannot write.
    async fn begin(
        &self,
        account: AccountId,
        action: &Action,
        begun: &Mutex<Option<Action>>,
    ) -> Result<(), Error> {
        let attempt = Action { state: ActionState::Attempting, ..action.clone() };
        let ((), ticket) = self.store.commit(account, |txn| txn.update_action(action, &attempt))?;
        // Before the wait: if that fails, the record may be on the disk nevertheless.
        *begun.lock() = Some(attempt);
        ticket.wait().await
    }

    /// Ends an attempt because the relay cannot be reached or refuses everything, and returns
    /// `RelayDown`.
    ///
    /// An expired action is given up. The row of any other urgent action gets the error, if it has
    /// none, so that the owner sees it. If the store refuses this change of the row, the owner just
    /// does not see it. If the store accepts it, and cannot make it durable, returns `Unrecorded`.
    async fn relay_down(
        &self,
        account: AccountId,
        action: &Action,
        error: &str,
        message: &[u8],
    ) -> AttemptResult {
        tracing::warn!(%account, action = %action.id, error, "the relay is out of order");
        let now = self.store.clock().now();
        let with_error = Action { last_error: Some(error.to_owned()), ..action.clone() };
        if now >= action.expires {
            let next = expire(&with_error, now, &self.settings.retry);
            self.record_next_step(account, (action, &with_error), next, message).await;
        } else if action.urgent && action.last_error.is_none() {
            let committed =
                self.store.commit(account, |txn| txn.update_action(action, &with_error));
            if let Ok(((), ticket)) = committed
                && ticket.wait().await.is_err()
            {
                return AttemptResult::Unrecorded;
            }
        }
        AttemptResult::RelayDown(error.to_owned())
    }
}

/// Returns the lanes of an action's outstanding recipients, one for each, in order.
pub(super) fn lanes(account: AccountId, action: &Action) -> Vec<Digest> {
    let outstanding = action.recipients.iter().filter(|target| target.is_outstanding());
    outstanding.map(|target| lane_digest(account, &target.address.folded())).collect()
}

/// Returns what the outcomes say of the recipients' domains. `outcomes` are those of the
/// outstanding recipients, in order; recipients beyond the last one were not tried.
fn destination_health(
    action: &Action,
    outcomes: &[AttemptOutcome],
) -> Vec<(Digest, DestinationHealth)> {
    let outstanding = action.recipients.iter().filter(|target| target.is_outstanding());
    let healths = outstanding.zip(outcomes).filter_map(|(target, outcome)| {
        let health = match outcome {
            AttemptOutcome::Sent(_)
            | AttemptOutcome::Permanent { .. }
            | AttemptOutcome::EightBit(_) => DestinationHealth::Well,
            AttemptOutcome::Temporary { scope: RefusalScope::Destination, .. } => {
                DestinationHealth::Refused
            }
            AttemptOutcome::Temporary { scope: RefusalScope::Recipient, .. } => {
                DestinationHealth::RefusedRecipient
            }
            _ => return None,
        };
        Some((domain_digest(&target.address.folded()), health))
    });
    healths.collect()
}
