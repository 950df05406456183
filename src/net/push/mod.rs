//! Pushes changes to the URLs of push subscriptions (RFC 8620 §7.2), encrypted if the client gave
//! keys (RFC 8291).
//!
//! - Nothing is done for a change while it is known that nobody has a subscription, because every
//!   delivery is a change.
//! - Each subscription has a task of its own once one of its accounts changes.
//! - The verification code is sent once in a run of the service. Nothing else is sent until the
//!   client has returned it.
//! - A push contains the newest states. If they are too long for one push, several follow each
//!   other, each with some of the accounts.
//! - A push that fails for now is retried with growing waits; later changes go with it. After the
//!   last retry, and if the push is refused for good, its changes are not pushed any more.
//! - A subscription is destroyed when its URL answers that it is gone, or when the password or
//!   token with which it was made is no longer valid.
//! - If the subscriptions of a changed account cannot be read, they are read again after a while,
//!   or when the account changes again. The change is pushed then.
//! - If a task panics, the next change starts another one, which does not push what the first one
//!   had to push.
//! - Changes from before the start of the service are not pushed. A later change of the same type
//!   pushes the newest state.

mod encrypt;
mod target;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::http::HttpSettings;
use super::stop::StopSignal;
use crate::account::Directory;
use crate::jmap::{ObservedAccount, PushState};
use crate::model::{AccountId, Change, LiveValue, ModSeq, ObjectId, PushSubscription, limits};
use crate::store::{Error, Store};
use target::{PushResult, send};

/// The shortest time between two pushes of one subscription.
const MIN_PUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Changes are gathered for this long before the subscriptions of their accounts are read again.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(100);
/// The wait before the first retry of a push. It doubles with each further one, unless the push
/// server asks for another wait. The wait is also made whenever the store cannot be read, and stays
/// the same then: an account may be under repair for long.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The longest wait, even if the push server asks for a longer one.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(3600);
/// How often a failed push is retried, before its changes are given up.
const MAX_RETRIES: u32 = 8;
/// The most pushes at a time, of all users together.
const MAX_CONCURRENT_PUSHES: usize = 64;
/// How often a subscription without changes is read: it may have expired.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// The changes that wait to be pushed.
#[derive(Debug, Default)]
struct ChangedAccounts {
    /// Each account with its first change that was not processed.
    accounts: Mutex<HashMap<AccountId, ModSeq>>,
    notify: Notify,
    /// Whether nobody had a subscription at the start. False until that is known.
    had_no_subscriber: AtomicBool,
    /// Whether a subscription was written since the start.
    has_new_subscriber: AtomicBool,
}

impl ChangedAccounts {
    /// Adds a change, unless it is known that nobody has a subscription.
    fn add(&self, change: &Change) {
        if change.writes_push_subscription {
            self.has_new_subscriber.store(true, Ordering::SeqCst);
        }
        if self.had_no_subscriber.load(Ordering::SeqCst)
            && !self.has_new_subscriber.load(Ordering::SeqCst)
        {
            return;
        }
        // A commit without types, such as that of a new subscription, has nothing to push.
        let first =
            change.types.iter().map(|(_, modseq)| *modseq).min().unwrap_or(ModSeq(u64::MAX));
        let mut accounts = self.accounts.lock();
        let first_change = accounts.entry(change.account).or_insert(first);
        *first_change = first.min(*first_change);
        drop(accounts);
        self.notify.notify_one();
    }

    /// Reads whether anybody has a subscription. `add` must get all changes from before this call
    /// on: else a subscription that is made meanwhile is missed.
    fn find_subscribers(&self, store: &Store) -> Result<(), Error> {
        let snapshot = store.snapshot();
        for account in snapshot.account_ids()? {
            if !snapshot.objects::<PushSubscription>(account)?.is_empty() {
                return Ok(());
            }
        }
        self.had_no_subscriber.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// Pushes changes until the service stops.
pub async fn run(
    store: Store,
    directory: Directory,
    settings: LiveValue<HttpSettings>,
    mut stop: StopSignal,
) {
    let changed = Arc::new(ChangedAccounts::default());
    let listener = Arc::clone(&changed);
    store.on_change(move |change| listener.add(change));
    let (finder, of) = (Arc::clone(&changed), store.clone());
    tokio::task::spawn_blocking(move || {
        if let Err(error) = finder.find_subscribers(&of) {
            tracing::debug!(%error, "cannot read all push subscriptions");
        }
    });
    let mut dispatcher = Dispatcher::new(store, directory, settings, Arc::clone(&changed));
    let mut tasks = JoinSet::new();
    let mut subscription_of_task: HashMap<tokio::task::Id, (AccountId, ObjectId)> = HashMap::new();
    let mut next_read = Instant::now();
    loop {
        let next_changes = async {
            sleep_until(next_read).await;
            changed.notify.notified().await;
        };
        let accounts = tokio::select! {
            () = stop.wait() => return,
            () = next_changes => std::mem::take(&mut *changed.accounts.lock()),
            () = sleep_until(dispatcher.retry_at), if !dispatcher.unread.is_empty() => {
                std::mem::take(&mut dispatcher.unread)
            }
            Some(ended) = tasks.join_next_with_id() => {
                let ended_task = match ended {
                    Ok((task, ())) => task,
                    Err(error) => {
                        tracing::error!(%error, "pushes to a subscription ended with a panic");
                        error.id()
                    }
                };
                if let Some(subscription) = subscription_of_task.remove(&ended_task) {
                    dispatcher.active.remove(&subscription);
                }
                continue;
            }
        };
        next_read = Instant::now() + MIN_READ_INTERVAL;
        for (task, notify) in dispatcher.dispatch(accounts) {
            let subscription = (task.account, task.id);
            let spawned = tasks.spawn(task.run(notify));
            subscription_of_task.insert(spawned.id(), subscription);
        }
    }
}

/// Wakes the tasks of the subscriptions whose accounts have changed, and makes those that are
/// missing.
struct Dispatcher {
    store: Store,
    directory: Directory,
    settings: LiveValue<HttpSettings>,
    changed: Arc<ChangedAccounts>,
    /// The changed accounts whose subscriptions could not be read, as in `ChangedAccounts`.
    unread: HashMap<AccountId, ModSeq>,
    /// When they are to be read again.
    retry_at: Instant,
    permits: Arc<Semaphore>,
    account_permits: HashMap<AccountId, Arc<Semaphore>>,
    /// The subscriptions that have a task, with the means to wake it.
    active: HashMap<(AccountId, ObjectId), Arc<Notify>>,
}

impl Dispatcher {
    fn new(
        store: Store,
        directory: Directory,
        settings: LiveValue<HttpSettings>,
        changed: Arc<ChangedAccounts>,
    ) -> Self {
        Self {
            store,
            directory,
            settings,
            changed,
            unread: HashMap::new(),
            retry_at: Instant::now(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_PUSHES)),
            account_permits: HashMap::new(),
            active: HashMap::new(),
        }
    }

    /// Processes changed accounts, each with its first change that was not processed. Returns the
    /// tasks to run. Accounts that cannot be read are added to `unread`.
    fn dispatch(
        &mut self,
        mut accounts: HashMap<AccountId, ModSeq>,
    ) -> Vec<(SubscriptionTask, Arc<Notify>)> {
        for (account, first) in &mut accounts {
            if let Some(earlier) = self.unread.remove(account) {
                *first = earlier.min(*first);
            }
        }
        let mut tasks = Vec::new();
        for (&account, &first) in &accounts {
            if let Err(error) = self.wake_subscriptions(account, &accounts, &mut tasks) {
                tracing::debug!(%account, %error, "cannot read push subscriptions");
                if self.unread.is_empty() {
                    self.retry_at = Instant::now() + FIRST_RETRY_PAUSE;
                }
                self.unread.insert(account, first);
            }
        }
        tasks
    }

    /// Wakes the task of each subscription to `changed_account`, or adds the task to `tasks`.
    /// `accounts` are all accounts that are being processed.
    fn wake_subscriptions(
        &mut self,
        changed_account: AccountId,
        accounts: &HashMap<AccountId, ModSeq>,
        tasks: &mut Vec<(SubscriptionTask, Arc<Notify>)>,
    ) -> Result<(), Error> {
        for (account, id) in subscriptions(&self.store, changed_account)? {
            if let Some(notify) = self.active.get(&(account, id)) {
                notify.notify_one();
                continue;
            }
            let waiting = [accounts, &self.unread];
            let state = state_before(&self.store, account, waiting, &self.changed.accounts)?;
            let notify = Arc::new(Notify::new());
            self.active.insert((account, id), Arc::clone(&notify));
            let task = SubscriptionTask {
                store: self.store.clone(),
                directory: self.directory.clone(),
                settings: self.settings.clone(),
                account_permits: Arc::clone(
                    self.account_permits.entry(account).or_insert_with(new_account_permits),
                ),
                permits: Arc::clone(&self.permits),
                account,
                id,
                state,
                code_sent: false,
            };
            tasks.push((task, notify));
        }
        Ok(())
    }
}

/// Returns the state that a user's client knows when none of the changes in `waiting` and in
/// `later` was pushed. The user may see several of the changed accounts.
fn state_before(
    store: &Store,
    user: AccountId,
    waiting: [&HashMap<AccountId, ModSeq>; 2],
    later: &Mutex<HashMap<AccountId, ModSeq>>,
) -> Result<PushState, Error> {
    let mut state = PushState::now(store, &observed_accounts(store, user)?)?;
    for (account, first) in waiting.into_iter().flatten().chain(&*later.lock()) {
        state.forget_from(*account, *first);
    }
    Ok(state)
}

fn new_account_permits() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limits::MAX_CONCURRENT_PUSHES_PER_USER))
}

/// Returns the subscriptions of the users who see changes of an account: its owner and the guests
/// of its mailboxes.
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

/// Returns the account itself, and those with mailboxes that are shared with it.
fn observed_accounts(store: &Store, account: AccountId) -> Result<Vec<ObservedAccount>, Error> {
    let shared = store
        .snapshot()
        .accounts_shared_with(account)?
        .into_iter()
        .map(|account| ObservedAccount { account, shared: true });
    Ok([ObservedAccount::of_owner(account)].into_iter().chain(shared).collect())
}

/// Pushes to one subscription.
struct SubscriptionTask {
    store: Store,
    directory: Directory,
    settings: LiveValue<HttpSettings>,
    /// Bounds the pushes of all subscriptions of the account.
    account_permits: Arc<Semaphore>,
    /// Bounds all pushes.
    permits: Arc<Semaphore>,
    account: AccountId,
    id: ObjectId,
    /// The states that the client knows.
    state: PushState,
    /// Whether the verification code was sent or given up.
    code_sent: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum PushStep {
    /// Wait for a change, or for `IDLE_CHECK_INTERVAL`.
    Wait,
    /// Look again after this time.
    Again(Duration),
    /// End the task: the subscription has expired or does not exist.
    End,
}

impl SubscriptionTask {
    /// Runs until the subscription has ended.
    async fn run(mut self, notify: Arc<Notify>) {
        let mut tries = 0;
        loop {
            match self.step(&mut tries).await {
                PushStep::End => return,
                PushStep::Again(wait) => sleep(wait).await,
                PushStep::Wait => drop(timeout(IDLE_CHECK_INTERVAL, notify.notified()).await),
            }
        }
    }

    /// Pushes what the client does not know, or the verification code, if there is anything to
    /// push. `tries` counts the failed pushes in a row.
    async fn step(&mut self, tries: &mut u32) -> PushStep {
        let now = self.store.clock().now();
        let read = self.store.snapshot().object::<PushSubscription>(self.account, self.id);
        let subscription = match read {
            Ok(Some(subscription)) if now < subscription.expires => subscription,
            Ok(_) => return PushStep::End,
            Err(_) => return PushStep::Again(FIRST_RETRY_PAUSE),
        };
        let is_authorized = subscription.credential.as_ref().is_none_or(|credential| {
            self.directory.is_valid(self.account, credential, now).unwrap_or(true)
        });
        if !is_authorized {
            return self.destroy().await;
        }
        match observed_accounts(&self.store, self.account) {
            Ok(observed) => self.state.set_accounts(&observed),
            Err(_) => return PushStep::Again(FIRST_RETRY_PAUSE),
        }
        let before = self.state.clone();
        let message = if subscription.is_verified {
            match self.state.catch_up(&self.store, subscription.types.as_deref()) {
                Ok(Some(change)) => change,
                Ok(None) => return PushStep::Wait,
                Err(_) => return PushStep::Again(FIRST_RETRY_PAUSE),
            }
        } else if self.code_sent {
            return PushStep::Wait;
        } else {
            json!({
                "@type": "PushVerification",
                "pushSubscriptionId": self.id.to_string(),
                "verificationCode": subscription.code,
            })
        };
        match self.push(&subscription, message).await {
            PushResult::Accepted => {
                *tries = 0;
                self.code_sent = true;
                PushStep::Again(MIN_PUSH_INTERVAL)
            }
            PushResult::Gone => self.destroy().await,
            PushResult::Later(reason, wait) if *tries < MAX_RETRIES => {
                // 16 only bounds the shift: `MAX_RETRIES` is less.
                let doubled = FIRST_RETRY_PAUSE.saturating_mul(1 << (*tries).min(16));
                *tries += 1;
                tracing::debug!(account = %self.account, reason, "a push will be retried");
                self.state = before;
                PushStep::Again(wait.unwrap_or(doubled).clamp(FIRST_RETRY_PAUSE, MAX_RETRY_PAUSE))
            }
            PushResult::Later(reason, _) | PushResult::Refused(reason) => {
                *tries = 0;
                self.code_sent = true;
                tracing::info!(account = %self.account, reason, "a push failed and is not retried");
                PushStep::Wait
            }
        }
    }

    /// Pushes a message, in parts if it is too long. Ends with the first part that is not accepted.
    async fn push(&self, subscription: &PushSubscription, message: Value) -> PushResult {
        for (index, part) in split(message).into_iter().enumerate() {
            if index > 0 {
                sleep(MIN_PUSH_INTERVAL).await;
            }
            match self.push_part(subscription, part.to_string().into_bytes()).await {
                PushResult::Accepted => {}
                other => return other,
            }
        }
        PushResult::Accepted
    }

    async fn push_part(&self, subscription: &PushSubscription, plain: Vec<u8>) -> PushResult {
        let body = match &subscription.keys {
            None => plain,
            Some(keys) => match encrypt::encrypt(&plain, keys) {
                Ok(body) => body,
                Err(error) => return PushResult::Refused(error.to_string()),
            },
        };
        // The account's permit comes first, so that a wait for it does not delay other accounts.
        let Ok(_account_permit) = self.account_permits.acquire().await else {
            return PushResult::Later("the service stops".into(), None);
        };
        let Ok(_permit) = self.permits.acquire().await else {
            return PushResult::Later("the service stops".into(), None);
        };
        let is_encrypted = subscription.keys.is_some();
        send(&subscription.url, body, is_encrypted, self.settings.get().push_to_private).await
    }

    /// Destroys the subscription.
    async fn destroy(&self) -> PushStep {
        let (store, account, id) = (self.store.clone(), self.account, self.id);
        let destroyed = tokio::task::spawn_blocking(move || {
            let (_, ticket) =
                store.commit(account, |txn| txn.destroy_object::<PushSubscription>(id))?;
            ticket.wait_blocking()
        });
        match destroyed.await {
            Ok(Ok(()) | Err(Error::NotFound(_))) => PushStep::End,
            _ => PushStep::Again(FIRST_RETRY_PAUSE),
        }
    }
}

/// Splits a `StateChange` that is longer than `MAX_MESSAGE_BYTES` into several that are not, of
/// whole accounts: it may be about any of them (RFC 8620 §7.1). A push server need not accept more
/// than 4096 bytes, encrypted or not (RFC 8030 §7.2). Other messages are returned as they are.
fn split(message: Value) -> Vec<Value> {
    if message.to_string().len() <= encrypt::MAX_MESSAGE_BYTES {
        return vec![message];
    }
    let Some(changed) = message.get("changed").and_then(Value::as_object) else {
        return vec![message];
    };
    let part_of = |changed: Map<String, Value>| json!({"@type": "StateChange", "changed": changed});
    let empty = part_of(Map::new()).to_string().len();
    let (mut parts, mut part, mut length) = (Vec::new(), Map::new(), empty);
    for (account, states) in changed {
        // The account's id in quotes, a colon, the states, and a comma.
        let more = account.len() + 4 + states.to_string().len();
        if length + more > encrypt::MAX_MESSAGE_BYTES && !part.is_empty() {
            parts.push(part_of(std::mem::take(&mut part)));
            length = empty;
        }
        length += more;
        part.insert(account.clone(), states.clone());
    }
    parts.push(part_of(part));
    parts
}

#[cfg(test)]
mod tests;
