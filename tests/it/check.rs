//! `restante check` on a data directory that no service has.

use std::fs;
#[cfg(feature = "rocksdb")]
use std::os::unix::fs::MetadataExt as _;
#[cfg(feature = "rocksdb")]
use std::path::{Path, PathBuf};

use crate::bed::Bed;
use crate::mail::{Client, letter};

#[test]
fn check_opens_the_data_directory_where_no_service_runs() {
    let mut bed = Bed::new("");
    let check = |bed: &Bed| bed.run(&["--json", "check"]);
    assert_eq!(check(&bed).status.code(), Some(66), "there is none yet");
    bed.start();
    bed.account("ann@example.org", &[]);
    let message = letter("zoe@example.net", "ann@example.org", "x", "x");
    Client::lmtp(&bed.lmtp())
        .unwrap()
        .deliver("zoe@example.net", &["ann@example.org"], &message)
        .unwrap();
    let asked = check(&bed);
    // Who cannot reach the service does not get at its store either: one process has it open.
    let text = fs::read_to_string(bed.config()).unwrap();
    fs::write(bed.config(), text.replace("/control\"", "/elsewhere\"")).unwrap();
    if cfg!(feature = "rocksdb") {
        let locked = check(&bed);
        assert_eq!(locked.status.code(), Some(75), "{locked:?}");
    }
    fs::write(bed.config(), text).unwrap();
    bed.stop();
    let opened = check(&bed);
    for done in [asked, opened] {
        assert!(done.status.success(), "{done:?}");
        let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert!(found["breaches"] == serde_json::json!([]) && found["accounts"] == 1, "{found}");
    }
    bed.finish();
}

/// Every file under a folder with its owner, size and time.
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
fn check_changes_nothing_and_makes_no_store() {
    let mut bed = Bed::new("");
    let data = bed.dir.join("data");
    fs::create_dir(&data).unwrap();
    assert_eq!(bed.run(&["check"]).status.code(), Some(66), "there is none yet");
    assert!(
        files(&data).is_empty(),
        "a store was made: the service, another user, could not open it"
    );
    fs::create_dir(data.join("store")).unwrap();
    assert!(!bed.run(&["check"]).status.success(), "an empty folder is no store");
    assert!(files(&data.join("store")).is_empty());
    fs::remove_dir(data.join("store")).unwrap();

    bed.start();
    bed.account("ann@example.org", &[]);
    let message = letter("zoe@example.net", "ann@example.org", "x", "x");
    Client::lmtp(&bed.lmtp())
        .unwrap()
        .deliver("zoe@example.net", &["ann@example.org"], &message)
        .unwrap();
    // After a crash everything is in the log, and stays there.
    bed.kill();
    let before = files(&data);
    for _ in 0..2 {
        let done = bed.run(&["check"]);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(files(&data), before);
    }
    bed.start();
    assert_eq!(bed.mail("ann@example.org").len(), 1);
    bed.stop();
    let before = files(&data);
    bed.ok(&["check"]);
    assert_eq!(files(&data), before);
    bed.finish();
}
