//! A bed to test in: a directory of its own, a configuration, the real program, and its command
//! line.
//!
//! The directory stays when a test fails, with its path said aloud; [`Bed::finish`] proves the
//! store and removes it.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::mail::{Client, Reply};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_restante");

pub(crate) struct Bed {
    pub(crate) dir: PathBuf,
    /// Beside what the program has of ours.
    pub(crate) env: Vec<(&'static str, String)>,
    /// The umask of the program, in octal, where it is not that of the test.
    pub(crate) umask: Option<&'static str>,
    child: Option<Child>,
    finished: bool,
}

/// An email as `mail list --json` shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) subject: String,
}

impl Bed {
    /// A bed with this configuration besides the places, which it sets itself; `[lmtp]` listens at
    /// [`Bed::lmtp`].
    pub(crate) fn new(more: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("restante-").tempdir().unwrap().keep();
        // Postfix, which is not root, must reach the socket in it.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        let bed = Self { dir, env: Vec::new(), umask: None, child: None, finished: false };
        bed.configure(more);
        bed
    }

    /// Writes the configuration anew. `more` must not hold `[store]`, `[control]` or `lmtp.listen`.
    pub(crate) fn configure(&self, more: &str) {
        let lmtp = self.lmtp();
        let text = format!(
            "store.path = {:?}\ncontrol.socket = {:?}\nlmtp.listen = [\"unix:{}\"]\nlmtp.hostname = \"mda.test.example\"\n{more}",
            self.dir.join("data"),
            self.dir.join("control"),
            lmtp.display(),
        );
        fs::write(self.config(), text).unwrap();
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("restante.toml")
    }

    pub(crate) fn lmtp(&self) -> PathBuf {
        self.dir.join("lmtp")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// A command of the program on this bed's configuration.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(if self.umask.is_some() { "sh" } else { PROGRAM });
        if let Some(umask) = self.umask {
            command.args(["-c", "umask \"$0\" && exec \"$@\"", umask, PROGRAM]);
        }
        command
            .arg("--config")
            .arg(self.config())
            .args(arguments)
            .env_remove("NOTIFY_SOCKET")
            .env("TZ", "UTC");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the service, and does not wait for it.
    pub(crate) fn spawn(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let log = File::options().create(true).append(true).open(self.dir.join("log")).unwrap();
        let child = self
            .command(&["serve"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Starts the service and waits until both sockets answer.
    pub(crate) fn start(&mut self) {
        self.spawn();
        self.wait_ready();
    }

    pub(crate) fn wait_ready(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        while Client::lmtp(&self.lmtp()).is_err()
            || UnixStream::connect(self.dir.join("control")).is_err()
        {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                panic!("the service ended: {status}\n{}", tail(&self.log()));
            }
            assert!(Instant::now() < until, "the service does not come up:\n{}", tail(&self.log()));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The process that serves.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM; it must end in order.
    pub(crate) fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "stopped with {status}:\n{}", tail(&self.log()));
                return;
            }
            assert!(Instant::now() < until, "it does not stop:\n{}", tail(&self.log()));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGHUP; returns what it logged once it has said `says` (again).
    pub(crate) fn reload(&self, says: &str) -> String {
        let before = self.log().len();
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), Signal::HUP).unwrap();
        let new = || self.log().get(before..).unwrap_or_default().to_owned();
        self.eventually(says, Duration::from_secs(20), || new().contains(says));
        new()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// A command that must succeed; what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Vec<u8> {
        let done = self.run(arguments);
        assert!(
            done.status.success(),
            "{arguments:?}: {}\n{}\nlog:\n{}",
            done.status,
            String::from_utf8_lossy(&done.stderr),
            tail(&self.log())
        );
        done.stdout
    }

    /// The same with `--json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut with = vec!["--json"];
        with.extend(arguments);
        let out = self.ok(&with);
        serde_json::from_slice(&out)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out)))
    }

    /// The rows of a listing, whether it stands alone or under a key.
    pub(crate) fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        match self.json(arguments) {
            Value::Array(rows) => rows,
            Value::Object(object) => object
                .into_iter()
                .find_map(
                    |(_, value)| if let Value::Array(rows) = value { Some(rows) } else { None },
                )
                .unwrap_or_default(),
            other => panic!("{arguments:?}: {other}"),
        }
    }

    pub(crate) fn account(&self, address: &str, more: &[&str]) {
        let mut arguments = vec!["account", "add", address];
        arguments.extend(more);
        self.ok(&arguments);
    }

    pub(crate) fn mail(&self, account: &str) -> Vec<Listed> {
        let rows = self.rows(&["mail", "list", "-a", account, "--limit", "10000"]);
        rows.iter()
            .map(|row| Listed {
                id: row["id"].as_str().unwrap_or_else(|| panic!("no id in {row}")).to_owned(),
                subject: row["subject"].as_str().unwrap_or_default().to_owned(),
            })
            .collect()
    }

    /// The message as it was received, below our own trace fields.
    pub(crate) fn raw(&self, account: &str, id: &str) -> Vec<u8> {
        self.ok(&["mail", "show", "-a", account, id])
    }

    /// Asks until it is so, or the time is over.
    pub(crate) fn eventually(&self, what: &str, most: Duration, mut so: impl FnMut() -> bool) {
        let until = Instant::now() + most;
        while !so() {
            assert!(Instant::now() < until, "not within {most:?}: {what}\n{}", tail(&self.log()));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The store in order, the service stopped, the directory gone.
    pub(crate) fn finish(mut self) {
        self.prove();
        self.discard();
    }

    /// The service stopped, and the store in order.
    pub(crate) fn prove(&mut self) {
        if self.child.is_some() {
            self.stop();
        }
        self.ok(&["check"]);
    }

    /// The directory gone.
    pub(crate) fn discard(mut self) {
        self.finished = true;
        fs::remove_dir_all(&self.dir).unwrap();
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The test failed already; there is nobody to tell.
            child.kill().ok();
            child.wait().ok();
        }
        if !self.finished {
            println!("kept: {}\n{}", self.dir.display(), tail(&self.log()));
        }
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// The email id that an answer names.
pub(crate) fn email_id(reply: &Reply) -> Option<String> {
    reply
        .text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .find(|word| {
            word.len() == 14
                && word.starts_with('e')
                && word.bytes().skip(1).all(|b| b.is_ascii_alphanumeric())
        })
        .map(str::to_owned)
}

/// Feeds standard input, as far as it is read.
pub(crate) fn feed(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    match child.stdin.take().unwrap().write_all(input) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => {}
    }
    child.wait_with_output().unwrap()
}
