//! Tests of the store. Most end with its own check (`assert_clean`).

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::engine::memory::MemoryEngine;
use super::engine::{Batch, Put, Table};
use super::table::codec::Prefix as _;
use super::table::keys::{AccountKey, BlobKey, EmailKey, MailboxKey};
use super::*;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountRow, Action, ActionKind, ActionState, Address, BlobHash, EmailId, Listing,
    ListingFilter, MailboxUid, MessageRows, Role, Shape, Target, ThreadKey, ToldKey, ToldLifetime,
    UtcMillis, VacationResponse,
};

mod actors;
mod alone;
#[cfg(feature = "rocksdb")]
mod at_once;
mod changes;
mod committer;
mod decisions;
mod expiry;
mod fixture;
mod ids;
mod life;
mod listings;
mod mailboxes;
mod notes;
mod objects;
mod rest;
mod scripts;
#[cfg(feature = "rocksdb")]
mod segments;
mod shares;
mod submissions;
mod together;
#[cfg(feature = "rocksdb")]
mod torn;
mod trees;
mod uploads;

const ACCOUNT: AccountId = AccountId(1);

/// Returns the number of random cases: `usual`, times the variable `RESTANTE_CASES`.
fn cases(usual: u32) -> u32 {
    let times = std::env::var("RESTANTE_CASES").ok().and_then(|text| text.parse().ok());
    usual.saturating_mul(times.unwrap_or(1))
}

/// Opens a store over an engine, and makes `ACCOUNT`. Listings of more than two emails have ranks.
fn store_over(engine: Arc<dyn Engine>) -> Store {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let options = Options { ranked_above: Some(2), ..Options::small() };
    let store = Store::open_engine(engine, &options, clock).unwrap();
    make_account(&store, ACCOUNT);
    store
}

/// Commits a small change that creates no email, and returns its ticket.
fn rename(store: &Store, account: AccountId, name: &str) -> Ticket {
    let change = |txn: &mut Txn<'_>| {
        let row = txn.snapshot().account(txn.account())?.ok_or(Error::NotFound("account"))?;
        txn.set_account(&AccountRow { display_name: Some(name.into()), ..row });
        Ok(())
    };
    store.commit(account, change).unwrap().1
}

/// Makes an account that may have 500 emails, with Inbox (mailbox 1), Trash (2) and Archive (3).
fn make_account(store: &Store, account: AccountId) {
    let row = AccountRow {
        quota_emails: Some(500),
        ..AccountRow::new(
            format!("{account}"),
            Address::from_parts(format!("{account}"), "example.org"),
            UtcMillis(0),
        )
    };
    let made = store.commit(account, |txn| {
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
    made.unwrap().1.wait_blocking().unwrap();
}

/// Makes message `n`, whose thread keys are `keys`, and its bytes.
fn message(n: u32, keys: &[u8]) -> (EncodedMessage, Vec<u8>) {
    let raw = format!("Subject: {n}\r\n\r\n{n}\r\n").into_bytes();
    let hash = BlobHash(*blake3::hash(&raw).as_bytes());
    let rows = MessageRows {
        blob: hash,
        size: raw.len() as u64,
        thread_keys: keys.iter().map(|key| ThreadKey([*key; 32])).collect(),
        ..MessageRows::default()
    };
    (EncodedMessage::new(&rows), raw)
}

/// Delivers message `n` to the Inbox, as received at `at` milliseconds.
fn deliver_to(
    store: &Store,
    account: AccountId,
    n: u32,
    keys: &[u8],
    at: i64,
) -> Result<EmailId, Error> {
    let (message, raw) = message(n, keys);
    let (mut results, ticket) = store.commit_message(&[account], &message, &raw, |txn| {
        let inbox = txn.state().inbox;
        let new = NewEmail {
            message: &message,
            prefix: b"Delivered-To: ann@example.org\r\n",
            mailboxes: BTreeSet::from([inbox]),
            keywords: BTreeSet::new(),
            received_at: UtcMillis(at),
        };
        txn.create_email(&new)
    });
    let (id, _) = results.pop().unwrap().1?;
    ticket.wait_blocking()?;
    Ok(id)
}

fn assert_clean(store: &Store) {
    let breaches = store.check().unwrap();
    assert!(
        breaches.is_empty(),
        "{}",
        breaches.iter().map(|b| format!("{b}\n")).collect::<String>()
    );
}

/// A change of the account. `which` is the position of a live email, modulo their number; if there
/// are none, nothing is done. The bits of `keywords` stand for $seen, $flagged and $draft.
#[derive(Debug, Clone)]
enum StoreOp {
    Deliver { keys: Vec<u8>, at: i64 },
    Move { which: usize, mailboxes: BTreeSet<u32>, keywords: u8 },
    Destroy { which: usize },
}

fn ops() -> impl Strategy<Value = Vec<StoreOp>> {
    let keys = proptest::collection::vec(0u8..5, 0..3);
    let op = prop_oneof![
        3 => (keys, 0i64..4).prop_map(|(keys, at)| StoreOp::Deliver { keys, at }),
        4 => (0usize..9, proptest::collection::btree_set(1u32..4, 1..3), 0u8..8)
            .prop_map(|(which, mailboxes, keywords)| StoreOp::Move { which, mailboxes, keywords }),
        2 => (0usize..9).prop_map(|which| StoreOp::Destroy { which }),
    ];
    proptest::collection::vec(op, 1..40)
}

/// Makes the changes, and then checks the store and which emails it has.
fn run(store: &Store, ops: &[StoreOp]) {
    let mut live: Vec<EmailId> = Vec::new();
    for (n, op) in ops.iter().enumerate() {
        match op {
            StoreOp::Deliver { keys, at } => {
                live.push(
                    deliver_to(store, ACCOUNT, u32::try_from(n).unwrap(), keys, *at).unwrap(),
                );
            }
            StoreOp::Move { which, mailboxes, keywords } if !live.is_empty() => {
                let id = live[which % live.len()];
                let words = ["$seen", "$flagged", "$draft"].iter().enumerate();
                let words = words
                    .filter(|(bit, _)| keywords >> bit & 1 == 1)
                    .map(|(_, word)| (*word).to_owned());
                let boxes: BTreeSet<MailboxUid> =
                    mailboxes.iter().map(|uid| MailboxUid(*uid)).collect();
                let (_, ticket) = store
                    .commit(ACCOUNT, |txn| {
                        txn.update_email(id, boxes.clone(), words.clone().collect())
                    })
                    .unwrap();
                ticket.wait_blocking().unwrap();
            }
            StoreOp::Destroy { which } if !live.is_empty() => {
                let id = live.remove(which % live.len());
                store
                    .commit(ACCOUNT, |txn| txn.destroy_email(id))
                    .unwrap()
                    .1
                    .wait_blocking()
                    .unwrap();
            }
            StoreOp::Move { .. } | StoreOp::Destroy { .. } => {}
        }
    }
    assert_clean(store);
    let mut seen: Vec<EmailId> = store
        .snapshot()
        .emails(ACCOUNT, None, 1000)
        .unwrap()
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    seen.sort_unstable();
    live.sort_unstable();
    assert_eq!(seen, live);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(150), ..ProptestConfig::default() })]

    #[test]
    fn random_changes_keep_every_invariant(ops in ops()) {
        run(&store_over(Arc::new(MemoryEngine::new())), &ops);
    }
}

#[test]
fn a_check_reports_a_row_that_is_missing_although_others_need_it() {
    for table in [
        Table::EmailByModseq,
        Table::EmailByThread,
        Table::EmailContent,
        Table::EmailTokens,
        Table::MailboxEmailList,
        Table::MailboxEmailIndex,
        Table::MailboxThreadIndex,
        Table::Threads,
        Table::ThreadByModseq,
        Table::Blobs,
        Table::BlobRefs,
        Table::OutboxDue,
        Table::OutboxMessages,
        Table::OutboxSame,
        Table::OutboxBlobs,
        Table::UploadBlobs,
        Table::ObjectByModseq,
        Table::ToldByTime,
        Table::DeliveryByTime,
    ] {
        let engine = Arc::new(MemoryEngine::new());
        let store = store_over(engine.clone());
        deliver_to(&store, ACCOUNT, 1, &[1], 5).unwrap();
        let done = store.commit(ACCOUNT, |txn| {
            let same = Some([3; 16]);
            let blob = Some(txn.snapshot().emails(ACCOUNT, None, 1)?[0].1.blob);
            txn.queue_action(
                Action { duplicate_key: same, blob, ..action() },
                b"Subject: x\r\n\r\n",
            )?;
            txn.remember_told(
                &ToldKey([1; 32]),
                &Address::from_parts("bob", "example.net"),
                &ToldLifetime::of(0),
            )?;
            txn.create_object(&crate::model::SenderIdentity::default())?;
            txn.put_upload(
                ACCOUNT,
                &BlobHash(*blake3::hash(b"x").as_bytes()),
                b"x",
                "text/plain",
                9,
            )?;
            txn.remember_delivery(&[7; 32], &[], [])
        });
        done.unwrap().1.wait_blocking().unwrap();
        assert_clean(&store);
        let (key, _) = engine.rows(table).pop().unwrap();
        let puts = vec![Put { table, key, value: None }];
        engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        assert!(!store.check().unwrap().is_empty(), "{}", table.name());
    }
}

/// Reads parts of messages whose lengths are around the boundaries of frames.
#[test]
fn parts_of_a_long_message_are_read_and_a_lost_frame_is_reported() {
    for length in
        [row::FRAME_BYTES - 1, row::FRAME_BYTES, row::FRAME_BYTES + 1, 3 * row::FRAME_BYTES]
    {
        let raw: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let hash = BlobHash(*blake3::hash(&raw).as_bytes());
        let rows = MessageRows { blob: hash, size: length as u64, ..MessageRows::default() };
        let message = EncodedMessage::new(&rows);
        let engine = Arc::new(MemoryEngine::new());
        let store = store_over(engine.clone());
        let prefix = b"Delivered-To: ann@example.org\r\n";
        let (mut results, ticket) = store.commit_message(&[ACCOUNT], &message, &raw, |txn| {
            let mailboxes = BTreeSet::from([txn.state().inbox]);
            let (keywords, received_at) = (BTreeSet::new(), UtcMillis(7));
            txn.create_email(&NewEmail {
                message: &message,
                prefix,
                mailboxes,
                keywords,
                received_at,
            })
        });
        let (id, _) = results.pop().unwrap().1.unwrap();
        ticket.wait_blocking().unwrap();
        assert_clean(&store);
        let whole: Vec<u8> = prefix.iter().chain(&raw).copied().collect();
        let snapshot = store.snapshot();
        assert_eq!(snapshot.message(ACCOUNT, id).unwrap().unwrap(), whole);
        let seam = prefix.len() + row::FRAME_BYTES;
        let ends = [0, 1, prefix.len(), seam - 1, seam, seam + 1, whole.len(), whole.len() + 9];
        for (from, to) in ends.iter().flat_map(|from| ends.iter().map(move |to| (*from, *to))) {
            let wanted = whole.get(from.min(whole.len())..to.min(whole.len())).unwrap_or_default();
            let found =
                snapshot.message_part(ACCOUNT, id, from as u64..to as u64).unwrap().unwrap();
            assert!(found == wanted, "{from}..{to} of {length}");
        }
        let frames = engine.rows(Table::BlobFrames);
        assert_eq!(
            frames.len(),
            if length > row::FRAME_BYTES { length.div_ceil(row::FRAME_BYTES) } else { 0 }
        );
        if let Some((key, _)) = frames.last() {
            let puts = vec![Put { table: Table::BlobFrames, key: key.clone(), value: None }];
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            assert_eq!(store.check().unwrap().len(), 1);
            assert!(store.snapshot().message(ACCOUNT, id).is_err());
            let head =
                Put { table: Table::Blobs, key: BlobKey { blob: hash }.encode(), value: None };
            engine.write(&[Arc::new(Batch::of(vec![head]))]).unwrap();
            assert!(
                store.check().unwrap().iter().any(|breach| breach.what == "a frame of no message")
            );
        }
    }
}

/// A waiting reply to bob@example.net, for `queue_action`.
pub(super) fn action() -> Action {
    Action {
        id: crate::model::ActionId(0),
        kind: ActionKind::Reply,
        state: ActionState::Waiting,
        urgent: false,
        created: UtcMillis(0),
        due: UtcMillis(5),
        expires: UtcMillis(9),
        attempts: 0,
        last_error: None,
        sender: None,
        ret: None,
        envid: None,
        recipients: vec![Target::without_reports(Address::from_parts("bob", "example.net"))],
        email: None,
        told: None,
        after: None,
        duplicate_key: None,
        seven_bit: false,
        message_id: "r1@example.org".into(),
        own_bytes: 0,
        blob: None,
        submission: None,
    }
}

#[test]
fn messages_that_share_an_id_and_subject_share_a_thread_and_the_oldest_wins() {
    let store = store_over(Arc::new(MemoryEngine::new()));
    let thread = |id| store.snapshot().email(ACCOUNT, id).unwrap().unwrap().thread;
    let a = deliver_to(&store, ACCOUNT, 1, &[1], 10).unwrap();
    let b = deliver_to(&store, ACCOUNT, 2, &[2], 20).unwrap();
    assert_ne!(thread(a), thread(b));
    let c = deliver_to(&store, ACCOUNT, 3, &[2, 1, 3], 30).unwrap();
    assert_eq!(thread(c), thread(a));
    // The other thread stays, and messages whose keys name it still join it.
    let d = deliver_to(&store, ACCOUNT, 4, &[2], 40).unwrap();
    assert_eq!(thread(d), thread(b));
    let alone = deliver_to(&store, ACCOUNT, 5, &[], 50).unwrap();
    assert!(![thread(a), thread(b)].contains(&thread(alone)));
    assert_clean(&store);
    // A thread without emails is dead: the same keys begin a new one.
    for id in [b, d] {
        store.commit(ACCOUNT, |txn| txn.destroy_email(id)).unwrap().1.wait_blocking().unwrap();
    }
    let e = deliver_to(&store, ACCOUNT, 6, &[2], 60).unwrap();
    assert!(thread(e) > thread(alone));
    assert_clean(&store);
}

#[test]
fn a_page_is_newest_first_and_collapses_threads() {
    let store = store_over(Arc::new(MemoryEngine::new()));
    let ids: Vec<EmailId> = (0..6)
        .map(|n| deliver_to(&store, ACCOUNT, n, &[(n % 2) as u8], i64::from(n)).unwrap())
        .collect();
    let inbox = store.snapshot().account_state(ACCOUNT).unwrap().inbox;
    let listing = |shape| Listing { uid: inbox, filter: ListingFilter::Every, shape };
    let page = |shape, after, limit| -> Vec<EmailId> {
        store
            .snapshot()
            .listing(ACCOUNT, listing(shape), after, limit)
            .unwrap()
            .into_iter()
            .map(|(id, _)| id)
            .collect()
    };
    assert_eq!(page(Shape::Emails, None, 2), [ids[5], ids[4]]);
    assert_eq!(page(Shape::Emails, Some(ids[4]), 2), [ids[3], ids[2]]);
    // The newest email of each of the two threads.
    assert_eq!(page(Shape::Threads, None, 9), [ids[5], ids[4]]);
    let (_, inbox) = store.snapshot().find_mailbox(ACCOUNT, "inbox").unwrap().unwrap();
    assert_eq!((inbox.counts.total_emails, inbox.counts.unread_threads), (6, 2));
}

#[test]
fn told_rows_are_deleted_when_text_or_switch_changes_and_stay_for_other_settings() {
    let store = store_over(Arc::new(MemoryEngine::new()));
    let set = |response: &VacationResponse| {
        let (changed, ticket) = store.commit(ACCOUNT, |txn| txn.set_vacation(response)).unwrap();
        ticket.wait_blocking().unwrap();
        changed
    };
    let mut response = VacationResponse {
        enabled: true,
        text_body: Some("Away".into()),
        ..VacationResponse::default()
    };
    assert!(set(&response));
    let (who, generation) =
        (ToldKey([3; 32]), store.snapshot().vacation(ACCOUNT).unwrap().generation);
    let bob = Address::from_parts("bob", "example.net");
    store
        .commit(ACCOUNT, |txn| txn.remember_told(&who, &bob, &ToldLifetime::of(generation)))
        .unwrap()
        .1
        .wait_blocking()
        .unwrap();
    assert!(!set(&response));
    let told = store.snapshot().told_rows(ACCOUNT, 9).unwrap();
    assert_eq!((told.len(), &told[0].sender), (1, &bob));
    response.except.push("example.com".parse().unwrap());
    assert!(set(&response));
    let told_at = |generation| {
        store
            .snapshot()
            .last_told(ACCOUNT, &who, &ToldLifetime::of(generation), store.clock().now())
            .unwrap()
    };
    assert!(told_at(generation).is_some());
    response.text_body = Some("Away still".into());
    assert!(set(&response));
    let now = store.snapshot().vacation(ACCOUNT).unwrap().generation;
    assert!(now > generation);
    assert_eq!(told_at(now), None);
    // Switching the response off and on deletes told rows, too. Settings that only the owner sees
    // do not.
    let generation = || store.snapshot().vacation(ACCOUNT).unwrap().generation;
    response.enabled = false;
    assert!(set(&response) && generation() > now);
    let off = generation();
    response.enabled = true;
    assert!(set(&response) && generation() > off);
    let on = generation();
    store
        .commit(ACCOUNT, |txn| txn.remember_told(&who, &bob, &ToldLifetime::of(on)))
        .unwrap()
        .1
        .wait_blocking()
        .unwrap();
    (response.copies, response.report) = (true, true);
    assert!(set(&response) && generation() == on && told_at(on).is_some());
    assert_clean(&store);
}

#[test]
fn quota_is_enforced_and_an_account_can_be_erased() {
    let store = store_over(Arc::new(MemoryEngine::new()));
    for n in 0..500 {
        deliver_to(&store, ACCOUNT, n, &[], 1).unwrap();
    }
    assert_eq!(deliver_to(&store, ACCOUNT, 501, &[], 1), Err(Error::Quota));
    assert_clean(&store);
    // Up to 700 rows in each step.
    while {
        let (left, ticket) = store.commit(ACCOUNT, |txn| txn.erase(700)).unwrap();
        ticket.wait_blocking().unwrap();
        left
    } {}
    assert_eq!(store.snapshot().account(ACCOUNT).unwrap(), None);
    assert_clean(&store);
}

#[cfg(feature = "rocksdb")]
mod on_disk;
