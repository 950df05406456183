//! The journal: which rows that are only in it are there after an opening, when its segments may
//! be deleted, and how rows and the position are encoded.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::store::Options;
use crate::store::engine::{Batch, Engine as _};

fn open(dir: &Path) -> RocksEngine {
    RocksEngine::open(dir, &Options::small()).unwrap()
}

fn put(key: u8, value: Option<u8>) -> Put {
    Put { table: Table::Accounts, key: vec![key], value: value.map(|value| vec![value]) }
}

fn write(engine: &RocksEngine, puts: Vec<Put>) {
    assert!(engine.write(&[Arc::new(Batch::of(puts))]).unwrap().is_empty());
}

fn rows(engine: &dyn crate::store::engine::RowReader) -> Vec<(u8, u8)> {
    let mut rows = Vec::new();
    let each = &mut |key: &[u8], value: &[u8]| {
        rows.push((key[0], value[0]));
        Ok(true)
    };
    engine.scan(Table::Accounts, &[], &[0xff; 9], false, each).unwrap();
    rows
}

#[test]
fn rows_that_are_only_in_the_journal_are_there_after_every_opening() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    write(&engine, vec![put(1, Some(1)), put(2, Some(2)), put(3, Some(3))]);
    engine.flush_all(true).unwrap();
    write(&engine, vec![put(1, None), put(2, Some(9)), put(4, Some(4))]);
    drop(engine);
    let expected = vec![(2, 9), (3, 3), (4, 4)];
    for _ in 0..2 {
        let reader =
            crate::store::engine::rocks::open_read_only(dir.path(), &Options::small()).unwrap();
        assert_eq!(rows(&*reader), expected);
        assert_eq!(reader.get(Table::Accounts, &[1]).unwrap(), None);
        assert_eq!(reader.get(Table::Accounts, &[2]).unwrap(), Some(vec![9]));
        assert!(reader.write(&[Arc::new(Batch::of(vec![put(7, None)]))]).is_err());
    }
    let engine = open(dir.path());
    assert_eq!(rows(&engine), expected);
    // One table is flushed by itself, and is ahead of the position then.
    engine.db.flush_cf(engine.family(Table::Accounts).unwrap()).unwrap();
    write(&engine, vec![put(3, None)]);
    drop(engine);
    assert_eq!(rows(&open(dir.path())), [(2, 9), (4, 4)]);
}

#[test]
fn cancelled_rows_are_not_written_when_the_store_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    write(&engine, vec![put(1, Some(1))]);
    {
        let mut state = engine.journal.state.lock();
        let number = state.position.number + 1;
        let mut bytes = Vec::new();
        encode_put(&put(1, None), &mut bytes).unwrap();
        engine.segments.append_log(LogKind::Rows, number, &bytes).unwrap();
        let place = engine.segments.append_log(LogKind::Cancelled, number, &[]).unwrap();
        state.position = Position { number, place };
    }
    write(&engine, vec![put(2, Some(2))]);
    drop(engine);
    assert_eq!(rows(&open(dir.path())), [(1, 1), (2, 2)]);
}

#[test]
fn a_journal_that_ends_with_a_cancelled_frame_goes_on_after_every_opening() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for round in 0..6u8 {
        let engine = open(dir.path());
        assert_eq!(rows(&engine), expected);
        if round % 3 == 2 {
            delete_sealed(&engine);
        }
        if round % 2 == 0 {
            write(&engine, vec![put(round, Some(round))]);
            expected.push((round, round));
        }
        let mut state = engine.journal.state.lock();
        let number = state.position.number + 1;
        let mut bytes = Vec::new();
        encode_put(&put(99, Some(99)), &mut bytes).unwrap();
        engine.segments.append_log(LogKind::Rows, number, &bytes).unwrap();
        let place = engine.cancel(number).unwrap();
        state.position = Position { number, place };
        drop(state);
        if round % 2 == 1 {
            // This number is not below that of any flushed segment, so the tables are flushed.
            engine.release_log(&[u32::MAX]).unwrap();
        }
    }
}

/// New segments get numbers after that of the position's segment, even if its file is gone.
#[test]
fn rows_are_read_after_the_segment_of_the_position_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..6 {
        let engine = open(dir.path());
        write(&engine, vec![put(n, Some(n))]);
        drop(engine);
        // A process that writes nothing.
        let engine = open(dir.path());
        delete_sealed(&engine);
        drop(engine);
        let expected: Vec<_> = (0..=n).map(|n| (n, n)).collect();
        assert_eq!(rows(&open(dir.path())), expected);
    }
}

/// Deletes all segments but the one that is appended to.
fn delete_sealed(engine: &RocksEngine) {
    let sealed = engine.segments.usage().into_iter().filter(|one| one.is_sealed);
    let sealed: Vec<u32> = sealed.map(|one| one.segment).collect();
    engine.segments.retire(&sealed);
    engine.delete_segments(&sealed).unwrap();
}

#[test]
fn a_last_frame_whose_value_is_lost_does_not_count() {
    for deletes in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path());
        write(&engine, vec![put(1, Some(1))]);
        let value = engine.segments.append(&[7; 32], &[1; 3000]).unwrap();
        write(&engine, vec![put(2, Some(2))]);
        drop(engine);
        let files = std::fs::read_dir(dir.path().join("segments")).unwrap();
        let file = files.map(|file| file.unwrap().path()).max().unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        let at = usize::try_from(value.offset).unwrap();
        // A part of the value, with whole sectors in it, did not reach the disk.
        bytes[at + 1000..at + 2800].fill(0);
        std::fs::write(&file, bytes).unwrap();
        for n in 3..6 {
            let engine = open(dir.path());
            if deletes {
                delete_sealed(&engine);
            }
            assert!(!rows(&engine).contains(&(2, 2)));
            write(&engine, vec![put(n, Some(n))]);
        }
        assert_eq!(rows(&open(dir.path())), [(1, 1), (3, 3), (4, 4), (5, 5)]);
    }
}

#[test]
fn segments_are_released_only_when_their_rows_are_in_files() {
    let dir = tempfile::tempdir().unwrap();
    let engine =
        RocksEngine::open(dir.path(), &Options { segment_bytes: 400, ..Options::small() }).unwrap();
    for n in 0..40 {
        write(&engine, vec![put(n, Some(n))]);
    }
    let sealed: Vec<u32> =
        engine.segments.usage().iter().filter(|one| one.is_sealed).map(|one| one.segment).collect();
    assert!(sealed.len() > 4);
    engine.segments.retire(&sealed);
    assert!(engine.delete_segments(&sealed).unwrap().unwrap() > 0);
    write(&engine, vec![put(99, Some(99))]);
    drop(engine);
    let found = rows(&open(dir.path()));
    assert_eq!(found.len(), 41);
}

#[test]
fn rows_of_a_frame_are_read_as_they_were_written() {
    let puts = vec![
        Put { table: Table::Blobs, key: vec![1, 2], value: Some(vec![3; 300]) },
        Put { table: Table::Blobs, key: vec![], value: Some(vec![]) },
        Put { table: Table::Accounts, key: vec![9], value: None },
    ];
    let mut bytes = Vec::new();
    puts.iter().for_each(|put| encode_put(put, &mut bytes).unwrap());
    assert_eq!(decode_puts(&bytes), Some(puts));
    for cut in 1..bytes.len() {
        // Cut between two rows, the bytes are fewer rows.
        let whole = decode_puts(&bytes[..cut]).map(|puts| puts.len());
        assert!(whole.is_none_or(|rows| rows < 3), "{cut}");
    }
    assert_eq!(decode_puts(&[255; 20]), None);
}

#[test]
fn position_is_read_as_it_was_written() {
    let place = LogPlace { segment: 7, offset: 1 << 40 };
    let position = Position { number: 3, place };
    assert_eq!(Position::decode(&position.encode()), Some(position));
    assert_eq!(Position::decode(&[0; 19]), None);
}
