//! The test bed: a temporary directory with a configuration and a store, and the real program that
//! uses them.
//!
//! - [`TestBed::finish`] stops the service, checks the store and removes the directory.
//! - The directory of a test that failed is kept, and its path is printed.

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

pub(crate) struct TestBed {
    pub(crate) dir: PathBuf,
    /// Environment variables of the program, in addition to those that it inherits.
    pub(crate) env: Vec<(&'static str, String)>,
    /// The umask of the program, in octal. `None` is the umask of the test.
    pub(crate) umask: Option<&'static str>,
    /// The service; `None` while it does not run.
    child: Option<Child>,
    /// Whether the directory was removed.
    finished: bool,
}

/// An email as `mail list --json` returns it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListedEmail {
    pub(crate) id: String,
    pub(crate) subject: String,
}

impl TestBed {
    /// Creates the directory and the configuration; see [`TestBed::configure`]. The service is not
    /// started.
    pub(crate) fn new(more: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("restante-").tempdir().unwrap().keep();
        // Postfix does not run as root and must reach the socket in this directory.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        let bed = Self { dir, env: Vec::new(), umask: None, child: None, finished: false };
        bed.configure(more);
        bed
    }

    /// Writes the configuration: the paths of the store and the sockets, then `more`, which must
    /// not set `lmtp.listen` or `lmtp.hostname`, nor have a header `[store]`, `[control]` or
    /// `[lmtp]`: other keys of these tables are written as `control.administrators = ...`.
    pub(crate) fn configure(&self, more: &str) {
        let lmtp = self.lmtp();
        let text = format!(
            "store.path = {:?}\ncontrol.socket = {:?}\nlmtp.listen = [\"unix:{}\"]\n\
             lmtp.hostname = \"mda.test.example\"\n{more}",
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

    /// What the service has logged since the test bed was made.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Prepares a run of the program with the configuration of this test bed. A command uses the
    /// service if it runs, and otherwise the store itself.
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

    /// Starts the service without waiting until it is ready.
    pub(crate) fn spawn(&mut self) {
        assert!(self.child.is_none(), "the service runs already");
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

    /// Starts the service and waits until it is ready; see [`TestBed::wait_ready`].
    pub(crate) fn start(&mut self) {
        self.spawn();
        self.wait_ready();
    }

    /// Waits until the spawned service answers on its LMTP socket and accepts connections on its
    /// control socket. Fails if the service ends, or after a minute.
    pub(crate) fn wait_ready(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        while Client::lmtp(&self.lmtp()).is_err()
            || UnixStream::connect(self.dir.join("control")).is_err()
        {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                panic!("the service ended: {status}\n{}", tail(&self.log()));
            }
            assert!(Instant::now() < until, "the service does not start:\n{}", tail(&self.log()));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The process id of the service.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Ends the service with SIGKILL.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends the service with SIGTERM, and fails unless it exits with success.
    pub(crate) fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "stopped with {status}:\n{}", tail(&self.log()));
                return;
            }
            assert!(Instant::now() < until, "the service does not stop:\n{}", tail(&self.log()));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends SIGHUP and waits until the service logs `message`. Returns what was logged since the
    /// signal.
    pub(crate) fn reload(&self, message: &str) -> String {
        let before = self.log().len();
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), Signal::HUP).unwrap();
        let new = || self.log().get(before..).unwrap_or_default().to_owned();
        self.wait_until(message, Duration::from_secs(20), || new().contains(message));
        new()
    }

    /// Runs a command, which may fail, without standard input.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub(crate) fn run_ok(&self, arguments: &[&str]) -> Vec<u8> {
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

    /// Runs a command that must succeed with `--json`, and returns its output parsed.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut with = vec!["--json"];
        with.extend(arguments);
        let out = self.run_ok(&with);
        serde_json::from_slice(&out)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out)))
    }

    /// Runs a command that lists something, and returns the rows: the output itself or its first
    /// member that is an array.
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

    pub(crate) fn add_account(&self, address: &str, more: &[&str]) {
        let mut arguments = vec!["account", "add", address];
        arguments.extend(more);
        self.run_ok(&arguments);
    }

    /// The emails in the Inbox of an account, newest first; at most 10000.
    pub(crate) fn list_mail(&self, account: &str) -> Vec<ListedEmail> {
        let rows = self.rows(&["mail", "list", "-a", account, "--limit", "10000"]);
        rows.iter()
            .map(|row| ListedEmail {
                id: row["id"].as_str().unwrap_or_else(|| panic!("no id in {row}")).to_owned(),
                subject: row["subject"].as_str().unwrap_or_default().to_owned(),
            })
            .collect()
    }

    /// What `mail show` prints: the message of an email, with the trace prefix.
    pub(crate) fn show_message(&self, account: &str, id: &str) -> Vec<u8> {
        self.run_ok(&["mail", "show", "-a", account, id])
    }

    /// Waits until `condition` holds, and fails with `what` after `timeout`.
    pub(crate) fn wait_until(
        &self,
        what: &str,
        timeout: Duration,
        mut condition: impl FnMut() -> bool,
    ) {
        let until = Instant::now() + timeout;
        while !condition() {
            assert!(
                Instant::now() < until,
                "not within {timeout:?}: {what}\n{}",
                tail(&self.log())
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Stops the service, checks the store and removes the directory.
    pub(crate) fn finish(mut self) {
        self.stop_and_check();
        self.remove();
    }

    /// Stops the service if it runs, and checks the store.
    pub(crate) fn stop_and_check(&mut self) {
        if self.child.is_some() {
            self.stop();
        }
        self.run_ok(&["check"]);
    }

    /// Removes the directory without checking the store.
    pub(crate) fn remove(mut self) {
        self.finished = true;
        fs::remove_dir_all(&self.dir).unwrap();
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The test has failed already: errors no longer matter.
            child.kill().ok();
            child.wait().ok();
        }
        if !self.finished {
            println!("kept: {}\n{}", self.dir.display(), tail(&self.log()));
        }
    }
}

/// The last 30 lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// The first email id in an LMTP reply: `e` and 13 letters or digits.
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

/// Runs a command with `input` as its standard input, which the command need not read to the end.
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
