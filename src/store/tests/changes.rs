//! The answers of /changes for emails and threads, state by state (RFC 8620 §5.2, RFC 8621 §3), and
//! damage of change indexes.

use super::fixture::fixture;
use super::*;
use crate::model::SenderIdentity;

fn state(store: &Store) -> ClientState {
    ClientState::at(store.snapshot().account_state(ACCOUNT).unwrap().modseq)
}

#[test]
fn thread_changes_only_when_it_gains_or_loses_an_email() {
    let fixture = fixture();
    let first = fixture.deliver(1, b"k");
    let thread = fixture.store.snapshot().email(ACCOUNT, first).unwrap().unwrap().thread;
    let since = state(&fixture.store);
    let thread_changes =
        |since| fixture.store.snapshot().thread_changes(ACCOUNT, since, 99).unwrap().unwrap();
    let update = |uid, words: &[&str]| {
        let words: BTreeSet<String> = words.iter().map(|word| (*word).to_owned()).collect();
        fixture
            .done(|txn| txn.update_email(first, [MailboxUid(uid)].into(), words.clone()))
            .unwrap()
    };
    assert!(update(1, &["$seen"]) && update(3, &["$seen"]) && update(2, &["$seen", "$flagged"]));
    let changes = thread_changes(since);
    assert_eq!((changes.created, changes.updated, changes.destroyed), (vec![], vec![], vec![]));
    assert_eq!(
        fixture.store.snapshot().email_changes(ACCOUNT, since, 99).unwrap().unwrap().updated,
        [first]
    );
    let second = fixture.deliver(2, b"k");
    assert_eq!(thread_changes(since).updated, [thread]);
    let since = state(&fixture.store);
    fixture.done(|txn| txn.destroy_email(second)).unwrap();
    assert_eq!(thread_changes(since).updated, [thread]);
    assert_clean(&fixture.store);
}

#[test]
fn an_email_created_and_destroyed_since_a_state_is_not_reported() {
    let fixture = fixture();
    let before = state(&fixture.store);
    let email = fixture.deliver(1, b"k");
    let thread = fixture.store.snapshot().email(ACCOUNT, email).unwrap().unwrap().thread;
    let between = state(&fixture.store);
    fixture.done(|txn| txn.destroy_email(email)).unwrap();
    let snapshot = fixture.store.snapshot();
    let emails = |since| snapshot.email_changes(ACCOUNT, since, 99).unwrap().unwrap();
    let threads = |since| snapshot.thread_changes(ACCOUNT, since, 99).unwrap().unwrap();
    let (unknown, known) = (emails(before), emails(between));
    assert_eq!((unknown.created, unknown.updated, unknown.destroyed), (vec![], vec![], vec![]));
    assert_eq!((known.created, known.updated, known.destroyed), (vec![], vec![], vec![email]));
    assert_eq!((threads(before).destroyed, threads(between).destroyed), (vec![], vec![thread]));
}

/// A row of a change index is an id and nothing else. Other bytes are damage, not an id 0.
#[test]
fn a_damaged_row_of_a_change_index_is_corrupt() {
    let fixture = fixture();
    let since = state(&fixture.store);
    fixture.deliver(1, b"k");
    fixture.done(|txn| txn.create_object(&SenderIdentity::default())).unwrap();
    for table in [Table::EmailByModseq, Table::ThreadByModseq, Table::ObjectByModseq] {
        for damaged in [vec![], vec![0; 7], vec![0; 9]] {
            let sound = fixture.engine.inner().rows(table);
            let write = |value: &dyn Fn(&[u8]) -> Vec<u8>| {
                let put = |(key, row): &(Vec<u8>, Vec<u8>)| Put {
                    table,
                    key: key.clone(),
                    value: Some(value(row)),
                };
                fixture
                    .engine
                    .write(&[Arc::new(Batch::of(sound.iter().map(put).collect()))])
                    .unwrap();
            };
            write(&|_| damaged.clone());
            let snapshot = fixture.store.snapshot();
            let result = match table {
                Table::EmailByModseq => snapshot.email_changes(ACCOUNT, since, 99).map(drop),
                Table::ThreadByModseq => snapshot.thread_changes(ACCOUNT, since, 99).map(drop),
                _ => snapshot.object_changes::<SenderIdentity>(ACCOUNT, since, 99).map(drop),
            };
            assert!(
                matches!(&result, Err(Error::Corrupt { table: of, .. }) if *of == table.name()),
                "{table}: {result:?}"
            );
            drop(snapshot);
            write(&|row| row.to_vec());
        }
    }
    assert_clean(&fixture.store);
}
