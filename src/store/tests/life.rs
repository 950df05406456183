//! Restoring and purging of emails, history and destroyed mailboxes, at the boundaries of their
//! times, and after a failure at every write.

use super::fixture::{DAY, Fixture, GRACE, MS, PREFIX, fixture, raw};
use super::*;
use crate::model::{DataType, ModSeq};
use crate::store::engine::RowReader as _;

fn words(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_destroyed_email_is_restored_once_under_a_new_id() {
    let fixture = fixture();
    let (destroyed, other) = (fixture.deliver(1, &[1]), fixture.deliver(2, &[2]));
    let archive = MailboxUid(3);
    fixture
        .done(|txn| {
            txn.update_email(destroyed, BTreeSet::from([archive]), words(&["$seen", "work"]))
        })
        .unwrap();
    fixture.destroy(destroyed);
    assert_eq!(
        fixture.store.snapshot().destroyed_emails(ACCOUNT, UtcMillis(0), 9).unwrap()[0].id,
        destroyed
    );
    assert_eq!(fixture.restore(other, 2), Err(Error::Conflict("it was not destroyed".into())));
    assert_eq!(fixture.restore(EmailId(7), 1), Err(Error::NotFound("destroyed email")));
    assert!(
        matches!(fixture.restore(destroyed, 2), Err(Error::Conflict(_))),
        "another message's rows"
    );
    let before = fixture.store.snapshot().account_state(ACCOUNT).unwrap();
    let back = fixture.restore(destroyed, 1).unwrap();
    let snapshot = fixture.store.snapshot();
    let email = snapshot.email(ACCOUNT, back).unwrap().unwrap();
    assert_ne!(back, destroyed);
    assert_eq!(
        (email.mailboxes, email.keywords),
        (BTreeSet::from([archive]), words(&["$seen", "work"]))
    );
    assert_eq!((email.received_at, email.created), (UtcMillis(1), before.modseq.next()));
    assert_eq!(snapshot.message(ACCOUNT, back).unwrap().unwrap(), [PREFIX, &raw(1)].concat());
    // /changes reports the new id as created. The tombstone of the old id stays.
    let since = ClientState::at(before.modseq);
    let changes = snapshot.email_changes(ACCOUNT, since, 9).unwrap().unwrap();
    assert_eq!((changes.created, changes.updated, changes.destroyed), (vec![back], vec![], vec![]));
    assert!(snapshot.email_or_tombstone(ACCOUNT, destroyed).unwrap().unwrap().destroyed.is_some());
    assert_eq!(snapshot.destroyed_emails(ACCOUNT, UtcMillis(0), 9).unwrap(), []);
    let again = fixture.restore(destroyed, 1);
    assert!(matches!(again, Err(Error::Conflict(what)) if what.contains("restored before")));
    assert_clean(&fixture.store);
    // Purging the old id deletes no row of the new email.
    fixture.clock.advance(GRACE);
    fixture.upkeep(GRACE).unwrap();
    assert!(fixture.store.snapshot().message(ACCOUNT, back).unwrap().is_some());
    assert_clean(&fixture.store);
}

#[test]
fn restoring_respects_grace_time_quota_and_mailboxes() {
    let fixture = fixture();
    let ids: Vec<EmailId> = (0..4).map(|n| fixture.deliver(n, &[])).collect();
    let archive = MailboxUid(3);
    fixture
        .done(|txn| txn.update_email(ids[2], BTreeSet::from([archive]), BTreeSet::new()))
        .unwrap();
    ids.iter().for_each(|id| fixture.destroy(*id));
    fixture.done(|txn| txn.destroy_mailbox(archive)).unwrap();
    fixture.clock.advance(GRACE - MS);
    assert_eq!(
        fixture.store.snapshot().destroyed_emails(ACCOUNT, fixture.upto(GRACE), 9).unwrap().len(),
        4
    );
    fixture.restore(ids[0], 0).unwrap();
    let inbox = fixture.restore(ids[2], 2).unwrap();
    let email = fixture.store.snapshot().email(ACCOUNT, inbox).unwrap().unwrap();
    assert_eq!(email.mailboxes, BTreeSet::from([MailboxUid(1)]), "its own mailbox is gone");
    let row = fixture.store.snapshot().account(ACCOUNT).unwrap().unwrap();
    let quota = |limit| {
        let row = AccountRow { quota_emails: Some(limit), ..row.clone() };
        fixture
            .done(|txn| {
                txn.set_account(&row);
                Ok(())
            })
            .unwrap();
    };
    // Two are restored already.
    quota(2);
    assert_eq!(fixture.restore(ids[1], 1), Err(Error::Quota));
    quota(9);
    // An email whose own mailbox exists needs no Inbox.
    fixture.done(|txn| txn.update_mailbox(MailboxUid(1), |row| row.role = None).map(drop)).unwrap();
    fixture.restore(ids[1], 1).unwrap();
    fixture.clock.advance(MS);
    assert_eq!(
        fixture.store.snapshot().destroyed_emails(ACCOUNT, fixture.upto(GRACE), 9).unwrap(),
        []
    );
    assert!(
        matches!(fixture.restore(ids[3], 3), Err(Error::Conflict(what)) if what.contains("is over"))
    );
    assert_clean(&fixture.store);
}

#[test]
fn an_email_without_mailboxes_and_inbox_is_not_restored() {
    let fixture = fixture();
    let id = fixture.deliver(1, &[]);
    fixture
        .done(|txn| txn.update_email(id, BTreeSet::from([MailboxUid(3)]), BTreeSet::new()))
        .unwrap();
    fixture.destroy(id);
    fixture.done(|txn| txn.destroy_mailbox(MailboxUid(3))).unwrap();
    fixture.done(|txn| txn.update_mailbox(MailboxUid(1), |row| row.role = None).map(drop)).unwrap();
    assert!(
        matches!(fixture.restore(id, 1), Err(Error::Conflict(what)) if what.contains("no inbox"))
    );
    assert_clean(&fixture.store);
}

#[test]
fn emails_of_two_accounts_each_hold_their_common_message() {
    let fixture = fixture();
    let bob = AccountId(2);
    make_account(&fixture.store, bob);
    let id = fixture.deliver(1, &[1]);
    let encoded = message(1, &[1]).0;
    let raw = fixture.store.snapshot().message(ACCOUNT, id).unwrap().unwrap();
    let copy = |account, uid: u32| {
        let copied = NewEmail {
            message: &encoded,
            prefix: b"",
            mailboxes: BTreeSet::from([MailboxUid(uid)]),
            keywords: words(&["$flagged"]),
            received_at: UtcMillis(77),
        };
        let (mut results, ticket) =
            fixture
                .store
                .commit_message(&[account], &encoded, &raw, |txn| txn.create_email(&copied));
        ticket.wait_blocking().unwrap();
        results.pop().unwrap().1.map(|(id, _)| id)
    };
    let (here, there) = (copy(ACCOUNT, 3).unwrap(), copy(bob, 2).unwrap());
    for (account, copy, uid) in [(ACCOUNT, here, 3), (bob, there, 2)] {
        let snapshot = fixture.store.snapshot();
        assert_eq!(snapshot.message(account, copy).unwrap().as_ref(), Some(&raw));
        let email = snapshot.email(account, copy).unwrap().unwrap();
        assert_eq!(
            (email.mailboxes, email.received_at),
            (BTreeSet::from([MailboxUid(uid)]), UtcMillis(77))
        );
    }
    assert!(copy(bob, 9).is_err(), "no such mailbox");
    // Each email has a reference to the message of its own. The first upkeep purges two emails. The
    // second one would collect the message if Bob's email did not refer to it.
    fixture.destroy(id);
    fixture.destroy(here);
    fixture.clock.advance(GRACE);
    fixture.upkeep(GRACE).unwrap();
    fixture.clock.advance(GRACE);
    fixture.upkeep(GRACE).unwrap();
    assert!(fixture.store.snapshot().message(bob, there).unwrap().is_some());
    assert_eq!(fixture.rows(Table::BlobPurge), 0);
    assert_clean(&fixture.store);
}

#[test]
fn a_purge_deletes_expired_emails_and_moves_the_low_marks() {
    let fixture = fixture();
    let (one, two, apart) =
        (fixture.deliver(1, &[1]), fixture.deliver(2, &[1]), fixture.deliver(3, &[2]));
    fixture.destroy(one);
    let first = fixture.store.snapshot().state(ACCOUNT, DataType::Email).unwrap();
    fixture.clock.advance(DAY);
    fixture.destroy(two);
    let second = fixture.store.snapshot().state(ACCOUNT, DataType::Email).unwrap();
    fixture.clock.advance(GRACE - DAY - MS);
    let purge = |limit| fixture.done(|txn| txn.purge_emails(fixture.upto(GRACE), limit)).unwrap();
    assert_eq!(purge(9), PurgeResult::default());
    fixture.clock.advance(MS);
    assert_eq!(purge(9), PurgeResult { emails: 1, threads: 0, has_more: false });
    assert_eq!((fixture.low(DataType::Email), fixture.low(DataType::Thread)), (first, ModSeq(0)));
    assert_eq!(fixture.store.snapshot().email_or_tombstone(ACCOUNT, one).unwrap(), None);
    assert_clean(&fixture.store);
    let changes = |since: u64| {
        let since = ClientState::at(ModSeq(since));
        fixture
            .store
            .snapshot()
            .email_changes(ACCOUNT, since, 9)
            .unwrap()
            .map(|changes| changes.destroyed)
    };
    assert_eq!((changes(first.0 - 1), changes(first.0)), (None, Some(vec![two])));
    // The thread died with its second email, and is purged with it.
    fixture.clock.advance(DAY);
    assert_eq!(purge(1), PurgeResult { emails: 1, threads: 1, has_more: true });
    assert_eq!((fixture.low(DataType::Email), fixture.low(DataType::Thread)), (second, second));
    // A purge takes no change number. Email `apart` is left.
    let state = fixture.store.snapshot().account_state(ACCOUNT).unwrap();
    assert_eq!((state.modseq, state.unfolded, state.emails), (second, 1, 1));
    assert_eq!(
        (
            fixture.rows(Table::Threads),
            fixture.rows(Table::EmailContent),
            fixture.rows(Table::BlobRefs)
        ),
        (1, 1, 1)
    );
    let threads = |since| {
        fixture.store.snapshot().thread_changes(ACCOUNT, ClientState::at(since), 9).unwrap()
    };
    assert!(threads(first).is_none() && threads(second).is_some());
    assert_clean(&fixture.store);
    // Purges a single email, whatever its time.
    fixture.destroy(apart);
    assert_eq!(fixture.done(|txn| txn.purge_email(one)), Err(Error::NotFound("destroyed email")));
    fixture.done(|txn| txn.purge_email(apart)).unwrap();
    assert_eq!(fixture.rows(Table::EmailMetadata), 0);
    assert_clean(&fixture.store);
}

#[test]
fn a_clock_that_goes_back_leaves_no_dead_thread() {
    let fixture = fixture();
    let (one, two) = (fixture.deliver(1, &[1]), fixture.deliver(2, &[1]));
    fixture.destroy(one);
    fixture.clock.set(fixture.clock.now().before(DAY));
    fixture.destroy(two);
    fixture.clock.advance(GRACE);
    assert_eq!(fixture.done(|txn| txn.purge_emails(fixture.upto(GRACE), 9)).unwrap().threads, 1);
    assert_clean(&fixture.store);
    fixture.clock.advance(DAY);
    assert_eq!(fixture.done(|txn| txn.purge_emails(fixture.upto(GRACE), 9)).unwrap().emails, 1);
    assert_eq!((fixture.rows(Table::EmailMetadata), fixture.rows(Table::Threads)), (0, 0));
    assert_clean(&fixture.store);
}

#[test]
fn history_is_purged_when_an_old_note_covers_it() {
    let fixture = fixture();
    let inbox = MailboxUid(1);
    let listing = |shape| Listing { uid: inbox, filter: ListingFilter::Every, shape };
    let ids: Vec<EmailId> = (0..3u8).map(|n| fixture.deliver(u32::from(n), &[n])).collect();
    let archive = |id| {
        fixture
            .done(|txn| txn.update_email(id, BTreeSet::from([MailboxUid(3)]), BTreeSet::new()))
            .unwrap()
    };
    archive(ids[0]);
    archive(ids[1]);
    let noted = fixture.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
    assert!(fixture.done(|txn| txn.note_history(DAY)).unwrap());
    archive(ids[2]);
    // A note, which records the newest change and the time of the note, is made once a day, and
    // only if the account changed.
    fixture.clock.advance(DAY - MS);
    assert!(!fixture.done(|txn| txn.note_history(DAY)).unwrap());
    fixture.clock.advance(MS);
    assert!(fixture.done(|txn| txn.note_history(DAY)).unwrap());
    fixture.clock.advance(DAY);
    assert!(!fixture.done(|txn| txn.note_history(DAY)).unwrap());
    let inbox_listing = || {
        fixture
            .store
            .snapshot()
            .maintained_listing(ACCOUNT, inbox, ListingFilter::Every)
            .unwrap()
            .unwrap()
    };
    let gone_since = |since: u64| {
        let moves = fixture
            .store
            .snapshot()
            .listing_moves(ACCOUNT, listing(Shape::Emails), ModSeq(since), 99)
            .unwrap()
            .unwrap();
        moves.gone.len()
    };
    let purge = |limit| fixture.done(|txn| txn.purge_history(fixture.upto(GRACE), limit)).unwrap();
    fixture.clock.advance(GRACE - 2 * DAY - MS);
    assert!(!purge(99));
    assert_eq!(inbox_listing().emails.low, ModSeq(0));
    fixture.clock.advance(MS);
    // After each piece, the low mark of a shape is the highest change that was purged from it.
    assert!(purge(1));
    assert_eq!(
        (inbox_listing().emails.low.0, inbox_listing().threads.low),
        (noted.0 - 1, ModSeq(0))
    );
    assert_clean(&fixture.store);
    while purge(1) {}
    assert_eq!((inbox_listing().emails.low, gone_since(noted.0)), (noted, 1));
    let state = fixture
        .store
        .snapshot()
        .listing_state(ACCOUNT, listing(Shape::Emails), &inbox_listing())
        .unwrap();
    assert_eq!(state.0, noted.0 + 1);
    fixture.clock.advance(DAY);
    assert!(!purge(99));
    assert_eq!((inbox_listing().emails.low.0, fixture.rows(Table::History)), (noted.0 + 1, 0));
    // The state does not go back when all history is purged.
    assert_eq!(
        fixture
            .store
            .snapshot()
            .listing_state(ACCOUNT, listing(Shape::Emails), &inbox_listing())
            .unwrap(),
        inbox_listing().emails.low
    );
    assert_clean(&fixture.store);
}

#[test]
fn a_destroyed_mailbox_leaves_no_rows_and_its_tombstone_is_reported_until_purged() {
    let fixture = fixture();
    let archive = MailboxUid(3);
    for n in 0..6u8 {
        let id = fixture.deliver(u32::from(n), &[n % 2]);
        fixture
            .done(|txn| txn.update_email(id, BTreeSet::from([archive]), words(&["$flagged"])))
            .unwrap();
    }
    make_account(&fixture.store, AccountId(2));
    fixture.done(|txn| txn.subscribe(archive, AccountId(2), true)).unwrap();
    // Listings that are being filled or dropped have rows when the mailbox is destroyed.
    fixture.done(|txn| txn.extend_listing(archive, ListingFilter::Flagged, 2)).unwrap();
    fixture.done(|txn| txn.extend_listing(archive, ListingFilter::Unseen, 99)).unwrap();
    fixture.done(|txn| txn.drop_listing(archive, ListingFilter::Unseen, 2)).unwrap();
    let before = fixture.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
    while fixture.done(|txn| txn.empty_mailbox(archive, 2)).unwrap() {}
    fixture.done(|txn| txn.destroy_mailbox(archive)).unwrap();
    assert_clean(&fixture.store);
    let changes = |since| {
        fixture.store.snapshot().mailbox_changes(ACCOUNT, ClientState::at(since), 99).unwrap()
    };
    assert_eq!(changes(before).unwrap().changes.destroyed, [archive]);
    let under = |table: Table| {
        let rows = fixture.engine.inner().rows(table);
        rows.iter()
            .filter(|(key, _)| {
                key.starts_with(&MailboxKey { account: ACCOUNT, mailbox: archive }.encode())
            })
            .count()
    };
    assert!(under(Table::MailboxEmailList) > 5);
    while fixture.done(|txn| txn.clear_destroyed_mailboxes(2)).unwrap() {
        assert_clean(&fixture.store);
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
    assert_clean(&fixture.store);
    fixture.done(|txn| txn.note_history(DAY)).unwrap();
    let destroyed = fixture.store.snapshot().account_state(ACCOUNT).unwrap().modseq;
    fixture.clock.advance(GRACE - MS);
    while fixture.done(|txn| txn.purge_history(fixture.upto(GRACE), 3)).unwrap() {}
    assert_eq!(fixture.low(DataType::Mailbox), ModSeq(0));
    fixture.clock.advance(MS);
    while fixture.done(|txn| txn.purge_history(fixture.upto(GRACE), 3)).unwrap() {}
    assert_eq!((fixture.low(DataType::Mailbox), under(Table::Mailboxes)), (destroyed, 0));
    assert!(changes(before).is_none() && changes(destroyed).is_some());
    assert_clean(&fixture.store);
}

/// Makes rows that upkeep deletes: emails, a destroyed mailbox, a restored email. Runs upkeep on
/// four days.
fn make_rows_for_upkeep(fixture: &Fixture) -> Result<(), Error> {
    for n in 0..6u8 {
        fixture.deliver_to(ACCOUNT, n.into(), &[n % 3])?;
        fixture.clock.advance(DAY);
    }
    let ids: Vec<EmailId> =
        fixture.store.snapshot().emails(ACCOUNT, None, 9)?.into_iter().map(|(id, _)| id).collect();
    let archive = MailboxUid(3);
    for id in ids.iter().take(4) {
        fixture.done(|txn| txn.update_email(*id, BTreeSet::from([archive]), BTreeSet::new()))?;
    }
    fixture.done(|txn| txn.extend_listing(archive, ListingFilter::Unseen, 9))?;
    while fixture.done(|txn| txn.empty_mailbox(archive, 3))? {}
    fixture.done(|txn| txn.destroy_mailbox(archive))?;
    let destroyed = fixture.store.snapshot().destroyed_emails(ACCOUNT, UtcMillis(0), 9)?;
    let n = u32::try_from(destroyed[0].email.received_at.0).unwrap();
    fixture.restore(destroyed[0].id, n)?;
    for _ in 0..4 {
        fixture.upkeep(2 * DAY)?;
        fixture.clock.advance(DAY);
    }
    Ok(())
}

#[test]
fn the_store_is_valid_after_a_failure_at_any_write_and_upkeep_goes_on() {
    let mut writes = 0;
    loop {
        let fixture = fixture();
        fixture.engine.fail_after(writes, Error::Full);
        let done = make_rows_for_upkeep(&fixture);
        fixture.engine.heal();
        assert_clean(&fixture.store);
        let options = Options { ranked_above: Some(2), ..Options::small() };
        let store =
            Store::open_engine(fixture.engine.clone(), &options, fixture.clock.clone()).unwrap();
        let fixture = Fixture { store, ..fixture };
        for _ in 0..4 {
            fixture.upkeep(2 * DAY).unwrap();
            fixture.clock.advance(DAY);
        }
        assert_clean(&fixture.store);
        assert_eq!(fixture.rows(Table::EmailPurge), 0);
        if done.is_ok() {
            assert!(writes > 40, "{writes}");
            return;
        }
        writes += 1;
    }
}

#[test]
fn notes_and_sweeps_that_a_wrong_clock_dated_in_the_future_do_not_stop_later_ones() {
    let fixture = fixture();
    // A sweep with a number that no other has. It notes no progress, so it counts as finished.
    let sweep = || {
        fixture.on(AccountId::SITE, |txn| txn.begin_or_resume_sweep::<table::Blobs>(9, &(), DAY))
    };
    let right = fixture.clock.now();
    fixture.deliver(1, &[]);
    fixture.clock.set(right.after(1000 * DAY));
    assert!(fixture.done(|txn| txn.note_history(DAY)).unwrap());
    assert!(sweep().unwrap().is_some());
    assert!(sweep().unwrap().is_none());
    fixture.clock.set(right);
    fixture.deliver(2, &[]);
    assert!(fixture.done(|txn| txn.note_history(DAY)).unwrap());
    assert!(sweep().unwrap().is_some());
    assert!(!fixture.done(|txn| txn.note_history(DAY)).unwrap());
    assert!(sweep().unwrap().is_none());
    assert_clean(&fixture.store);
}

#[test]
fn email_is_not_restored_elsewhere_if_its_mailbox_cannot_be_read() {
    let fixture = fixture();
    let (id, archive) = (fixture.deliver(1, &[]), MailboxUid(3));
    let mailboxes = BTreeSet::from([archive]);
    fixture.done(|txn| txn.update_email(id, mailboxes.clone(), BTreeSet::new())).unwrap();
    fixture.destroy(id);
    let key = MailboxKey { account: ACCOUNT, mailbox: archive }.encode();
    let row = fixture.engine.inner().get(Table::Mailboxes, &key).unwrap();
    let write = |value| {
        let put = Put { table: Table::Mailboxes, key: key.clone(), value };
        fixture.engine.write(&[Arc::new(Batch::of(vec![put]))]).unwrap();
    };
    write(Some(vec![99]));
    let refused = fixture.restore(id, 1);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    write(row);
    let back = fixture.restore(id, 1).unwrap();
    let email = fixture.store.snapshot().email(ACCOUNT, back).unwrap().unwrap();
    assert_eq!(email.mailboxes, mailboxes);
    assert_clean(&fixture.store);
}
