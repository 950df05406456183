//! The scripts that are shipped in `sieve/scripts`, as scripts of the site of the real service; and
//! the scripts in a Dovecot home, which are imported.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bed::TestBed;
use crate::mail::{Client, crlf};
use crate::root;
use crate::sink::Sink;

const ANN: &str = "ann@example.org";
const BOB: &str = "bob@example.net";

/// Delivers a message of Bob with these fields.
fn deliver(bed: &TestBed, to: &str, fields: &str) {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let id = format!("<{}@example.net>", NUMBER.fetch_add(1, Ordering::Relaxed));
    let message = format!(
        "Message-ID: {id}\nFrom: {BOB}\nTo: {to}\nDate: Fri, 20 Nov 2026 10:00:00 +0000\n{fields}\n\
         \nhello\n"
    );
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let replies = client.deliver(BOB, &[to], &crlf(message.as_bytes())).unwrap();
    assert_eq!(replies[0].code, 250, "{replies:?}");
}

/// Returns a line for each email in a mailbox, sorted: its subject and its keywords.
fn stored(bed: &TestBed, mailbox: &str) -> Vec<String> {
    let rows = bed.rows(&["mail", "list", "-a", ANN, "--mailbox", mailbox]);
    let line = |row: &serde_json::Value| {
        let words = row["keywords"].as_array().unwrap().iter();
        let words = words.map(|word| format!(" {}", word.as_str().unwrap()));
        format!("{}{}", row["subject"].as_str().unwrap_or_default(), words.collect::<String>())
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.sort();
    lines
}

/// A service for which shipped scripts are those of the site. They are copied into the folders
/// `before.d` and `after.d`. `replaced` are texts of the scripts that a site must edit, and what
/// stands in their place.
fn service(
    before: &[&str],
    after: &[&str],
    replaced: &[(&str, &str)],
    more: &str,
) -> (TestBed, tempfile::TempDir) {
    let site = tempfile::tempdir().unwrap();
    for (folder, names) in [("before.d", before), ("after.d", after)] {
        let folder = site.path().join(folder);
        fs::create_dir(&folder).unwrap();
        for (number, name) in names.iter().enumerate() {
            let script = root().join(format!("sieve/scripts/{name}.sieve"));
            let mut script = fs::read_to_string(script).unwrap();
            for (old, new) in replaced {
                script = script.replace(old, new);
            }
            fs::write(folder.join(format!("{number}0-{name}.sieve")), script).unwrap();
        }
    }
    let mut bed = TestBed::new(&format!(
        "{more}sieve.before = [{:?}]\nsieve.after = [{:?}]\n",
        site.path().join("before.d"),
        site.path().join("after.d")
    ));
    bed.start();
    bed.add_account(ANN, &[]);
    (bed, site)
}

#[test]
fn default_script_files_spam_and_lists() {
    let (bed, _site) = service(&["default"], &[], &[], "");
    deliver(&bed, ANN, "Subject: spam\nX-Spam-Status: Yes, score=9.1");
    deliver(&bed, ANN, "Subject: list\nList-Id: Rust users <Rust-Users.lists.example>");
    deliver(&bed, ANN, "Subject: evil list\nList-Id: <../../x.lists.example>");
    deliver(&bed, ANN, "Subject: robot\nAuto-Submitted: auto-generated");
    assert_eq!(stored(&bed, "Junk"), ["spam"]);
    assert_eq!(stored(&bed, "Lists/rust-users"), ["list"]);
    assert_eq!(stored(&bed, "Inbox"), ["evil list", "robot $auto"]);
    bed.finish();
}

#[test]
fn junk_script_files_spam_unless_the_sender_is_welcome() {
    let (bed, _site) = service(&["junk"], &[], &[("example.org", "example.net")], "");
    deliver(&bed, ANN, "Subject: verdict\nX-Spam-Flag: YES");
    deliver(&bed, ANN, "Subject: high\nX-Spam-Score: 7.3");
    deliver(&bed, ANN, "Subject: low\nX-Spam-Score: 1.0");
    deliver(&bed, ANN, "Subject: negative\nX-Spam-Score: -7.3");
    deliver(
        &bed,
        ANN,
        "Subject: welcome\nX-Spam-Score: 9.0\nAuthentication-Results: mx; dmarc=pass",
    );
    assert_eq!(stored(&bed, "Junk"), ["high $junk", "verdict $junk"]);
    assert_eq!(stored(&bed, "Inbox"), ["low", "negative", "welcome"]);
    bed.finish();
}

#[test]
fn lists_script_files_each_list_and_keeps_what_is_also_for_the_owner() {
    let (bed, _site) = service(&[], &["lists"], &[("me@example.org", "carol@example.org")], "");
    deliver(&bed, "ann+lists.Rust@example.org", "Subject: tagged");
    deliver(&bed, ANN, "Subject: chosen\nList-Id: News <announce.example.org>");
    deliver(&bed, ANN, "Subject: named\nList-Id: <Dev.lists.example>");
    deliver(&bed, ANN, "Subject: both\nCc: carol@example.org\nList-Id: <dev.lists.example>");
    deliver(&bed, ANN, "Subject: nameless\nList-Unsubscribe: <mailto:x@example.net>");
    deliver(&bed, ANN, "Subject: letter");
    assert_eq!(stored(&bed, "Lists/rust"), ["tagged"]);
    assert_eq!(stored(&bed, "Announcements"), ["chosen"]);
    assert_eq!(stored(&bed, "Lists/dev"), ["both", "named"]);
    assert_eq!(stored(&bed, "Lists"), ["nameless"]);
    assert_eq!(stored(&bed, "Inbox"), ["both", "letter"]);
    bed.finish();
}

#[test]
fn subaddress_script_files_into_mailboxes_that_exist() {
    let (bed, _site) = service(&[], &["subaddress"], &[], "");
    for mailbox in ["shop", "Bank"] {
        bed.run_ok(&["mailbox", "create", "-a", ANN, mailbox]);
    }
    deliver(&bed, "ann+shop@example.org", "Subject: exact");
    deliver(&bed, "ann+bank@example.org", "Subject: capital");
    deliver(&bed, "ann+other@example.org", "Subject: unknown");
    deliver(&bed, "ann+trash@example.org", "Subject: to the trash");
    deliver(&bed, "ann+Sent@example.org", "Subject: to the sent mail");
    deliver(&bed, ANN, "Subject: plain");
    assert_eq!(stored(&bed, "shop"), ["exact"]);
    assert_eq!(stored(&bed, "Bank"), ["capital"]);
    assert_eq!(stored(&bed, "Inbox"), ["plain", "to the sent mail", "to the trash", "unknown"]);
    bed.finish();
}

#[test]
fn vacation_script_answers_between_two_days() {
    let relay = Sink::start();
    let relay_settings = format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {}\nrelay.tls = \"none\"\n",
        relay.address.port()
    );
    let dates = [("2026-12-24", "2020-12-24"), ("2027-01-07", "2099-01-07")];
    let (bed, _site) = service(&[], &["vacation"], &dates, &relay_settings);
    // The script answers neither spam nor mail to an address with a detail.
    deliver(&bed, ANN, "Subject: spam\nX-Spam-Flag: YES");
    deliver(&bed, "ann+shop@example.org", "Subject: tagged");
    deliver(&bed, ANN, "Subject: question");
    bed.wait_until("a reply", Duration::from_secs(30), || !relay.messages().is_empty());
    let replies = relay.messages();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].header("Subject").as_deref(), Some("Away until 7 January"));
    assert_eq!(stored(&bed, "Inbox"), ["question", "spam", "tagged"]);
    bed.finish();
}

/// Writes the home of a Dovecot user: a Maildir and scripts, of which `main` is active.
fn write_home(home: &Path) {
    for folder in ["Maildir/cur", "Maildir/.Lists.rust/cur", "sieve"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    fs::write(home.join("Maildir/cur/1.x:2,S"), "Subject: old\n\nhello\n").unwrap();
    let main = "require [\"imapflags\"];\r\nif header :is \"Subject\" \"marked\" {\r\n\
                mark;\r\nfileinto \"Lists/rust\";\r\n}\r\n\
                if header :is \"Subject\" \"lost\" { fileinto \"INBOX.Lists.rust\"; }\r\n";
    fs::write(home.join("sieve/main.sieve"), main).unwrap();
    let broken = "require \"vnd.dovecot.pipe\";\npipe \"x\";\nkeeep;\n";
    fs::write(home.join("sieve/broken.sieve"), broken).unwrap();
    symlink("sieve/main.sieve", home.join(".dovecot.sieve")).unwrap();
}

#[test]
fn scripts_of_a_dovecot_home_are_imported_and_filter() {
    let mut bed = TestBed::new("");
    bed.start();
    bed.add_account(ANN, &[]);
    let home = bed.dir.join("home");
    write_home(&home);
    let home = home.to_str().unwrap().to_owned();
    let import = |more: &[&str]| {
        let arguments = [&["mail", "import", "--json", "-a", ANN], more, &[home.as_str()]].concat();
        let done = bed.run(&arguments);
        // One script has errors.
        assert_eq!(done.status.code(), Some(65), "{}", String::from_utf8_lossy(&done.stderr));
        let summary: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let scripts = summary["scripts"].as_array().unwrap().clone();
        let find = |name: &str| scripts.iter().find(|one| one["name"] == name).unwrap().clone();
        (find("main"), find("broken"), summary)
    };
    let (main, broken, _) = import(&["--dry-run"]);
    assert_eq!((&main["outcome"], &main["valid"]), (&"added".into(), &true.into()), "{main}");
    assert_eq!((&broken["outcome"], &broken["valid"]), (&"added".into(), &false.into()));
    deliver(&bed, ANN, "Subject: marked");
    assert_eq!(stored(&bed, "Inbox"), ["marked"]);

    for outcome in ["added", "there"] {
        let (main, broken, summary) = import(&[]);
        assert_eq!(summary["failed"], 0, "{summary}");
        assert_eq!((&main["outcome"], &main["active"]), (&outcome.into(), &true.into()), "{main}");
        // `imapflags` became `imap4flags`, and a `require` for `fileinto` was added.
        assert_eq!(main["changes"].as_array().unwrap().len(), 2, "{main}");
        let note = main["notes"][0].as_str().unwrap();
        assert!(
            note.contains("INBOX.Lists.rust") && note.contains("called `Lists/rust`"),
            "{note}"
        );
        assert_eq!(broken["outcome"], outcome, "{broken}");
        assert_eq!(broken["active"], false, "{broken}");
        let diagnostics = broken["diagnostics"].to_string();
        for part in ["vnd.dovecot.pipe", "line 2, column 1", "keeep"] {
            assert!(diagnostics.contains(part), "{part}: {diagnostics}");
        }
    }
    deliver(&bed, ANN, "Subject: marked");
    deliver(&bed, ANN, "Subject: lost");
    assert_eq!(stored(&bed, "Lists/rust"), ["marked $flagged"]);
    assert_eq!(stored(&bed, "Inbox"), ["lost", "marked", "old $seen"]);
    // Without --json, the same is printed as text.
    let done = bed.run(&["mail", "import", "-a", ANN, &home]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.contains("script \"main\": there already, active"), "{text}");
    assert!(text.contains("with errors, so it cannot be active"), "{text}");
    bed.finish();
}
