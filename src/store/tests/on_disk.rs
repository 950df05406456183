//! The store on the real engine.

use super::*;
use crate::store::engine::rocks::image::copy_store;

fn open(dir: &Path) -> Result<Store, Error> {
    Store::open(dir, &Options::small(), Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000))))
}

#[test]
fn redeemed_commits_are_there_after_reopening() {
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
fn random_changes_keep_every_invariant_on_disk() {
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

/// Returns the logs, oldest first.
fn logs_of(dir: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut logs: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    logs.sort();
    logs
}

fn log_of(dir: &Path) -> std::path::PathBuf {
    logs_of(dir).into_iter().max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap()
}

#[test]
fn a_store_with_a_missing_or_cut_earlier_log_does_not_open() {
    let dir = tempfile::tempdir().unwrap();
    let in_rows = Options { min_segment_value: usize::MAX, ..Options::small() };
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store = Store::open(dir.path(), &in_rows, clock).unwrap();
    make_account(&store, ACCOUNT);
    // Writes enough to flush one table, which begins a second log. Other tables need the first.
    for n in 0..60u32 {
        let raw: Vec<u8> =
            (0..60_000u32).map(|at| ((at ^ n).wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        let rows = MessageRows {
            blob: BlobHash(*blake3::hash(&raw).as_bytes()),
            ..MessageRows::default()
        };
        let encoded = EncodedMessage::new(&rows);
        let (_, ticket) = store.commit_message(&[ACCOUNT], &encoded, &raw, |txn| {
            let mailboxes = BTreeSet::from([txn.state().inbox]);
            let (prefix, keywords, received_at) = (&b""[..], BTreeSet::new(), txn.now());
            txn.create_email(&NewEmail {
                message: &encoded,
                prefix,
                mailboxes,
                keywords,
                received_at,
            })
        });
        ticket.wait_blocking().unwrap();
    }
    let (whole, missing, cut) = (crash(dir.path()), crash(dir.path()), crash(dir.path()));
    drop(store);
    assert_eq!(open(whole.path()).unwrap().snapshot().emails(ACCOUNT, None, 99).unwrap().len(), 60);
    assert!(logs_of(missing.path()).len() > 1, "one log alone proves nothing");
    std::fs::remove_file(&logs_of(missing.path())[0]).unwrap();
    let refused = open(missing.path()).unwrap_err().to_string();
    assert!(refused.contains("damaged") && refused.contains("backup"), "{refused}");
    let first = &logs_of(cut.path())[0];
    let half = std::fs::metadata(first).unwrap().len() / 2;
    std::fs::File::options().write(true).open(first).unwrap().set_len(half).unwrap();
    let refused = open(cut.path()).unwrap_err().to_string();
    assert!(refused.contains("damaged") && refused.contains("backup"), "{refused}");
}

#[test]
fn a_cut_last_record_is_dropped_and_a_store_with_a_flipped_bit_does_not_open() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    make_account(&store, ACCOUNT);
    for n in 0..50 {
        deliver_to(&store, ACCOUNT, n, &[], i64::from(n)).unwrap();
    }
    let (cut, flipped) = (crash(dir.path()), crash(dir.path()));
    drop(store);

    // An incomplete last record was never acknowledged. It is dropped; all before it stays.
    let log = log_of(cut.path());
    let mut bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 9]).unwrap();
    let store = open(cut.path()).unwrap();
    assert_eq!(store.snapshot().emails(ACCOUNT, None, 99).unwrap().len(), 49);
    assert_clean(&store);

    // Dropping records after damage in the middle would lose acknowledged mail, so the store does
    // not open and says what to do.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(log_of(flipped.path()), &bytes).unwrap();
    let refused = open(flipped.path()).unwrap_err().to_string();
    assert!(refused.contains("damaged") && refused.contains("backup"), "{refused}");
}
