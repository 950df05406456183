//! A guest who files mail changes no reference of the owner's mail, and learns nothing of mail that
//! the guest may not read. How many threads a key names, and the format of the row.

use super::*;
use crate::store::row::{RowFormat as _, ThreadRef, ThreadRefRow};

const INBOX: MailboxUid = MailboxUid(1);
const TRASH: MailboxUid = MailboxUid(2);
const ARCHIVE: MailboxUid = MailboxUid(3);

impl Fixture {
    /// Files a message in `mailbox` for a guest who may read only this mailbox.
    fn guest(&self, keys: &str, mailbox: MailboxUid) -> (EmailId, ThreadId) {
        self.file(keys, mailbox, Some(&[mailbox].into()))
    }

    /// Moves an email to another mailbox.
    fn refile(&self, id: EmailId, mailbox: MailboxUid) {
        self.done(|txn| txn.update_email(id, [mailbox].into(), BTreeSet::new()));
    }

    fn row(&self, key: u8) -> Vec<u8> {
        let key = ThreadRefKey { account: ANN, key: ThreadKey([key; 32]) }.encode();
        rows_of(&self.engine, Table::ThreadRefs, ANN)
            .into_iter()
            .find(|(known, _)| *known == key)
            .unwrap()
            .1
    }

    /// Returns the threads that a key names, in their order.
    fn threads(&self, key: u8) -> Vec<ThreadId> {
        decode(&self.row(key)).unwrap().0.iter().map(|named| named.thread).collect()
    }
}

fn decode(row: &[u8]) -> Option<ThreadRefRow> {
    ThreadRefRow::from_bytes(Table::ThreadRefs, &[], row).ok()
}

#[test]
fn a_guest_that_files_mail_does_not_change_the_owners_references() {
    let bed = bed();
    let (_, owners) = bed.deliver("A");
    let (_, guests) = bed.guest("AG", ARCHIVE);
    assert_ne!(guests, owners);
    assert_eq!(bed.deliver("A").1, owners, "the next reply joins the owner's thread");
    assert_eq!(bed.guest("A", ARCHIVE).1, guests, "a guest's second reply joins the guest's");
    assert_eq!(bed.deliver("G").1, guests, "the owner answers the guest");
    assert_eq!(bed.named(), 0);
    // A lost row is recovered with both threads.
    bed.lose(b'A');
    assert!(bed.named() > 0);
    bed.repair();
    assert_eq!(bed.threads(b'A'), [owners, guests]);
    assert_eq!((bed.deliver("A").1, bed.guest("A", ARCHIVE).1), (owners, guests));
}

#[test]
fn a_key_of_a_dead_thread_of_the_owner_names_the_guests_thread() {
    for is_swept in [false, true] {
        let bed = bed();
        let (id, _) = bed.deliver("A");
        let (_, guests) = bed.guest("A", ARCHIVE);
        bed.done(|txn| txn.destroy_email(id));
        if is_swept {
            assert_eq!(bed.sweep(UtcMillis(0)), 1);
            assert_eq!(bed.threads(b'A'), [guests]);
        }
        assert_eq!(
            (bed.guest("A", ARCHIVE).1, bed.deliver("A").1, bed.named()),
            (guests, guests, 0)
        );
    }
}

#[test]
fn guests_of_different_mailboxes_learn_nothing_of_each_other() {
    // With and without mail of the owner under the key A.
    for hidden in [true, false] {
        let bed = bed();
        let owners = hidden.then(|| bed.deliver("A").1);
        let (first, one) = bed.guest("A", ARCHIVE);
        let (_, other) = bed.guest("A", TRASH);
        assert_ne!(one, other);
        assert_eq!((bed.guest("A", ARCHIVE).1, bed.guest("A", TRASH).1), (one, other));
        assert_eq!(bed.deliver("A").1, owners.unwrap_or(one));
        // A thread is not joined while its emails are in mailboxes that the guest may not read.
        for (id, email) in bed.store.snapshot().emails(ANN, None, 99).unwrap() {
            if email.mailboxes == [ARCHIVE].into() {
                bed.refile(id, INBOX);
            }
        }
        let (_, third) = bed.guest("A", ARCHIVE);
        assert!(third != one && third != other);
        bed.refile(first, ARCHIVE);
        assert_eq!(
            (bed.guest("A", ARCHIVE).1, bed.guest("A", TRASH).1, bed.named()),
            (one, other, 0)
        );
    }
}

/// Earlier versions let the guest's thread replace the owner's.
#[test]
fn a_reference_that_an_earlier_version_overwrote_is_repaired() {
    let bed = bed();
    let (_, owners) = bed.deliver("A");
    let (_, guests) = bed.guest("A", ARCHIVE);
    let alone = ThreadRefRow(vec![ThreadRef { thread: guests, seen: bed.store.clock().now() }]);
    write(
        &*bed.engine,
        Table::ThreadRefs,
        &ThreadRefKey { account: ANN, key: ThreadKey([b'A'; 32]) }.encode(),
        Some(alone.to_bytes()),
    );
    assert_eq!(bed.named(), 1);
    bed.repair();
    assert_eq!((bed.threads(b'A'), bed.deliver("A").1), (vec![owners, guests], owners));
}

#[test]
fn the_threads_of_one_key_are_bounded_and_a_displaced_one_is_no_fault() {
    let bed = bed();
    let (_, owners) = bed.deliver("A");
    let mut filed = Vec::new();
    for _ in 0..ThreadRefRow::MAX + 4 {
        let (id, thread) = bed.guest("A", ARCHIVE);
        assert!(filed.iter().all(|(_, known)| *known != thread));
        // Hides the thread from the guest's next message.
        bed.refile(id, INBOX);
        filed.push((id, thread));
    }
    let named = &filed[filed.len() - (ThreadRefRow::MAX - 1)..];
    let newest: Vec<ThreadId> = named.iter().map(|(_, thread)| *thread).collect();
    assert_eq!(bed.threads(b'A'), [&[owners], &newest[..]].concat());
    assert_eq!((bed.deliver("A").1, bed.named()), (owners, 0));
    // The guest's threads that the row names are dead now. The row stays as it is, since displaced
    // threads still live.
    for (id, _) in named {
        bed.done(|txn| txn.destroy_email(*id));
    }
    assert_eq!((bed.sweep(UtcMillis(0)), bed.named()), (0, 0));
    // The guest of another mailbox gets a new thread.
    let known = *newest.last().unwrap();
    assert_eq!((bed.deliver("A").1, bed.guest("A", TRASH).1 > known), (owners, true));
    assert_eq!(
        (bed.threads(b'A').len(), bed.threads(b'A')[0], bed.named()),
        (ThreadRefRow::MAX, owners, 0)
    );
    bed.clock.advance(DAY * 9);
    bed.done(|txn| txn.note_history(DAY));
    assert_eq!(
        (bed.sweep(bed.store.clock().now()), bed.has(b'A'), bed.named()),
        (ThreadRefRow::MAX, false, 0)
    );
}

#[test]
fn a_malformed_reference_row_is_refused() {
    let named =
        |n: u64| ThreadRef { thread: ThreadId(n), seen: UtcMillis(i64::try_from(n).unwrap()) };
    for n in 1..=ThreadRefRow::MAX {
        let refs = ThreadRefRow((1..=n as u64).map(named).collect());
        let row = refs.to_bytes();
        assert_eq!((decode(&row), row[0]), (Some(refs), if n == 1 { 1 } else { 2 }));
        let versions: Vec<u8> = [0, 3].into_iter().chain([if n == 1 { 2 } else { 1 }]).collect();
        for version in versions {
            assert_eq!(decode(&[&[version], &row[1..]].concat()), None);
        }
        assert_eq!(decode(&row[..row.len() - 1]), None);
        assert_eq!(decode(&[&row[..], &[0]].concat()), None);
    }
    let many = ThreadRefRow((1..=ThreadRefRow::MAX as u64 + 1).map(named).collect());
    assert_eq!((decode(&many.to_bytes()), decode(&[])), (None, None));
}
