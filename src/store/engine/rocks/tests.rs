//! What RocksDB does with the remains of deleted rows and with its cache, that its walks find what
//! scans find, and how figures of its report are parsed.

use std::time::Duration;

use proptest::prelude::*;

use super::super::suite::walk_rows;
use super::remains::{MIN_CLEARED_REMAINS, remains_passed};
use super::*;

fn batch(rows: u32, value: Option<&[u8]>) -> Arc<Batch> {
    let put = |number: u32| Put {
        table: Table::MailboxEmailIndex,
        key: number.to_be_bytes().to_vec(),
        value: value.map(<[u8]>::to_vec),
    };
    Arc::new(Batch::of((0..rows).map(put).collect()))
}

#[test]
fn scan_over_many_remains_has_them_flushed() {
    const ROWS: u32 = 8192;
    let dir = tempfile::tempdir().unwrap();
    let rocks = RocksEngine::open(dir.path(), &Options::default()).unwrap();
    let first = || {
        let mut first = None;
        rocks
            .scan(Table::MailboxEmailIndex, &[], &[0xff], false, &mut |key, _| {
                first = Some(key.to_vec());
                Ok(false)
            })
            .unwrap();
        first
    };
    rocks.write(&[batch(ROWS, Some(b"row"))]).unwrap();
    let family = rocks.family(Table::MailboxEmailIndex).unwrap();
    rocks.db.flush_cf(family).unwrap();
    let in_memory = || {
        rocks
            .db
            .property_int_value_cf(family, "rocksdb.num-deletes-active-mem-table")
            .unwrap()
            .unwrap()
    };
    rocks.write(&[batch(100, None)]).unwrap();
    assert_eq!(first(), Some(100u32.to_be_bytes().to_vec()));
    assert_eq!(in_memory(), 100, "few remains cause no flush");
    rocks.write(&[batch(ROWS - 1, None)]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(in_memory() >= u64::from(ROWS), "no scan has stepped over them");
    let last = Some((ROWS - 1).to_be_bytes().to_vec());
    assert_eq!(first(), last);
    // Without further writes, that scan has the remains flushed, and then they are compacted. A few
    // may stay.
    let passed = || {
        let before = remains_passed();
        assert_eq!(first(), last);
        remains_passed() - before
    };
    let mut left = u64::MAX;
    for _ in 0..500 {
        left = passed();
        if left < MIN_CLEARED_REMAINS / 16 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(left < MIN_CLEARED_REMAINS / 16, "the scan still steps over {left} remains");
}

/// A batch that writes the rows with these numbers. Their keys ascend with the numbers and belong
/// to one neighbourhood.
fn rows_of(numbers: impl Iterator<Item = u32>, value: Option<&[u8]>) -> Arc<Batch> {
    let key = |number: u32| [&[7; 10][..], &u64::from(number).to_be_bytes()].concat();
    let put = |number| Put {
        table: Table::MailboxEmailIndex,
        key: key(number),
        value: value.map(<[u8]>::to_vec),
    };
    Arc::new(Batch::of(numbers.map(put).collect()))
}

/// Counts the remains that a scan for the first row steps over.
fn passed_to_first(rocks: &RocksEngine) -> u64 {
    let before = remains_passed();
    rocks.scan(Table::MailboxEmailIndex, &[], &[0xff], false, &mut |_, _| Ok(false)).unwrap();
    remains_passed() - before
}

#[test]
fn rows_written_and_deleted_before_a_flush_are_cleared_without_a_read() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = RocksEngine::open(dir.path(), &Options::default()).unwrap();
    rocks.write(&[rows_of(0..20_001, Some(b"row"))]).unwrap();
    assert!(!rocks.has_remains() && !rocks.clear_remains().unwrap());
    for thousand in 0..20 {
        rocks.write(&[rows_of(thousand * 1000..(thousand + 1) * 1000, None)]).unwrap();
        // They are examined from 4,096 deletions on.
        assert_eq!(rocks.has_remains(), thousand >= 4);
    }
    // The first call leaves the rows for the next, since they were just deleted; it writes no file.
    let flushed = || rocks.statistics().table_bytes;
    assert!(rocks.clear_remains().unwrap());
    assert_eq!(flushed(), 0);
    assert!(!rocks.clear_remains().unwrap());
    assert!(!rocks.has_remains() && flushed() > 0);
    assert_eq!(passed_to_first(&rocks), 0);
    assert_eq!(
        rocks
            .get(Table::MailboxEmailIndex, &rows_of(20_000..20_001, None).puts[0].key)
            .unwrap()
            .unwrap(),
        b"row"
    );
}

#[test]
fn remains_behind_live_rows_are_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = RocksEngine::open(dir.path(), &Options::default()).unwrap();
    rocks.write(&[rows_of(0..20_000, Some(b"row"))]).unwrap();
    rocks.db.flush_cf(rocks.family(Table::MailboxEmailIndex).unwrap()).unwrap();
    rocks.write(&[rows_of(10..10_000, None)]).unwrap();
    while rocks.clear_remains().unwrap() {}
    let (mut rows, before) = (0, remains_passed());
    let mut each = |_: &[u8], _: &[u8]| {
        rows += 1;
        Ok(rows < 20)
    };
    rocks.scan(Table::MailboxEmailIndex, &[], &[0xff], false, &mut each).unwrap();
    assert_eq!((rows, remains_passed() - before), (20, 0));
}

#[test]
fn deletions_scattered_among_live_rows_cause_no_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = RocksEngine::open(dir.path(), &Options::default()).unwrap();
    rocks.write(&[rows_of(0..40_000, Some(b"row"))]).unwrap();
    rocks.write(&[rows_of((0..40_000).filter(|number| number % 2 == 0), None)]).unwrap();
    assert!(rocks.has_remains());
    while rocks.clear_remains().unwrap() {}
    assert!(!rocks.has_remains());
    assert_eq!(rocks.statistics().table_bytes, 0);
}

#[test]
fn scans_of_a_sweeping_snapshot_do_not_fill_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = RocksEngine::open(dir.path(), &Options::default()).unwrap();
    let table = Table::MailboxEmailIndex;
    rocks.write(&[batch(20_000, Some(&[b'x'; 100]))]).unwrap();
    let family = rocks.family(table).unwrap();
    rocks.db.flush_cf(family).unwrap();
    let cached =
        || rocks.db.property_int_value_cf(family, "rocksdb.block-cache-usage").unwrap().unwrap();
    let read = |read: &dyn RowReader| {
        let before = cached();
        let mut rows = 0;
        let mut each = |_: &[u8], _: &[u8]| {
            rows += 1;
            Ok(true)
        };
        read.scan(table, &[], &[0xff], false, &mut each).unwrap();
        assert_eq!(rows, 20_000);
        cached().saturating_sub(before)
    };
    let (sweeping, usual) = (read(&*rocks.sweeping_snapshot()), read(&*rocks.snapshot()));
    assert!(sweeping < usual / 8 && usual > 100_000, "{sweeping} {usual}");
}

/// A reader that walks by scans, as every engine does that does not override `walk`.
struct Scans<'a>(&'a RocksEngine);

impl RowReader for Scans<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.0.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        self.0.scan(table, from, to, reverse, each)
    }
}

#[test]
fn walks_find_the_rows_that_scans_find() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = RocksEngine::open(dir.path(), &Options::default()).unwrap();
    rocks.write(&[batch(60, Some(b"old"))]).unwrap();
    rocks.db.flush_cf(rocks.family(Table::MailboxEmailIndex).unwrap()).unwrap();
    rocks.write(&[batch(7, None)]).unwrap();
    rocks.write(&[batch(3, Some(b"new"))]).unwrap();
    let key = || (0u32..70).prop_map(|number| number.to_be_bytes().to_vec());
    let step = prop_oneof![
        2 => key().prop_map(WalkStep::At),
        2 => key().prop_map(WalkStep::Before),
        3 => Just(WalkStep::Next),
        3 => Just(WalkStep::Prev),
    ];
    let mut runner = proptest::test_runner::TestRunner::default();
    let walks = (key(), key(), proptest::collection::vec(step, 1..20));
    let table = Table::MailboxEmailIndex;
    let run = runner.run(&walks, |(from, to, steps)| {
        let wanted = walk_rows(&Scans(&rocks), table, [&from, &to], &steps);
        prop_assert_eq!(&walk_rows(&rocks, table, [&from, &to], &steps), &wanted);
        prop_assert_eq!(&walk_rows(&*rocks.snapshot(), table, [&from, &to], &steps), &wanted);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn figures_of_the_report_are_parsed_as_bytes() {
    let report = concat!(
        "Flush(GB): cumulative 1.500, interval 0.000\n",
        "Cumulative compaction: 0.25 GB write, 1.0 MB/s"
    );
    assert_eq!(parse_gib(report, "Flush(GB): cumulative "), 3 << 29);
    assert_eq!(parse_gib(report, "Cumulative compaction: "), 1 << 28);
    assert_eq!(parse_gib(report, "AddFile(GB): cumulative "), 0);
}
