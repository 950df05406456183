//! Tests that every answer within a scope is that of a naive account (`naive`: vectors and full
//! scans) without other mail, and names only emails that are in the scope, or were at the old
//! state.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::model::{EmailId, ListingFilter, Shape};
use crate::query::matching::evaluate::Matcher;
use crate::query::plan::access_paths;
use crate::query::tests::driver::{ACCOUNT, TestDriver, ops};
use crate::query::tests::listings::listing_query;
use crate::query::tests::naive::{self, apply_changes};
use crate::query::tests::{Begin, config, query_spec, window};
use crate::query::*;

/// Returns the account without the emails and mailboxes outside the scope.
fn within_scope(account: &naive::NaiveAccount, scope: &Scope) -> naive::NaiveAccount {
    let mut limited = account.clone();
    for mail in &mut limited.mails {
        mail.mailboxes.retain(|uid| scope.mailboxes().contains(uid));
    }
    limited.mails.retain(|mail| !mail.mailboxes.is_empty());
    limited
}

fn with_scope(spec: &QuerySpec, scope: &Scope) -> QuerySpec {
    QuerySpec { scope: Some(scope.clone()), ..spec.clone() }
}

/// Does within a scope what `tests::check_query` does, always with a total.
fn check_query(
    driver: &TestDriver,
    spec: &QuerySpec,
    scope: &Scope,
    (begin, limit): &(Begin, Option<usize>),
) {
    let start = match begin {
        Begin::Position(position) => Start::Position(*position),
        Begin::Anchor(index, offset) => match index.checked_rem(driver.ids.len()) {
            Some(at) => Start::Anchor { id: driver.ids[at], offset: *offset },
            None => Start::Position(0),
        },
    };
    let now = within_scope(&driver.now, scope);
    let request =
        Query { spec: spec.clone(), window: Window { start, limit: *limit }, total: true };
    let expected =
        now.page(&request).ok_or(Error::AnchorNotFound).map(|(ids, position)| QueryAnswer {
            ids,
            position,
            total: Some(now.list(spec).len()),
            state: driver.state(),
            can_calculate: true,
        });
    let (snapshot, secrets) = (driver.store.snapshot(), driver.store.secrets());
    let request = Query { spec: with_scope(spec, scope), ..request };
    assert_eq!(
        query(&snapshot, secrets, &request).map(|found| found.answer),
        expected,
        "{request:?}"
    );
    let request = Query { spec: request.spec.within_scope().into_owned(), ..request };
    let matcher = Matcher::new(&request.spec.filter, secrets);
    for plan in access_paths(&snapshot, &request.spec, &matcher).unwrap().candidates {
        assert_eq!(
            query_by(&snapshot, &matcher, &request, &plan),
            expected,
            "{:?} for {request:?}",
            plan.path
        );
    }
}

/// Checks the changes within a scope, from every past state and by every access path: they must
/// lead to the new results, and name only emails that were in the scope at the old state or are
/// now.
fn check_changes(driver: &TestDriver, spec: &QuerySpec, scope: &Scope) {
    let (snapshot, secrets) = (driver.store.snapshot(), driver.store.secrets());
    let now = within_scope(&driver.now, scope);
    let new = now.list(spec);
    let low = |uid: &MailboxUid| {
        snapshot
            .maintained_listing(ACCOUNT, *uid, ListingFilter::Every)
            .unwrap()
            .unwrap()
            .stats(Shape::Emails)
            .low
    };
    let low = scope.mailboxes().iter().map(low).max().unwrap_or_default().max(driver.low);
    for (since, past) in &driver.past {
        let (since, past) = (*since, within_scope(past, scope));
        let old = past.list(spec);
        let visible: BTreeSet<EmailId> =
            past.mails.iter().chain(&now.mails).map(|mail| mail.id).collect();
        let expected: Vec<Option<EmailId>> = new.iter().copied().map(Some).collect();
        let request = QueryChanges {
            spec: with_scope(spec, scope),
            since,
            total: true,
            ..QueryChanges::default()
        };
        let limited = request.spec.within_scope().into_owned();
        let matcher = Matcher::new(&limited.filter, secrets);
        for plan in access_paths(&snapshot, &limited, &matcher).unwrap().candidates {
            let run = |up_to| {
                let request = QueryChanges { spec: limited.clone(), up_to, ..request.clone() };
                changes_by(&snapshot, &matcher, &request, plan.clone(), limits::MAX_QUERY_EVENTS)
                    .map(|found| found.answer)
            };
            let found = match run(None) {
                Err(Error::CannotCalculateChanges) if since < low => continue,
                found => found.unwrap(),
            };
            let reported = found.removed.iter().chain(found.added.iter().map(|(_, id)| id));
            let hidden: Vec<&EmailId> = reported.filter(|id| !visible.contains(id)).collect();
            assert!(hidden.is_empty(), "{hidden:?} were never in {scope:?} for {request:?}");
            let cached: Vec<Option<EmailId>> = old.iter().copied().map(Some).collect();
            assert_eq!(
                apply_changes(&cached, &found, new.len()),
                expected,
                "{old:?} by {found:?} for {request:?}"
            );
            assert_eq!(found.total, Some(new.len()));
            for (at, up_to) in old.iter().enumerate() {
                let part = run(Some(*up_to)).unwrap();
                let mut cached = cached.clone();
                cached[at + 1..].fill(None);
                let patched = apply_changes(&cached, &part, new.len());
                let is_correct = patched
                    .iter()
                    .zip(&expected)
                    .all(|(cached, id)| cached.is_none() || cached == id);
                assert!(
                    is_correct,
                    "{old:?} to {new:?} by {part:?} gave {patched:?} for {request:?}"
                );
            }
        }
    }
}

/// Checks the changes within a scope by comparing two naive accounts, and the unread threads.
fn check_scope(driver: &TestDriver, scope: &Scope) {
    let snapshot = driver.store.snapshot();
    let now = within_scope(&driver.now, scope);
    for (uid, unread) in
        scope.unread_threads(&snapshot, ACCOUNT, &Allowance::default()).unwrap().counts
    {
        assert_eq!(unread, now.counts(uid).unread_threads, "{uid} of {scope:?}");
    }
    for (since, past) in &driver.past {
        // Callers must not ask for the changes since a state below the low mark.
        if *since < driver.low {
            continue;
        }
        let Some(changes) = scope.changes(&snapshot, ACCOUNT, *since, 1000).unwrap() else {
            continue;
        };
        let past = within_scope(past, scope);
        let ids = |account: &naive::NaiveAccount| {
            account.mails.iter().map(|mail| mail.id).collect::<BTreeSet<_>>()
        };
        let (old, new) = (ids(&past), ids(&now));
        for (id, change) in &changes {
            assert_eq!(
                (change.was_visible, change.is_visible),
                (old.contains(id), new.contains(id)),
                "{id} since {since}"
            );
        }
        assert!(
            old.symmetric_difference(&new).all(|id| changes.contains_key(id)),
            "{old:?} {new:?} {changes:?}"
        );
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_within_a_scope_are_those_of_an_account_without_other_mail(
        ops in ops(25),
        queries in proptest::collection::vec((query_spec(), window()), 1..4),
        listing_queries in proptest::collection::vec((listing_query(), window()), 1..3),
        scope in proptest::collection::btree_set((1u32..4).prop_map(MailboxUid), 0..4),
    ) {
        let mut driver = TestDriver::new();
        driver.run(&ops);
        let scope: Scope = scope.into_iter().collect();
        check_scope(&driver, &scope);
        let listing_queries = listing_queries
            .iter()
            .map(|(listing_query, window)| (listing_query.spec(), window.clone()));
        for (spec, window) in queries.into_iter().chain(listing_queries) {
            check_query(&driver, &spec, &scope, &window);
            check_changes(&driver, &spec, &scope);
        }
    }
}
