//! Threads that deliver, change, destroy and restore emails of one account, upkeep, and readers,
//! all at once, also while the disk refuses some writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

use super::super::engine::fault::FaultyEngine;
use super::*;
use crate::model::{DataType, ModSeq};

/// A random generator that repeats its numbers for a seed.
pub(super) struct SeededRng(u64);

impl SeededRng {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    pub(super) fn boxes(&mut self) -> BTreeSet<MailboxUid> {
        (0..=self.below(2)).map(|_| MailboxUid(1 + u32::try_from(self.below(3)).unwrap())).collect()
    }

    fn keywords(&mut self) -> BTreeSet<String> {
        let words = ["$seen", "$flagged", "$draft"];
        (0..self.below(3)).map(|_| words[self.below(3)].to_owned()).collect()
    }
}

/// Allows the errors that concurrent work or a full disk may cause; panics at any other.
fn may_fail<T>(done: Result<T, Error>) -> Option<T> {
    match done {
        Ok(value) => Some(value),
        Err(Error::NotFound(_) | Error::Conflict(_) | Error::Full | Error::Overtaken(_)) => None,
        Err(other) => panic!("{other}"),
    }
}

fn on<T>(
    store: &Store,
    account: AccountId,
    change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
) -> Option<T> {
    let done = store.commit(account, change);
    may_fail(done.and_then(|(value, ticket)| ticket.wait_blocking().map(|()| value)))
}

fn pick(store: &Store, rng: &mut SeededRng) -> Option<EmailId> {
    let all = store.snapshot().emails(ACCOUNT, None, 1000).unwrap();
    let at = rng.below(all.len().max(1));
    all.get(at).map(|(id, _)| *id)
}

/// Delivers emails with random times and thread keys. Each `who` has messages of its own.
fn deliver_emails(store: &Store, who: u32, times: u32) {
    let mut rng = SeededRng::of(who.into());
    for n in 0..times {
        let keys: Vec<u8> =
            (0..rng.below(3)).map(|_| u8::try_from(rng.below(5)).unwrap()).collect();
        let at = i64::try_from(rng.below(6)).unwrap();
        may_fail(deliver_to(store, ACCOUNT, who * 10_000 + n, &keys, at));
    }
}

fn change_emails(store: &Store, who: u64, times: u32) {
    let mut rng = SeededRng::of(who);
    for _ in 0..times {
        let what = rng.below(10);
        if what == 0 {
            let dead = store.snapshot().destroyed_emails(ACCOUNT, UtcMillis(0), 20).unwrap();
            if let Some(one) = dead.get(rng.below(dead.len().max(1))) {
                let size = one.email.size - b"Delivered-To: ann@example.org\r\n".len() as u64;
                let message = EncodedMessage::new(&MessageRows {
                    blob: one.email.blob,
                    size,
                    ..MessageRows::default()
                });
                on(store, ACCOUNT, |txn| {
                    txn.restore_email(one.id, &message, Duration::from_secs(99))
                });
            }
            continue;
        }
        let Some(id) = pick(store, &mut rng) else { continue };
        let (boxes, keywords) = (rng.boxes(), rng.keywords());
        match what {
            1 | 2 => drop(on(store, ACCOUNT, |txn| txn.destroy_email(id))),
            // Changes two emails in one commit, and then moves the first of them to mailbox 1.
            3 => {
                let other = pick(store, &mut rng).unwrap_or(id);
                on(store, ACCOUNT, |txn| {
                    txn.update_email(id, boxes.clone(), keywords.clone())?;
                    txn.update_email(other, boxes.clone(), BTreeSet::new())?;
                    txn.update_email(id, BTreeSet::from([MailboxUid(1)]), keywords.clone())
                });
            }
            _ => drop(on(store, ACCOUNT, |txn| {
                txn.update_email(id, boxes.clone(), keywords.clone())
            })),
        }
    }
}

fn do_upkeep(store: &Store, times: u32) {
    let mut rng = SeededRng::of(77);
    for _ in 0..times {
        let (uid, filter) =
            (MailboxUid(u32::try_from(rng.below(4)).unwrap()), ListingFilter::ALL[rng.below(6)]);
        let limit = 1 + rng.below(5);
        match rng.below(12) {
            0 if !filter.is_permanent(uid) => {
                on(store, ACCOUNT, |txn| txn.drop_listing(uid, filter, limit));
            }
            1 => drop(on(store, ACCOUNT, |txn| txn.purge_emails(txn.now(), limit))),
            2 => {
                on(store, ACCOUNT, |txn| {
                    txn.note_history(Duration::ZERO)?;
                    txn.purge_history(txn.now(), limit)
                });
            }
            3 => drop(on(store, ACCOUNT, |txn| {
                txn.sweep_thread_refs(UtcMillis(0), Duration::ZERO, limit)
            })),
            4 => drop(on(store, AccountId::SITE, |txn| txn.collect_blobs(txn.now(), limit))),
            5 => drop(on(store, AccountId::SITE, |txn| txn.sweep_blobs(Duration::ZERO, limit))),
            _ => drop(on(store, ACCOUNT, |txn| txn.extend_listing(uid, filter, limit))),
        }
    }
}

fn fold_index(store: &Store, times: u32) {
    let sizes =
        FoldSizes { rows: 3, row_bytes: 1 << 20, block: 200, fan: 2, piece: 300, last_level: 2 };
    for _ in 0..times {
        match store.snapshot().next_fold_piece(ACCOUNT, &sizes).unwrap() {
            Some(piece) => {
                let mut parts = piece.parts(sizes.piece).into_iter();
                while let Some(part) = parts.next()
                    && on(store, ACCOUNT, |txn| txn.write_folds(&part)) == Some(true)
                {
                }
            }
            None => std::thread::yield_now(),
        }
    }
}

type EmailFacts = BTreeMap<EmailId, (BTreeSet<MailboxUid>, BTreeSet<String>)>;

fn facts(snapshot: &Snapshot<'_>) -> EmailFacts {
    let all = snapshot.emails(ACCOUNT, None, 1000).unwrap();
    all.into_iter().map(|(id, email)| (id, (email.mailboxes, email.keywords))).collect()
}

/// A client that follows Email/changes in small steps and reads the changed emails.
struct ChangesClient {
    known: EmailFacts,
    since: ClientState,
}

impl ChangesClient {
    fn new(snapshot: &Snapshot<'_>) -> Self {
        Self {
            known: facts(snapshot),
            since: ClientState::at(snapshot.state(ACCOUNT, DataType::Email).unwrap()),
        }
    }

    /// Applies one answer, or begins anew if the changes are not known. Returns whether there are
    /// more.
    fn step(&mut self, snapshot: &Snapshot<'_>, limit: usize) -> bool {
        let Some(changes) = snapshot.email_changes(ACCOUNT, self.since, limit).unwrap() else {
            *self = Self::new(snapshot);
            return false;
        };
        let now = facts(snapshot);
        assert!(changes.updated.iter().all(|id| self.known.contains_key(id)), "{changes:?}");
        for id in changes.created.iter().chain(&changes.updated) {
            self.known.insert(*id, now[id].clone());
        }
        self.known.retain(|id, _| !changes.destroyed.contains(id));
        self.since = changes.state;
        if !changes.has_more {
            assert_eq!(self.known, now);
        }
        changes.has_more
    }
}

/// The emails that each maintained listing showed at the last check, and the state then.
type Lists = BTreeMap<Listing, (ModSeq, BTreeSet<EmailId>)>;

/// Checks that the history of each listing leads from the list of the last call to the current one,
/// unless the low mark of the listing has passed the state of that call.
fn check_histories(snapshot: &Snapshot<'_>, lists: &mut Lists) {
    let state = snapshot.state(ACCOUNT, DataType::Email).unwrap();
    for uid in (0..4).map(MailboxUid) {
        for filter in ListingFilter::ALL {
            let entry = snapshot.maintained_listing(ACCOUNT, uid, filter).unwrap();
            for shape in [Shape::Emails, Shape::Threads] {
                let listing = Listing { uid, filter, shape };
                let before = lists.remove(&listing);
                let Some(entry) = entry.filter(|entry| entry.shapes().contains(&shape)) else {
                    continue;
                };
                let shown = snapshot.listing(ACCOUNT, listing, None, 1000).unwrap();
                assert_eq!(entry.stats(shape).total, shown.len() as u64, "{listing:?}");
                let shown: BTreeSet<EmailId> = shown.into_iter().map(|(id, _)| id).collect();
                if let Some((since, mut old)) =
                    before.filter(|(since, _)| *since >= entry.stats(shape).low)
                {
                    let moves =
                        snapshot.listing_moves(ACCOUNT, listing, since, 10_000).unwrap().unwrap();
                    for (id, ..) in &moves.gone {
                        assert!(old.remove(id), "{listing:?} since {since}");
                    }
                    old.extend(moves.came.iter().map(|(id, ..)| *id));
                    assert_eq!(old, shown, "{listing:?} since {since}");
                }
                lists.insert(listing, (state, shown));
            }
        }
    }
}

/// Repeats a step until `over` is set.
fn until<'s>(scope: &'s Scope<'s, '_>, over: &'s AtomicBool, mut step: impl FnMut() + Send + 's) {
    scope.spawn(move || {
        while !over.load(Ordering::Relaxed) {
            step();
        }
    });
}

fn run_all(store: &Store, disk: Option<&FaultyEngine<MemoryEngine>>) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        until(scope, &over, || assert_clean(store));
        let (mut lists, mut client) = (Lists::new(), ChangesClient::new(&store.snapshot()));
        until(scope, &over, move || check_histories(&store.snapshot(), &mut lists));
        until(scope, &over, move || {
            client.step(&store.snapshot(), 3);
        });
        if let Some(disk) = disk {
            let mut rng = SeededRng::of(5);
            until(scope, &over, move || {
                disk.fail_after(i64::try_from(rng.below(4)).unwrap(), Error::Full);
                std::thread::sleep(Duration::from_millis(1));
                disk.heal();
                std::thread::sleep(Duration::from_millis(4));
            });
        }
        let mut writers = Vec::new();
        for who in 1..3 {
            writers.push(scope.spawn(move || deliver_emails(store, who, 60)));
            writers.push(scope.spawn(move || change_emails(store, u64::from(who), 90)));
        }
        writers.push(scope.spawn(|| do_upkeep(store, 90)));
        writers.push(scope.spawn(|| fold_index(store, 60)));
        let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "somebody panicked");
    });
    if let Some(disk) = disk {
        disk.heal();
    }
    assert_clean(store);
    assert!(store.health().is_ok());
    let mut client = ChangesClient::new(&store.snapshot());
    deliver_emails(store, 9, 3);
    while client.step(&store.snapshot(), 2) {}
}

#[test]
fn concurrent_work_keeps_every_state_valid() {
    run_all(&store_over(Arc::new(MemoryEngine::new())), None);
}

#[test]
fn concurrent_work_keeps_every_state_valid_while_the_disk_refuses_writes() {
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let store = store_over(engine.clone());
    run_all(&store, Some(&engine));
    drop(store);
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    assert_clean(&Store::open_engine(engine, &Options::small(), clock).unwrap());
}

#[test]
#[cfg(feature = "rocksdb")]
fn concurrent_work_keeps_every_state_valid_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let options = Options { ranked_above: Some(2), ..Options::small() };
    let open = || Store::open(dir.path(), &options, clock.clone()).unwrap();
    let store = open();
    make_account(&store, ACCOUNT);
    run_all(&store, None);
    let before = facts(&store.snapshot());
    drop(store);
    let store = open();
    assert_eq!(facts(&store.snapshot()), before);
    assert_clean(&store);
}
