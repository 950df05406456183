//! The vacation end to end, as its owner and others see it: replies read by another parser, the
//! report on return, and who may manage whose vacation, by real Unix users.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::bed::{PROGRAM, TestBed, feed};
use crate::mail::{Client, crlf};
use crate::sink::Sink;
use crate::{program, report_missing};

const ANN: &str = "ann@example.org";

/// Reads a message with Python's `email` and says what it has, as JSON.
const READER: &str = r#"
import email, email.policy, json, sys
message = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
def body(kind):
    part = message.get_body(preferencelist=(kind,))
    return part.get_content() if part else None
def defects(part):
    found = [str(defect) for defect in part.defects]
    for name, value in part.items():
        found += [name + ': ' + str(defect) for defect in getattr(value, 'defects', [])]
    for inner in part.iter_parts() if part.is_multipart() else []:
        found += defects(inner)
    return found
print(json.dumps({
    'subject': message['subject'], 'from': str(message['from'].addresses[0]), 'to': str(message['to'].addresses[0]),
    'inReplyTo': message['in-reply-to'], 'references': (message['references'] or '').split(),
    'auto': message['auto-submitted'], 'date': message['date'].datetime.isoformat(), 'names': message.keys(),
    'language': message['content-language'], 'text': body('plain'), 'html': body('html'), 'defects': defects(message),
}))
"#;

fn away(relay: &Sink, set: &[&str]) -> TestBed {
    let port = relay.address.port();
    let mut bed = TestBed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n"
    ));
    bed.start();
    bed.add_account(ANN, &["--zone", "Europe/Berlin", "--display-name", "Änn \"Lee\""]);
    bed.run_ok(&[&["vacation", "set", "-a", ANN], set].concat());
    bed
}

fn send(bed: &TestBed, sender: &str, message: &str) {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let replies = client.deliver(sender, &[ANN], &crlf(message.as_bytes())).unwrap();
    assert!(replies[0].ok(), "{replies:?}");
}

#[test]
fn another_parser_reads_what_was_meant() {
    let Some(python) = program("python3") else { return report_missing("python3") };
    let relay = Sink::start();
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("away.html");
    fs::write(&html, format!("<p>Grüße &amp; {}</p>\n", "lang ".repeat(400))).unwrap();
    let text = format!("Über {{subject}}:\n.\nFrom Ann\n{}\n", "x".repeat(3000));
    let set = [
        "--text",
        &text,
        "--html-file",
        html.to_str().unwrap(),
        "--copies",
        "--until",
        "2099-01-06",
    ];
    let bed = away(&relay, &set);
    bed.run_ok(&[
        "vacation",
        "text",
        "-a",
        ANN,
        "--language",
        "de",
        "--subject",
        "Verreist: {subject}",
        "--text",
        "Bis {until}.",
    ]);
    bed.run_ok(&["vacation", "text", "-a", ANN, "--to", "organisation", "--text", "In Rome."]);
    let read = |recipient: &str| -> Value {
        let caught =
            || relay.messages().into_iter().find(|caught| caught.recipients == [recipient]);
        bed.wait_until("the reply", Duration::from_secs(20), || caught().is_some());
        let caught = caught().unwrap();
        assert_eq!(caught.sender, "");
        let done = feed(Command::new(&python).args(["-c", READER]), caught.text.as_bytes());
        assert!(
            done.status.success(),
            "{}\n{}",
            String::from_utf8_lossy(&done.stderr),
            caught.text
        );
        let read: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(read["defects"], json!([]), "{}", caught.text);
        assert_eq!(read["auto"], "auto-replied (vacation)");
        assert!(!read["names"].to_string().contains("Evil"), "{}", caught.text);
        read
    };
    let many: String = (0..40).map(|n| format!("\n <{n}@example.net>")).collect();
    send(
        &bed,
        "zoe@example.net",
        &format!(
            "From: =?utf-8?q?Z=C3=B6e=0D=0AX-Evil:_1?= <zoe@example.net>\nTo: Ann <ann@example.org>\n\
             Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe=0D=0AX-Evil:_1?=\nMessage-ID: <own@example.net>\nReferences:{many}\n\nhi\n"
        ),
    );
    let zoe = read("zoe@example.net");
    assert_eq!(zoe["subject"], "Auto: GrüßeX-Evil: 1");
    assert_eq!(zoe["from"], "\"Änn \\\"Lee\\\"\" <ann@example.org>");
    assert_eq!(zoe["to"], "\"ZöeX-Evil: 1\" <zoe@example.net>");
    assert_eq!(zoe["inReplyTo"], "<own@example.net>");
    let references = zoe["references"].as_array().unwrap();
    assert_eq!(
        (references.len(), &references[0], &references[19]),
        (20, &json!("<0@example.net>"), &json!("<own@example.net>"))
    );
    let lines = zoe["text"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(lines, text.replace("{subject}", "GrüßeX-Evil: 1"));
    assert!(zoe["html"].as_str().unwrap().starts_with("<p>Grüße &amp; lang lang"));
    // In the sender's language; and inside the organisation.
    send(
        &bed,
        "eva@example.net",
        "From: eva@example.net\nTo: ann@example.org\nSubject: Hallo\nMessage-ID: <eva@example.net>\nContent-Language: de\n\nhi\n",
    );
    let eva = read("eva@example.net");
    assert_eq!((&eva["subject"], &eva["language"]), (&json!("Verreist: Hallo"), &json!("de")));
    assert_eq!(
        (eva["text"].as_str().unwrap().trim_end(), &eva["html"]),
        ("Bis 2099-01-06.", &Value::Null)
    );
    send(
        &bed,
        "bob@example.org",
        "From: bob@example.org\nTo: ann@example.org\nAccept-Language: de\nMessage-ID: <bob@example.org>\n\nhi\n",
    );
    let bob = read("bob@example.org");
    assert_eq!(
        (bob["text"].as_str().unwrap().trim_end(), &bob["subject"]),
        ("In Rome.", &json!("Automated reply"))
    );
    // Each reply has its copy, in the thread of what it answers.
    let sent = bed.rows(&["mail", "list", "-a", ANN, "--mailbox", "Sent"]);
    let inbox = bed.rows(&["mail", "list", "-a", ANN]);
    let threads =
        |rows: &[Value]| rows.iter().map(|row| row["threadId"].clone()).collect::<Vec<_>>();
    assert_eq!((sent.len(), threads(&sent)), (3, threads(&inbox)));
    bed.finish();
}

#[test]
fn a_report_is_filed_once_when_it_is_over_though_the_service_was_killed() {
    let relay = Sink::start();
    let end = SystemTime::now() + Duration::from_secs(4);
    let until = jiff::Timestamp::try_from(end).unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut bed = away(&relay, &["--text", "Away.", "--report", "--until", &until]);
    for sender in ["zoe@example.net", "eve@example.net"] {
        send(
            &bed,
            sender,
            &format!(
                "From: {sender}\nTo: ann@example.org\nSubject: <b>Lunch\nMessage-ID: <{sender}>\n\nhi\n"
            ),
        );
    }
    send(&bed, "", "From: MAILER-DAEMON@example.net\nTo: ann@example.org\nSubject: bounce\n\nhi\n");
    let log = bed.rows(&["vacation", "log", "-a", ANN, "--away"]);
    assert_eq!(log.len(), 3);
    assert_eq!(bed.rows(&["vacation", "log", "-a", ANN, "--reason", "null-sender"]).len(), 1);
    assert_eq!(
        bed.rows(&["vacation", "log", "-a", ANN, "--answered", "--sender", "ZOE@"]).len(),
        1
    );
    let table = String::from_utf8(bed.run_ok(&["vacation", "log", "-a", ANN])).unwrap();
    assert!(table.starts_with("away from ") && table.contains("2 answered, 1 not"), "{table}");
    let report = bed.json(&["vacation", "report", "-a", ANN]);
    assert_eq!((&report["messages"], &report["answered"]), (&json!(3), &json!(2)));
    assert!(
        report["text"].is_null()
            && report["correspondents"][0]["threads"][0]["subject"] == "<b>Lunch"
    );
    bed.kill();
    std::thread::sleep(
        end.duration_since(SystemTime::now()).unwrap_or_default() + Duration::from_secs(1),
    );
    bed.start();
    let reports = |bed: &TestBed| {
        bed.list_mail(ANN)
            .into_iter()
            .filter(|one| one.subject.starts_with("While you were"))
            .count()
    };
    bed.wait_until("the report", Duration::from_secs(20), || reports(&bed) == 1);
    bed.kill();
    bed.start();
    bed.run_ok(&["vacation", "off", "-a", ANN]);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(reports(&bed), 1);
    let filed = bed
        .list_mail(ANN)
        .into_iter()
        .find(|one| one.subject.starts_with("While you were"))
        .unwrap();
    assert_eq!(filed.subject, "While you were away: 3 messages, 2 people wrote");
    let raw = String::from_utf8(bed.raw_message(ANN, &filed.id)).unwrap();
    assert!(
        raw.contains("&lt;b&gt;Lunch") && raw.contains("Auto-Submitted: auto-generated"),
        "{raw}"
    );
    let text = String::from_utf8(bed.run_ok(&["vacation", "report", "-a", ANN])).unwrap();
    assert!(
        text.contains("\nPeople\n")
            && text.contains("<b>Lunch (")
            && text.contains("null-sender 1"),
        "{text}"
    );
    let html = String::from_utf8(bed.run_ok(&["vacation", "report", "-a", ANN, "--html"])).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && !html.contains("<b>Lunch"), "{html}");
    bed.finish();
}

/// A Unix user and his own group, as `/etc/passwd` has them.
fn user(name: &str) -> Option<(u32, u32)> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned))?;
    let mut fields = line.split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[test]
fn a_vacation_is_its_owners_and_the_administrators_affair() {
    if !rustix::process::getuid().is_root() {
        return report_missing("the right to become another Unix user");
    }
    let (Some(owner), Some(stranger), Some(manager)) =
        (user("nobody"), user("daemon"), user("bin"))
    else {
        return report_missing("the Unix users nobody, daemon and bin");
    };
    let mut bed = TestBed::new("control.administrators = [\"@bin\"]\n");
    // A program that is not hidden in somebody's home, and a configuration that all may read.
    let (program, config) = (bed.dir.join("program"), bed.config());
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    bed.start();
    bed.add_account(ANN, &["--unix-user", "nobody"]);
    bed.add_account("bob@example.org", &[]);
    let file = bed.dir.join("letter.eml");
    fs::write(&file, "From: zoe@example.net\nTo: ann@example.org\n\nhi\n").unwrap();
    let file = file.to_str().unwrap();
    let run = |(uid, gid): (u32, u32), words: &[&str], whose: &[&str]| {
        let mut command = Command::new(&program);
        command.uid(uid).gid(gid).current_dir("/").env("TZ", "UTC");
        let done = feed(command.arg("--config").arg(&config).args(words).args(whose), b"");
        (
            done.status.code(),
            format!("{words:?} {whose:?}: {}", String::from_utf8_lossy(&done.stderr)),
        )
    };
    let all: [&[&str]; 9] = [
        &["vacation", "set", "--text", "Away."],
        &["vacation", "text", "--language", "de", "--text", "Weg."],
        &["vacation", "show"],
        &["vacation", "log"],
        &["vacation", "report"],
        &["vacation", "told"],
        &["vacation", "forget", "--all"],
        &["vacation", "test", file],
        &["vacation", "off"],
    ];
    for words in all {
        for (who, whose, code) in [
            // His own, named or not.
            (owner, &[][..], 0),
            (owner, &["-a", ANN], 0),
            (owner, &["-a", "bob@example.org"], 77),
            (owner, &["-a", "nobody@example.org"], 77),
            (stranger, &["-a", ANN], 77),
            (stranger, &["-a", "bob@example.org"], 77),
            // Nobody's is his, and so none is meant.
            (stranger, &[], 64),
            // By his group he may manage all; root as well.
            (manager, &["-a", "bob@example.org"], 0),
            ((0, 0), &["-a", "bob@example.org"], 0),
        ] {
            let (ended, said) = run(who, words, whose);
            assert_eq!(ended, Some(code), "uid {}: {said}", who.0);
        }
    }
    let text = |account: &str| bed.json(&["vacation", "show", "-a", account])["textBody"].clone();
    assert_eq!((text(ANN), text("bob@example.org")), (json!("Away."), json!("Away.")));
    // Who has the group alone, without the name, has its rights, too; who has neither has none.
    let with_group = run((stranger.0, manager.1), &["vacation", "show"], &["-a", ANN]);
    assert_eq!(with_group.0, Some(0), "{}", with_group.1);
    // What he may not do he has not done.
    let done = run(stranger, &["vacation", "set", "--text", "Gone."], &["-a", ANN]);
    assert!(done.0 == Some(77) && done.1.contains("mapped to your Unix user"), "{}", done.1);
    assert_eq!(text(ANN), json!("Away."));
    bed.finish();
}
