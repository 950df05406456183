//! Tests that every answer within a scope is that of a naive account without other mail, and names
//! no email outside the scope.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::model::{EmailId, ListingFilter, Shape};
use crate::query::matching::evaluate::Matcher;
use crate::query::plan::access_paths;
use crate::query::tests::driver::{ACCOUNT, TestDriver, ops};
use crate::query::tests::listings::question;
use crate::query::tests::naive::{self, splice};
use crate::query::tests::{Begin, config, results, window};
use crate::query::*;

/// The account as it would be without all that is outside the scope.
fn seen(account: &naive::NaiveAccount, scope: &Scope) -> naive::NaiveAccount {
    let mut seen = account.clone();
    for mail in &mut seen.mails {
        mail.mailboxes.retain(|uid| scope.mailboxes().contains(uid));
    }
    seen.mails.retain(|mail| !mail.mailboxes.is_empty());
    seen
}

fn scoped(results: &QuerySpec, scope: &Scope) -> QuerySpec {
    QuerySpec { scope: Some(scope.clone()), ..results.clone() }
}

fn check_query(
    drive: &TestDriver,
    results: &QuerySpec,
    scope: &Scope,
    (begin, limit): &(Begin, Option<usize>),
) {
    let start = match begin {
        Begin::Position(position) => Start::Position(*position),
        Begin::Anchor(which, offset) => match which.checked_rem(drive.ids.len()) {
            Some(at) => Start::Anchor { id: drive.ids[at], offset: *offset },
            None => Start::Position(0),
        },
    };
    let now = seen(&drive.now, scope);
    let asked =
        Query { results: results.clone(), window: Window { start, limit: *limit }, total: true };
    let wanted = now.page(&asked).ok_or(Error::AnchorNotFound).map(|(ids, position)| QueryAnswer {
        ids,
        position,
        total: Some(now.list(results).len()),
        state: drive.state(),
        can_calculate: true,
    });
    let (snapshot, secrets) = (drive.store.snapshot(), drive.store.secrets());
    let asked = Query { results: scoped(results, scope), ..asked };
    assert_eq!(query(&snapshot, secrets, &asked).map(|found| found.answer), wanted, "{asked:?}");
    let asked = Query { results: asked.results.within_scope().into_owned(), ..asked };
    let matcher = Matcher::new(&asked.results.filter, secrets);
    for plan in access_paths(&snapshot, &asked.results, &matcher).unwrap().candidates {
        assert_eq!(
            query_by(&snapshot, &matcher, &asked, &plan),
            wanted,
            "{:?} for {asked:?}",
            plan.path
        );
    }
}

fn check_changes(drive: &TestDriver, results: &QuerySpec, scope: &Scope) {
    let (snapshot, secrets) = (drive.store.snapshot(), drive.store.secrets());
    let now = seen(&drive.now, scope);
    let new = now.list(results);
    let low = |uid: &MailboxUid| {
        snapshot
            .maintained_listing(ACCOUNT, *uid, ListingFilter::Every)
            .unwrap()
            .unwrap()
            .stats(Shape::Emails)
            .low
    };
    let low = scope.mailboxes().iter().map(low).max().unwrap_or_default().max(drive.low);
    for (since, past) in &drive.past {
        let (since, past) = (*since, seen(past, scope));
        let old = past.list(results);
        let may_name: BTreeSet<EmailId> =
            past.mails.iter().chain(&now.mails).map(|mail| mail.id).collect();
        let wanted: Vec<Option<EmailId>> = new.iter().copied().map(Some).collect();
        let asked = QueryChanges {
            results: scoped(results, scope),
            since,
            total: true,
            ..QueryChanges::default()
        };
        let limited = asked.results.within_scope().into_owned();
        let matcher = Matcher::new(&limited.filter, secrets);
        for plan in access_paths(&snapshot, &limited, &matcher).unwrap().candidates {
            let run = |up_to| {
                let asked = QueryChanges { results: limited.clone(), up_to, ..asked.clone() };
                changes_by(&snapshot, &matcher, &asked, plan.clone(), limits::MAX_QUERY_EVENTS)
                    .map(|found| found.answer)
            };
            let found = match run(None) {
                Err(Error::CannotCalculateChanges) if since < low => continue,
                found => found.unwrap(),
            };
            let named = found.removed.iter().chain(found.added.iter().map(|(_, id)| id));
            let beyond: Vec<&EmailId> = named.filter(|id| !may_name.contains(id)).collect();
            assert!(beyond.is_empty(), "{beyond:?} were never in {scope:?} for {asked:?}");
            let cached: Vec<Option<EmailId>> = old.iter().copied().map(Some).collect();
            assert_eq!(
                splice(&cached, &found, new.len()),
                wanted,
                "{old:?} by {found:?} for {asked:?}"
            );
            assert_eq!(found.total, Some(new.len()));
            for (at, up_to) in old.iter().enumerate() {
                let part = run(Some(*up_to)).unwrap();
                let mut cached = cached.clone();
                cached[at + 1..].fill(None);
                let replayed = splice(&cached, &part, new.len());
                let is_true =
                    replayed.iter().zip(&wanted).all(|(known, id)| known.is_none() || known == id);
                assert!(is_true, "{old:?} to {new:?} by {part:?} gave {replayed:?} for {asked:?}");
            }
        }
    }
}

/// What changed is what a comparison of two naive accounts says.
fn check_scope(drive: &TestDriver, scope: &Scope) {
    let snapshot = drive.store.snapshot();
    let now = seen(&drive.now, scope);
    for (uid, unread) in
        scope.unread_threads(&snapshot, ACCOUNT, &Allowance::default()).unwrap().counts
    {
        assert_eq!(unread, now.counts(uid).unread_threads, "{uid} of {scope:?}");
    }
    for (since, past) in &drive.past {
        let Some(changes) = scope.changes(&snapshot, ACCOUNT, *since, 1000).unwrap() else {
            continue;
        };
        if *since < drive.low {
            continue;
        }
        let past = seen(past, scope);
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
        asked in proptest::collection::vec((results(), window()), 1..4),
        questions in proptest::collection::vec((question(), window()), 1..3),
        scope in proptest::collection::btree_set((1u32..4).prop_map(MailboxUid), 0..4),
    ) {
        let mut drive = TestDriver::new();
        drive.run(&ops);
        let scope: Scope = scope.into_iter().collect();
        check_scope(&drive, &scope);
        let questions =
            questions.iter().map(|(question, window)| (question.results(), window.clone()));
        for (results, window) in asked.into_iter().chain(questions) {
            check_query(&drive, &results, &scope, &window);
            check_changes(&drive, &results, &scope);
        }
    }
}
