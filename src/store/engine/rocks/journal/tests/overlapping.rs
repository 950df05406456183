//! Writes that overlap: what the second sees of the first, and what comes of both if the tables
//! refuse the rows of the first.

use std::time::Duration;

use super::*;
use crate::model::AccountId;
use crate::model::clock::Stopwatch;
use crate::store::engine::Base;

type Written = Result<Vec<usize>, Error>;

/// A batch of an account with these rows and assertions.
fn batch(account: u32, puts: Vec<Put>, asserts: Vec<Put>) -> Arc<Batch> {
    let bases = vec![Base { account: AccountId(account), version: 0 }];
    Arc::new(Batch { bases, asserts, ..Batch::of(puts) })
}

/// Writes two groups. The second is durable before the rows of the first go to the tables, which
/// refuse them if `refused`.
fn write_two(
    engine: &RocksEngine,
    first: &[Arc<Batch>],
    second: &[Arc<Batch>],
    refused: Option<&Error>,
) -> (Written, Written) {
    std::thread::scope(|scope| {
        let mut other = None;
        let first = engine.write_overlapping(1, first, &mut || {
            let syncs = engine.segments.syncs();
            other = Some(scope.spawn(|| engine.write_overlapping(2, second, &mut || {})));
            let begun = Stopwatch::start();
            while engine.segments.syncs() == syncs {
                assert!(begun.elapsed() < Duration::from_secs(20), "the second does not begin");
                std::thread::sleep(Duration::from_millis(1));
            }
            *engine.journal.next_refusal.lock() = refused.cloned();
        });
        (first, other.unwrap().join().unwrap())
    })
}

#[test]
fn a_write_sees_the_rows_of_the_one_before_that_are_not_in_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    write(&engine, vec![put(1, Some(1)), put(2, Some(2))]);
    let first = [
        batch(1, vec![put(1, Some(10)), put(2, None)], vec![put(1, Some(1))]),
        batch(2, vec![put(5, Some(5))], vec![put(9, Some(9))]),
    ];
    let second = [
        batch(3, vec![put(3, Some(3))], vec![put(1, Some(10)), put(2, None)]),
        batch(4, vec![put(4, Some(4))], vec![put(1, Some(1))]),
        // Its own assertions hold, but a batch of the account was stale.
        batch(2, vec![put(6, Some(6))], vec![]),
        batch(1, vec![put(7, Some(7))], vec![]),
    ];
    let (first, second) = write_two(&engine, &first, &second, None);
    assert_eq!(first, Ok(vec![1]));
    assert_eq!(second, Ok(vec![1, 2]));
    engine.handled(1);
    let built_on_it = [batch(2, vec![put(8, Some(8))], vec![])];
    let third = engine.write_overlapping(3, &built_on_it, &mut || {});
    assert_eq!(third, Ok(vec![0]), "the caller may not know of the stale batch yet");
    engine.handled(2);
    engine.handled(3);
    let later = engine.write_overlapping(3, &[batch(2, vec![put(8, Some(8))], vec![])], &mut || {});
    assert_eq!(later, Ok(vec![]));
    let expected = [(1, 10), (3, 3), (7, 7), (8, 8)];
    assert_eq!(rows(&engine), expected);
    drop(engine);
    assert_eq!(rows(&open(dir.path())), expected);
}

#[test]
fn both_writes_are_cancelled_if_the_tables_refuse_the_first() {
    for crashes in [false, true] {
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let engine = open(dir.path());
        write(&engine, vec![put(1, Some(1))]);
        let (first, second) =
            (batch(1, vec![put(1, Some(2))], vec![]), batch(2, vec![put(2, None)], vec![]));
        let written = write_two(&engine, &[first], &[second], Some(&Error::Full));
        assert_eq!(written, (Err(Error::Full), Err(Error::Full)));
        let third = [batch(3, vec![put(3, Some(3))], vec![])];
        let built_on_it = engine.write_overlapping(3, &third, &mut || {});
        assert_eq!(built_on_it, Err(Error::Full), "the caller may not know of the failure yet");
        let mut expected = vec![(1, 1)];
        if !crashes {
            engine.end_overlap();
            assert_eq!(engine.write_overlapping(3, &third, &mut || {}), Ok(vec![]));
            expected.push((3, 3));
        }
        assert_eq!(rows(&engine), expected);
        crate::store::engine::rocks::image::copy_store(dir.path(), copy.path());
        drop(engine);
        for dir in [&dir, &copy] {
            let again = open(dir.path());
            assert_eq!(rows(&again), expected);
            write(&again, vec![put(4, Some(4))]);
            drop(again);
            assert_eq!(rows(&open(dir.path())), [&expected[..], &[(4, 4)]].concat());
        }
    }
}

#[test]
fn a_write_by_itself_goes_on_after_one_that_was_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    *engine.journal.next_refusal.lock() = Some(Error::Full);
    assert_eq!(engine.write(&[batch(1, vec![put(1, Some(1))], vec![])]), Err(Error::Full));
    write(&engine, vec![put(2, Some(2))]);
    drop(engine);
    assert_eq!(rows(&open(dir.path())), [(2, 2)]);
}
