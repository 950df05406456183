//! Scripts that mail clients generate, from the upload to their effect on a message.
//!
//! The scripts are those of some conformance cases in `sieve/tests/cases/clients`. A client of
//! another author stores each of them, with CRLF line ends, and gets it back byte for byte.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bed::TestBed;
use crate::http::password;
use crate::mail::{Client, crlf};
use crate::managesieve::{certificate, python_with_clients, service_with};
use crate::sink::{Sink, SinkMessage};
use crate::{report_missing, root};

const BOB: &str = "bob@example.net";
const PASSWORD: &str = "s3cret";
/// The mailboxes into which the scripts file mail, except those that a new account has.
const MAILBOXES: [&str; 1] = ["Work"];

/// Returns the script of a conformance case.
fn script_of_case(name: &str) -> String {
    let case = root().join(format!("sieve/tests/cases/clients/{name}.txt"));
    let case = fs::read_to_string(case).unwrap();
    let (_, script) = case.split_once("=== script\n").unwrap();
    let end = script.find("\n===").map_or(script.len(), |end| end + 1);
    script[..end].to_owned()
}

/// A service with ManageSieve, its relay, and a Python with the client's packages.
struct ClientBed {
    bed: TestBed,
    relay: Sink,
    /// The port of ManageSieve.
    port: u16,
    python: std::path::PathBuf,
}

impl ClientBed {
    /// Stores and activates the script of a case in an account of its own. Returns the address of
    /// the account. `replaced` are texts of the script, such as dates that are past, and what
    /// stands in their place.
    fn store(&self, case: &str, replaced: &[(&str, &str)]) -> String {
        let account = format!("{case}@example.org");
        self.bed.add_account(&account, &[]);
        password(&self.bed, &account, PASSWORD);
        for mailbox in MAILBOXES {
            self.bed.run_ok(&["mailbox", "create", "-a", &account, mailbox]);
        }
        let mut script = script_of_case(case);
        for (old, new) in replaced {
            assert!(script.contains(old), "{old} is not in {case}");
            script = script.replace(old, new);
        }
        let file = self.bed.dir.join(format!("{case}.sieve"));
        fs::write(&file, crlf(script.as_bytes())).unwrap();
        let done = Command::new(&self.python)
            .arg(root().join("tests/it/clients/managesieve_store.py"))
            .args([&self.port.to_string(), &account, PASSWORD])
            .arg(&file)
            .env("SSL_CERT_FILE", certificate())
            .output()
            .unwrap();
        let (output, failed) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(output.trim(), "all is well", "{case}: {failed}\n{}", self.bed.log());
        account
    }

    /// Delivers a message of Bob with these fields, and returns the code of the reply.
    fn deliver(&self, account: &str, fields: &str, body: &str) -> u16 {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let id = format!("<{}@example.net>", NUMBER.fetch_add(1, Ordering::Relaxed));
        let message = format!(
            "Message-ID: {id}\nDate: Fri, 20 Nov 2026 10:00:00 +0000\n{fields}\n\n{body}\n"
        );
        let mut client = Client::lmtp(&self.bed.lmtp()).unwrap();
        client.deliver(BOB, &[account], &crlf(message.as_bytes())).unwrap().remove(0).code
    }

    /// Returns the keywords of the emails in a mailbox, a text for each email; "" for one without.
    fn keywords(&self, account: &str, mailbox: &str) -> Vec<String> {
        let rows = self.bed.rows(&["mail", "list", "-a", account, "--mailbox", mailbox]);
        let words = |row: &serde_json::Value| {
            let words = row["keywords"].as_array().unwrap().iter();
            words.map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        rows.iter().map(words).collect()
    }

    /// Waits until the service has sent so many messages, and returns them.
    fn sent(&self, count: usize) -> Vec<SinkMessage> {
        let is_sent = || self.relay.messages().len() >= count;
        self.bed.wait_until("messages are sent", Duration::from_secs(30), is_sent);
        self.relay.messages()
    }
}

#[test]
fn scripts_of_clients_are_stored_run_and_given_back() {
    let Some(python) = python_with_clients() else {
        return report_missing("managesieve and sievelib for Python");
    };
    let relay = Sink::start();
    let (bed, port) = service_with(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {}\nrelay.tls = \"none\"\n",
        relay.address.port()
    ));
    let clients = ClientBed { bed, relay, port, python };
    let none: [&str; 0] = [];

    let ann = clients.store("roundcube-rules", &[]);
    assert_eq!(clients.deliver(&ann, "List-Id: Sieve <sieve.example.org>", "hello"), 250);
    assert_eq!(clients.keywords(&ann, "Work"), [""]);
    assert_eq!(clients.deliver(&ann, "From: boss@example.com\nSubject: Report", "hello"), 250);
    assert_eq!(clients.keywords(&ann, "Inbox"), ["$flagged"]);
    let redirected = clients.sent(1).remove(0);
    assert_eq!(redirected.recipients, ["pager@example.com"]);

    let ann = clients.store("roundcube-several-tests", &[]);
    assert_eq!(clients.deliver(&ann, "From: a@spam.example\nSubject: x", "hello"), 250);
    assert_eq!(clients.keywords(&ann, "Junk"), [""]);
    assert_eq!(clients.deliver(&ann, "From: a@example.com\nSubject: y", "hello"), 250);
    assert_eq!(clients.keywords(&ann, "Inbox"), [""]);

    let ann = clients.store("roundcube-disabled-rule", &[]);
    assert_eq!(clients.deliver(&ann, "From: a@example.com\nSubject: x", "hello"), 250);
    assert_eq!(clients.keywords(&ann, "Inbox"), [""]);
    assert_eq!(clients.keywords(&ann, "Work"), none);

    let ann = clients.store(
        "roundcube-vacation",
        &[("2026-01-20", "2099-01-20"), ("me@example.org", "roundcube-vacation@example.org")],
    );
    let fields = format!("From: {BOB}\nTo: {ann}\nSubject: x");
    assert_eq!(clients.deliver(&ann, &fields, "hello"), 250);
    let reply = clients.sent(2).into_iter().find(|one| one.sender.is_empty()).unwrap();
    assert_eq!(reply.recipients, [BOB]);
    let lines: Vec<&str> = reply.text.lines().collect();
    // The second line of the text is a single dot.
    assert!(lines.contains(&"I am away.") && lines.contains(&"."), "{}", reply.text);
    assert_eq!(clients.keywords(&ann, "Inbox"), [""]);

    let ann = clients.store("nextcloud-filters", &[("sender@example.com", BOB)]);
    assert_eq!(clients.deliver(&ann, &format!("From: {BOB}\nSubject: Hello"), "hello"), 250);
    assert_eq!(clients.keywords(&ann, "Work"), ["$label1"]);

    let ann =
        clients.store("nextcloud-vacation", &[("test@test.org", "nextcloud-vacation@example.org")]);
    let fields = format!("From: {BOB}\nTo: {ann}\nSubject: y");
    assert_eq!(clients.deliver(&ann, &fields, "hello"), 250);
    let replies = clients.sent(3).into_iter().filter(|one| one.sender.is_empty());
    let subjects: Vec<_> = replies.filter_map(|one| one.header("Subject")).collect();
    assert!(subjects.contains(&"On vacation".to_owned()), "{subjects:?}");

    let ann = clients.store("snappymail-rules", &[]);
    assert_eq!(clients.deliver(&ann, "From: news@example.com\nSubject: n", "unsubscribe"), 250);
    assert_eq!(clients.keywords(&ann, "Archive"), ["$seen"]);
    assert_eq!(clients.deliver(&ann, "From: a@example.com\nSubject: Casino", "hello"), 550);
    assert_eq!(clients.keywords(&ann, "Inbox"), none);

    assert_eq!(clients.relay.messages().len(), 3);
    clients.bed.finish();
}
