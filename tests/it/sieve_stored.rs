//! `sieve stats`, `sieve dry-run` and `sieve apply` with the real service.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::bed::TestBed;
use crate::http::{exchange, password};
use crate::mail::{Client, letter};

const ANN: &str = "ann@example.org";

const SCRIPT: &str = "require [\"fileinto\", \"mailbox\", \"imap4flags\"];\r\n\
    # rule:[Lists]\r\n\
    if header :contains \"subject\" \"list\" { fileinto :create \"Lists\"; stop; }\r\n\
    # rule:[Spam]\r\n\
    if header :contains \"subject\" \"spam\" { discard; stop; }\r\n\
    # rule:[Star]\r\n\
    if header :contains \"subject\" \"star\" { addflag \"\\\\Flagged\"; keep; stop; }\r\n\
    if header :contains \"subject\" \"onward\" { redirect \"eve@example.com\"; }\r\n";

/// Stores a script by ManageSieve and makes it the active one.
fn activate(bed: &TestBed, script: &str) {
    let mut stream = UnixStream::connect(bed.dir.join("managesieve")).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut ok = |stream: &mut UnixStream, command: &str| {
        stream.write_all(command.as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "{command}");
            assert!(!line.starts_with("NO") && !line.starts_with("BYE"), "{command}: {line}");
            if line.starts_with("OK") {
                return;
            }
        }
    };
    // The greeting.
    ok(&mut stream, "");
    let login = base64::engine::general_purpose::STANDARD.encode(format!("\0{ANN}\0s3cret"));
    ok(&mut stream, &format!("AUTHENTICATE \"PLAIN\" \"{login}\"\r\n"));
    ok(&mut stream, &format!("PUTSCRIPT \"main\" {{{}+}}\r\n{script}\r\n", script.len()));
    ok(&mut stream, "SETACTIVE \"main\"\r\n");
    ok(&mut stream, "LOGOUT\r\n");
}

fn deliver(bed: &TestBed, subjects: impl Iterator<Item = String>) {
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for subject in subjects {
        let message = letter("bob@example.net", ANN, &subject, "hello");
        let replies = client.deliver("bob@example.net", &[ANN], &message).unwrap();
        assert!(replies.iter().all(crate::mail::Reply::ok), "{subject}: {replies:?}");
    }
}

/// Calls a JMAP method of the account, and returns the arguments of the response.
fn jmap(bed: &TestBed, method: &str, mut arguments: Value) -> Value {
    arguments["accountId"] = bed.json(&["account", "show", ANN])["id"].clone();
    let request = json!({
        "using": ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"],
        "methodCalls": [[method, arguments, "0"]],
    });
    let stream = UnixStream::connect(bed.dir.join("control")).unwrap();
    let fields = [("Content-Type", "application/json")];
    let answer = exchange(stream, "POST", "/jmap", &fields, request.to_string().as_bytes());
    answer.json()["methodResponses"][0][1].clone()
}

/// Returns the number of emails of a mailbox, by its name; 0 if there is none.
fn count(bed: &TestBed, name: &str) -> u64 {
    let answer = jmap(bed, "Mailbox/get", json!({"ids": null}));
    let found = answer["list"].as_array().unwrap().iter().find(|one| one["name"] == name);
    found.map_or(0, |mailbox| mailbox["totalEmails"].as_u64().unwrap())
}

/// Returns the hits of each rule of the script, by line and name.
fn stats(bed: &TestBed) -> Vec<(u64, String, u64)> {
    let scripts = bed.rows(&["sieve", "stats", ANN, "main"]);
    let rules = scripts[0]["rules"].as_array().unwrap().iter().map(|rule| {
        assert_eq!(rule["last"].is_string(), rule["hits"] != 0, "{rule}");
        let name = rule["name"].as_str().unwrap_or_default().to_owned();
        (rule["line"].as_u64().unwrap(), name, rule["hits"].as_u64().unwrap())
    });
    rules.collect()
}

#[test]
fn script_is_tried_on_stored_mail_then_applied_and_its_rules_are_counted() {
    let mut bed = TestBed::new("");
    bed.configure(&format!(
        "managesieve.listen = [\"unix:{}\"]\n",
        bed.dir.join("managesieve").display()
    ));
    bed.start();
    bed.add_account(ANN, &[]);
    password(&bed, ANN, "s3cret");
    // Six messages of each kind.
    let kinds = ["list", "spam", "star", "onward", "plain"];
    deliver(&bed, (0..30).map(|n| format!("{} no. {n}", kinds[n % 5])));
    let file = bed.dir.join("filter.sieve");
    fs::write(&file, SCRIPT).unwrap();
    let file = file.display().to_string();

    // The dry run says what would happen, and changes nothing.
    let state = jmap(&bed, "Email/get", json!({"ids": []}))["state"].clone();
    let dry = bed.json(&["sieve", "dry-run", ANN, &file]);
    let counts = &dry["counts"];
    for (name, number) in [
        ("examined", 30),
        ("moved", 6),
        ("discarded", 6),
        ("flagged", 6),
        ("unchanged", 12),
        ("copied", 0),
        ("failed", 0),
        ("envelopeUnknown", 0),
    ] {
        assert_eq!(counts[name], number, "{name}: {counts}");
    }
    assert_eq!(counts["leftOut"]["redirect"], 6, "{counts}");
    let moved = dry["messages"].as_array().unwrap().iter().find(|one| one["outcome"] == "move");
    let moved = moved.unwrap();
    assert_eq!((&moved["mailboxes"], &moved["steps"][0]["line"]), (&json!(["Lists"]), &3.into()));
    assert_eq!(
        (&moved["sender"], &moved["envelope"]),
        (&"bob@example.net".into(), &"delivery".into())
    );
    assert_eq!((count(&bed, "Inbox"), count(&bed, "Lists")), (30, 0));
    assert_eq!(jmap(&bed, "Email/get", json!({"ids": []}))["state"], state);
    let newest = bed.json(&["sieve", "dry-run", ANN, &file, "--newest", "7"]);
    assert_eq!(newest["counts"]["examined"], 7);

    // The first part of the work, a kill, and then all of it.
    bed.json(&["sieve", "apply", ANN, &file, "--newest", "11"]);
    bed.kill();
    bed.start();
    let text = String::from_utf8(bed.run_ok(&["sieve", "apply", ANN, &file])).unwrap();
    assert!(text.contains("never done for stored mail: redirect: 6"), "{text}");
    assert!(text.contains("only sender and recipient are known"), "{text}");
    let totals = ["Inbox", "Lists", "Trash"].map(|name| count(&bed, name));
    assert_eq!(totals, [18, 6, 6]);
    let flagged = jmap(&bed, "Email/query", json!({"filter": {"hasKeyword": "$flagged"}}));
    assert_eq!(flagged["ids"].as_array().unwrap().len(), 6);
    let again = bed.json(&["sieve", "apply", ANN, &file]);
    assert_eq!((&again["counts"]["unchanged"], &again["counts"]["moved"]), (&18.into(), &0.into()));
    assert!(bed.rows(&["queue", "list"]).is_empty());

    // Only deliveries are counted.
    activate(&bed, SCRIPT);
    let never: Vec<u64> = stats(&bed).into_iter().map(|(.., hits)| hits).collect();
    assert_eq!(never, [0, 0, 0, 0]);
    deliver(&bed, ["list a", "list b", "spam a", "plain"].into_iter().map(str::to_owned));
    bed.json(&["sieve", "dry-run", ANN, "main"]);
    let rule = |line, name: &str, hits| (line, name.to_owned(), hits);
    let counted = [rule(3, "Lists", 2), rule(5, "Spam", 1), rule(7, "Star", 0), rule(8, "", 0)];
    assert_eq!(stats(&bed), counted);
    let shown = String::from_utf8(bed.run_ok(&["sieve", "stats", ANN])).unwrap();
    assert!(shown.starts_with("main, active, ") && shown.contains("Spam"), "{shown}");
    activate(&bed, &format!("{SCRIPT}# changed\r\n"));
    assert!(stats(&bed).iter().all(|(.., hits)| *hits == 0));
    assert!(!bed.run(&["sieve", "dry-run", ANN, "no-such-script"]).status.success());
    bed.finish();
}
