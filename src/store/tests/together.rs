//! Several stores over one engine, as several processes on one database would be.
//!
//! A baton lets one store at a time run up to its next engine call, in an order that a seed
//! decides. The recorded commits are replayed over a naive account, in the order in which the
//! engine wrote them. So the test notices a commit that was built on an older state.

mod baton;
mod naive;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use self::baton::{Baton, BatonEngine, LeaveGuard};
use self::naive::Naive;
use super::super::row::wake_condition;
use super::actors::SeededRng;
use super::*;
use crate::model::ActionId;

const BOB: AccountId = AccountId(2);
const STORES: usize = 3;
const STEPS: usize = 30;

type Facts = (BTreeSet<MailboxUid>, BTreeSet<String>);

/// What a commit read, and what it wrote. `emails` is the number of emails before a delivery.
#[derive(Debug, Clone)]
enum CommitRecord {
    Delivered { id: EmailId, emails: u64 },
    Changed { id: EmailId, before: Facts, after: Facts },
    Destroyed { id: EmailId, before: Facts },
    Queued { id: ActionId, due: UtcMillis },
    Deferred { id: ActionId, before: UtcMillis, after: UtcMillis },
    Removed { id: ActionId, due: UtcMillis },
    Counted { before: u64 },
}

/// Makes the rows of a message. The digits in its first line are its thread keys.
fn rows_of(raw: &[u8]) -> MessageRows {
    let keys = raw.split(|byte| *byte == b'\r').next().unwrap_or_default();
    MessageRows {
        blob: BlobHash(*blake3::hash(raw).as_bytes()),
        size: raw.len() as u64,
        thread_keys: keys
            .iter()
            .filter(|byte| byte.is_ascii_digit())
            .map(|key| ThreadKey([*key; 32]))
            .collect(),
        ..MessageRows::default()
    }
}

/// Returns the number that `Actor::raise_counter` stores as the name of an account.
fn count_of(row: &AccountRow) -> u64 {
    row.display_name.as_deref().and_then(|name| name.parse().ok()).unwrap_or(0)
}

/// One of the stores, with its random changes and the record of its commits.
struct Actor {
    number: usize,
    store: Store,
    engine: Arc<BatonEngine>,
    clock: Arc<FixedClock>,
    rng: SeededRng,
    records: Vec<(u64, AccountId, CommitRecord)>,
    /// How many commits were overtaken too often.
    overtaken: usize,
}

impl Actor {
    /// Returns the value of a commit, or `None` if it failed because of a commit of another store.
    fn unless_overtaken<T>(&mut self, done: Result<T, Error>) -> Option<T> {
        match done {
            Ok(value) => Some(value),
            Err(Error::Overtaken(_)) => {
                self.overtaken += 1;
                None
            }
            Err(Error::NotFound(_) | Error::Conflict(_) | Error::Rebuilding(_)) => None,
            Err(other) => panic!("store {}: {other}", self.number),
        }
    }

    fn commit<T>(
        &mut self,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Option<T> {
        self.engine.written.lock().clear();
        let done = self.store.commit(account, change);
        let done = done.and_then(|(value, ticket)| ticket.wait_blocking().map(|()| value));
        self.unless_overtaken(done)
    }

    fn commit_and_record(
        &mut self,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<CommitRecord, Error>,
    ) {
        if let Some(record) = self.commit(account, change) {
            self.record(account, record);
        }
    }

    fn record(&mut self, account: AccountId, record: CommitRecord) {
        let number = self.engine.written.lock().get(&account).copied();
        self.records.push((number.expect("the number of the write of a commit"), account, record));
    }

    fn create_account(&mut self, account: AccountId) {
        let row = AccountRow::new(
            format!("{account}"),
            Address::from_parts(format!("{account}"), "example.org"),
            UtcMillis(0),
        );
        self.commit(account, |txn| {
            if txn.snapshot().account(account)?.is_some() {
                return Ok(());
            }
            txn.register(&row);
            for (name, role) in
                [("Inbox", Role::Inbox), ("Trash", Role::Trash), ("Archive", Role::Archive)]
            {
                txn.create_mailbox(&NewMailbox {
                    name: name.into(),
                    parent: None,
                    role: Some(role),
                    sort_order: 0,
                })?;
            }
            Ok(())
        });
    }

    fn deliver(&mut self) {
        let accounts: &[AccountId] = [&[ACCOUNT][..], &[BOB], &[ACCOUNT, BOB]][self.rng.below(3)];
        let keys: String =
            (0..self.rng.below(3)).map(|_| ['0', '1', '2', '3'][self.rng.below(4)]).collect();
        // Few different messages, so that one is delivered while another store collects it.
        let raw =
            format!("Subject: {keys}\r\n\r\n{}\r\n", ["a", "b"][self.rng.below(2)]).into_bytes();
        let encoded = EncodedMessage::new(&rows_of(&raw));
        self.engine.written.lock().clear();
        let (results, ticket) = self.store.commit_message(accounts, &encoded, &raw, |txn| {
            let (inbox, emails) = (txn.state().inbox, txn.state().emails);
            let (id, _) = txn.create_email(&NewEmail {
                message: &encoded,
                prefix: b"",
                mailboxes: BTreeSet::from([inbox]),
                keywords: BTreeSet::new(),
                received_at: txn.now(),
            })?;
            Ok(CommitRecord::Delivered { id, emails })
        });
        ticket.wait_blocking().unwrap();
        for (account, result) in results {
            if let Some(record) = self.unless_overtaken(result) {
                self.record(account, record);
            }
        }
    }

    fn change_email(&mut self, account: AccountId) {
        let mailboxes = self.rng.boxes();
        let keyword = ["$seen", "$flagged"][self.rng.below(2)];
        let destroys = self.rng.below(4) == 0;
        let emails = match self.store.snapshot().emails(account, None, 1000) {
            Ok(emails) if !emails.is_empty() => emails,
            Ok(_) | Err(Error::Rebuilding(_)) => return,
            Err(other) => panic!("{other}"),
        };
        let id = emails[self.rng.below(emails.len())].0;
        self.commit_and_record(account, |txn| {
            let email = txn.snapshot().email(account, id)?.ok_or(Error::NotFound("email"))?;
            let before = (email.mailboxes, email.keywords);
            if destroys {
                txn.destroy_email(id)?;
                return Ok(CommitRecord::Destroyed { id, before });
            }
            let mut after = (mailboxes.clone(), before.1.clone());
            if !after.1.remove(keyword) {
                after.1.insert(keyword.to_owned());
            }
            txn.update_email(id, after.0.clone(), after.1.clone())?;
            Ok(CommitRecord::Changed { id, before, after })
        });
    }

    fn change_queue(&mut self, account: AccountId) {
        let due = UtcMillis(i64::try_from(5 + self.rng.below(9)).unwrap());
        let choice = self.rng.below(3);
        let actions = match self.store.snapshot().outbox(account) {
            Ok(actions) => actions,
            Err(Error::Rebuilding(_)) => return,
            Err(other) => panic!("{other}"),
        };
        let index = self.rng.below(actions.len().max(1));
        let Some(action_seen) = actions.get(index).filter(|_| choice > 0) else {
            return self.commit_and_record(account, |txn| {
                let id =
                    txn.queue_action(Action { due, email: None, told: None, ..action() }, b"x")?;
                Ok(CommitRecord::Queued { id, due })
            });
        };
        let id = action_seen.id;
        self.commit_and_record(account, |txn| {
            let action = txn.action(id)?;
            let (before, after) = (action.due, UtcMillis(action.due.0 + 1));
            if choice == 1 {
                txn.remove_action(id)?;
                return Ok(CommitRecord::Removed { id, due: before });
            }
            // This raises no change number, and the bytes of the account's state stay the same. A
            // commit of another store that it overtakes must be noticed all the same.
            txn.defer_actions(
                &[(id, wake_condition(&action).ok_or(Error::NotFound("wake"))?)],
                after,
            )?;
            Ok(CommitRecord::Deferred { id, before, after })
        });
    }

    /// Raises a number in the account's row, in one commit with an address of the site.
    fn raise_counter(&mut self, account: AccountId) {
        self.engine.written.lock().clear();
        let mut before = 0;
        let done = self.store.commit_together(&[AccountId::SITE, account], |txn| {
            if txn.account() == AccountId::SITE {
                txn.set_address(
                    &format!("{account}@example.org"),
                    Some(&crate::model::AddressRow::Primary(account)),
                );
                return Ok(());
            }
            let row = txn.snapshot().account(account)?.ok_or(Error::NotFound("account"))?;
            before = count_of(&row);
            txn.set_account(&AccountRow { display_name: Some((before + 1).to_string()), ..row });
            Ok(())
        });
        if self.unless_overtaken(done.and_then(Ticket::wait_blocking)).is_some() {
            self.record(account, CommitRecord::Counted { before });
        }
    }

    fn do_upkeep(&mut self, account: AccountId) {
        let limit = 1 + self.rng.below(4);
        let (uid, filter) = (MailboxUid(1), ListingFilter::ALL[self.rng.below(6)]);
        match self.rng.below(8) {
            0 => drop(self.commit(AccountId::SITE, |txn| {
                txn.collect_blobs(txn.now().before(Duration::from_millis(4)), limit)
            })),
            1 => drop(self.commit(AccountId::SITE, |txn| txn.sweep_blobs(Duration::ZERO, limit))),
            2 => drop(self.commit(account, |txn| txn.purge_emails(txn.now(), limit))),
            3 => drop(self.commit(account, |txn| {
                txn.note_history(Duration::ZERO)?;
                txn.purge_history(txn.now(), limit)
            })),
            4 => {
                self.commit(account, |txn| {
                    txn.sweep_thread_refs(UtcMillis(0), Duration::ZERO, limit)
                });
            }
            5 if !filter.is_permanent(uid) => {
                self.commit(account, |txn| txn.drop_listing(uid, filter, limit));
            }
            6 => {
                let sizes = FoldSizes {
                    rows: 3,
                    row_bytes: 1 << 20,
                    block: 200,
                    fan: 2,
                    piece: 300,
                    last_level: 2,
                };
                let piece = self.store.snapshot().next_fold_piece(account, &sizes);
                if let Some(piece) = self.unless_overtaken(piece).flatten() {
                    // Of a new fold, the other store may write a piece between two parts.
                    for part in piece.parts(sizes.piece) {
                        if self.commit(account, |txn| txn.write_folds(&part)) != Some(true) {
                            break;
                        }
                    }
                }
            }
            _ => drop(self.commit(account, |txn| txn.extend_listing(uid, filter, limit))),
        }
    }

    fn step(&mut self) {
        self.clock.advance(Duration::from_millis(1));
        let account = [ACCOUNT, BOB][self.rng.below(2)];
        match self.rng.below(16) {
            0..=2 => self.deliver(),
            3..=6 => self.change_email(account),
            7..=9 => self.change_queue(account),
            10 | 11 => self.raise_counter(account),
            12 if self.number == 0 => {
                let repaired = self.store.repair(
                    repair::RepairScope::Rebuild,
                    Some(&[account]),
                    &|raw| rows_of(raw),
                    &mut |_| true,
                );
                self.unless_overtaken(repaired);
            }
            13 => {
                let found = self.store.check().unwrap();
                let is_under_repair =
                    found.iter().any(|breach| breach.what.contains("was not finished"));
                assert!(found.is_empty() || is_under_repair, "store {}: {found:?}", self.number);
            }
            _ => self.do_upkeep(account),
        }
    }
}

/// Runs all stores. Returns the number of stale batches, and of commits that were overtaken too
/// often.
fn run_together(seed: u64) -> (u64, usize) {
    let memory = MemoryEngine::new();
    let (baton, writes) = (Arc::new(Baton::new(seed)), Arc::new(AtomicU64::new(0)));
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let options = Options { ranked_above: Some(2), ..Options::small() };
    let engines: Vec<Arc<BatonEngine>> = (0..STORES)
        .map(|who| {
            let (inner, baton, writes) = (memory.share(), Arc::clone(&baton), Arc::clone(&writes));
            Arc::new(BatonEngine {
                inner,
                baton,
                who,
                writes,
                stale: AtomicU64::default(),
                written: Mutex::default(),
            })
        })
        .collect();
    let ended: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = engines
            .iter()
            .map(|engine| {
                let (engine, baton, clock, options) =
                    (Arc::clone(engine), Arc::clone(&baton), Arc::clone(&clock), options.clone());
                scope.spawn(move || {
                    let _guard = LeaveGuard(baton, engine.who);
                    let store =
                        Store::open_engine(engine.clone(), &options, clock.clone()).unwrap();
                    let rng = SeededRng::of(seed * 31 + engine.who as u64);
                    let (records, number) = (Vec::new(), engine.who);
                    let mut actor =
                        Actor { number, store, engine, clock, rng, records, overtaken: 0 };
                    actor.create_account(ACCOUNT);
                    actor.create_account(BOB);
                    for _ in 0..STEPS {
                        actor.step();
                    }
                    (
                        actor.store.epoch(),
                        actor.store.secrets().clone(),
                        actor.records,
                        actor.overtaken,
                    )
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ended.iter().all(
        |(epoch, secrets, ..)| (epoch, &secrets.threads) == (&ended[0].0, &ended[0].1.threads)
    ));
    let mut records: Vec<_> = ended.iter().flat_map(|(_, _, records, _)| records.clone()).collect();
    records.sort_by_key(|(number, ..)| *number);
    let store = Store::open_engine(Arc::new(memory.share()), &options, clock).unwrap();
    assert_clean(&store);
    for account in [ACCOUNT, BOB] {
        let mut naive = Naive::default();
        records
            .iter()
            .filter(|(_, of, _)| *of == account)
            .for_each(|(_, _, record)| naive.apply(record));
        assert_eq!(Naive::of(&store, account), naive, "{account}");
    }
    let stale = engines.iter().map(|engine| engine.stale.load(Ordering::SeqCst)).sum();
    (stale, ended.iter().map(|(.., overtaken)| overtaken).sum())
}

#[test]
fn several_stores_over_one_engine_behave_like_one() {
    let mut all = (0, 0);
    for seed in 1..=u64::from(cases(40)) {
        let (stale, overtaken) = std::panic::catch_unwind(|| run_together(seed))
            .unwrap_or_else(|_| panic!("seed {seed}"));
        all = (all.0 + stale, all.1 + overtaken);
    }
    assert!(all.0 > 0, "no change was run again");
    assert!(all.1 as u64 * 20 < all.0, "{} of {} were overtaken too often", all.1, all.0);
}

/// Runs several threads of several stores, so that commits are also built on queued ones.
#[test]
fn threads_of_several_stores_lose_no_update() {
    let memory = MemoryEngine::new();
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let options = Options { repeat_pause: Duration::from_millis(3), ..Options::small() };
    let engines = [memory.share(), memory.share()];
    let stores = engines
        .map(|engine| Store::open_engine(Arc::new(engine), &options, clock.clone()).unwrap());
    make_account(&stores[0], ACCOUNT);
    let counted: u64 = std::thread::scope(|scope| {
        let count = |store: &Store| {
            let mut counted = 0;
            for _ in 0..40 {
                let done = store.commit(ACCOUNT, |txn| {
                    let row = txn.snapshot().account(ACCOUNT)?.ok_or(Error::NotFound("account"))?;
                    let name = Some((count_of(&row) + 1).to_string());
                    txn.set_account(&AccountRow { display_name: name, ..row });
                    Ok(())
                });
                match done.and_then(|((), ticket)| ticket.wait_blocking()) {
                    Ok(()) => counted += 1,
                    Err(Error::Overtaken(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            counted
        };
        let threads: Vec<_> = (0..6)
            .map(|n| {
                scope.spawn({
                    let store = &stores[n % 2];
                    move || count(store)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let row = stores[1].snapshot().account(ACCOUNT).unwrap().unwrap();
    assert!(counted > 100, "{counted} of 240 commits were done");
    assert_eq!(count_of(&row), counted);
    assert_clean(&stores[0]);
}

/// While one store repairs an account, the others neither read nor write it.
#[test]
fn a_store_respects_the_repairs_of_another() {
    let memory = MemoryEngine::new();
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let open =
        || Store::open_engine(Arc::new(memory.share()), &Options::small(), clock.clone()).unwrap();
    let (one, other) = (open(), open());
    make_account(&one, ACCOUNT);
    let mark = |txn: &mut Txn<'_>| {
        txn.begin_repair(repair::RepairScope::Repair);
        Ok(())
    };
    one.commit(ACCOUNT, mark).unwrap().1.wait_blocking().unwrap();
    assert_eq!(other.snapshot().mailboxes(ACCOUNT).map(drop), Err(Error::Rebuilding(ACCOUNT)));
    let refused = other.commit(ACCOUNT, |txn| txn.note_history(Duration::ZERO));
    assert!(matches!(refused, Err(Error::Rebuilding(ACCOUNT))), "{refused:?}");
}
