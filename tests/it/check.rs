//! `restante check`: by the running service, and on a data directory that no service has open.

use std::fs;
#[cfg(feature = "rocksdb")]
use std::os::unix::fs::MetadataExt as _;
#[cfg(feature = "rocksdb")]
use std::path::{Path, PathBuf};

use crate::bed::TestBed;
use crate::mail::{Client, letter};

#[test]
fn check_works_with_and_without_running_service() {
    let mut bed = TestBed::new("");
    let check = |bed: &TestBed| bed.run(&["--json", "check"]);
    assert_eq!(check(&bed).status.code(), Some(66), "there is no store yet");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let message = letter("zoe@example.net", "ann@example.org", "x", "x");
    Client::lmtp(&bed.lmtp())
        .unwrap()
        .deliver("zoe@example.net", &["ann@example.org"], &message)
        .unwrap();
    let by_service = check(&bed);
    // A command that cannot reach the service cannot open the store either: the service holds its
    // lock.
    let text = fs::read_to_string(bed.config()).unwrap();
    fs::write(bed.config(), text.replace("/control\"", "/elsewhere\"")).unwrap();
    if cfg!(feature = "rocksdb") {
        let locked = check(&bed);
        assert_eq!(locked.status.code(), Some(75), "{locked:?}");
    }
    fs::write(bed.config(), text).unwrap();
    bed.stop();
    let by_command = check(&bed);
    for done in [by_service, by_command] {
        assert!(done.status.success(), "{done:?}");
        let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert!(found["breaches"] == serde_json::json!([]) && found["accounts"] == 1, "{found}");
    }
    bed.finish();
}

/// Every file under a folder with its owner, its size and its time of modification.
#[cfg(feature = "rocksdb")]
fn files(folder: &Path) -> Vec<(PathBuf, u32, u64, i64, i64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            all.extend(files(&path));
        }
        all.push((path, about.uid(), about.size(), about.mtime(), about.mtime_nsec()));
    }
    all.sort();
    all
}

#[test]
#[cfg(feature = "rocksdb")]
fn check_writes_nothing_and_creates_no_store() {
    let mut bed = TestBed::new("");
    let data = bed.dir.join("data");
    fs::create_dir(&data).unwrap();
    assert_eq!(bed.run(&["check"]).status.code(), Some(66), "there is no store yet");
    assert!(
        files(&data).is_empty(),
        "a store was created, which the service, another user, could not open"
    );
    fs::create_dir(data.join("store")).unwrap();
    assert!(!bed.run(&["check"]).status.success(), "an empty folder is no store");
    assert!(files(&data.join("store")).is_empty());
    fs::remove_dir(data.join("store")).unwrap();

    bed.start();
    bed.add_account("ann@example.org", &[]);
    let message = letter("zoe@example.net", "ann@example.org", "x", "x");
    Client::lmtp(&bed.lmtp())
        .unwrap()
        .deliver("zoe@example.net", &["ann@example.org"], &message)
        .unwrap();
    // After a crash the newest rows are only in the journal, and stay there.
    bed.kill();
    let before = files(&data);
    for _ in 0..2 {
        let done = bed.run(&["check"]);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(files(&data), before);
    }
    bed.start();
    assert_eq!(bed.list_mail("ann@example.org").len(), 1);
    bed.stop();
    let before = files(&data);
    bed.run_ok(&["check"]);
    assert_eq!(files(&data), before);
    bed.finish();
}
