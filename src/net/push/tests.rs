use tokio::net::TcpListener;

use super::*;
use crate::account::{NewAccount, Settings};
use crate::model::clock::{Clock, MonotonicMillis, SystemClock};
use crate::model::{Address, Mailbox, UtcMillis, VacationResponse};
use crate::net::stop::switch;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::{Options, Txn};

struct Fixture {
    store: Store,
    directory: Directory,
    ann: AccountId,
}

fn fixture() -> Fixture {
    fixture_with(Arc::new(SystemClock))
}

fn fixture_with(clock: Arc<dyn Clock>) -> Fixture {
    fixture_over(Arc::new(MemoryEngine::new()), clock)
}

fn fixture_over(engine: Arc<MemoryEngine>, clock: Arc<dyn Clock>) -> Fixture {
    let store = Store::open_engine(engine, &Options::small(), clock).unwrap();
    let directory = Directory::new(store.clone(), Settings::default());
    let ann = directory.add(&NewAccount::at(Address::parse("ann@example.org").unwrap())).unwrap();
    Fixture { store, directory, ann }
}

impl Fixture {
    fn changed_accounts(&self) -> Arc<ChangedAccounts> {
        let changed = Arc::new(ChangedAccounts::default());
        let listener = Arc::clone(&changed);
        self.store.on_change(move |change| listener.add(change));
        changed
    }

    fn subscribe(&self) {
        self.commit(self.ann, |txn| txn.create_object(&PushSubscription::default()).map(drop));
    }

    fn commit(&self, account: AccountId, change: impl FnMut(&mut Txn<'_>) -> Result<(), Error>) {
        let ((), ticket) = self.store.commit(account, change).unwrap();
        ticket.wait_blocking().unwrap();
    }

    /// Changes the last mailbox of the account.
    fn change_mailbox(&self, account: AccountId, change: impl Fn(&mut Mailbox)) {
        let (uid, _) = self.store.snapshot().mailboxes(account).unwrap().pop().unwrap();
        self.commit(account, |txn| txn.update_mailbox(uid, &change).map(drop));
    }

    /// Changes the account, and returns the accounts whose changes are processed.
    fn change(&self, changed: &ChangedAccounts, active: bool) -> Vec<AccountId> {
        self.directory.update(self.ann, |row| row.active = active).unwrap();
        std::mem::take(&mut *changed.accounts.lock()).into_keys().collect()
    }
}

#[test]
fn change_is_not_processed_while_it_is_known_that_nobody_has_subscribed() {
    let fixture = fixture();
    let changed = fixture.changed_accounts();
    assert_eq!(fixture.change(&changed, false), [fixture.ann], "not known yet");
    changed.find_subscribers(&fixture.store).unwrap();
    assert_eq!(fixture.change(&changed, true), []);
    fixture.subscribe();
    assert_eq!(fixture.change(&changed, false), [fixture.ann]);
}

#[test]
fn subscription_from_before_the_start_is_found() {
    let fixture = fixture();
    fixture.subscribe();
    let changed = fixture.changed_accounts();
    changed.find_subscribers(&fixture.store).unwrap();
    assert_eq!(fixture.change(&changed, false), [fixture.ann]);
}

#[test]
fn subscription_made_while_subscriptions_are_read_is_not_missed() {
    let fixture = fixture();
    let changed = fixture.changed_accounts();
    fixture.subscribe();
    // What `find_subscribers` does if its snapshot is from before the subscription.
    changed.had_no_subscriber.store(true, Ordering::SeqCst);
    assert_eq!(fixture.change(&changed, false), [fixture.ann]);
}

#[test]
fn first_push_reports_the_changes_of_all_accounts_that_the_user_sees() {
    let fixture = fixture();
    let bob = NewAccount::at(Address::parse("bob@example.org").unwrap());
    let (ann, bob) = (fixture.ann, fixture.directory.add(&bob).unwrap());
    // 1 is the bit of `Right::ReadItems`.
    fixture.change_mailbox(bob, |row| row.shares = [(ann, 1)].into());
    let changed = fixture.changed_accounts();
    fixture.change_mailbox(ann, |row| row.sort_order += 1);
    let taken = std::mem::take(&mut *changed.accounts.lock());
    fixture.change_mailbox(bob, |row| row.sort_order += 1);
    let later = changed.accounts.lock().clone();
    let both = taken.iter().chain(&later).map(|(account, first)| (*account, *first)).collect();
    // Bob's change is processed after Ann's, or together with it.
    for (taken, later) in [(taken, later), (both, HashMap::new())] {
        let (unread, later) = (HashMap::new(), Mutex::new(later));
        let mut state = state_before(&fixture.store, ann, [&taken, &unread], &later).unwrap();
        let push = state.catch_up(&fixture.store, None).unwrap().unwrap();
        let accounts: BTreeSet<_> = push["changed"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(accounts, [ann.to_string(), bob.to_string()].into(), "{push}");
    }
}

/// The account cannot be read because the row of a mailbox is damaged, as it also cannot be under
/// repair.
#[test]
fn change_of_an_account_that_cannot_be_read_is_pushed_later() {
    let engine = Arc::new(MemoryEngine::new());
    let fixture = fixture_over(engine.clone(), Arc::new(SystemClock));
    let types = |push: &Value| -> BTreeSet<String> {
        let changed = push["changed"].as_object().unwrap();
        changed.values().flat_map(|types| types.as_object().unwrap().keys().cloned()).collect()
    };
    let mailboxes = engine.rows(Table::Mailboxes);
    let write = |values: &dyn Fn(&[u8]) -> Vec<u8>| {
        let puts = mailboxes.iter().map(|(key, row)| Put {
            table: Table::Mailboxes,
            key: key.clone(),
            value: Some(values(row)),
        });
        engine.write(&[Arc::new(Batch::of(puts.collect()))]).unwrap();
    };
    fixture.subscribe();
    let changed = fixture.changed_accounts();
    let take = || std::mem::take(&mut *changed.accounts.lock());
    let (settings, directory) = (LiveValue::default(), fixture.directory.clone());
    let store = fixture.store.clone();
    let mut dispatcher = Dispatcher::new(store, directory, settings, Arc::clone(&changed));

    let vacation = VacationResponse { enabled: true, ..VacationResponse::default() };
    fixture.commit(fixture.ann, |txn| txn.set_vacation(&vacation).map(drop));
    write(&|_| vec![99]);
    let before = Instant::now();
    assert_eq!(dispatcher.dispatch(take()).len(), 0);
    assert_eq!(dispatcher.unread.keys().collect::<Vec<_>>(), [&fixture.ann]);
    assert!(dispatcher.retry_at >= before + FIRST_RETRY_PAUSE);
    // The retry fails, too.
    let unread = std::mem::take(&mut dispatcher.unread);
    assert_eq!(dispatcher.dispatch(unread).len(), 0);
    write(&<[u8]>::to_vec);
    // The next change is of another type.
    fixture.change_mailbox(fixture.ann, |row| row.sort_order += 1);
    let (mut task, _) = dispatcher.dispatch(take()).pop().unwrap();
    let push = task.state.catch_up(&fixture.store, None).unwrap().unwrap();
    assert_eq!(types(&push), ["Mailbox".to_owned(), "VacationResponse".to_owned()].into());
    assert!(dispatcher.unread.is_empty());
}

#[test]
fn change_that_is_too_long_for_a_push_is_split_by_accounts() {
    let state = "0123456789abcdef-12";
    let states = json!({"Email": state, "Mailbox": state, "Thread": state});
    let changed: Map<String, Value> =
        (0..80).map(|n| (format!("a{n:07}"), states.clone())).collect();
    let change = json!({"@type": "StateChange", "changed": changed});
    assert!(change.to_string().len() > encrypt::MAX_MESSAGE_BYTES);
    let parts = split(change.clone());
    let mut all = Map::new();
    for part in &parts {
        assert!(part.to_string().len() <= encrypt::MAX_MESSAGE_BYTES, "{part}");
        assert_eq!(part["@type"], "StateChange");
        all.extend(part["changed"].as_object().unwrap().clone());
    }
    assert_eq!(Value::Object(all), change["changed"]);
    let length: usize = parts.iter().map(|part| part.to_string().len()).sum();
    assert_eq!(parts.len(), length.div_ceil(encrypt::MAX_MESSAGE_BYTES), "as few as possible");
    // What is not too long is pushed whole.
    for message in [parts[0].clone(), json!({"@type": "PushVerification"})] {
        assert_eq!(split(message.clone()), [message]);
    }
}

/// The system's clock, which panics once on a thread of the pushes if the test asks for it.
#[derive(Debug, Default)]
struct PanickingClock {
    is_asked: AtomicBool,
}

const PUSH_THREAD: &str = "pushes";

impl Clock for PanickingClock {
    fn now(&self) -> UtcMillis {
        if std::thread::current().name() == Some(PUSH_THREAD) {
            assert!(!self.is_asked.swap(false, Ordering::SeqCst), "as the test asked");
        }
        SystemClock.now()
    }

    fn steady(&self) -> MonotonicMillis {
        SystemClock.steady()
    }
}

#[test]
fn subscription_whose_task_panicked_gets_the_next_push() {
    const LONG: Duration = Duration::from_secs(20);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(PUSH_THREAD)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let clock = Arc::new(PanickingClock::default());
    let fixture = fixture_with(clock.clone());
    let url = format!("https://{}/", server.local_addr().unwrap());
    fixture.commit(fixture.ann, |txn| {
        let (url, expires) = (url.clone(), UtcMillis(i64::MAX));
        txn.create_object(&PushSubscription { url, expires, ..Default::default() }).map(drop)
    });
    let settings = HttpSettings { push_to_private: true, ..HttpSettings::default() };
    let (_switch, stop) = switch();
    let (store, directory) = (fixture.store.clone(), fixture.directory.clone());
    runtime.spawn(run(store, directory, LiveValue::new(settings), stop));
    clock.is_asked.store(true, Ordering::SeqCst);
    // A change before `run` has begun is not seen, so there are several.
    let until = Instant::now() + LONG;
    while clock.is_asked.load(Ordering::SeqCst) {
        assert!(Instant::now() < until, "the task of the subscription does not run");
        fixture.change_mailbox(fixture.ann, |row| row.sort_order += 1);
        std::thread::sleep(MIN_READ_INTERVAL);
    }
    // Time for `run` to see that the task has ended: it wakes a task that it takes for active.
    std::thread::sleep(2 * MIN_READ_INTERVAL);
    fixture.change_mailbox(fixture.ann, |row| row.sort_order += 1);
    // The connection shows that a push is sent. It ends there: the server has no certificate.
    let connected = runtime.block_on(async { timeout(LONG, server.accept()).await });
    assert!(connected.is_ok(), "nothing is pushed after the panic");
}
