//! Uploads: who may read them, how long they are stored, and which are deleted to make room.

use super::fixture::{DAY, Fixture, MS, fixture};
use super::*;
use crate::model::limits;

const BOB: AccountId = AccountId(2);
/// The most bytes that the uploads of a user may have together.
const ROOM: u64 = 100;

fn hash(raw: &[u8]) -> BlobHash {
    BlobHash(*blake3::hash(raw).as_bytes())
}

/// Uploads bytes to `ACCOUNT`, a millisecond after the last upload.
fn put(fixture: &Fixture, user: AccountId, raw: &[u8]) -> Result<UploadRow, Error> {
    fixture.clock.advance(MS);
    fixture.done(|txn| txn.put_upload(user, &hash(raw), raw, "text/plain", ROOM))
}

fn is_there(fixture: &Fixture, user: AccountId, raw: &[u8]) -> bool {
    let found =
        fixture.store.snapshot().upload_part(ACCOUNT, user, &hash(raw), 0..u64::MAX).unwrap();
    assert!(found.as_deref().is_none_or(|bytes| bytes == raw));
    found.is_some()
}

#[test]
fn an_upload_belongs_to_its_user_and_expires() {
    let fixture = fixture();
    make_account(&fixture.store, BOB);
    put(&fixture, BOB, b"one").unwrap();
    assert!(is_there(&fixture, BOB, b"one") && !is_there(&fixture, ACCOUNT, b"one"));
    assert_eq!(
        fixture.store.snapshot().upload(BOB, BOB, &hash(b"one")).unwrap(),
        None,
        "it is in the other account"
    );
    let expire = |retention| {
        while fixture.done(|txn| txn.expire_uploads(fixture.upto(retention), 1)).unwrap() {}
    };
    fixture.clock.advance(DAY - MS);
    expire(DAY);
    assert!(is_there(&fixture, BOB, b"one"));
    // The same bytes again: the retention begins anew, and the media type is the new one.
    let again =
        fixture.done(|txn| txn.put_upload(BOB, &hash(b"one"), b"one", "text/html", ROOM)).unwrap();
    fixture.clock.advance(MS);
    expire(DAY);
    assert_eq!(fixture.store.snapshot().upload(ACCOUNT, BOB, &hash(b"one")).unwrap(), Some(again));
    fixture.clock.advance(DAY);
    expire(DAY);
    assert!(!is_there(&fixture, BOB, b"one"));
    assert_clean(&fixture.store);
    // Its bytes are collected after the last hold is released, not in the same commit (RFC 8620
    // §6).
    let collect = || {
        fixture.on(AccountId::SITE, |txn| txn.collect_blobs(fixture.upto(DAY), 9)).unwrap().blobs
    };
    assert_eq!((collect(), fixture.rows(Table::Blobs)), (0, 1));
    fixture.clock.advance(DAY);
    assert_eq!((collect(), fixture.rows(Table::Blobs)), (1, 0));
}

#[test]
fn the_oldest_uploads_are_deleted_to_make_room_and_no_more_than_needed() {
    let fixture = fixture();
    make_account(&fixture.store, BOB);
    let (first, second, third) = ([b'a'; 40], [b'b'; 40], [b'c'; 20]);
    put(&fixture, BOB, &[b'z'; 100]).unwrap();
    for raw in [&first[..], &second, &third] {
        put(&fixture, ACCOUNT, raw).unwrap();
    }
    // The first one is uploaded again, so the second is the oldest.
    put(&fixture, ACCOUNT, &first).unwrap();
    put(&fixture, ACCOUNT, b"d").unwrap();
    let there = |raw: &[u8]| is_there(&fixture, ACCOUNT, raw);
    assert!(there(&first) && !there(&second) && there(&third) && there(b"d"));
    assert!(is_there(&fixture, BOB, &[b'z'; 100]), "each user's uploads count for themselves");
    assert_eq!(put(&fixture, ACCOUNT, &[b'e'; 101]).unwrap_err(), Error::Quota);
    assert!(there(&first), "a refused upload deletes nothing");
    put(&fixture, ACCOUNT, &[b'e'; 100]).unwrap();
    assert!(!there(&first) && !there(&third) && !there(b"d") && there(&[b'e'; 100]));
    assert_clean(&fixture.store);
    for wrong in ["text/\r\nplain".to_owned(), "x".repeat(limits::MAX_MEDIA_TYPE_BYTES + 1)] {
        let refused = fixture.done(|txn| txn.put_upload(ACCOUNT, &hash(b"f"), b"f", &wrong, ROOM));
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    }
}

#[test]
fn uploads_are_bounded_in_number() {
    let fixture = fixture();
    let hash = |n: usize| BlobHash(*blake3::hash(&n.to_be_bytes()).as_bytes());
    fixture
        .done(|txn| {
            (0..limits::MAX_UPLOADS + 1).try_for_each(|n| {
                txn.put_upload(ACCOUNT, &hash(n), &n.to_be_bytes(), "", limits::MAX_UPLOADED_BYTES)
                    .map(drop)
            })
        })
        .unwrap();
    assert_eq!(fixture.rows(Table::Uploads), limits::MAX_UPLOADS);
    assert_clean(&fixture.store);
}

#[test]
fn stored_bytes_are_held_by_a_copy_and_collected_ones_stay_gone() {
    let fixture = fixture();
    make_account(&fixture.store, BOB);
    let long = vec![b'x'; 2 * row::FRAME_BYTES];
    for raw in [b"short".to_vec(), long] {
        let id = hash(&raw);
        let room = limits::MAX_UPLOADED_BYTES;
        fixture.done(|txn| txn.put_upload(ACCOUNT, &id, &raw, "text/plain", room)).unwrap();
        fixture.clock.advance(DAY);
        fixture.on(BOB, |txn| txn.hold_upload(BOB, &id, "text/x-copy", room)).unwrap();
        fixture.done(|txn| txn.expire_uploads(txn.now(), 9)).unwrap();
        assert_clean(&fixture.store);
        fixture.clock.advance(2 * DAY);
        let collect = || fixture.on(AccountId::SITE, |txn| txn.collect_blobs(fixture.upto(DAY), 9));
        assert_eq!(collect().unwrap().blobs, 0, "Bob's upload holds the bytes");
        let part = fixture.store.snapshot().upload_part(BOB, BOB, &id, 1..3).unwrap().unwrap();
        assert_eq!(part, raw[1..3]);
        // An upload begins to hold the bytes between the collection's look and its commit.
        fixture.on(BOB, |txn| txn.expire_uploads(txn.now(), 9)).unwrap();
        fixture.clock.advance(DAY);
        let between = fixture.on(AccountId::SITE, |txn| {
            let done = txn.collect_blobs(fixture.upto(DAY), 9)?;
            assert_eq!(done.blobs, 1);
            fixture.on(BOB, |txn| txn.hold_upload(BOB, &id, "", room)).map(|_| done)
        });
        assert!(matches!(between, Err(Error::Overtaken(_))), "{between:?}");
        assert_clean(&fixture.store);
        fixture.on(BOB, |txn| txn.expire_uploads(txn.now(), 9)).unwrap();
        fixture.clock.advance(DAY);
        // The bytes are collected between the upload's look and its commit. A row in `blobs` that
        // has the bytes itself is written again. One without them must not be (`Overtaken`).
        let late = fixture.on(BOB, |txn| {
            txn.hold_upload(BOB, &id, "", room)?;
            assert_eq!(collect().unwrap().blobs, 1);
            Ok(())
        });
        assert!(late.is_ok() || matches!(late, Err(Error::Overtaken(_))), "{late:?}");
        assert_clean(&fixture.store);
        fixture.on(BOB, |txn| txn.expire_uploads(txn.now(), 9)).unwrap();
        fixture.clock.advance(DAY);
        collect().unwrap();
        assert_eq!(
            fixture.on(BOB, |txn| txn.hold_upload(BOB, &id, "", room)),
            Err(Error::NotFound("blob"))
        );
    }
}

#[test]
fn an_erased_account_releases_its_uploads() {
    let fixture = fixture();
    put(&fixture, ACCOUNT, b"one").unwrap();
    fixture.clock.advance(DAY);
    assert!(!fixture.done(|txn| txn.erase(999)).unwrap());
    assert_eq!(
        (
            fixture.rows(Table::Uploads),
            fixture.rows(Table::UploadBlobs),
            fixture.rows(Table::BlobPurge)
        ),
        (0, 0, 1)
    );
    assert_clean(&fixture.store);
}
