//! The queue of the real program: killed while it drains, worked by command, and of a store that
//! was restored.
#![cfg(feature = "rocksdb")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::bed::TestBed;
use crate::crash::Dice;
use crate::mail::{Client, letter};
use crate::mta::{Postfix, can_run_postfix, free_port};
use crate::sink::Sink;

const ANN: &str = "ann@example.org";

fn relay(port: u16) -> String {
    format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\nrelay.pause = \"100ms\"\n\
         vacation.replies-per-hour = 1000000\nvacation.replies-per-hour-in-all = 1000000\nlog.level = \"warn\"\n"
    )
}

/// A service whose relay is not there, ann who is away, and so many replies that wait.
fn waiting(replies: usize) -> TestBed {
    let mut bed = TestBed::new(&relay(1));
    bed.start();
    bed.add_account(ANN, &[]);
    bed.run_ok(&["vacation", "set", "-a", ANN, "--text", "Away."]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for n in 0..replies {
        let sender = format!("u{n}@d{n}.example");
        let message = letter(&sender, ANN, &format!("letter {n}"), "hello");
        assert!(
            client.deliver(&sender, &[ANN], &message).unwrap().iter().all(crate::mail::Reply::ok)
        );
    }
    assert_eq!(bed.rows(&["queue", "list"]).len(), replies);
    bed
}

fn answered(sink: &Sink) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for reply in sink.messages() {
        assert_eq!(reply.sender, "");
        *all.entry(reply.recipients.join(",")).or_default() += 1;
    }
    all
}

#[test]
fn killed_while_it_drains_it_repeats_no_reply() {
    const REPLIES: usize = 300;
    const CONCURRENCY: usize = 4;
    let mut bed = waiting(REPLIES);
    let sink = Sink::start();
    bed.stop();
    bed.configure(&relay(sink.address.port()));
    let mut kills = 0;
    let mut dice = getrandom::u64().unwrap() | 1;
    println!("dice {dice}");
    // Killed at some instant after it began to send, until all is sent.
    while answered(&sink).len() < REPLIES * 9 / 10 && kills < 60 {
        let before = sink.messages().len();
        bed.spawn();
        bed.wait_until("it sends", Duration::from_secs(60), || {
            sink.messages().len() > before || kills > 50
        });
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        std::thread::sleep(Duration::from_micros(dice % 40_000));
        bed.kill();
        kills += 1;
    }
    bed.start();
    bed.wait_until("the queue is empty", Duration::from_secs(120), || {
        bed.rows(&["queue", "list"]).is_empty()
    });
    let all = answered(&sink);
    let twice: Vec<_> = all.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "answered twice: {twice:?}");
    // What was under way at the instant of a kill may be lost, and nothing else.
    let lost = REPLIES - all.len();
    println!("{kills} kills, {} replies, {lost} lost in sending", all.len());
    assert!(kills > 0 && lost <= kills * CONCURRENCY, "{lost} lost by {kills} kills");
    bed.finish();
}

/// The same into a real Postfix, which hands the replies back to us over LMTP: each sender has his
/// in his own Inbox.
#[test]
fn killed_while_it_drains_into_postfix_it_repeats_no_reply() {
    const SENDERS: usize = 40;
    if !can_run_postfix() {
        return;
    }
    let port = free_port();
    let mut bed = TestBed::new(&relay(port));
    bed.start();
    bed.add_account(ANN, &[]);
    let senders: Vec<String> = (0..SENDERS).map(|n| format!("u{n}@example.net")).collect();
    for sender in &senders {
        bed.add_account(sender, &[]);
    }
    bed.run_ok(&["vacation", "set", ANN, "--text", "Away."]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for sender in &senders {
        let message = letter(sender, ANN, "hello", "hello");
        assert!(
            client.deliver(sender, &[ANN], &message).unwrap().iter().all(crate::mail::Reply::ok)
        );
    }
    assert_eq!(bed.rows(&["queue", "list"]).len(), SENDERS);
    drop(client);
    bed.stop();
    // It asks nobody whether a recipient is there: we, whom it would ask, are being killed.
    let plain = "smtpd_recipient_restrictions = reject_unauth_destination\n";
    let postfix = Postfix::start(&bed.dir, port, &bed.lmtp(), plain);
    // Postfix says which replies it took: one line with the Message-ID for each.
    let taken = || {
        let log = postfix.log();
        let ids = log
            .lines()
            .filter_map(|line| line.split_once("message-id=<"))
            .map(|(_, id)| id.to_owned());
        ids.collect::<Vec<String>>()
    };
    let mut dice = Dice(getrandom::u64().unwrap() | 1);
    println!("dice {}", dice.0);
    // Killed at some instant after it began to send, until it sends nothing any more: what was lost
    // by kills is not left.
    let mut kills = 0;
    loop {
        let before = taken().len();
        bed.spawn();
        let until = Instant::now() + Duration::from_secs(15);
        while taken().len() == before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let sends = taken().len() > before;
        std::thread::sleep(Duration::from_micros(dice.below(40_000) as u64));
        bed.kill();
        kills += 1;
        if !sends || kills == 30 {
            break;
        }
    }
    bed.start();
    std::fs::set_permissions(bed.lmtp(), std::fs::Permissions::from_mode(0o666)).unwrap();
    bed.wait_until("the queue is empty", Duration::from_secs(120), || {
        bed.rows(&["queue", "list"]).is_empty()
    });
    bed.wait_until("Postfix has delivered", Duration::from_secs(120), || postfix.is_idle());
    let mut all = taken();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "the same reply was sent twice");
    let answered: Vec<usize> = senders.iter().map(|sender| bed.list_mail(sender).len()).collect();
    assert!(answered.iter().all(|replies| *replies <= 1), "answered twice: {answered:?}");
    let lost = SENDERS - answered.iter().sum::<usize>();
    println!("{kills} kills, {count} replies through Postfix, {lost} lost in sending");
    assert!(kills > 0 && lost <= kills * 4, "{lost} lost by {kills} kills");
    drop(postfix);
    bed.finish();
}

#[test]
fn the_queue_is_looked_at_and_worked_by_command() {
    let bed = waiting(4);
    let table = String::from_utf8(bed.run_ok(&["queue", "list"])).unwrap();
    assert!(
        table.contains("reply") && table.contains("u2@d2.example") && table.contains("NEXT"),
        "{table}"
    );
    let said = String::from_utf8(bed.run(&["queue", "list"]).stderr).unwrap();
    assert!(
        said.contains("the relay does not accept mail") && said.contains("127.0.0.1:1"),
        "{said}"
    );
    let count = |more: &[&str]| bed.rows(&[&["queue", "list"], more].concat()).len();
    assert_eq!(count(&["--domain", "D2.example"]), 1);
    assert_eq!((count(&["--kind", "reply"]), count(&["--kind", "submission"])), (4, 0));
    assert_eq!((count(&["--older", "1h"]), count(&["-a", ANN, "--limit", "2"])), (0, 2));
    let id = bed.rows(&["queue", "list", "--domain", "d1.example"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    bed.run_ok(&["queue", "hold", "-a", ANN, &id]);
    assert_eq!(count(&["--state", "held"]), 1);
    let shown = String::from_utf8(bed.run_ok(&["queue", "show", "-a", ANN, &id])).unwrap();
    assert!(
        shown.contains("held") && shown.contains("u1@d1.example") && shown.contains("RECIPIENT"),
        "{shown}"
    );
    let message = bed.run_ok(&["queue", "show", "-a", ANN, &id, "--message"]);
    assert!(
        String::from_utf8(message).unwrap().contains("Auto-Submitted: auto-replied (vacation)")
    );
    assert!(!bed.run(&["queue", "retry", &id]).status.success(), "whose?");
    assert!(!bed.run(&["queue", "accept-loss"]).status.success(), "nothing is held");
    let held = bed.json(&["queue", "hold", "--all", "--kind", "reply"]);
    assert_eq!((&held["changed"], &held["left"]), (&4.into(), &0.into()));
    assert_eq!(bed.json(&["queue", "release", "--all", "--domain", "d3.example"])["changed"], 1);
    assert_eq!((count(&["--state", "held"]), count(&["--state", "waiting"])), (3, 1));
    bed.run_ok(&["queue", "remove", "-a", ANN, &id]);
    assert_eq!(bed.json(&["queue", "remove", "--all", "--state", "held"])["changed"], 2);
    assert_eq!(count(&[]), 1);
    let log = bed.rows(&["vacation", "log", "-a", ANN]);
    assert_eq!(log.iter().filter(|row| row["detail"] == "removed by hand").count(), 3, "{log:?}");
    bed.finish();
}

#[test]
fn a_restored_store_sends_nothing_until_that_is_accepted() {
    let mut bed = waiting(3);
    let backups = bed.dir.join("backups");
    bed.run_ok(&["backup", backups.to_str().unwrap()]);
    let sink = Sink::start();
    bed.stop();
    bed.configure(&relay(sink.address.port()));
    bed.start();
    bed.wait_until("all sent", Duration::from_secs(60), || bed.rows(&["queue", "list"]).is_empty());
    bed.stop();
    let (data, restored) = (bed.dir.join("data"), bed.dir.join("restored"));
    bed.run_ok(&["restore", backups.to_str().unwrap(), "--to", restored.to_str().unwrap()]);
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&restored, &data).unwrap();
    bed.start();
    let said = bed.run(&["queue", "list"]);
    bed.wait_until("it is said", Duration::from_secs(20), || {
        let said = bed.run(&["queue", "list"]);
        String::from_utf8_lossy(&said.stderr).contains("restored from a backup")
    });
    assert!(said.status.success() && bed.log().contains("accept-loss"), "{}", bed.log());
    assert_eq!((sink.messages().len(), bed.rows(&["queue", "list"]).len()), (3, 3));
    let accepted = bed.json(&["queue", "accept-loss"]);
    assert_eq!((&accepted["dropped"], &accepted["kept"]), (&3.into(), &0.into()));
    let said = String::from_utf8(bed.run(&["queue", "list"]).stderr).unwrap();
    assert!(!said.contains("does not accept mail"), "{said}");
    // Whom it answered before the backup was restored it does not answer again; and whoever writes
    // now is answered.
    let message = letter("new@d.example", ANN, "hello", "hello");
    assert!(
        Client::lmtp(&bed.lmtp()).unwrap().deliver("new@d.example", &[ANN], &message).unwrap()[0]
            .ok()
    );
    bed.wait_until("the new one", Duration::from_secs(20), || sink.messages().len() == 4);
    assert!(answered(&sink).values().all(|count| *count == 1));
    bed.finish();
}
