//! Restoring, purging, expiry and collection of emails, each at the boundary of its time, and after
//! a failure at every write.

use super::super::engine::fault::FaultyEngine;
use super::*;
use crate::model::{DataType, ModSeq};

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
pub(super) const GRACE: Duration = Duration::from_secs(60 * 24 * 3600);
pub(super) const MS: Duration = Duration::from_millis(1);
const PREFIX: &[u8] = b"Delivered-To: ann@example.org\r\n";

pub(super) struct Fixture {
    pub(super) engine: Arc<FaultyEngine<MemoryEngine>>,
    pub(super) clock: Arc<FixedClock>,
    pub(super) store: Store,
}

pub(super) fn bed() -> Fixture {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let options = Options { ranked_above: Some(2), ..Options::small() };
    let store = Store::open_engine(engine.clone(), &options, clock.clone()).unwrap();
    make_account(&store, ACCOUNT);
    Fixture { engine, clock, store }
}

impl Fixture {
    pub(super) fn on<T>(
        &self,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (value, ticket) = self.store.commit(account, change)?;
        ticket.wait_blocking()?;
        Ok(value)
    }

    pub(super) fn done<T>(
        &self,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.on(ACCOUNT, change)
    }

    /// Delivers message `n` by `commit_message`, which gives the message row a time.
    pub(super) fn deliver(&self, n: u32, keys: &[u8]) -> EmailId {
        self.deliver_to(ACCOUNT, n, keys).unwrap()
    }

    pub(super) fn deliver_to(
        &self,
        account: AccountId,
        n: u32,
        keys: &[u8],
    ) -> Result<EmailId, Error> {
        let (message, _) = message(n, keys);
        let (mut results, ticket) =
            self.store.commit_message(&[account], &message, &raw(n), |txn| {
                txn.create_email(&NewEmail {
                    message: &message,
                    prefix: PREFIX,
                    mailboxes: BTreeSet::from([txn.state().inbox]),
                    keywords: BTreeSet::new(),
                    received_at: UtcMillis(i64::from(n)),
                })
            });
        let (id, _) = results.pop().unwrap().1?;
        ticket.wait_blocking()?;
        Ok(id)
    }

    pub(super) fn destroy(&self, id: EmailId) {
        self.done(|txn| txn.destroy_email(id)).unwrap();
    }

    pub(super) fn restore(&self, id: EmailId, n: u32) -> Result<EmailId, Error> {
        self.done(|txn| txn.restore_email(id, &message(n, &[]).0, GRACE)).map(|(id, _)| id)
    }

    pub(super) fn upto(&self, kept: Duration) -> UtcMillis {
        self.clock.now().before(kept)
    }

    pub(super) fn rows(&self, table: Table) -> usize {
        self.engine.inner().rows(table).len()
    }

    pub(super) fn low(&self, data: DataType) -> ModSeq {
        self.store.snapshot().account_state(ACCOUNT).unwrap().low_mark(data)
    }

    /// Runs all steps of upkeep until nothing is left to do.
    pub(super) fn upkeep(&self, kept: Duration) -> Result<(), Error> {
        let upto = self.upto(kept);
        while self.done(|txn| txn.purge_emails(upto, 2))?.has_more {}
        self.done(|txn| txn.note_history(DAY))?;
        while self.done(|txn| txn.purge_history(upto, 2))? {}
        while self.done(|txn| txn.clear_destroyed_mailboxes(2))? {}
        while self.done(|txn| txn.expire_deliveries_and_decisions(2))? {}
        while self.done(|txn| txn.expire_told(upto, 2))? {}
        while self.done(|txn| txn.expire_uploads(upto, 2))? {}
        while self.done(|txn| txn.expire_objects(upto, 2))? {}
        while self.done(|txn| txn.sweep_thread_refs(upto, MS, 2))?.1 {}
        while self.on(AccountId::SITE, |txn| txn.collect_blobs(upto, 2))?.has_more {}
        while self.on(AccountId::SITE, |txn| txn.sweep_blobs(MS, 2))? {}
        Ok(())
    }
}

pub(super) fn raw(n: u32) -> Vec<u8> {
    format!("Subject: {n}\r\n\r\n{n}\r\n").into_bytes()
}

fn words(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_destroyed_email_is_restored_once_under_a_new_id() {
    let bed = bed();
    let (gone, other) = (bed.deliver(1, &[1]), bed.deliver(2, &[2]));
    let archive = MailboxUid(3);
    bed.done(|txn| txn.update_email(gone, BTreeSet::from([archive]), words(&["$seen", "work"])))
        .unwrap();
    bed.destroy(gone);
    assert_eq!(
        bed.store.snapshot().destroyed_emails(ACCOUNT, UtcMillis(0), 9).unwrap()[0].id,
        gone
    );
    assert_eq!(bed.restore(other, 2), Err(Error::Conflict("it was not destroyed".into())));
    assert_eq!(bed.restore(EmailId(7), 1), Err(Error::NotFound("destroyed email")));
    assert!(matches!(bed.restore(gone, 2), Err(Error::Conflict(_))), "another message's rows");
    let before = bed.store.snapshot().account_state(ACCOUNT).unwrap();
    let back = bed.restore(gone, 1).unwrap();
    let snapshot = bed.store.snapshot();
    let email = snapshot.email(ACCOUNT, back).unwrap().unwrap();
    assert_ne!(back, gone);
    assert_eq!(
        (email.mailboxes, email.keywords),
        (BTreeSet::from([archive]), words(&["$seen", "work"]))
    );
    assert_eq!((email.received_at, email.created), (UtcMillis(1), before.modseq.next()));
    assert_eq!(snapshot.message(ACCOUNT, back).unwrap().unwrap(), [PREFIX, &raw(1)].concat());
    // /changes still reports the old id as destroyed, and the new id as created.
    let since = ClientState::at(before.modseq);
    let changes = snapshot.email_changes(ACCOUNT, since, 9).unwrap().unwrap();
    assert_eq!((changes.created, changes.updated, changes.destroyed), (vec![back], vec![], vec![]));
    assert!(snapshot.email_or_tombstone(ACCOUNT, gone).unwrap().unwrap().destroyed.is_some());
    assert_eq!(snapshot.destroyed_emails(ACCOUNT, UtcMillis(0), 9).unwrap(), []);
    let again = bed.restore(gone, 1);
    assert!(matches!(again, Err(Error::Conflict(what)) if what.contains("restored before")));
    assert_clean(&bed.store);
    // Purging the old id deletes no row of the new email.
    bed.clock.advance(GRACE);
    bed.upkeep(GRACE).unwrap();
    assert!(bed.store.snapshot().message(ACCOUNT, back).unwrap().is_some());
    assert_clean(&bed.store);
}

#[test]
fn restoring_respects_grace_time_quota_and_mailboxes() {
    let bed = bed();
    let ids: Vec<EmailId> = (0..4).map(|n| bed.deliver(n, &[])).collect();
    let archive = MailboxUid(3);
    bed.done(|txn| txn.update_email(ids[2], BTreeSet::from([archive]), BTreeSet::new())).unwrap();
    ids.iter().for_each(|id| bed.destroy(*id));
    bed.done(|txn| txn.destroy_mailbox(archive)).unwrap();
    bed.clock.advance(GRACE - MS);
    assert_eq!(
        bed.store.snapshot().destroyed_emails(ACCOUNT, bed.upto(GRACE), 9).unwrap().len(),
        4
    );
    bed.restore(ids[0], 0).unwrap();
    let inbox = bed.restore(ids[2], 2).unwrap();
    let email = bed.store.snapshot().email(ACCOUNT, inbox).unwrap().unwrap();
    assert_eq!(email.mailboxes, BTreeSet::from([MailboxUid(1)]), "its own mailbox is gone");
    let row = bed.store.snapshot().account(ACCOUNT).unwrap().unwrap();
    let quota = |most| {
        let row = AccountRow { quota_emails: Some(most), ..row.clone() };
        bed.done(|txn| {
            txn.set_account(&row);
            Ok(())
        })
        .unwrap();
    };
    quota(2);
    assert_eq!(bed.restore(ids[1], 1), Err(Error::Quota));
    quota(9);
    bed.done(|txn| txn.update_mailbox(MailboxUid(1), |row| row.role = None).map(drop)).unwrap();
    bed.restore(ids[1], 1).unwrap();
    bed.clock.advance(MS);
    assert_eq!(bed.store.snapshot().destroyed_emails(ACCOUNT, bed.upto(GRACE), 9).unwrap(), []);
    assert!(
        matches!(bed.restore(ids[3], 3), Err(Error::Conflict(what)) if what.contains("is over"))
    );
    assert_clean(&bed.store);
}

#[test]
fn an_email_without_mailboxes_and_inbox_is_not_restored() {
    let bed = bed();
    let id = bed.deliver(1, &[]);
    bed.done(|txn| txn.update_email(id, BTreeSet::from([MailboxUid(3)]), BTreeSet::new())).unwrap();
    bed.destroy(id);
    bed.done(|txn| txn.destroy_mailbox(MailboxUid(3))).unwrap();
    bed.done(|txn| txn.update_mailbox(MailboxUid(1), |row| row.role = None).map(drop)).unwrap();
    assert!(matches!(bed.restore(id, 1), Err(Error::Conflict(what)) if what.contains("no inbox")));
    assert_clean(&bed.store);
}

#[test]
fn emails_of_two_accounts_each_hold_their_common_message() {
    let bed = bed();
    let bob = AccountId(2);
    make_account(&bed.store, bob);
    let id = bed.deliver(1, &[1]);
    let encoded = message(1, &[1]).0;
    let raw = bed.store.snapshot().message(ACCOUNT, id).unwrap().unwrap();
    let copy = |account, uid: u32| {
        let copied = NewEmail {
            message: &encoded,
            prefix: b"",
            mailboxes: BTreeSet::from([MailboxUid(uid)]),
            keywords: words(&["$flagged"]),
            received_at: UtcMillis(77),
        };
        let (mut results, ticket) =
            bed.store.commit_message(&[account], &encoded, &raw, |txn| txn.create_email(&copied));
        ticket.wait_blocking().unwrap();
        results.pop().unwrap().1.map(|(id, _)| id)
    };
    let (here, there) = (copy(ACCOUNT, 3).unwrap(), copy(bob, 2).unwrap());
    for (account, copy, uid) in [(ACCOUNT, here, 3), (bob, there, 2)] {
        let snapshot = bed.store.snapshot();
        assert_eq!(snapshot.message(account, copy).unwrap().as_ref(), Some(&raw));
        let email = snapshot.email(account, copy).unwrap().unwrap();
        assert_eq!(
            (email.mailboxes, email.received_at),
            (BTreeSet::from([MailboxUid(uid)]), UtcMillis(77))
        );
    }
    assert!(copy(bob, 9).is_err(), "no such mailbox");
    // Each email has a reference to the message of its own.
    bed.destroy(id);
    bed.destroy(here);
    bed.clock.advance(GRACE + DAY);
    bed.upkeep(GRACE).unwrap();
    bed.clock.advance(GRACE);
    bed.upkeep(GRACE).unwrap();
    assert!(bed.store.snapshot().message(bob, there).unwrap().is_some());
    assert_eq!(bed.rows(Table::BlobPurge), 0);
    assert_clean(&bed.store);
}

#[test]
fn a_purge_deletes_expired_emails_and_moves_the_low_marks() {
    let bed = bed();
    let (one, two, apart) = (bed.deliver(1, &[1]), bed.deliver(2, &[1]), bed.deliver(3, &[2]));
    bed.destroy(one);
    let first = bed.store.snapshot().state(ACCOUNT, DataType::Email).unwrap();
    bed.clock.advance(DAY);
    bed.destroy(two);
    let second = bed.store.snapshot().state(ACCOUNT, DataType::Email).unwrap();
    bed.clock.advance(GRACE - DAY - MS);
    let purge = |most| bed.done(|txn| txn.purge_emails(bed.upto(GRACE), most)).unwrap();
    assert_eq!(purge(9), PurgeResult::default());
    bed.clock.advance(MS);
    assert_eq!(purge(9), PurgeResult { emails: 1, threads: 0, has_more: false });
    assert_eq!((bed.low(DataType::Email), bed.low(DataType::Thread)), (first, ModSeq(0)));
    assert_eq!(bed.store.snapshot().email_or_tombstone(ACCOUNT, one).unwrap(), None);
    assert_clean(&bed.store);
    let changes = |since: u64| {
        let since = ClientState::at(ModSeq(since));
        bed.store
            .snapshot()
            .email_changes(ACCOUNT, since, 9)
            .unwrap()
            .map(|changes| changes.destroyed)
    };
    assert_eq!((changes(first.0 - 1), changes(first.0)), (None, Some(vec![two])));
    // The thread died with its second email, and is purged with it.
    bed.clock.advance(DAY);
    assert_eq!(purge(1), PurgeResult { emails: 1, threads: 1, has_more: true });
    assert_eq!((bed.low(DataType::Email), bed.low(DataType::Thread)), (second, second));
    let state = bed.store.snapshot().account_state(ACCOUNT).unwrap();
    assert_eq!((state.modseq, state.unfolded, state.emails), (second, 1, 1));
    assert_eq!(
        (bed.rows(Table::Threads), bed.rows(Table::EmailContent), bed.rows(Table::BlobRefs)),
        (1, 1, 1)
    );
    let threads =
        |since| bed.store.snapshot().thread_changes(ACCOUNT, ClientState::at(since), 9).unwrap();
    assert!(threads(first).is_none() && threads(second).is_some());
    assert_clean(&bed.store);
    // Purges a single email, whatever its time.
    bed.destroy(apart);
    assert_eq!(bed.done(|txn| txn.purge_email(one)), Err(Error::NotFound("destroyed email")));
    bed.done(|txn| txn.purge_email(apart)).unwrap();
    assert_eq!(bed.rows(Table::EmailMetadata), 0);
    assert_clean(&bed.store);
}

#[test]
fn a_clock_that_goes_back_leaves_no_dead_thread() {
    let bed = bed();
    let (one, two) = (bed.deliver(1, &[1]), bed.deliver(2, &[1]));
    bed.destroy(one);
    bed.clock.set(bed.clock.now().before(DAY));
    bed.destroy(two);
    bed.clock.advance(GRACE);
    assert_eq!(bed.done(|txn| txn.purge_emails(bed.upto(GRACE), 9)).unwrap().threads, 1);
    assert_clean(&bed.store);
    bed.clock.advance(DAY);
    assert_eq!(bed.done(|txn| txn.purge_emails(bed.upto(GRACE), 9)).unwrap().emails, 1);
    assert_eq!((bed.rows(Table::EmailMetadata), bed.rows(Table::Threads)), (0, 0));
    assert_clean(&bed.store);
}

#[test]
fn history_is_purged_when_an_old_note_covers_it() {
    let bed = bed();
    let inbox = MailboxUid(1);
    let listing = |shape| Listing { uid: inbox, filter: ListingFilter::Every, shape };
    let ids: Vec<EmailId> = (0..3u8).map(|n| bed.deliver(u32::from(n), &[n])).collect();
    let archive = |id| {
        bed.done(|txn| txn.update_email(id, BTreeSet::from([MailboxUid(3)]), BTreeSet::new()))
            .unwrap()
    };
    archive(ids[0]);
    archive(ids[1]);
    let noted = bed.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
    assert!(bed.done(|txn| txn.note_history(DAY)).unwrap());
    archive(ids[2]);
    // A note is made once a day, and only if the account changed.
    bed.clock.advance(DAY - MS);
    assert!(!bed.done(|txn| txn.note_history(DAY)).unwrap());
    bed.clock.advance(MS);
    assert!(bed.done(|txn| txn.note_history(DAY)).unwrap());
    bed.clock.advance(DAY);
    assert!(!bed.done(|txn| txn.note_history(DAY)).unwrap());
    let kept = || {
        bed.store
            .snapshot()
            .maintained_listing(ACCOUNT, inbox, ListingFilter::Every)
            .unwrap()
            .unwrap()
    };
    let gone_since = |since: u64| {
        let moves = bed
            .store
            .snapshot()
            .listing_moves(ACCOUNT, listing(Shape::Emails), ModSeq(since), 99)
            .unwrap()
            .unwrap();
        moves.gone.len()
    };
    let purge = |most| bed.done(|txn| txn.purge_history(bed.upto(GRACE), most)).unwrap();
    bed.clock.advance(GRACE - 2 * DAY - MS);
    assert!(!purge(99));
    assert_eq!(kept().emails.low, ModSeq(0));
    bed.clock.advance(MS);
    // After each piece, the low mark of a shape is the highest change that was purged from it.
    assert!(purge(1));
    assert_eq!((kept().emails.low.0, kept().threads.low), (noted.0 - 1, ModSeq(0)));
    assert_clean(&bed.store);
    while purge(1) {}
    assert_eq!((kept().emails.low, gone_since(noted.0)), (noted, 1));
    let state =
        bed.store.snapshot().listing_state(ACCOUNT, listing(Shape::Emails), &kept()).unwrap();
    assert_eq!(state.0, noted.0 + 1);
    bed.clock.advance(DAY);
    assert!(!purge(99));
    assert_eq!((kept().emails.low.0, bed.rows(Table::History)), (noted.0 + 1, 0));
    // The state does not go back when all history is purged.
    assert_eq!(
        bed.store.snapshot().listing_state(ACCOUNT, listing(Shape::Emails), &kept()).unwrap(),
        kept().emails.low
    );
    assert_clean(&bed.store);
}

#[test]
fn a_destroyed_mailbox_leaves_no_rows_and_its_tombstone_is_reported_until_purged() {
    let bed = bed();
    let archive = MailboxUid(3);
    for n in 0..6u8 {
        let id = bed.deliver(u32::from(n), &[n % 2]);
        bed.done(|txn| txn.update_email(id, BTreeSet::from([archive]), words(&["$flagged"])))
            .unwrap();
    }
    make_account(&bed.store, AccountId(2));
    bed.done(|txn| txn.subscribe(archive, AccountId(2), true)).unwrap();
    // The rows of listings that are being filled or dropped stay.
    bed.done(|txn| txn.extend_listing(archive, ListingFilter::Flagged, 2)).unwrap();
    bed.done(|txn| txn.extend_listing(archive, ListingFilter::Unseen, 99)).unwrap();
    bed.done(|txn| txn.drop_listing(archive, ListingFilter::Unseen, 2)).unwrap();
    let before = bed.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
    while bed.done(|txn| txn.empty_mailbox(archive, 2)).unwrap() {}
    bed.done(|txn| txn.destroy_mailbox(archive)).unwrap();
    assert_clean(&bed.store);
    let changes =
        |since| bed.store.snapshot().mailbox_changes(ACCOUNT, ClientState::at(since), 99).unwrap();
    assert_eq!(changes(before).unwrap().changes.destroyed, [archive]);
    let under = |table: Table| {
        let rows = bed.engine.inner().rows(table);
        rows.iter()
            .filter(|(key, _)| {
                key.starts_with(&MailboxKey { account: ACCOUNT, mailbox: archive }.encode())
            })
            .count()
    };
    assert!(under(Table::MailboxEmailList) > 5);
    while bed.done(|txn| txn.clear_destroyed_mailboxes(2)).unwrap() {
        assert_clean(&bed.store);
    }
    for table in [
        Table::MailboxEmailList,
        Table::MailboxEmailIndex,
        Table::MailboxRank,
        Table::MailboxThreadIndex,
        Table::Subscriptions,
    ] {
        assert_eq!(under(table), 0, "{}", table.name());
    }
    assert_clean(&bed.store);
    bed.done(|txn| txn.note_history(DAY)).unwrap();
    let destroyed = bed.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
    bed.clock.advance(GRACE - MS);
    while bed.done(|txn| txn.purge_history(bed.upto(GRACE), 3)).unwrap() {}
    assert_eq!(bed.low(DataType::Mailbox), ModSeq(0));
    bed.clock.advance(MS);
    while bed.done(|txn| txn.purge_history(bed.upto(GRACE), 3)).unwrap() {}
    assert_eq!((bed.low(DataType::Mailbox), under(Table::Mailboxes)), (destroyed, 0));
    assert!(changes(before).is_none() && changes(destroyed).is_some());
    assert_clean(&bed.store);
}

/// Makes rows of all kinds that upkeep handles.
fn live(bed: &Fixture) -> Result<(), Error> {
    for n in 0..6u8 {
        bed.deliver_to(ACCOUNT, n.into(), &[n % 3])?;
        bed.clock.advance(DAY);
    }
    let ids: Vec<EmailId> =
        bed.store.snapshot().emails(ACCOUNT, None, 9)?.into_iter().map(|(id, _)| id).collect();
    let archive = MailboxUid(3);
    for id in ids.iter().take(4) {
        bed.done(|txn| txn.update_email(*id, BTreeSet::from([archive]), BTreeSet::new()))?;
    }
    bed.done(|txn| txn.extend_listing(archive, ListingFilter::Unseen, 9))?;
    while bed.done(|txn| txn.empty_mailbox(archive, 3))? {}
    bed.done(|txn| txn.destroy_mailbox(archive))?;
    let destroyed = bed.store.snapshot().destroyed_emails(ACCOUNT, UtcMillis(0), 9)?;
    let n = u32::try_from(destroyed[0].email.received_at.0).unwrap();
    bed.restore(destroyed[0].id, n)?;
    for _ in 0..4 {
        bed.upkeep(2 * DAY)?;
        bed.clock.advance(DAY);
    }
    Ok(())
}

#[test]
fn the_store_is_valid_after_a_failure_at_any_write_and_upkeep_goes_on() {
    let mut writes = 0;
    loop {
        let bed = bed();
        bed.engine.fail_after(writes, Error::Full);
        let done = live(&bed);
        bed.engine.heal();
        assert_clean(&bed.store);
        // Opens the store again, as a new process would.
        let options = Options { ranked_above: Some(2), ..Options::small() };
        let store = Store::open_engine(bed.engine.clone(), &options, bed.clock.clone()).unwrap();
        let bed = Fixture { store, ..bed };
        for _ in 0..4 {
            bed.upkeep(2 * DAY).unwrap();
            bed.clock.advance(DAY);
        }
        assert_clean(&bed.store);
        assert_eq!(bed.rows(Table::EmailPurge), 0);
        if done.is_ok() {
            assert!(writes > 40, "{writes}");
            return;
        }
        writes += 1;
    }
}
