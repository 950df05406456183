//! Tests how many rows a page of "flagged first" or "oldest first" reads in a larger mailbox, and
//! the changes of "flagged first".

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::clock::FixedClock;
use crate::model::{AccountId, DataType, EmailId, ListingFilter, MailboxUid, UtcMillis};
use crate::query::plan::AccessPath;
use crate::query::tests::search::{create_account, file};
use crate::query::tests::small_batches;
use crate::query::{
    Collation, Comparator, Condition, Filter, Query, QueryChanges, QuerySpec, SortProperty, Start,
    Window,
};
use crate::query::{changes, query};
use crate::store::engine::watched::CountingEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::{Options, Store};

const ACCOUNT: AccountId = AccountId(1);
const INBOX: MailboxUid = MailboxUid(1);
/// The number of stores with the same mail, each with other keys.
const STORES: u8 = 6;

/// Returns a store with `emails` emails, each in a thread of its own, and their ids, oldest first.
fn store_with_flags(
    key: u8,
    emails: i64,
    is_flagged: impl Fn(i64) -> bool,
) -> (Arc<CountingEngine>, Store, Vec<EmailId>) {
    let engine = Arc::new(CountingEngine::default());
    // The format of the store, then its epoch and its keys (104 bytes). The keys decide which
    // emails begin a rank, and so how many rows are read.
    let site = Put {
        table: Table::Site,
        key: b"store".to_vec(),
        value: Some([&[1][..], &[key; 104]].concat()),
    };
    engine.write(&[Arc::new(Batch::of(vec![site]))]).unwrap();
    let options = Options { ranked_above: Some(100), ..Options::small() };
    let store =
        Store::open_engine(engine.clone(), &options, Arc::new(FixedClock::at(UtcMillis(0))))
            .unwrap();
    create_account(&store);
    // The mailbox is empty, so the listing is complete after one step.
    let commit = store.commit(ACCOUNT, |txn| txn.extend_listing(INBOX, ListingFilter::Flagged, 10));
    commit.unwrap().1.wait_blocking().unwrap();
    let ids: Vec<EmailId> = (0..emails)
        .map(|n| file(&store, format!("Subject: {n}\r\n\r\nx\r\n").as_bytes(), n))
        .collect();
    for (n, id) in (0..emails).zip(&ids) {
        if is_flagged(n) {
            set_flagged(&store, *id, true);
        }
    }
    (engine, store, ids)
}

fn set_flagged(store: &Store, id: EmailId, flagged: bool) {
    let keywords: BTreeSet<String> = flagged.then(|| "$flagged".to_owned()).into_iter().collect();
    let commit = store
        .commit(ACCOUNT, |txn| txn.update_email(id, BTreeSet::from([INBOX]), keywords.clone()));
    commit.unwrap().1.wait_blocking().unwrap();
}

fn spec(property: SortProperty, ascending: bool, collapse: bool) -> QuerySpec {
    let filter = Filter::Is(Condition::InMailbox(INBOX));
    let sort = vec![Comparator { property, ascending, collation: Collation::default() }];
    QuerySpec { account: ACCOUNT, filter, sort, collapse, ..small_batches() }
}

fn flagged() -> SortProperty {
    SortProperty::HasKeyword("$flagged".into())
}

fn rows_read(
    engine: &CountingEngine,
    store: &Store,
    spec: &QuerySpec,
    start: Start,
    expected: &[EmailId],
) -> usize {
    let request =
        Query { spec: spec.clone(), window: Window { start, limit: Some(10) }, total: true };
    engine.read();
    let found = query(&store.snapshot(), store.secrets(), &request).unwrap();
    assert!(
        matches!(found.plan.path, AccessPath::Pinned(..) | AccessPath::Listing(_)),
        "{}",
        found.plan
    );
    assert_eq!(found.answer.ids, expected, "{}", found.plan);
    engine.read()
}

#[test]
fn page_of_flagged_first_reads_few_rows_of_a_large_mailbox() {
    let read = |key: u8, emails: i64| {
        let (engine, store, ids) = store_with_flags(key, emails, |n| n % 8 == 0);
        let newest_first = |flagged: bool| -> Vec<EmailId> {
            let mut selected: Vec<EmailId> = (0..emails)
                .zip(&ids)
                .filter(|(n, _)| (n % 8 == 0) == flagged)
                .map(|(_, id)| *id)
                .collect();
            selected.reverse();
            selected
        };
        let list = [newest_first(true), newest_first(false)].concat();
        let (plain, collapsed) = (spec(flagged(), false, false), spec(flagged(), false, true));
        let page = |from: usize| &list[from..from + 10];
        let at = |from: usize| Start::Position(i64::try_from(from).unwrap());
        let (split, deep) = (newest_first(true).len(), list.len() - 60);
        let anchor = Start::Anchor { id: list[deep], offset: 0 };
        let oldest: Vec<EmailId> = ids.iter().take(10).copied().collect();
        [
            rows_read(&engine, &store, &plain, at(0), page(0)),
            rows_read(&engine, &store, &plain, at(split - 5), page(split - 5)),
            rows_read(&engine, &store, &plain, at(deep), page(deep)),
            rows_read(&engine, &store, &plain, anchor, page(deep)),
            rows_read(&engine, &store, &collapsed, at(0), page(0)),
            rows_read(
                &engine,
                &store,
                &spec(SortProperty::ReceivedAt, true, false),
                at(0),
                &oldest,
            ),
            rows_read(&engine, &store, &spec(SortProperty::ReceivedAt, true, true), at(0), &oldest),
        ]
    };
    // The number of rows depends on which emails begin a rank, so several stores are measured.
    let read_all = |emails: i64| {
        (1..=STORES).map(|key| read(key, emails)).fold([0; 7], |mut sums, rows| {
            sums.iter_mut().zip(rows).for_each(|(sum, rows)| *sum += rows);
            sums
        })
    };
    let (few, many) = (read_all(1_000), read_all(4_000));
    for (few, many) in few.into_iter().zip(many) {
        // Four times the emails may cost at most two and a half times the rows, and on average at
        // most 400 rows in each store.
        let max_rows = usize::from(STORES) * 400;
        assert!(
            many < max_rows && many * 2 < few * 5,
            "{few} rows of 1,000 emails, {many} of 4,000, in {STORES} stores"
        );
    }
}

/// The worst case for a walk that skips flagged emails.
#[test]
fn page_of_few_unflagged_emails_skips_the_flagged_ones() {
    let read = |emails: i64| {
        let is_flagged = |n: i64| n % (emails / 10) != 7;
        let (engine, store, ids) = store_with_flags(1, emails, is_flagged);
        let mut few: Vec<EmailId> =
            (0..emails).zip(&ids).filter(|(n, _)| !is_flagged(*n)).map(|(_, id)| *id).collect();
        few.reverse();
        let last = Start::Position(-10);
        [
            rows_read(&engine, &store, &spec(flagged(), true, false), Start::default(), &few),
            rows_read(&engine, &store, &spec(flagged(), false, false), last, &few),
        ]
    };
    let (few, many) = (read(1_000), read(4_000));
    // Each page skips all flagged emails. Whole runs of them are skipped by their ranks.
    for (few, many) in few.into_iter().zip(many) {
        assert!(many < 2_000 && many < few * 3, "{few} rows of 1,000 emails, {many} of 4,000");
    }
}

#[test]
fn changes_of_flagged_first_read_few_rows() {
    let (engine, store, ids) = store_with_flags(1, 2_000, |n| n % 8 == 0);
    let since = store.snapshot().state(ACCOUNT, DataType::Email).unwrap();
    set_flagged(&store, ids[1_001], true);
    set_flagged(&store, ids[8], false);
    let new = file(&store, b"Subject: new\r\n\r\nx\r\n", 5_000);
    for collapse in [false, true] {
        let spec = spec(flagged(), false, collapse);
        let request = QueryChanges { spec, since, total: true, ..QueryChanges::default() };
        engine.read();
        let found = changes(&store.snapshot(), store.secrets(), &request).unwrap();
        let rows = engine.read();
        assert!(matches!(found.plan.path, AccessPath::Pinned(..)), "{}", found.plan);
        assert_eq!(found.answer.removed, [ids[1_001], ids[8]]);
        // 250 emails are flagged. The 124 of them from 1,008 on come before 1,001. The new email is
        // the first of the rest, and of 2,001 results only seven come after 8.
        assert_eq!(found.answer.added, [(124, ids[1_001]), (250, new), (1_993, ids[8])]);
        assert_eq!(found.answer.total, Some(2_001));
        // Collapsed, a walk over the rows of a listing counts the index of the last email.
        let max_rows = if collapse { 2_600 } else { 1_000 };
        assert!(rows < max_rows, "{rows} rows");
    }
}
