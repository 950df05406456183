mod fold;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::run::UpkeepWaker;
use super::*;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountRow, Address, BlobHash, Clock as _, EmailId, ListingFilter, MailboxUid, MessageRows,
    Role, UtcMillis,
};
use crate::store::engine::fault::FaultyEngine;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::watched::CountingEngine;
use crate::store::{
    EncodedMessage, FoldSizes, ListingAction, ListingRequest, NewEmail, NewMailbox, Options,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

struct Fixture {
    engine: Arc<FaultyEngine<MemoryEngine>>,
    clock: Arc<FixedClock>,
    store: Store,
    settings: LiveValue<Settings>,
}

fn bed(accounts: u32) -> Fixture {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_795_251_600_000)));
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let store = Store::open_engine(engine.clone(), &Options::small(), clock.clone()).unwrap();
    for id in 1..=accounts {
        let row = AccountRow::new(
            format!("a{id}"),
            Address::from_parts(format!("a{id}"), "example.org"),
            UtcMillis(0),
        );
        let made = store.commit(AccountId(id), |txn| {
            txn.register(&row);
            let role = Some(Role::Inbox);
            txn.create_mailbox(&NewMailbox {
                name: "Inbox".into(),
                parent: None,
                role,
                sort_order: 0,
            })
        });
        made.unwrap().1.wait_blocking().unwrap();
    }
    Fixture { engine, clock, store, settings: LiveValue::default() }
}

impl Fixture {
    fn deliver(&self, account: u32, n: u32) -> EmailId {
        let raw = format!("Subject: {account} {n}\r\n\r\n").into_bytes();
        let blob = BlobHash(*blake3::hash(&raw).as_bytes());
        let message = EncodedMessage::new(&MessageRows {
            blob,
            size: raw.len() as u64,
            ..MessageRows::default()
        });
        let (mut made, ticket) =
            self.store.commit_message(&[AccountId(account)], &message, &raw, |txn| {
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: b"",
                    mailboxes: BTreeSet::from([MailboxUid(1)]),
                    keywords: BTreeSet::new(),
                    received_at: txn.now(),
                })
            });
        ticket.wait_blocking().unwrap();
        made.pop().unwrap().1.unwrap().0
    }

    fn destroyed(&self, account: u32, emails: u32) {
        let ids: Vec<EmailId> = (0..emails).map(|n| self.deliver(account, n)).collect();
        let done = self
            .store
            .commit(AccountId(account), |txn| ids.iter().try_for_each(|id| txn.destroy_email(*id)));
        done.unwrap().1.wait_blocking().unwrap();
    }

    fn upkeep(&self) -> Upkeep {
        Upkeep::new(self.store.clone(), self.settings.clone())
    }

    fn round(&self) -> RoundReport {
        self.upkeep().round(|_| true).unwrap()
    }

    fn clean(&self) {
        assert_eq!(self.store.check().unwrap(), []);
    }
}

#[test]
fn a_round_does_what_is_due_and_the_next_one_nothing() {
    let bed = bed(2);
    bed.destroyed(1, 150);
    bed.destroyed(2, 3);
    let keep = bed
        .store
        .commit(AccountId(2), |txn| txn.extend_listing(MailboxUid(1), ListingFilter::Unseen, 99));
    keep.unwrap().1.wait_blocking().unwrap();
    let settings = bed.settings.get();
    assert_eq!((bed.round().emails, bed.round().steps), (0, 0), "noted, and then nothing");
    bed.clock.advance(settings.unused_listings + Duration::from_millis(1));
    assert_eq!((bed.round().dropped_listings, bed.round().dropped_listings), (1, 0));
    bed.clock
        .advance(settings.destroyed_emails - settings.unused_listings - Duration::from_millis(2));
    assert_eq!(bed.round().emails, 0);
    bed.clock.advance(Duration::from_millis(1));
    let report = bed.round();
    assert_eq!(
        (report.emails, report.threads, report.failures, report.complete),
        (153, 153, 0, true)
    );
    assert!(report.steps >= 4, "in pieces: {report:?}");
    bed.clean();
    bed.clock.advance(settings.unreferenced_messages - Duration::from_millis(1));
    assert_eq!(bed.round().messages, 0);
    bed.clock.advance(Duration::from_millis(1));
    assert_eq!(bed.round().messages, 153);
    bed.clean();
}

#[test]
fn round_completes_unfinished_listings() {
    let bed = bed(2);
    for n in 0..600 {
        bed.deliver(1, n);
    }
    for filter in [ListingFilter::Unseen, ListingFilter::ThreadFlagged] {
        let begin =
            bed.store.commit(AccountId(1), |txn| txn.extend_listing(MailboxUid(1), filter, 100));
        assert!(!begin.unwrap().0);
    }
    let report = bed.round();
    assert_eq!((report.completed_listings, report.dropped_listings, report.failures), (2, 0, 0));
    assert!(report.steps > 4, "in pieces: {report:?}");
    let snapshot = bed.store.snapshot();
    for (filter, total) in [(ListingFilter::Unseen, 600), (ListingFilter::ThreadFlagged, 0)] {
        let listing =
            snapshot.maintained_listing(AccountId(1), MailboxUid(1), filter).unwrap().unwrap();
        assert_eq!(listing.threads.total, total);
    }
    assert_eq!(bed.round().completed_listings, 0);
    bed.clean();
}

fn extend(mailbox: u32, filter: ListingFilter) -> ListingRequest {
    ListingRequest { action: ListingAction::Extend, mailbox: MailboxUid(mailbox), filter }
}

#[test]
fn round_serves_listing_requests_of_queries() {
    let bed = bed(2);
    for n in 0..1100 {
        bed.deliver(1, n);
    }
    let whole = |filter| {
        bed.store.snapshot().maintained_listing(AccountId(1), MailboxUid(1), filter).unwrap()
    };
    let wanted = [extend(1, ListingFilter::Unseen), extend(1, ListingFilter::ThreadFlagged)];
    bed.store.request_listings(AccountId(1), wanted);
    // A mailbox and an account that were removed after the query.
    bed.store.request_listings(AccountId(2), [extend(9, ListingFilter::Unseen)]);
    bed.store.request_listings(AccountId(77), wanted);
    assert_eq!(bed.upkeep().round_of_urgent(&[AccountId(77)], |_| true).unwrap().failures, 0);
    let report = bed.round();
    assert_eq!((report.completed_listings, report.failures), (2, 0));
    assert_eq!(whole(ListingFilter::Unseen).unwrap().emails.total, 1100);
    assert!(whole(ListingFilter::ThreadFlagged).is_some());
    bed.store.request_listings(AccountId(1), wanted);
    assert_eq!(bed.round().completed_listings, 0, "they are whole");
    // A listing whose use is noted stays.
    let settings = bed.settings.get();
    bed.clock.advance(settings.unused_listings - Duration::from_millis(1));
    let used =
        ListingRequest { action: ListingAction::MarkUsed, ..extend(1, ListingFilter::Unseen) };
    bed.store.request_listings(AccountId(1), [used]);
    assert_eq!(bed.round().dropped_listings, 0);
    bed.clock.advance(Duration::from_millis(2));
    assert_eq!(bed.round().dropped_listings, 1);
    assert!(
        whole(ListingFilter::Unseen).is_some() && whole(ListingFilter::ThreadFlagged).is_none()
    );
    bed.clean();
}

#[test]
fn requested_listing_does_not_wait_for_mail_to_be_folded() {
    let bed = bed(1);
    for n in 0..u32::try_from(FoldSizes::default().rows).unwrap() {
        bed.deliver(1, n);
    }
    bed.store.request_listings(AccountId(1), [extend(1, ListingFilter::Unseen)]);
    let unfolded = || bed.store.snapshot().account_state(AccountId(1)).unwrap().unfolded;
    let before = unfolded();
    let whole = || {
        bed.store
            .snapshot()
            .maintained_listing(AccountId(1), MailboxUid(1), ListingFilter::Unseen)
            .unwrap()
    };
    let report = bed.upkeep().round_of_urgent(&[AccountId(1)], |_| whole().is_none()).unwrap();
    assert_eq!((report.completed_listings, unfolded()), (1, before));
    assert_eq!((bed.round().failures, unfolded() < before), (0, true), "mail is folded next");
}

#[test]
fn urgent_work_is_done_in_bounded_pieces() {
    let bed = bed(2);
    for n in 0..600 {
        bed.deliver(1, n);
    }
    let begin = bed
        .store
        .commit(AccountId(1), |txn| txn.extend_listing(MailboxUid(1), ListingFilter::Flagged, 100));
    assert!(!begin.unwrap().0);
    let (upkeep, waker) = (bed.upkeep(), UpkeepWaker::default());
    waker.request_urgent([AccountId(1)]);
    let made = || {
        bed.store
            .snapshot()
            .maintained_listing(AccountId(1), MailboxUid(1), ListingFilter::Flagged)
            .unwrap()
            .is_some()
    };
    let mut turns = 0;
    while !made() {
        turns += 1;
        assert!(turns < 50 && upkeep.work_urgent(&waker, 1), "{turns}");
    }
    assert!(turns > 5, "a step at a time: {turns}");
    bed.clean();
}

#[test]
fn accounts_take_turns() {
    let bed = bed(3);
    bed.destroyed(1, 400);
    bed.destroyed(3, 1);
    bed.clock.advance(bed.settings.get().destroyed_emails);
    // The one email of the third account does not wait for the four hundred of the first.
    let left = |account| {
        bed.store.snapshot().destroyed_emails(AccountId(account), UtcMillis(0), 999).unwrap().len()
    };
    let mut turns = 0;
    let report = bed.upkeep().round(|_| {
        turns += 1;
        left(3) > 0
    });
    assert!(!report.unwrap().complete);
    assert!(turns <= 3 && left(1) >= 300, "{turns} turns, {} left", left(1));
    bed.clean();
}

#[test]
fn failure_in_one_account_does_not_stop_others_but_a_full_disk_ends_the_round() {
    use crate::store::engine::{Batch, Engine as _, Put, Table};
    let bed = bed(2);
    bed.destroyed(1, 2);
    bed.destroyed(2, 2);
    bed.clock.advance(bed.settings.get().destroyed_emails);
    let (key, _) = bed.engine.inner().rows(Table::EmailMetadata).remove(0);
    let puts = vec![Put { table: Table::EmailMetadata, key, value: Some(vec![1, 2, 3]) }];
    bed.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    bed.engine.fail_after(0, Error::Full);
    assert_eq!(bed.upkeep().round(|_| true), Err(Error::Full));
    bed.engine.heal();
    let report = bed.round();
    assert_eq!((report.failures, report.emails, report.complete), (1, 2, true));
}

#[test]
fn upkeep_thread_runs_when_woken_and_stops_at_once() {
    let bed = bed(1);
    bed.settings.set(Settings { interval: DAY, ..Settings::default() });
    bed.destroyed(1, 3);
    let running = bed.upkeep().start().unwrap();
    let gone = || bed.engine.inner().rows(crate::store::engine::Table::EmailMetadata).is_empty();
    bed.clock.advance(bed.settings.get().destroyed_emails + HOUR);
    running.wake();
    let watch = Stopwatch::start();
    while !gone() {
        assert!(watch.elapsed() < Duration::from_secs(20), "upkeep was woken and did nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    running.stop();
    assert!(bed.clock.now() > UtcMillis(0));
    bed.clean();
}

#[test]
fn folding_does_not_wait_for_the_next_round() {
    let bed = bed(1);
    bed.settings.set(Settings { interval: DAY, ..Settings::default() });
    let running = bed.upkeep().start().unwrap();
    let rows = u32::try_from(FoldSizes::default().rows).unwrap();
    for n in 0..=rows {
        bed.deliver(1, n);
    }
    let unfolded = || bed.store.snapshot().account_state(AccountId(1)).unwrap().unfolded;
    let watch = Stopwatch::start();
    while unfolded() >= u64::from(rows) {
        assert!(watch.elapsed() < Duration::from_secs(20), "nothing was folded");
        std::thread::sleep(Duration::from_millis(1));
    }
    running.stop();
    bed.clean();
}

#[test]
fn requested_listing_is_made_before_the_next_round() {
    let bed = bed(2);
    bed.settings.set(Settings { interval: DAY, ..Settings::default() });
    for n in 0..600 {
        bed.deliver(2, n);
    }
    let running = bed.upkeep().start().unwrap();
    let soon = |what: &str, so: &dyn Fn() -> bool| {
        let watch = Stopwatch::start();
        while !so() {
            assert!(watch.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // The first round writes a history note for each account. After it, only the request is work.
    let noted = || bed.engine.inner().rows(crate::store::engine::Table::History).len();
    soon("the first round", &|| noted() == 2);
    bed.store.request_listings(AccountId(2), [extend(1, ListingFilter::Flagged)]);
    let made = || {
        bed.store
            .snapshot()
            .maintained_listing(AccountId(2), MailboxUid(1), ListingFilter::Flagged)
            .unwrap()
            .is_some()
    };
    soon("the requested listing", &made);
    running.stop();
    bed.clean();
}

#[test]
fn remains_of_deleted_rows_are_cleared_after_a_change_until_there_are_none() {
    let engine = Arc::new(CountingEngine::default());
    let store = Store::open_engine(
        engine.clone(),
        &Options::small(),
        Arc::new(FixedClock::at(UtcMillis(0))),
    )
    .unwrap();
    let running = Upkeep::new(store.clone(), LiveValue::default()).start().unwrap();
    engine.set_remains(3);
    let row = AccountRow::new("ann", Address::from_parts("ann", "example.org"), UtcMillis(0));
    let made = store.commit(AccountId(1), |txn| {
        txn.register(&row);
        Ok(())
    });
    made.unwrap().1.wait_blocking().unwrap();
    let watch = Stopwatch::start();
    while engine.remains() > 0 {
        assert!(watch.elapsed() < Duration::from_secs(60), "the remains are not cleared");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.stop();
}

/// Remains of deleted rows once waited until all urgent work was done.
#[test]
fn remains_are_cleared_between_the_steps_of_urgent_work() {
    let engine = Arc::new(CountingEngine::default());
    let store = Store::open_engine(
        engine.clone(),
        &Options::small(),
        Arc::new(FixedClock::at(UtcMillis(0))),
    )
    .unwrap();
    let (upkeep, waker) =
        (Upkeep::new(store, LiveValue::default()), Arc::new(UpkeepWaker::default()));
    engine.set_remains(1);
    waker.request_urgent([AccountId(1)]);
    let own = Arc::clone(&waker);
    engine.before_snapshot(move || {
        own.request_clear();
        std::thread::sleep(Duration::from_millis(600));
    });
    assert!(upkeep.work_urgent(&waker, 1));
    assert_eq!(engine.remains(), 0);
}
