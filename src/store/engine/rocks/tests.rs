use std::time::Duration;

use super::*;

fn batch(rows: u32, value: Option<&[u8]>) -> Arc<Batch> {
    let put = |number: u32| Put {
        table: Table::MailboxEmailIndex,
        key: number.to_be_bytes().to_vec(),
        value: value.map(<[u8]>::to_vec),
    };
    Arc::new(Batch { puts: (0..rows).map(put).collect(), asserts: Vec::new() })
}

#[test]
fn remains_that_a_scan_walks_over_are_flushed() {
    const ROWS: u32 = 8192;
    let dir = tempfile::tempdir().unwrap();
    let rocks = Rocks::open(dir.path(), &Options::default()).unwrap();
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
    rocks.write(&[batch(100, None)]).unwrap();
    assert_eq!(first(), Some(100u32.to_be_bytes().to_vec()));
    rocks.write(&[batch(ROWS - 1, None)]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(rocks.statistics().table_octets, 0, "nobody walked over them, or over few");
    let last = Some((ROWS - 1).to_be_bytes().to_vec());
    assert_eq!(first(), last);
    // The next writes see to it.
    let flushed = (0..500).any(|_| {
        rocks.write(&[batch(1, None)]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        rocks.statistics().table_octets > 0
    });
    assert!(flushed);
    assert_eq!(first(), last);
}

#[test]
fn a_figure_of_the_report_is_read_in_octets() {
    let report = "Flush(GB): cumulative 1.500, interval 0.000\nCumulative compaction: 0.25 GB write, 1.0 MB/s";
    assert_eq!(octets_after(report, "Flush(GB): cumulative "), 3 << 29);
    assert_eq!(octets_after(report, "Cumulative compaction: "), 1 << 28);
    assert_eq!(octets_after(report, "AddFile(GB): cumulative "), 0);
}
