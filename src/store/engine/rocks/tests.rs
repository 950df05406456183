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
fn remains_are_flushed_once_they_are_many() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = Rocks::open(dir.path(), &Options::default()).unwrap();
    rocks.write(&[batch(MANY_REMAINS, Some(b"row"))]).unwrap();
    rocks.write(&[batch(MANY_REMAINS - 1, None)]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(rocks.statistics().table_octets, 0, "few of them stay in memory");
    rocks.write(&[batch(1, None)]).unwrap();
    let flushed = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        rocks.statistics().table_octets > 0
    });
    assert!(flushed);
    assert_eq!(rocks.get(Table::MailboxEmailIndex, &0u32.to_be_bytes()).unwrap(), None);
    let last = (MANY_REMAINS - 1).to_be_bytes();
    assert_eq!(rocks.get(Table::MailboxEmailIndex, &last).unwrap().as_deref(), Some(&b"row"[..]));
}

#[test]
fn a_figure_of_the_report_is_read_in_octets() {
    let report = "Flush(GB): cumulative 1.500, interval 0.000\nCumulative compaction: 0.25 GB write, 1.0 MB/s";
    assert_eq!(octets_after(report, "Flush(GB): cumulative "), 3 << 29);
    assert_eq!(octets_after(report, "Cumulative compaction: "), 1 << 28);
    assert_eq!(octets_after(report, "AddFile(GB): cumulative "), 0);
}
