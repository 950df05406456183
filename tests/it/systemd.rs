//! The units, judged by systemd's own tools.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{PROGRAM, TestBed};
use crate::mail::Client;
use crate::{program, report_missing, root};

fn unit(name: &str) -> String {
    fs::read_to_string(root().join("systemd").join(name)).unwrap()
}

/// The mode that systemd-tmpfiles gives a folder.
pub(crate) fn folder_mode(folder: &str) -> String {
    let folders = unit("restante.tmpfiles");
    let mut rows = folders.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|row| row.get(1) == Some(&folder)).unwrap_or_else(|| panic!("no {folder}"))[2]
        .to_owned()
}

#[test]
fn the_service_is_confined() {
    let service = unit("restante.service");
    // With it the control socket could not tell one user from another.
    assert!(!service.lines().any(|line| line.starts_with("PrivateUsers")));
    for line in
        ["Type=notify", "WatchdogSec=60s", "StateDirectory=restante", "RuntimeDirectory=restante"]
    {
        assert!(service.lines().any(|known| known == line), "{line}");
    }
    // The filter is read from the top: what @privileged takes away comes back.
    let filters: Vec<&str> =
        service.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")).collect();
    assert_eq!(
        filters.last(),
        Some(&"@chown"),
        "a socket could not be given to the group of its clients"
    );
    let Some(analyze) = program("systemd-analyze") else {
        return report_missing("systemd-analyze");
    };
    let done = Command::new(analyze)
        .args(["security", "--offline=true", "--no-pager"])
        .arg(root().join("systemd/restante.service"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let level = said
        .lines()
        .find_map(|line| line.split_once("Overall exposure level for restante.service: "))
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok())
        .unwrap_or_else(|| panic!("no level in:\n{said}{}", String::from_utf8_lossy(&done.stderr)));
    assert!(level <= 1.5, "exposure {level}:\n{said}");
}

#[test]
fn the_socket_stands_where_postfix_sees_it() {
    let socket = unit("restante.socket");
    for line in [
        "ListenStream=/var/spool/postfix/private/restante",
        "SocketUser=postfix",
        "SocketMode=0600",
        "FileDescriptorName=lmtp",
    ] {
        assert!(socket.lines().any(|known| known == line), "{line}");
    }
}

#[test]
fn users_and_folders_are_as_the_service_wants_them() {
    assert!(
        unit("restante.sysusers")
            .lines()
            .any(|line| line.starts_with("u ") && line.contains("restante"))
    );
    // The service can give its socket to the group of proxies only as a member of it.
    assert!(unit("restante.sysusers").lines().any(|line| line == "m     restante restante-http"));
    // The commands of every user read the configuration and find the socket; the mail is the
    // service's alone.
    for (folder, mode) in
        [("/etc/restante", "0755"), ("/var/lib/restante", "0700"), ("/run/restante", "0755")]
    {
        assert_eq!(folder_mode(folder), mode, "{folder}");
    }
    assert!(unit("restante.service").lines().any(|line| line == "ConfigurationDirectoryMode=0755"));
}

/// Waits for a line of `sd_notify(3)` that begins so.
fn told(socket: &UnixDatagram, wanted: &str) -> bool {
    let mut buffer = [0u8; 4096];
    while let Ok(length) = socket.recv(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if text.lines().any(|line| line.starts_with(wanted)) {
            return true;
        }
    }
    false
}

#[test]
fn the_service_says_when_it_is_ready_and_when_it_stops() {
    let bed = TestBed::new("");
    let notify = bed.dir.join("notify");
    let socket = UnixDatagram::bind(&notify).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut service = bed
        .command(&["serve"])
        .env("NOTIFY_SOCKET", &notify)
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::null())
        .stderr(fs::File::create(bed.dir.join("log")).unwrap())
        .spawn()
        .unwrap();
    assert!(told(&socket, "READY=1"), "{}", bed.log());
    // Ready means that mail is taken.
    assert!(Client::lmtp(&bed.lmtp()).is_ok());
    assert!(told(&socket, "WATCHDOG=1"), "{}", bed.log());
    kill_process(Pid::from_child(&service), Signal::HUP).unwrap();
    assert!(Client::lmtp(&bed.lmtp()).is_ok());
    kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
    assert!(told(&socket, "STOPPING=1"), "{}", bed.log());
    assert!(service.wait().unwrap().success());
    bed.finish();
}

#[test]
fn a_socket_from_systemd_is_served() {
    let Some(activate) = program("systemd-socket-activate") else {
        return report_missing("systemd-socket-activate");
    };
    let bed = TestBed::new("");
    let passed = bed.dir.join("passed");
    let text = fs::read_to_string(bed.config()).unwrap();
    let unix = format!("unix:{}", bed.lmtp().display());
    fs::write(bed.config(), text.replace(&unix, "fd:lmtp")).unwrap();
    let log = fs::File::create(bed.dir.join("log")).unwrap();
    let mut service = Command::new(activate)
        .arg(format!("--listen={}", passed.display()))
        .args(["--fdname=lmtp", PROGRAM, "--config"])
        .arg(bed.config())
        .arg("serve")
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    bed.wait_until("the socket is there", Duration::from_secs(10), || passed.exists());
    // The first client starts the service, as with a socket unit, and waits for it.
    assert!(Client::lmtp(&passed).is_ok(), "{}", bed.log());
    kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
    assert!(service.wait().unwrap().success(), "{}", bed.log());
    bed.finish();
}
