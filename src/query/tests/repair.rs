//! Damages rows after random histories, and repairs the store. Then the check must find nothing,
//! and queries must have the answers of the naive account (`naive`: vectors and full scans).
//! Changes from an earlier state must be refused or correct.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::message::rows_of_any;
use crate::model::{EmailMetadata, ListingFilter, Mailbox, MailboxUid, ModSeq};
use crate::query::tests::driver::{ACCOUNT, TestDriver, ops};
use crate::query::tests::naive::apply_changes;
use crate::query::tests::{check_query, config, query_spec, window};
use crate::query::{Error, QueryChanges, QuerySpec, changes};
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::repair::RepairScope;
use crate::store::row::{Row as _, content_prefix};
use crate::store::table::{self, MailboxEmailList, decode_key};

/// The derived tables whose rows are deleted, altered and made up.
const DERIVED_TABLES: [Table; 12] = [
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
    /// An index in `DERIVED_TABLES`, or its length for the counts and listings of a mailbox.
    table: usize,
    row: usize,
    /// 0 deletes the row (unless it is of `EmailContent`), 1 writes it at another key of the same
    /// account; otherwise its value is altered. For a mailbox, see [`damage_mailbox`].
    kind: u8,
    at: usize,
    by: u8,
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let one = (0..=DERIVED_TABLES.len(), any::<usize>(), 0u8..3, any::<usize>(), 1u8..=255)
        .prop_map(|(table, row, kind, at, by)| Damage { table, row, kind, at, by });
    proptest::collection::vec(one, 1..12)
}

fn write(engine: &MemoryEngine, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
    engine.write(&[Arc::new(Batch::of(vec![Put { table, key, value }]))]).unwrap();
}

/// Whether a row is history of a listing. A repair cannot notice damage to it.
fn is_history(table: Table, key: &[u8]) -> bool {
    let removed = |key| decode_key::<MailboxEmailList>(key).map(|key| key.removed);
    table == Table::MailboxEmailList && removed(key) != Ok(ModSeq(0))
}

fn apply_damage(engine: &MemoryEngine, damage: &Damage) {
    let Some(table) = DERIVED_TABLES.get(damage.table).copied() else {
        return damage_mailbox(engine, damage);
    };
    let rows = engine.rows(table);
    let Some((key, value)) = damage.row.checked_rem(rows.len()).map(|at| rows[at].clone()) else {
        return;
    };
    let altered = |bytes: &[u8], from: usize| {
        let mut bytes = bytes.to_vec();
        let length = bytes.len();
        if let Some(at) = damage.at.checked_rem(length - from) {
            bytes[from + at] ^= damage.by;
        }
        bytes
    };
    if is_history(table, &key) {
        return;
    }
    // Only this row has the trace prefix, so a repair cannot notice damage to it. At most three
    // bytes, the version and the length, stand before it.
    let prefix = if table == Table::EmailContent {
        content_prefix(&value).map_or(1, |prefix| prefix.len() + 3)
    } else {
        0
    };
    match damage.kind {
        0 if table != Table::EmailContent => write(engine, table, key, None),
        1 => {
            // The account, of 4 bytes, stays. In `BlobRefs` the hash of 32 bytes stands before it.
            let from = if table == Table::BlobRefs { 36 } else { 4 };
            let key = altered(&key, from);
            if !is_history(table, &key) && !rows.iter().any(|(other, _)| *other == key) {
                write(engine, table, key, Some(value));
            }
        }
        _ => {
            let mut row = altered(&value, prefix.min(value.len() - 1));
            // A third of the altered rows also loses the last byte, but none to which the prefix
            // or the version may belong.
            if row.len() > prefix + 2 && damage.by.is_multiple_of(3) {
                row.pop();
            }
            write(engine, table, key, Some(row));
        }
    }
}

/// Alters the counts or the listings of a mailbox, but none of the properties that the owner set.
fn damage_mailbox(engine: &MemoryEngine, damage: &Damage) {
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

/// Extends listings, each given by mailbox, index of the listing filter and number of emails.
fn extend_listings(driver: &TestDriver, listings: Vec<(u32, usize, usize)>) {
    for (uid, filter, limit) in listings {
        let commit = driver.store.commit(ACCOUNT, |txn| {
            txn.extend_listing(MailboxUid(uid), ListingFilter::ALL[filter], limit)
        });
        commit.unwrap().1.wait_blocking().unwrap();
    }
}

/// Checks that the changes from every recorded state are refused, or lead to the new results.
fn check_changes(driver: &TestDriver, spec: &QuerySpec) {
    let snapshot = driver.store.snapshot();
    let new = driver.now.list(spec);
    for (since, past) in &driver.past {
        let request = QueryChanges {
            spec: spec.clone(),
            since: *since,
            total: true,
            ..QueryChanges::default()
        };
        match changes(&snapshot, driver.store.secrets(), &request) {
            Err(Error::CannotCalculateChanges) => {}
            Err(error) => panic!("{error}"),
            Ok(found) => {
                let cached: Vec<_> = past.list(spec).into_iter().map(Some).collect();
                let expected: Vec<_> = new.iter().copied().map(Some).collect();
                assert_eq!(
                    apply_changes(&cached, &found.answer, new.len()),
                    expected,
                    "{found:?} for {request:?}"
                );
            }
        }
    }
}

/// Checks that the totals of listings are their lengths, and the counts of mailboxes those of the
/// naive account.
fn check_listings(driver: &TestDriver) {
    let snapshot = driver.store.snapshot();
    for uid in (0..4).map(MailboxUid) {
        for filter in ListingFilter::ALL {
            let Some(maintained) = snapshot.maintained_listing(ACCOUNT, uid, filter).unwrap()
            else {
                continue;
            };
            for shape in maintained.shapes() {
                let listing = crate::model::Listing { uid, filter, shape: *shape };
                let emails = snapshot.listing(ACCOUNT, listing, None, 999).unwrap();
                assert_eq!(maintained.stats(*shape).total, emails.len() as u64);
            }
        }
    }
    for (uid, mailbox) in snapshot.mailboxes(ACCOUNT).unwrap() {
        assert_eq!(mailbox.counts, driver.now.counts(uid));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: config().cases / 2, ..config() })]

    #[test]
    fn lost_emails_are_remade_and_all_answers_are_right(
        before in ops(25),
        lost in proptest::collection::vec((any::<usize>(), any::<bool>()), 1..5),
        listings in proptest::collection::vec((0u32..4, 0usize..6, 1usize..9), 0..4),
        after in ops(8),
        queries in proptest::collection::vec((query_spec(), window(), any::<bool>()), 1..6),
    ) {
        let engine = Arc::new(MemoryEngine::new());
        let mut driver = TestDriver::over(Arc::clone(&engine) as _, Some(2));
        driver.run(&before);
        extend_listings(&driver, listings);
        // At most one live email of a thread is damaged: otherwise the counters of the thread might
        // not tell which of them were seen.
        let rows = engine.rows(Table::EmailMetadata);
        let (mut damaged, mut threads) = (BTreeSet::new(), BTreeSet::new());
        for (which, is_corrupt) in lost {
            let Some((key, value)) = which.checked_rem(rows.len()).map(|at| &rows[at]) else {
                continue;
            };
            let row = EmailMetadata::decode(key, value).unwrap();
            let id = decode_key::<table::EmailMetadata>(key).unwrap().email;
            // The tombstone of an email that was restored under another id has no content row.
            let was_restored = row.destroyed.is_some()
                && driver.store.snapshot().content(ACCOUNT, id).unwrap().is_none();
            if !was_restored && (row.destroyed.is_some() || threads.insert(row.thread)) {
                damaged.insert(id);
                write(&engine, Table::EmailMetadata, key.clone(), is_corrupt.then(|| vec![1, 2]));
            }
        }
        let secrets = driver.store.secrets().clone();
        let make_rows = |raw: &[u8]| rows_of_any(raw, &secrets);
        let scope = RepairScope::Repair;
        let report = driver.store.repair(scope, None, &make_rows, &mut |_| true).unwrap();
        prop_assert_eq!(&report.unrepaired, &Vec::new());
        prop_assert_eq!(report.history_restarted.is_empty(), damaged.is_empty());
        let breaches = |driver: &TestDriver| {
            driver.store.check_deep(Some(&make_rows), &mut |_| true).unwrap().breaches
        };
        prop_assert_eq!(breaches(&driver), Vec::new());
        driver.follow_repair(&damaged);
        driver.past.clear();
        driver.past.push((driver.state(), driver.now.clone()));
        for round in 0..2 {
            for (spec, window, total) in &queries {
                check_query(&driver, spec, window, *total);
                check_changes(&driver, spec);
            }
            check_listings(&driver);
            prop_assert_eq!(breaches(&driver), Vec::new());
            if round == 0 {
                driver.run(&after);
            }
        }
    }

    #[test]
    fn all_answers_are_right_after_damage_and_repair(
        before in ops(25),
        damages in damages(),
        listings in proptest::collection::vec((0u32..4, 0usize..6, 1usize..9), 0..4),
        rebuild in any::<bool>(),
        after in ops(8),
        queries in proptest::collection::vec((query_spec(), window(), any::<bool>()), 1..6),
    ) {
        let engine = Arc::new(MemoryEngine::new());
        let mut driver = TestDriver::over(Arc::clone(&engine) as _, Some(2));
        driver.run(&before);
        extend_listings(&driver, listings);
        for damage in &damages {
            apply_damage(&engine, damage);
        }
        let secrets = driver.store.secrets().clone();
        let make_rows = |raw: &[u8]| rows_of_any(raw, &secrets);
        let scope = if rebuild { RepairScope::Rebuild } else { RepairScope::Repair };
        let report = driver.store.repair(scope, None, &make_rows, &mut |_| true).unwrap();
        prop_assert_eq!(&report.unrepaired, &Vec::new());
        let breaches = |driver: &TestDriver| {
            driver.store.check_deep(Some(&make_rows), &mut |_| true).unwrap().breaches
        };
        prop_assert_eq!(breaches(&driver), Vec::new(), "{:?}", damages);
        for (spec, window, total) in &queries {
            check_query(&driver, spec, window, *total);
            check_changes(&driver, spec);
        }
        check_listings(&driver);
        if !report.history_restarted.is_empty() {
            driver.past.clear();
            driver.past.push((driver.state(), driver.now.clone()));
        }
        driver.run(&after);
        for (spec, window, total) in &queries {
            check_query(&driver, spec, window, *total);
            check_changes(&driver, spec);
        }
        check_listings(&driver);
        prop_assert_eq!(breaches(&driver), Vec::new());
        let again =
            driver.store.repair(RepairScope::Repair, None, &make_rows, &mut |_| true).unwrap();
        prop_assert_eq!(again.written, 0);
    }
}
