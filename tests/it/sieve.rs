//! Sieve: the shipped scripts, compiled with another implementation (Pigeonhole's `sievec`), and
//! what scripts do with mail that arrives.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::bed::TestBed;
use crate::mail::{Client, Reply, letter};
use crate::sink::Sink;
use crate::{program, report_missing, root};

#[test]
fn shipped_scripts_compile_without_warnings() {
    let folder = root().join("sieve/scripts");
    let Some(sievec) = program("sievec") else { return report_missing("sievec (dovecot-sieve)") };
    let out = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let script = entry.unwrap().path();
        let name = script.file_stem().unwrap().to_string_lossy().into_owned();
        // An empty configuration, because the one of the machine may restrict the extensions.
        let conf = out.path().join("dovecot.conf");
        fs::write(&conf, "").unwrap();
        let done = Command::new(&sievec)
            .arg("-c")
            .arg(&conf)
            .arg(&script)
            .arg(out.path().join(format!("{name}.svbin")))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            done.status.success() && !errors.contains("warning"),
            "{}:\n{errors}",
            script.display()
        );
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["default", "junk", "lists", "subaddress", "vacation"]);
}

const ANN: &str = "ann@example.org";

/// A script of the site that does another thing for each detail of the recipient (ann+DETAIL@). For
/// `bad` it fails, because `eve` is no address.
const SITE_SCRIPT: &str = r#"require ["fileinto", "envelope", "subaddress", "copy", "reject",
    "vacation", "variables", "mailbox"];

if envelope :detail "to" "lists" {
    fileinto :create "Lists/rust";
} elsif envelope :detail "to" "no" {
    reject "Not here, please.";
} elsif envelope :detail "to" "away" {
    vacation :subject "Away" "Until Monday.";
} elsif envelope :detail "to" "on" {
    redirect "eve@example.com";
} elsif envelope :detail "to" "bad" {
    set "where" "eve";
    redirect "${where}";
}
"#;

/// Sends a message to one recipient, and returns the answer.
fn send(bed: &TestBed, to: &str, subject: &str) -> Reply {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let message = letter("bob@example.net", to, subject, "hello");
    client.deliver("bob@example.net", &[to], &message).unwrap().remove(0)
}

#[test]
fn scripts_file_refuse_redirect_answer_and_keep_on_errors() {
    let relay = Sink::start();
    let port = relay.address.port();
    let scripts = tempfile::tempdir().unwrap();
    let script = scripts.path().join("site.sieve");
    fs::write(&script, SITE_SCRIPT).unwrap();
    let mut bed = TestBed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n\
         sieve.before = [{:?}]\n",
        scripts.path()
    ));
    bed.start();
    bed.add_account(ANN, &[]);

    assert!(send(&bed, "ann+lists@example.org", "list").ok());
    let filed = bed.rows(&["mail", "list", "-a", ANN, "--mailbox", "Lists/rust"]);
    assert_eq!(filed.len(), 1, "{filed:?}");

    let refused = send(&bed, "ann+no@example.org", "refused");
    assert_eq!((refused.code, refused.text.as_str()), (550, "5.7.1 Not here, please."));

    assert!(send(&bed, "ann+away@example.org", "question").ok());
    assert!(send(&bed, "ann+on@example.org", "onward").ok());
    bed.wait_until("a reply and a redirect", Duration::from_secs(20), || {
        relay.messages().len() == 2
    });
    let sent = relay.messages();
    let reply = sent.iter().find(|one| one.sender.is_empty()).unwrap();
    assert_eq!(reply.recipients, ["bob@example.net"]);
    assert_eq!(reply.header("Subject").as_deref(), Some("Away"));
    let redirect = sent.iter().find(|one| !one.sender.is_empty()).unwrap();
    assert_eq!(redirect.sender, "bob@example.net");
    assert_eq!(redirect.recipients, ["eve@example.com"]);
    assert_eq!(redirect.header("Delivered-To").as_deref(), Some(ANN));

    assert!(send(&bed, "ann+bad@example.org", "broken").ok());
    let inbox: Vec<_> = bed.list_mail(ANN).into_iter().map(|email| email.subject).collect();
    assert!(inbox.contains(&"broken".to_owned()) && !inbox.contains(&"onward".to_owned()));
    let log = bed.rows(&["vacation", "log", "-a", ANN, "--limit", "9"]);
    let steps = |to: &str| {
        let row = log.iter().find(|row| row["recipient"] == to);
        row.and_then(|row| row["steps"].as_array().cloned()).unwrap_or_default()
    };
    let listed = steps("ann+lists@example.org").remove(0);
    assert_eq!((&listed["line"], &listed["action"]), (&5.into(), &"fileinto Lists/rust".into()));
    let failed = steps("ann+bad@example.org").remove(0);
    let action = failed["action"].as_str().unwrap().to_owned();
    assert!(action.starts_with("failed: ") && failed["line"] == 14, "{failed}");
    assert!(bed.log().contains("a script failed: the message is kept"));

    // Two recipients of one account in one transaction: each has its own reply.
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let both = ["ann+no@example.org", "ann+lists@example.org"];
    let message = letter("bob@example.net", both[0], "two", "hello");
    let replies = client.deliver("bob@example.net", &both, &message).unwrap();
    assert_eq!((replies[0].code, replies[1].code), (550, 250), "{replies:?}");
    let filed = bed.rows(&["mail", "list", "-a", ANN, "--mailbox", "Lists/rust"]);
    assert_eq!(filed.len(), 2, "{filed:?}");

    // After a kill, the client that heard no answer sends the message again.
    bed.kill();
    bed.start();
    assert_eq!(send(&bed, "ann+on@example.org", "onward").code, 250);
    assert_eq!(send(&bed, "ann+away@example.org", "question").code, 250);
    assert_eq!(send(&bed, "ann+no@example.org", "refused").code, 550);
    assert!(send(&bed, "ann+lists@example.org", "list").text.contains("already"));
    assert_eq!(relay.messages().len(), 2);

    // A broken script of the site is refused, and the former one stays in force.
    fs::write(&script, "keeep;").unwrap();
    let refused = bed.run(&["config", "check"]);
    assert!(!refused.status.success());
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("site.sieve") && why.contains("keeep"), "{why}");
    let log = bed.reload("the old one stays in force");
    assert!(log.contains("keeep"), "{log}");
    let refused = send(&bed, "ann+no@example.org", "refused again");
    assert_eq!((refused.code, refused.text.as_str()), (550, "5.7.1 Not here, please."));
    fs::write(&script, SITE_SCRIPT).unwrap();
    bed.finish();
}
