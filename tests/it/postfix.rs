//! Behind a real Postfix, started here on loopback with a queue of its own: smtpd, queue, LMTP over the Unix socket,
//! store, reply, Postfix again, and delivered to the sender's account.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{Bed, PROGRAM};
use crate::mail::{Client, Reply, letter};
use crate::{lacking, program};

const DAEMONS: &str = "/usr/lib/postfix/sbin";

struct Postfix {
    dir: PathBuf,
    port: u16,
    master: Child,
}

impl Postfix {
    fn start(dir: &Path, port: u16, lmtp: &Path) -> Self {
        let dir = dir.join("postfix");
        let (conf, queue, data) = (dir.join("conf"), dir.join("queue"), dir.join("data"));
        for folder in [&conf, &queue, &data] {
            fs::create_dir_all(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(Command::new("chown").arg("postfix").arg(&data).status().unwrap().success());
        let main = format!(
            "compatibility_level = 3.6
queue_directory = {queue}
data_directory = {data}
command_directory = /usr/sbin
daemon_directory = {DAEMONS}
mail_owner = postfix
setgid_group = postdrop
maillog_file = {log}
maillog_file_prefixes = {log}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtp_dns_support_level = disabled
smtpd_peername_lookup = no
myhostname = mx.test.example
mydestination =
mynetworks = 127.0.0.0/8
alias_maps =
local_recipient_maps =
local_transport = error:no local mail
default_transport = error:no mail leaves this test
minimal_backoff_time = 1s
queue_run_delay = 1s
virtual_mailbox_domains = example.org example.net pipe.example
transport_maps = inline:{{ {{ pipe.example = restante: }} }}
restante_destination_recipient_limit = 1
virtual_transport = lmtp:unix:{lmtp}
lmtp_send_xforward_command = yes
smtpd_relay_restrictions = reject_unauth_destination
smtpd_recipient_restrictions = reject_unauth_destination, reject_unverified_recipient
unverified_recipient_reject_code = 550
address_verify_poll_delay = 1s
",
            queue = queue.display(),
            data = data.display(),
            log = dir.join("log").display(),
            lmtp = lmtp.display(),
        );
        fs::write(conf.join("main.cf"), main).unwrap();
        let mut services = format!("127.0.0.1:{port} inet n - n - - smtpd\n");
        for (name, private, unprivileged, wake, most, command) in [
            ("pickup", "n", "-", "60", "1", "pickup"),
            ("cleanup", "n", "-", "-", "0", "cleanup"),
            ("qmgr", "n", "-", "300", "1", "qmgr"),
            ("rewrite", "-", "-", "-", "-", "trivial-rewrite"),
            ("bounce", "-", "-", "-", "0", "bounce"),
            ("defer", "-", "-", "-", "0", "bounce"),
            ("trace", "-", "-", "-", "0", "bounce"),
            ("verify", "-", "-", "-", "1", "verify"),
            ("flush", "n", "-", "1000?", "0", "flush"),
            ("proxymap", "-", "-", "-", "-", "proxymap"),
            ("proxywrite", "-", "-", "-", "1", "proxymap"),
            ("error", "-", "-", "-", "-", "error"),
            ("retry", "-", "-", "-", "-", "error"),
            ("lmtp", "-", "-", "-", "-", "lmtp"),
            ("anvil", "-", "-", "-", "1", "anvil"),
            ("scache", "-", "-", "-", "1", "scache"),
            ("tlsmgr", "-", "-", "1000?", "1", "tlsmgr"),
        ] {
            writeln!(services, "{name} unix {private} {unprivileged} n {wake} {most} {command}").unwrap();
        }
        services.push_str("postlog unix-dgram n - n - 1 postlogd\n");
        writeln!(services, "restante unix - n n - - pipe\n{}", pipe_options(dir.parent().unwrap())).unwrap();
        fs::write(conf.join("master.cf"), services).unwrap();

        let check = Command::new(program("postfix").unwrap()).arg("-c").arg(&conf).arg("check").output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
        let errors = File::create(dir.join("errors")).unwrap();
        let master = Command::new(Path::new(DAEMONS).join("master"))
            .arg("-c")
            .arg(&conf)
            .arg("-d")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .unwrap();
        let postfix = Self { dir, port, master };
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "Postfix does not come up:\n{}", postfix.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        postfix
    }

    fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        read("errors") + &read("log")
    }

    /// One message over SMTP; the reply to its recipient, or to the data.
    fn send(&self, sender: &str, recipient: &str, message: &[u8]) -> Reply {
        let mut client = Client::smtp(self.port).unwrap();
        assert!(client.command(&format!("MAIL FROM:<{sender}>")).unwrap().ok());
        let to = client.command(&format!("RCPT TO:<{recipient}>")).unwrap();
        if !to.ok() {
            return to;
        }
        assert_eq!(client.command("DATA").unwrap().code, 354);
        client.send(&crate::mail::stuffed(message)).unwrap();
        client.reply().unwrap()
    }
}

/// What the README says of the pipe(8) transport, for the program and the user of a test.
fn pipe_options(bed: &Path) -> String {
    let readme = fs::read_to_string(crate::root().join("README.md")).unwrap();
    let line = readme.lines().find(|line| line.starts_with("  flags=")).expect("the README's line for master.cf");
    let program = format!("{} --config {}", piped(bed).display(), bed.join("restante.toml").display());
    assert!(line.contains(" user=restante ") && line.contains("=/usr/bin/restante "), "{line}");
    line.replace("user=restante", "user=nobody").replace("/usr/bin/restante", &program)
}

/// Where pipe(8), which is not root, finds the program.
fn piped(bed: &Path) -> PathBuf {
    bed.join("program")
}

impl Drop for Postfix {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.master), Signal::TERM).ok();
        self.master.wait().ok();
        if std::thread::panicking() {
            println!("Postfix said:\n{}", self.log());
        }
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn from_smtpd_to_the_store_to_the_reply_and_back() {
    if program("postfix").is_none() || !Path::new(DAEMONS).join("master").exists() {
        return lacking("Postfix");
    }
    if !rustix::process::getuid().is_root() {
        return lacking("root, as whom alone Postfix starts");
    }
    let port = free_port();
    let mut bed = Bed::new(&format!("relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n"));
    bed.start();
    // Under systemd the socket is postfix's own.
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    bed.account("bob@example.org", &["--display-name", "Bob"]);
    bed.account("alice@example.net", &[]);
    bed.ok(&["vacation", "set", "-a", "bob@example.org", "--subject", "Away", "--text", "Back on Monday."]);
    let postfix = Postfix::start(&bed.dir, port, &bed.lmtp());
    let most = Duration::from_secs(60);
    let inbox = |account: &str| bed.mail(account).len();

    // The first message is filed and answered; the answer reaches the sender, by Postfix again.
    let hello = letter("Alice <alice@example.net>", "bob@example.org", "hello", "Are you there?");
    assert_eq!(postfix.send("alice@example.net", "bob@example.org", &hello).code, 250);
    bed.eventually("the message is filed", most, || inbox("bob@example.org") == 1);
    bed.eventually("the reply has come", most, || inbox("alice@example.net") == 1);
    let reply = bed.mail("alice@example.net").remove(0);
    assert_eq!(reply.subject, "Away");
    let text = String::from_utf8(bed.raw("alice@example.net", &reply.id)).unwrap();
    for wanted in ["Return-Path: <>", "Auto-Submitted: auto-replied", "In-Reply-To: <", "Back on Monday."] {
        assert!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    assert!(!text.contains("Are you there?"), "the reply holds the original (RFC 3834 §3.2)");

    // The same person again, a list, and a bounce get none; a stranger does, which shows that the others were passed.
    let second = letter("Alice <alice@example.net>", "bob@example.org", "hello again", "Still there?");
    let plain = letter("list@example.net", "bob@example.org", "news", "To all.");
    let list = [&b"List-Id: <news.example.net>\r\n"[..], &plain[..]].concat();
    let bounce = letter("MAILER-DAEMON@example.net", "bob@example.org", "Undelivered Mail", "It came back.");
    assert_eq!(postfix.send("alice@example.net", "bob@example.org", &second).code, 250);
    assert_eq!(postfix.send("alice@example.net", "bob@example.org", &list).code, 250);
    assert_eq!(postfix.send("", "bob@example.org", &bounce).code, 250);
    bed.eventually("all are filed", most, || inbox("bob@example.org") == 4);
    bed.eventually("nothing waits", most, || bed.rows(&["queue", "list"]).is_empty());
    let reasons: Vec<String> = bed
        .rows(&["vacation", "log", "-a", "bob@example.org"])
        .iter()
        .map(|row| row["reason"].as_str().unwrap_or_default().to_owned())
        .collect();
    for reason in ["already-told", "list", "null-sender"] {
        assert!(reasons.iter().any(|known| known == reason), "{reason} is not among {reasons:?}");
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(inbox("alice@example.net"), 1, "answered more than once");

    // Strangers are refused at the door, not bounced.
    let refused = postfix.send("alice@example.net", "nobody@example.org", &hello);
    assert_eq!(refused.code, 550, "{refused:?}");
    // The queue id of Postfix is in our log (XFORWARD IDENT).
    let queue_id = postfix.log().lines().find_map(|line| {
        let (head, _) = line.split_once(": client=")?;
        Some(head.rsplit(' ').next()?.to_owned())
    });
    assert!(queue_id.is_some_and(|id| bed.log().contains(&id)), "no queue id in\n{}", bed.log());
    drop(postfix);
    bed.finish();
}

#[test]
fn by_pipe_as_the_readme_has_it() {
    if program("postfix").is_none() || !Path::new(DAEMONS).join("master").exists() {
        return lacking("Postfix");
    }
    if !rustix::process::getuid().is_root() {
        return lacking("root, as whom alone Postfix starts");
    }
    let port = free_port();
    let mut bed = Bed::new("control.administrators = [\"nobody\"]\n");
    fs::copy(PROGRAM, piped(&bed.dir)).unwrap();
    bed.start();
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    bed.account("ann@pipe.example", &[]);
    bed.account("alice@example.net", &[]);
    let postfix = Postfix::start(&bed.dir, port, &bed.lmtp());
    let most = Duration::from_secs(60);
    let subjects = |account: &str| bed.mail(account).into_iter().map(|mail| mail.subject).collect::<Vec<_>>();

    let hello = letter("Alice <alice@example.net>", "ann@pipe.example", "hello", "Are you there?");
    assert_eq!(postfix.send("alice@example.net", "ann@pipe.example", &hello).code, 250);
    let bounce = letter("MAILER-DAEMON@example.net", "ann@pipe.example", "from nobody", "It came back.");
    assert_eq!(postfix.send("", "ann@pipe.example", &bounce).code, 250);
    bed.eventually("both are filed", most, || subjects("ann@pipe.example").len() == 2);
    let null = bed.mail("ann@pipe.example").into_iter().find(|mail| mail.subject == "from nobody").unwrap();
    let text = String::from_utf8(bed.raw("ann@pipe.example", &null.id)).unwrap();
    assert!(text.contains("Return-Path: <>\r\n") && text.contains("\r\n\r\nIt came back."), "{text}");

    // One has it, of the other the sender is told.
    let mut client = Client::smtp(port).unwrap();
    for command in ["MAIL FROM:<alice@example.net>", "RCPT TO:<ann@pipe.example>", "RCPT TO:<nobody@pipe.example>"] {
        assert!(client.command(command).unwrap().ok(), "{command}");
    }
    assert_eq!(client.command("DATA").unwrap().code, 354);
    client.send(&crate::mail::stuffed(&letter("alice@example.net", "ann@pipe.example", "to two", "x"))).unwrap();
    assert!(client.reply().unwrap().ok());
    bed.eventually("ann has it", most, || subjects("ann@pipe.example").iter().any(|subject| subject == "to two"));
    bed.eventually("alice is told", most, || subjects("alice@example.net").len() == 1);
    let told = bed.mail("alice@example.net").remove(0);
    let text = String::from_utf8(bed.raw("alice@example.net", &told.id)).unwrap();
    assert!(text.contains("Final-Recipient: rfc822; nobody@pipe.example"), "{text}");
    assert!(text.contains("Status: 5.1.1") && !text.contains("Final-Recipient: rfc822; ann@"), "{text}");

    // While the service is down mail waits.
    bed.stop();
    assert_eq!(
        postfix.send("alice@example.net", "ann@pipe.example", &letter("a@b.example", "x", "late", "x")).code,
        250
    );
    bed.eventually("it was tried", most, || postfix.log().contains("status=deferred"));
    assert!(!postfix.log().contains("dsn=5.3"), "{}", postfix.log());
    drop(postfix);
    bed.finish();
}
