//! Runs the measured program as a child process with an LMTP socket, and reads what it used from
//! `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::load::{Measured, address};

const PROGRAM: &str = env!("CARGO_BIN_EXE_restante");

/// A program that takes mail by LMTP.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// The path of the service; `None` for the sink.
    pub(crate) program: Option<PathBuf>,
    /// A Sieve script that each account has as its active one.
    pub(crate) script: Option<PathBuf>,
}

impl Peer {
    pub(crate) fn sink() -> Self {
        Self { name: "sink".to_owned(), program: None, script: None }
    }

    /// The service that was built with the bench.
    pub(crate) fn service() -> Self {
        Self { name: "service".to_owned(), program: Some(PROGRAM.into()), script: None }
    }

    /// The same service, whose accounts have this script.
    pub(crate) fn filtered(script: &str) -> Self {
        Self { name: "filtered".to_owned(), script: Some(script.into()), ..Self::service() }
    }
}

#[derive(Debug)]
pub(crate) struct Service {
    /// The path of the program; `None` for the sink.
    program: Option<PathBuf>,
    pub(crate) socket: PathBuf,
    config: PathBuf,
    /// The file for the counts of strace; `None` if it is not to count, or is not installed.
    trace: Option<PathBuf>,
    child: Child,
}

/// What a process has used since its start, or since an earlier `Usage`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    /// The number of bytes written to the disk.
    pub(crate) written: u64,
    /// The resident memory now, in bytes.
    pub(crate) resident: u64,
}

impl Usage {
    pub(crate) fn since(self, before: &Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            written: self.written - before.written,
            resident: self.resident,
        }
    }
}

impl Service {
    /// Starts a peer in the directory `dir`, which is emptied, with this number of accounts if it
    /// is a service. With `traced` a service runs under strace, if strace is installed.
    pub(crate) fn start(peer: &Peer, dir: &Path, accounts: usize, traced: bool) -> Self {
        fs::remove_dir_all(dir).ok();
        fs::create_dir_all(dir).expect("the directory");
        // The path of a socket is limited, and `dir` may be too long.
        let sockets = std::env::temp_dir().join(format!("restante-bench-{}", std::process::id()));
        fs::remove_dir_all(&sockets).ok();
        fs::create_dir_all(&sockets).expect("the directory");
        let (socket, config) = (sockets.join("lmtp"), dir.join("restante.toml"));
        let text = format!(
            "store.path = {:?}\ncontrol.socket = {:?}\nlmtp.listen = [\"unix:{}\"]\n\
             log.level = \"warn\"\n",
            dir.join("data"),
            sockets.join("control"),
            socket.display()
        );
        fs::write(&config, text).expect("the configuration");
        let trace = (traced && Command::new("strace").arg("-V").output().is_ok())
            .then(|| dir.join("strace"));
        let mut command = match (&trace, &peer.program) {
            (_, None) => {
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command.arg("sink").arg(&socket).arg(dir.join("sink"));
                command
            }
            (Some(out), Some(program)) => {
                let mut command = Command::new("strace");
                command.args(["-f", "--seccomp-bpf", "-c", "-U", "calls,name"]);
                command.args(["-e", "trace=fsync,fdatasync,sync_file_range", "-o"]).arg(out);
                command.arg(program).arg("--config").arg(&config).arg("serve");
                command
            }
            (None, Some(program)) => {
                let mut command = Command::new(program);
                command.arg("--config").arg(&config).arg("serve");
                command
            }
        };
        let log = fs::File::create(dir.join("log")).expect("the log");
        let child = command
            // The systemd unit sets these, too.
            .envs([("MALLOC_MMAP_THRESHOLD_", "262144"), ("MALLOC_ARENA_MAX", "2")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program");
        let service = Self { program: peer.program.clone(), socket, config, trace, child };
        let begin = Instant::now();
        let control = sockets.join("control");
        while UnixStream::connect(&service.socket).is_err()
            || (peer.program.is_some() && UnixStream::connect(&control).is_err())
        {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "it does not start; see {}/log",
                dir.display()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        if peer.program.is_some() {
            for account in 0..accounts {
                let account = address(account);
                service.command(&["account", "add", &account]);
                if let Some(script) = &peer.script {
                    let script = script.to_str().expect("a path in UTF-8");
                    service.command(&["sieve", "put", "--activate", &account, "main", script]);
                }
            }
        }
        service
    }

    fn command(&self, arguments: &[&str]) -> Vec<u8> {
        let done = Command::new(self.program.as_deref().expect("a service"))
            .arg("--config")
            .arg(&self.config)
            .args(arguments)
            .output()
            .expect("the program");
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    }

    /// Returns what the child process has used. If the service is traced, that is strace.
    pub(crate) fn usage(&self) -> Usage {
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
        };
        let stat = read("stat");
        // The name in parentheses may contain spaces; the text behind it begins with field 3. User
        // and system time are fields 14 and 15, in ticks of 10 ms.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field =
            |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let named = |text: &str, name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Usage {
            cpu_seconds: (field(11) + field(12)) as f64 / 100.0,
            written: named(&read("io"), "write_bytes:"),
            resident: named(&read("status"), "VmRSS:") * 1024,
        }
    }

    /// Panics unless every acknowledged message is stored once, and no other message is stored in
    /// an account that has one of them.
    pub(crate) fn look_up(&self, measured: &Measured) {
        let mut total = 0;
        for (account, numbers) in &measured.acknowledged {
            let mut left: BTreeMap<u64, u32> = numbers.iter().map(|number| (*number, 0)).collect();
            let account = address(*account);
            let mut page = self.page(&account, None);
            while let Some(last) = page.last() {
                let after = last["id"].as_str().expect("an id").to_owned();
                for row in &page {
                    let number = row["subject"]
                        .as_str()
                        .and_then(|text| text.rsplit(' ').next()?.parse().ok());
                    let number: u64 =
                        number.unwrap_or_else(|| panic!("not sent by the bench: {row}"));
                    // A message that was not acknowledged counts as a problem if it is stored.
                    *left.entry(number).or_insert(1000) += 1;
                }
                page = self.page(&account, Some(&after));
            }
            let problems: Vec<_> = left.iter().filter(|(_, count)| **count != 1).take(10).collect();
            assert!(problems.is_empty(), "{account}: not stored once: {problems:?}");
            total += numbers.len();
        }
        println!("all {total} are stored, each once");
    }

    /// A page of the mail of an account: the one after this email, or the first.
    fn page(&self, account: &str, after: Option<&str>) -> Vec<serde_json::Value> {
        let mut words = vec!["--json", "mail", "list", "-a", account, "--limit", "10000"];
        words.extend(after.iter().flat_map(|after| ["--after", *after]));
        serde_json::from_slice(&self.command(&words)).expect("a list")
    }

    pub(crate) fn traced(&self) -> bool {
        self.trace.is_some()
    }

    pub(crate) fn stop(mut self) {
        self.end();
    }

    /// Stops the service, and returns the number of calls of fsync and fdatasync that strace
    /// counted.
    pub(crate) fn stop_and_count(mut self) -> u64 {
        // Stops the program under strace instead of strace, so that it shuts down properly.
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let inner = fs::read_to_string(children).unwrap_or_default();
        if let Some(pid) =
            inner.split_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?))
        {
            kill_process(pid, Signal::TERM).ok();
            self.child.wait().ok();
        }
        self.end();
        let summary =
            self.trace.as_ref().and_then(|out| fs::read_to_string(out).ok()).unwrap_or_default();
        let counts = summary.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (count, name) = (words.next()?, words.next()?);
            if matches!(name, "fsync" | "fdatasync") { count.parse::<u64>().ok() } else { None }
        });
        counts.sum()
    }

    fn end(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
            self.child.wait().ok();
        }
        if let Some(folder) = self.socket.parent() {
            fs::remove_dir_all(folder).ok();
        }
    }
}
