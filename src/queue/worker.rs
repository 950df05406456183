//! What is sent when. Woken by commits that queue something and by due times; ends in order.
//!
//! The relay is one destination: while it is out of order nothing is tried, and no action's own attempts are spent on it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::send::{Attempt, Relay, send};
use super::signed::signed;
use crate::model::{AccountId, Action, ActionId, ActionState, DataType, Live, UtcMillis};
use crate::outbox::{Next, follow, recover, too_late};
use crate::proof::Signer;
use crate::store::{Error, Store};

/// What a site sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The way out.
    pub relay: Relay,
    /// Actions under way at once.
    pub concurrency: usize,
    /// Signs what goes out.
    pub signer: Option<Arc<Signer>>,
    /// First wait after the relay was found out of order; it doubles up to 64 times this.
    pub relay_pause: Duration,
}

/// The queue's worker.
#[derive(Debug)]
pub struct Queue {
    store: Store,
    settings: Live<Settings>,
    wake: Arc<Notify>,
}

/// Wakes the worker, as after its settings were changed.
#[derive(Debug, Clone)]
pub struct Bell(Arc<Notify>);

impl Bell {
    /// Wakes it.
    pub fn ring(&self) {
        self.0.notify_one();
    }
}

/// A due action that is being carried out.
type Key = (AccountId, ActionId);

/// What came of it for the queue.
enum Came {
    /// It has its record.
    Recorded,
    /// The relay is out of order.
    RelayDown,
    /// The store did not take the record, or did not give the action: it is left alone for a while.
    Unrecorded,
    /// Its account is being repaired: it is left alone for a while, and the others go on.
    Rests,
}

impl Queue {
    /// A worker over a store; it is woken by the store's commits. An attempt keeps the settings that it began with.
    #[must_use]
    pub fn new(store: Store, settings: Live<Settings>) -> Self {
        let wake = Arc::new(Notify::new());
        let bell = Arc::clone(&wake);
        store.on_change(move |change| {
            if change.types.iter().any(|(data, _)| *data == DataType::Outbox) {
                bell.notify_one();
            }
        });
        Self { store, settings, wake }
    }

    /// What wakes it.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell(Arc::clone(&self.wake))
    }

    /// Works until `stop`; what is under way then is finished, within its own time-outs.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        self.recover().await;
        let mut under_way: JoinSet<(Key, Came)> = JoinSet::new();
        let mut claimed: HashSet<Key> = HashSet::new();
        let mut resting: HashMap<Key, UtcMillis> = HashMap::new();
        let mut failures = 0u32;
        let mut not_before = UtcMillis(0);
        let mut settings = self.settings.get();
        loop {
            let now = self.store.clock().now();
            let newest = self.settings.get();
            if newest.relay != settings.relay {
                // What was found out about the old relay says nothing about the new one.
                (failures, not_before) = (0, UtcMillis(0));
            }
            settings = newest;
            let mut wait = Duration::from_secs(60);
            resting.retain(|key, until| {
                let rests = *until > now;
                if !rests {
                    claimed.remove(key);
                }
                rests
            });
            wait = resting.values().map(|until| until.since(now)).fold(wait, Duration::min);
            if now < not_before {
                wait = not_before.since(now);
            } else {
                match self.due(now, settings.concurrency, &claimed) {
                    Ok((ready, next)) => {
                        let room = settings.concurrency.max(1).saturating_sub(under_way.len());
                        // After a failure of the relay one action is enough to find out whether it is back.
                        let room = if failures > 0 { room.min(1).saturating_sub(under_way.len()) } else { room };
                        for key in ready.into_iter().take(room) {
                            claimed.insert(key);
                            under_way.spawn(carry_out(self.store.clone(), Arc::clone(&settings), key));
                        }
                        wait = next.map_or(wait, |next| next.since(now).min(wait));
                    }
                    Err(error) => tracing::error!(%error, "the queue cannot be read"),
                }
            }
            tokio::select! {
                () = &mut stop => break,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(wait.max(Duration::from_millis(5))) => {}
                Some(done) = under_way.join_next() => {
                    let Ok((key, came)) = done else { continue };
                    let now = self.store.clock().now();
                    match came {
                        Came::Recorded => {
                            claimed.remove(&key);
                            failures = 0;
                        }
                        Came::RelayDown => {
                            claimed.remove(&key);
                            not_before = now.after(settings.relay_pause.saturating_mul(1 << failures.min(6)));
                            failures += 1;
                        }
                        Came::Rests => {
                            resting.insert(key, now.after(settings.relay_pause.saturating_mul(4)));
                        }
                        Came::Unrecorded => {
                            // A store that takes nothing would have every action begun in vain, one after another.
                            not_before = now.after(settings.relay_pause);
                            resting.insert(key, now.after(settings.relay_pause.saturating_mul(4)));
                        }
                    }
                }
            }
        }
        let bound = self.settings.get().relay.patience;
        if timeout(bound, async { while under_way.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!("some replies were under way at the end: they count as sent");
        }
    }

    /// What is due and not under way, and when the next is.
    fn due(&self, now: UtcMillis, most: usize, claimed: &HashSet<Key>) -> Result<(Vec<Key>, Option<UtcMillis>), Error> {
        let first = self.store.view().due(most.saturating_add(claimed.len()).saturating_add(1))?;
        let mut free = first.into_iter().filter(|(_, account, action)| !claimed.contains(&(*account, *action)));
        let mut ready = Vec::new();
        let next = free.find_map(|(due, account, action)| {
            if due <= now {
                ready.push((account, action));
                None
            } else {
                Some(due)
            }
        });
        Ok((ready, next))
    }

    /// What an earlier run of the service left half attempted.
    async fn recover(&self) {
        let accounts = self.store.view().accounts().unwrap_or_default();
        for (account, _) in accounts {
            let actions = self.store.view().outbox(account).unwrap_or_default();
            for action in actions {
                if let Some(next) = recover(&action, self.store.clock().now()) {
                    let _recorded = keep(&self.store, account, &action, next).await;
                }
            }
        }
    }
}

/// One attempt at one action, and its record.
async fn carry_out(store: Store, settings: Arc<Settings>, key: Key) -> (Key, Came) {
    let (account, id) = key;
    let action = match store.view().action(account, id) {
        Ok(Some(action)) => action,
        Ok(None) => return (key, Came::Recorded),
        Err(Error::Rebuilding(_)) => return (key, Came::Rests),
        Err(error) => {
            tracing::error!(%account, action = %id, %error, "an action cannot be read");
            return (key, Came::Unrecorded);
        }
    };
    let now = store.clock().now();
    let next = match action.state {
        ActionState::Held => return (key, Came::Unrecorded),
        // Its attempt was made, and what came of it could not be recorded.
        ActionState::Attempting => recover(&action, now),
        ActionState::Waiting if now >= action.expires => {
            Some(too_late(action.last_error.as_deref().unwrap_or("never tried")))
        }
        ActionState::Waiting => None,
    };
    if let Some(next) = next {
        return (key, keep(&store, account, &action, next).await);
    }
    let begun = Action { state: ActionState::Attempting, ..action.clone() };
    // Kept is what was composed: each attempt signs anew, with the keys of its time.
    let outgoing = Action { message: signed(settings.signer.as_deref(), &action, &action.message), ..action.clone() };
    let attempt = send(&settings.relay, &outgoing, || async {
        let (_, ticket) = store.commit(account, |txn| txn.update_action(&begun)).map_err(|error| error.to_string())?;
        ticket.wait().await.map_err(|error| error.to_string())
    })
    .await;
    let outcome = match attempt {
        Attempt::Made(outcome) => outcome,
        Attempt::RelayDown(error) => {
            // The action keeps its turn: it waits for the relay, not for itself.
            tracing::warn!(%account, action = %id, error, "the relay is out of order");
            return (key, Came::RelayDown);
        }
        Attempt::Unrecorded(error) => {
            tracing::error!(%account, action = %id, error, "an attempt could not be recorded, and was not made");
            return (key, Came::Unrecorded);
        }
    };
    let now = store.clock().now();
    let jitter = action.message_id.bytes().fold(0u8, u8::wrapping_add);
    let next = follow(&action, outcome, now, jitter);
    (key, keep(&store, account, &action, next).await)
}

/// Records what is next.
async fn keep(store: &Store, account: AccountId, action: &Action, next: Next) -> Came {
    let (id, recipient) = (action.id, &action.recipient);
    match &next {
        Next::Done(None) => tracing::info!(%account, action = %id, %recipient, "sent"),
        Next::Done(Some(text)) => tracing::warn!(%account, action = %id, %recipient, text, "done"),
        Next::Again(again) => {
            tracing::info!(%account, action = %id, %recipient, error = again.last_error, due = %again.due, "again");
        }
        Next::GiveUp { reason, why, .. } => {
            tracing::warn!(%account, action = %id, %recipient, reason, why, "given up");
        }
    }
    let done = store.commit(account, |txn| match &next {
        Next::Done(_) => txn.remove_action(id).map(drop),
        Next::Again(again) => txn.update_action(again),
        Next::GiveUp { reason, why, forget_told } => {
            let action = txn.remove_action(id)?;
            txn.take_back_answer(&action, reason, why)?;
            match action.told.filter(|_| *forget_told) {
                Some(who) => txn.remove_told(&who).map(drop),
                None => Ok(()),
            }
        }
    });
    let done = match done {
        Ok(((), ticket)) => ticket.wait().await,
        Err(Error::NotFound(_)) => Ok(()), // removed by hand meanwhile
        Err(error) => Err(error),
    };
    if let Err(error) = done {
        tracing::error!(%account, action = %id, %error, "what came of an action could not be recorded");
        return Came::Unrecorded;
    }
    Came::Recorded
}
