//! The journal after a power failure, where it ends in the middle of a frame or in zeros; and a
//! journal of which a bit is flipped.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::model::clock::FixedClock;
use crate::store::engine::rocks::image::{copy_store, read_without_zeros};

fn open(dir: &Path) -> Result<Store, Error> {
    Store::open(dir, &Options::small(), Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000))))
}

/// Returns the segment that has the end of the journal.
fn last_segment(dir: &Path) -> PathBuf {
    let files = fs::read_dir(dir.join("segments")).unwrap().map(|file| file.unwrap().path());
    files.max().unwrap()
}

fn emails(store: &Store) -> BTreeSet<EmailId> {
    store.snapshot().emails(ACCOUNT, None, 100).unwrap().into_iter().map(|(id, _)| id).collect()
}

#[test]
fn a_torn_write_loses_only_unacknowledged_commits() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("store");
    let store = open(&dir).unwrap();
    make_account(&store, ACCOUNT);
    // The length of the segment and the emails after each acknowledgement.
    let mut acknowledged = vec![(fs::metadata(last_segment(&dir)).unwrap().len(), emails(&store))];
    for n in 0..3 {
        deliver_to(&store, ACCOUNT, n, &[1], 5).unwrap();
        acknowledged.push((fs::metadata(last_segment(&dir)).unwrap().len(), emails(&store)));
    }
    for (at, pair) in acknowledged.windows(2).enumerate() {
        let [(before, emails_before), (behind, _)] = pair else { continue };
        assert!(before < behind);
        let check = |cut: u64, zeros: u64| {
            let torn = root.path().join(format!("torn-{at}-{cut}-{zeros}"));
            copy_store(&dir, &torn);
            let file = fs::OpenOptions::new().write(true).open(last_segment(&torn)).unwrap();
            file.set_len(cut).unwrap();
            file.set_len(cut + zeros).unwrap();
            let again = open(&torn).unwrap();
            assert_eq!(
                emails(&again),
                *emails_before,
                "cut at {cut} of {before}..{behind}, {zeros} zeros behind"
            );
            assert_clean(&again);
            deliver_to(&again, ACCOUNT, 77, &[1], 9).unwrap();
            assert_clean(&again);
            drop(again);
            fs::remove_dir_all(&torn).unwrap();
        };
        // Cut at the beginning of the last frame, in its header, in its middle, before its end.
        for cut in [*before, before + 1, before + 6, before + 7, (before + behind) / 2, behind - 1]
        {
            // The file system may have made the file longer again, with zeros: with few, or with
            // about as many bytes as were cut off.
            for zeros in BTreeSet::from([0, (behind - cut - 1).min(100), (behind - cut) / 4 * 4]) {
                check(cut, zeros);
            }
        }
        // Zeros were written ahead, and the first sectors of the frame over them.
        for cut in (before.next_multiple_of(512)..*behind).step_by(512) {
            check(cut, behind - cut + 20_000);
        }
    }
}

#[test]
fn a_store_with_a_flipped_bit_in_its_journal_does_not_open() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("store");
    let store = open(&dir).unwrap();
    make_account(&store, ACCOUNT);
    let begin = fs::metadata(last_segment(&dir)).unwrap().len();
    for n in 0..6 {
        deliver_to(&store, ACCOUNT, n, &[1], 5).unwrap();
    }
    let whole = read_without_zeros(&last_segment(&dir));
    // Flips a bit near the beginning of the first frame of the deliveries, and in the last byte.
    for (case, at) in
        [usize::try_from(begin).unwrap() + 40, whole.len() - 1].into_iter().enumerate()
    {
        let damaged = root.path().join(format!("damaged-{case}"));
        copy_store(&dir, &damaged);
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(last_segment(&damaged), bytes).unwrap();
        match open(&damaged) {
            Err(Error::Open(why)) => {
                assert!(why.contains("damaged") && why.contains("backup"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}
