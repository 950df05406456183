//! SIGHUP reads the configuration again: which settings take effect at once, which stay with open
//! sessions or need a restart, and what an invalid file does.

use std::fs;
use std::time::Duration;

use crate::bed::TestBed;
use crate::mail::{Client, letter};
use crate::sink::Sink;
use crate::starttls::{begin, keys};

/// What the service logs after a reload.
const DONE: &str = "configuration read again";
/// What the service logs if a changed setting has no effect yet.
const NEEDS_RESTART: &str = "changed settings need a restart";

/// The reply to LHLO, with the host name and the maximum message size.
fn lhlo(client: &mut Client) -> String {
    client.command("LHLO client.example").unwrap().text
}

/// Replaces a text in the configuration, which must have it.
fn edit(bed: &TestBed, from: &str, to: &str) {
    let text = fs::read_to_string(bed.config()).unwrap();
    assert!(text.contains(from), "{from}\n{text}");
    fs::write(bed.config(), text.replace(from, to)).unwrap();
}

#[test]
fn reload_gives_new_sessions_new_settings_and_keeps_those_of_open_ones() {
    let mut bed =
        TestBed::new(&format!("limits.message = \"1 MiB\"\nlog.level = \"info\"\n{}", keys("one")));
    bed.start();
    bed.add_account("ann@example.org", &[]);
    bed.add_account("small@example.org", &["--quota", "1 KiB"]);
    let old = &mut Client::lmtp(&bed.lmtp()).unwrap();
    let code_when_full = |client: &mut Client| {
        assert!(client.command("MAIL FROM:<zoe@example.net> SIZE=5000").unwrap().ok());
        let reply = client.command("RCPT TO:<small@example.org>").unwrap();
        client.command("RSET").unwrap();
        reply.code
    };
    assert_eq!(code_when_full(old), 452);
    assert!(begin(&bed, "one", "").is_ok());
    assert!(!bed.log().contains("DEBUG"));

    edit(&bed, "mda.test.example", "new.test.example");
    edit(&bed, "1 MiB", "64 KiB");
    edit(&bed, "level = \"info\"", "level = \"info,restante=debug\"");
    edit(&bed, &keys("one"), &keys("two"));
    let text = fs::read_to_string(bed.config()).unwrap();
    fs::write(
        bed.config(),
        text + "directory.delimiter = \"-\"\ndirectory.over-quota = \"refuse\"\n",
    )
    .unwrap();
    let log = bed.reload(DONE);
    assert!(!log.contains(NEEDS_RESTART), "{log}");

    let reply = lhlo(old);
    assert!(reply.starts_with("mda.test.example") && reply.contains("SIZE 1048576"), "{reply}");
    let new = &mut Client::lmtp(&bed.lmtp()).unwrap();
    let reply = lhlo(new);
    assert!(reply.starts_with("new.test.example") && reply.contains("SIZE 65536"), "{reply}");
    // Settings of the directory and of deliveries apply from the next transaction on, the
    // certificate to new sessions.
    assert_eq!((code_when_full(old), code_when_full(new)), (552, 552));
    let message =
        letter("zoe@example.net", "ann-x@example.org", "detail", "with the new delimiter");
    let replies = new
        .deliver("zoe@example.net", &["ann-x@example.org", "ann+x@example.org"], &message)
        .unwrap();
    assert_eq!(
        replies.iter().map(|reply| reply.code).collect::<Vec<_>>(),
        [250, 550],
        "{replies:?}"
    );
    assert!(begin(&bed, "one", "").is_err());
    assert!(begin(&bed, "two", "").is_ok());
    // The log level has changed: a broken connection is logged at the level debug only.
    bed.wait_until("a line at the level debug", Duration::from_secs(10), || {
        bed.log().contains("DEBUG")
    });
    bed.finish();
}

#[test]
fn invalid_file_keeps_old_settings_and_logs_line_and_remedy() {
    let mut bed = TestBed::new("limits.message = \"1 MiB\"\n");
    bed.start();
    // The test bed writes four lines before this one.
    edit(&bed, "1 MiB", "1 megs");
    let log = bed.reload("the old one stays in force");
    assert!(log.contains("restante.toml:5:") && log.contains("write a whole number"), "{log}");
    edit(&bed, "limits.message = \"1 megs\"", "limits.message = \"2 MiB\"\nlimits.idle = \"1s\"");
    let log = bed.reload("the old one stays in force");
    assert!(log.contains("restante.toml:6:") && log.contains("write at least"), "{log}");
    // With a missing certificate, the valid part of the file is not applied either.
    edit(&bed, "limits.idle = \"1s\"", &keys("absent"));
    let log = bed.reload("the old one stays in force");
    assert!(log.contains("absent.cert.pem") && log.contains("name a PEM file"), "{log}");
    assert!(lhlo(&mut Client::lmtp(&bed.lmtp()).unwrap()).contains("SIZE 1048576"));
    edit(&bed, &keys("absent"), "");
    bed.reload(DONE);
    assert!(lhlo(&mut Client::lmtp(&bed.lmtp()).unwrap()).contains("SIZE 2097152"));
    bed.finish();
}

#[test]
fn reload_logs_settings_that_need_a_restart() {
    let mut bed = TestBed::new("limits.message = \"1 MiB\"\n");
    bed.start();
    let text = fs::read_to_string(bed.config()).unwrap();
    let moved = text
        .replace("/lmtp\"", "/other-lmtp\"")
        .replace("/data\"", "/other-data\"")
        .replace("/control\"", "/other-control\"")
        .replace("1 MiB", "2 MiB");
    fs::write(bed.config(), moved + "log.format = \"plain\"\n").unwrap();
    let log = bed.reload(DONE);
    assert!(log.contains(NEEDS_RESTART), "{log}");
    for key in ["[store] path", "[lmtp] listen", "[control] socket", "[log] format"] {
        assert!(log.contains(key), "{key}: {log}");
    }
    assert!(
        lhlo(&mut Client::lmtp(&bed.lmtp()).unwrap()).contains("SIZE 2097152"),
        "the other settings apply"
    );
    assert!(!bed.dir.join("other-lmtp").exists() && !bed.dir.join("other-data").exists());
    fs::write(bed.config(), text).unwrap();
    bed.finish();
}

#[test]
fn reload_sends_waiting_replies_to_the_new_relay_at_once() {
    let relay = Sink::start();
    // Nobody listens on port 1, and the next attempt would be in an hour.
    let mut bed = TestBed::new(
        "relay.host = \"127.0.0.1\"\nrelay.port = 1\nrelay.pause = \"1h\"\nrelay.tls = \"none\"\n",
    );
    bed.start();
    bed.add_account("ann@example.org", &[]);
    bed.run_ok(&["vacation", "set", "-a", "ann@example.org", "--text", "Away."]);
    let message = letter("zoe@example.net", "ann@example.org", "hello", "hello");
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    assert!(client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap()[0].ok());
    bed.wait_until("the relay has failed", Duration::from_secs(20), || {
        bed.log().contains("the relay is out of order")
    });
    assert_eq!(bed.rows(&["queue", "list"]).len(), 1);
    edit(&bed, "port = 1\n", &format!("port = {}\n", relay.address.port()));
    bed.reload(DONE);
    bed.wait_until("the reply", Duration::from_secs(20), || relay.messages().len() == 1);
    bed.finish();
}

#[test]
fn reload_changes_system_senders_and_reply_rate() {
    let mut bed = TestBed::new("vacation.system-senders = []\nrelay.port = 1\n");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    bed.run_ok(&["vacation", "set", "-a", "ann@example.org", "--text", "Away."]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let mut reason = |sender: &str| {
        let message = letter(sender, "ann@example.org", "hello", sender);
        assert!(client.deliver(sender, &["ann@example.org"], &message).unwrap()[0].ok());
        bed.rows(&["vacation", "log", "-a", "ann@example.org", "--limit", "1"])[0]["reason"].clone()
    };
    assert_eq!(reason("robot7@example.net"), serde_json::Value::Null);
    edit(&bed, "system-senders = []", "system-senders = [\"robot8\", \"robot9\"]");
    bed.reload(DONE);
    assert_eq!(reason("robot8@example.net"), "system-sender");
    // `vacation test` uses the new settings as well.
    let file = bed.dir.join("letter.eml");
    fs::write(&file, letter("robot9@example.net", "ann@example.org", "x", "x")).unwrap();
    let test = bed.json(&["vacation", "test", "-a", "ann@example.org", file.to_str().unwrap()]);
    assert_eq!(test["reason"], "system-sender", "{test}");
    // One reply of the account counts, that to robot7.
    edit(&bed, "relay.port = 1", "vacation.replies-per-hour = 1\nrelay.port = 1");
    bed.reload(DONE);
    assert_eq!(reason("zoe@example.net"), "rate-limit");
    bed.finish();
}
