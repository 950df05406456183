//! Tests that a guest's queries over several mailboxes read only rows of the mailboxes in the
//! scope.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::clock::FixedClock;
use crate::model::{AccountId, DataType, EmailId, MailboxUid, UtcMillis};
use crate::query::plan::AccessPath;
use crate::query::tests::search::{create_account, file};
use crate::query::tests::small_batches;
use crate::query::{
    Collation, Comparator, Condition, Filter, Query, QueryChanges, QuerySpec, Scope, SortProperty,
    Start, Window,
};
use crate::query::{changes, query};
use crate::store::engine::watched::CountingEngine;
use crate::store::{NewMailbox, Options, Store};

const ACCOUNT: AccountId = AccountId(1);
const EMAILS: i64 = 2_000;

/// Returns a store with emails in the Inbox, and newest first those that are also in one or both of
/// two more mailboxes.
fn store_with_shared_mailboxes() -> (Arc<CountingEngine>, Store, Vec<EmailId>) {
    let engine = Arc::new(CountingEngine::default());
    let store = Store::open_engine(
        engine.clone(),
        &Options::small(),
        Arc::new(FixedClock::at(UtcMillis(0))),
    )
    .unwrap();
    create_account(&store);
    for name in ["Two", "Three"] {
        let mailbox = NewMailbox { name: name.into(), parent: None, role: None, sort_order: 0 };
        store
            .commit(ACCOUNT, |txn| txn.create_mailbox(&mailbox))
            .unwrap()
            .1
            .wait_blocking()
            .unwrap();
    }
    let mut shared = Vec::new();
    for n in 0..EMAILS {
        let id = file(&store, format!("Subject: {n}\r\n\r\nx\r\n").as_bytes(), n);
        let others = [(n % 10 == 0, 2), (n % 15 == 0, 3)];
        let others: BTreeSet<MailboxUid> = others
            .into_iter()
            .filter(|(is_in, _)| *is_in)
            .map(|(_, uid)| MailboxUid(uid))
            .collect();
        if !others.is_empty() {
            shared.push(id);
            set_mailboxes(&store, id, &others);
        }
    }
    shared.reverse();
    (engine, store, shared)
}

fn set_mailboxes(store: &Store, id: EmailId, others: &BTreeSet<MailboxUid>) {
    let mailboxes: BTreeSet<MailboxUid> = others.iter().copied().chain([MailboxUid(1)]).collect();
    let commit =
        store.commit(ACCOUNT, |txn| txn.update_email(id, mailboxes.clone(), BTreeSet::new()));
    commit.unwrap().1.wait_blocking().unwrap();
}

fn spec(filter: Filter, ascending: bool, collapse: bool) -> QuerySpec {
    let sort = vec![Comparator {
        property: SortProperty::ReceivedAt,
        ascending,
        collation: Collation::default(),
    }];
    let scope: Scope = [2, 3].into_iter().map(MailboxUid).collect();
    QuerySpec { account: ACCOUNT, filter, sort, collapse, scope: Some(scope), ..small_batches() }
}

#[test]
fn guest_query_over_two_mailboxes_reads_only_their_rows() {
    let (engine, store, shared) = store_with_shared_mailboxes();
    let everything = || Filter::And(Vec::new());
    let oldest: Vec<EmailId> = shared.iter().rev().copied().collect();
    let rows = |spec: QuerySpec, position: i64, total: bool, list: &[EmailId]| {
        let window = Window { start: Start::Position(position), limit: Some(10) };
        let request = Query { spec, window, total };
        engine.read();
        let found = query(&store.snapshot(), store.secrets(), &request).unwrap();
        let rows = engine.read();
        let from = usize::try_from(position).unwrap();
        assert_eq!(found.answer.ids, list[from..from + 10], "{}", found.plan);
        assert_eq!(found.answer.total, total.then_some(list.len()));
        (rows, found.plan.to_string())
    };
    // The guest may see 267 of 2,000 emails, in 334 rows of two listings. A first page reads a
    // batch of each listing. A deep page and a total read up to all rows.
    for (spec, position, total, list, max_rows) in [
        (spec(everything(), false, false), 0, false, &shared, 100),
        (spec(everything(), true, false), 0, false, &oldest, 100),
        (spec(everything(), false, true), 0, false, &shared, 100),
        (spec(everything(), false, false), 200, false, &shared, 400),
        (spec(everything(), false, false), 0, true, &shared, 400),
        (spec(everything(), true, true), 0, true, &oldest, 400),
    ] {
        let (rows, plan) = rows(spec, position, total, list);
        assert!(rows < max_rows, "{rows} rows at {position}, total: {total}; {plan}");
    }
    // The filter reads the 267 emails, too.
    let not_draft = Filter::Is(Condition::NotKeyword("$draft".into()));
    let (rows, plan) = rows(spec(not_draft, false, false), 0, true, &shared);
    assert!(rows < 800, "{rows} rows; {plan}");
}

#[test]
fn guest_changes_over_two_mailboxes_read_only_their_rows() {
    let (engine, store, shared) = store_with_shared_mailboxes();
    let since = store.snapshot().state(ACCOUNT, DataType::Email).unwrap();
    set_mailboxes(&store, shared[5], &BTreeSet::new());
    let spec = spec(Filter::And(Vec::new()), false, false);
    let request = QueryChanges { spec, since, total: true, ..QueryChanges::default() };
    engine.read();
    let found = changes(&store.snapshot(), store.secrets(), &request).unwrap();
    let rows = engine.read();
    assert_eq!(
        (found.answer.removed.as_slice(), found.answer.added.as_slice()),
        (&shared[5..6], &[][..])
    );
    assert_eq!(found.answer.total, Some(shared.len() - 1));
    assert_eq!(found.plan.path, AccessPath::Merged { filter_decides: false });
    // The total costs a walk over all rows that are left.
    assert!(rows < 500, "{rows} rows; {}", found.plan);
}
