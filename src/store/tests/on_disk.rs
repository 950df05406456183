//! The store on RocksDB, also after a crash and with damaged segments.

use super::*;
use crate::store::engine::rocks::image::{copy_store, read_without_zeros};

fn open(dir: &Path) -> Result<Store, Error> {
    Store::open(dir, &Options::small(), Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000))))
}

#[test]
fn acknowledged_commits_are_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (id, secrets) = {
        let store = open(dir.path()).unwrap();
        make_account(&store, ACCOUNT);
        (deliver_to(&store, ACCOUNT, 1, &[1], 5).unwrap(), store.secrets().clone())
    };
    let store = open(dir.path()).unwrap();
    assert_eq!(store.secrets(), &secrets);
    let message = store.snapshot().message(ACCOUNT, id).unwrap().unwrap();
    assert_eq!(message, b"Delivered-To: ann@example.org\r\nSubject: 1\r\n\r\n1\r\n");
    assert_clean(&store);
    assert!(open(dir.path()).is_err_and(|error| error.to_string().contains("another process")));
}

#[test]
fn changes_keep_every_invariant_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    make_account(&store, ACCOUNT);
    let ops: Vec<StoreOp> = (0..60u8)
        .map(|n| match n % 4 {
            0 | 1 => StoreOp::Deliver { keys: vec![n % 5, n % 3], at: i64::from(n % 7) },
            2 => StoreOp::Move {
                which: usize::from(n),
                mailboxes: BTreeSet::from([1, 2 + u32::from(n % 2)]),
                keywords: n % 8,
            },
            _ => StoreOp::Destroy { which: usize::from(n) },
        })
        .collect();
    run(&store, &ops);
}

/// Copies the files of an open store, as a crash would leave them.
fn crash(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_store(dir, copy.path());
    copy
}

/// Returns the segments, oldest first.
fn segments_of(dir: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(dir.join("segments")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_store_with_a_missing_or_cut_earlier_part_of_the_journal_does_not_open() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 8_000, ..Options::small() };
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store = Store::open(dir.path(), &options, clock).unwrap();
    make_account(&store, ACCOUNT);
    for n in 0..60 {
        deliver_to(&store, ACCOUNT, n, &[], i64::from(n)).unwrap();
    }
    let whole = crash(dir.path());
    let segments = segments_of(whole.path());
    assert!(segments.len() > 3, "{}", segments.len());
    for (is_cut, segment) in [(false, 0), (false, 1), (true, 0), (true, 2)] {
        let damaged = crash(dir.path());
        let segment = &segments_of(damaged.path())[segment];
        if is_cut {
            let half = std::fs::metadata(segment).unwrap().len() / 2;
            std::fs::File::options().write(true).open(segment).unwrap().set_len(half).unwrap();
        } else {
            std::fs::remove_file(segment).unwrap();
        }
        let refused = open(damaged.path()).unwrap_err().to_string();
        assert!(refused.contains("damaged") && refused.contains("backup"), "{refused}");
    }
    drop(store);
    assert_eq!(open(whole.path()).unwrap().snapshot().emails(ACCOUNT, None, 99).unwrap().len(), 60);
}

#[test]
fn a_cut_last_frame_is_dropped_and_a_store_with_a_flipped_bit_does_not_open() {
    let dir = tempfile::tempdir().unwrap();
    // With messages in rows, everything in the segment is of the journal.
    let in_rows = Options { min_segment_value: usize::MAX, ..Options::small() };
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store = Store::open(dir.path(), &in_rows, clock).unwrap();
    make_account(&store, ACCOUNT);
    for n in 0..50 {
        deliver_to(&store, ACCOUNT, n, &[], i64::from(n)).unwrap();
    }
    let (cut, flipped) = (crash(dir.path()), crash(dir.path()));
    drop(store);

    // The last frame has more than 9 bytes. An incomplete last frame was never acknowledged. It is
    // dropped; all before it stays.
    let last = segments_of(cut.path()).pop().unwrap();
    let mut bytes = read_without_zeros(&last);
    std::fs::write(&last, &bytes[..bytes.len() - 9]).unwrap();
    let store = open(cut.path()).unwrap();
    assert_eq!(store.snapshot().emails(ACCOUNT, None, 99).unwrap().len(), 49);
    assert_clean(&store);

    // Dropping frames after damage in the middle would lose acknowledged mail, so the store does
    // not open and says what to do.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(segments_of(flipped.path()).pop().unwrap(), &bytes).unwrap();
    let refused = open(flipped.path()).unwrap_err().to_string();
    assert!(refused.contains("damaged") && refused.contains("backup"), "{refused}");
}
