use std::time::Duration;

use proptest::prelude::*;

use super::super::suite::walk_rows;
use super::remains::{REMAINS, remains_passed};
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
fn remains_that_a_scan_walks_over_are_flushed() {
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
    assert_eq!(in_memory(), 100, "few are no reason to flush");
    rocks.write(&[batch(ROWS - 1, None)]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(in_memory() >= u64::from(ROWS), "nobody walked over them");
    let last = Some((ROWS - 1).to_be_bytes().to_vec());
    assert_eq!(first(), last);
    // Nobody writes: that scan has them flushed, and what is flushed is compacted.
    let passed = || {
        let before = remains_passed();
        assert_eq!(first(), last);
        remains_passed() - before
    };
    let mut left = u64::MAX;
    for _ in 0..500 {
        left = passed();
        if left < REMAINS / 16 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(left < REMAINS / 16, "{left} remains are walked over");
}

/// Rows of which every key is behind those of the same number in an earlier one.
fn rows_of(numbers: impl Iterator<Item = u32>, value: Option<&[u8]>) -> Arc<Batch> {
    let key = |number: u32| [&[7; 10][..], &u64::from(number).to_be_bytes()].concat();
    let put = |number| Put {
        table: Table::MailboxEmailIndex,
        key: key(number),
        value: value.map(<[u8]>::to_vec),
    };
    Arc::new(Batch::of(numbers.map(put).collect()))
}

/// The deleted rows that a scan for the first row steps over.
fn passed_to_first(rocks: &RocksEngine) -> u64 {
    let before = remains_passed();
    rocks.scan(Table::MailboxEmailIndex, &[], &[0xff], false, &mut |_, _| Ok(false)).unwrap();
    remains_passed() - before
}

#[test]
fn rows_made_and_deleted_before_a_flush_are_cleared_without_a_reader() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = RocksEngine::open(dir.path(), &Options::default()).unwrap();
    rocks.write(&[rows_of(0..20_001, Some(b"row"))]).unwrap();
    assert!(!rocks.has_remains() && !rocks.clear_remains().unwrap());
    for thousand in 0..20 {
        rocks.write(&[rows_of(thousand * 1000..(thousand + 1) * 1000, None)]).unwrap();
        assert_eq!(rocks.has_remains(), thousand >= 4);
    }
    // The first look notes that more came since; nothing is written for it.
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
fn remains_behind_rows_that_stay_are_cleared() {
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
fn deletions_among_rows_that_stay_are_no_reason_to_write_files() {
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
fn what_a_sweep_reads_takes_no_place_in_the_cache() {
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
    let (swept, kept) = (read(&*rocks.sweeping_snapshot()), read(&*rocks.snapshot()));
    assert!(swept < kept / 8 && kept > 100_000, "{swept} {kept}");
}

/// Walks by scans, as an engine does that has no walk of its own.
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
fn a_walk_is_what_scans_would_find() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = RocksEngine::open(dir.path(), &Options::default()).unwrap();
    rocks.write(&[batch(60, Some(b"old"))]).unwrap();
    rocks.db.flush_cf(rocks.family(Table::MailboxEmailIndex).unwrap()).unwrap();
    rocks.write(&[batch(7, None)]).unwrap();
    rocks.write(&[batch(3, Some(b"new"))]).unwrap();
    let key = || (0u32..70).prop_map(|number| number.to_be_bytes().to_vec());
    let go = prop_oneof![
        2 => key().prop_map(WalkStep::At),
        2 => key().prop_map(WalkStep::Before),
        3 => Just(WalkStep::Next),
        3 => Just(WalkStep::Prev),
    ];
    let mut runner = proptest::test_runner::TestRunner::default();
    let walks = (key(), key(), proptest::collection::vec(go, 1..20));
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
fn a_figure_of_the_report_is_read_in_octets() {
    let report = "Flush(GB): cumulative 1.500, interval 0.000\nCumulative compaction: 0.25 GB write, 1.0 MB/s";
    assert_eq!(octets_after(report, "Flush(GB): cumulative "), 3 << 29);
    assert_eq!(octets_after(report, "Cumulative compaction: "), 1 << 28);
    assert_eq!(octets_after(report, "AddFile(GB): cumulative "), 0);
}
