//! The command line against a running service, as an administrator and a script meet it.

use std::fs;

use crate::bed::{Bed, feed};
use crate::mail::{Client, letter};

#[test]
fn an_account_from_first_to_last() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &["--alias", "a@example.org", "--zone", "Europe/Berlin"]);
    let accounts = bed.rows(&["account", "list"]);
    assert_eq!(accounts.len(), 1, "{accounts:?}");
    let shown = bed.json(&["account", "show", "a@example.org"]).to_string();
    assert!(shown.contains("ann@example.org") && shown.contains("Europe/Berlin"), "{shown}");

    // The same address for a second account, and an account that is not there.
    assert!(!bed.run(&["account", "add", "a@example.org"]).status.success());
    assert_eq!(bed.run(&["account", "show", "nobody@example.org"]).status.code(), Some(67));

    bed.ok(&["account", "alias", "ann@example.org", "a@example.org", "--remove"]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let refused = client.deliver("zoe@example.net", &["a@example.org"], b"Subject: x\r\n\r\n").unwrap();
    assert_eq!(refused[0].code, 550);
    bed.ok(&["account", "remove", "ann@example.org", "--yes"]);
    assert!(bed.rows(&["account", "list"]).is_empty());
    bed.finish();
}

#[test]
fn a_vacation_says_what_it_would_do() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &[]);
    let letters = bed.dir.join("letter.eml");
    fs::write(&letters, letter("zoe@example.net", "ann@example.org", "when?", "When are you back?")).unwrap();
    let test = ["vacation", "test", "-a", "ann@example.org", letters.to_str().unwrap()];
    assert!(bed.json(&test).to_string().contains("disabled"));
    bed.ok(&["vacation", "set", "-a", "ann@example.org", "--text", "Back on Monday.", "--until", "+2w"]);
    let says = String::from_utf8(bed.ok(&test)).unwrap();
    assert!(says.contains("Back on Monday.") && says.contains("Auto-Submitted"), "{says}");
    // A test tells nobody and files nothing.
    assert!(bed.mail("ann@example.org").is_empty());
    assert!(bed.rows(&["queue", "list"]).is_empty());
    bed.ok(&["vacation", "off", "-a", "ann@example.org"]);
    assert!(bed.json(&test).to_string().contains("disabled"));
    bed.finish();
}

#[test]
fn pipe_transport_reads_the_exit_code() {
    let mut bed = Bed::new("");
    bed.start();
    bed.account("ann@example.org", &[]);
    let message = letter("zoe@example.net", "ann@example.org", "piped", "By a pipe.");
    let deliver = |to: &str| feed(&mut bed.command(&["deliver", "-f", "zoe@example.net", to]), &message).status.code();
    assert_eq!(deliver("ann@example.org"), Some(0));
    assert_eq!(deliver("ann@example.org"), Some(0));
    assert_eq!(deliver("nobody@example.org"), Some(67));
    assert_eq!(bed.mail("ann@example.org").len(), 1, "a retry made a second copy");
    bed.stop();
    let deliver = |to: &str| feed(&mut bed.command(&["deliver", "-f", "zoe@example.net", to]), &message).status.code();
    assert_eq!(deliver("ann@example.org"), Some(75), "without the service Postfix must try again");
    bed.finish();
}

#[test]
fn port_25_is_not_for_lmtp() {
    let bed = Bed::new("");
    fs::write(bed.config(), "lmtp.listen = [\"tcp:127.0.0.1:25\"]\n").unwrap();
    let done = bed.run(&["config", "check"]);
    assert_eq!(done.status.code(), Some(78), "{done:?}");
    assert!(String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).contains("25"));
    fs::write(bed.config(), "[lmtp]\nlisen = []\n").unwrap();
    let done = bed.run(&["config", "check"]);
    assert_eq!(done.status.code(), Some(78));
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(said.contains("listen") && said.contains('2'), "neither the nearest name nor the line: {said}");
    fs::remove_dir_all(&bed.dir).unwrap();
}
