//! Starts a real Postfix on loopback, with its own queue and configuration.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::mail::{Client, Reply};
use crate::{program, report_missing};

/// Where Debian installs the programs of Postfix that `master` starts.
const DAEMONS: &str = "/usr/lib/postfix/sbin";

pub(crate) struct Postfix {
    dir: PathBuf,
    port: u16,
    master: Child,
}

impl Postfix {
    /// Starts a Postfix on `port` that delivers mail for `example.org` and `example.net` to the
    /// socket `lmtp`, and mail for `pipe.example` by the pipe(8) transport of the README. The
    /// parameters in `more`, each on a line `name = value`, replace those of the test's main.cf.
    pub(crate) fn start(dir: &Path, port: u16, lmtp: &Path, more: &str) -> Self {
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
        // Every parameter may occur only once: every daemon warns about a repeated one, and the
        // warning of postlogd waits for postlogd itself.
        let key = |line: &str| line.split_once(" = ").map(|(key, _)| key.to_owned());
        let new: Vec<String> = more.lines().filter_map(key).collect();
        let rest = main.lines().filter(|line| key(line).is_none_or(|key| !new.contains(&key)));
        let main: String = rest.chain(more.lines()).flat_map(|line| [line, "\n"]).collect();
        fs::write(conf.join("main.cf"), main).unwrap();
        let mut services = format!("127.0.0.1:{port} inet n - n - - smtpd\n");
        for (name, private, unprivileged, wake, max_processes, command) in [
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
            ("local", "-", "n", "-", "-", "local"),
            ("anvil", "-", "-", "-", "1", "anvil"),
            ("scache", "-", "-", "-", "1", "scache"),
            ("tlsmgr", "-", "-", "1000?", "1", "tlsmgr"),
        ] {
            writeln!(
                services,
                "{name} unix {private} {unprivileged} n {wake} {max_processes} {command}"
            )
            .unwrap();
        }
        services.push_str("postlog unix-dgram n - n - 1 postlogd\n");
        writeln!(services, "restante unix - n n - - pipe\n{}", pipe_options(dir.parent().unwrap()))
            .unwrap();
        fs::write(conf.join("master.cf"), services).unwrap();

        let check = Command::new(program("postfix").unwrap())
            .arg("-c")
            .arg(&conf)
            .arg("check")
            .output()
            .unwrap();
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
            assert!(Instant::now() < until, "Postfix does not start:\n{}", postfix.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        postfix
    }

    pub(crate) fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        read("errors") + &read("log")
    }

    /// Whether the queue is empty.
    pub(crate) fn is_idle(&self) -> bool {
        self.postqueue("-j").is_empty()
    }

    /// Makes Postfix try every waiting message again at once. Without this, a message that the
    /// queue manager found locked by an earlier attempt ("skipped, still being delivered") waits
    /// for minutes.
    pub(crate) fn flush(&self) {
        self.postqueue("-f");
    }

    /// Runs postqueue(1) with an option, and returns what it printed.
    fn postqueue(&self, option: &str) -> Vec<u8> {
        let mut command = Command::new(program("postqueue").unwrap());
        let done = command.arg("-c").arg(self.dir.join("conf")).arg(option).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    }

    /// Sends one message over SMTP. Returns the reply to RCPT if that is a refusal, otherwise the
    /// reply to the message.
    pub(crate) fn send(&self, sender: &str, recipient: &str, message: &[u8]) -> Reply {
        let mut client = Client::smtp(self.port).unwrap();
        assert!(client.command(&format!("MAIL FROM:<{sender}>")).unwrap().ok());
        let to = client.command(&format!("RCPT TO:<{recipient}>")).unwrap();
        if !to.ok() {
            return to;
        }
        assert_eq!(client.command("DATA").unwrap().code, 354);
        client.send(&crate::mail::dot_stuff(message)).unwrap();
        client.reply().unwrap()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.master), Signal::TERM).ok();
        self.master.wait().ok();
        if std::thread::panicking() {
            println!("log of Postfix:\n{}", self.log());
        }
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Whether Postfix can be started here. Reports what is missing.
pub(crate) fn can_run_postfix() -> bool {
    if program("postfix").is_none() || !Path::new(DAEMONS).join("master").exists() {
        report_missing("Postfix");
        return false;
    }
    if !rustix::process::getuid().is_root() {
        report_missing("the rights of root, which Postfix needs to start");
        return false;
    }
    true
}

/// The README's options of the pipe(8) transport, with the program and the user of the test.
fn pipe_options(bed: &Path) -> String {
    let readme = fs::read_to_string(crate::root().join("README.md")).unwrap();
    let line = readme
        .lines()
        .find(|line| line.starts_with("  flags="))
        .expect("the README's line for master.cf");
    let program =
        format!("{} --config {}", pipe_program(bed).display(), bed.join("restante.toml").display());
    assert!(line.contains(" user=restante ") && line.contains("=/usr/bin/restante "), "{line}");
    line.replace("user=restante", "user=nobody").replace("/usr/bin/restante", &program)
}

/// The path of the copy of the program that pipe(8) runs. Its user need not reach the original.
pub(crate) fn pipe_program(bed: &Path) -> PathBuf {
    bed.join("program")
}
