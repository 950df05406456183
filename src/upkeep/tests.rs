//! Tests of upkeep: what a round and the thread do, in which order, and what they leave for later.

mod fold;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::run::UpkeepWaker;
use super::*;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountRow, Address, BlobHash, EmailId, ListingFilter, MailboxUid, MessageRows, Role, UtcMillis,
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

/// Returns a store with the accounts 1 to `accounts`, each with an Inbox.
fn fixture(accounts: u32) -> Fixture {
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

    fn deliver_and_destroy(&self, account: u32, emails: u32) {
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

    fn assert_sound(&self) {
        assert_eq!(self.store.check().unwrap(), []);
    }
}

#[test]
fn a_round_does_what_is_due_and_the_next_one_nothing() {
    let fixture = fixture(2);
    fixture.deliver_and_destroy(1, 150);
    fixture.deliver_and_destroy(2, 3);
    // The listing is made from at most 99 emails, and the mailbox has none.
    let listing = fixture
        .store
        .commit(AccountId(2), |txn| txn.extend_listing(MailboxUid(1), ListingFilter::Unseen, 99));
    listing.unwrap().1.wait_blocking().unwrap();
    let settings = fixture.settings.get();
    assert_eq!(fixture.round().emails, 0);
    assert_eq!(fixture.round().steps, 0, "the first round noted the history, the second does not");
    fixture.clock.advance(settings.unused_listings + Duration::from_millis(1));
    assert_eq!(fixture.round().dropped_listings, 1);
    assert_eq!(fixture.round().dropped_listings, 0);
    fixture
        .clock
        .advance(settings.destroyed_emails - settings.unused_listings - Duration::from_millis(2));
    assert_eq!(fixture.round().emails, 0);
    fixture.clock.advance(Duration::from_millis(1));
    let report = fixture.round();
    assert_eq!(
        (report.emails, report.threads, report.failures, report.complete),
        (153, 153, 0, true)
    );
    // A step purges 16 emails (`EMAILS_PER_STEP`): the 150 of the first account take ten steps, and
    // the 3 of the second account one.
    assert!(report.steps >= 11, "in pieces: {report:?}");
    fixture.assert_sound();
    fixture.clock.advance(settings.unreferenced_messages - Duration::from_millis(1));
    assert_eq!(fixture.round().messages, 0);
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(fixture.round().messages, 153);
    fixture.assert_sound();
}

#[test]
fn round_completes_unfinished_listings() {
    let fixture = fixture(2);
    for n in 0..600 {
        fixture.deliver(1, n);
    }
    for filter in [ListingFilter::Unseen, ListingFilter::ThreadFlagged] {
        let begin = fixture
            .store
            .commit(AccountId(1), |txn| txn.extend_listing(MailboxUid(1), filter, 100));
        assert!(!begin.unwrap().0);
    }
    let report = fixture.round();
    assert_eq!((report.completed_listings, report.dropped_listings, report.failures), (2, 0, 0));
    // A step extends a listing by 96 emails (`ROWS_PER_STEP`).
    assert!(report.steps > 4, "in pieces: {report:?}");
    let snapshot = fixture.store.snapshot();
    for (filter, total) in [(ListingFilter::Unseen, 600), (ListingFilter::ThreadFlagged, 0)] {
        let listing =
            snapshot.maintained_listing(AccountId(1), MailboxUid(1), filter).unwrap().unwrap();
        assert_eq!(listing.threads.total, total);
    }
    assert_eq!(fixture.round().completed_listings, 0);
    fixture.assert_sound();
}

fn extend(mailbox: u32, filter: ListingFilter) -> ListingRequest {
    ListingRequest { action: ListingAction::Extend, mailbox: MailboxUid(mailbox), filter }
}

#[test]
fn round_serves_listing_requests_of_queries() {
    let fixture = fixture(2);
    for n in 0..1100 {
        fixture.deliver(1, n);
    }
    let whole = |filter| {
        fixture.store.snapshot().maintained_listing(AccountId(1), MailboxUid(1), filter).unwrap()
    };
    let wanted = [extend(1, ListingFilter::Unseen), extend(1, ListingFilter::ThreadFlagged)];
    fixture.store.request_listings(AccountId(1), wanted);
    // A mailbox and an account that were removed after the query.
    fixture.store.request_listings(AccountId(2), [extend(9, ListingFilter::Unseen)]);
    fixture.store.request_listings(AccountId(77), wanted);
    assert_eq!(fixture.upkeep().round_of_urgent(&[AccountId(77)], |_| true).unwrap().failures, 0);
    let report = fixture.round();
    assert_eq!((report.completed_listings, report.failures), (2, 0));
    assert_eq!(whole(ListingFilter::Unseen).unwrap().emails.total, 1100);
    assert!(whole(ListingFilter::ThreadFlagged).is_some());
    fixture.store.request_listings(AccountId(1), wanted);
    assert_eq!(fixture.round().completed_listings, 0, "they are whole");
    let settings = fixture.settings.get();
    fixture.clock.advance(settings.unused_listings - Duration::from_millis(1));
    let used =
        ListingRequest { action: ListingAction::MarkUsed, ..extend(1, ListingFilter::Unseen) };
    fixture.store.request_listings(AccountId(1), [used]);
    assert_eq!(fixture.round().dropped_listings, 0);
    fixture.clock.advance(Duration::from_millis(2));
    assert_eq!(fixture.round().dropped_listings, 1);
    assert!(
        whole(ListingFilter::Unseen).is_some() && whole(ListingFilter::ThreadFlagged).is_none()
    );
    fixture.assert_sound();
}

#[test]
fn requested_listing_does_not_wait_for_mail_to_be_folded() {
    let fixture = fixture(1);
    for n in 0..u32::try_from(FoldSizes::default().rows).unwrap() {
        fixture.deliver(1, n);
    }
    fixture.store.request_listings(AccountId(1), [extend(1, ListingFilter::Unseen)]);
    let unfolded = || fixture.store.snapshot().account_state(AccountId(1)).unwrap().unfolded;
    let before = unfolded();
    let whole = || {
        fixture
            .store
            .snapshot()
            .maintained_listing(AccountId(1), MailboxUid(1), ListingFilter::Unseen)
            .unwrap()
    };
    let report = fixture.upkeep().round_of_urgent(&[AccountId(1)], |_| whole().is_none()).unwrap();
    assert_eq!((report.completed_listings, unfolded()), (1, before));
    assert_eq!((fixture.round().failures, unfolded() < before), (0, true), "mail is folded next");
}

#[test]
fn urgent_work_is_done_in_bounded_pieces() {
    let fixture = fixture(2);
    for n in 0..600 {
        fixture.deliver(1, n);
    }
    let begin = fixture
        .store
        .commit(AccountId(1), |txn| txn.extend_listing(MailboxUid(1), ListingFilter::Flagged, 100));
    assert!(!begin.unwrap().0);
    let (upkeep, waker) = (fixture.upkeep(), UpkeepWaker::default());
    waker.request_urgent([AccountId(1)]);
    let made = || {
        fixture
            .store
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
    // A turn makes one step, which extends the listing by 96 of the 600 emails.
    assert!(turns > 5, "a step at a time: {turns}");
    fixture.assert_sound();
}

#[test]
fn accounts_take_turns() {
    let fixture = fixture(3);
    fixture.deliver_and_destroy(1, 400);
    fixture.deliver_and_destroy(3, 1);
    fixture.clock.advance(fixture.settings.get().destroyed_emails);
    // The one email of the third account does not wait for the four hundred of the first. The round
    // is stopped when it is purged: by then each account has had one turn of at most 16 emails.
    let left = |account| {
        fixture
            .store
            .snapshot()
            .destroyed_emails(AccountId(account), UtcMillis(0), 999)
            .unwrap()
            .len()
    };
    let mut turns = 0;
    let report = fixture.upkeep().round(|_| {
        turns += 1;
        left(3) > 0
    });
    assert!(!report.unwrap().complete);
    assert!(turns <= 3 && left(1) >= 300, "{turns} turns, {} left", left(1));
    fixture.assert_sound();
}

#[test]
fn failure_in_one_account_does_not_stop_others_but_a_full_disk_ends_the_round() {
    use crate::store::engine::{Batch, Engine as _, Put, Table};
    let fixture = fixture(2);
    fixture.deliver_and_destroy(1, 2);
    fixture.deliver_and_destroy(2, 2);
    fixture.clock.advance(fixture.settings.get().destroyed_emails);
    // A row of the first account that cannot be decoded makes its upkeep fail.
    let (key, _) = fixture.engine.inner().rows(Table::EmailMetadata).remove(0);
    let puts = vec![Put { table: Table::EmailMetadata, key, value: Some(vec![1, 2, 3]) }];
    fixture.engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
    fixture.engine.fail_after(0, Error::Full);
    assert_eq!(fixture.upkeep().round(|_| true), Err(Error::Full));
    fixture.engine.heal();
    let report = fixture.round();
    assert_eq!((report.failures, report.emails, report.complete), (1, 2, true));
}

#[test]
fn upkeep_thread_runs_when_woken_and_stops() {
    let fixture = fixture(1);
    fixture.settings.set(Settings { interval: DAY, ..Settings::default() });
    fixture.deliver_and_destroy(1, 3);
    let running = fixture.upkeep().start().unwrap();
    let gone =
        || fixture.engine.inner().rows(crate::store::engine::Table::EmailMetadata).is_empty();
    fixture.clock.advance(fixture.settings.get().destroyed_emails + HOUR);
    running.wake();
    let watch = Stopwatch::start();
    while !gone() {
        assert!(watch.elapsed() < Duration::from_secs(20), "upkeep was woken and did nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    running.stop();
    fixture.assert_sound();
}

#[test]
fn folding_does_not_wait_for_the_next_round() {
    let fixture = fixture(1);
    fixture.settings.set(Settings { interval: DAY, ..Settings::default() });
    let running = fixture.upkeep().start().unwrap();
    let rows = u32::try_from(FoldSizes::default().rows).unwrap();
    for n in 0..=rows {
        fixture.deliver(1, n);
    }
    let unfolded = || fixture.store.snapshot().account_state(AccountId(1)).unwrap().unfolded;
    let watch = Stopwatch::start();
    while unfolded() >= u64::from(rows) {
        assert!(watch.elapsed() < Duration::from_secs(20), "nothing was folded");
        std::thread::sleep(Duration::from_millis(1));
    }
    running.stop();
    fixture.assert_sound();
}

#[test]
fn requested_listing_is_made_before_the_next_round() {
    let fixture = fixture(2);
    fixture.settings.set(Settings { interval: DAY, ..Settings::default() });
    for n in 0..600 {
        fixture.deliver(2, n);
    }
    let running = fixture.upkeep().start().unwrap();
    let soon = |what: &str, so: &dyn Fn() -> bool| {
        let watch = Stopwatch::start();
        while !so() {
            assert!(watch.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // The first round writes a history note for each account. After it, only the request is work.
    let noted = || fixture.engine.inner().rows(crate::store::engine::Table::History).len();
    soon("the first round", &|| noted() == 2);
    fixture.store.request_listings(AccountId(2), [extend(1, ListingFilter::Flagged)]);
    let made = || {
        fixture
            .store
            .snapshot()
            .maintained_listing(AccountId(2), MailboxUid(1), ListingFilter::Flagged)
            .unwrap()
            .is_some()
    };
    soon("the requested listing", &made);
    running.stop();
    fixture.assert_sound();
}

/// See `Engine::has_remains` for what remains.
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
    // `clear_remains` must be called three times.
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

/// Remains of deleted rows (`Engine::has_remains`) do not wait until all urgent work is done.
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
        // Longer than `CLEAR_DELAY`, after which remains are cleared.
        std::thread::sleep(Duration::from_millis(600));
    });
    assert!(upkeep.work_urgent(&waker, 1));
    assert_eq!(engine.remains(), 0);
}
