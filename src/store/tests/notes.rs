//! Notes of history by a clock that is wrong.

use super::fixture::{DAY, GRACE, fixture};
use super::*;
use crate::model::ModSeq;

/// The machine starts without a clock, and upkeep runs before the time is set.
#[test]
fn note_that_a_wrong_clock_dated_in_the_past_purges_nothing_new() {
    let fixture = fixture();
    fixture.deliver(1, &[]);
    assert!(fixture.done(|txn| txn.note_history(DAY)).unwrap());
    let id = fixture.deliver(2, &[]);
    fixture
        .done(|txn| txn.update_email(id, BTreeSet::from([MailboxUid(3)]), BTreeSet::new()))
        .unwrap();
    let right = fixture.clock.now();
    fixture.clock.set(right.before(1000 * DAY));
    assert!(fixture.done(|txn| txn.note_history(DAY)).unwrap());
    fixture.clock.set(right);
    assert!(fixture.done(|txn| txn.note_history(DAY)).unwrap());
    let purge = || while fixture.done(|txn| txn.purge_history(fixture.upto(GRACE), 9)).unwrap() {};
    let low = || {
        let found = fixture.store.snapshot().maintained_listing(
            ACCOUNT,
            MailboxUid(1),
            ListingFilter::Every,
        );
        found.unwrap().unwrap().emails.low
    };
    purge();
    assert_eq!(low(), ModSeq(0));
    fixture.clock.advance(GRACE);
    purge();
    assert!(low() > ModSeq(0));
    assert_clean(&fixture.store);
}
