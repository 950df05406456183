//! Damages derived rows after random histories and repairs them. Then every query must have the
//! answer of the naive account, and every earlier state must be refused or give correct changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::message::rows_or_bare;
use crate::model::{EmailMetadata, ListingFilter, Mailbox, MailboxUid, ModSeq};
use crate::query::tests::driver::{ACCOUNT, TestDriver, ops};
use crate::query::tests::naive::splice;
use crate::query::tests::{check_query, config, results, window};
use crate::query::{Error, QueryChanges, QuerySpec, changes};
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::repair::RepairScope;
use crate::store::row::{Row as _, content_prefix};
use crate::store::table::{self, MailboxEmailList, decode_key};

/// The derived tables whose every row may be deleted, altered and made up.
const DERIVED: [Table; 12] = [
    Table::EmailByModseq,
    Table::EmailByThread,
    Table::EmailTokens,
    Table::MailboxEmailList,
    Table::MailboxEmailIndex,
    Table::MailboxRank,
    Table::MailboxThreadIndex,
    Table::Threads,
    Table::ThreadByModseq,
    Table::BlobRefs,
    Table::EmailPurge,
    Table::EmailContent,
];

#[derive(Debug, Clone)]
struct Damage {
    table: usize,
    row: usize,
    kind: u8,
    at: usize,
    by: u8,
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let one = (0..=DERIVED.len(), any::<usize>(), 0u8..3, any::<usize>(), 1u8..=255)
        .prop_map(|(table, row, kind, at, by)| Damage { table, row, kind, at, by });
    proptest::collection::vec(one, 1..12)
}

fn write(engine: &MemoryEngine, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
    engine.write(&[Arc::new(Batch::of(vec![Put { table, key, value }]))]).unwrap();
}

/// Whether a row tells of what is over: nothing else does, so that what becomes of it is not seen.
fn is_past(table: Table, key: &[u8]) -> bool {
    let removed = |key| decode_key::<MailboxEmailList>(key).map(|key| key.removed);
    table == Table::MailboxEmailList && removed(key) != Ok(ModSeq(0))
}

fn hurt(engine: &MemoryEngine, damage: &Damage) {
    let Some(table) = DERIVED.get(damage.table).copied() else {
        return miscount(engine, damage);
    };
    let rows = engine.rows(table);
    let Some((key, value)) = damage.row.checked_rem(rows.len()).map(|at| rows[at].clone()) else {
        return;
    };
    let turned = |octets: &[u8], from: usize| {
        let mut octets = octets.to_vec();
        let length = octets.len();
        if let Some(at) = damage.at.checked_rem(length - from) {
            octets[from + at] ^= damage.by;
        }
        octets
    };
    if is_past(table, &key) {
        return;
    }
    // The trace fields stand there alone: what becomes of them nothing tells.
    let prefix = if table == Table::EmailContent {
        content_prefix(&value).map_or(1, |prefix| prefix.len() + 3)
    } else {
        0
    };
    match damage.kind {
        0 if table != Table::EmailContent => write(engine, table, key, None),
        1 => {
            // Its account's key stays its own.
            let from = if table == Table::BlobRefs { 36 } else { 4 };
            let key = turned(&key, from);
            if !is_past(table, &key) && !rows.iter().any(|(known, _)| *known == key) {
                write(engine, table, key, Some(value));
            }
        }
        _ => {
            let mut row = turned(&value, prefix.min(value.len() - 1));
            if row.len() > prefix + 2 && damage.by.is_multiple_of(3) {
                row.pop();
            }
            write(engine, table, key, Some(row));
        }
    }
}

/// The counters of a mailbox, which stand beside what the owner said of it.
fn miscount(engine: &MemoryEngine, damage: &Damage) {
    let rows = engine.rows(Table::Mailboxes);
    let (key, value) = rows[damage.row % rows.len()].clone();
    let mut row = Mailbox::decode(&key, &value).unwrap();
    match damage.kind {
        0 => row.counts.unread_threads += u64::from(damage.by),
        1 => row.listings.clear(),
        _ => row.listings.iter_mut().for_each(|entry| entry.threads.total += u64::from(damage.by)),
    }
    write(engine, Table::Mailboxes, key, Some(row.encode()));
}

/// Begins these views, or makes them further.
fn keep(drive: &TestDriver, views: Vec<(u32, usize, usize)>) {
    for (uid, filter, most) in views {
        let kept = drive.store.commit(ACCOUNT, |txn| {
            txn.extend_listing(MailboxUid(uid), ListingFilter::ALL[filter], most)
        });
        kept.unwrap().1.wait_blocking().unwrap();
    }
}

/// From every state that was ever given out: refused, or what leads to the new list.
fn check_states(drive: &TestDriver, results: &QuerySpec) {
    let snapshot = drive.store.snapshot();
    let new = drive.now.list(results);
    for (since, past) in &drive.past {
        let asked = QueryChanges {
            results: results.clone(),
            since: *since,
            total: true,
            ..QueryChanges::default()
        };
        match changes(&snapshot, drive.store.secrets(), &asked) {
            Err(Error::CannotCalculateChanges) => {}
            Err(error) => panic!("{error}"),
            Ok(found) => {
                let cached: Vec<_> = past.list(results).into_iter().map(Some).collect();
                let wanted: Vec<_> = new.iter().copied().map(Some).collect();
                assert_eq!(
                    splice(&cached, &found.answer, new.len()),
                    wanted,
                    "{found:?} for {asked:?}"
                );
            }
        }
    }
}

/// Listings that were asked for show what a walk over all mail does.
fn check_listings(drive: &TestDriver) {
    let snapshot = drive.store.snapshot();
    for uid in (0..4).map(MailboxUid) {
        for filter in ListingFilter::ALL {
            let Some(kept) = snapshot.maintained_listing(ACCOUNT, uid, filter).unwrap() else {
                continue;
            };
            for shape in kept.shapes() {
                let listing = crate::model::Listing { uid, filter, shape: *shape };
                let shown = snapshot.listing(ACCOUNT, listing, None, 999).unwrap();
                assert_eq!(kept.stats(*shape).total, shown.len() as u64);
            }
        }
    }
    for (uid, mailbox) in snapshot.mailboxes(ACCOUNT).unwrap() {
        assert_eq!(mailbox.counts, drive.now.counts(uid));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: config().cases / 2, ..config() })]

    #[test]
    fn lost_emails_come_back_and_every_answer_is_the_naive_one(
        before in ops(25),
        lost in proptest::collection::vec((any::<usize>(), any::<bool>()), 1..5),
        views in proptest::collection::vec((0u32..4, 0usize..6, 1usize..9), 0..4),
        after in ops(8),
        asked in proptest::collection::vec((results(), window(), any::<bool>()), 1..6),
    ) {
        let engine = Arc::new(MemoryEngine::new());
        let mut drive = TestDriver::over(Arc::clone(&engine) as _, Some(2));
        drive.run(&before);
        keep(&drive, views);
        // One of a thread: of several its counters may not tell which were seen.
        let rows = engine.rows(Table::EmailMetadata);
        let (mut gone, mut threads) = (BTreeSet::new(), BTreeSet::new());
        for (which, broken) in lost {
            let Some((key, value)) = which.checked_rem(rows.len()).map(|at| &rows[at]) else {
                continue;
            };
            let row = EmailMetadata::decode(key, value).unwrap();
            let id = decode_key::<table::EmailMetadata>(key).unwrap().email;
            let was_restored = row.deleted.is_some()
                && drive.store.snapshot().content(ACCOUNT, id).unwrap().is_none();
            if !was_restored && (row.deleted.is_some() || threads.insert(row.thread)) {
                gone.insert(id);
                write(&engine, Table::EmailMetadata, key.clone(), broken.then(|| vec![1, 2]));
            }
        }
        let secrets = drive.store.secrets().clone();
        let remake = |raw: &[u8]| rows_or_bare(raw, &secrets);
        let done = drive.store.repair(RepairScope::Repair, None, &remake, &mut |_| true).unwrap();
        prop_assert_eq!((&done.left, done.renewed.is_empty()), (&Vec::new(), gone.is_empty()));
        let clean = |drive: &TestDriver| {
            drive.store.check_deep(Some(&remake), &mut |_| true).unwrap().breaches
        };
        prop_assert_eq!(clean(&drive), Vec::new());
        drive.forget_keywords(&gone);
        drive.past.clear();
        drive.past.push((drive.state(), drive.now.clone()));
        for round in 0..2 {
            for (results, window, total) in &asked {
                check_query(&drive, results, window, *total);
                check_states(&drive, results);
            }
            check_listings(&drive);
            prop_assert_eq!(clean(&drive), Vec::new());
            if round == 0 {
                drive.run(&after);
            }
        }
    }

    #[test]
    fn after_damage_and_repair_every_answer_is_the_naive_one(
        before in ops(25),
        damages in damage(),
        views in proptest::collection::vec((0u32..4, 0usize..6, 1usize..9), 0..4),
        rebuild in any::<bool>(),
        after in ops(8),
        asked in proptest::collection::vec((results(), window(), any::<bool>()), 1..6),
    ) {
        let engine = Arc::new(MemoryEngine::new());
        let mut drive = TestDriver::over(Arc::clone(&engine) as _, Some(2));
        drive.run(&before);
        keep(&drive, views);
        for one in &damages {
            hurt(&engine, one);
        }
        let secrets = drive.store.secrets().clone();
        let remake = |raw: &[u8]| rows_or_bare(raw, &secrets);
        let scope = if rebuild { RepairScope::Rebuild } else { RepairScope::Repair };
        let done = drive.store.repair(scope, None, &remake, &mut |_| true).unwrap();
        prop_assert_eq!(&done.left, &Vec::new());
        let clean = |drive: &TestDriver| {
            drive.store.check_deep(Some(&remake), &mut |_| true).unwrap().breaches
        };
        prop_assert_eq!(clean(&drive), Vec::new(), "{:?}", damages);
        for (results, window, total) in &asked {
            check_query(&drive, results, window, *total);
            check_states(&drive, results);
        }
        check_listings(&drive);
        if !done.renewed.is_empty() {
            drive.past.clear();
            drive.past.push((drive.state(), drive.now.clone()));
        }
        drive.run(&after);
        for (results, window, total) in &asked {
            check_query(&drive, results, window, *total);
            check_states(&drive, results);
        }
        check_listings(&drive);
        prop_assert_eq!(clean(&drive), Vec::new());
        let again = drive.store.repair(RepairScope::Repair, None, &remake, &mut |_| true).unwrap();
        prop_assert_eq!(again.written, 0);
    }
}
