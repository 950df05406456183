//! The vacation responder end to end: replies read by another parser, the report on return, and
//! which Unix users may manage which vacation.

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

/// A Python script that reads a message with the package `email` and prints its fields, its bodies
/// and its defects as JSON.
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
    'subject': message['subject'],
    'from': str(message['from'].addresses[0]), 'to': str(message['to'].addresses[0]),
    'inReplyTo': message['in-reply-to'], 'references': (message['references'] or '').split(),
    'auto': message['auto-submitted'], 'date': message['date'].datetime.isoformat(),
    'names': message.keys(), 'language': message['content-language'],
    'text': body('plain'), 'html': body('html'), 'defects': defects(message),
}))
"#;

/// Starts a service whose relay is the sink, with Ann, whose vacation response has the options
/// `set`.
fn start_away(relay: &Sink, set: &[&str]) -> TestBed {
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
fn replies_are_read_without_defects_by_another_parser() {
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
    let bed = start_away(&relay, &set);
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
        let received =
            || relay.messages().into_iter().find(|message| message.recipients == [recipient]);
        bed.wait_until("the reply", Duration::from_secs(20), || received().is_some());
        let reply = received().unwrap();
        assert_eq!(reply.sender, "");
        let done = feed(Command::new(&python).args(["-c", READER]), reply.text.as_bytes());
        assert!(done.status.success(), "{}\n{}", String::from_utf8_lossy(&done.stderr), reply.text);
        let read: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(read["defects"], json!([]), "{}", reply.text);
        assert_eq!(read["auto"], "auto-replied (vacation)");
        assert!(!read["names"].to_string().contains("Evil"), "{}", reply.text);
        read
    };
    let many: String = (0..40).map(|n| format!("\n <{n}@example.net>")).collect();
    send(
        &bed,
        "zoe@example.net",
        &format!(
            "From: =?utf-8?q?Z=C3=B6e=0D=0AX-Evil:_1?= <zoe@example.net>\n\
             To: Ann <ann@example.org>\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe=0D=0AX-Evil:_1?=\n\
             Message-ID: <own@example.net>\nReferences:{many}\n\nhi\n"
        ),
    );
    let zoe = read("zoe@example.net");
    assert_eq!(zoe["subject"], "Auto: GrüßeX-Evil: 1");
    assert_eq!(zoe["from"], "\"Änn \\\"Lee\\\"\" <ann@example.org>");
    assert_eq!(zoe["to"], "\"ZöeX-Evil: 1\" <zoe@example.net>");
    assert_eq!(zoe["inReplyTo"], "<own@example.net>");
    // Of the 41 ids, the first and the last 19 are kept.
    let references = zoe["references"].as_array().unwrap();
    assert_eq!(
        (references.len(), &references[0], &references[19]),
        (20, &json!("<0@example.net>"), &json!("<own@example.net>"))
    );
    let lines = zoe["text"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(lines, text.replace("{subject}", "GrüßeX-Evil: 1"));
    assert!(zoe["html"].as_str().unwrap().starts_with("<p>Grüße &amp; lang lang"));
    // A reply in the sender's language, and one inside the organisation.
    send(
        &bed,
        "eva@example.net",
        "From: eva@example.net\nTo: ann@example.org\nSubject: Hallo\n\
         Message-ID: <eva@example.net>\nContent-Language: de\n\nhi\n",
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
        "From: bob@example.org\nTo: ann@example.org\nAccept-Language: de\n\
         Message-ID: <bob@example.org>\n\nhi\n",
    );
    let bob = read("bob@example.org");
    assert_eq!(
        (bob["text"].as_str().unwrap().trim_end(), &bob["subject"]),
        ("In Rome.", &json!("Automated reply"))
    );
    // A copy of each reply is stored in the thread of the message that it answers.
    let sent = bed.rows(&["mail", "list", "-a", ANN, "--mailbox", "Sent"]);
    let inbox = bed.rows(&["mail", "list", "-a", ANN]);
    let threads =
        |rows: &[Value]| rows.iter().map(|row| row["threadId"].clone()).collect::<Vec<_>>();
    assert_eq!((sent.len(), threads(&sent)), (3, threads(&inbox)));
    bed.finish();
}

#[test]
fn vacation_report_is_filed_once_even_if_service_is_killed() {
    let relay = Sink::start();
    let end = SystemTime::now() + Duration::from_secs(4);
    let until = jiff::Timestamp::try_from(end).unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut bed = start_away(&relay, &["--text", "Away.", "--report", "--until", &until]);
    for sender in ["zoe@example.net", "eve@example.net"] {
        send(
            &bed,
            sender,
            &format!(
                "From: {sender}\nTo: ann@example.org\nSubject: <b>Lunch\n\
                 Message-ID: <{sender}>\n\nhi\n"
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
    let raw = String::from_utf8(bed.show_message(ANN, &filed.id)).unwrap();
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

/// The id of a Unix user and that of the user's primary group, from `/etc/passwd`. `None` if there
/// is no such user.
fn user(name: &str) -> Option<(u32, u32)> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned))?;
    let mut fields = line.split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[test]
fn only_owner_and_administrators_can_manage_a_vacation() {
    if !rustix::process::getuid().is_root() {
        return report_missing("the right to become another Unix user");
    }
    let (Some(owner), Some(stranger), Some(manager)) =
        (user("nobody"), user("daemon"), user("bin"))
    else {
        return report_missing("the Unix users nobody, daemon and bin");
    };
    let mut bed = TestBed::new("control.administrators = [\"@bin\"]\n");
    // A program and a configuration that every user can reach.
    let (program, config) = (bed.dir.join("program"), bed.config());
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    bed.start();
    bed.add_account(ANN, &["--unix-user", "nobody"]);
    bed.add_account("bob@example.org", &[]);
    let file = bed.dir.join("letter.eml");
    fs::write(&file, "From: zoe@example.net\nTo: ann@example.org\n\nhi\n").unwrap();
    let file = file.to_str().unwrap();
    let run = |(uid, gid): (u32, u32), words: &[&str], account: &[&str]| {
        let mut command = Command::new(&program);
        command.uid(uid).gid(gid).current_dir("/").env("TZ", "UTC");
        let done = feed(command.arg("--config").arg(&config).args(words).args(account), b"");
        (
            done.status.code(),
            format!("{words:?} {account:?}: {}", String::from_utf8_lossy(&done.stderr)),
        )
    };
    let commands: [&[&str]; 9] = [
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
    for words in commands {
        for (user, account, code) in [
            // The own account, named or not.
            (owner, &[][..], 0),
            (owner, &["-a", ANN], 0),
            (owner, &["-a", "bob@example.org"], 77),
            (owner, &["-a", "nobody@example.org"], 77),
            (stranger, &["-a", ANN], 77),
            (stranger, &["-a", "bob@example.org"], 77),
            // This user has no account that could be meant.
            (stranger, &[], 64),
            // A member of the administrators' group may manage all accounts, and so may root.
            (manager, &["-a", "bob@example.org"], 0),
            ((0, 0), &["-a", "bob@example.org"], 0),
        ] {
            let (exit_code, errors) = run(user, words, account);
            assert_eq!(exit_code, Some(code), "uid {}: {errors}", user.0);
        }
    }
    let text = |account: &str| bed.json(&["vacation", "show", "-a", account])["textBody"].clone();
    assert_eq!((text(ANN), text("bob@example.org")), (json!("Away."), json!("Away.")));
    // The group alone gives the rights of an administrator, whatever the name of the user is.
    let with_group = run((stranger.0, manager.1), &["vacation", "show"], &["-a", ANN]);
    assert_eq!(with_group.0, Some(0), "{}", with_group.1);
    // A refused command changes nothing.
    let done = run(stranger, &["vacation", "set", "--text", "Gone."], &["-a", ANN]);
    assert!(done.0 == Some(77) && done.1.contains("mapped to your Unix user"), "{}", done.1);
    assert_eq!(text(ANN), json!("Away."));
    bed.finish();
}
