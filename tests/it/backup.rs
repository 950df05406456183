//! Backup, restore and rebuild when the process is killed in the middle.
//!
//! - Complete backups stay complete, and the next backup works.
//! - An interrupted restore or rebuild can be completed.
//!
//! `RESTANTE_KILLS` sets the least number of attempts to kill a backup (6). `RESTANTE_SEED` repeats
//! the random choices of an earlier run, which prints it.
#![cfg(feature = "rocksdb")]

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::TestBed;
use crate::crash::{Dice, env_number};
use crate::mail::{Client, letter};

const ANN: &str = "ann@example.org";

/// Delivers `count` messages, numbered from `from`.
fn deliver(bed: &TestBed, from: usize, count: usize) {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for number in from..from + count {
        // Words that no other message has, so that a backup has something to copy.
        let words: Vec<String> =
            (0..400).map(|at| format!("w{:x}", (number * 7919 + at) * 2_654_435_761)).collect();
        let message =
            letter("zoe@example.net", ANN, &format!("number {number:05}"), &words.join(" "));
        assert!(client.deliver("zoe@example.net", &[ANN], &message).unwrap()[0].ok());
    }
}

/// Begins a command, and does not wait for its end.
fn begin(bed: &TestBed, words: &[&str]) -> Child {
    bed.command(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Restores the newest backup, serves it, checks it, and returns its number of messages.
fn count_restored(backups: &str) -> usize {
    let mut other = TestBed::new("");
    let data = other.dir.join("data");
    other.run_ok(&["restore", backups, "--to", data.to_str().unwrap()]);
    other.start();
    let count = other.list_mail(ANN).len();
    other.finish();
    count
}

/// Verifies all backups, and returns the number of whole ones. If the last backup was interrupted,
/// the newest may be incomplete: a kill between the copy of the tables and that of the segments
/// leaves such a backup.
fn count_whole(bed: &TestBed, backups: &str, is_done: bool) -> usize {
    let mut listed = bed.rows(&["backup", backups, "--verify"]);
    let is_incomplete = |one: &mut Value| one["state"].as_str().unwrap().starts_with("incomplete");
    let incomplete = listed.pop_if(is_incomplete);
    assert!(!is_done || incomplete.is_none(), "{incomplete:?}");
    assert!(listed.iter().all(|one| one["state"] == "whole"), "{listed:?}");
    listed.len()
}

#[test]
fn killed_backup_leaves_complete_backups_intact() {
    let kills = env_number("RESTANTE_KILLS", 6);
    let seed = env_number("RESTANTE_SEED", getrandom::u64().unwrap() | 1);
    println!("RESTANTE_SEED={seed}");
    let mut dice = Dice(seed);
    let mut bed = TestBed::new("log.level = \"warn\"\n");
    let backups = bed.dir.join("backups");
    let backups = backups.to_str().unwrap();
    bed.start();
    bed.add_account(ANN, &[]);
    deliver(&bed, 0, 50);
    // The time of a complete backup and a quarter more, in microseconds, so that some backups end
    // before the kill.
    let time_backup = |bed: &TestBed| {
        let begun = Instant::now();
        bed.run_ok(&["backup", backups, "--keep", "3"]);
        usize::try_from(begun.elapsed().as_micros()).unwrap() * 5 / 4
    };
    let mut max_delay = time_backup(&bed);
    let (mut count, mut backed_up, mut rounds, mut interrupted) = (50, 50, 0, 0);
    // At least `kills` rounds, and up to five times as many until one backup was interrupted.
    for round in 0..kills * 5 {
        if round >= kills && interrupted > 0 {
            break;
        }
        deliver(&bed, count, 20);
        count += 20;
        // The service makes the backup if it runs, otherwise the command itself.
        let offline = round % 2 == 1;
        if offline {
            bed.stop();
        }
        let mut command = begin(&bed, &["backup", backups, "--keep", "3"]);
        std::thread::sleep(Duration::from_micros(dice.below(max_delay) as u64));
        if offline {
            command.kill().unwrap();
        } else {
            bed.kill();
        }
        let is_done = command.wait().unwrap().success();
        rounds += 1;
        interrupted += u32::from(!is_done);
        assert!(count_whole(&bed, backups, is_done) > 0);
        // A restore takes long, so only some rounds have one.
        if round % 8 == 7 || round + 1 == kills {
            // The newest complete backup may be that of this round, or else the one before it.
            let found = count_restored(backups);
            assert!(
                found == count || found == backed_up && !is_done,
                "{found} of {count}, {backed_up} before"
            );
        }
        if is_done {
            backed_up = count;
        }
        bed.start();
        if !is_done {
            max_delay = time_backup(&bed);
            backed_up = count;
        }
    }
    println!("{interrupted} of {rounds} backups were interrupted");
    assert!(interrupted > 0, "no backup was interrupted");
    // Every interrupted backup was followed by a complete one, which deletes what it left.
    let whole = count_whole(&bed, backups, true);
    assert!((1..=3).contains(&whole), "{whole} whole backups");
    assert_eq!(count_restored(backups), count);
    assert_eq!(count_folders(&Path::new(backups).join("private")), whole);
    // A kill before the list of segments is written is rare above.
    let newest = bed.rows(&["backup", backups, "--list"]).pop().unwrap()["id"].clone();
    fs::remove_file(Path::new(backups).join(format!("segments/{newest}.list"))).unwrap();
    assert_eq!(count_whole(&bed, backups, false), whole - 1);
    time_backup(&bed);
    assert_eq!(count_whole(&bed, backups, true), whole);
    bed.finish();
}

#[test]
fn killed_restore_can_be_repeated_and_overwrites_nothing_else() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account(ANN, &[]);
    deliver(&bed, 0, 3);
    let (backups, data) = (bed.dir.join("backups"), bed.dir.join("again"));
    let (backups, to) = (backups.to_str().unwrap(), data.to_str().unwrap());
    bed.run_ok(&["backup", backups]);
    // The folder that a restore leaves if it is killed while it copies.
    fs::create_dir_all(data.join("store.restoring")).unwrap();
    fs::write(data.join("store.restoring").join("CURRENT"), "half").unwrap();
    // A file that is not of a restore: nothing is restored while it is there.
    fs::write(data.join("letter"), "somebody's").unwrap();
    assert!(!bed.run(&["restore", backups, "--to", to]).status.success());
    assert!(data.join("letter").is_file() && data.join("store.restoring").is_dir());
    fs::remove_file(data.join("letter")).unwrap();
    bed.run_ok(&["restore", backups, "--to", to]);
    assert!(data.join("store").is_dir() && !data.join("store.restoring").exists());
    assert!(!bed.run(&["restore", backups, "--to", to]).status.success(), "the store exists now");
    bed.finish();
}

fn count_folders(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
}

#[test]
fn service_resumes_killed_rebuild_at_start() {
    let seed = env_number("RESTANTE_SEED", getrandom::u64().unwrap() | 1);
    println!("RESTANTE_SEED={seed}");
    let mut dice = Dice(seed);
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account(ANN, &[]);
    deliver(&bed, 0, 300);
    let before = bed.list_mail(ANN);
    let begun = Instant::now();
    bed.run_ok(&["rebuild"]);
    let max_delay = usize::try_from(begun.elapsed().as_micros()).unwrap();
    let mut resumed = 0;
    for round in 0..40 {
        let offline = round % 2 == 1;
        if offline {
            bed.stop();
        }
        let mut command = begin(&bed, &["rebuild"]);
        std::thread::sleep(Duration::from_micros(dice.below(max_delay) as u64));
        if offline {
            command.kill().unwrap();
        } else {
            bed.kill();
        }
        command.wait().unwrap();
        let checked = bed.run(&["check"]);
        let output = String::from_utf8_lossy(&checked.stdout).into_owned()
            + &String::from_utf8_lossy(&checked.stderr);
        let is_unfinished = output.contains("was not finished");
        assert!(is_unfinished || checked.status.success(), "{output}");
        bed.start();
        if is_unfinished {
            resumed += 1;
            // The service resumes the rebuild by itself, and accepts mail again afterwards.
            let is_clean = || bed.run(&["check"]).status.success();
            bed.wait_until("the rebuild is complete", Duration::from_secs(60), is_clean);
        }
        assert_eq!(bed.list_mail(ANN), before);
        if resumed >= 2 {
            break;
        }
    }
    println!("resumed {resumed} times");
    assert!(resumed > 0, "no rebuild was killed in the middle");
    deliver(&bed, 300, 1);
    assert_eq!(bed.list_mail(ANN).len(), before.len() + 1);
    bed.finish();
}
