//! Tests the listing paths after every short history of two emails.
//!
//! - The histories are all possible sequences of up to three changes, or of as many as
//!   `RESTANTE_EXHAUSTIVE` says.
//! - All listings that are asked for exist from the start, so all changes must be the minimum, from
//!   every past state and up to every email.

use std::sync::Arc;

use crate::model::{EmailId, ListingFilter, MailboxUid};
use crate::query::tests::client::check_catching_up;
use crate::query::tests::driver::{Op, TestDriver};
use crate::query::tests::listings::{by, create, make_listing, simple_query};
use crate::query::tests::naive::NaiveDraft;
use crate::query::tests::{check_rows, minimal_changes_of, reports_minimum};
use crate::query::*;
use crate::store::engine::memory::MemoryEngine;

#[test]
fn short_histories_of_one_thread_have_minimal_changes() {
    check_short_histories(true, 0);
}

#[test]
fn short_histories_of_one_thread_whose_second_email_is_newer_have_minimal_changes() {
    check_short_histories(true, 1);
}

#[test]
fn short_histories_of_two_threads_have_minimal_changes() {
    check_short_histories(false, 0);
}

/// Checks all histories of two emails, in one thread or in two. `newer` is the index of the email
/// that was received later.
fn check_short_histories(same_thread: bool, newer: usize) {
    // Each email may be destroyed, be in the Inbox with one keyword or none, in the Trash, or in
    // both mailboxes.
    let mut changes: Vec<PlacementChange> = Vec::new();
    for email in 0..2 {
        changes.push((email, None));
        changes.extend(["", "$seen", "$flagged"].map(|word| (email, Some((INBOX, word)))));
        changes.extend([&[2][..], &[1, 2]].map(|uids| (email, Some((uids, "")))));
    }
    let mut histories: Vec<Vec<PlacementChange>> = vec![Vec::new()];
    let mut checked = 0;
    let longest =
        std::env::var("RESTANTE_EXHAUSTIVE").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for _ in 0..longest {
        let longer = histories
            .iter()
            .flat_map(|history| changes.iter().map(|change| [&history[..], &[*change]].concat()));
        histories = longer.filter(|history| is_possible(history)).collect();
        for history in &histories {
            let mut driver = TestDriver::over(Arc::new(MemoryEngine::new()), Some(0));
            for uid in 0..3 {
                ListingFilter::ALL
                    .into_iter()
                    .for_each(|filter| make_listing(&mut driver, MailboxUid(uid), filter));
            }
            let mut ids: [Option<EmailId>; 2] = [None; 2];
            for change in history {
                apply(&mut driver, &mut ids, *change, same_thread, newer);
            }
            check_rows(&driver);
            check_catching_up(&driver, 1);
            for uid in 0..3 {
                for (filter, collapse) in ListingFilter::ALL
                    .into_iter()
                    .flat_map(|filter| [(filter, false), (filter, true)])
                {
                    let listing_query = simple_query(uid, filter, collapse);
                    if listing_query.path().is_some() {
                        check_minimal(&driver, &listing_query.spec());
                        checked += 1;
                    }
                }
                // The Trash is a mailbox like the Inbox, so it is not checked with other orders.
                for (collapse, sort) in sorts().into_iter().filter(|_| uid < 2) {
                    let listing_query =
                        simple_query(uid, ListingFilter::Every, collapse).sorted_by(sort);
                    assert!(listing_query.path().is_some(), "{listing_query:?}");
                    check_minimal(&driver, &listing_query.spec());
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 5_000, "{checked}");
}

fn sorts() -> Vec<(bool, Vec<Comparator>)> {
    let flagged = || by(SortProperty::HasKeyword("$flagged".into()), false);
    let unseen = by(SortProperty::HasKeyword("$seen".into()), true);
    let of_thread = by(SortProperty::SomeInThreadHaveKeyword("$flagged".into()), false);
    let oldest = || by(SortProperty::ReceivedAt, true);
    vec![
        (false, vec![oldest()]),
        (false, vec![flagged()]),
        (false, vec![unseen, oldest()]),
        (true, vec![oldest()]),
        (true, vec![flagged()]),
        (true, vec![of_thread]),
    ]
}

/// The index of an email, and its new mailboxes and keyword, or `None` if it is destroyed.
type PlacementChange = (usize, Option<(&'static [u32], &'static str)>);

const INBOX: &[u32] = &[1];

/// Whether the last change of a history is possible, and changes something.
fn is_possible(history: &[PlacementChange]) -> bool {
    let Some(((email, placement), earlier)) = history.split_last() else { return true };
    let previous = earlier.iter().rev().find(|(other, _)| other == email).map(|(_, at)| *at);
    // Email 0 is created first.
    let is_in_order = !earlier.is_empty() || *email == 0;
    let is_destroyed = previous == Some(None);
    is_in_order && !is_destroyed && previous.unwrap_or_default() != *placement
}

fn apply(
    driver: &mut TestDriver,
    ids: &mut [Option<EmailId>; 2],
    (email, placement): PlacementChange,
    same_thread: bool,
    newer: usize,
) {
    let index = |id: EmailId, driver: &TestDriver| {
        driver.now.mails.iter().position(|mail| mail.id == id).unwrap()
    };
    match (ids[email], placement) {
        (None, Some((uids, word))) => {
            let message_id = Some(if same_thread { 0 } else { u8::try_from(email).unwrap() });
            let draft = NaiveDraft { message_id, subject: Some(0), ..NaiveDraft::default() };
            let mut op = create(draft, uids, i64::from(email == newer));
            if let Op::Create { keywords, .. } = &mut op {
                keywords.extend((!word.is_empty()).then(|| word.to_owned()));
            }
            driver.apply(&op);
            ids[email] = driver.ids.last().copied();
        }
        (Some(id), Some((uids, word))) => driver.apply(&Op::Update {
            which: index(id, driver),
            mailboxes: uids.iter().copied().map(MailboxUid).collect(),
            keywords: (!word.is_empty()).then(|| word.to_owned()).into_iter().collect(),
        }),
        (Some(id), None) => driver.apply(&Op::Destroy { which: index(id, driver) }),
        (None, None) => panic!("an email is destroyed before it is created"),
    }
}

/// Checks the results and the minimum of changes of the chosen access path, from every past state,
/// up to each email and without `upToId`.
fn check_minimal(driver: &TestDriver, spec: &QuerySpec) {
    let (snapshot, secrets) = (driver.store.snapshot(), driver.store.secrets());
    let new = driver.now.list(spec);
    let page =
        query(&snapshot, secrets, &Query { spec: spec.clone(), total: true, ..Query::default() })
            .unwrap();
    assert_eq!((page.answer.ids.as_slice(), page.answer.total), (new.as_slice(), Some(new.len())));
    for (since, past) in &driver.past {
        let old = past.list(spec);
        for up_to in driver.ids.iter().copied().map(Some).chain([None]) {
            let request = QueryChanges {
                spec: spec.clone(),
                since: *since,
                up_to,
                max_changes: None,
                total: true,
            };
            let found = changes(&snapshot, secrets, &request).unwrap();
            assert!(reports_minimum(found.plan.path), "{:?}", found.plan);
            let reported = (found.answer.removed.into_iter().collect(), found.answer.added);
            let expected =
                minimal_changes_of(&found.plan, spec, (past, &old), (&driver.now, &new), up_to);
            assert_eq!(reported, expected, "{old:?} to {new:?} for {request:?}");
            assert_eq!(found.answer.total, Some(new.len()));
        }
    }
}
