//! Changes pushed to the URLs that clients chose (RFC 8620 §7.2), encrypted for them where they
//! gave keys (RFC 8291).
//!
//! Each subscription with something to hear has a task of its own. It sends the code that verifies
//! the subscription once, and nothing else before the client gave it back; then the newest states,
//! whenever they change, a second apart at least. What cannot be sent is tried again with longer
//! and longer waits, and what changes meanwhile goes with it. A subscription is destroyed when what
//! it was made with is taken away, and when its URL says that there is nobody any more.
//!
//! What changed while the service was down is not pushed; the next change is.

mod encrypt;
mod target;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::http::HttpSettings;
use super::stop::StopSignal;
use crate::account::Directory;
use crate::jmap::{ObservedAccount, PushState};
use crate::model::{AccountId, LiveValue, ModSeq, ObjectId, PushSubscription, limits};
use crate::store::{Error, Store};
use target::{PushResult, send};

/// The least time between two pushes of one subscription.
const MIN_PUSH_INTERVAL: Duration = Duration::from_secs(1);
/// The first wait after a push that failed; it doubles.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The longest wait, also where the other side wants a longer one.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(3600);
/// So often it is tried; then it waits for the next change.
const MAX_TRIES: u32 = 8;
/// Pushes under way at once.
const MAX_CONCURRENT_PUSHES: usize = 64;
/// A subscription that hears nothing for so long is looked at: its time may be over.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Accounts in which something changed, and the first change of each that was not looked at.
#[derive(Debug, Default)]
struct ChangedAccounts {
    accounts: Mutex<HashMap<AccountId, ModSeq>>,
    woken: Notify,
}

/// Pushes until the end.
pub async fn run(
    store: Store,
    directory: Directory,
    settings: LiveValue<HttpSettings>,
    mut stop: StopSignal,
) {
    let changed = Arc::new(ChangedAccounts::default());
    let noting = Arc::clone(&changed);
    store.on_change(move |change| {
        let first =
            change.types.iter().map(|(_, modseq)| *modseq).min().unwrap_or(ModSeq(u64::MAX));
        let mut accounts = noting.accounts.lock();
        let known = accounts.entry(change.account).or_insert(first);
        *known = first.min(*known);
        drop(accounts);
        noting.woken.notify_one();
    });
    let turns = Arc::new(Semaphore::new(MAX_CONCURRENT_PUSHES));
    let mut own_turns: HashMap<AccountId, Arc<Semaphore>> = HashMap::new();
    let mut woken: HashMap<(AccountId, ObjectId), Arc<Notify>> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.wait() => return,
            () = changed.woken.notified() => {}
            Some(Ok(ended)) = tasks.join_next() => drop(woken.remove(&ended)),
        }
        let accounts = std::mem::take(&mut *changed.accounts.lock());
        for (changed, first) in accounts {
            let all = match subscriptions(&store, changed) {
                Ok(all) => all,
                // Of an account that is being repaired nothing is known; the next change wakes us.
                Err(error) => {
                    tracing::debug!(account = %changed, %error, "push subscriptions cannot be read");
                    continue;
                }
            };
            for (account, id) in all {
                if let Some(waiting) = woken.get(&(account, id)) {
                    waiting.notify_one();
                    continue;
                }
                let known = observed_accounts(&store, account)
                    .and_then(|followed| PushState::now(&store, &followed));
                let Ok(mut known) = known else { continue };
                known.forget_from(changed, first);
                let waking = Arc::new(Notify::new());
                woken.insert((account, id), Arc::clone(&waking));
                let one = SubscriptionTask {
                    store: store.clone(),
                    directory: directory.clone(),
                    settings: settings.clone(),
                    own_turns: Arc::clone(
                        own_turns.entry(account).or_insert_with(account_push_permits),
                    ),
                    turns: Arc::clone(&turns),
                    account,
                    id,
                    known,
                    code_sent: false,
                };
                tasks.spawn(one.run(waking));
            }
        }
    }
}

/// The pushes that one account may have under way.
fn account_push_permits() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limits::MAX_CONCURRENT_PUSHES_PER_USER))
}

/// The subscriptions of who hears of an account: its owner, and those to whom something in it was
/// opened.
fn subscriptions(store: &Store, account: AccountId) -> Result<Vec<(AccountId, ObjectId)>, Error> {
    let snapshot = store.snapshot();
    let mut users = BTreeSet::from([account]);
    users.extend(
        snapshot.mailboxes(account)?.iter().flat_map(|(_, row)| row.shares.keys().copied()),
    );
    let mut all = Vec::new();
    for user in users {
        all.extend(
            snapshot.objects::<PushSubscription>(user)?.into_iter().map(|(id, _)| (user, id)),
        );
    }
    Ok(all)
}

/// What the subscriptions of an account are about: it, and those in which something was opened to
/// it.
fn observed_accounts(store: &Store, account: AccountId) -> Result<Vec<ObservedAccount>, Error> {
    let shared = store
        .snapshot()
        .accounts_shared_with(account)?
        .into_iter()
        .map(|account| ObservedAccount { account, shared: true });
    Ok([ObservedAccount::of_owner(account)].into_iter().chain(shared).collect())
}

struct SubscriptionTask {
    store: Store,
    directory: Directory,
    settings: LiveValue<HttpSettings>,
    /// Those of all subscriptions of the account.
    own_turns: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    account: AccountId,
    id: ObjectId,
    known: PushState,
    code_sent: bool,
}

/// What is next.
#[derive(Debug, PartialEq, Eq)]
enum PushStep {
    /// Wait for a change.
    Wait,
    /// Look again after this.
    Again(Duration),
    /// It is over.
    End,
}

impl SubscriptionTask {
    async fn run(mut self, woken: Arc<Notify>) -> (AccountId, ObjectId) {
        let mut tries = 0;
        loop {
            match self.step(&mut tries).await {
                PushStep::End => return (self.account, self.id),
                PushStep::Again(wait) => sleep(wait).await,
                // Woken or not, it is looked at.
                PushStep::Wait => drop(timeout(IDLE_CHECK_INTERVAL, woken.notified()).await),
            }
        }
    }

    async fn step(&mut self, tries: &mut u32) -> PushStep {
        let now = self.store.clock().now();
        let one = match self.store.snapshot().object::<PushSubscription>(self.account, self.id) {
            Ok(Some(one)) if now < one.expires => one,
            Ok(_) => return PushStep::End,
            Err(_) => return PushStep::Again(FIRST_RETRY_PAUSE),
        };
        let holds = one.credential.as_ref().is_none_or(|credential| {
            self.directory.is_valid(self.account, credential, now).unwrap_or(true)
        });
        if !holds {
            return self.destroy().await;
        }
        match observed_accounts(&self.store, self.account) {
            Ok(followed) => self.known.set_accounts(&followed),
            Err(_) => return PushStep::Again(FIRST_RETRY_PAUSE),
        }
        let before = self.known.clone();
        let message = if one.is_verified {
            match self.known.catch_up(&self.store, one.types.as_deref()) {
                Ok(Some(change)) => change,
                Ok(None) => return PushStep::Wait,
                Err(_) => return PushStep::Again(FIRST_RETRY_PAUSE),
            }
        } else if self.code_sent {
            return PushStep::Wait;
        } else {
            json!({"@type": "PushVerification", "pushSubscriptionId": self.id.to_string(), "verificationCode": one.code})
        };
        match self.push(&one, &message).await {
            PushResult::Taken => {
                *tries = 0;
                self.code_sent = true;
                PushStep::Again(MIN_PUSH_INTERVAL)
            }
            PushResult::Gone => self.destroy().await,
            PushResult::Later(why, wait) if *tries < MAX_TRIES => {
                let doubled = FIRST_RETRY_PAUSE.saturating_mul(1 << (*tries).min(16));
                *tries += 1;
                tracing::debug!(account = %self.account, why, "a push waits");
                self.known = before;
                PushStep::Again(wait.unwrap_or(doubled).clamp(FIRST_RETRY_PAUSE, MAX_RETRY_PAUSE))
            }
            PushResult::Later(why, _) | PushResult::Refused(why) => {
                *tries = 0;
                self.code_sent = true;
                tracing::info!(account = %self.account, why, "a push is given up");
                PushStep::Wait
            }
        }
    }

    async fn push(&self, one: &PushSubscription, message: &Value) -> PushResult {
        let plain = message.to_string().into_bytes();
        let body = match &one.keys {
            None => plain,
            Some(keys) => match encrypt::encrypt(&plain, keys) {
                Ok(body) => body,
                Err(error) => return PushResult::Refused(error.to_string()),
            },
        };
        // First of one's own share, so that who waits for that keeps no others waiting.
        let Ok(_own) = self.own_turns.acquire().await else {
            return PushResult::Later("the end".into(), None);
        };
        let Ok(_turn) = self.turns.acquire().await else {
            return PushResult::Later("the end".into(), None);
        };
        send(&one.url, body, one.keys.is_some(), self.settings.get().push_to_private).await
    }

    async fn destroy(&self) -> PushStep {
        let (store, account, id) = (self.store.clone(), self.account, self.id);
        let done = tokio::task::spawn_blocking(move || {
            let (_, ticket) =
                store.commit(account, |txn| txn.destroy_object::<PushSubscription>(id))?;
            ticket.wait_blocking()
        });
        match done.await {
            Ok(Ok(()) | Err(Error::NotFound(_))) => PushStep::End,
            _ => PushStep::Again(FIRST_RETRY_PAUSE),
        }
    }
}
