//! Killed in the middle of a backup, of a repair, of a rebuild: what was whole stays whole, and the
//! work goes on.
//!
//! `RESTANTE_KILLS` sets how often (6), `RESTANTE_SEED` repeats a run's dice.
#![cfg(feature = "rocksdb")]

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::bed::Bed;
use crate::crash::{Dice, number};
use crate::mail::{Client, letter};

const ANN: &str = "ann@example.org";

/// Delivers so many more messages.
fn deliver(bed: &Bed, from: usize, count: usize) {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for number in from..from + count {
        // Words of its own, so that a backup has something to copy.
        let words: Vec<String> =
            (0..400).map(|at| format!("w{:x}", (number * 7919 + at) * 2_654_435_761)).collect();
        let message =
            letter("zoe@example.net", ANN, &format!("number {number:05}"), &words.join(" "));
        assert!(client.deliver("zoe@example.net", &[ANN], &message).unwrap()[0].ok());
    }
}

fn begin(bed: &Bed, words: &[&str]) -> Child {
    bed.command(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// How many messages are in the newest backup: restored, proved, served and counted.
fn restored(backups: &str) -> usize {
    let mut other = Bed::new("");
    let data = other.dir.join("data");
    other.ok(&["restore", backups, "--to", data.to_str().unwrap()]);
    other.start();
    let count = other.mail(ANN).len();
    other.finish();
    count
}

#[test]
fn killed_in_a_backup_the_whole_ones_stay_whole() {
    let kills = number("RESTANTE_KILLS", 6);
    let seed = number("RESTANTE_SEED", getrandom::u64().unwrap() | 1);
    println!("RESTANTE_SEED={seed}");
    let mut dice = Dice(seed);
    let mut bed = Bed::new("log.level = \"warn\"\n");
    let backups = bed.dir.join("backups");
    let backups = backups.to_str().unwrap();
    bed.start();
    bed.account(ANN, &[]);
    deliver(&bed, 0, 50);
    // What a backup takes here, and some more: it may be over before it is killed.
    let whole = |bed: &Bed| {
        let begun = Instant::now();
        bed.ok(&["backup", backups, "--keep", "3"]);
        usize::try_from(begun.elapsed().as_micros()).unwrap() * 5 / 4
    };
    let mut most = whole(&bed);
    let (mut count, mut known, mut cut) = (50, 50, 0);
    for round in 0..kills * 5 {
        if round >= kills && cut > 0 {
            break;
        }
        deliver(&bed, count, 20);
        count += 20;
        // By the service, or by the command itself where none runs.
        let offline = round % 2 == 1;
        if offline {
            bed.stop();
        }
        let mut command = begin(&bed, &["backup", backups, "--keep", "3"]);
        std::thread::sleep(Duration::from_micros(dice.below(most) as u64));
        if offline {
            command.kill().unwrap();
        } else {
            bed.kill();
        }
        let is_done = command.wait().unwrap().success();
        cut += u32::from(!is_done);
        let listed = bed.rows(&["backup", backups, "--verify"]);
        assert!(
            !listed.is_empty() && listed.iter().all(|one| one["state"] == "whole"),
            "{listed:?}"
        );
        if round % 8 == 7 || round + 1 == kills {
            let found = restored(backups);
            assert!(
                found == count || found == known && !is_done,
                "{found} of {count}, {known} before"
            );
        }
        if is_done {
            known = count;
        }
        bed.start();
        if !is_done {
            // A further one works, and is whole.
            most = whole(&bed);
            known = count;
        }
    }
    println!("{cut} of {kills} backups were cut off");
    assert!(cut > 0, "none was cut off");
    let listed = bed.rows(&["backup", backups, "--verify"]);
    assert!(listed.len() <= 3 && listed.iter().all(|one| one["state"] == "whole"), "{listed:?}");
    assert_eq!(restored(backups), count);
    // Nothing is left of those that were cut off: what the directory holds is what the backups
    // list.
    assert_eq!(folders(&Path::new(backups).join("private")), listed.len());
    bed.finish();
}

#[test]
fn a_restore_that_was_killed_is_made_again_and_nothing_else_is_overwritten() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account(ANN, &[]);
    deliver(&bed, 0, 3);
    let (backups, data) = (bed.dir.join("backups"), bed.dir.join("again"));
    let (backups, to) = (backups.to_str().unwrap(), data.to_str().unwrap());
    bed.ok(&["backup", backups]);
    // As one leaves it that was killed while it copied.
    fs::create_dir_all(data.join("store.restoring")).unwrap();
    fs::write(data.join("store.restoring").join("CURRENT"), "half").unwrap();
    fs::write(data.join("letter"), "somebody's").unwrap();
    assert!(!bed.run(&["restore", backups, "--to", to]).status.success());
    assert!(data.join("letter").is_file() && data.join("store.restoring").is_dir());
    fs::remove_file(data.join("letter")).unwrap();
    bed.ok(&["restore", backups, "--to", to]);
    assert!(data.join("store").is_dir() && !data.join("store.restoring").exists());
    assert!(!bed.run(&["restore", backups, "--to", to]).status.success(), "it is there now");
    bed.finish();
}

fn folders(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
}

#[test]
fn a_rebuild_that_was_killed_is_gone_on_with_when_the_service_starts() {
    let seed = number("RESTANTE_SEED", getrandom::u64().unwrap() | 1);
    println!("RESTANTE_SEED={seed}");
    let mut dice = Dice(seed);
    let mut bed = Bed::new("");
    bed.start();
    bed.account(ANN, &[]);
    deliver(&bed, 0, 300);
    let before = bed.mail(ANN);
    let begun = Instant::now();
    bed.ok(&["rebuild"]);
    let most = usize::try_from(begun.elapsed().as_micros()).unwrap();
    let mut resumed = 0;
    for round in 0..40 {
        let offline = round % 2 == 1;
        if offline {
            bed.stop();
        }
        let mut command = begin(&bed, &["rebuild"]);
        std::thread::sleep(Duration::from_micros(dice.below(most) as u64));
        if offline {
            command.kill().unwrap();
        } else {
            bed.kill();
        }
        command.wait().unwrap();
        let found = bed.run(&["check"]);
        let said = String::from_utf8_lossy(&found.stdout).into_owned()
            + &String::from_utf8_lossy(&found.stderr);
        let is_unfinished = said.contains("was not finished");
        assert!(is_unfinished || found.status.success(), "{said}");
        bed.start();
        if is_unfinished {
            resumed += 1;
            // The service goes on with it by itself, and takes mail again when it is done.
            let clean = || bed.run(&["check"]).status.success();
            bed.eventually("the rebuild is ended", Duration::from_secs(60), clean);
        }
        assert_eq!(bed.mail(ANN), before);
        if resumed >= 2 {
            break;
        }
    }
    println!("gone on with {resumed} times");
    assert!(resumed > 0, "it was never killed in the middle");
    deliver(&bed, 300, 1);
    assert_eq!(bed.mail(ANN).len(), before.len() + 1);
    bed.finish();
}
