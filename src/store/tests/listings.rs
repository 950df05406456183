//! Compares maintained listings with a naive implementation, after random changes of a small
//! account.

use std::collections::BTreeMap;

use super::*;
use crate::model::{MaintainedListing, ModSeq, ThreadId};
use crate::store::table::codec::Prefix;
use crate::store::table::keys::RankKey;

/// A change of the account. `uid`, `mailbox` and `mailboxes` are indexes in `ListingWorld::boxes`.
/// `which` is the position of a live email, for `Restore` of a destroyed one, modulo their number.
#[derive(Debug, Clone)]
enum ListingAct {
    Deliver {
        keys: Vec<u8>,
        at: i64,
        mailbox: u32,
    },
    Change {
        which: usize,
        mailboxes: BTreeSet<u32>,
        keywords: u8,
    },
    Destroy {
        which: usize,
    },
    Extend {
        uid: u32,
        filter: usize,
        limit: usize,
    },
    Drop {
        uid: u32,
        filter: usize,
        limit: usize,
    },
    /// Takes the role Trash from its mailbox. If `uid` is 2 or 3, mailbox `uid` gets the role.
    Trash {
        uid: u32,
    },
    Empty {
        uid: u32,
    },
    /// Destroys a mailbox with its emails, and creates another one in its place.
    Remake {
        uid: u32,
    },
    Restore {
        which: usize,
    },
    Wait {
        days: u32,
    },
    Upkeep {
        days: u32,
        limit: usize,
    },
}

const DAY: Duration = Duration::from_secs(24 * 3600);

struct ListingWorld {
    store: Store,
    clock: Arc<FixedClock>,
    /// All mail, and three mailboxes.
    boxes: [MailboxUid; 4],
}

fn acts() -> impl Strategy<Value = Vec<ListingAct>> {
    let keys = proptest::collection::vec(0u8..4, 0..3);
    let act = prop_oneof![
        4 => (keys, 0i64..5, 1u32..4)
            .prop_map(|(keys, at, mailbox)| ListingAct::Deliver { keys, at, mailbox }),
        6 => (0usize..9, proptest::collection::btree_set(1u32..4, 1..3), 0u8..8)
            .prop_map(|(which, mailboxes, keywords)| {
                ListingAct::Change { which, mailboxes, keywords }
            }),
        2 => (0usize..9).prop_map(|which| ListingAct::Destroy { which }),
        3 => (0u32..4, 0usize..6, 1usize..4)
            .prop_map(|(uid, filter, limit)| ListingAct::Extend { uid, filter, limit }),
        1 => (0u32..4, 0usize..6, 1usize..9)
            .prop_map(|(uid, filter, limit)| ListingAct::Drop { uid, filter, limit }),
        1 => (0u32..4).prop_map(|uid| ListingAct::Trash { uid }),
        1 => (2u32..4).prop_map(|uid| ListingAct::Empty { uid }),
        1 => (2u32..4).prop_map(|uid| ListingAct::Remake { uid }),
        1 => (0usize..5).prop_map(|which| ListingAct::Restore { which }),
        1 => (1u32..4).prop_map(|days| ListingAct::Wait { days }),
        2 => (1u32..4, 1usize..5).prop_map(|(days, limit)| ListingAct::Upkeep { days, limit }),
    ];
    proptest::collection::vec(act, 1..40)
}

fn done<T>(
    store: &Store,
    change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (value, ticket) = store.commit(ACCOUNT, change)?;
    ticket.wait_blocking()?;
    Ok(value)
}

fn act(world: &mut ListingWorld, n: u32, act: &ListingAct) {
    let store = &world.store;
    let uid_of = |uid: u32| world.boxes[uid as usize];
    let live: Vec<EmailId> = store
        .snapshot()
        .emails(ACCOUNT, None, 1000)
        .unwrap()
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let pick = |which: usize| live.get(which % live.len().max(1)).copied();
    match act {
        ListingAct::Deliver { keys, at, mailbox } => {
            let (message, raw) = message(n, keys);
            let (mut results, ticket) = store.commit_message(&[ACCOUNT], &message, &raw, |txn| {
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: b"",
                    mailboxes: BTreeSet::from([uid_of(*mailbox)]),
                    keywords: BTreeSet::new(),
                    received_at: UtcMillis(*at),
                })
            });
            results.pop().unwrap().1.unwrap();
            ticket.wait_blocking().unwrap();
        }
        ListingAct::Change { which, mailboxes, keywords } => {
            let words = ["$seen", "$flagged", "$draft"].iter().enumerate();
            let words = words
                .filter(|(bit, _)| keywords >> bit & 1 == 1)
                .map(|(_, word)| (*word).to_owned());
            let boxes: BTreeSet<MailboxUid> = mailboxes.iter().map(|uid| uid_of(*uid)).collect();
            if let Some(id) = pick(*which) {
                done(store, |txn| txn.update_email(id, boxes.clone(), words.clone().collect()))
                    .unwrap();
            }
        }
        ListingAct::Destroy { which } => {
            if let Some(id) = pick(*which) {
                done(store, |txn| txn.destroy_email(id)).unwrap();
            }
        }
        ListingAct::Extend { uid, filter, limit } => {
            done(store, |txn| {
                txn.extend_listing(uid_of(*uid), ListingFilter::ALL[*filter], *limit)
            })
            .unwrap();
        }
        ListingAct::Drop { uid, filter, limit }
            if !ListingFilter::ALL[*filter].is_permanent(uid_of(*uid)) =>
        {
            done(store, |txn| txn.drop_listing(uid_of(*uid), ListingFilter::ALL[*filter], *limit))
                .unwrap();
        }
        ListingAct::Trash { uid } => {
            let role =
                |txn: &mut Txn<'_>, uid, role| txn.update_mailbox(uid, |row| row.role = role);
            done(store, |txn| {
                if txn.state().trash != MailboxUid(0) {
                    let old = txn.state().trash;
                    role(txn, old, None)?;
                }
                if *uid > 1 {
                    role(txn, uid_of(*uid), Some(Role::Trash))?;
                }
                Ok(())
            })
            .unwrap();
        }
        ListingAct::Empty { uid } => {
            while done(store, |txn| txn.empty_mailbox(uid_of(*uid), 2)).unwrap() {}
        }
        ListingAct::Remake { uid } => {
            let old = uid_of(*uid);
            while done(store, |txn| txn.empty_mailbox(old, 2)).unwrap() {}
            let new = done(store, |txn| {
                txn.destroy_mailbox(old)?;
                txn.create_mailbox(&NewMailbox {
                    name: format!("again {n}"),
                    parent: None,
                    role: None,
                    sort_order: 0,
                })
            });
            world.boxes[*uid as usize] = new.unwrap();
            assert_clean(&world.store);
        }
        ListingAct::Restore { which } => {
            let dead = store
                .snapshot()
                .destroyed_emails(ACCOUNT, world.clock.now().before(DAY * 3), 99)
                .unwrap();
            if let Some(one) = which.checked_rem(dead.len()).and_then(|at| dead.get(at)) {
                let rows = MessageRows {
                    blob: one.email.blob,
                    size: one.email.size,
                    ..MessageRows::default()
                };
                done(store, |txn| txn.restore_email(one.id, &EncodedMessage::new(&rows), DAY * 3))
                    .unwrap();
                assert_clean(store);
            }
        }
        ListingAct::Wait { days } => world.clock.advance(DAY * *days),
        ListingAct::Upkeep { days, limit } => {
            let upto = world.clock.now().before(DAY * *days);
            let mut left = true;
            while left {
                left = done(store, |txn| {
                    txn.note_history(DAY)?;
                    let purged = txn.purge_emails(upto, *limit)?.has_more;
                    Ok(txn.purge_history(upto, *limit)?
                        | txn.clear_destroyed_mailboxes(*limit)?
                        | purged)
                })
                .unwrap();
                assert_clean(store);
            }
        }
        ListingAct::Drop { .. } => {}
    }
}

/// Returns the emails that a listing should show, computed as RFC 8621 defines it.
fn naive(store: &Store, listing: Listing) -> Vec<EmailId> {
    let snapshot = store.snapshot();
    let all = snapshot.emails(ACCOUNT, None, 1000).unwrap();
    let has = |email: &crate::model::EmailMetadata, word: &str| email.keywords.contains(word);
    let in_thread = |thread: ThreadId| all.iter().filter(move |(_, email)| email.thread == thread);
    let matches = |email: &crate::model::EmailMetadata| match listing.filter {
        ListingFilter::Every => true,
        ListingFilter::Unseen => !has(email, "$seen"),
        ListingFilter::Flagged => has(email, "$flagged"),
        ListingFilter::ThreadUnseen => {
            in_thread(email.thread).any(|(_, other)| !has(other, "$seen"))
        }
        ListingFilter::ThreadFlagged => {
            in_thread(email.thread).any(|(_, other)| has(other, "$flagged"))
        }
        ListingFilter::ThreadUntouched => {
            in_thread(email.thread).all(|(_, other)| !has(other, "$seen"))
        }
    };
    let mut threads = BTreeSet::new();
    let here = all
        .iter()
        .filter(|(_, email)| listing.uid.0 == 0 || email.mailboxes.contains(&listing.uid));
    here.filter(|(_, email)| matches(email))
        .filter(|(_, email)| listing.shape == Shape::Emails || threads.insert(email.thread))
        .map(|(id, _)| *id)
        .collect()
}

/// The emails that each listing showed after each change.
type Histories = BTreeMap<Listing, BTreeMap<ModSeq, Vec<EmailId>>>;

fn compare(world: &ListingWorld, histories: &mut Histories) {
    let store = &world.store;
    let snapshot = store.snapshot();
    let modseq = snapshot.account_state(ACCOUNT).unwrap().modseq;
    histories.retain(|listing, _| world.boxes.contains(&listing.uid));
    for uid in world.boxes {
        for filter in ListingFilter::ALL {
            let Some(entry) = snapshot.maintained_listing(ACCOUNT, uid, filter).unwrap() else {
                histories.retain(|listing, _| (listing.uid, listing.filter) != (uid, filter));
                continue;
            };
            for shape in entry.shapes() {
                let listing = Listing { uid, filter, shape: *shape };
                let wanted = naive(store, listing);
                pages(&snapshot, listing, &entry, &wanted);
                let history = histories.entry(listing).or_default();
                history.retain(|since, _| *since >= entry.stats(*shape).low);
                history.insert(modseq, wanted.clone());
                // Since its newest change, a listing shows the same emails.
                let state = snapshot.listing_state(ACCOUNT, listing, &entry).unwrap();
                assert!(
                    state <= modseq
                        && history.iter().all(|(at, ids)| *at < state || *ids == wanted)
                );
                for (since, old) in history.iter() {
                    replay(&snapshot, listing, *since, old, &wanted);
                }
            }
        }
    }
}

fn pages(snapshot: &Snapshot<'_>, listing: Listing, entry: &MaintainedListing, wanted: &[EmailId]) {
    let stats = entry.stats(listing.shape);
    assert_eq!(stats.total, wanted.len() as u64, "{listing:?}");
    // Every position from every start: each email, each id between two emails, and both ends.
    let before = |id: EmailId| wanted.partition_point(|other| *other < id) as u64;
    let between = wanted.iter().map(|id| EmailId(id.0 + 1));
    let ends = [EmailId(0), EmailId(u64::MAX)];
    let places = wanted.iter().copied().chain(between).chain(ends);
    for id in places.clone() {
        assert_eq!(
            snapshot.listing_position(ACCOUNT, listing, stats, id).unwrap(),
            before(id),
            "{listing:?} {id:?}"
        );
        assert_eq!(snapshot.is_in_listing(ACCOUNT, listing, id).unwrap(), wanted.contains(&id));
    }
    for near in places.map(|id| (Some(id), before(id))).chain([(None, stats.total)]) {
        for at in 0..=wanted.len() {
            let page = snapshot.listing_page(ACCOUNT, listing, stats, at as u64, near, 2).unwrap();
            let ids: Vec<EmailId> = page.into_iter().map(|(id, _)| id).collect();
            assert_eq!(
                ids,
                wanted[at..].iter().copied().take(2).collect::<Vec<_>>(),
                "{listing:?} at {at} by {near:?}"
            );
        }
    }
}

/// Checks that the moves since a state are the difference of the old list and the new one. Emails
/// that came and left again, or left and came back, are not counted.
fn replay(
    snapshot: &Snapshot<'_>,
    listing: Listing,
    since: ModSeq,
    old: &[EmailId],
    new: &[EmailId],
) {
    let moves = snapshot.listing_moves(ACCOUNT, listing, since, 1000).unwrap().unwrap();
    let came: BTreeSet<EmailId> = moves.came.iter().map(|(id, ..)| *id).collect();
    let gone: BTreeSet<EmailId> = moves.gone.iter().map(|(id, ..)| *id).collect();
    let (old, new): (BTreeSet<EmailId>, BTreeSet<EmailId>) =
        (old.iter().copied().collect(), new.iter().copied().collect());
    assert_eq!(
        gone.difference(&came).copied().collect::<BTreeSet<_>>(),
        &old - &new,
        "{listing:?} since {since}"
    );
    assert_eq!(
        came.difference(&gone).copied().collect::<BTreeSet<_>>(),
        &new - &old,
        "{listing:?} since {since}"
    );
}

fn drive(acts: &[ListingAct], ranked_above: Option<u64>) {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let options = Options { ranked_above, ..Options::small() };
    let store = Store::open_engine(Arc::new(MemoryEngine::new()), &options, clock.clone()).unwrap();
    make_account(&store, ACCOUNT);
    let mut world = ListingWorld { store, clock, boxes: [0, 1, 2, 3].map(MailboxUid) };
    let mut histories = Histories::new();
    for (n, one) in acts.iter().enumerate() {
        act(&mut world, u32::try_from(n).unwrap(), one);
        compare(&world, &mut histories);
    }
    assert_clean(&world.store);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), ..ProptestConfig::default() })]

    #[test]
    fn every_maintained_listing_answers_like_the_naive_one(acts in acts(), ranked in 0u64..3) {
        drive(&acts, Some(ranked));
    }
}

/// Compares every 23rd position and email of the Inbox with its emails in order.
fn check_ranks(store: &Store) {
    let snapshot = store.snapshot();
    let (inbox, listing) = (
        MailboxUid(1),
        Listing { uid: MailboxUid(1), filter: ListingFilter::Every, shape: Shape::Emails },
    );
    let stats = snapshot
        .maintained_listing(ACCOUNT, inbox, ListingFilter::Every)
        .unwrap()
        .unwrap()
        .stats(Shape::Emails);
    let all: Vec<EmailId> = snapshot
        .listing(ACCOUNT, listing, None, usize::MAX)
        .unwrap()
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(stats.total, all.len() as u64);
    for (at, id) in all.iter().enumerate().step_by(23) {
        assert_eq!(snapshot.listing_position(ACCOUNT, listing, stats, *id).unwrap(), at as u64);
        for near in [(Some(EmailId(0)), 0), (None, stats.total)] {
            let page = snapshot.listing_page(ACCOUNT, listing, stats, at as u64, near, 1).unwrap();
            assert_eq!(page.first().map(|(id, _)| *id), Some(*id), "at {at}");
        }
    }
    drop(snapshot);
    assert_clean(store);
}

#[test]
fn positions_are_right_with_several_levels_of_ranks() {
    let engine = Arc::new(MemoryEngine::new());
    let options = Options { ranked_above: Some(0), ..Options::small() };
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store = Store::open_engine(engine.clone(), &options, clock).unwrap();
    make_account(&store, ACCOUNT);
    // `make_account` allows too few emails.
    let row = store.snapshot().account(ACCOUNT).unwrap().unwrap();
    done(&store, |txn| {
        txn.set_account(&AccountRow { quota_emails: None, ..row.clone() });
        Ok(())
    })
    .unwrap();
    let (message, raw) = message(0, &[]);
    let listing =
        Listing { uid: MailboxUid(1), filter: ListingFilter::Every, shape: Shape::Emails };
    let second_level = Prefix::<RankKey>::encode(&(ACCOUNT, listing, 2));
    // Times in no order.
    let mut times = (0i64..).map(|n| n * 7919 % 10_007);
    // About one email in 256 is a boundary of the second level.
    while !engine.rows(Table::MailboxRank).iter().any(|(key, _)| key.starts_with(&second_level)) {
        let (mut results, ticket) = store.commit_message(&[ACCOUNT], &message, &raw, |txn| {
            for at in times.by_ref().take(400) {
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: b"",
                    mailboxes: BTreeSet::from([MailboxUid(1)]),
                    keywords: BTreeSet::new(),
                    received_at: UtcMillis(at),
                })?;
            }
            Ok(())
        });
        results.pop().unwrap().1.unwrap();
        ticket.wait_blocking().unwrap();
        check_ranks(&store);
    }
    // Emails leave and enter, neither in the order of time.
    let all: Vec<EmailId> = store
        .snapshot()
        .emails(ACCOUNT, None, usize::MAX)
        .unwrap()
        .iter()
        .map(|(id, _)| *id)
        .collect();
    for (uid, step) in [(3, 7), (1, 5), (3, 3)] {
        done(&store, |txn| {
            (0..all.len()).step_by(step).try_for_each(|at| {
                let id = all[at * 101 % all.len()];
                txn.update_email(id, BTreeSet::from([MailboxUid(uid)]), BTreeSet::new()).map(drop)
            })
        })
        .unwrap();
        check_ranks(&store);
    }
}

#[test]
fn changes_on_both_sides_of_a_frontier_reach_the_listing() {
    // A newer exemplar within the frontier replaces one beyond it, and the reverse. Keywords: 1 is
    // `$seen`, 2 is `$flagged`, 3 is both.
    let deliver = |key: u8, at: i64| ListingAct::Deliver { keys: vec![key], at, mailbox: 1 };
    for uid in [0, 1] {
        for filter in 0..6 {
            let extend = || ListingAct::Extend { uid, filter, limit: 1 };
            let change = |which, keywords| ListingAct::Change {
                which,
                mailboxes: BTreeSet::from([1]),
                keywords,
            };
            let acts = [
                deliver(1, 0),
                deliver(2, 1),
                deliver(1, 2),
                deliver(3, 3),
                extend(),
                extend(),
                deliver(2, 4),
                change(4, 2),
                ListingAct::Destroy { which: 2 },
                change(0, 3),
                extend(),
                change(3, 1),
                extend(),
                extend(),
                extend(),
                extend(),
                extend(),
            ];
            drive(&acts, Some(0));
        }
    }
}
