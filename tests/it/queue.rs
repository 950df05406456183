//! The queue: kills while it sends, the `queue` commands, and the queue of a restored store.
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

/// A configuration with a relay on `port` and without effective limits of replies.
fn relay_config(port: u16) -> String {
    format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n\
         relay.pause = \"100ms\"\nvacation.replies-per-hour = 1000000\n\
         vacation.replies-per-hour-in-all = 1000000\nlog.level = \"warn\"\n"
    )
}

/// Starts a service whose relay does not answer (nobody listens on port 1), with `replies` replies
/// of Ann in the queue.
fn with_queued_replies(replies: usize) -> TestBed {
    let mut bed = TestBed::new(&relay_config(1));
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

/// The number of replies that arrived at the relay, by recipient.
fn count_replies(sink: &Sink) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for reply in sink.messages() {
        assert_eq!(reply.sender, "");
        *all.entry(reply.recipients.join(",")).or_default() += 1;
    }
    all
}

#[test]
fn killed_queue_sends_no_reply_twice() {
    const REPLIES: usize = 300;
    const CONCURRENCY: usize = 4;
    let mut bed = with_queued_replies(REPLIES);
    let sink = Sink::start();
    bed.stop();
    bed.configure(&relay_config(sink.address.port()));
    /// Rounds after which the test goes on with however many replies were sent. About 20 suffice
    /// on an idle machine.
    const MAX_KILLS: usize = 60;
    /// Rounds after which a kill no longer waits until a reply is sent. By then the few replies
    /// that are left may all wait for a later attempt.
    const PATIENT_KILLS: usize = 50;
    let mut kills = 0;
    let mut dice = Dice(getrandom::u64().unwrap() | 1);
    println!("dice {}", dice.0);
    // Each round kills the service shortly after it begins to send.
    while count_replies(&sink).len() < REPLIES * 9 / 10 && kills < MAX_KILLS {
        let before = sink.messages().len();
        bed.spawn();
        bed.wait_until("a reply is sent", Duration::from_secs(60), || {
            sink.messages().len() > before || kills > PATIENT_KILLS
        });
        std::thread::sleep(Duration::from_micros(dice.below(40_000) as u64));
        bed.kill();
        kills += 1;
    }
    bed.start();
    bed.wait_until("the queue is empty", Duration::from_secs(120), || {
        bed.rows(&["queue", "list"]).is_empty()
    });
    let all = count_replies(&sink);
    let twice: Vec<_> = all.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "answered twice: {twice:?}");
    // Only replies that were being sent at a kill may be lost.
    let lost = REPLIES - all.len();
    println!("{kills} kills, {} replies, {lost} lost in sending", all.len());
    assert!(kills > 0 && lost <= kills * CONCURRENCY, "{lost} lost by {kills} kills");
    bed.finish();
}

/// A real Postfix is the relay and delivers the replies to the senders' accounts over LMTP.
#[test]
fn killed_queue_sends_no_reply_twice_through_postfix() {
    const SENDERS: usize = 40;
    if !can_run_postfix() {
        return;
    }
    let port = free_port();
    let mut bed = TestBed::new(&relay_config(port));
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
    // Postfix must not verify recipients: it would ask the service, which is being killed.
    let plain = "smtpd_recipient_restrictions = reject_unauth_destination\n";
    let postfix = Postfix::start(&bed.dir, port, &bed.lmtp(), plain);
    // Postfix logs a line with the Message-ID for each reply that it accepted.
    let accepted_ids = || {
        let log = postfix.log();
        let ids = log
            .lines()
            .filter_map(|line| line.split_once("message-id=<"))
            .map(|(_, id)| id.to_owned());
        ids.collect::<Vec<String>>()
    };
    let mut dice = Dice(getrandom::u64().unwrap() | 1);
    println!("dice {}", dice.0);
    // Each round kills the service shortly after it begins to send, until a round sends nothing,
    // or for 30 rounds.
    let mut kills = 0;
    loop {
        let before = accepted_ids().len();
        bed.spawn();
        let until = Instant::now() + Duration::from_secs(15);
        while accepted_ids().len() == before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let sends = accepted_ids().len() > before;
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
    bed.wait_until("Postfix has delivered", Duration::from_secs(60), || {
        postfix.flush();
        postfix.is_idle()
    });
    let mut all = accepted_ids();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "the same reply was sent twice");
    let answered: Vec<usize> = senders.iter().map(|sender| bed.list_mail(sender).len()).collect();
    assert!(answered.iter().all(|replies| *replies <= 1), "answered twice: {answered:?}");
    let lost = SENDERS - answered.iter().sum::<usize>();
    println!("{kills} kills, {count} replies through Postfix, {lost} lost in sending");
    // At most `relay.concurrency` (4) replies are being sent at a kill.
    assert!(kills > 0 && lost <= kills * 4, "{lost} lost by {kills} kills");
    drop(postfix);
    bed.finish();
}

#[test]
fn queue_commands_list_hold_release_and_remove() {
    let bed = with_queued_replies(4);
    let table = String::from_utf8(bed.run_ok(&["queue", "list"])).unwrap();
    assert!(
        table.contains("reply") && table.contains("u2@d2.example") && table.contains("NEXT"),
        "{table}"
    );
    let errors = String::from_utf8(bed.run(&["queue", "list"]).stderr).unwrap();
    assert!(
        errors.contains("the relay does not accept mail") && errors.contains("127.0.0.1:1"),
        "{errors}"
    );
    let count = |more: &[&str]| bed.rows(&[&["queue", "list"], more].concat()).len();
    assert_eq!(count(&["--domain", "D2.example"]), 1);
    assert_eq!((count(&["--kind", "reply"]), count(&["--kind", "submission"])), (4, 0));
    assert_eq!((count(&["--older", "1h"]), count(&["-a", ANN, "--limit", "2"])), (0, 2));
    let id = bed.rows(&["queue", "list", "--domain", "d1.example"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = bed.rows(&["queue", "list", "--domain", "d2.example"])[0]["id"].clone();
    let other = other.as_str().unwrap();
    let held = bed.json(&["queue", "hold", "-a", ANN, &id, other]);
    assert_eq!((&held["changed"], &held["left"]), (&2.into(), &0.into()));
    assert_eq!(bed.json(&["queue", "release", "-a", ANN, other])["changed"], 1);
    // What was changed before a failure is printed, too.
    let failed = bed.run(&["--json", "queue", "hold", "-a", ANN, &id, "q0"]);
    assert!(!failed.status.success(), "{failed:?}");
    let held: serde_json::Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(held["changed"], 1);
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
    assert!(!bed.run(&["queue", "retry", &id]).status.success(), "no account is named");
    let refused = bed.run(&["queue", "remove", "-a", ANN, &id, "--kind", "submission"]);
    assert_eq!(refused.status.code(), Some(64), "an option that selects, beside an id");
    assert!(!bed.run(&["queue", "accept-loss"]).status.success(), "nothing is held");
    // All four match the filter. The one that is held already counts, too: it is held as asked.
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
fn restored_store_sends_nothing_until_loss_is_accepted() {
    let mut bed = with_queued_replies(3);
    let backups = bed.dir.join("backups");
    bed.run_ok(&["backup", backups.to_str().unwrap()]);
    let sink = Sink::start();
    bed.stop();
    bed.configure(&relay_config(sink.address.port()));
    bed.start();
    bed.wait_until("all sent", Duration::from_secs(60), || bed.rows(&["queue", "list"]).is_empty());
    bed.stop();
    let (data, restored) = (bed.dir.join("data"), bed.dir.join("restored"));
    bed.run_ok(&["restore", backups.to_str().unwrap(), "--to", restored.to_str().unwrap()]);
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&restored, &data).unwrap();
    bed.start();
    bed.wait_until("`queue list` names the backup", Duration::from_secs(20), || {
        let listed = bed.run(&["queue", "list"]);
        listed.status.success()
            && String::from_utf8_lossy(&listed.stderr).contains("restored from a backup")
    });
    assert!(bed.log().contains("accept-loss"), "{}", bed.log());
    assert_eq!((sink.messages().len(), bed.rows(&["queue", "list"]).len()), (3, 3));
    let accepted = bed.json(&["queue", "accept-loss"]);
    assert_eq!((&accepted["dropped"], &accepted["kept"]), (&3.into(), &0.into()));
    let errors = String::from_utf8(bed.run(&["queue", "list"]).stderr).unwrap();
    assert!(!errors.contains("does not accept mail"), "{errors}");
    // Senders who had a reply before the restore get no second one. New senders get a reply.
    let message = letter("new@d.example", ANN, "hello", "hello");
    assert!(
        Client::lmtp(&bed.lmtp()).unwrap().deliver("new@d.example", &[ANN], &message).unwrap()[0]
            .ok()
    );
    bed.wait_until("the new reply", Duration::from_secs(20), || sink.messages().len() == 4);
    assert!(count_replies(&sink).values().all(|count| *count == 1));
    bed.finish();
}
