//! Tests of messages that an earlier version stored in rows.

use super::*;

#[test]
fn messages_in_rows_move_to_segments() {
    let dir = tempfile::tempdir().unwrap();
    let in_rows = Options { min_segment_value: usize::MAX, ..options() };
    let mut bed = Bed::open(dir.path(), &in_rows);
    for (n, length) in [(0, 10), (1, 4000), (2, 131_072), (3, 300_000), (4, 90_000)] {
        bed.deliver(n, length);
    }
    let mut bed = bed.reopen(dir.path(), &options());
    bed.deliver(5, 5000);
    // The long one is delivered once more before it is moved, and leaves no frames.
    let long = raw(3, 300_000);
    let again = file(&bed.store, 6, &long);
    bed.mail.insert(again, long);
    assert_has(&bed.store, &bed.mail);
    let step = bed.reclaim(|_| false);
    assert_eq!(step.moved, 3, "one is short enough for its row, and one was stored again above");
    let mut frames = 0;
    let count = &mut |_: &[u8], _: &[u8]| {
        frames += 1;
        Ok(true)
    };
    bed.engine.scan(Table::BlobFrames, &[], &[0xff; 64], false, count).unwrap();
    assert_eq!(frames, 0);
    assert_has(&bed.store, &bed.mail);
    assert_eq!(bed.reclaim(|_| false), ReclaimStep::default());
}
