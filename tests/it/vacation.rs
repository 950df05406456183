//! The `vacation` commands and their effect: who was told, exceptions, placeholders, and replies
//! that could not be sent.

use std::time::Duration;

use serde_json::Value;

use crate::bed::TestBed;
use crate::mail::{Client, crlf, letter};
use crate::sink::Sink;

const ANN: &str = "ann@example.org";

/// Starts a service whose relay is the sink, with Ann, whose vacation response has the options
/// `set`.
fn start_away(relay: &Sink, set: &[&str]) -> TestBed {
    let port = relay.address.port();
    let mut bed = TestBed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n"
    ));
    bed.start();
    bed.add_account(ANN, &["--zone", "America/New_York"]);
    bed.run_ok(&[&["vacation", "set", "-a", ANN], set].concat());
    bed
}

fn send(bed: &TestBed, sender: &str, subject: &str) {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let message = letter(sender, ANN, subject, "hello");
    assert!(client.command(&format!("MAIL FROM:<{sender}> SMTPUTF8")).unwrap().ok());
    let replies = client.transact([format!("<{ANN}>")].into_iter(), &message).unwrap();
    assert!(replies[0].ok(), "{replies:?}");
}

/// The reason and the detail of the newest decision. The reason is null if a reply was queued.
fn decision(bed: &TestBed) -> (Value, Value) {
    let row = bed.rows(&["vacation", "log", "-a", ANN, "--limit", "1"]).remove(0);
    (row["reason"].clone(), row["detail"].clone())
}

/// The senders that were told, newest first.
fn told(bed: &TestBed) -> Vec<String> {
    let rows = bed.rows(&["vacation", "told", "-a", ANN]);
    assert!(
        rows.iter().all(|row| row["at"].as_str().is_some_and(|at| at.ends_with('Z'))),
        "{rows:?}"
    );
    rows.iter().map(|row| row["sender"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn told_senders_are_listed_and_can_be_forgotten() {
    let relay = Sink::start();
    let bed = start_away(&relay, &["--text", "Away."]);
    for sender in ["zoe@example.net", "yve@example.net"] {
        send(&bed, sender, "hello");
        assert_eq!(decision(&bed).0, Value::Null);
    }
    assert_eq!(told(&bed), ["yve@example.net", "zoe@example.net"]);
    let table =
        String::from_utf8(bed.run_ok(&["vacation", "told", "-a", ANN, "--limit", "1"])).unwrap();
    assert!(
        table.contains("yve@example.net") && !table.contains("zoe@") && table.contains("WHEN"),
        "{table}"
    );
    send(&bed, "zoe@example.net", "hello again");
    assert_eq!(decision(&bed).0, "already-told");

    bed.run_ok(&["vacation", "forget", "-a", ANN, "Zoe@Example.NET"]);
    assert_eq!(told(&bed), ["yve@example.net"]);
    assert_eq!(
        bed.run(&["vacation", "forget", "-a", ANN, "zoe@example.net"]).status.code(),
        Some(67)
    );
    send(&bed, "zoe@example.net", "and again");
    assert_eq!(decision(&bed).0, Value::Null);
    bed.run_ok(&["vacation", "forget", "-a", ANN, "--all"]);
    assert!(told(&bed).is_empty());
    bed.run_ok(&["vacation", "forget", "-a", ANN, "--all"]);
    for wrong in [
        &["vacation", "forget", "-a", ANN][..],
        &["vacation", "forget", "-a", ANN, "--all", "x@example.net"],
    ] {
        assert_eq!(bed.run(wrong).status.code(), Some(64));
    }
    bed.wait_until("three replies", Duration::from_secs(20), || relay.messages().len() == 3);
    bed.finish();
}

#[test]
fn excepted_senders_are_not_answered_and_told_senders_stay_told() {
    let relay = Sink::start();
    let bed = start_away(&relay, &["--text", "Away."]);
    send(&bed, "zoe@example.net", "hello");
    assert_eq!(decision(&bed).0, Value::Null);
    bed.run_ok(&[
        "vacation",
        "set",
        "-a",
        ANN,
        "--text",
        "Away.",
        "--except",
        "boss@example.com",
        "--except",
        "Example.INFO",
    ]);
    let shown = bed.json(&["vacation", "show", "-a", ANN]);
    assert_eq!(shown["except"], serde_json::json!(["boss@example.com", "example.info"]));
    for (sender, reason) in [
        ("boss@example.com", "not-in-audience"),
        ("any@example.info", "not-in-audience"),
        ("zoe@example.net", "already-told"),
    ] {
        send(&bed, sender, "again");
        assert_eq!(decision(&bed).0, reason, "{sender}");
    }
    assert_eq!(bed.run(&["vacation", "set", "-a", ANN, "--except", "a b"]).status.code(), Some(64));
    bed.run_ok(&["vacation", "set", "-a", ANN, "--text", "Away.", "--except", ""]);
    send(&bed, "boss@example.com", "once more");
    assert_eq!(decision(&bed).0, Value::Null);
    bed.finish();
}

#[test]
fn placeholders_cannot_inject_header_fields() {
    let relay = Sink::start();
    let text = "About {subject}, {from}: away until {until}. {other} {";
    let bed = start_away(
        &relay,
        &["--text", text, "--subject", "Away: {subject}", "--until", "2099-01-06"],
    );
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let message = "From: zoe@example.net\nTo: ann@example.org\n\
        Subject: =?utf-8?q?Lunch_=7Bfrom=7D=0D=0ABcc:_eve@example.net=0D=0A=0D=0Abody?=\n\
        \nx\n";
    let replies = client.deliver("zoe@example.net", &[ANN], &crlf(message.as_bytes())).unwrap();
    assert!(replies[0].ok(), "{replies:?}");
    bed.wait_until("the reply", Duration::from_secs(20), || relay.messages().len() == 1);
    let reply = relay.messages().remove(0);
    assert_eq!(reply.header("Bcc"), None, "{}", reply.text);
    // Control characters in encoded words are removed (RFC 8621 §4.1.2.2).
    assert_eq!(
        reply.header("Subject").unwrap(),
        "Away: Lunch {from}Bcc: eve@example.netbody",
        "{}",
        reply.text
    );
    let body =
        reply.text.split_once("\r\n\r\n").unwrap().1.replace("=\r\n", "").replace("\r\n", " ");
    let wanted = "About Lunch {from}Bcc: eve@example.netbody, zoe@example.net: \
                  away until 2099-01-06. {other} {";
    assert!(body.contains(wanted), "{body}");
    bed.finish();
}

#[test]
fn reply_that_cannot_be_sent_is_in_the_vacation_log() {
    let relay = Sink::with_smtputf8(false);
    let bed = start_away(&relay, &["--text", "Away."]);
    send(&bed, "j\u{fc}rgen@example.net", "utf8");
    bed.wait_until("the reason", Duration::from_secs(20), || decision(&bed).0 == "no-smtputf8");
    assert!(decision(&bed).1.as_str().unwrap().contains("SMTPUTF8"));
    assert!(bed.rows(&["queue", "list"]).is_empty());
    // An ASCII local part needs no SMTPUTF8: the domain is sent as A-labels (RFC 5890).
    send(&bed, "zoe@b\u{fc}cher.example", "domain");
    bed.wait_until("the reply", Duration::from_secs(20), || relay.messages().len() == 1);
    let reply = relay.messages().remove(0);
    assert_eq!(reply.recipients, ["zoe@xn--bcher-kva.example"]);
    assert!(reply.text.split("\r\n\r\n").next().unwrap().is_ascii(), "{}", reply.text);
    assert_eq!(decision(&bed).0, Value::Null);
    // A permanent refusal by the relay is logged as well.
    send(&bed, "bad@example.net", "refused");
    bed.wait_until("the refusal", Duration::from_secs(20), || decision(&bed).0 == "not-sent");
    assert!(decision(&bed).1.as_str().unwrap().contains("550 5.7.1"), "{:?}", decision(&bed));
    bed.finish();

    let relay = Sink::with_smtputf8(true);
    let bed = start_away(&relay, &["--text", "Away."]);
    send(&bed, "j\u{fc}rgen@example.net", "utf8");
    bed.wait_until("the reply", Duration::from_secs(20), || relay.messages().len() == 1);
    assert_eq!(relay.messages()[0].recipients, ["j\u{fc}rgen@example.net"]);
    bed.finish();
}
