//! Backups on a disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::model::clock::FixedClock;
use crate::model::{
    AccountId, AccountRow, Address, BlobHash, EmailId, MessageRows, Role, UtcMillis,
};
use crate::store::{EncodedMessage, NewEmail, NewMailbox, Options};

const ANN: AccountId = AccountId(1);

fn open(dir: &Path) -> Result<Store, Error> {
    Store::open(dir, &Options::small(), Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000))))
}

fn message_rows(raw: &[u8]) -> MessageRows {
    MessageRows {
        blob: BlobHash(*blake3::hash(raw).as_bytes()),
        size: raw.len() as u64,
        ..MessageRows::default()
    }
}

fn create_account(store: &Store) {
    let committed = store.commit(ANN, |txn| {
        txn.register(&AccountRow::new(
            "ann",
            Address::from_parts("ann", "example.org"),
            UtcMillis(0),
        ));
        let new = NewMailbox {
            name: "Inbox".into(),
            parent: None,
            role: Some(Role::Inbox),
            sort_order: 0,
        };
        txn.create_mailbox(&new)
    });
    committed.unwrap().1.wait_blocking().unwrap();
}

/// Returns a new store with an account, in `data/store` of a directory, and a path for its backups.
fn new_store() -> (tempfile::TempDir, PathBuf, Store) {
    let dir = tempfile::tempdir().unwrap();
    let (data, backups) = (dir.path().join("data/store"), dir.path().join("backups"));
    fs::create_dir_all(&data).unwrap();
    let store = open(&data).unwrap();
    create_account(&store);
    (dir, backups, store)
}

/// A message of about 20,000 bytes, which do not compress.
fn message(n: u32) -> Vec<u8> {
    let mut noise = vec![0; 20_000];
    blake3::Hasher::new().update(&n.to_be_bytes()).finalize_xof().fill(&mut noise);
    [format!("Subject: {n}\r\n\r\n").into_bytes(), noise].concat()
}

fn deliver(store: &Store, numbers: std::ops::Range<u32>) {
    for n in numbers {
        let raw = message(n);
        let encoded = EncodedMessage::new(&message_rows(&raw));
        let (_, ticket) = store.commit_message(&[ANN], &encoded, &raw, |txn| {
            txn.create_email(&NewEmail {
                message: &encoded,
                prefix: b"Delivered-To: ann@example.org\r\n",
                mailboxes: BTreeSet::from([txn.state().inbox]),
                keywords: BTreeSet::new(),
                received_at: UtcMillis(i64::from(n)),
            })
        });
        ticket.wait_blocking().unwrap();
    }
}

fn all_mail(store: &Store) -> Vec<(EmailId, Vec<u8>)> {
    let snapshot = store.snapshot();
    let ids = snapshot.emails(ANN, None, 999).unwrap();
    ids.into_iter().map(|(id, _)| (id, snapshot.message(ANN, id).unwrap().unwrap())).collect()
}

fn assert_clean(store: &Store) {
    assert_eq!(store.check_deep(Some(&message_rows), &mut |_| true).unwrap().breaches, []);
}

#[test]
fn each_backup_adds_only_new_files_and_restores_the_same_bytes() {
    let (dir, backups, store) = new_store();
    deliver(&store, 0..60);
    let mail_of_first = all_mail(&store);
    let mut progress = 0;
    let first = store
        .backup(&backups, None, &mut |bytes| {
            progress = bytes;
            true
        })
        .unwrap();
    deliver(&store, 60..70);
    let mail_of_second = all_mail(&store);
    let second = store.backup(&backups, None, &mut |_| true).unwrap();
    let epoch = store.epoch();
    assert_clean(&store);
    drop(store);
    fs::remove_dir_all(dir.path().join("data")).unwrap();

    assert_eq!((first.id, second.id), (1, 2));
    assert!(progress <= first.written);
    assert!(
        first.written > 60 * 20_000 && second.written < first.written / 2,
        "{first:?} {second:?}"
    );
    assert_eq!(list(&backups).unwrap().iter().map(|one| one.id).collect::<Vec<_>>(), [1, 2]);
    let mut epochs = BTreeSet::from([epoch]);
    for (id, wanted) in
        [(Some(1), &mail_of_first), (Some(2), &mail_of_second), (None, &mail_of_second)]
    {
        let to = dir.path().join(format!("again{}", epochs.len())).join("store");
        assert_eq!(restore(&backups, id, &to).unwrap().id, id.unwrap_or(2));
        let store = open(&to).unwrap();
        assert_eq!(all_mail(&store), *wanted);
        assert_clean(&store);
        assert!(
            epochs.insert(store.epoch()),
            "the store would accept states from after the backup"
        );
        // The restored store takes mail, and is not overwritten by another restore.
        deliver(&store, 900..901);
        assert_eq!(all_mail(&store).len(), wanted.len() + 1);
        let error = restore(&backups, id, &to).unwrap_err().to_string();
        assert!(error.contains("not empty"), "{error}");
    }
    assert_eq!(
        restore(&backups, Some(9), &dir.path().join("x/store")),
        Err(Error::NotFound("backup"))
    );
}

#[test]
fn only_the_newest_backups_are_kept_and_unsuitable_directories_are_refused() {
    let (dir, backups, store) = new_store();
    let back_up = |store: &Store, dir: &Path, keep| store.backup(dir, keep, &mut |_| true);
    for n in 0..4 {
        deliver(&store, n..n + 1);
        back_up(&store, &backups, Some(2)).unwrap();
    }
    assert_eq!(list(&backups).unwrap().iter().map(|one| one.id).collect::<Vec<_>>(), [3, 4]);
    let refused = |dir: &Path, keep| match back_up(&store, dir, keep) {
        Err(Error::Conflict(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(&backups, Some(0)).contains("at least one"));
    for inside in ["data/store", "data/store/backups", "data/backups", "data"] {
        assert!(refused(&dir.path().join(inside), None).contains("data directory"), "{inside}");
    }
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("letter"), "mine").unwrap();
    assert!(refused(&foreign, None).contains("not empty"));
    assert!(
        matches!(list(&foreign), Err(Error::Conflict(_)))
            && fs::read_dir(&foreign).unwrap().count() == 1
    );
    let other = dir.path().join("other/store");
    fs::create_dir_all(&other).unwrap();
    let other = open(&other).unwrap();
    let error = back_up(&other, &backups, None);
    assert!(matches!(error, Err(Error::Conflict(why)) if why.contains("another store")));
}

#[test]
fn damaged_backup_is_refused_and_the_others_can_be_restored() {
    let (dir, backups, store) = new_store();
    deliver(&store, 0..20);
    store.backup(&backups, None, &mut |_| true).unwrap();
    // RocksDB's files that several backups may have.
    let before: BTreeSet<PathBuf> = files(&backups.join("shared_checksum"));
    deliver(&store, 20..30);
    store.backup(&backups, None, &mut |_| true).unwrap();
    let new_files: Vec<PathBuf> =
        files(&backups.join("shared_checksum")).difference(&before).cloned().collect();
    assert!(!new_files.is_empty());
    assert_eq!((verify(&backups, 1), verify(&backups, 2)), (Ok(()), Ok(())));
    for file in &new_files {
        let whole = fs::read(file).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x10;
        for damaged in [&flipped[..], &whole[..whole.len() - 1]] {
            fs::write(file, damaged).unwrap();
            let found = verify(&backups, 2).unwrap_err().to_string();
            assert!(found.contains("backup 2 is damaged"), "{found}");
            let to = dir.path().join("new/store");
            assert!(restore(&backups, None, &to).is_err() && !to.exists());
            assert_eq!(verify(&backups, 1), Ok(()));
        }
        fs::write(file, whole).unwrap();
    }
    assert_eq!(verify(&backups, 2), Ok(()));
    fs::remove_file(&new_files[0]).unwrap();
    let found = verify(&backups, 2).unwrap_err().to_string();
    assert!(found.contains("backup 2 is damaged: it lacks a file"), "{found}");
    assert_eq!(list_incomplete(&backups), Ok(vec![2]));
    let to = dir.path().join("new/store");
    assert_eq!(restore(&backups, Some(2), &to), verify(&backups, 2).map(|()| unreachable!()));
    assert_eq!(restore(&backups, Some(7), &to), Err(Error::NotFound("backup")));
    restore(&backups, Some(1), &to).unwrap();
    assert_eq!(all_mail(&open(&to).unwrap()).len(), 20);
    // It is deleted with those that are older than the ones to keep. (RocksDB would write the lost
    // file again with the next backup, so it loses one that only this backup has.)
    let own = files(&backups.join("private/2")).into_iter().next().unwrap();
    fs::remove_file(own).unwrap();
    store.backup(&backups, Some(2), &mut |_| true).unwrap();
    assert_eq!(list_incomplete(&backups), Ok(vec![2]));
    store.backup(&backups, Some(1), &mut |_| true).unwrap();
    assert_eq!(list_incomplete(&backups), Ok(vec![]));
    assert_eq!(list(&backups).unwrap().iter().map(|one| one.id).collect::<Vec<_>>(), [4]);
    assert_eq!(verify(&backups, 4), Ok(()));
}

#[test]
fn a_backup_without_all_its_segments_is_not_used() {
    let (dir, backups, store) = new_store();
    let ids = || list(&backups).unwrap().into_iter().map(|one| one.id).collect::<Vec<_>>();
    for n in 0..3 {
        deliver(&store, 10 * n..10 * n + 10);
        store.backup(&backups, None, &mut |_| true).unwrap();
    }
    // A kill before the list of segments was written.
    let segments = backups.join("segments");
    fs::remove_file(segments.join("3.list")).unwrap();
    assert_eq!((ids(), list_incomplete(&backups)), (vec![1, 2], Ok(vec![3])));
    let found = verify(&backups, 3).unwrap_err().to_string();
    assert!(found.contains("backup 3 is damaged: it lacks a file, was"), "{found}");
    // Backups 1 and 2 have the same segment, up to different lengths. Damage behind the end of
    // backup 1 is damage of backup 2 only.
    let lists = [1, 2].map(|id| fs::read_to_string(segments.join(format!("{id}.list"))).unwrap());
    let (name, rest) = lists[1].split_once(' ').unwrap();
    let end: usize = rest.split(' ').next().unwrap().parse().unwrap();
    assert!(lists[0].starts_with(name) && !lists[0].contains(&format!(" {end} ")));
    let path = segments.join(name);
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[end - 1] ^= 1;
    for damaged in [&flipped[..], &whole[..end - 1]] {
        fs::write(&path, damaged).unwrap();
        let found = verify(&backups, 2).unwrap_err().to_string();
        assert!(found.contains("backup 2 is damaged") && found.contains(name), "{found}");
        assert_eq!(verify(&backups, 1), Ok(()));
    }
    fs::write(&path, whole).unwrap();
    let to = dir.path().join("again/store");
    assert_eq!(restore(&backups, None, &to).unwrap().id, 2);
    assert_eq!(all_mail(&open(&to).unwrap()).len(), 20);
    // The next backup takes the place of the interrupted one, and keeps one whole backup besides
    // itself, and the segments of both.
    let left = backups.join("private/3/left");
    fs::write(&left, "by the interrupted one").unwrap();
    store.backup(&backups, Some(2), &mut |_| true).unwrap();
    assert_eq!((ids(), list_incomplete(&backups)), (vec![2, 3], Ok(vec![])));
    for id in [2, 3] {
        assert_eq!(verify(&backups, id), Ok(()));
    }
    assert!(!left.exists());
    store.backup(&backups, Some(1), &mut |_| true).unwrap();
    assert_eq!((ids(), verify(&backups, 4)), (vec![4], Ok(())));
    let lists = files(&segments)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "list"));
    assert_eq!(lists.count(), 1);
}

#[test]
fn backups_of_a_version_without_segments_stay_usable() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backups) = (dir.path().join("data/store"), dir.path().join("backups"));
    fs::create_dir_all(&data).unwrap();
    let in_rows = Options { min_segment_value: usize::MAX, ..Options::small() };
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store = Store::open(&data, &in_rows, clock).unwrap();
    create_account(&store);
    deliver(&store, 0..5);
    store.backup(&backups, None, &mut |_| true).unwrap();
    drop(store);
    fs::remove_dir_all(backups.join("segments")).unwrap();
    assert_eq!((list(&backups).unwrap().len(), verify(&backups, 1)), (1, Ok(())));
    let store = open(&data).unwrap();
    deliver(&store, 5..10);
    store.backup(&backups, None, &mut |_| true).unwrap();
    fs::remove_file(backups.join("segments/2.list")).unwrap();
    store.backup(&backups, None, &mut |_| true).unwrap();
    for (id, mails) in [(1, 5), (2, 10)] {
        assert_eq!(verify(&backups, id), Ok(()));
        let to = dir.path().join(format!("again-{id}/store"));
        restore(&backups, Some(id), &to).unwrap();
        let store = open(&to).unwrap();
        assert_eq!(all_mail(&store).len(), mails);
        assert_clean(&store);
    }
}

#[test]
fn a_backup_deletes_the_newest_if_it_was_interrupted_and_no_other() {
    let (_dir, backups, store) = new_store();
    deliver(&store, 0..5);
    let back_up = || store.backup(&backups, None, &mut |_| true).map(|backup| backup.id);
    let interrupt = |id| fs::remove_file(backups.join(format!("segments/{id}.list"))).unwrap();
    let ids = || list(&backups).unwrap().into_iter().map(|one| one.id).collect::<Vec<_>>();
    // The first one was interrupted.
    assert_eq!(back_up(), Ok(1));
    interrupt(1);
    assert_eq!((back_up(), ids(), verify(&backups, 1)), (Ok(1), vec![1], Ok(())));
    // All lists are lost: only the newest backup can have been interrupted.
    assert_eq!((back_up(), back_up()), (Ok(2), Ok(3)));
    [1, 2, 3].into_iter().for_each(interrupt);
    assert_eq!((back_up(), ids(), list_incomplete(&backups)), (Ok(3), vec![3], Ok(vec![1, 2])));
    // The directory of the segments is empty, like a file system that is not mounted: nothing is
    // deleted.
    let (segments, away) = (backups.join("segments"), backups.join("away"));
    fs::rename(&segments, &away).unwrap();
    fs::create_dir(&segments).unwrap();
    assert!(matches!(back_up(), Err(Error::Io(why)) if why.contains("segments of the backup")));
    fs::remove_dir(&segments).unwrap();
    fs::rename(&away, &segments).unwrap();
    assert_eq!((ids(), list_incomplete(&backups)), (vec![3], Ok(vec![1, 2])));
    assert_eq!(verify(&backups, 3), Ok(()));
    // Another process makes a backup there.
    let mark = fs::File::open(backups.join(MARK)).unwrap();
    mark.lock().unwrap();
    assert!(matches!(back_up(), Err(Error::Conflict(why)) if why.contains("another backup")));
    drop(mark);
    assert_eq!((back_up(), verify(&backups, 4)), (Ok(4), Ok(())));
}

#[test]
fn a_restored_store_is_backed_up_beside_the_backups_of_the_one_before() {
    let (dir, backups, store) = new_store();
    let data = dir.path().join("data/store");
    deliver(&store, 0..10);
    store.backup(&backups, None, &mut |_| true).unwrap();
    drop(store);
    // A new process begins another segment.
    let store = open(&data).unwrap();
    deliver(&store, 10..20);
    store.backup(&backups, None, &mut |_| true).unwrap();
    let mail = all_mail(&store);
    drop(store);
    let other = dir.path().join("other/store");
    restore(&backups, Some(1), &other).unwrap();
    let restored = open(&other).unwrap();
    // It begins a segment of the same number with other messages.
    deliver(&restored, 100..120);
    restored.backup(&backups, None, &mut |_| true).unwrap();
    let mail_of_restored = all_mail(&restored);
    for (id, wanted) in [(2, &mail), (3, &mail_of_restored)] {
        assert_eq!(verify(&backups, id), Ok(()));
        let to = dir.path().join(format!("again-{id}/store"));
        restore(&backups, Some(id), &to).unwrap();
        let store = open(&to).unwrap();
        assert_eq!(all_mail(&store), *wanted);
        assert_clean(&store);
    }
}

fn files(dir: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect()
}
