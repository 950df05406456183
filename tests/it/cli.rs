//! The command line as a person or a script uses it: exit codes and output of the commands that are
//! not about accounts.
//!
//! Most tests run their commands against a service that they start. The tests of `config check`, of
//! the completions and of the manual start none, because these commands need none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::bed::{TestBed, feed};
use crate::mail::{Client, letter};
use crate::needs::report_missing;

#[test]
fn vacation_test_shows_reply_without_sending_it() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let file = bed.dir.join("letter.eml");
    fs::write(&file, letter("zoe@example.net", "ann@example.org", "when?", "When are you back?"))
        .unwrap();
    let test = ["vacation", "test", "-a", "ann@example.org", file.to_str().unwrap()];
    assert!(bed.json(&test).to_string().contains("disabled"));
    bed.run_ok(&[
        "vacation",
        "set",
        "-a",
        "ann@example.org",
        "--text",
        "Back on Monday.",
        "--until",
        "+2w",
    ]);
    let output = String::from_utf8(bed.run_ok(&test)).unwrap();
    assert!(output.contains("Back on Monday.") && output.contains("Auto-Submitted"), "{output}");
    // `vacation test` sends nothing and stores nothing.
    assert!(bed.list_mail("ann@example.org").is_empty());
    assert!(bed.rows(&["queue", "list"]).is_empty());
    bed.run_ok(&["vacation", "off", "-a", "ann@example.org"]);
    assert!(bed.json(&test).to_string().contains("disabled"));
    bed.finish();
}

#[test]
fn service_gets_no_huge_pages() {
    let mut bed = TestBed::new("");
    bed.start();
    let status = |process: &str| fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    if !status("self").contains("THP_enabled:\t1") {
        report_missing("a kernel with transparent huge pages (Linux 5.0)");
    }
    let status = status(&bed.pid().to_string());
    assert!(!status.contains("THP_enabled:\t1"), "{status}");
    bed.finish();
}

#[test]
fn deliver_exits_with_code_for_pipe_transport() {
    let mut bed = TestBed::new("limits.message = \"20 KiB\"\ndirectory.over-quota = \"refuse\"\n");
    bed.start();
    for (account, more) in [("ann", &[][..]), ("off", &[]), ("full", &["--quota", "1 KiB"])] {
        bed.add_account(&format!("{account}@example.org"), more);
    }
    bed.run_ok(&["account", "set", "off@example.org", "--inactive"]);
    let message = letter("zoe@example.net", "ann@example.org", "piped", "By a pipe.");
    let large =
        letter("zoe@example.net", "ann@example.org", "large", &"A long line of it.\n".repeat(1200));
    let medium = letter(
        "zoe@example.net",
        "full@example.org",
        "medium",
        &"A long line of it.\n".repeat(100),
    );
    let looping = ["Received: from a by b\r\n".repeat(100).as_bytes(), &message].concat();
    let unix = String::from_utf8(message.clone()).unwrap().replace("\r\n", "\n").into_bytes();
    let deliver = |message: &[u8], words: &[&str]| {
        feed(&mut bed.command(&[&["deliver"], words].concat()), message).status.code()
    };
    let from = ["-f", "zoe@example.net"];
    for (what, message, to, code) in [
        ("delivered", &message, &["ann@example.org"][..], 0),
        ("delivered again", &message, &["ann@example.org"], 0),
        ("lines that end in LF", &unix, &["--", "ann@example.org"], 0),
        ("unknown", &message, &["nobody@example.org"], 67),
        ("all unknown", &message, &["nobody@example.org", "none@example.org"], 67),
        ("one unknown", &message, &["ann@example.org", "nobody@example.org"], 75),
        ("disabled", &message, &["off@example.org"], 69),
        ("disabled and unknown", &message, &["off@example.org", "nobody@example.org"], 69),
        ("over quota, which is refused", &medium, &["full@example.org"], 69),
        ("too large", &large, &["ann@example.org"], 69),
        ("mail loop", &looping, &["ann@example.org"], 69),
        ("no valid address", &message, &["ann"], 75),
        ("no recipient", &message, &[], 75),
        ("no such option", &message, &["--recipient", "ann@example.org"], 75),
        ("an address like an option", &message, &["-hans@example.org"], 75),
        ("an address that asks for help", &message, &["--help"], 75),
        ("an unknown address like an option", &message, &["--", "-hans@example.org"], 67),
        ("an option after a recipient", &message, &["ann@example.org", "--json"], 75),
    ] {
        assert_eq!(deliver(message, &[&from, to].concat()), Some(code), "{what}");
    }
    assert_eq!(bed.list_mail("ann@example.org").len(), 1, "a repetition stores no second copy");
    for null in ["", "<>", "MAILER-DAEMON"] {
        assert_eq!(deliver(&message, &["-f", null, "ann@example.org"]), Some(0), "{null}");
    }
    assert_eq!(bed.list_mail("ann@example.org").len(), 2, "all three stand for the null sender");

    // An error of this program must not bounce mail.
    bed.configure("lmtp.lisen = 1\n");
    let ann = [&from[..], &["ann@example.org"]].concat();
    assert_eq!(deliver(&message, &ann), Some(75), "a broken configuration");
    fs::remove_file(bed.config()).unwrap();
    assert_eq!(deliver(&message, &ann), Some(75), "no configuration");
    bed.configure("");
    bed.stop();
    let deliver = |to: &str| {
        feed(&mut bed.command(&["deliver", "-f", "zoe@example.net", to]), &message).status.code()
    };
    assert_eq!(deliver("ann@example.org"), Some(75), "without the service Postfix must try again");
    bed.finish();
}

#[test]
fn config_check_refuses_lmtp_on_port_25_and_names_misspelt_option() {
    let bed = TestBed::new("");
    fs::write(bed.config(), "lmtp.listen = [\"tcp:127.0.0.1:25\"]\n").unwrap();
    let done = bed.run(&["config", "check"]);
    assert_eq!(done.status.code(), Some(78), "{done:?}");
    assert!(String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).contains("25"));
    fs::write(bed.config(), "[lmtp]\nlisen = []\n").unwrap();
    let done = bed.run(&["config", "check"]);
    assert_eq!(done.status.code(), Some(78));
    let output = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(
        output.contains("listen") && output.contains('2'),
        "the similar option or the line is not named: {output}"
    );
    bed.remove();
}

#[test]
fn config_check_reads_the_certificate_of_managesieve() {
    let bed = TestBed::new("");
    let certificate = crate::root().join("tests/tls/one.cert.pem");
    let missing = bed.dir.join("missing.pem");
    bed.configure(&format!(
        "[managesieve]\ntls-certificate = {certificate:?}\ntls-key = {missing:?}\n"
    ));
    let done = bed.run(&["config", "check"]);
    assert_eq!(done.status.code(), Some(78), "{done:?}");
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(errors.contains("managesieve") && errors.contains("missing.pem"), "{errors}");
    bed.remove();
}

/// `serve` cannot give a socket to a group that does not exist.
#[test]
fn config_check_names_a_group_that_does_not_exist() {
    let bed = TestBed::new("");
    let socket = format!("\"unix:{}\"", bed.dir.join("socket").display());
    for (table, listen) in [
        ("lmtp", String::new()),
        ("http", format!("http.listen = [{socket}]\n")),
        ("managesieve", format!("managesieve.listen = [{socket}]\n")),
        ("metrics", format!("metrics.listen = {socket}\n")),
    ] {
        bed.configure(&format!("{listen}{table}.socket-group = \"no-such-group\"\n"));
        let done = bed.run(&["config", "check"]);
        assert_eq!(done.status.code(), Some(78), "{table}: {done:?}");
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(errors.contains(table) && errors.contains("no-such-group"), "{errors}");
    }
    bed.remove();
}

#[test]
fn config_check_reads_the_files_of_the_relay() {
    let bed = TestBed::new("");
    let missing = bed.dir.join("missing");
    let empty = bed.dir.join("empty");
    fs::write(&empty, "").unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o600)).unwrap();
    for (settings, key, file) in [
        (format!("tls-ca = {missing:?}"), "tls-ca", &missing),
        (format!("tls-ca = {empty:?}"), "tls-ca", &empty),
        (format!("user = \"us\"\npassword-file = {missing:?}"), "password-file", &missing),
        (format!("user = \"us\"\npassword-file = {empty:?}"), "password-file", &empty),
    ] {
        bed.configure(&format!("[relay]\n{settings}\n"));
        let done = bed.run(&["config", "check"]);
        assert_eq!(done.status.code(), Some(78), "{settings}: {done:?}");
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            errors.contains(key) && errors.contains(&file.display().to_string()),
            "{settings}: {errors}"
        );
    }
    bed.remove();
}

#[test]
fn mail_list_can_be_paged_and_refuses_too_large_limits() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    for number in 0..5 {
        let message =
            letter("zoe@example.net", "ann@example.org", &format!("number {number}"), "x");
        assert!(client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap()[0].ok());
    }
    let all: Vec<String> =
        bed.list_mail("ann@example.org").into_iter().map(|mail| mail.id).collect();
    let list = ["mail", "list", "-a", "ann@example.org", "--limit", "2"];
    for more in [&[][..], &["--threads"]] {
        let (mut paged, mut page) = (Vec::new(), bed.rows(&[&list, more].concat()));
        while let Some(last) = page.last() {
            assert!(page.len() <= 2);
            let after = last["id"].as_str().unwrap().to_owned();
            paged.extend(page.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
            page = bed.rows(&[&list, more, &["--after", &after]].concat());
        }
        assert_eq!(paged, all, "{more:?}");
    }
    assert_eq!(bed.run(&[&list[..], &["--after", "nonsense"]].concat()).status.code(), Some(64));
    // A limit above what one response can contain is refused rather than ignored.
    for words in [["mail", "list"], ["vacation", "log"]] {
        for (limit, code) in [("10000", 0), ("10001", 64), ("0", 64)] {
            let done =
                bed.run(&[&words[..], &["-a", "ann@example.org", "--limit", limit]].concat());
            assert_eq!(done.status.code(), Some(code), "{words:?} --limit {limit}");
        }
    }
    bed.finish();
}

#[test]
fn closed_output_pipe_is_no_error() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let long = "a long line of a long message\n".repeat(20_000);
    let message = letter("zoe@example.net", "ann@example.org", "long", &long);
    let replies = Client::lmtp(&bed.lmtp())
        .unwrap()
        .deliver("zoe@example.net", &["ann@example.org"], &message)
        .unwrap();
    assert!(replies[0].ok());
    let id = bed.list_mail("ann@example.org")[0].id.clone();
    let file = bed.dir.join("letter.eml");
    fs::write(&file, &message).unwrap();
    bed.run_ok(&["vacation", "set", "-a", "ann@example.org", "--text", "Away."]);
    let ann = ["-a", "ann@example.org"];
    let owned =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    for words in [
        owned(&["completions", "bash"]),
        owned(&["completions", "zsh"]),
        owned(&["manual"]),
        owned(&["--help"]),
        owned(&["--version"]),
        owned(&["config", "example"]),
        owned(&["config", "check"]),
        owned(&["account", "list"]),
        owned(&["account", "show", "ann@example.org"]),
        owned(&["account", "domain"]),
        owned(&["--json", "account", "list"]),
        owned(&[&["vacation", "show"], &ann[..]].concat()),
        owned(&[&["vacation", "log"], &ann[..]].concat()),
        owned(&[&["vacation", "told"], &ann[..]].concat()),
        owned(&[&["vacation", "test"], &ann[..], &[file.to_str().unwrap()]].concat()),
        owned(&[&["mail", "list"], &ann[..]].concat()),
        owned(&[&["mail", "show"], &ann[..], &[&id]].concat()),
        owned(&["queue", "list"]),
        owned(&["check"]),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (reader, writer) = std::io::pipe().unwrap();
        // The reader is gone before the first byte: every write fails.
        drop(reader);
        let done = bed
            .command(&words)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && errors.is_empty(), "{words:?}: {}\n{errors}", done.status);
    }
    // An error message that cannot be written does not change the exit code.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut nobody = bed.command(&["account", "show", "nobody@example.org"]);
    assert_eq!(nobody.stdin(Stdio::null()).stderr(writer).status().unwrap().code(), Some(67));
    // A full disk is an error: part of a message must not pass for the whole.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut show = bed.command(&["mail", "show", "-a", "ann@example.org", &id]);
    assert_eq!(show.stdin(Stdio::null()).stdout(full).status().unwrap().code(), Some(75));
    bed.finish();
}

#[test]
fn completions_and_manual_contain_the_commands() {
    let bed = TestBed::new("");
    let text = |words: &[&str]| String::from_utf8(bed.run_ok(words)).unwrap();
    let manual = text(&["manual"]);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = text(&["completions", shell]);
        for word in ["vacation", "forget", "domain", "completions", "except", "detail-files"] {
            assert!(script.contains(word), "{shell} lacks {word}");
            assert!(manual.contains(word), "the manual lacks {word}");
        }
    }
    // Bash accepts the script.
    let file = bed.dir.join("completions.bash");
    fs::write(&file, text(&["completions", "bash"])).unwrap();
    let probe = format!("set -e; . {}; complete -p restante", file.display());
    let bash = Command::new("bash").args(["--norc", "-c", &probe]).output().unwrap();
    assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stderr));
    assert_eq!(bed.run(&["completions", "tcsh"]).status.code(), Some(64));
    bed.remove();
}
