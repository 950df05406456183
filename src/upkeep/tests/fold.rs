//! Tests of folding the search index, most of them with the fold sizes of the service.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::message::rows;
use crate::model::clock::FixedClock;
use crate::model::{AccountId, AccountRow, Address, Role, UtcMillis, field};
use crate::store::check::Breach;
use crate::store::engine::memory::MemoryEngine;
use crate::store::{EncodedMessage, FoldSizes, NewEmail, NewMailbox, Options, Store};
use crate::upkeep::steps::{fold_index, fold_index_by};

const ACCOUNT: AccountId = AccountId(1);

/// Delivers emails, each to one of the addresses `w0` to `w6` in turn, beginning with `w0`.
fn deliver(store: &Store, count: i64) {
    for at in 0..count {
        let raw =
            format!("To: w{0}@example.net\r\nSubject: number {at}\r\n\r\nlunch w{0}\r\n", at % 7);
        let message = EncodedMessage::new(&rows(raw.as_bytes(), store.secrets()));
        let (_, ticket) = store.commit_message(&[ACCOUNT], &message, raw.as_bytes(), |txn| {
            let mailboxes = BTreeSet::from([txn.state().inbox]);
            let received_at = UtcMillis(at);
            txn.create_email(&NewEmail {
                message: &message,
                prefix: b"",
                mailboxes,
                keywords: BTreeSet::new(),
                received_at,
            })
        });
        ticket.wait_blocking().unwrap();
    }
}

fn store() -> Store {
    let clock = Arc::new(FixedClock::at(UtcMillis(0)));
    let store =
        Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock).unwrap();
    let row = AccountRow::new("ann", Address::from_parts("ann", "example.org"), UtcMillis(0));
    let made = store.commit(ACCOUNT, |txn| {
        txn.register(&row);
        txn.create_mailbox(&NewMailbox {
            name: "Inbox".into(),
            parent: None,
            role: Some(Role::Inbox),
            sort_order: 0,
        })
    });
    made.unwrap().1.wait_blocking().unwrap();
    store
}

fn breaches(store: &Store) -> Vec<Breach> {
    let make_rows = |raw: &[u8]| rows(raw, store.secrets());
    store.check_deep(Some(&make_rows), &mut |_| true).unwrap().breaches
}

#[test]
fn address_in_a_field_is_found_before_and_after_folding() {
    let store = store();
    // The first `limit` emails that have the address in one of the fields.
    let named = |who: &str, fields, limit| {
        let text = Address::from_parts(who, "example.net").reversed_domain();
        let mut found = Vec::new();
        let walk = |id| {
            found.push(id);
            Ok(found.len() < limit)
        };
        store.snapshot().scan_emails_with_text(ACCOUNT, &text, fields, walk).unwrap();
        found
    };
    // Enough token rows for a fold, which takes all of them, because they are fewer than twice as
    // many.
    let count = i64::try_from(FoldSizes::default().rows).unwrap();
    deliver(&store, count);
    // Every seventh email is to `w3`, beginning with number 3: of n emails, (n - 3) / 7 rounded up,
    // which is (n + 3) / 7 rounded down.
    let before = named("w3", field::TO, usize::MAX);
    assert_eq!(i64::try_from(before.len()).unwrap(), (count + 3) / 7);
    assert!(fold_index(&store, ACCOUNT).unwrap());
    assert_eq!(named("w3", field::TO | field::CC, usize::MAX), before);
    assert_eq!(named("w3", field::TO, 1), before[..1]);
    assert!(named("w3", field::FROM, 9).is_empty() && named("w9", field::TO, 9).is_empty());
    store.commit(ACCOUNT, |txn| txn.destroy_email(before[0])).unwrap().1.wait_blocking().unwrap();
    assert_eq!(named("w3", field::TO, usize::MAX), before[1..]);
}

#[test]
fn fold_is_made_when_there_are_enough_token_rows() {
    let store = store();
    let unfolded = || store.snapshot().account_state(ACCOUNT).unwrap().unfolded;
    let rows = i64::try_from(FoldSizes::default().rows).unwrap();
    deliver(&store, rows - 1);
    assert!(!fold_index(&store, ACCOUNT).unwrap());
    deliver(&store, 2);
    assert_eq!(unfolded(), FoldSizes::default().rows as u64 + 1);
    assert!(fold_index(&store, ACCOUNT).unwrap());
    assert_eq!(unfolded(), 0);
    assert!(!fold_index(&store, ACCOUNT).unwrap());
    deliver(&store, 2 * rows + 3);
    // Of at least twice `rows` token rows, a fold takes `rows`; of fewer, all.
    assert!(fold_index(&store, ACCOUNT).unwrap());
    assert_eq!(unfolded(), FoldSizes::default().rows as u64 + 3);
    assert!(fold_index(&store, ACCOUNT).unwrap());
    assert_eq!(unfolded(), 0);
    assert_eq!(breaches(&store), []);
}

#[test]
fn check_reports_emails_with_tokens_of_another_message() {
    let store = store();
    let raw = b"Subject: one\r\n\r\nlunch\r\n";
    let other = rows(b"Subject: one\r\n\r\ndinner\r\n", store.secrets());
    let mut wrong = rows(raw, store.secrets());
    wrong.tokens = other.tokens;
    let message = EncodedMessage::new(&wrong);
    for _ in 0..2 {
        let (_, ticket) = store.commit_message(&[ACCOUNT], &message, raw, |txn| {
            let mailboxes = BTreeSet::from([txn.state().inbox]);
            let received_at = UtcMillis(5);
            txn.create_email(&NewEmail {
                message: &message,
                prefix: b"",
                mailboxes,
                keywords: BTreeSet::new(),
                received_at,
            })
        });
        ticket.wait_blocking().unwrap();
    }
    // One breach for each of the two emails, also after they are folded.
    assert_eq!(breaches(&store).len(), 2);
    let sizes = FoldSizes { rows: 1, ..FoldSizes::default() };
    while fold_index_by(&store, ACCOUNT, &sizes).unwrap() {}
    assert_eq!(breaches(&store).len(), 2);
}
