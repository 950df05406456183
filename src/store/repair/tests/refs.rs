//! References from message ids to threads: a lost reference is reported and written again, a
//! dropped one is not.

use std::time::Duration;

use super::*;
use crate::model::{EmailMetadata, ThreadId};
use crate::store::Txn;
use crate::store::table::keys::ThreadRefKey;

mod guests;

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Fixture {
    engine: Arc<MemoryEngine>,
    clock: Arc<FixedClock>,
    store: Store,
}

/// Makes the rows of a message whose upper-case letters are its thread keys.
fn keyed(raw: &[u8]) -> MessageRows {
    let keys = raw
        .iter()
        .filter(|byte| byte.is_ascii_uppercase())
        .map(|byte| ThreadKey([*byte; 32]))
        .collect();
    MessageRows { thread_keys: keys, ..make_rows(raw) }
}

fn bed() -> Fixture {
    let (engine, clock) =
        (Arc::new(MemoryEngine::new()), Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000))));
    let store = Store::open_engine(engine.clone(), &Options::small(), clock.clone()).unwrap();
    make(&store, ANN, "ann");
    Fixture { engine, clock, store }
}

impl Fixture {
    fn done<T>(&self, change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>) -> T {
        done(&self.store, ANN, change)
    }

    /// Files a message in the Inbox for the owner.
    fn deliver(&self, keys: &str) -> (EmailId, ThreadId) {
        self.file(keys, MailboxUid(1), None)
    }

    /// Files a message for a user who may read the mailboxes `open` (`None`: all).
    fn file(
        &self,
        keys: &str,
        mailbox: MailboxUid,
        open: Option<&BTreeSet<MailboxUid>>,
    ) -> (EmailId, ThreadId) {
        self.clock.advance(Duration::from_millis(1));
        let raw = format!("{keys} {}", rows_of(&self.engine, Table::EmailMetadata, ANN).len())
            .into_bytes();
        let message = EncodedMessage::new(&keyed(&raw));
        let (mut results, ticket) = self.store.commit_message(&[ANN], &message, &raw, |txn| {
            let (mailboxes, keywords, received_at) =
                (BTreeSet::from([mailbox]), BTreeSet::new(), txn.now());
            txn.create_email_within(
                &NewEmail { message: &message, prefix: b"", mailboxes, keywords, received_at },
                open,
            )
        });
        ticket.wait_blocking().unwrap();
        results.pop().unwrap().1.unwrap()
    }

    fn lose(&self, key: u8) {
        assert!(self.has(key));
        write(
            &*self.engine,
            Table::ThreadRefs,
            &ThreadRefKey { account: ANN, key: ThreadKey([key; 32]) }.encode(),
            None,
        );
    }

    fn has(&self, key: u8) -> bool {
        let key = ThreadRefKey { account: ANN, key: ThreadKey([key; 32]) }.encode();
        rows_of(&self.engine, Table::ThreadRefs, ANN).iter().any(|(known, _)| *known == key)
    }

    /// Returns the number of breaches, which must all be in `thread_refs`.
    fn named(&self) -> usize {
        let found = self.store.check_deep(Some(&keyed), &mut |_| true).unwrap().breaches;
        assert!(found.iter().all(|breach| breach.table == "thread_refs"), "{found:?}");
        found.len()
    }

    fn repair(&self) -> u64 {
        let done = self.store.repair(RepairScope::Repair, None, &keyed, &mut |_| true).unwrap();
        assert_eq!((done.history_restarted, self.named()), (vec![], 0), "no state is refused");
        done.written
    }

    fn sweep(&self, upto: UtcMillis) -> usize {
        self.done(|txn| txn.sweep_thread_refs(upto, Duration::ZERO, 99)).0
    }
}

#[test]
fn a_lost_reference_is_reported_and_written_again() {
    let bed = bed();
    let (_, thread) = bed.deliver("AB");
    let (_, other) = bed.deliver("C");
    bed.deliver("BD");
    for key in *b"ABCD" {
        bed.lose(key);
        // Two emails have the key B.
        let missed = if key == b'B' { 2 } else { 1 };
        assert_eq!((bed.named(), bed.repair()), (missed, missed as u64));
    }
    for key in *b"ABCD" {
        bed.lose(key);
    }
    assert_eq!(bed.named(), 5, "two emails miss B");
    assert!(bed.repair() >= 4);
    for (keys, wanted) in [("A", thread), ("B", thread), ("C", other), ("D", thread)] {
        assert_eq!(bed.deliver(keys).1, wanted);
    }
    // A check that reads no messages does not notice the loss.
    bed.lose(b'A');
    assert_eq!(bed.store.check(), Ok(vec![]));
}

#[test]
fn a_reference_dropped_with_a_dead_thread_is_no_fault() {
    let bed = bed();
    let (_, old) = bed.deliver("A");
    let (young, _) = bed.deliver("B");
    // The keys name two threads: the older one is joined, and B still names the younger.
    assert_eq!(bed.deliver("AB").1, old);
    bed.done(|txn| txn.destroy_email(young));
    assert_eq!((bed.sweep(UtcMillis(0)), bed.has(b'B'), bed.named()), (1, false, 0));
    let (_, new) = bed.deliver("C");
    // The keys of an email that began its thread name it while the thread lives, so A and C are
    // surely lost. Then references that may be lost are written, too: two emails miss A, and the
    // second one also B, which the repair of A brings back.
    for key in *b"AC" {
        bed.lose(key);
        assert_eq!((bed.named(), bed.has(b'B')), (if key == b'A' { 3 } else { 1 }, key == b'C'));
        bed.repair();
    }
    assert!(bed.has(b'B'));
    assert_eq!((bed.deliver("C").1, bed.deliver("B").1), (new, old));
}

/// A reference may be dropped with an older thread that replaced a dead thread in the reference.
#[test]
fn a_reference_that_moved_to_an_older_thread_is_no_fault() {
    let bed = bed();
    bed.deliver("Z");
    let (_, thread) = bed.deliver("A");
    let (young, _) = bed.deliver("K");
    assert_eq!(bed.deliver("AK").1, thread);
    bed.done(|txn| txn.destroy_email(young));
    let (_, oldest) = bed.deliver("ZK");
    assert_eq!(bed.deliver("K").1, oldest);
    for (id, email) in bed.store.snapshot().emails(ANN, None, 99).unwrap() {
        if email.thread == oldest {
            bed.done(|txn| txn.destroy_email(id));
        }
    }
    // The references Z and K are dropped with the oldest thread.
    assert_eq!((bed.sweep(UtcMillis(0)), bed.has(b'K'), bed.named()), (2, false, 0));
    // The thread of A lives, so this loss is a fault.
    bed.lose(b'A');
    assert!(bed.named() > 0);
}

#[test]
fn a_reference_dropped_for_its_age_is_no_fault() {
    let bed = bed();
    bed.deliver("A");
    bed.clock.advance(DAY);
    bed.done(|txn| txn.note_history(DAY));
    bed.clock.advance(DAY * 8);
    // Without this change, the second note would not be written.
    bed.deliver("X");
    bed.clock.advance(DAY);
    bed.done(|txn| txn.note_history(DAY));
    bed.clock.advance(DAY);
    // An import of old mail: the note of history, not the date, tells when it was filed.
    let imported = keyed(b"B");
    let message = EncodedMessage::new(&imported);
    let (mut results, ticket) = bed.store.commit_message(&[ANN], &message, b"B", |txn| {
        let (mailboxes, keywords) = (BTreeSet::from([MailboxUid(1)]), BTreeSet::new());
        txn.create_email(&NewEmail {
            message: &message,
            prefix: b"",
            mailboxes,
            keywords,
            received_at: UtcMillis(7),
        })
    });
    ticket.wait_blocking().unwrap();
    results.pop().unwrap().1.unwrap();
    let now = bed.store.clock().now();
    assert_eq!((bed.sweep(now.before(DAY * 12)), bed.named()), (0, 0));
    assert_eq!((bed.sweep(now.before(DAY * 8)), bed.has(b'A'), bed.named()), (1, false, 0));
    bed.lose(b'B');
    assert_eq!(bed.named(), 1);
    bed.repair();
    assert!(bed.has(b'B') && !bed.has(b'A'));
    // A recovered reference is as old as the lost one: it expires at the same time. X expires, too.
    assert_eq!((bed.sweep(now), bed.named()), (2, 0));
}

#[test]
fn references_of_a_recovered_email_are_written_again() {
    let bed = bed();
    let (id, thread) = bed.deliver("AB");
    for key in *b"AB" {
        bed.lose(key);
    }
    let own = EmailKey { account: ANN, email: id }.encode();
    let row = rows_of(&bed.engine, Table::EmailMetadata, ANN).remove(0).1;
    write(&*bed.engine, Table::EmailMetadata, &own, None);
    let done = bed.store.repair(RepairScope::Repair, None, &keyed, &mut |_| true).unwrap();
    assert_eq!((done.unrepaired_count, bed.named()), (0, 0));
    let back = rows_of(&bed.engine, Table::EmailMetadata, ANN).remove(0).1;
    assert_eq!(EmailMetadata::decode(&own, &back), EmailMetadata::decode(&own, &row));
    assert_eq!(bed.deliver("A").1, thread);
}
