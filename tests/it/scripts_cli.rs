//! The commands `restante sieve` against a running service, and on files without one.

use std::fs;

use serde_json::Value;

use crate::bed::{TestBed, feed};
use crate::mail::{Client, letter};
use crate::root;

const ANN: &str = "ann@example.org";

/// With line ends of both kinds and a comment, which must all come back.
const FILTER: &[u8] = b"# rule:[lists]\r\nrequire [\"fileinto\", \"mailbox\"];\n\
    if header :contains \"List-Id\" \"rust\" {\r\n  fileinto :create \"Lists/rust\";\n}\n\
    # \xc3\xa4";

fn stderr(done: &std::process::Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

fn stdout(done: &std::process::Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Sends a message of a mailing list to Ann.
fn send_list_mail(bed: &TestBed, subject: &str) {
    let message = letter("bob@example.net", ANN, subject, "hello");
    let message = [&b"List-Id: <dev.rust.example>\r\n"[..], &message].concat();
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let reply = client.deliver("bob@example.net", &[ANN], &message).unwrap().remove(0);
    assert!(reply.ok(), "{reply:?}");
}

#[test]
fn stored_script_files_mail_and_comes_back_byte_for_byte() {
    let mut bed = TestBed::new("sieve.scripts = 2\nsieve.script-size = \"1 KiB\"\n");
    bed.start();
    bed.add_account(ANN, &[]);
    let file = bed.dir.join("main.sieve");
    fs::write(&file, FILTER).unwrap();
    let path = file.to_str().unwrap();

    // A new script is not active, and files nothing.
    let put = String::from_utf8(bed.run_ok(&["sieve", "put", ANN, "main", path])).unwrap();
    assert!(put.contains("main stored") && put.contains("not active"), "{put}");
    send_list_mail(&bed, "before");
    bed.run_ok(&["sieve", "activate", ANN, "main"]);
    send_list_mail(&bed, "after");
    let filed = bed.rows(&["mail", "list", "-a", ANN, "--mailbox", "Lists/rust"]);
    assert_eq!(filed.len(), 1, "{filed:?}");
    assert_eq!(filed[0]["subject"], "after");
    assert_eq!(bed.run_ok(&["sieve", "get", ANN, "main"]), FILTER);

    // `vacation log` names the script and the line of the action.
    let log = String::from_utf8(bed.run_ok(&["vacation", "log", ANN])).unwrap();
    assert!(log.contains("main, line 4: fileinto Lists/rust"), "{log}");

    // A script of the same name is replaced and stays active; a warning does not stop that.
    let again = feed(&mut bed.command(&["sieve", "put", ANN, "main"]), b"require \"copy\"; keep;");
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(stdout(&again).contains("warning[") && stdout(&again).contains("main replaced"));
    let list = bed.rows(&["sieve", "list", ANN]);
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!((&list[0]["name"], &list[0]["isActive"]), (&"main".into(), &true.into()));

    // All errors of a refused script are shown, and the former script stays.
    let wrong =
        feed(&mut bed.command(&["sieve", "put", ANN, "main"]), b"keeep;\nfileinto \"a\";\n");
    assert_eq!(wrong.status.code(), Some(65), "{}", stderr(&wrong));
    let shown = stdout(&wrong);
    assert!(shown.contains("main:1:1") && shown.contains("main:2:1"), "{shown}");
    assert!(shown.contains("1 | keeep;") && stderr(&wrong).contains("not stored"), "{shown}");
    assert_eq!(bed.run_ok(&["sieve", "get", ANN, "main"]), b"require \"copy\"; keep;");

    let empty = feed(&mut bed.command(&["sieve", "put", ANN, "main"]), b"");
    assert_eq!(empty.status.code(), Some(65), "{}", stderr(&empty));
    assert!(stderr(&empty).contains("the script is empty"), "{}", stderr(&empty));
    assert_eq!(bed.run_ok(&["sieve", "get", ANN, "main"]), b"require \"copy\"; keep;");

    // The limits of the site.
    let large = [b' '; 1025];
    let large = feed(&mut bed.command(&["sieve", "put", ANN, "large"]), &large);
    assert_eq!(large.status.code(), Some(65), "{}", stderr(&large));
    assert!(feed(&mut bed.command(&["sieve", "put", ANN, "b"]), b"keep;").status.success());
    let third = feed(&mut bed.command(&["sieve", "put", ANN, "c"]), b"keep;");
    assert!(stderr(&third).contains("up to 2 scripts"), "{}", stderr(&third));
    assert_eq!(third.status.code(), Some(64));

    // The active script cannot be removed.
    let active = bed.run(&["sieve", "remove", ANN, "main"]);
    assert!(stderr(&active).contains("main is the active script"), "{}", stderr(&active));
    assert_eq!(active.status.code(), Some(64));
    assert_eq!(bed.json(&["sieve", "activate", ANN, "--none"])["changed"], true);
    bed.run_ok(&["sieve", "remove", ANN, "main"]);
    let gone = bed.run(&["sieve", "get", ANN, "main"]);
    assert_eq!(gone.status.code(), Some(67), "{}", stderr(&gone));
    assert!(stderr(&gone).contains("there is no script main"));
    let unknown = bed.run(&["sieve", "activate", ANN, "none"]);
    assert_eq!(unknown.status.code(), Some(67), "{}", stderr(&unknown));
    bed.finish();
}

#[test]
fn list_shows_the_last_failed_run_of_a_script() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account(ANN, &[]);
    let script = b"require \"ihave\";\nerror \"not today\";\n";
    let put = feed(&mut bed.command(&["sieve", "put", ANN, "main", "-", "--activate"]), script);
    assert!(put.status.success() && stdout(&put).contains("it is active"), "{}", stderr(&put));
    assert!(bed.rows(&["sieve", "list", ANN, "--errors"]).is_empty());
    send_list_mail(&bed, "kept");
    assert_eq!(bed.list_mail(ANN).len(), 1);
    let list = String::from_utf8(bed.run_ok(&["sieve", "list", ANN])).unwrap();
    assert!(list.contains("line 2: not today"), "{list}");
    let errors = bed.rows(&["sieve", "list", ANN, "--errors"]);
    assert_eq!((&errors[0]["script"], &errors[0]["line"]), (&"main".into(), &2.into()));
    bed.finish();
}

#[test]
fn scripts_in_files_are_checked_without_a_service() {
    let bed = TestBed::new("sieve.redirects = 1\n");
    let file = |name: &str, text: &str| {
        let path = bed.dir.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = file("good.sieve", "keep;\n");
    let warned = file("warned.sieve", "require \"copy\";\nkeep;\n");
    let wrong = file("wrong.sieve", "keep;\n  keeep;\nfileinto \"a\";\n");
    let twice = file("twice.sieve", "redirect \"a@example.org\";\nredirect \"b@example.org\";\n");
    let none = bed.run(&["sieve", "check", &good, &warned]);
    assert!(none.status.success() && stdout(&none).contains("1 warning"), "{}", stdout(&none));
    let all = bed.run(&["sieve", "check", &good, &wrong]);
    assert_eq!(all.status.code(), Some(65));
    assert!(stdout(&all).contains("wrong.sieve:2:3") && stdout(&all).contains("wrong.sieve:3:1"));
    assert!(stderr(&all).contains("1 of 2 scripts"), "{}", stderr(&all));
    let json = bed.run(&["--json", "sieve", "check", &wrong]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["isValid"], false);
    let first = &json[0]["diagnostics"][0];
    assert_eq!((&first["line"], &first["column"]), (&2.into(), &3.into()), "{json}");
    assert!(first["code"].as_str().unwrap().starts_with('S') && first["severity"] == "error");
    // The configuration allows one redirect.
    assert_eq!(bed.run(&["sieve", "check", &twice]).status.code(), Some(65));
    assert_eq!(bed.run(&["sieve", "check", "/nonexistent"]).status.code(), Some(66));
    bed.remove();
}

#[test]
fn shipped_scripts_check_without_warnings() {
    let bed = TestBed::new("sieve.spam-header = \"X-Spam-Score\"\n");
    let mut words = vec!["sieve".to_owned(), "check".to_owned()];
    for entry in fs::read_dir(root().join("sieve/scripts")).unwrap() {
        words.push(entry.unwrap().path().to_str().unwrap().to_owned());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let checked = bed.run(&words);
    assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));
    assert!(!stdout(&checked).contains("warning"), "{}", stdout(&checked));
    bed.remove();
}

#[test]
fn sieve_fmt_keeps_comments_and_says_what_is_not_formatted() {
    let bed = TestBed::new("");
    let path = bed.dir.join("a.sieve");
    fs::write(&path, "IF true{keep;# why\n}\n").unwrap();
    let file = path.to_str().unwrap();
    let check = bed.run(&["sieve", "fmt", "--check", file]);
    assert_eq!((check.status.code(), stdout(&check).trim()), (Some(65), file));
    assert_eq!(fs::read(&path).unwrap(), b"IF true{keep;# why\n}\n");
    bed.run_ok(&["sieve", "fmt", file]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "if true {\n    keep; # why\n}\n");
    bed.run_ok(&["sieve", "fmt", "--check", file]);
    let piped = feed(&mut bed.command(&["sieve", "fmt", "-"]), b"STOP  ;");
    assert_eq!(stdout(&piped), "stop;\n");
    let json = |words: &[&str]| -> Value {
        let done = feed(&mut bed.command(&[&["--json", "sieve", "fmt"], words].concat()), b"STOP;");
        serde_json::from_slice(&done.stdout).unwrap()
    };
    let piped = json(&["-"]);
    assert_eq!(
        (&piped[0]["formatted"], &piped[0]["isFormatted"]),
        (&"stop;\n".into(), &false.into())
    );
    assert!(json(&["--check", "-"])[0].get("formatted").is_none());
    assert!(json(&[file])[0].get("formatted").is_none());
    fs::write(&path, "keep").unwrap();
    let wrong = bed.run(&["sieve", "fmt", file]);
    assert_eq!(wrong.status.code(), Some(65));
    assert!(stderr(&wrong).contains("a.sieve:1:"), "{}", stderr(&wrong));
    assert_eq!(fs::read(&path).unwrap(), b"keep");
    bed.remove();
}

#[test]
fn sieve_test_shows_actions_and_trace_with_and_without_an_account() {
    let mut bed = TestBed::new("");
    let file = bed.dir.join("work.sieve");
    let script = "require [\"fileinto\", \"envelope\"];\n\
        if envelope \"from\" \"bob@example.net\" {\n  fileinto \"Work\";\n} \
        else {\n  discard;\n}\n";
    fs::write(&file, script).unwrap();
    let message = bed.dir.join("m.eml");
    fs::write(&message, letter("bob@example.net", ANN, "plan", "hello")).unwrap();
    let (file, message) = (file.to_str().unwrap(), message.to_str().unwrap());
    let test = ["sieve", "test", file, "--message", message];

    // Without a service, the mailbox counts as one that exists.
    let here = bed.run_ok(&test);
    let here = String::from_utf8(here).unwrap();
    assert!(here.contains("line 2: envelope") && here.contains(" is true"), "{here}");
    assert!(here.contains("line 3: → fileinto Work"), "{here}");
    assert!(here.contains("whether there is a mailbox `Work`"), "{here}");
    let other = bed.json(&[&test[..], &["--from", "eve@example.net"]].concat());
    assert_eq!(other["outcome"]["actions"], serde_json::json!(["discard"]));
    assert_eq!(other["outcome"]["trace"][0]["result"], false);

    // With an account, the mailbox is looked for.
    bed.start();
    bed.add_account(ANN, &[]);
    let test = [&test[..], &["--account", ANN]].concat();
    let missing = String::from_utf8(bed.run_ok(&test)).unwrap();
    assert!(missing.contains("there is no mailbox `Work`"), "{missing}");
    bed.run_ok(&["mailbox", "create", "-a", ANN, "Work"]);
    let found = bed.json(&test);
    assert_eq!(found["outcome"]["actions"], serde_json::json!(["fileinto Work"]));
    assert_eq!(found["outcome"]["unknown"], serde_json::json!([]));
    assert_eq!(found["outcome"]["recipient"], ANN);
    // Nothing was delivered.
    assert!(bed.list_mail(ANN).is_empty());

    fs::write(file, "keeep;\n").unwrap();
    for words in [&test[..], &test[..test.len() - 2]] {
        let wrong = bed.run(words);
        assert_eq!(wrong.status.code(), Some(65), "{}", stderr(&wrong));
        assert!(stdout(&wrong).contains("work.sieve:1:1"), "{}", stdout(&wrong));
    }
    fs::write(file, "require \"ihave\"; error \"no\";\n").unwrap();
    let failed = bed.run(&test);
    assert_eq!(failed.status.code(), Some(65));
    assert!(stderr(&failed).contains("the run failed: line 1: no"), "{}", stderr(&failed));
    bed.finish();
}

#[test]
fn sieve_test_does_not_read_script_and_message_from_one_input() {
    let bed = TestBed::new("");
    let both = bed.run(&["sieve", "test", "-", "--message", "-"]);
    assert_eq!(both.status.code(), Some(64));
    assert!(stderr(&both).contains("cannot both be standard input"), "{}", stderr(&both));
    bed.remove();
}
