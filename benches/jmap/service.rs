//! Runs the service as a child process, and reads what it used from `/proc`.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_restante");

pub(crate) struct Service {
    pub(crate) socket: PathBuf,
    child: Child,
}

impl Service {
    /// Starts the service on the store in a directory. A process can run only one service at a
    /// time, because the folder of the sockets is named after the process.
    pub(crate) fn start(dir: &Path) -> Self {
        // The path of a socket has at most 107 bytes, and that of `dir` may be longer.
        let sockets = std::env::temp_dir().join(format!("restante-bench-{}", std::process::id()));
        fs::remove_dir_all(&sockets).ok();
        fs::create_dir_all(&sockets).expect("the directory");
        let (socket, config) = (sockets.join("http"), dir.join("restante.toml"));
        let text = format!(
            "store.path = {:?}\ncontrol.socket = {:?}\nlmtp.listen = [\"unix:{}\"]\n\
             http.listen = [\"unix:{}\"]\nlog.level = \"warn\"\n",
            dir.join("data"),
            sockets.join("control"),
            sockets.join("lmtp").display(),
            socket.display()
        );
        fs::write(&config, text).expect("the configuration");
        let log = fs::File::create(dir.join("log")).expect("the log");
        let mut command = Command::new(PROGRAM);
        command
            .arg("--config")
            .arg(&config)
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let service = Self { socket, child: command.spawn().expect("the program") };
        let begin = Instant::now();
        while UnixStream::connect(&service.socket).is_err() {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "it does not start; see {}/log",
                dir.display()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        service
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
    }

    /// The CPU time, user and system, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        // The name in parentheses may contain spaces; the text behind it begins with field 3. The
        // times are fields 14 and 15, in ticks of 10 ms.
        let stat = self.read("stat");
        let fields =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
    }

    /// The resident memory now, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
            * 1024
    }

    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        self.child.wait().ok();
        if let Some(folder) = self.socket.parent() {
            fs::remove_dir_all(folder).ok();
        }
    }
}
