//! One attempt at one action, and its record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::dress::dress;
use super::pool::Pool;
use super::send::{Connection, Handed};
use super::worker::Settings;
use crate::model::{AccountId, Action, ActionId, ActionState, Fate};
use crate::outbox::dsn;
use crate::outbox::{NOT_SENT, Next, Outcome, Queued, Reporter, Scope, Step, follow, recover, rules, too_late};
use crate::store::{Digest, Error, Store, domain_digest};
use crate::trace::count;

/// A due action that is being carried out.
pub(super) type Key = (AccountId, ActionId);

/// What every attempt needs.
#[derive(Debug, Clone)]
pub(super) struct Office {
    pub(super) store: Store,
    pub(super) settings: Arc<Settings>,
    pub(super) pool: Arc<Pool>,
}

/// What came of it for the queue.
#[derive(Debug)]
pub(super) enum Came {
    /// It has its record; what was heard of destinations, and of the relay.
    Recorded(Vec<(Digest, Heard)>, Word),
    /// The relay is out of order, for what it met, and nothing was tried.
    RelayDown(String),
    /// The store did not take the record, or did not give the action: it is left alone for a while.
    Unrecorded,
    /// Its account is being repaired: it is left alone for a while, and the others go on.
    Rests,
}

/// What was heard of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing: it was not asked.
    None,
    /// It works.
    Well,
    /// It refuses us.
    Refused,
}

/// What was heard of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It took something, or refused it for good.
    Reached,
    /// It refused one recipient for now.
    RefusedOne,
    /// It refuses.
    Refused,
}

/// Nothing was done, nothing was heard.
fn nothing() -> Came {
    Came::Recorded(Vec::new(), Word::None)
}

impl Office {
    pub(super) async fn carry_out(self, (account, id): Key) -> Came {
        let read = self.store.view().action(account, id);
        let action = match read {
            Ok(Some(action)) => action,
            Ok(None) => return nothing(),
            Err(Error::Rebuilding(_)) => return Came::Rests,
            Err(error) => {
                tracing::error!(%account, action = %id, %error, "an action cannot be read");
                return Came::Unrecorded;
            }
        };
        let (now, pace) = (self.store.clock().now(), &self.settings.pace);
        let next = match action.state {
            ActionState::Held | ActionState::Blocked | ActionState::Failed => return nothing(),
            ActionState::Sent => Some(Next { step: Step::Done, failed: Vec::new(), note: None, lost: None }),
            // Its attempt was made, and what came of it could not be recorded.
            ActionState::Attempting => recover(&action, now, pace),
            ActionState::Waiting if action.due > now => return nothing(),
            ActionState::Waiting if now >= action.expires => Some(too_late(&action, now, pace)),
            ActionState::Waiting => None,
        };
        let octets = self.store.view().action_message(account, &action);
        let octets = match octets {
            Ok(octets) => octets,
            Err(Error::Rebuilding(_)) => return Came::Rests,
            Err(error) if next.is_none() => return self.set_aside(account, &action, &error).await,
            // Of what is over the octets are not needed.
            Err(_) => Vec::new(),
        };
        match next {
            Some(next) => self.keep(account, &action, next, &octets).await,
            None => self.try_it(account, &action, &octets).await,
        }
    }

    async fn try_it(&self, account: AccountId, action: &Action, octets: &[u8]) -> Came {
        let relay = &self.settings.relay;
        let begun = AtomicBool::new(false);
        let mut fresh = false;
        let handed = loop {
            let opened = if fresh { Connection::open(relay).await } else { self.pool.take(relay).await };
            let connection = match opened {
                Ok(connection) => connection,
                Err(error) => return self.relay_down(account, action, &error).await,
            };
            let dress = |offers| dress(&self.settings, action, octets, offers);
            let record = || self.begin(account, action, &begun);
            match connection.hand_over(relay, action, dress, record).await {
                Handed::Stale if !fresh => fresh = true,
                handed => break handed,
            }
        };
        let outcomes = match handed {
            Handed::Made { outcomes, connection } => {
                if let Some(connection) = connection {
                    self.pool.give(relay, connection).await;
                }
                outcomes
            }
            Handed::Stale => return self.relay_down(account, action, "it hangs up on new connections").await,
            // It was taken back meanwhile: nothing of it went out.
            Handed::Unrecorded(_) if matches!(self.store.view().action(account, action.id), Ok(None)) => {
                return nothing();
            }
            Handed::Unrecorded(error) => {
                tracing::error!(%account, action = %action.id, error, "an attempt could not be recorded, and was not made");
                return Came::Unrecorded;
            }
        };
        let refused_us = |outcome: &Outcome| match outcome {
            Outcome::Temporary { scope: Scope::Relay, text } => Some(text.clone()),
            _ => None,
        };
        let ours = outcomes.iter().find_map(refused_us);
        if let Some(error) = &ours
            && outcomes.iter().all(|outcome| refused_us(outcome).is_some() || *outcome == Outcome::TooMany)
            && !begun.load(Ordering::Relaxed)
        {
            return self.relay_down(account, action, error).await;
        }
        let heard = heard(action, &outcomes);
        let now = self.store.clock().now();
        let jitter = action.message_id.bytes().fold(0u8, u8::wrapping_add);
        let next = follow(action, outcomes, now, &self.settings.pace, jitter);
        match self.keep(account, action, next, octets).await {
            Came::Recorded(..) => Came::Recorded(heard, if ours.is_some() { Word::Refused } else { Word::Well }),
            other => other,
        }
    }

    /// That the message goes out is recorded where it must not go twice, or be taken back.
    async fn begin(&self, account: AccountId, action: &Action, begun: &AtomicBool) -> Result<(), String> {
        if !rules(action.kind).is_recorded {
            return Ok(());
        }
        let attempt = Action { state: ActionState::Attempting, ..action.clone() };
        let done = self.store.commit(account, |txn| txn.update_action(&attempt));
        let ((), ticket) = done.map_err(|error| error.to_string())?;
        // From here on it counts as made: whether the record is on the disk is not known if the wait fails.
        begun.store(true, Ordering::Relaxed);
        ticket.wait().await.map_err(|error| error.to_string())
    }

    /// The relay cannot be had. The action keeps its turn: it waits for the relay, not for itself. Whoever wanted it at once
    /// has had his attempt: from now on it waits with the others.
    async fn relay_down(&self, account: AccountId, action: &Action, error: &str) -> Came {
        tracing::warn!(%account, action = %action.id, error, "the relay is out of order");
        let last_error = Some(error.to_owned());
        if action.urgent {
            let waits = Action { urgent: false, last_error, ..action.clone() };
            let done = self.store.commit(account, |txn| txn.update_action(&waits));
            if let Ok(((), ticket)) = done
                && ticket.wait().await.is_err()
            {
                return Came::Unrecorded;
            }
        }
        Came::RelayDown(error.to_owned())
    }

    /// An action whose octets are lost cannot be sent, and is not dropped without a word.
    async fn set_aside(&self, account: AccountId, action: &Action, error: &Error) -> Came {
        tracing::error!(%account, action = %action.id, %error, "what an action sends cannot be read: it is held");
        let held = Action { state: ActionState::Held, last_error: Some(error.to_string()), ..action.clone() };
        let done = self.store.commit(account, |txn| txn.update_action(&held));
        match done {
            Ok(((), ticket)) => ticket.wait().await.map_or(Came::Unrecorded, |()| nothing()),
            Err(_) => Came::Unrecorded,
        }
    }

    /// Records what is next.
    pub(super) async fn keep(&self, account: AccountId, action: &Action, next: Next, octets: &[u8]) -> Came {
        say(account, action, &next);
        let report = self.report(account, action, &next, octets);
        let done = self.store.commit(account, |txn| {
            let gone = match &next.step {
                Step::Done => txn.complete_action(action.id).map(|_| Vec::new())?,
                Step::Dropped => txn.remove_action(action.id)?.split_off(1),
                Step::Again(again) => txn.update_action(again).map(|()| Vec::new())?,
                Step::Kept(kept) => {
                    txn.update_action(kept)?;
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
            if let Some(Queued { action, octets }) = &report {
                txn.queue_action(action.clone(), octets)?;
            }
            Ok(())
        });
        let done = match done {
            Ok(((), ticket)) => ticket.wait().await,
            Err(Error::NotFound(_)) => Ok(()), // removed by hand meanwhile
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::error!(%account, action = %action.id, %error, "what came of an action could not be recorded");
            return Came::Unrecorded;
        }
        nothing()
    }

    /// What its sender is told of those whom it will not reach. Its id follows from the action and the attempt, so that it
    /// is the same if the record must be made again.
    fn report(&self, account: AccountId, action: &Action, next: &Next, octets: &[u8]) -> Option<Queued> {
        if next.failed.is_empty() {
            return None;
        }
        let hostname = &self.settings.relay.hostname;
        let (epoch, account, id) = (self.store.epoch(), account.0, action.id.0);
        let message_id = format!("f.{epoch:x}.{account:x}.{id:x}.{:x}@{hostname}", action.attempts);
        let reporter = Reporter { hostname, message_id: &message_id, now: self.store.clock().now() };
        dsn::failed(action, &next.failed, octets, &reporter)
    }
}

/// What the outcomes say of the recipients' domains.
fn heard(action: &Action, outcomes: &[Outcome]) -> Vec<(Digest, Heard)> {
    let waiting = action.recipients.iter().filter(|target| target.waits());
    let heard = waiting.zip(outcomes).filter_map(|(target, outcome)| {
        let heard = match outcome {
            Outcome::Sent(_) | Outcome::Permanent { .. } | Outcome::EightBit(_) => Heard::Reached,
            Outcome::Temporary { scope: Scope::Destination, .. } => Heard::Refused,
            Outcome::Temporary { scope: Scope::Recipient, .. } => Heard::RefusedOne,
            _ => return None,
        };
        Some((domain_digest(&target.address.folded()), heard))
    });
    heard.collect()
}

fn say(account: AccountId, action: &Action, next: &Next) {
    let (id, kind, to) = (action.id, action.kind.name(), action.to_line());
    for target in &next.failed {
        if let Fate::Failed { text, .. } = &target.fate {
            let recipient = &target.address;
            tracing::warn!(%account, action = %id, kind, %recipient, why = text, "given up");
        }
    }
    let result = match (&next.step, &next.note) {
        (Step::Again(_), _) => "again",
        (_, Some(_)) => "unknown",
        (Step::Dropped, None) => "failed",
        (Step::Kept(kept), None) if kept.state == ActionState::Failed => "failed",
        (Step::Done | Step::Kept(_), None) => "sent",
    };
    count::attempted(kind, result);
    match (&next.step, &next.note) {
        (Step::Again(again), note) => {
            let error = again.last_error.as_deref();
            tracing::info!(%account, action = %id, kind, to, error, note, due = %again.due, "again");
        }
        (_, Some(note)) => tracing::warn!(%account, action = %id, kind, to, note, "done"),
        (Step::Done | Step::Kept(_), None) if next.failed.is_empty() && action.state.is_open() => {
            tracing::info!(%account, action = %id, kind, to, "sent");
        }
        _ => {}
    }
}
